"""The page and its snapshot: content security policy and escaping."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from nri.inspector.page import MAX_CONTAINERS, headers, page, snapshot
from nri.inspector.sources import Recording, Running, SourceUnavailable


def hashes(html: str) -> set[str]:
    """The hashes of what a browser would run or apply."""
    matches = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", html, re.DOTALL)
    return {"sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in matches}


def test_the_policy_allows_only_the_pages_script_and_style() -> None:
    policy = headers()["Content-Security-Policy"]
    assert set(re.findall(r"sha256-[^']+", policy)) == hashes(page().decode())
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_the_page_uses_no_other_host_and_never_writes_text_as_html() -> None:
    html = page().decode()
    svg_namespace = "http://www.w3.org/2000/svg"
    assert not re.search(r"https?://|//[a-z]+\.", html.replace("// ", "").replace(svg_namespace, ""))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|\son[a-z]+=", html)


def test_a_snapshot_escapes_hostile_names(recording: Recording) -> None:
    html = snapshot(recording).decode()
    assert html.count("<script") == page().decode().count("<script")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None and set(re.findall(r"sha256-[^']+", policy[1])) == hashes(html)
    pattern = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert pattern is not None
    data = json.loads(pattern[1])
    assert data["overview"]["mode"] == "snapshot" and data["overview"]["failed"] == 2
    assert [row["container"] for row in data["events"] if row["event"] == "CreateContainer"] == ["bad", "fight", "app"]
    assert data["chains"]["c1"]["steps"][0]["after"] == "1"
    assert "</script>" in data["containers"]["containers"][0]["pod"]


def test_a_snapshot_has_other_views_or_their_errors(running: Running) -> None:
    def data(source: Running) -> dict[str, Any]:
        pattern = re.search(
            r'<script id="data" type="application/json">(.*?)</script>', snapshot(source).decode(), re.DOTALL
        )
        assert pattern is not None
        document: dict[str, Any] = json.loads(pattern[1])
        return document

    rows = data(running)
    assert rows["views"] == {"agent": {"pods": [{"key": "u1"}]}, "agent/u1": {"pod": "u1"}}
    assert rows["overview"]["views"] == ["agent"]

    class Broken(Running):
        def view(self, name: str, of: str) -> dict[str, Any] | None:
            raise SourceUnavailable("the agent does not answer")

    running.__class__ = Broken
    assert data(running)["views"] == {"agent": {"unanswered": "the agent does not answer"}}


class SmallSource:
    """A source with these events and chains of changes by the ids of containers, and a limit in bytes for each."""

    def __init__(self, events: list[dict[str, Any]], chains: dict[str, Any], snapshot_bytes: int) -> None:
        self.events, self.chains, self.snapshot_bytes = events, chains, snapshot_bytes

    def overview(self) -> dict[str, Any]:
        return {"problems": ["one block is cut"], "views": ["agent"]}

    def rows(self, max_rows: int, _max_full: int) -> list[dict[str, Any]]:
        return self.events[:max_rows]

    def containers(self) -> dict[str, Any]:
        return {"containers": [{"id": ident} for ident in self.chains], "left_out": 2}

    def container(self, ident: str) -> Any:
        return self.chains[ident]

    def view(self, _name: str, of: str) -> dict[str, Any]:
        return {"pod": of} if of else {"pods": [{"key": ident} for ident in self.chains]}


def snapshot_data(source: SmallSource) -> dict[str, Any]:
    match = re.search(r'type="application/json">(.*?)</script>', snapshot(source).decode())  # type: ignore[arg-type]
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def test_a_snapshot_reports_events_and_chains_that_are_above_its_limit_in_bytes() -> None:
    event, other = {"key": "1", "event": "Stop"}, {"key": "2", "event": "Stop"}
    chains = {"c0": None, "c1": {"steps": [1]}, "c2": {"steps": [2] * 20}}
    data = snapshot_data(SmallSource([event, {"key": "1"}, other], chains, len(json.dumps(event))))
    assert data["events"] == [event]
    assert data["chains"] == {"c1": {"steps": [1]}}
    assert [row["id"] for row in data["containers"]["containers"]] == ["c0", "c1", "c2"]
    assert data["overview"]["problems"] == [
        "one block is cut",
        "only the newest 1 events are in this file",
        "the changes of only 1 containers are in this file",
    ]


def test_a_snapshot_has_each_event_once_and_reports_no_problem_within_its_limit() -> None:
    events = [{"key": "1"}, {"key": "2"}, {"key": "1", "event": "Stop"}]
    data = snapshot_data(SmallSource(events, {}, 2 * len(json.dumps(events[0]))))
    assert data["events"] == events[:2] and data["overview"]["problems"] == ["one block is cut"]


def test_a_snapshot_counts_the_containers_above_its_limit() -> None:
    data = snapshot_data(SmallSource([], dict.fromkeys(map(str, range(MAX_CONTAINERS + 3))), 0))
    assert len(data["containers"]["containers"]) == MAX_CONTAINERS and data["containers"]["left_out"] == 5
    assert len(data["views"]) == 1 + MAX_CONTAINERS and f"agent/{MAX_CONTAINERS - 1}" in data["views"]
