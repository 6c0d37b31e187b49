"""Requests of the connection and invalid replies. tests/apiserver has real API servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.kube.client import NODES, PODS, Apiserver, ApiserverError, connection
from nri.kube.client.http import make_client
from nri.kube.lists import MAX_OBJECT_BYTES
from tests.support.http_server import HttpServer, body, cut, page, status, stream

Closing = Callable[[Apiserver], Apiserver]


def pod(name: str, version: str = "5") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}}


def pods(*names: str, version: str = "7", more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version, "continue": more}, "items": [pod(name) for name in names]}


def line(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


@pytest.fixture
def closing() -> Iterator[Callable[[Apiserver], Apiserver]]:
    """Have a client closed at the end."""
    servers: list[Apiserver] = []

    def keep(api: Apiserver) -> Apiserver:
        servers.append(api)
        return api

    yield keep
    for server in servers:
        server.close()


def maker(kubeconfig: Path) -> Callable[[], Any]:
    return lambda: make_client(str(kubeconfig), "", "")


def watched(api: Apiserver) -> Iterator[str]:
    with api.watch(PODS, "7") as watch:
        for events in watch.events():
            yield from (f"{event.type} {event.object['metadata'].get('name', '')}" for event in events)


def test_a_list_is_requested_page_by_page_with_the_token(server: HttpServer, api: Apiserver) -> None:
    server.script(page(pods("a", "b", more="next")), page(pods("c")))
    cache, version = api.list(PODS, "spec.nodeName=n1", "5")
    assert ([name for _, name in cache.objects], version) == (["a", "b", "c"], "7")
    first, second = server.asked
    assert first["path"] == "/api/v1/pods"
    assert first["headers"]["Authorization"] == "Bearer secret"
    assert first["headers"]["Accept-Encoding"] == "identity", "a few bytes could become many"
    assert first["query"] == {
        "fieldSelector": "spec.nodeName=n1",
        "limit": "500",
        "resourceVersion": "5",
        "resourceVersionMatch": "NotOlderThan",
    }
    assert second["query"] == {"fieldSelector": "spec.nodeName=n1", "limit": "500", "continue": "next"}


def test_a_watch_starts_from_a_version_with_bookmarks(server: HttpServer, api: Apiserver) -> None:
    mark = {"metadata": {"resourceVersion": "9"}}
    server.script(
        stream(
            line("ADDED", pod("a")) + line("MODIFIED", pod("a"))[:9],
            line("MODIFIED", pod("a"))[9:] + line("BOOKMARK", mark),
        )
    )
    assert list(watched(api)) == ["ADDED a", "MODIFIED a", "BOOKMARK "]
    assert server.asked[0]["query"] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (status(403, "pods is forbidden"), 403, "pods is forbidden"),
        (status(429, "slow down", details={"retryAfterSeconds": 7}), 429, "slow down"),
        (body(b"<html>", 502), 502, "HTTP 502"),
        (body(b"x" * 200_000, 500), 500, "HTTP 500"),
        (body(b"", 302, Location="http://elsewhere"), 302, "HTTP 302"),
        (body(b"not json"), 0, "cannot be read"),
        (page([]), 0, "cannot be read"),
        (cut, 0, "http://127.0.0.1"),
    ],
)
def test_an_invalid_reply_is_an_error_with_its_status(
    server: HttpServer, api: Apiserver, answer: Any, code: int, words: str
) -> None:
    server.script(answer)
    with pytest.raises(ApiserverError) as error:
        api.list(PODS)
    assert error.value.status == code
    assert words in str(error.value)
    assert error.value.retry_after_s == (7 if code == 429 else 0)


def test_a_refused_connection_is_an_error(server: HttpServer, api: Apiserver) -> None:
    server.server.socket.close()
    with pytest.raises(ApiserverError) as error:
        api.list(PODS)
    assert error.value.status == 0


def test_an_error_in_a_watch_comes_after_the_events_before_it(server: HttpServer, api: Apiserver) -> None:
    status = {"code": 410, "message": "too old resource version"}
    server.script(stream(line("ADDED", pod("a")) + line("ERROR", status) + line("ADDED", pod("b"))))
    events = watched(api)
    assert next(events) == "ADDED a"
    with pytest.raises(ApiserverError) as error:
        next(events)
    assert error.value.expired


@pytest.mark.parametrize("data", [b"nonsense\n", b'{"type":"ADDED"}\n', b'{"type":"ADDED","object":{"metadata":{}}}\n'])
def test_an_unreadable_event_is_an_error(server: HttpServer, api: Apiserver, data: bytes) -> None:
    server.script(stream(data))
    with pytest.raises(ApiserverError, match="an event cannot be read"):
        list(watched(api))


def test_an_oversized_event_has_a_reason_and_the_next_event_is_read(server: HttpServer, api: Apiserver) -> None:
    large = {"metadata": {"name": "big", "namespace": "ns", "resourceVersion": "8"}, "junk": "x" * MAX_OBJECT_BYTES}
    server.script(stream(line("ADDED", large), line("ADDED", pod("a"))))
    with api.watch(PODS, "7") as watch:
        first, second = [event for events in watch.events() for event in events]
    assert first.object["metadata"]["name"] == "big" and f"limit of {MAX_OBJECT_BYTES}" in first.problem
    assert (second.object["metadata"]["name"], second.problem) == ("a", "")


def test_an_oversized_pod_is_omitted_from_a_list(server: HttpServer, api: Apiserver) -> None:
    tree = pods("a", "big", "c")
    tree["items"][1]["spec"] = {"containers": [{"name": "x" * MAX_OBJECT_BYTES}]}
    server.script(page(tree))
    cache, _ = api.list(PODS)
    assert [name for _, name in cache.objects] == ["a", "c"]
    assert cache.problem.startswith("1 object omitted: ns/big: its 2097")


def test_a_list_has_a_limit_in_bytes(server: HttpServer, api: Apiserver, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(json.dumps(pods("a", more="next")))
    monkeypatch.setattr(connection, "MAX_LIST_BYTES", size + 10)
    server.script(page(pods("a", more="next")), page(pods("a")))
    with pytest.raises(ApiserverError, match="too large"):
        api.list(PODS)


def test_a_slow_reply_ends_at_its_deadline(server: HttpServer, kubeconfig: Path, closing: Closing) -> None:
    now = [0.0]

    def tick() -> float:
        now[0] += 25
        return now[0]

    api = closing(Apiserver(maker(kubeconfig), tick))
    server.script(stream(*(b" " for _ in range(50)), hold=None))
    with pytest.raises(ApiserverError, match=r"takes too long|not JSON"):
        api.list(PODS)


def test_an_endless_watch_ends_with_its_deadline(server: HttpServer, kubeconfig: Path, closing: Closing) -> None:
    now = [0.0]
    hold = threading.Event()
    api = closing(Apiserver(maker(kubeconfig), lambda: now[0]))
    server.script(stream(line("ADDED", pod("a")), hold=hold))
    with api.watch(PODS, "7", lasting_s=100) as watch:
        received = []
        for events in watch.events():
            received += events
            now[0] = 131.0
    hold.set()
    assert len(received) == 1


def test_a_watch_can_be_ended_by_another_thread(server: HttpServer, api: Apiserver) -> None:
    hold, ended = threading.Event(), threading.Event()
    server.script(stream(line("ADDED", pod("a")), hold=hold))

    def read() -> None:
        try:
            for _ in watch.events():
                begun.set()
        except ApiserverError:
            pass
        ended.set()

    begun = threading.Event()
    with api.watch(PODS, "7") as watch:
        thread = threading.Thread(target=read)
        thread.start()
        assert begun.wait(10)
        watch.cut()
        assert ended.wait(5), "the read did not end"
        thread.join()
        watch.cut()
    hold.set()


def test_an_eviction_names_the_pod_and_optionally_uid_and_grace_period(server: HttpServer, api: Apiserver) -> None:
    server.script(page({"kind": "Status"}, 201), page({"kind": "Status"}, 201))
    api.evict("ns", "a", uid="u1", grace_s=5)
    api.evict("ns", "b")
    first, second = server.asked
    assert (first["method"], first["path"]) == ("POST", "/api/v1/namespaces/ns/pods/a/eviction")
    assert first["body"]["kind"] == "Eviction"
    assert first["body"]["deleteOptions"] == {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 5}
    assert second["body"]["deleteOptions"] == {}


def test_a_patch_changes_fields_and_apply_sends_the_whole_object(server: HttpServer, api: Apiserver) -> None:
    server.script(page({"kind": "Status"}), page({"kind": "Status"}), page({"code": 404, "message": "no x"}, 404))
    api.patch("patch a", PODS.object_path("ns", "a", "status"), {"status": {"x": None}})
    api.patch("apply n", NODES.cluster_object_path("n/1"), {"kind": "Node"}, "me")
    with pytest.raises(ApiserverError, match="cannot patch b: no x"):
        api.patch("patch b", NODES.cluster_object_path("b", "status"), {})
    first, second, _ = server.asked
    assert (first["method"], first["path"]) == ("PATCH", "/api/v1/namespaces/ns/pods/a/status")
    assert first["body"] == {"status": {"x": None}}
    assert second["path"].startswith("/api/v1/nodes/n%2F1")


def test_an_invalid_token_appears_in_no_error(
    kubeconfig: Path, closing: Closing, caplog: pytest.LogCaptureFixture
) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace("secret", "SECRET1\\nSECRET2"))
    api = closing(Apiserver(maker(kubeconfig)))
    with pytest.raises(ApiserverError, match="the token is not one line of text") as error:
        api.list(PODS)
    assert "SECRET" not in f"{error.value!r} {error.value.reason} {caplog.text}"


def test_a_slow_error_reply_ends_at_its_deadline(server: HttpServer, kubeconfig: Path, closing: Closing) -> None:
    now = [0.0]
    hold, sent = threading.Event(), list[int]()

    def tick() -> float:
        now[0] += 10
        return now[0]

    def trickle(request: Any) -> None:
        request.send_response(500)
        request.end_headers()
        request.close_connection = True
        while len(sent) < 200 and not hold.wait(0.01):
            sent.append(1)
            try:
                request.wfile.write(b" ")
                request.wfile.flush()
            except OSError:
                return

    api = closing(Apiserver(maker(kubeconfig), tick))
    server.script(trickle, trickle)
    with pytest.raises(ApiserverError, match="HTTP 500"):
        api.list(PODS)
    with pytest.raises(ApiserverError, match="HTTP 500"):
        next(watched(api))
    assert len(sent) < 150
    hold.set()
