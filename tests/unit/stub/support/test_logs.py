"""Where a plugin's lines go."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri
from nri.stub.support import logs
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CREATE


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[logging.Logger]:
    """A log that goes to a syslog of our own."""
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "log"))
    handler = logs._syslog()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("tests.syslog")
    logger.setLevel("INFO")
    logger.propagate = False
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    handler.close()


def test_a_pre_installed_plugin_logs_to_syslog(
    log: logging.Logger, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "log"))
        server.settimeout(10)
        log.warning("hello %s", "there")
        assert server.recv(1000) == b"<12>nri-plugin: WARNING hello there\0"
    assert capfd.readouterr().err == ""


def test_what_no_syslog_takes_goes_to_stderr_as_a_line(log: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    """Not as a traceback of logging: these may be the plugin's last words."""
    log.info("connection closed by the runtime: %s", "closed")
    assert capfd.readouterr().err == "INFO connection closed by the runtime: closed\n"


def test_a_mistake_in_a_line_is_still_told(log: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    record = log.makeRecord(log.name, logging.INFO, __file__, 1, "%d", ("no number",), None)
    log.handlers[0].handle(record)  # not by way of the logger: pytest listens there, and raises what it cannot format
    assert "TypeError" in capfd.readouterr().err


def test_log_lines_carry_pod_and_container(caplog: pytest.LogCaptureFixture) -> None:
    class Logs(nri.Plugin):
        def create_container(self, pod, container):
            self.log.warning("100%% %s", "sure")

    with plugin_thread(Logs()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE)
    record = caplog.records[0]
    assert record.getMessage() == "100% sure [pod default/web, container app]"
    assert (record.pod, record.container, record.name) == ("default/web", "app", "nri.plugin.logs")
