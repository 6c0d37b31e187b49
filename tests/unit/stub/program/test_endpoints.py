"""Health and metrics of a plugin's process over HTTP."""

from __future__ import annotations

import contextlib
import socket
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import nri
from nri.stub.program.endpoints import Endpoints, counted


@pytest.fixture
def free() -> list[str]:
    """Two addresses that no process listens on."""
    with socket.socket() as one, socket.socket() as two:
        for entry in (one, two):
            entry.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{entry.getsockname()[1]}" for entry in (one, two)]


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{address}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_and_metrics_can_share_an_address(free: list[str]) -> None:
    registry, reporter = counted(None)
    reporter.plugin_answered("10-a", "CreateContainer", 1, b"", 0.25)
    reporter.plugin_failed("10-a", "CreateContainer", 2, ValueError("no"), 0.5)
    with contextlib.closing(Endpoints(lambda: (False, "waits\n"), free[0], free[0], registry)):
        assert get(free[0], "/readyz") == (503, "waits\n")
        text = get(free[0], "/metrics")[1]
    labels = 'operation="CreateContainer",plugin="10-a"'
    assert f'nri_plugin_invocations_total{{error="",{labels},status="success"}} 1.0' in text
    assert f'nri_plugin_invocations_total{{error="other",{labels},status="error"}} 1.0' in text
    assert f"nri_plugin_latency_seconds_sum{{{labels}}} 0.75" in text


def test_a_plugins_metrics_follow_those_of_the_process(free: list[str]) -> None:
    registry, _ = counted(None)
    with contextlib.closing(Endpoints(lambda: (True, ""), None, free[0], registry, lambda: "own_gauge 1\n")):
        assert get(free[0], "/metrics")[1].endswith("own_gauge 1\n")


def test_two_addresses_serve_health_and_metrics_separately(free: list[str]) -> None:
    registry, _ = counted(None)
    with contextlib.closing(Endpoints(lambda: (True, "ready\n"), free[0], free[1], registry)):
        assert [get(address, "/healthz")[0] for address in free] == [200, 200]
        assert [get(address, "/metrics")[0] for address in free] == [404, 200]


def test_an_address_for_health_serves_no_metrics(free: list[str]) -> None:
    with contextlib.closing(Endpoints(lambda: (True, "ready\n"), free[0])):
        assert get(free[0], "/readyz") == (200, "ready\n")
        assert get(free[0], "/metrics")[0] == 404


@pytest.mark.parametrize("flag", ["--health-addr", "--metrics"])
def test_an_occupied_address_is_an_error_that_names_the_flag(free: list[str], flag: str) -> None:
    registry, _ = counted(None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        addresses = (address, free[1]) if flag == "--health-addr" else (free[0], address)
        with pytest.raises(nri.ConfigError, match=f"command line: {flag}: cannot listen on {address}: another process"):
            Endpoints(lambda: (True, ""), *addresses, registry)
    with contextlib.closing(Endpoints(lambda: (True, ""), *free, registry)):  # nothing was left listening
        assert get(free[1], "/healthz")[0] == 200


def test_metrics_without_their_package_are_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(nri.ConfigError, match=r"--metrics: prometheus-client is not installed \(install the extra"):
        counted(None)
