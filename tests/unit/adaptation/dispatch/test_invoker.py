"""Asking one plugin: what comes of an answer, an error, silence, and a connection that is lost."""

from __future__ import annotations

import pytest

import nri
from nri.errors import NriError, PluginError, RpcError
from nri.testing import FakeRuntime, make_container
from tests.support.made_plugins import Mode, Quiet, both


@both
def test_errors_name_plugin(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Quiet())
        with pytest.raises(NriError) as caught:
            runtime.start_container(None, make_container(name="bad"))
    if mode == "reference":  # the name is the plugin's own word, which is all that such a runtime's users get
        assert str(caught.value) == "rpc error: code = Unknown desc = plugin 10-quiet: ValueError: boom"
        assert isinstance(caught.value, RpcError)
    else:
        assert str(caught.value) == "plugin 10-quiet: rpc error: code = Unknown desc = ValueError: boom"
        assert isinstance(caught.value, PluginError)


@both
def test_late_answer_costs_event(mode: Mode) -> None:
    import time

    class Late(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            time.sleep(0.2)

    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Late()).timeout(0.02)
        runtime.start_container()
        assert runtime.health("10-late").state == ("late" if mode == "default" else "gone")
