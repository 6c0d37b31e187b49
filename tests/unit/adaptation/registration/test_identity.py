"""Who a plugin says it is: what it may be called, and whether the one that has a name is still there."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from nri.adaptation import BuiltinPlugin
from nri.adaptation.registration.identity import check, is_alive
from nri.api import messages as m
from nri.errors import RpcError
from nri.testing import FakeRuntime
from nri.ttrpc import Code
from tests.support.adapting import RawPlugin
from tests.support.made_plugins import Quiet


def test_a_plugin_whose_predecessor_has_hung_up_takes_its_place(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime, "quiet").join()
    raw.close()
    nri_runtime.add(Quiet())
    nri_runtime.start_container()
    assert [(row.plugin, row.state) for row in nri_runtime.plugins] == [("10-quiet", "active")]


@pytest.mark.parametrize(
    ("name", "index", "text"),
    [
        ("", "10", "invalid plugin name: "),
        ("a/b", "10", "invalid plugin name: "),
        ("x" * 253, "10", "invalid plugin name: 253 characters, at most 252"),
        ("a", "1", "invalid plugin index: "),
        ("a", "x1", "invalid plugin index: "),
    ],
)
def test_what_cannot_be_a_plugins_name_or_index_is_refused(name: str, index: str, text: str) -> None:
    with pytest.raises(RpcError) as caught:
        check(m.RegisterPluginRequest(plugin_name=name, plugin_idx=index))
    assert caught.value.code == Code.UNKNOWN
    assert caught.value.message.startswith(text)


def test_the_longest_name_is_allowed() -> None:
    check(m.RegisterPluginRequest(plugin_name="x" * 252, plugin_idx="10"))
    with pytest.raises(RpcError, match="at most 252"):
        check(m.RegisterPluginRequest(plugin_name="x" * 253, plugin_idx="10"))


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait(10)
    return process.pid


def test_a_plugin_whose_process_has_ended_is_not_alive_though_its_socket_is_open(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime).join()
    peer: Any = nri_runtime.adaptation.registry.find(raw.label)
    assert is_alive(peer)
    peer.pid = ended_process()
    assert not is_alive(peer)
    raw.close()


def test_a_plugin_of_another_user_is_alive_as_long_as_its_process_is(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = RawPlugin(nri_runtime).join()

    def not_ours(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", not_ours)
    assert is_alive(nri_runtime.adaptation.registry.find(raw.label))  # type: ignore[arg-type]
    raw.close()


def test_a_plugin_that_has_hung_up_is_not_alive_before_anybody_has_read_it(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime).join()
    peer: Any = nri_runtime.adaptation.registry.find(raw.label)
    raw.close()
    assert not is_alive(peer)


def test_a_builtin_plugin_is_alive() -> None:
    class Handles:
        def start_container(self, *_: Any) -> None: ...

    with FakeRuntime(builtin=[BuiltinPlugin("10", "in", Handles())]) as runtime:
        assert is_alive(runtime.adaptation.registry.find("10-in"))  # type: ignore[arg-type]


def test_a_plugin_whose_process_has_ended_is_replaced_and_its_connection_closed(nri_runtime: FakeRuntime) -> None:
    first = RawPlugin(nri_runtime).join()
    holder: Any = nri_runtime.adaptation.registry.find(first.label)
    holder.pid = ended_process()
    second = RawPlugin(nri_runtime).join()
    assert first.ended(), "two connections go by one name"
    assert nri_runtime.adaptation.registry.find(first.label) is not holder
    for raw in (first, second):
        raw.close()
