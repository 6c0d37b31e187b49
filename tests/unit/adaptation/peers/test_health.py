"""The health of plugins, for people and readiness probes."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from nri.adaptation import BuiltinPlugin
from nri.adaptation.peers.health import PluginHealth, state_word
from nri.adaptation.peers.state import State
from nri.errors import PluginError
from nri.testing import FakeRuntime, make_container
from tests.support.adapting import RawPlugin
from tests.support.made_plugins import Quiet


def test_a_connected_plugin_is_described(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Quiet())
    nri_runtime.start_container()
    row = nri_runtime.health("10-quiet")
    assert (row.kind, row.state, row.stage, row.events) == ("external", "active", "active", "StartContainer")
    assert (row.pid, row.uid, row.missed, row.restarts) == (os.getpid(), os.geteuid(), 0, 0)
    assert row.latency_s > 0
    assert row.last_error == ""


def test_a_plugin_without_a_name_is_described(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime)
    (row,) = nri_runtime.plugins
    assert (row.plugin, row.state, row.stage, row.events) == ("??-plugin", "starting", "connected", "")
    raw.close()


def test_a_builtin_plugin_has_no_user() -> None:
    class Handles:
        def start_container(self, *_: Any) -> None: ...

    with FakeRuntime(builtin=[BuiltinPlugin("10", "in", Handles())]) as runtime:
        row = runtime.health("10-in")
        assert (row.kind, row.uid, row.state) == ("builtin", None, "active")


def test_the_last_error_is_kept(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Quiet())
    with pytest.raises(PluginError):
        nri_runtime.start_container(None, make_container(name="bad"))
    assert "ValueError: boom" in nri_runtime.health("10-quiet").last_error


def test_a_disconnected_plugin_is_still_listed(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Quiet()).disconnect("10-quiet")
    assert nri_runtime.health("10-quiet").state == "gone"


def test_all_steps_of_the_handshake_are_shown_as_starting() -> None:
    words = {state: state_word(state) for state in State}
    assert {state for state, word in words.items() if word == "starting"} == {
        State.CONNECTED,
        State.REGISTERED,
        State.CONFIGURED,
        State.SYNCHRONIZING,
    }
    assert words[State.CRASH_LOOP] == "crash loop"


def test_a_row_is_json_with_every_attribute() -> None:
    row = PluginHealth("10-a", "external", "late", "late", pid=5, events="StartContainer")
    tree = json.loads(json.dumps(row.to_json()))
    assert tree["plugin"] == "10-a" and tree["pid"] == 5 and tree["uid"] is None
    assert set(tree) == set(PluginHealth.__slots__)
