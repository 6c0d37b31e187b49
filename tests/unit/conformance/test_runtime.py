"""The conformance test of runtimes, with a dry engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.conformance.fields import SETTERS
from nri.conformance.report import Report
from nri.conformance.runtime import LIFE, Probe, ProbeContainer
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import ConnectionClosed, NriError, RuntimeUnavailable
from nri.host.cgroups import Hierarchies, Hierarchy, detect
from nri.host.root import MACHINE
from nri.stub.plugin import Plugin
from nri.stub.program.session_thread import session_thread
from tests.unit.cli.conftest import command, environment
from tests.unit.cli.dry_engine import engine, pod_with_container

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-probe-", dir="/tmp") as directory:
        with engine(Path(directory)):
            yield Path(directory)


class WithProcesses(CriClient):
    """An engine that shows this process as that of each container but the one which others are compared with."""

    def call(self, method: str, request: Any, *more: Any) -> Any:
        answer = super().call(method, request, *more)
        if method == "ContainerStatus" and answer.status.metadata.name != "plain" and "info" in answer.info:
            answer.info["info"] = json.dumps(json.loads(answer.info["info"]) | {"pid": os.getpid()})
        return answer


def cgroups(folder: Path) -> Hierarchies:
    """The cgroups of this process, replaced by test files: all values match the updates, except pids."""
    hierarchies = detect(MACHINE)
    paths = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for setter in SETTERS.values():
        for _, controllers, path in paths:
            if setter.controller in controllers.split(",") or not controllers:
                for name in (setter.v1_file, setter.v2_file):
                    file = Path(f"{folder}{path}/{name}")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text("1" if setter.controller == "pids" else setter.text)
    return Hierarchies(MACHINE, tuple(replace(row, path=str(folder)) for row in hierarchies.rows))


@pytest.fixture(scope="module")
def report(folder: Path) -> Iterator[Report]:
    (folder / "cdi").mkdir()

    def say(line: str) -> None:
        """Run an unrelated pod when the first check starts."""
        if line == "events":
            pod_with_container(cri, folder)

    with pytest.MonkeyPatch.context() as patched, WithProcesses(f"{folder}/cri.sock") as cri:
        patched.setattr("nri.conformance.runtime.detect", lambda _: cgroups(folder / "cgroups"))
        more = {"cdi_dir": str(folder / "cdi"), "own_network": True}
        yield Probe(cri, f"{folder}/nri.sock", "busybox", 10.0, say, **more).run()  # type: ignore[arg-type]


def rows(report: Report, begin: str) -> dict[str, str]:
    (results,) = [one for one in report.sections if one.title.startswith(begin)]
    return {row.name: row.outcome for row in results.rows}


def test_each_event_has_a_row(report: Report) -> None:
    assert rows(report, "Events") == {**dict.fromkeys(LIFE, "yes"), "in this order": "yes"}


def test_fields_have_the_first_event_that_sends_them(report: Report) -> None:
    outcomes = rows(report, "Fields")
    assert outcomes["pod.uid"] == "RunPodSandbox" and outcomes["container.started_at"] == "PostStartContainer"
    assert outcomes["container.status_message"] == "never"


def test_adjustments_are_applied_or_not_visible(report: Report) -> None:
    outcomes = rows(report, "Adjustments")
    assert outcomes["add_annotation"] == "applied"
    assert outcomes["set_args"].startswith("not measured: "), "a dry engine has no processes"
    assert outcomes["set_blockio_class, no classes configured"].startswith("refused: ")


def test_rows_that_cannot_be_tested_have_a_reason(report: Report) -> None:
    around = rows(report, "Configure")
    assert around["Synchronize of more than 4 MiB is sent in parts"] == "yes"
    why = "not measured: this would require a restart of the runtime"
    for name in ("a pre-installed plugin gets Synchronize", "starts with a pre-installed plugin that cannot start"):
        assert around[name] == why


def test_the_cgroup_shows_whether_an_update_is_applied(report: Report) -> None:
    outcomes = rows(report, "Updates")
    for setter, outcome in (("set_memory_limit", "applied"), ("set_pids_limit", "ignored")):
        if detect(MACHINE).of(SETTERS[setter].controller) is not None:
            assert outcomes[f"{setter}, requested by the plugin"] == outcome
    assert set(outcomes) >= {f"{setter}, requested by the plugin" for setter in SETTERS} | {"an eviction"}


def test_missing_cgroups_and_refused_plugins_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()

    def read_once(container: ProbeContainer, *_: str) -> str:
        if container.id in read:
            raise FileNotFoundError(2, "No such file or directory")
        read.add(container.id)
        return "1"

    def not_in(plugin: Plugin, path: str, index: str, *more: Any) -> Any:
        """As of containerd 1.7, which sends a state only if it fits into one message."""
        if index in ("97", "98"):
            raise ConnectionClosed("the plugin does not come to take part")
        return session_thread(plugin, path, index, *more)

    monkeypatch.setattr(ProbeContainer, "cgroup", read_once)
    monkeypatch.setattr("nri.conformance.runtime.session_thread", not_in)
    with CriClient(f"{folder}/cri.sock") as cri:
        report = Probe(cri, f"{folder}/nri.sock", "busybox", 10.0, lambda _: None).run()
    updates = rows(report, "Updates")
    outcomes = {updates[f"{setter}, requested by the plugin"] for setter in SETTERS}
    assert all("No such file" in text and text.startswith("not measured: ") for text in outcomes), outcomes
    assert rows(report, "Configure")["Synchronize of more than 4 MiB is sent in parts"] == "no"
    late = rows(report, "Late")
    assert late["late in Synchronize: the plugin"] == "not measured: the runtime does not send Synchronize"


def test_a_missing_folder_of_cdi_devices_is_an_error_with_the_option(folder: Path) -> None:
    with CriClient(f"{folder}/cri.sock") as cri, pytest.raises(NriError, match=r"--cdi-dir .*/none: No such file"):
        Probe(cri, f"{folder}/nri.sock", "busybox", 10.0, lambda _: None, cdi_dir=f"{folder}/none").run()


def test_an_error_of_an_event_names_the_failing_call(report: Report) -> None:
    outcomes = rows(report, "Errors")
    assert outcomes["CreateContainer"] == "CreateContainer fails"
    assert outcomes["UpdatePodSandbox"] == "UpdatePodSandboxResources fails"
    assert outcomes["PostStartContainer"] == "ignored or only logged"


def test_a_late_plugin_and_a_validator_have_rows(report: Report) -> None:
    outcomes = rows(report, "Late")
    assert outcomes["a validator refuses a container: the creation"] == "fails"
    assert outcomes["late, without a failure policy: the creation"] == "succeeds"
    assert outcomes["late, with fail_request and keep_connected: the plugin"] == "stays connected"
    assert outcomes["late in Synchronize: a creation at the same time"] == "succeeds"
    assert outcomes["late in Synchronize: the plugin"] == "is disconnected"


def test_the_test_removes_only_its_own_pods(folder: Path, report: Report) -> None:
    assert report.sections
    with CriClient(f"{folder}/cri.sock") as cri:
        pods = cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
        assert [entry.metadata.name for entry in pods] == ["web"]
    assert [*(folder / "cdi").iterdir()] == []


def test_an_unusable_socket_is_an_error_with_the_next_step(folder: Path) -> None:
    with (
        CriClient(f"{folder}/cri.sock") as cri,
        pytest.raises(RuntimeUnavailable, match=r"nowhere.sock.*--socket-path"),
    ):
        Probe(cri, f"{folder}/nowhere.sock", "busybox", 1.0, lambda _: None).run()


def test_a_container_is_read_through_its_process(folder: Path) -> None:
    with CriClient(f"{folder}/cri.sock") as cri:
        hierarchies = detect(MACHINE)
        container = ProbeContainer(cri, hierarchies, "c", folder, os.getpid())
        if hierarchies.of("memory") is not None:
            assert container.cgroup("memory", "memory.limit_in_bytes", "cgroup.type") != ""
        with pytest.raises(NriError, match="OCI spec"):
            container.spec("linux")
        with pytest.raises(NriError, match="no cgroup hierarchy"):
            ProbeContainer(cri, Hierarchies(MACHINE, ()), "c", folder, os.getpid()).cgroup("memory", "a", "b")
        shown = ProbeContainer(
            cri, Hierarchies(MACHINE, (Hierarchy(2, "/x", frozenset({"cpu"})),)), "c", folder, 1, {"linux": None}
        )
        assert (shown.spec("linux", "a"), shown.cgroup("cpu", "cpu.shares", "")) == (None, "None")


def test_a_container_is_read_after_its_program_has_started(folder: Path) -> None:
    words = ["sh", "-c", "sleep 0.2; exec sleep 60", "runc", "init", "c"]
    with subprocess.Popen(words) as process:

        class Starting(CriClient):
            def call(self, *_: Any) -> Any:
                return pb.ContainerStatusResponse(info={"info": json.dumps({"pid": process.pid})})

        try:
            with Starting(f"{folder}/cri.sock") as cri:
                container = ProbeContainer(cri, detect(MACHINE), "c", folder).examine()
            assert Path(f"/proc/{container.pid}/cmdline").read_bytes() == b"sleep\00060\0"
        finally:
            process.kill()


# --- what ends it before its end


def pods_of(folder: Path) -> list[str]:
    with CriClient(f"{folder}/cri.sock") as cri:
        return [pod.metadata.name for pod in cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_test_with_a_partial_report_and_removes_pods(tmp_path: Path, number: int) -> None:
    sockets = ["--cri-socket", f"{tmp_path}/cri.sock", "--socket-path", f"{tmp_path}/nri.sock"]
    argv = command("conformance", "runtime", *sockets, "--image", "busybox", "-o", "json")
    with engine(tmp_path):
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        ) as process:
            assert process.stderr is not None
            parts = list(iter(process.stderr.readline, "part 4 of 8: Adjustments\n"))
            assert pods_of(tmp_path) != []
            for _ in range(2):  # as `timeout` does
                process.send_signal(number)
            out, messages = process.communicate(timeout=60)
        assert pods_of(tmp_path) == []
    assert process.returncode == 128 + number
    assert [line.partition(":")[0] for line in parts] == [f"part {part} of 8" for part in (1, 2, 3)]
    report = json.loads(out)
    assert report["sections"][0]["rows"][0] == {"name": "RunPodSandbox", "outcome": "yes", "where": "", "note": ""}
    assert report["about"]["incomplete"].startswith(f"{signal.Signals(number).name} stopped the test during ")
    assert "the report is incomplete" in messages


@pytest.mark.parametrize("case", ["an error at StartContainer", "set_memory_limit, requested by the plugin"])
def test_a_lost_runtime_ends_the_test_with_a_partial_report(tmp_path: Path, case: str) -> None:
    with engine(tmp_path) as process, CriClient(f"{tmp_path}/cri.sock") as cri:

        def say(line: str) -> None:
            if line == case:
                process.kill()
                process.wait()

        report = Probe(cri, f"{tmp_path}/nri.sock", "busybox", 10.0, say).run()
    assert report.runtime_gone
    assert report.incomplete.startswith(f"the runtime stopped during {case}: cannot connect to {tmp_path}/")
    assert rows(report, "Adjustments")["add_annotation"] == "applied"
    assert report.about["left behind"].startswith("pods main-")


def test_a_restart_of_the_runtime_does_not_count_as_a_refusal(tmp_path: Path) -> None:
    """The CRI socket is served again at once, but the plugin's connection ended with the old runtime."""
    with ExitStack() as stack:
        first = stack.enter_context(engine(tmp_path))
        cri = stack.enter_context(CriClient(f"{tmp_path}/cri.sock"))

        def say(line: str) -> None:
            if line == "an eviction":
                first.kill()
                first.wait()
                stack.enter_context(engine(tmp_path))

        report = Probe(cri, f"{tmp_path}/nri.sock", "busybox", 10.0, say).run()
    assert report.incomplete.startswith("the runtime stopped during an e")


class RefusesFor(Plugin):
    """Refuses the creation of containers while the probe is at a case whose name begins with one of these."""

    name = "refuses-for"

    def __init__(self, *beginnings: str) -> None:
        super().__init__()
        self.beginnings, self.case = beginnings, ""

    def note(self, case: str) -> None:
        if not case.startswith("pulling"):
            self.case = case

    def create_container(self, pod: Any, container: Any) -> None:
        if self.case.startswith(self.beginnings):
            raise NriError("not now")


def refused_report(folder: Path, plugin: RefusesFor) -> Report:
    with CriClient(f"{folder}/cri.sock") as cri, session_thread(plugin, f"{folder}/nri.sock", "05", 10.0):
        return Probe(cri, f"{folder}/nri.sock", "busybox", 10.0, plugin.note).run()


def test_a_refused_case_is_a_row_and_the_others_run(folder: Path) -> None:
    cases = {
        "a container without adjustments": "Adjustments",
        "set_memory_limit, requested by the plugin": "Updates",
        "set_memory_limit, returned to UpdateContainer": "Updates",
        "an eviction": "Updates",
        "Synchronize of more than 4 MiB is sent in parts": "Configure",
    }
    report = refused_report(folder, RefusesFor(*cases, "a Synchronize of more than 4 MiB"))
    outcomes = {case: rows(report, section)[case] for case, section in cases.items()}
    assert all(text.startswith("not measured: ") and "not now" in text for text in outcomes.values()), outcomes
    assert not report.incomplete
    assert rows(report, "Errors")["CreateContainer"] == "CreateContainer fails"


def test_a_runtime_that_creates_no_container_gets_a_complete_report(folder: Path) -> None:
    report = refused_report(folder, RefusesFor(""))
    events = next(section for section in report.sections if section.title.startswith("Events"))
    (start,) = [row for row in events.rows if row.name == "StartContainer"]
    assert start.outcome == "no" and "not now" in start.note
    assert set(rows(report, "Errors")) == {event for event in LIFE if not event.startswith("Validate")}
