"""A runtime is tried and told in rows, against an engine that runs nothing: the machine shows nothing there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cli.support.probe.report import Report
from nri.cli.support.probe.runtime import LIFE, Made, Probe
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RuntimeUnavailable
from nri.host.cgroups import Hierarchies, Hierarchy, detect
from nri.host.root import MACHINE
from tests.unit.cli.dry_engine import engine

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-probe-", dir="/tmp") as made:
        with engine(Path(made)):
            yield Path(made)


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    (folder / "cdi").mkdir()
    with CriClient(f"{folder}/cri.sock") as cri:
        more = {"cdi_dir": str(folder / "cdi"), "own_network": True}
        return Probe(cri, f"{folder}/nri.sock", "busybox", 10.0, lambda _: None, **more).run()  # type: ignore[arg-type]


def rows(report: Report, begin: str) -> dict[str, str]:
    (found,) = [one for one in report.sections if one.title.startswith(begin)]
    return {row.name: row.outcome for row in found.rows}


def test_each_event_of_a_life_has_a_row(report: Report) -> None:
    assert rows(report, "Events") == {**dict.fromkeys(LIFE, "yes"), "in this order": "yes"}


def test_fields_say_which_event_tells_them_first(report: Report) -> None:
    found = rows(report, "Fields")
    assert found["pod.uid"] == "RunPodSandbox" and found["container.started_at"] == "PostStartContainer"
    assert found["container.status_message"] == "never"


def test_what_the_spec_shows_is_applied_and_what_the_machine_does_not_show_is_said(report: Report) -> None:
    found = rows(report, "Adjustments")
    assert found["add_annotation"] == "applied"
    assert found["set_args"].startswith("not measured: "), "a dry engine has no processes"
    assert found["set_blockio_class, no classes configured"].startswith("refused: ")
    assert rows(report, "Around")["Configure tells the timeouts"] == "yes"


def test_an_error_at_an_event_says_which_call_fails(report: Report) -> None:
    found = rows(report, "A plugin's error")
    assert found["CreateContainer"] == "CreateContainer fails"
    assert found["UpdatePodSandbox"] == "UpdatePodSandboxResources fails"
    assert found["PostStartContainer"] == "only logged, if that"


def test_a_late_plugin_and_a_validator_are_told(report: Report) -> None:
    found = rows(report, "A plugin that is late")
    assert found["a validator refuses a container: the creation"] == "fails"
    assert found["late, without a failure policy: the creation"] == "goes on"
    assert found["late, with fail_request and keep_connected: the plugin"] == "stays connected"


def test_nothing_is_left_and_pods_of_others_stay(folder: Path, report: Report) -> None:
    assert report.sections
    with CriClient(f"{folder}/cri.sock") as cri:
        assert len(cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items) == 0
    assert [*(folder / "cdi").iterdir()] == []


def test_a_socket_where_no_plugin_can_join_is_named_with_the_next_step(folder: Path) -> None:
    with (
        CriClient(f"{folder}/cri.sock") as cri,
        pytest.raises(RuntimeUnavailable, match=r"nowhere.sock.*--socket-path"),
    ):
        Probe(cri, f"{folder}/nowhere.sock", "busybox", 1.0, lambda _: None).run()


def test_a_container_is_read_by_its_process_and_what_it_does_not_show_is_an_error(folder: Path) -> None:
    with CriClient(f"{folder}/cri.sock") as cri:
        hierarchies = detect(MACHINE)
        made = Made(cri, hierarchies, "c", folder, os.getpid())
        if hierarchies.of("memory") is not None:
            assert made.cgroup("memory", "memory.limit_in_bytes", "cgroup.type") != ""
        with pytest.raises(NriError, match="OCI spec"):
            made.spec("linux")
        with pytest.raises(NriError, match="no cgroup hierarchy"):
            Made(cri, Hierarchies(MACHINE, ()), "c", folder, os.getpid()).cgroup("memory", "a", "b")
        shown = Made(
            cri, Hierarchies(MACHINE, (Hierarchy(2, "/x", frozenset({"cpu"})),)), "c", folder, 1, {"linux": None}
        )
        assert (shown.spec("linux", "a"), shown.cgroup("cpu", "cpu.shares", "")) == (None, "None")
