"""Mode standalone on containerd 2.4: values after the start, and repairs.

There is a window in which a container runs without its values; it is measured in bench/studies/modes, not asserted
here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.agent.files import of_cgroup, of_process, overwrite
from tests.agent.node import AgentProgram, Node
from tests.agent.pods import SCORED, SENSITIVE
from tests.support.waiting import wait_for
from tools.runtimes.cri import Pod

GATES = """
[gates]
OOMScoreAdj = true
CoreSched = true
"""
COMMAND = ("sh", "-c", "sleep 1000")


def topology(cpus: str) -> dict[str, object]:
    pools = json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])
    return {"metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": pools}}}


def started(node: Node, pod: Pod) -> int:
    return node.pid(node.daemon.cri.run(pod, "app", COMMAND))


def oom_score(pid: int) -> str:
    return Path(f"/proc/{pid}/oom_score_adj").read_text().strip()


@pytest.fixture
def ruled(node: Node) -> Node:
    node.rule("NodeResourceTopology", topology("1"))
    idle = {"policies": {"cpuPolicy": "coreSched"}, "beClass": {"cpuQOS": {"enable": True, "schedIdle": 1}}}
    node.rule("NodeSLO", {"spec": {"resourceQOSStrategy": idle}})
    return node


def test_pods_from_before_and_after_the_agents_start_get_and_keep_their_values(ruled: Node) -> None:
    batch = ruled.run_pod("batch", "BestEffort", **SCORED)
    first = started(ruled, batch)
    with AgentProgram(ruled, "standalone", GATES) as agent:
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        second = started(ruled, web)
        wait_for(lambda: of_process(first, "cpu.cfs_quota_us") == "50000", agent.story)
        wait_for(lambda: of_process(second, "cpuset.cpus") == "1", agent.story)
        wait_for(lambda: ruled.value(batch, "cpu.shares") == "512", agent.story)
        wait_for(lambda: ruled.value(batch, "memory.limit_in_bytes") == str(64 << 20), agent.story)
        wait_for(lambda: oom_score(first) == "555", agent.story)
        ruled.overwrite(batch, "cpu.shares", "10")
        Path(f"/proc/{first}/oom_score_adj").write_text("5")
        wait_for(lambda: (ruled.value(batch, "cpu.shares"), oom_score(first)) == ("512", "555"), agent.story)
        message = agent.explain("batch")
        assert {row["transport"] for row in message["values"]} == {"standalone"}
        assert agent.stop() == 0


def test_a_changed_rule_and_a_removed_pod_do_not_affect_other_pods(ruled: Node) -> None:
    with AgentProgram(ruled, "standalone", GATES) as agent:
        web, short = ruled.run_pod("web", "Burstable", **SENSITIVE), ruled.run_pod("short", "BestEffort", **SCORED)
        pid = started(ruled, web)
        started(ruled, short)
        wait_for(lambda: of_process(pid, "cpuset.cpus") == "1", agent.story)
        ruled.remove_pod(short)
        ruled.rule("NodeResourceTopology", topology("0"))
        wait_for(lambda: of_process(pid, "cpuset.cpus") == "0", agent.story)
        agent.wait_ready()


def test_the_besteffort_cgroup_is_idle_also_after_the_agents_end(ruled: Node) -> None:
    folder = f"{ruled.cgroup}/kubepods/besteffort"
    with AgentProgram(ruled, "standalone", GATES) as agent:
        wait_for(lambda: of_cgroup(folder, "cpu.idle") == "1", agent.story)
        overwrite(folder, "cpu.idle", "0")
        wait_for(lambda: of_cgroup(folder, "cpu.idle") == "1", agent.story)
        agent.kill()
        overwrite(folder, "cpu.idle", "0")
        agent.start()
        wait_for(lambda: of_cgroup(folder, "cpu.idle") == "1", agent.story)
        ruled.rule("NodeSLO", {"spec": {}})
        wait_for(lambda: of_cgroup(folder, "cpu.idle") == "0", agent.story)


EVICT = """
[gates]
BEMemoryEvict = true
"""


def test_only_the_batch_pod_is_evicted_when_memory_is_short(ruled: Node) -> None:
    with AgentProgram(ruled, "standalone", EVICT) as agent:
        known_entry = {**SCORED, "labels": {**SCORED["labels"], "koordinator.sh/priority-class": "koord-batch"}}
        batch, web = ruled.run_pod("batch", "BestEffort", **known_entry), ruled.run_pod("web", "Burstable", **SENSITIVE)
        unknown = ruled.run_pod("unknown", "BestEffort", **SCORED)  # the CRI does not report a priority
        removed, *stays = (started(ruled, pod) for pod in (batch, web, unknown))
        short = {"enable": True, "memoryEvictThresholdPercent": 1, "memoryEvictLowerPercent": 0}
        ruled.rule("NodeSLO", {"spec": {"resourceUsedThresholdWithBE": short}})
        wait_for(lambda: not Path(f"/proc/{removed}").exists(), agent.story)
        assert all(Path(f"/proc/{pid}").exists() for pid in stays)

        def recorded_evictions() -> list[tuple[str, str]]:
            rows = agent.explain("batch")["values"]
            return [(row["hook"], row["value"]) for row in rows if row["field"] == "eviction"]

        wait_for(lambda: recorded_evictions() == [("BEMemoryEvict", "asked")], agent.story)


def test_removed_pods_leave_no_descriptors_or_writes_in_the_agent(ruled: Node) -> None:
    """NRI_PODS=200 takes some minutes."""
    with AgentProgram(ruled, "standalone", GATES) as agent:

        def descriptors_and_writes() -> tuple[int, float | None]:
            """Descriptors of the agent, and writes that wait for a cgroup."""
            return len(os.listdir(f"/proc/{agent.pid}/fd")), agent.metric("nri_agent_held", what="waiting writes")

        first = ruled.run_pod("first", "BestEffort", **SCORED)
        pid = started(ruled, first)
        wait_for(lambda: of_process(pid, "cpu.cfs_quota_us") == "50000", agent.story)
        before = descriptors_and_writes()
        for number in range(int(os.environ.get("NRI_PODS", "5"))):
            pod = ruled.run_pod(f"pod-{number}", "BestEffort", **SCORED)
            started(ruled, pod)
            wait_for(lambda pod=pod: ruled.value(pod, "cpu.cfs_quota_us") == "50000", agent.story)  # type: ignore[misc]
            ruled.remove_pod(pod)
        wait_for(lambda: ruled.value(first, "cpu.shares") == "512", agent.story)
        wait_for(lambda: descriptors_and_writes()[0] <= before[0] + 2 and descriptors_and_writes()[1] == 0, agent.story)
        agent.wait_ready()
