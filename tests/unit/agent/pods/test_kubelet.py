"""Pods from the kubelet, with unusual responses. Real kubelets: tests/kubernetes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.agent.pods import kubelet
from nri.agent.pods.kubelet import KubeletPods, pods_of
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import PodSettings
from nri.errors import ConfigError
from nri.kube.lists import MAX_OBJECT_BYTES
from nri.user_agent import user_agent
from tests.support.http_server import HttpServer, body, cut, make_certificate, page, status, stream

PODS = {"kind": "PodList", "items": [{"metadata": {"name": "a", "uid": "1"}}]}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def server(certificate: Path) -> Iterator[HttpServer]:
    with HttpServer().listening(certificate) as created:
        yield created


def source(server: HttpServer, **more: Any) -> KubeletPods:
    return KubeletPods(AgentSettings(pods=PodSettings(kubelet=f"https://127.0.0.1:{server.port}", **more)))


def test_pods_are_queried_with_a_token_that_is_read_every_time(
    server: HttpServer, certificate: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    pods = source(server, kubelet_token=str(token), kubelet_ca=str(certificate))
    server.otherwise = page(PODS)
    pods.ask()
    token.write_text("second\n")
    pods.ask()
    assert (pods.pods(), pods.synced, pods.problem) == ([PODS["items"][0]], True, "")
    assert [requested["headers"]["Authorization"] for requested in server.asked] == ["Bearer first", "Bearer second"]
    assert server.asked[0]["path"] == "/pods"
    assert server.asked[0]["headers"]["User-Agent"] == user_agent()


def test_an_oversized_pod_is_a_problem_and_other_pods_are_known(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    pods = source(server)
    large = {"metadata": {"name": "big", "namespace": "shop", "uid": "2"}, "junk": "x" * MAX_OBJECT_BYTES}
    server.script(page({"items": [large, *PODS["items"]]}), page(PODS))
    pods.ask()
    assert [pod["metadata"]["name"] for pod in pods.pods()] == ["a"]
    assert pods.problem.startswith("1 object omitted: shop/big: its 2097") and pods.problem in caplog.text
    pods.ask()
    assert pods.problem == ""


def test_null_from_the_kubelet_means_no_pods(server: HttpServer) -> None:
    pods = source(server)
    server.script(page({"items": None}))
    pods.ask()
    assert (pods.pods(), pods.synced, pods.problem) == ([], True, "")


def test_a_kubelet_with_another_ca_is_refused(server: HttpServer, tmp_path: Path) -> None:
    pods = source(server, kubelet_ca=str(make_certificate(tmp_path)))
    pods.ask()
    assert "certificate" in pods.problem.lower()
    assert server.asked == []


def test_without_a_ca_any_kubelet_is_accepted_and_sending_a_token_is_a_warning(
    server: HttpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.otherwise = page(PODS)
    pods = source(server)
    pods.ask()
    assert (len(pods.pods()), caplog.text) == (1, "")
    assert "Authorization" not in server.asked[0]["headers"]
    source(server, kubelet_token=str(tmp_path / "token"))
    assert "kubelet_ca is not set" in caplog.text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(401, "Unauthorized"), "check the token"),
        (status(403, "Forbidden"), "rbac.yaml"),
        (status(500, "no"), "HTTP 500"),
        (body(b"{"), "ends too early"),
        (body(b"[" * 100_000), "around them"),
        (page([]), "not a list of pods"),
        (page({"items": [1]}), "not a list of objects"),
        (cut, ""),
    ],
)
def test_an_invalid_response_is_a_problem_and_keeps_the_known_pods(server: HttpServer, answer: Any, words: str) -> None:
    pods = source(server)
    server.script(page(PODS), answer, page({"items": []}))
    pods.ask()
    pods.ask()
    assert f"the kubelet at 127.0.0.1:{server.port}" in pods.problem
    assert words in pods.problem
    assert len(pods.pods()) == 1
    pods.ask()
    assert (pods.problem, pods.pods()) == ("", [])


def test_a_response_is_limited_in_size_and_time(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = source(server)
    monkeypatch.setattr(kubelet, "MAX_LIST_BYTES", 1000)
    server.script(body(b" " * 2000))
    pods.ask()
    assert "larger than 1000" in pods.problem
    monkeypatch.setattr(kubelet, "ANSWER_S", -1.0)
    server.script(page(PODS))
    pods.ask()
    assert "too long" in pods.problem


def test_a_silent_kubelet_times_out(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = source(server)
    monkeypatch.setattr(kubelet, "READ_S", 0.05)
    hold = threading.Event()
    server.script(stream(b" ", hold=hold))
    pods.ask()
    hold.set()
    assert "timed out" in pods.problem


def test_a_missing_token_is_a_problem(server: HttpServer, tmp_path: Path) -> None:
    pods = source(server, kubelet_token=str(tmp_path / "none"))
    pods.ask()
    assert "No such file" in pods.problem


def test_an_unreadable_ca_is_a_config_error(server: HttpServer, tmp_path: Path) -> None:
    for text in (None, "no certificate"):
        path = tmp_path / "ca"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigError, match="CA"):
            source(server, kubelet_ca=str(path))


def test_the_kubelet_is_polled_in_a_thread_also_without_tls(tmp_path: Path) -> None:
    with HttpServer().listening() as plain:
        plain.otherwise = page(PODS)
        settings = AgentSettings(pods=PodSettings(kubelet=f"http://127.0.0.1:{plain.port}", interval=0.01))
        pods = KubeletPods(settings)
        pods.start()
        deadline = time.monotonic() + 20
        while len(plain.asked) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        pods.stop()
    assert len(plain.asked) >= 3
    assert pods.synced


@pytest.mark.parametrize("token", ["SECRET1\nSECRET2", "SECRET\x00", "SECR\N{EURO SIGN}T"])
def test_an_invalid_token_is_never_logged(
    server: HttpServer, certificate: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, token: str
) -> None:
    (tmp_path / "token").write_text(token)
    pods = source(server, kubelet_token=str(tmp_path / "token"), kubelet_ca=str(certificate))
    pods.ask()
    assert "does not contain a token" in pods.problem
    assert "SECR" not in pods.problem + caplog.text


def test_a_response_with_slow_headers_ends_at_its_deadline(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet, "ANSWER_S", 0.4)
    over = threading.Event()

    def trickle(request: Any) -> None:
        request.close_connection = True
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(90):  # http.client takes a hundred
            if over.wait(0.1):
                return
            try:
                request.wfile.write(b"X-%d: a\r\n" % number)
                request.wfile.flush()
            except OSError:
                return

    pods = source(server)
    server.script(trickle)
    before = time.monotonic()
    pods.ask()
    over.set()
    assert time.monotonic() - before < 8
    assert not pods.synced
    assert pods.problem


def test_a_folder_in_the_response_is_ignored() -> None:
    """The API has no such field, so a pod's values would go to the cgroup of another service."""
    data = json.dumps({"items": [{"metadata": {"uid": "u"}, "cgroupParent": "system.slice"}]}).encode()
    assert [*pods_of([data]).objects.values()] == [{"metadata": {"uid": "u"}}]
