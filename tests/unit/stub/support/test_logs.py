"""The log lines of a plugin: destinations and formats."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
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
    handler = logs.syslog_handler()
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


def test_without_syslog_lines_go_to_stderr(log: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    """The lines must not become a traceback of logging, because they may be the plugin's last ones."""
    log.info("connection closed by the runtime: %s", "closed")
    assert capfd.readouterr().err == "INFO connection closed by the runtime: closed\n"


def test_a_formatting_error_of_a_line_is_reported(log: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    record = log.makeRecord(log.name, logging.INFO, __file__, 1, "%d", ("no number",), None)
    log.handlers[0].handle(record)  # not by way of the logger: pytest listens there, and raises what it cannot format
    assert "TypeError" in capfd.readouterr().err


def test_log_lines_name_pod_and_container(caplog: pytest.LogCaptureFixture) -> None:
    class Logs(nri.Plugin):
        def create_container(self, pod, container):
            self.log.warning("100%% %s", "sure")

    with plugin_thread(Logs()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", CREATE)
    record = caplog.records[0]
    assert record.getMessage() == "100% sure [pod default/web, container app]"
    assert (record.pod, record.container, record.name) == ("default/web", "app", "nri.plugin.logs")


@contextmanager
def new_root() -> Iterator[logging.Logger]:
    """The root logger as a new process has it: in the test itself, because pytest adds its own for each phase."""
    logger = logging.getLogger()
    before, level = logger.handlers, logger.level
    logger.handlers = []
    try:
        yield logger
        for handler in logger.handlers:
            handler.close()
    finally:
        logger.handlers = before
        logger.setLevel(level)


def test_a_log_file_gets_lines_with_time_level_and_logger(tmp_path: Path) -> None:
    with new_root():
        logs.set_up("INFO", file=str(tmp_path / "log"))
        logs.adapter("pin").info("hello")
        logs.adapter("pin").debug("not this")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d .* INFO nri\.plugin\.pin: hello\n", (tmp_path / "log").read_text())


def test_a_program_with_its_own_log_keeps_it(tmp_path: Path) -> None:
    handler = logging.NullHandler()
    with new_root() as root:
        root.addHandler(handler)
        logs.set_up("WARNING", file=str(tmp_path / "log"))
        assert root.handlers == [handler] and root.level == logging.WARNING
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(("use_syslog", "kind"), [(False, "StreamHandler"), (True, "Syslog")])
def test_without_a_file_the_log_goes_to_stderr_or_syslog(use_syslog: bool, kind: str) -> None:
    with new_root() as root:
        logs.set_up(use_syslog=use_syslog)
        assert [type(handler).__name__ for handler in root.handlers] == [kind]


def test_the_json_format_has_one_object_per_line(tmp_path: Path) -> None:
    class Logs(nri.Plugin):
        def create_container(self, pod, container):
            self.log.info("grüße")
            raise KeyError("zone")

    with new_root():
        logs.set_up("INFO", "json", str(tmp_path / "log"))
        with plugin_thread(Logs()) as running:
            running.runtime.begin()
            running.runtime.call("CreateContainer", CREATE)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["level"] for line in lines] == ["info", "error"]
    first, second = lines
    assert (first["pod"], first["container"], first["logger"]) == ("default/web", "app", "nri.plugin.logs")
    assert "grüße" in first["message"] and first["time"].endswith("+00:00")
    assert "KeyError: 'zone'" in second["exception"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_and_newlines_in_a_line_are_escaped(
    form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = logging.Logger("root of the test")  # noqa: LOG001 - without the handlers of pytest
    monkeypatch.setattr(logging, "getLogger", lambda name=None: root)
    logs.set_up("INFO", form, str(tmp_path / "log"))
    odd = "a\x1b[2J\x9b\u202e\n2026-01-01 INFO forged"
    root.info("pod %s\tsaid\nno", odd)
    try:
        raise ValueError(odd)
    except ValueError:
        root.exception("failed")
    for handler in root.handlers:
        handler.close()
    lines = (tmp_path / "log").read_text().split("\n")
    assert all(line.replace("\t", "").isprintable() for line in lines)
    if form == "json":
        assert [json.loads(line)["message"] for line in lines[:2]] == [f"pod {odd}\tsaid\nno", "failed"]
    else:
        first = [line for line in lines if not line.startswith("  ")]
        assert len(first) == 3, first  # two records, and the end
        assert "a\\x1b[2J\\u009b\\u202e" in lines[0]


def test_the_pods_name_in_a_line_is_escaped() -> None:
    observed = []

    class Talks(nri.Plugin):
        def create_container(self, pod: object, container: object) -> None:
            observed.append(self.log.process("hello", {})[0])

    odd = nri.PodSandbox(name="w\x1b[2J\n", namespace="n" * 100_000)
    with plugin_thread(Talks()) as running:
        running.runtime.begin()
        running.runtime.call("CreateContainer", type(CREATE)(pod=odd, container=nri.Container(name="c\u202e")))
    (line,) = observed
    assert line.isprintable()
    assert line.endswith("container c\\u202e]")
    assert len(line) < 1200


def test_a_record_with_several_lines_can_be_logged_as_lines(tmp_path: Path) -> None:
    logger = logging.getLogger("nri.plugin.lines")
    logger.setLevel("INFO")
    logs.send_to_file(logger, str(tmp_path / "log"))
    try:
        logger.info("%s", "one\ntwo\x1b", extra=logs.EACH_LINE)
    finally:
        logs.send_to_file(logger, "")
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.endswith(" INFO nri.plugin.lines: one")
    assert second == first.removesuffix("one") + "two\\x1b"
    assert logger.propagate and not logger.handlers
