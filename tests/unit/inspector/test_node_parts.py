"""Other views of `nri inspect`: runtime, drift, agent and placement."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.adaptation.admin_client import AdminClient
from nri.errors import NriError
from nri.inspector.node_parts import NodeParts
from nri.service.http import Server, text_answer
from nri.testing import FakeRuntime
from tests.support.inspected import Inspected
from tests.support.waiting import wait_for


@pytest.fixture
def node() -> Iterator[Inspected]:
    with tempfile.TemporaryDirectory(prefix="nri-beside-", dir="/tmp") as folder, Inspected(Path(folder), "") as page:
        yield page


def node_parts(folder: Path, agent: str = "agent.sock") -> NodeParts:
    client = AdminClient(str(folder / "admin.sock"))
    return NodeParts(client, str(folder / "nri.sock"), str(folder / agent), str(folder), str(folder / "root"))


def test_drift_names_the_setter_of_a_value_and_is_updated(node: Inspected) -> None:
    node.work()
    with node_parts(node.folder) as parts:
        view = parts.views()["drift"]

        def is_shown() -> object:
            return (view("") or {})["now"]

        wait_for(is_shown, "the container's limit is looked at")
        view_data = view("") or {}
        (row,) = view_data["now"]
        assert (row["subject"], row["knob"], row["set_by"], row["found"]) == (
            "shop/web/app", "memory.limit", "10-sets", 70 << 20)  # fmt: skip
        assert view_data["changes"] == [row] and view_data["looked_at"] == 1
        limit = next((node.root / "sys/fs/cgroup/memory").rglob("memory.limit_in_bytes"))
        limit.write_text(f"{64 << 20}\n")
        wait_for(lambda: not is_shown(), "it is back")
        assert [change["found"] for change in (view("") or {})["changes"]] == [None, 70 << 20]


def test_a_lost_runtime_is_reported_and_joined_again_after_its_restart(node: Inspected) -> None:
    with node_parts(node.folder) as parts:
        view = parts.views()["drift"]

        def fails() -> bool:
            try:
                view("")
            except NriError:
                return True
            return False

        assert not fails()
        node.runtime.close()
        wait_for(fails, "its end")
        with FakeRuntime(socket_path=str(node.folder / "nri.sock"), disable_connections=False):
            wait_for(lambda: not fails(), "the plugin joins anew")


def test_the_agent_view_lists_pods_and_decisions(node: Inspected) -> None:
    view = node_parts(node.folder).views()["agent"]
    assert [pod["key"] for pod in (view("") or {})["pods"]] == ["u1"]
    assert (view("u1") or {})["values"][0]["hook"] == "cpu-normalization"
    assert view("u2") is None


def test_a_socket_of_another_program_is_reported(tmp_path: Path) -> None:
    with contextlib.closing(Server({"/explain": lambda _: text_answer("?")}, path=str(tmp_path / "agent.sock"))):
        with pytest.raises(NriError, match="is not an agent's socket"):
            node_parts(tmp_path).views()["agent"]("")


def test_the_placement_view_has_the_containers_of_each_cpu(node: Inspected) -> None:
    view_data = node_parts(node.folder).views()["placement"]("") or {}
    assert view_data["policy"] == "topology-aware" and len(view_data["machine"]["packages"]) == 2
    assert ["default/app/app"] in view_data["users"].values()


def test_views_of_missing_programs_are_absent(tmp_path: Path) -> None:
    views = node_parts(tmp_path).views()
    assert (views["agent"](""), views["placement"]("")) == (None, None)
    with pytest.raises(NriError):
        views["drift"]("")
