"""psi, cpuevict and memoryevict: when an offline pod is evicted, which one, and what follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.model import Pod
from nri.agent.rubik import evict
from nri.agent.rubik.cpu_evict import Window
from nri.agent.rubik.evict import Cooldown, Sample
from nri.agent.rubik.memory_evict import memory_percent
from nri.agent.rubik.pods import PREEMPTIBLE
from nri.agent.rubik.psi import resource_under_pressure
from nri.agent.rubik.service import Ticks
from tests.support.host_trees import TOP, write_files
from tests.support.rubik_world import RubikWorld, pod

GIB = 1 << 30
CPU = {"cpuevict": {"threshold": 60, "cooldown": 20}}
MEMORY = {"memoryevict": {"threshold": 60, "cooldown": 4}}
PSI = {"psi": {"interval": 10, "resource": ["cpu", "memory", "io"]}}


def busy(folder: Path, **blocks: object) -> RubikWorld:
    """A node whose two offline pods and one online pod use 90 %; the offline pod `big` uses more than `small`."""
    pods = [pod("small", offline=True), pod("big", offline=True), pod("web")]
    world = RubikWorld(folder, *pods, **blocks)  # type: ignore[arg-type]
    uses = {"small": 1000, "big": 2000, "web": 4200}
    world.uses = {world.folder_of(pod): uses[pod["metadata"]["name"]] for pod in pods}
    world.node_milli = 7200
    world.memory(100 * GIB, 0, 10 * GIB)
    for entry, size in zip(pods, (2, 1, 50), strict=True):
        world.use_memory(world.folder_of(entry), size * GIB)
    return world


def test_a_busy_node_evicts_the_largest_cpu_user_and_then_cools_down(tmp_path: Path) -> None:
    world = busy(tmp_path, **CPU)
    world.loop(2)
    assert world.asked.pods == ["uid-big"]
    world.loop(19)
    assert world.asked.pods == ["uid-big"]
    world.loop()
    assert world.asked.pods == ["uid-big", "uid-small"], "one that was asked is not asked again while it may be ending"
    world.loop(39)
    assert len(world.asked.pods) == 2
    world.loop()
    assert world.asked.pods[2:] == ["uid-big"], "it has not gone within a minute"
    account = world.history.account("uid-big")
    assert account is not None
    assert account["values"][0]["reason"] == "the node uses 90 % of its CPUs; eviction starts at 60 %"


def test_a_full_node_evicts_the_offline_pod_with_the_most_memory(tmp_path: Path) -> None:
    world = busy(tmp_path, **MEMORY)
    world.loop()
    assert world.asked.pods == ["uid-small"]
    world.loop(3)
    assert len(world.asked.pods) == 1
    world.loop()
    assert world.asked.pods == ["uid-small", "uid-big"]


@pytest.mark.parametrize(("resource", "removed"), [("cpu", "uid-big"), ("memory", "uid-small"), ("io", "uid-big")])
def test_pressure_on_an_online_pod_evicts_an_offline_pod_by_that_resource(
    tmp_path: Path, resource: str, removed: str
) -> None:
    world = busy(tmp_path, **PSI)
    web, big = (f"sys/fs/cgroup/cpu,cpuacct/{world.folder_of(pod(name))}" for name in ("web", "big"))
    for entry in ("cpu", "memory", "io"):
        line = f"some avg10={6.5 if entry == resource else 0} avg60=0.00 avg300=0.00 total=1\n"
        write_files(tmp_path, {f"{web}/{entry}.pressure": line})
        write_files(tmp_path, {f"{big}/{entry}.pressure": line.replace("=0 ", "=99 ")})
    world.loop(2, 10)
    assert world.asked.pods[:1] == [removed]
    account = world.history.account(removed)
    assert account is not None
    assert account["values"][0]["reason"] == f"an online pod waits 6.5 % of the time for {resource}, more than 5"


def test_of_equal_pods_the_newer_is_evicted(tmp_path: Path) -> None:
    pods = [pod(name, offline=True) for name in ("a", "b", "c")]
    for entry, minute in zip(pods, (1, 2, 0), strict=True):
        entry["status"]["startTime"] = f"2026-01-01T00:0{minute}:00Z"
    del pods[2]["status"]["startTime"]
    world = RubikWorld(tmp_path, *pods, **MEMORY)
    world.memory(100 * GIB, 0, 10 * GIB)
    for entry in pods:
        world.use_memory(world.folder_of(entry), GIB)
    world.loop(10)
    assert world.asked.pods == ["uid-b", "uid-a", "uid-c"], "one whose start is not known counts as old"


def test_without_pressure_files_no_pod_is_evicted_and_the_reason_is_reported(tmp_path: Path) -> None:
    world = busy(tmp_path, **PSI)
    world.loop(2, 10)
    assert world.asked.pods == []
    assert "psi: no pod is evicted for cpu: unsupported here: cpu.pressure of" in world.loops.health()[1]


def test_the_cooldown_of_psi_is_in_seconds(tmp_path: Path) -> None:
    world = busy(tmp_path, psi={"interval": 10, "resource": ["cpu"], "cooldown": 30})
    web = f"sys/fs/cgroup/cpu,cpuacct/{world.folder_of(pod('web'))}"
    write_files(tmp_path, {f"{web}/cpu.pressure": "some avg10=9.00 avg60=0.00 avg300=0.00 total=1\n"})
    world.loop(3, 10)
    assert len(world.asked.pods) == 1
    world.loop(3, 10)
    assert len(world.asked.pods) == 2


def test_a_pod_is_evicted_only_after_the_configured_number_of_rounds(tmp_path: Path) -> None:
    world = busy(tmp_path, after=3, **MEMORY)
    world.loop(2)
    world.memory(100 * GIB, 0, 90 * GIB)
    world.loop()
    world.memory(100 * GIB, 0, 10 * GIB)
    world.loop(2)
    assert world.asked.pods == []
    world.loop()
    assert len(world.asked.pods) == 1


def test_pods_of_kube_system_static_pods_and_mirrors_are_never_evicted(tmp_path: Path) -> None:
    pods = [pod("dns", offline=True, namespace="kube-system"), pod("static", offline=True), pod("mirror", offline=True)]
    pods[1]["metadata"]["annotations"]["kubernetes.io/config.source"] = "file"
    pods[2]["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    world = RubikWorld(tmp_path, *pods, **MEMORY)
    world.memory(100 * GIB, 0, 0)
    world.loop(3)
    assert world.asked.pods == []
    assert "the usage of all offline pods is unknown" in world.loops.health()[1]


def test_a_users_source_annotation_does_not_protect_a_pod_from_an_apiserver(tmp_path: Path) -> None:
    pods = [pod("batch", offline=True), pod("mirror", offline=True)]
    for one in pods:
        one["metadata"]["annotations"]["kubernetes.io/config.source"] = "file"
    pods[1]["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    world = RubikWorld(tmp_path, *pods, source="apiserver", **MEMORY)
    world.memory(100 * GIB, 0, 0)
    world.loop(10)
    assert world.asked.pods == ["uid-batch"]


@pytest.mark.parametrize("blocks", [CPU, MEMORY], ids=["cpuevict", "memoryevict"])
def test_an_annotation_with_false_overrides_a_label_with_true(tmp_path: Path, blocks: dict[str, object]) -> None:
    spared = pod("spared", preemptable="false")
    spared["metadata"]["labels"] = {PREEMPTIBLE: "true"}
    world = RubikWorld(tmp_path, spared, **blocks)  # type: ignore[arg-type]
    world.uses, world.node_milli = {world.folder_of(spared): 5000}, 7900
    world.memory(100 * GIB, 0, 0)
    world.loop(5)
    assert world.asked.pods == []


def test_a_failure_is_logged_once_even_if_its_numbers_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def logged_messages() -> list[str]:
        return [record.message for record in caplog.records if "offline pods" in record.message]

    world = RubikWorld(tmp_path, **MEMORY)
    for free in (30, 20, 10):
        world.memory(100 * GIB, 0, free * GIB)
        world.loop()
    (first,) = logged_messages()
    assert first.startswith("memoryevict: 70 % of the node's memory is in use; eviction starts at 60 %, but the usage")
    world.memory(100 * GIB, 0, 90 * GIB)
    world.loop()
    world.memory(100 * GIB, 0, 10 * GIB)
    world.loop()
    assert len(logged_messages()) == 2, "it was over in between"


def test_a_refused_eviction_passes_to_the_next_pod_without_a_cooldown(tmp_path: Path) -> None:
    world = busy(tmp_path, **MEMORY)
    world.asked.refuses = "a disruption budget forbids it"
    world.loop(2)
    assert world.asked.pods == ["uid-small", "uid-big"] * 2
    assert "a disruption budget forbids it" in world.loops.health()[1]


def test_a_round_requests_at_most_three_evictions_if_all_are_refused(tmp_path: Path) -> None:
    pods = [pod(name, offline=True) for name in ("a", "b", "c", "d", "e")]
    world = RubikWorld(tmp_path, *pods, **MEMORY)
    world.memory(100 * GIB, 0, 10 * GIB)
    for number, offline in enumerate(pods[:4]):
        world.use_memory(world.folder_of(offline), (9 - number) * GIB)
    (tmp_path / TOP / "memory" / world.folder_of(pods[4]) / "memory.usage_in_bytes").unlink()  # its use is unknown
    world.asked.refuses = "a disruption budget forbids it"
    world.loop()
    assert world.asked.pods == ["uid-a", "uid-b", "uid-c"]


def test_no_pod_is_evicted_below_the_threshold_and_a_label_makes_a_pod_offline(tmp_path: Path) -> None:
    labelled = pod("label")
    labelled["metadata"]["labels"] = {PREEMPTIBLE: "true"}
    world = RubikWorld(tmp_path, labelled, **MEMORY)
    world.memory(100 * GIB, 0, 50 * GIB)
    world.loop(2)
    assert world.asked.pods == []
    world.memory(100 * GIB, 0, 10 * GIB)
    world.loop()
    assert world.asked.pods == ["uid-label"]


@pytest.mark.parametrize(("blocks", "file", "words"), [(CPU, "stat", "cpuevict"), (MEMORY, "meminfo", "memoryevict")])
def test_missing_node_statistics_evict_no_pod_and_are_reported(
    tmp_path: Path, blocks: dict[str, object], file: str, words: str
) -> None:
    world = busy(tmp_path, **blocks)
    (tmp_path / "proc" / file).unlink()
    for _ in range(3):
        world.clock.now += 1
        world.loops.round()
    assert world.asked.pods == []
    assert f"{words}: no pod is evicted: unsupported here: /proc/{file}" in world.loops.health()[1]


def test_a_preview_evicts_no_pod_and_names_the_candidate(tmp_path: Path) -> None:
    world = busy(tmp_path, preview=("memoryevict",), **MEMORY)
    world.loop(3)
    assert world.asked.pods == []
    account = world.history.account("uid-small")
    assert account is not None
    assert [(row["field"], row["value"], row["stage"]) for row in account["values"]] == [
        ("eviction", "would be", "preview")
    ]


def test_a_disabled_service_has_no_state(tmp_path: Path) -> None:
    world = busy(tmp_path, **MEMORY)
    world.loop()
    (service,) = world.loops.loops
    assert len(service) == 2  # type: ignore[arg-type]
    world.configure()
    world.loop()
    assert len(service) == 0  # type: ignore[arg-type]
    world.loop(10)
    assert len(world.asked.pods) == 1


S = 10**9


def _off(name: str, namespace: str = "default", started: float | None = None) -> Pod:
    return Pod(namespace, name, name, labels={PREEMPTIBLE: "true"}, started=started)


def test_the_largest_permitted_pod_is_evicted() -> None:
    pods = [_off("big", "kube-system"), _off("small"), _off("middle"), Pod("", "online", "online")]
    use = {"big": 90.0, "small": 1.0, "middle": 5.0, "online": 99.0}
    chosen = evict.victim(evict.candidates(pods, from_apiserver=False), use)
    assert chosen is not None
    assert chosen.name == "middle"


def test_of_equal_pods_the_newer_is_chosen_and_then_the_first_by_name() -> None:
    use = {"a": 0.0, "b": 0.0, "c": 0.0}
    assert evict.victim([_off("a", started=1.0), _off("b", started=2.0)], use) == _off("b", started=2.0)
    assert evict.victim([_off("c"), _off("a"), _off("b")], use) == _off("a")


@pytest.mark.parametrize(
    "samples",
    [[], [Sample(0, 0, 1)], [Sample(0, 5 * S, 1), Sample(S, 0, 1)], [Sample(S, 0, 1), Sample(S, S, 1)]],
)
def test_a_counter_that_decreases_or_has_no_time_is_unknown(samples: list[Sample]) -> None:
    assert evict.cpu_percent(samples, 4) is None
    assert evict.victim([_off("a")], {"a": None}) is None


def test_usage_comes_from_the_last_two_samples() -> None:
    samples = [Sample(0, 0, 0), Sample(10 * S, 20 * S, 0), Sample(20 * S, 30 * S, 5_000_000)]
    assert evict.cpu_percent(samples, 4) == 25
    assert evict.memory_mb(samples) == 5
    assert evict.memory_mb([]) is None


def test_the_first_pressed_resource_of_the_configuration_is_chosen() -> None:
    avg10 = {"io": [9.0], "memory": [4.0, 6.0], "cpu": [5.0]}
    assert resource_under_pressure(["cpu", "memory", "io"], avg10, 5.0) == "memory"
    assert resource_under_pressure(["cpu"], avg10, 5.0) == ""


def test_a_window_averages_its_readings_and_needs_two_of_them() -> None:
    window = Window(2)
    assert window.add(0, Ticks(0, 100)) is None
    assert window.add(1 * S, Ticks(10, 200)) == 10
    assert window.add(2 * S, Ticks(100, 300)) == 50
    assert window.add(3 * S, Ticks(190, 400)) == 90
    assert len(window) == 3


def test_a_cooldown_follows_only_an_eviction() -> None:
    pause = Cooldown(3)
    assert [pause.over(at) for at in (0, 2, 4)] == [True] * 3
    pause.begin(4)
    assert [pause.over(at) for at in (4, 6, 7)] == [False, False, True]


def test_reclaimable_pages_are_not_memory_in_use() -> None:
    assert memory_percent({"MemTotal": 1000, "MemFree": 100, "Cached": 90, "Buffers": 5, "SReclaimable": 5}) == 80
    assert memory_percent({"MemTotal": 100, "MemFree": 60, "Cached": 60}) == 0, "counted twice"
    with pytest.raises(ValueError, match="MemTotal"):
        memory_percent({})
