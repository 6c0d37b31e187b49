"""Texts of plugins are one short printable line in errors, logs and health."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation.audit.bounded_log import MAX_LINES
from nri.api import messages as m
from nri.errors import NriError, PluginRejected, RpcError, ValidationRejected
from nri.metrics import Observer
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Code
from tests.support.adapting import register, request, response
from tests.support.waiting import wait_for

ODD = "bad\x1b[2J\x1b]0;title\x07\n2026-01-01 INFO all is well\r\x7f\x9b\u202egnp\u2028"
SHOWN = "bad\\x1b[2J\\x1b]0;title\\a\\n2026-01-01 INFO all is well\\r\\x7f\\u009b\\u202egnp\\u2028"
LONG = "x" * 3_000_000


class Fails(nri.Plugin):
    name = "fails"
    text = ODD

    def create_container(self, pod: Any, container: Any) -> Any:
        raise nri.Reject(self.text)

    def stop_container(self, pod: Any, container: Any) -> Any:
        raise RpcError(Code.NOT_FOUND, self.text)

    def validate_container_adjustment(self, request: Any) -> None:
        raise nri.Reject(self.text)


class Validates(nri.Plugin):
    name = "validates"
    text = ODD

    def validate_container_adjustment(self, request: Any) -> None:
        raise nri.Reject(self.text)


def fits(text: str) -> bool:
    return text.isprintable() and len(text) <= 4096


def check(caplog: pytest.LogCaptureFixture, runtime: FakeRuntime) -> None:
    """Check that each log message and each plugin's last error is one short line."""
    for record in caplog.records:
        if record.name.startswith("nri.adaptation"):
            assert fits(record.getMessage()), record.getMessage()[:500]
    for health in runtime.plugins:
        assert fits(health.last_error), health.last_error[:500]


def test_a_status_of_a_plugin_is_one_line_in_the_error_and_in_health(caplog: pytest.LogCaptureFixture) -> None:
    with FakeRuntime() as runtime:
        runtime.add(Fails())
        with pytest.raises(PluginRejected) as refused:
            runtime.create_container()
        assert (refused.value.reason, str(refused.value)) == (SHOWN, f"plugin 10-fails refused: {SHOWN}")
        with pytest.raises(NriError) as failed:
            runtime.stop_container(make_pod(), make_container())
        assert str(failed.value) == f"plugin 10-fails: NotFound: {SHOWN}"
        assert SHOWN in runtime.health("10-fails").last_error
        check(caplog, runtime)


def test_a_status_of_megabytes_is_shortened_to_one_line_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Fails()
    plugin.text = LONG
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        with pytest.raises(PluginRejected) as refused:
            runtime.create_container()
        assert 900 < len(refused.value.reason) <= 1024
        assert refused.value.reason.endswith("... (cut: 3000025 characters)"), "with the plugin's name in front"
        check(caplog, runtime)


def test_the_reason_of_a_validator_is_one_line() -> None:
    with FakeRuntime() as runtime:
        runtime.add(Validates())
        with pytest.raises(ValidationRejected) as refused:
            runtime.create_container()
        assert refused.value.reason == SHOWN
        assert str(refused.value).endswith(f"reason: {SHOWN}")


@pytest.mark.parametrize("text", [ODD, LONG[:1_000_000]])  # more than a reply to an event may have fails by size
def test_keys_and_containers_in_errors_are_one_line(text: str, caplog: pytest.LogCaptureFixture) -> None:
    class Sets(nri.Plugin):
        def create_container(self, pod: Any, container: Any) -> Any:
            adjustment = m.ContainerAdjustment()
            adjustment.annotations[text] = self.name
            return adjustment

        def stop_container(self, pod: Any, container: Any) -> Any:
            return m.ContainerUpdate(container_id=text)

    with FakeRuntime() as runtime:
        runtime.add(Sets(), idx="10", name="a").add(Sets(), idx="20", name="b")
        with pytest.raises(NriError) as conflict:
            runtime.create_container()
        assert "both tried to set" in str(conflict.value)
        assert fits(str(conflict.value))
        runtime.stop_container(make_pod(), make_container())
        check(caplog, runtime)


def test_a_name_an_index_and_a_version_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with FakeRuntime() as runtime:
        for bad in (m.RegisterPluginRequest(plugin_name=ODD, plugin_idx="10"),
                    m.RegisterPluginRequest(plugin_name="a", plugin_idx=LONG)):  # fmt: skip
            local, remote = socket.socketpair()
            with remote:
                runtime.connect(local)
                remote.sendall(request("RegisterPlugin", bad))
                remote.settimeout(10)
                answer = remote.recv(1 << 20)
                assert b"invalid plugin" in answer
                assert len(answer) < 2000
                assert b"\x1b" not in answer
        local, remote = socket.socketpair()
        with remote:
            runtime.connect(local)
            hello = m.RegisterPluginRequest(plugin_name="v", plugin_idx="10", NRI_version=ODD + LONG)
            remote.sendall(request("RegisterPlugin", hello) + response(1, m.ConfigureResponse()) + response(3))
            wait_for(lambda: any(row.plugin == "10-v" for row in runtime.plugins), "it registers")
            version = runtime.health("10-v").nri_version
            assert version.isprintable()
            assert len(version) <= 64
        check(caplog, runtime)


class Counting(Observer):
    def __init__(self) -> None:
        self.refused: list[str] = []

    def record_refused(self, reason: str) -> None:
        self.refused.append(reason)


def test_refused_connections_are_counted_and_logged_at_a_limited_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nri.adaptation")
    path, counting = str(tmp_path / "nri.sock"), Counting()
    with FakeRuntime(socket_path=path, observer=counting) as runtime:
        socks = []
        try:
            for number in range(200):
                sock = socket.socket(socket.AF_UNIX)
                socks.append(sock)
                sock.connect(path)
                if number % 2:
                    sock.sendall(register("no name!", "10"))
            wait_for(lambda: "registration refused" in counting.refused, "a registration is refused")
            wait_for(lambda: counting.refused.count("not registered") >= 100, "those that do not register make room")
        finally:
            for sock in socks:
                sock.close()
        check(caplog, runtime)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("nri.adaptation")]
    assert len(lines) <= 4 * MAX_LINES, lines
    assert any("registration refused: invalid plugin name" in line for line in lines)
