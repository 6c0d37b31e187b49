"""The timer of all strategies: off by default, errors stay separate, and no memory leaks."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nri.agent.executor import WriteOutcome
from nri.agent.koordinator import names as n
from nri.agent.loops import Loops
from nri.agent.loops.round import Round
from nri.agent.model import Write
from nri.agent.settings.values import AgentSettings, LoopSettings
from tests.support.host_trees import TOP
from tests.support.loop_world import ALL_ON, Asked, LoopWorld
from tests.support.scrape import scrape
from tests.support.standalone_world import CONTROLLERS
from tests.unit.agent.koordinator.test_evict import batch
from tests.unit.agent.transports.standalone.test_pods import over, pod

ALL = {
    "resourceUsedThresholdWithBE": {
        "enable": True, "cpuSuppressPolicy": "cpuset", "memoryEvictThresholdPercent": 70,
        "cpuEvictBESatisfactionUpperPercent": 60, "cpuEvictBESatisfactionLowerPercent": 40,
    },
    "cpuBurstStrategy": {"policy": "auto", "cfsQuotaBurstPeriodSeconds": 100},
    "resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 50}}},
}  # fmt: skip


def test_without_a_nodeslo_nothing_is_sampled_or_written(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    world.pod(pod("a", n.LS))
    world.source.replace([pod("a", n.LS)])
    (tmp_path / "proc/stat").rename(tmp_path / "proc/hidden")
    for _ in range(3):
        world.loops.round()
    (tmp_path / "proc/hidden").rename(tmp_path / "proc/stat")
    assert scrape(world.observer).count('outcome="applied"') == 0
    world.slo({})
    world.loop(3)
    (tmp_path / "proc/stat").unlink()
    world.loops.round()
    assert world.loops.health() == (
        True, "BECPUSuppress, CPUBurst, BECPUEvict, BEMemoryEvict, CgroupReconcile, RdtResctrl, BlkIOReconcile",
    )  # fmt: skip


def test_the_settings_enable_strategies(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, gates={})
    assert [loop.name for loop in world.loops.loops] == ["BECPUSuppress", "CPUBurst", "RdtResctrl"]
    world = LoopWorld(tmp_path / "none", gates={"BECPUSuppress": False, "CPUBurst": False, "RdtResctrl": False})
    assert world.loops.loops == []
    assert world.loops.health() == (True, "none")


def test_a_failed_strategy_does_not_affect_others(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL)
    world.loops.loops[0].round = lambda moment: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    ls = pod("a", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "2Mi"}}}])
    folder = world.pod(ls)
    world.source.replace([ls])
    world.loop(2)
    assert world.text(folder, "memory.min") == str(1 << 20)
    assert "BECPUSuppress: ZeroDivisionError" in world.loops.health()[1]


def test_an_invalid_pod_does_not_affect_others(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL)
    good = pod("a", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "2Mi"}}}])
    bad = pod("b", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "much"}}}])
    folder = world.pod(good)
    world.source.replace([bad, good])
    world.loop()
    assert world.text(folder, "memory.min") == str(1 << 20)
    assert 'ns/b: "much" is not a quantity' in world.loops.health()[1]


class ByRuntime:
    """Sets values of containers by a runtime, which is one in name alone."""

    name = "nri"

    def __init__(self, world: LoopWorld) -> None:
        self._executor = world.parts.executor

    def write(self, expected: Sequence[Write]) -> list[WriteOutcome]:
        actual = zip(expected, self._executor.write(expected, keep=False), strict=True)
        return [WriteOutcome(result, write.folder.endswith("/ac")) for write, result in actual]


def test_the_record_of_a_value_shows_whether_the_runtime_set_it(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL)
    ls = pod("a", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "2Mi"}}}])
    world.pod(ls)
    world.source.replace([ls])
    world.loops = Loops(AgentSettings(gates=ALL_ON), world.parts, ByRuntime(world), evictor=Asked(), now=world.clock)
    world.loop(2)
    account = world.history.account("ns/a")
    assert account is not None
    rows = {(row["container"], row["name"]): row["transport"] for row in account["writes"]}
    assert (rows["", "memory.min"], rows["c", "memory.min"]) == ("loops", "nri")


def test_the_timer_runs_in_a_thread_and_ends_with_it(tmp_path: Path) -> None:
    before = threading.active_count()
    world = LoopWorld(tmp_path, ALL)
    loops = Loops(AgentSettings(loops=LoopSettings(interval=0.01)), world.parts, evictor=Asked())
    rounds = threading.Semaphore(0)
    loops.loops[0].round = lambda moment: rounds.release()  # type: ignore[method-assign]
    loops.start()
    loops.start()
    for _ in range(5):
        loops.rules_changed(frozenset({"NodeSLO"}))
        assert rounds.acquire(timeout=20)
    loops.stop()
    loops.stop()
    assert loops.health()[0]
    assert threading.active_count() <= before


@pytest.mark.parametrize("stat", [None, "nonsense", "cpu a b c d e f g h i\n"])
def test_without_cpu_times_dependent_strategies_are_unsupported_once_and_others_run(
    tmp_path: Path, stat: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    world = LoopWorld(tmp_path, ALL)
    ls = pod("a", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "2Mi"}}}])
    folder = world.pod(ls)
    world.source.replace([ls])
    text = (tmp_path / "proc/stat").read_text()
    (tmp_path / "proc/stat").unlink()
    if stat is not None:
        (tmp_path / "proc/stat").write_text(stat)
    for _ in range(3):
        world.clock.now += 1
        world.loops.round()
    assert world.text(folder, "memory.min") == str(1 << 20)
    messages = [record.getMessage() for record in caplog.records if "unsupported" in record.getMessage()]
    assert sorted(entry.partition(": unsupported here: /proc/stat")[0] for entry in messages) == [
        "BECPUSuppress: best-effort pods are not suppressed", "CPUBurst: quotas do not grow",
    ]  # fmt: skip
    assert not any(record.exc_info for record in caplog.records)
    assert messages[0] in world.loops.health()[1]
    (tmp_path / "proc/stat").write_text(text)
    world.loop(2)
    assert "unsupported" not in world.loops.health()[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "/proc/meminfo: no such file or directory"),
        ("", "/proc/meminfo has no MemTotal"),
        ("MemTotal: 100 kB\n", "/proc/meminfo has no MemAvailable"),
    ],
)
def test_without_memory_sizes_dependent_strategies_are_unsupported_once_and_others_run(
    tmp_path: Path, text: str | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    slo = {**ALL, "resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, "throttlingPercent": 50}}}}
    world = LoopWorld(tmp_path, slo)
    pods = [pod("a", n.LS, containers=[{"name": "c"}]), batch("b")]
    folder, _ = (world.pod(pod) for pod in pods)
    world.source.replace(pods)
    world.node_milli = 4000
    (tmp_path / "proc/meminfo").unlink()
    if text is not None:
        (tmp_path / "proc/meminfo").write_text(text)
    high = world.text(f"{folder}/ac", "memory.high")
    world.loop(3)
    messages = [record.getMessage() for record in caplog.records if "unsupported" in record.getMessage()]
    expected = [f"BEMemoryEvict: no pod is evicted: unsupported here: {reason}"]
    if "MemTotal: " not in (text or ""):
        expected.append(f"CgroupReconcile: no memory.high for containers without a limit: unsupported here: {reason}")
        assert world.text(f"{folder}/ac", "memory.high") == high
    assert messages == expected
    assert not any(record.exc_info for record in caplog.records)
    assert world.asked.pods == []
    assert scrape(world.observer).count('outcome="applied"') > 0


def test_without_a_list_of_cpus_evictions_for_cpu_are_unsupported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = LoopWorld(tmp_path, ALL)
    world.source.replace([batch("a")])
    world.pod(batch("a"))
    shutil.rmtree(tmp_path / "sys/devices/system/cpu")
    world.loop(3)
    assert world.asked.pods == []
    assert "BECPUEvict: no pod is evicted: unsupported here: /sys/devices/system/cpu lists no CPU" in caplog.messages


def test_removed_pods_leave_no_memory_after_many_rounds(tmp_path: Path) -> None:
    assert held_after_rounds(tmp_path, 300) == [], "this is held without a bound"


def held_after_rounds(folder: Path, rounds: int) -> list[str]:
    """Run this many rounds with a new pod every twenty rounds; return the counts that exceed their bounds."""
    world = LoopWorld(folder, ALL)
    asks = {"limits": {"cpu": "1", "memory": "4Mi"}, "requests": {"memory": "2Mi"}}
    name = "first"
    world.pod(pod(name, n.LS, containers=[{"name": "c", "resources": asks}]))
    below = [folder / TOP / controller / "kubepods/burstable" for controller in CONTROLLERS]
    descriptors = len(os.listdir("/proc/self/fd"))
    for turn in range(rounds):
        if turn % 20 == 0:
            fresh = f"pod-{turn}"
            for top in below:
                (top / f"pod{name}").rename(top / f"pod{fresh}")
                (top / f"pod{fresh}/{name}c").rename(top / f"pod{fresh}/{fresh}c")
            name = fresh
            world.source.replace([pod(name, n.LS, containers=[{"name": "c", "resources": asks}])])
        world.clock.now += 1
        world.loops.round()
    assert world.loops.health()[0]
    stored = {loop.name: (len(loop), 20) for loop in world.loops.loops if hasattr(loop, "__len__")}
    stored["waiting writes"] = world.parts.executor.counts()["waiting writes"], 0
    stored["written values"] = world.parts.executor.counts()["written values"], 299
    stored["history"] = len(world.history), 1024
    stored["descriptors"] = len(os.listdir("/proc/self/fd")), descriptors
    return over(stored)


def test_an_unreadable_part_of_nodeslo_is_logged_once_until_it_is_fixed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = ({"cpuBurstStrategy": {"policy": policy}} for policy in ("auto", "atuo"))
    world = LoopWorld(tmp_path, good)
    for spec in (good, bad, bad, good, bad):
        world.slo(spec)
        world.loop()
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(messages) == 2 and messages[0] == messages[1]
    assert messages[0].startswith(
        "NodeSLO: cpuBurstStrategy.policy: unknown policy 'atuo'; choose from none, cpuBurstOnly,"
    )
    assert messages[0].endswith("; the last valid value stays in force")


def test_a_strategy_that_fails_in_every_round_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = LoopWorld(tmp_path, {"cpuBurstStrategy": {"policy": "auto"}})
    (burst,) = (loop for loop in world.loops.loops if loop.name == "CPUBurst")

    def breaks(_: object) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr(burst, "round", breaks)
    for _ in range(5):
        world.loop()
    assert "CPUBurst: LookupError: a defect" in world.loops.health()[1]
    assert caplog.text.count("the round failed") == 1


@pytest.mark.parametrize("env", [[["A", "b"]], 5, [{"name": {}}]])
def test_a_pod_with_invalid_containers_does_not_affect_others(tmp_path: Path, env: object) -> None:
    world = LoopWorld(tmp_path, ALL)
    odd, good = pod("odd", n.LS, containers=[{"name": "c", "env": env}]), pod("good", n.LS)
    world.pod(odd)
    world.pod(good)
    world.memory(100 << 30, 10 << 30)
    victim = batch("a")
    world.uses[world.pod(victim)] = 1000
    (tmp_path / TOP / "memory" / "kubepods/besteffort/poda/memory.usage_in_bytes").write_text(f"{50 << 30}\n")
    world.source.replace([odd, good, victim])
    world.loop()
    assert world.asked.pods == ["a"]
    assert "ns/odd: " in world.loops.health()[1]


def test_strategies_get_a_bounded_number_of_pods_and_health_reports_the_excess(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL, gates={"BECPUSuppress": True, "CPUBurst": False, "RdtResctrl": False})
    counts: list[int] = []
    world.loops.loops[0].round = lambda round_: counts.append(len(round_.pods))  # type: ignore[method-assign]
    world.source.replace([pod(f"p{number}", n.LS) for number in range(4099)])
    world.loop()
    assert counts == [4096]
    assert "3 pods ignored: strategies handle at most 4096 pods" in world.loops.health()[1]


def test_a_round_stores_and_logs_a_bounded_number_of_errors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = LoopWorld(tmp_path, ALL)
    words = "abcdefghij"
    errors = [f"cannot {first}{second} {'x' * 10_000}" for first in words for second in words + words.upper()]

    def fail(round_: Round[Any]) -> None:
        round_.errors += errors
        round_.unsupported["no CPU is known"] = None

    world.loops.loops[0].round = fail  # type: ignore[method-assign]
    world.loop()
    assert len(world.loops.errors) == 100
    assert max(map(len, world.loops.errors)) <= 200
    lines = [record.getMessage() for record in caplog.records if "cannot" in record.getMessage()]
    assert len(lines) == 100 and max(map(len, lines)) <= 400
