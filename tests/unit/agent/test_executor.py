"""The executor's writes: knobs, OOM scores, cookies, resctrl groups, and cgroups that do not exist yet."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from nri.agent.executor import OOM_SCORE, Executor, tidy
from nri.agent.model import (
    Changes,
    Container,
    HostApplication,
    KubeQosFolder,
    Mount,
    Pod,
    Resctrl,
    Write,
)
from nri.agent.writing.cookie_groups import Membership
from nri.api import cpuset
from nri.host import Outcome, Root
from tests.support.agents import POD, UID, parts, text
from tests.support.clock import Clock
from tests.support.host_trees import FILES_V1, TOP, V1, v1, v2, write_files
from tests.support.scrape import scrape

APP = f"{POD}/app"
STAT = "{} (sh) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n"
BATCH = Pod(uid=UID, namespace="shop", name="batch", folder=POD)


def add(root: Root, cgroup: str) -> None:
    """Make a cgroup on a machine that runs already."""
    files = {}
    for controllers in V1:
        base = f"{TOP}/{controllers}/{cgroup}"
        files |= {f"{base}/{name}": f"{value}\n" for name, value in FILES_V1[controllers].items()}
        files |= {f"{base}/cgroup.procs": "", f"{base}/tasks": ""}
    write_files(Path(root.path), files)


def run(root: Root, cgroup: str, *pids: int) -> None:
    """Have processes in a cgroup."""
    files = {f"{TOP}/{name}/{cgroup}/{file}": "".join(f"{pid}\n" for pid in pids)
             for name in V1 for file in ("cgroup.procs", "tasks")}  # fmt: skip
    for pid in pids:
        files |= {f"proc/{pid}/stat": STAT.format(pid, 1000 + pid), f"proc/{pid}/oom_score_adj": "0\n"}
    write_files(Path(root.path), files)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return v1(tmp_path, "kubepods", "kubepods/besteffort", POD, APP)


def test_values_of_a_pod_are_written_with_their_outcomes(root: Root) -> None:
    created = parts(root)
    results = created.executor.changes(
        BATCH, Changes({"cpu.shares": 512, "cpu.cfs_quota": 50_000, "memory.limit": 1 << 30, "cpu.bvt": -1})
    )
    assert {result.name: result.outcome for result in results} == {
        "cpu.bvt": Outcome.UNSUPPORTED,
        "cpu.shares": Outcome.APPLIED,
        "cpu.cfs_quota": Outcome.APPLIED,
        "memory.limit": Outcome.APPLIED,
    }
    assert text(root, "cpu,cpuacct", POD, "cpu.shares") == "512"
    assert text(root, "memory", POD, "memory.limit_in_bytes") == str(1 << 30)
    assert 'nri_agent_writes_total{knob="cpu.shares",outcome="applied"} 1.0\n' in scrape(created.observer)
    assert next(result.reason for result in results if result.name == "cpu.bvt")


def test_on_version_2_the_same_values_go_into_its_files(tmp_path: Path) -> None:
    root = v2(tmp_path, POD)
    Executor(root).changes(BATCH, Changes({"cpu.cfs_quota": 50_000, "memory.limit": -1, "cpu.idle": 1}))
    folder = tmp_path / TOP / POD
    assert (folder / "cpu.idle").read_text().strip() == "1"
    assert (folder / "memory.max").read_text().strip() == "max"


def test_a_pod_without_its_own_cgroup_is_refused_and_the_class_folder_unchanged(root: Root) -> None:
    created = parts(root)
    context = Pod(uid="other", namespace="shop", name="crictl", folder="/kubepods/besteffort")
    (result,) = created.executor.changes(context, Changes({"cpu.cfs_quota": 50_000, "memory.limit": 1 << 30}))
    assert (result.outcome, result.reason) == (
        Outcome.REFUSED, "the cgroup belongs to many pods, not to this pod alone",
    )  # fmt: skip
    assert text(root, "cpu,cpuacct", "kubepods/besteffort", "cpu.cfs_quota_us") == "-1"


def test_the_traffic_class_of_a_pod_is_written(root: Root) -> None:
    parts(root).executor.changes(BATCH, Changes({"net_cls.classid": 0x10004}))
    assert text(root, "net_cls", POD, "net_cls.classid") == str(0x10004)


def test_a_kube_qos_folder_and_a_host_application_are_written(root: Root) -> None:
    executor = parts(root).executor
    folder = executor.changes(KubeQosFolder("besteffort", "kubepods/besteffort"), Changes({"cpuset.cpus": "0-3"}))
    program = executor.changes(HostApplication("db", "LS", "host/db"), Changes({"cpuset.cpus": "0-1"}))
    assert [result.outcome for result in folder] == [Outcome.UNCHANGED]
    assert [result.outcome for result in program] == [Outcome.GONE]


def test_an_invalid_write_does_not_affect_others(root: Root) -> None:
    results = parts(root).executor.write(
        [
            Write(POD, "cpu.shares", "many"),
            Write(POD, "no.knob", "1"),
            Write("", "cpu.shares", "2"),
            Write("../../etc", "cpu.shares", "2"),
            Write(POD, "io.read_bps", "1"),
            Write(POD, "cpu.shares", "300"),
        ]
    )
    assert [result.outcome for result in results] == [
        *(Outcome.REFUSED, Outcome.UNSUPPORTED, Outcome.REFUSED, Outcome.REFUSED, Outcome.REFUSED, Outcome.APPLIED)
    ]
    assert all(result.reason for result in results[:-1])


def test_a_clear_empties_the_set_of_cpus(root: Root) -> None:
    (result,) = parts(root).executor.write([Write(APP, "cpuset.cpus", "")])
    assert result.wanted == frozenset()
    assert text(root, "cpuset", APP, "cpuset.cpus") == ""


def test_a_cgroup_created_later_gets_its_values_at_the_pods_next_event(tmp_path: Path) -> None:
    root = v1(tmp_path, "kubepods")
    executor = parts(root).executor
    assert [result.outcome for result in executor.changes(BATCH, Changes({"cpu.shares": 512}))] == [Outcome.GONE]
    executor.write([Write(APP, "memory.limit", "1048576")])
    assert executor.counts()["waiting writes"] == 2
    add(root, POD)
    add(root, APP)
    results = executor.changes(BATCH, Changes({"cpu.cfs_quota": 50_000}))
    assert {(result.name, result.outcome) for result in results} == {
        ("cpu.shares", Outcome.APPLIED),
        ("memory.limit", Outcome.APPLIED),
        ("cpu.cfs_quota", Outcome.APPLIED),
    }
    assert executor.counts()["waiting writes"] == 0


def test_waiting_writes_are_carried_out_by_retry(tmp_path: Path) -> None:
    root = v1(tmp_path, "kubepods")
    executor = parts(root).executor
    executor.write([Write(APP, "memory.limit", "1048576")])
    assert [result.outcome for result in executor.retry(APP)] == [Outcome.GONE], "and it waits on"
    add(root, APP)
    assert [result.outcome for result in executor.retry(POD)] == [Outcome.APPLIED]
    assert executor.retry(POD) == []


def test_a_newer_value_replaces_a_waiting_one(tmp_path: Path) -> None:
    root = v1(tmp_path, "kubepods")
    executor = parts(root).executor
    executor.write([Write(POD, "cpu.shares", "512")])
    add(root, POD)
    executor.write([Write(POD, "cpu.shares", "700")])
    assert executor.retry(POD) == []
    assert text(root, "cpu,cpuacct", POD, "cpu.shares") == "700"


def test_with_keep_false_a_write_does_not_wait(tmp_path: Path) -> None:
    executor = parts(v1(tmp_path, "kubepods")).executor
    executor.write([Write(POD, "cpu.shares", "512")], keep=False)
    assert executor.counts()["waiting writes"] == 0


def test_waiting_writes_are_limited_and_dropped_ones_counted(tmp_path: Path) -> None:
    created = parts(v1(tmp_path, "kubepods"))
    for number in range(2100):
        created.executor.write([Write(f"kubepods/pod{number}", "cpu.shares", "512")])
    assert created.executor.counts()["waiting writes"] == 2048
    assert 'nri_agent_left_out_total{reason="pending"} 52.0\n' in scrape(created.observer)


def test_a_removed_pod_leaves_no_writes(root: Root) -> None:
    executor = parts(root).executor
    executor.changes(BATCH, Changes({"cpu.shares": 512}))
    executor.write([Write(f"{POD}/later", "cpu.shares", "2")])
    executor.forget(POD)
    executor.forget("")
    assert executor.counts() == {"waiting writes": 0, "written values": 0}


def test_an_overwritten_value_is_detected_with_force(root: Root) -> None:
    executor = parts(root).executor
    write = [Write(POD, "cpu.shares", "512")]
    executor.write(write)
    (Path(root.path) / TOP / "cpu,cpuacct" / POD / "cpu.shares").write_text("9\n")
    assert [result.outcome for result in executor.write(write)] == [Outcome.UNCHANGED]
    assert [result.outcome for result in executor.write(write, force=True)] == [Outcome.APPLIED]


# -- processes --------------------------------------------------------------------------------------------------------


def test_all_processes_of_a_container_get_its_oom_score(root: Root) -> None:
    add(root, f"{APP}/nested")
    run(root, APP, 11, 12)
    run(root, f"{APP}/nested", 13)
    container = Container(pod=BATCH, name="app", folder=APP)
    (result,) = parts(root).executor.changes(container, Changes({"oom_score_adj": -998}))
    assert (result.name, result.outcome) == (OOM_SCORE, Outcome.APPLIED)
    scores = {pid: (Path(root.path) / f"proc/{pid}/oom_score_adj").read_text().strip() for pid in (11, 12, 13)}
    assert scores == {11: "-998", 12: "-998", 13: "-998"}
    (second_round,) = parts(root).executor.changes(container, Changes({"oom_score_adj": -998}))
    assert second_round.outcome is Outcome.UNCHANGED


def test_the_number_of_processes_per_container_is_limited(root: Root) -> None:
    add(root, f"{APP}/nested")
    for cgroup, first in ((APP, 1), (f"{APP}/nested", 10_001)):
        listed = "".join(f"{pid}\n" for pid in range(first, first + 4000))
        write_files(Path(root.path), {f"{TOP}/{name}/{cgroup}/cgroup.procs": listed for name in V1})
    assert parts(root).executor.processes(APP) == [*range(1, 4001), *range(10_001, 10_097)]


def test_a_score_out_of_range_is_refused_and_a_score_without_a_process_waits(root: Root) -> None:
    executor = parts(root).executor
    run(root, APP, 11)
    (refused,) = executor.write([Write(APP, OOM_SCORE, "5000")])
    assert refused.outcome is Outcome.REFUSED
    assert "5000" in refused.reason
    (wrong,) = executor.write([Write(APP, OOM_SCORE, "much")])
    assert wrong.outcome is Outcome.REFUSED
    (removed,) = executor.write([Write(f"{POD}/no", OOM_SCORE, "5")])
    assert removed.outcome is Outcome.GONE
    assert executor.counts()["waiting writes"] == 1


def test_a_process_that_ends_is_gone_and_does_not_affect_others(root: Root) -> None:
    run(root, APP, 11, 12)
    (Path(root.path) / "proc/11/stat").unlink()
    results = parts(root).executor.oom_score(APP, 7)
    assert [(result.target, result.outcome) for result in results] == [
        ("process 11", Outcome.GONE),
        ("process 12", Outcome.APPLIED),
    ]


def test_an_empty_or_missing_folder_has_no_processes(root: Root) -> None:
    executor = parts(root).executor
    assert executor.processes("") == executor.processes("../..") == executor.processes("nothing") == []


def test_cookies_are_set_or_unsupported_on_this_machine(root: Root) -> None:
    run(root, APP, 4_000_000)
    executor = parts(root).executor
    assert executor.core_sched(Membership(True, "g"), f"{UID}/app", "nothing") == []
    (result,) = executor.core_sched(Membership(True, "g"), f"{UID}/app", APP)
    assert result.outcome in (Outcome.UNSUPPORTED, Outcome.REFUSED)
    assert result.reason


# -- resctrl ----------------------------------------------------------------------------------------------------------

RESCTRL = "sys/fs/resctrl"


def shared(root: Root) -> Root:
    return write_files(Path(root.path), {f"{RESCTRL}/schemata": "L3:0=fff;1=fff\n", f"{RESCTRL}/tasks": "1\n"})


def test_a_resctrl_group_gets_its_shares_and_tasks(root: Root) -> None:
    shared(root)
    group = f"{RESCTRL}/koordlet-{UID}"
    write_files(Path(root.path), {f"{group}/schemata": "L3:0=fff;1=fff\n", f"{group}/tasks": ""})
    results = parts(root).executor.changes(
        BATCH, Changes(resctrl=Resctrl(f"koordlet-{UID}", "L3:0=f;1=f\nXX:0=1\n", (11,)))
    )
    assert [result.outcome for result in results] == [
        *(Outcome.UNCHANGED, Outcome.APPLIED, Outcome.UNSUPPORTED, Outcome.APPLIED)
    ]


def test_the_threads_of_a_container_are_moved_into_its_group(root: Root) -> None:
    shared(root)
    group = f"{RESCTRL}/koordlet-{UID}"
    write_files(Path(root.path), {f"{group}/schemata": "L3:0=fff;1=fff\n", f"{group}/tasks": ""})
    run(root, APP, 11)
    container = Container(pod=BATCH, name="app", folder=APP)
    results = parts(root).executor.changes(container, Changes(resctrl=Resctrl(f"koordlet-{UID}")))
    assert [(result.name, result.wanted) for result in results] == [("group", "there"), ("tasks", 11)]


def test_invalid_schemata_are_refused(root: Root) -> None:
    shared(root)
    write_files(Path(root.path), {f"{RESCTRL}/g/schemata": "L3:0=fff\n", f"{RESCTRL}/g/tasks": ""})
    results = parts(root).executor.resctrl(Resctrl("g", "L3:what"))
    assert results[-1].outcome is Outcome.REFUSED


def test_a_group_is_removed_and_a_machine_without_resctrl_is_unsupported(root: Root) -> None:
    executor = parts(root).executor
    (missing,) = executor.resctrl(Resctrl("g", "L3:0=f"))
    assert missing.outcome is Outcome.UNSUPPORTED
    shared(root)
    write_files(Path(root.path), {f"{RESCTRL}/g/": ""})
    (removed,) = executor.resctrl(Resctrl("g", remove=True))
    assert removed.outcome is Outcome.APPLIED
    assert not (Path(root.path) / RESCTRL / "g").exists()


# -- other ------------------------------------------------------------------------------------------------------------


def test_runtime_only_changes_are_left_to_the_runtime(root: Root) -> None:
    container = Container(pod=BATCH, name="app", folder=APP)
    changes = Changes({"cpuset.cpus": ""}, env={"A": "b"}, mounts=(Mount("/a", "bind", "/b"),))
    assert parts(root).executor.changes(container, changes) == []


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("/kubepods/pod1/", "kubepods/pod1"),
        ("kubepods-besteffort-pod1.slice", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"),
        ("kubepods-pod1.slice:crio:ID", "kubepods.slice/kubepods-pod1.slice/crio-ID.scope"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_folders_are_accepted_in_every_form_of_the_runtimes(message: str, path: str) -> None:
    assert tidy(message) == path


def test_the_writer_uses_the_given_clock(root: Root) -> None:
    clock = Clock()
    executor = Executor(root, clock=clock, refresh_s=10)
    write = [Write(POD, "cpu.shares", "512")]
    executor.write(write)
    (Path(root.path) / TOP / "cpu,cpuacct" / POD / "cpu.shares").write_text("9\n")
    clock.now += 11
    assert [result.outcome for result in executor.write(write)] == [Outcome.APPLIED]


def test_a_value_per_device_is_written(root: Root) -> None:
    executor = parts(root).executor
    limits = {"8:0": 1 << 20}
    good, bad = executor.write([Write(POD, "io.read_bps", "", "", limits), Write(POD, "no.knob", "", "", limits)])
    assert good.outcome in (Outcome.APPLIED, Outcome.UNCHANGED)
    assert text(root, "blkio", POD, "blkio.throttle.read_bps_device") == f"8:0 {1 << 20}"
    assert (bad.outcome, bad.reason) == (Outcome.UNSUPPORTED, "unknown knob")


@pytest.mark.parametrize("knob", ["rdt_class", "cpu.realtime_period", "unified.memory.reclaim"])
def test_a_runtime_only_value_is_unsupported_with_the_reason(root: Root, knob: str) -> None:
    (result,) = parts(root).executor.write([Write(POD, knob, "1")])
    assert (result.name, result.outcome, result.reason) == (knob, Outcome.UNSUPPORTED, "only a runtime sets it")


def test_a_cgroup_v2_file_is_written_as_its_knob(root: Root) -> None:
    (result,) = parts(root).executor.write([Write(POD, "unified.memory.high", "5000000")])
    assert result.name == "memory.high"


def test_no_knob_is_on_cgroup_v2_if_v1_is_also_mounted(root: Root) -> None:
    assert not parts(root).executor.on_v2("memory.high")
    assert not parts(root).executor.on_v2("unified.memory.reclaim")


def test_waiting_writes_can_be_counted_during_changes(root: Root) -> None:
    executor = parts(root).executor

    def write(folder: str) -> None:
        executor.write([Write(folder, "cpu.shares", "512")])

    def come_and_go() -> None:
        for number in range(300):
            write(f"gone/{number}")
            executor.forget(f"gone/{number}")

    for number in range(500):
        write(f"stays/{number}")
    thread = threading.Thread(target=come_and_go)
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        while thread.is_alive():
            assert executor.counts()["waiting writes"] in (500, 501)
    finally:
        sys.setswitchinterval(often)
        thread.join()
    assert executor.counts()["waiting writes"] == 500


def test_oversized_cpu_lists_are_refused_without_parsing_them_per_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's author writes thirty characters. Parsed for each container, they took seconds of every round."""
    parsed, parse = list[str](), cpuset.parse

    def counted(text: str) -> frozenset[int]:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(cpuset, "parse", counted)
    executor = Executor(v1(tmp_path, *(f"pod/{number}" for number in range(20))))
    cpus = "0-65535:1/1,0-65535"
    results = executor.write([Write(f"pod/{number}", "cpuset.cpus", cpus) for number in range(20)])
    assert {result.outcome for result in results} == {Outcome.REFUSED}
    assert "65536 CPUs" in results[0].reason
    assert parsed == [cpus]
