"""Desired values and their setters: from a plugin connection, an agent, and a runtime's admin socket."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nri.adaptation.admin_client import AdminClient
from nri.errors import NriError
from nri.service.http import Server, json_answer
from nri.trace.drift import Change, DesiredValue
from nri.trace.drift_sources import Setters, row_of, sources
from tests.support.inspected import Inspected
from tests.support.waiting import wait_for

WRITE = {
    "target": "kubepods/podu1/c1",
    "name": "memory.limit",
    "wanted": "4096",
    "outcome": "applied",
    "container": "app",
}
GONE = {"key": "u2", "namespace": "", "name": "", "ended": True}
POD = {"key": "u1", "namespace": "shop", "name": "web", "ended": False}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-drift-", dir="/tmp") as folder:
        yield Path(folder)


def test_values_come_from_the_runtime_and_the_agent(folder: Path) -> None:
    def explain(request: object) -> object:
        odd = [{**WRITE, "outcome": "refused"}, {**WRITE, "name": "nothing known"}]
        return json_answer({"writes": [WRITE, *odd]} if request else {"pods": [POD, GONE]})

    agent = str(folder / "own-agent.sock")
    with Inspected(folder, "") as node, ExitStack() as stack:
        stack.enter_context(contextlib.closing(Server({"/explain": explain}, path=agent)))  # type: ignore[dict-item]
        node.work()
        values = sources(stack, str(folder / "nri.sock"), agent)
        wait_for(lambda: len(list(values())) == 2, "the container is known")
        rows = [(desired.subject, desired.name, desired.value, desired.source) for desired in values()]
        assert rows == [
            ("shop/web/app", "memory.limit", 64 << 20, "runtime"),
            ("shop/web/app", "memory.limit", 4096, "agent"),
        ]


def test_without_a_runtime_an_agent_suffices_unless_a_socket_is_given(folder: Path) -> None:
    answers = {"/explain": lambda _: json_answer({"pods": []})}
    with contextlib.closing(Server(answers, path=str(folder / "a.sock"))), ExitStack() as stack:
        with pytest.raises(NriError):
            sources(stack, str(folder / "none.sock"), str(folder / "a.sock"))
    with contextlib.closing(Server({}, path=str(folder / "b.sock"))), ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nri.trace.drift_sources.DEFAULT_SOCKET", str(folder / "none.sock"))
            values = sources(stack, None, str(folder / "b.sock"))
        with pytest.raises(NriError, match="is not an agent's socket"):
            list(values())


def test_the_setter_of_a_value_is_a_plugin_or_its_source(folder: Path) -> None:
    change = Change(DesiredValue("shop/web/app", "/x/c1", "memory.limit", 64 << 20, "runtime"), 1, None, 0.0, 1.0, "")
    unknown = change._replace(desired=change.desired._replace(cgroup="/x/c7"), found=None, after_s=1.0)
    with Inspected(folder, "") as node:
        node.work()
        who = Setters(AdminClient(node.admin))
        assert row_of(change, who)["set_by"] == "10-sets"
        row = row_of(unknown, who)
        assert (row["set_by"], row["by"], row["when"]) == ("runtime", "", "00:00:01 to 00:00:01")
    who = Setters(AdminClient(str(folder / "none.sock")))
    assert [who.of(change), who.of(change)] == ["runtime", "runtime"]
