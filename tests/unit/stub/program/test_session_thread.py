"""A plugin is connected during a `with` block, and a failed start is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import nri
from nri.errors import NriError, RuntimeUnavailable
from nri.stub.program.session_thread import session_thread
from nri.testing import FakeRuntime, make_pod
from tests.support.waiting import wait_for


class Looks(nri.Plugin):
    """Keeps the pods of the initial state."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: list[str] = []

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.pods = [pod.name for pod in pods]


def test_the_plugin_is_connected_during_the_block_and_has_the_state(folder: Path) -> None:
    path, plugin = str(folder / "nri.sock"), Looks()
    with FakeRuntime(socket_path=path, disable_connections=False, pods=[make_pod(name="web")]) as runtime:
        with session_thread(plugin, path, "99", 10.0) as thread:
            assert plugin.pods == ["web"] and thread.is_alive()
            wait_for(lambda: [row.state for row in runtime.plugins] == ["active"], "the plugin")
        wait_for(lambda: [row.state for row in runtime.plugins] == ["gone"], "its end")


def test_a_second_plugin_of_the_same_name_joins_under_the_next_free_name(folder: Path) -> None:
    path = str(folder / "nri.sock")
    with FakeRuntime(socket_path=path, disable_connections=False) as runtime:
        with session_thread(Looks(), path, "99", 10.0), session_thread(Looks(), path, "99", 10.0):
            assert [row.plugin for row in runtime.plugins] == ["99-looks", "99-looks-2"]


def test_a_missing_or_foreign_socket_is_an_error_with_the_next_step(folder: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match="--socket-path"), session_thread(Looks(), f"{folder}/none", "99", 1.0):
        pass
    path = str(folder / "nri.sock")
    with FakeRuntime(socket_path=path, disable_connections=False), pytest.raises(NriError):
        with session_thread(Looks(), path, "no index", 1.0):
            pass


def test_a_disconnect_during_the_start_is_an_error_at_once(listen: Callable[..., str]) -> None:
    with pytest.raises(NriError), session_thread(Looks(), listen(lambda _: None), "99", 60.0):
        pytest.fail("it does not take part")
