"""The engine with its servers: what is there when it listens, and what is left when it cannot."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import DomainConfig, EngineConfig, NriConfig, StreamingConfig
from nri.engine.daemon import Daemon
from nri.engine.support.errors import EngineError


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    nri = NriConfig(disable_connections=True, plugin_path=str(tmp_path / "none"), policy_path="", admin_socket="")
    return EngineConfig(dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri)


def test_it_answers_at_its_socket_until_it_is_stopped(config: EngineConfig) -> None:
    daemon = Daemon(config)
    daemon.start()
    try:
        with CriClient(str(config.socket)) as client:
            assert client.call("Version", pb.VersionRequest()).runtime_name
        assert daemon.streaming.url in daemon.describe()
    finally:
        daemon.stop()
    assert not config.socket.exists()


def test_what_cannot_listen_says_where_and_leaves_nothing(config: EngineConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        daemon = Daemon(replace(config, streaming=StreamingConfig(port=port)))
        with pytest.raises(EngineError, match=f"cannot listen on 127.0.0.1:{port} for exec and attach"):
            daemon.start()
    assert not config.socket.exists()
    second_daemon = Daemon(config)
    second_daemon.start()
    second_daemon.stop()


def test_a_socket_that_is_in_use_is_refused_and_stays(config: EngineConfig) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(config.socket))
        listener.listen()
        daemon = Daemon(config)
        with pytest.raises(EngineError, match=f"cannot listen at {config.socket}"):
            daemon.start()
        assert config.socket.exists()


def test_complaints_of_an_earlier_life_are_in_the_log(config: EngineConfig, caplog: pytest.LogCaptureFixture) -> None:
    (config.root / "records/pods").mkdir(parents=True, mode=0o700)
    (config.root / "records/pods" / f"{'a' * 64}.json").write_text("{")
    daemon = Daemon(config)
    with caplog.at_level(logging.WARNING):
        daemon.start()
        daemon.stop()
    assert "a" * 64 in caplog.text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda nri: replace(nri, disable=True), "NRI is off"),
        (lambda nri: nri, "NRI for plugins in"),
        (lambda nri: replace(nri, disable_connections=False, socket_path="/s"), "NRI at /s"),
        (lambda nri: replace(nri, admin_socket="/a"), "nri why at /a"),
        (lambda nri: nri, "moby's at"),
    ],
)
def test_one_line_says_where_it_listens(
    config: EngineConfig, change: Callable[[NriConfig], NriConfig], says: str
) -> None:
    daemon = Daemon(replace(config, nri=change(config.nri), domains={"moby": DomainConfig()}))
    try:
        line = daemon.describe()
    finally:
        daemon.engine.stop()
    assert says in line
    assert "dry: nothing is run" in line
    assert "\n" not in line
