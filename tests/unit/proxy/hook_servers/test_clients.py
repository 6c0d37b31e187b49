"""Connections to hook servers."""

from pathlib import Path

import pytest

from nri.proxy.hook_servers.clients import Clients, HookServerError
from tests.support.hook_peers import HookServer

STAGE = "PreRunPodSandbox"


def test_a_server_that_comes_back_is_found_at_the_next_question(tmp_path: Path) -> None:
    server, clients = HookServer(tmp_path / "s"), Clients()
    for _ in range(3):
        with pytest.raises(HookServerError) as caught:
            clients.ask(str(server.path), STAGE, {}, 2.0)
        assert caught.value.absent
        assert len(clients) == 0
        with server.listening():
            assert clients.ask(str(server.path), STAGE, {"labels": {"a": "1"}}, 2.0) == {}
    assert server.asked == [(STAGE, {"labels": {"a": "1"}})] * 3
    clients.close()


def test_a_server_that_is_late_or_refuses_is_no_absent_one(tmp_path: Path) -> None:
    def refuse(_stage: str, _request: object) -> dict[str, str]:
        raise ValueError("bad\npod")

    server, clients = HookServer(tmp_path / "s", refuse), Clients()
    with server.listening():
        with pytest.raises(HookServerError, match=r"/s: bad\\npod$") as caught:
            clients.ask(str(server.path), STAGE, {}, 2.0)
        assert not caught.value.absent
        server.delay_s = 0.5
        with pytest.raises(HookServerError, match=r"no answer to PreRunPodSandboxHook in 0\.05 s") as caught:
            clients.ask(str(server.path), STAGE, {}, 0.05)
        assert not caught.value.absent
    clients.close()


def test_connections_are_bounded_and_the_least_used_goes_first(tmp_path: Path) -> None:
    servers, clients = [HookServer(tmp_path / str(number)) for number in range(3)], Clients(most=2)
    with servers[0].listening(), servers[1].listening(), servers[2].listening():
        for number in (0, 1, 0, 2, 0, 1):
            clients.ask(str(servers[number].path), STAGE, {}, 2.0)
            assert len(clients) <= 2
        assert list(clients._channels) == [str(servers[0].path), str(servers[1].path)]
    clients.close()
    assert len(clients) == 0


def test_a_connection_that_another_thread_has_closed_is_an_absent_server(tmp_path: Path) -> None:
    server, clients = HookServer(tmp_path / "s"), Clients()
    with server.listening():
        clients.ask(str(server.path), STAGE, {}, 2.0)
        clients._channels[str(server.path)].close()
        with pytest.raises(HookServerError) as caught:
            clients.ask(str(server.path), STAGE, {}, 2.0)
        assert caught.value.absent
    clients.close()
