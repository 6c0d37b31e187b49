"""Following objects, with invalid replies. tests/apiserver has real API servers."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from nri.kube.client import PODS, Apiserver, Follower, connection
from nri.kube.lists import MAX_OBJECT_BYTES
from nri.kube.object_cache import ObjectCache
from tests.support.http_server import Answer, HttpServer, body, endless, page, status, stream, truncated
from tests.support.waiting import wait_for


def pod(name: str, version: str = "5") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}}


def pods(*names: str, version: str = "7") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "items": [pod(name) for name in names]}


def event(kind: str, name: str, version: str) -> bytes:
    return json.dumps({"type": kind, "object": pod(name, version)}).encode() + b"\n"


class Updates:
    """All that a follower has updates."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []
        self.problems: list[str] = []

    def __call__(self, objects: Mapping[tuple[str, str], Any]) -> None:
        self.names.append([name for _, name in objects])


@pytest.fixture
def updates() -> Updates:
    return Updates()


@pytest.fixture
def follower(api: Apiserver, updates: Updates) -> Follower:
    return Follower(api, PODS, updates, fields="x=y", on_problem=updates.problems.append, clock=lambda: 0.0)


def test_the_first_list_may_be_cached_and_a_watch_continues_from_it(
    server: HttpServer, follower: Follower, updates: Updates
) -> None:
    server.script(page(pods("a")), stream(event("ADDED", "b", "8"), event("DELETED", "a", "9")))
    follower.run_once()
    assert updates.names[0] == ["a"]
    assert updates.names[-1] == ["b"]
    assert [request["query"].get("resourceVersion") for request in server.asked] == ["0", "7"]
    assert follower.synced


def test_the_follower_is_synced_after_its_listener_has_all_objects(server: HttpServer, api: Apiserver) -> None:
    synced: list[bool] = []
    follower = Follower(api, PODS, lambda _: synced.append(follower.synced))
    server.script(page(pods("a")), stream(event("ADDED", "b", "8")))
    follower.run_once()
    assert (synced[0], follower.synced) == (False, True)


def test_after_an_end_a_watch_resumes_from_the_last_version(
    server: HttpServer, follower: Follower, updates: Updates
) -> None:
    mark = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}}).encode() + b"\n"
    server.script(page(pods("a")), stream(event("MODIFIED", "a", "8")), stream(mark), stream())
    for _ in range(3):
        follower.run_once()
    versions = [request["query"]["resourceVersion"] for request in server.asked if "watch" in request["query"]]
    assert versions == ["7", "8", "12"]
    assert updates.names == [["a"], ["a"]]


def test_a_watch_without_data_is_resumed_and_is_no_problem(
    server: HttpServer, follower: Follower, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server may send no bookmarks: it promises none, and a resource without changes then sends nothing."""
    monkeypatch.setattr(connection, "WATCH_READ_TIMEOUT_S", 0.1)
    hold = threading.Event()
    server.script(page(pods("a")), stream(hold=hold), stream(event("ADDED", "b", "8")))
    follower.run_once()
    follower.run_once()
    hold.set()
    assert updates.problems == []
    assert updates.names[-1] == ["a", "b"]


def test_events_without_a_change_are_not_reported(server: HttpServer, follower: Follower, updates: Updates) -> None:
    server.script(page(pods("a")), stream(event("DELETED", "other", "8")))
    follower.run_once()
    assert updates.names == [["a"]]


def test_an_expired_version_is_listed_again_and_never_older(
    server: HttpServer, follower: Follower, updates: Updates
) -> None:
    server.script(page(pods("a")), status(410, "too old"), page(pods("b", version="20")), stream())
    follower.run_once()
    follower.run_once()
    assert updates.names == [["a"], ["b"]]
    assert server.asked[2]["query"]["resourceVersion"] == "7"
    assert updates.problems == []


def test_an_apiserver_with_only_older_versions_is_accepted_in_the_end(
    server: HttpServer, follower: Follower, updates: Updates
) -> None:
    server.script(page(pods("a", version="90")), status(410, "too old"))
    follower.run_once()
    server.script(status(504, "Too large resource version: 90, current: 3"), page(pods("b", version="3")), stream())
    follower.run_once()
    follower.run_once()
    assert updates.names[-1] == ["b"]
    assert "resourceVersion" not in server.asked[3]["query"]


_PAGE = json.dumps(pods("b", version="20")).encode()
_DEEP = b'{"metadata": {"resourceVersion": "9"}, "items": ' + b"[" * 100_000
#: What an apiserver, or what stands in its place, may send for a list, and for a watch.
UNREADABLE = {
    "text": b"upstream connect error\x1b[2J",
    "nothing": b"",
    "no object": b"[]",
    "null": b"null",
    "no list": b'{"metadata": {"resourceVersion": "9"}, "items": {"a": 1}}',
    "no objects in it": b'{"metadata": {"resourceVersion": "9"}, "items": [7]}',
    "no metadata": b'{"metadata": {"resourceVersion": "9"}, "items": [{"metadata": []}]}',
    "a name that is a number": b'{"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": 7}}]}',
    "a version that is a number": b'{"metadata": {"resourceVersion": 9}, "items": []}',
    "deep": _DEEP,
    "a bit too deep": _DEEP[: -100_000 + 110] + b"]" * 110 + b"}",
    "a number without end": b'{"metadata": {"resourceVersion": "9"}, "items": ' + b"9" * 10_000 + b"}",
    "bytes that are not text": _PAGE.replace(b"ns", b"\xff"),
    "half of a character as bytes": _PAGE.replace(b"ns", b"\xed\xa0\x80"),
}
_LISTS: dict[str, Answer] = {
    **{name: body(data) for name, data in UNREADABLE.items()},
    "cut off": truncated(_PAGE),
    "half of it": body(_PAGE[: len(_PAGE) // 2]),
    "endless": endless(_PAGE * 1000),
}
_EVENTS: dict[str, Answer] = {
    **{name: stream(data + b"\n") for name, data in UNREADABLE.items() if data},
    "no type": stream(b'{"object": {}}\n'),
    "no object of it": stream(b'{"type": "ADDED", "object": 7}\n'),
    "cut off": truncated(event("ADDED", "b", "8")),
    "endless": endless(_PAGE * 1000),
}


@pytest.mark.parametrize("answer", _LISTS.values(), ids=_LISTS)
def test_an_unreadable_list_is_a_problem_and_objects_are_kept(
    server: HttpServer, follower: Follower, updates: Updates, answer: Answer
) -> None:
    server.script(page(pods("a")), status(410, "too old"), answer)
    follower.run_once()
    follower.run_once()
    (problem,) = updates.problems
    assert problem.startswith("cannot list pods") and problem.isprintable() and len(problem) < 2000
    server.script(page(pods("b", version="20")), stream())
    follower.run_once()
    assert updates.names == [["a"], ["b"]], "what was known stays, until an answer can be read"
    assert updates.problems[1:] == [""]


@pytest.mark.parametrize("answer", _EVENTS.values(), ids=_EVENTS)
def test_an_unreadable_watch_is_a_problem_and_is_resumed(
    server: HttpServer, follower: Follower, updates: Updates, answer: Answer
) -> None:
    server.script(page(pods("a")), answer)
    follower.run_once()
    (problem,) = updates.problems
    assert problem.startswith("cannot watch pods") and problem.isprintable() and len(problem) < 2000
    server.script(stream(event("ADDED", "b", "8")))
    follower.run_once()
    assert updates.names == [["a"], ["a", "b"]]
    assert server.asked[-1]["query"]["resourceVersion"] == "7"
    assert updates.problems[1:] == [""]


def test_half_of_a_character_does_not_invalidate_a_list(
    server: HttpServer, follower: Follower, updates: Updates
) -> None:
    server.script(body(_PAGE.replace(b'"b"', rb'"b\ud800"')), stream())
    follower.run_once()
    assert (updates.names, updates.problems) == ([["b\ufffd"]], [])


def test_a_problem_and_its_end_are_reported_once(
    server: HttpServer, follower: Follower, updates: Updates, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(page(pods("a")), stream(), *[status(500, "etcd is gone")] * 3, stream())
    caplog.set_level(logging.INFO)
    for _ in range(5):
        follower.run_once()
    assert [problem[:12] for problem in updates.problems] == ["cannot watch", ""]
    assert updates.names == [["a"]]
    assert "stays in force" not in caplog.text
    assert "is available again" in caplog.text


def test_a_problem_without_a_listener_is_logged_once(
    server: HttpServer, api: Apiserver, updates: Updates, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(*[status(500, "etcd is gone")] * 3)
    follower = Follower(api, PODS, updates)
    for _ in range(3):
        follower.run_once()
    assert len([record for record in caplog.records if "stays in force" in record.message]) == 1


def test_an_unknown_kind_is_absent_until_it_exists(server: HttpServer, follower: Follower) -> None:
    server.script(status(404, "not found"), page(pods()), stream())
    follower.run_once()
    assert (follower.absent, follower.synced) == (True, False)
    follower.run_once()
    assert (follower.absent, follower.synced, follower.problem) == (False, True, "")


def test_pauses_are_random_and_the_requested_pause_is_bounded(server: HttpServer, follower: Follower) -> None:
    server.otherwise = status(500, "broken")
    delays = [follower.run_once() for _ in range(30)]
    assert max(delays) <= 30
    assert max(delays[10:]) > 10
    assert len(set(delays)) == 30
    server.script(
        status(429, "later", details={"retryAfterSeconds": 45}),
        status(429, "later", details={"retryAfterSeconds": 4500}),
    )
    assert follower.run_once() == 45
    assert follower.run_once() == 60


def test_a_long_watch_is_renewed_at_once_and_a_short_watch_after_a_pause(
    server: HttpServer, api: Apiserver, updates: Updates
) -> None:
    now = [0.0]
    follower = Follower(api, PODS, lambda objects: now.__setitem__(0, now[0] + 100), clock=lambda: now[0])
    server.script(page(pods("a")), stream(event("MODIFIED", "a", "8")), stream())
    assert follower.run_once() == 0.0
    assert follower.run_once() > 0.0


def test_oversized_pods_are_omitted(
    server: HttpServer, follower: Follower, updates: Updates, caplog: pytest.LogCaptureFixture
) -> None:
    large = pod("a", "8") | {"status": {"startTime": "x" * MAX_OBJECT_BYTES}}
    grown = json.dumps({"type": "MODIFIED", "object": large}).encode() + b"\n"
    server.script(page(pods("a", "b")), stream(grown), stream(event("MODIFIED", "a", "9")))
    follower.run_once()
    assert (updates.names[-1], follower.problem) == (["b"], "")
    assert follower.left_out.startswith("1 object omitted: ns/a: its 2097") and follower.left_out in caplog.text
    follower.run_once()
    assert (updates.names[-1], follower.left_out) == (["b", "a"], "")
    assert server.asked[-1]["query"]["resourceVersion"] == "8"


def test_the_largest_object_is_omitted_at_the_limit(
    server: HttpServer, api: Apiserver, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectCache.__init__, "__defaults__", (20_000,))
    follower = Follower(api, PODS, updates)
    tree = pods("a", "b")
    tree["items"][0]["status"] = {"startTime": "x" * 6_000}
    tree["items"][1]["status"] = {"startTime": "x" * 15_000}
    server.script(page(tree), stream(event("DELETED", "a", "8")), page(tree), stream())
    follower.run_once()
    assert updates.names[-1] == [] and "ns/b: its 16097 bytes exceed the limit for all objects" in follower.left_out
    follower.run_once()
    assert server.asked[2]["query"]["resourceVersion"] == "8"


def test_a_failing_listener_is_logged_and_gets_the_next_change(
    server: HttpServer, api: Apiserver, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def changed(objects: Mapping[Any, Any]) -> None:
        calls.append(len(objects))
        if len(calls) == 1:
            raise ValueError("odd")

    server.script(page(pods("a")), stream(event("ADDED", "b", "8")))
    Follower(api, PODS, changed).run_once()
    assert calls == [1, 2]
    assert "odd" in caplog.text


def test_a_follower_can_be_stopped_and_started_again(server: HttpServer, api: Apiserver, updates: Updates) -> None:
    hold = threading.Event()
    follower = Follower(api, PODS, updates)
    server.script(page(pods("a")), stream(event("ADDED", "b", "8"), hold=hold))
    follower.start()
    follower.start()
    wait_for(lambda: updates.names and updates.names[-1] == ["a", "b"])
    begun = time.monotonic()
    follower.stop()
    assert time.monotonic() - begun < 5
    assert follower.problem == ""
    follower.stop()
    server.script(stream(event("ADDED", "c", "9"), hold=hold))
    follower.start()
    wait_for(lambda: updates.names[-1] == ["a", "b", "c"])
    follower.stop()
    hold.set()


def test_a_stop_ends_a_pause(server: HttpServer, api: Apiserver, updates: Updates) -> None:
    server.otherwise = status(500, "broken")
    follower = Follower(api, PODS, updates)
    follower.backoff.failures = 20
    follower.start()
    wait_for(lambda: follower.problem)
    begun = time.monotonic()
    follower.stop()
    assert time.monotonic() - begun < 5
