"""The paths that all programs serve."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from nri.metrics.prometheus import PrometheusObserver
from nri.service.http import Server
from nri.service.probes import metrics, probes

READY = [False]


@pytest.fixture
def observer() -> PrometheusObserver:
    return PrometheusObserver(CollectorRegistry())


@pytest.fixture
def server(observer: PrometheusObserver) -> Iterator[Server]:
    registry = CollectorRegistry()
    registry.register(observer)
    handlers = {**probes(lambda: (READY[0], "as it is\n")), **metrics(registry)}
    with contextlib.closing(Server(public=handlers, address="127.0.0.1:0")) as server:
        yield server


def get(server: Server, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), ""


def test_healthz_reports_a_live_process_and_readyz_its_readiness(server: Server) -> None:
    READY[0] = False
    assert get(server, "/healthz")[:2] == (200, "ok\n")
    assert get(server, "/readyz")[:2] == (503, "as it is\n")
    READY[0] = True
    assert get(server, "/readyz")[:2] == (200, "as it is\n")
    assert get(server, "/")[:2] == (404, "not found; existing paths: /healthz, /metrics, /readyz\n")


def test_metrics_are_collected_at_each_scrape(server: Server, observer: PrometheusObserver) -> None:
    for count in (1, 2):
        observer.record_plugin_invocation("10-a", "CreateContainer", None)
        status, text, kind = get(server, "/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert [sample.value for sample in samples if sample.name == "nri_plugin_invocations_total"] == [count]
