"""The agent in the modes nri and standalone on a real containerd: its values hold from the first instruction on."""

from __future__ import annotations

import json
import os

import pytest

from tests.agent.files import of_process
from tests.agent.node import AgentProgram, Node
from tests.agent.pods import BATCH, BE, COMMAND, EXTENDED, SENSITIVE
from tests.support.waiting import wait_for

MODES = "nri,standalone"


def topology(cpus: str) -> dict[str, object]:
    pools = json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])
    return {"metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": pools}}}


@pytest.fixture
def ruled(node: Node) -> Node:
    node.rule("NodeResourceTopology", topology("1"))
    node.rule("NodeSLO", {"spec": {}})
    return node


def test_values_hold_before_the_first_instruction_and_explain_shows_them(ruled: Node) -> None:
    with AgentProgram(ruled, MODES) as agent:
        batch = ruled.run_pod("batch", "BestEffort", **BATCH)
        ruled.daemon.cri.run(batch, "app", COMMAND)
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        ruled.daemon.cri.run(web, "app", COMMAND)
        assert ruled.recorded(batch, agent.story)[:3] == ["512", "50000", str(64 << 20)]
        assert ruled.recorded(web, agent.story)[4] == "1"
        assert ruled.value(batch, "cpu.cfs_quota_us") == "50000"
        assert ruled.value(batch, "memory.limit_in_bytes") == str(64 << 20)
        message = agent.explain("web")
        cpus = next(row for row in message["values"] if row["field"] == "cpuset.cpus" and row["container"] == "app")
        assert (cpus["value"], cpus["hook"]) == ("1", "CPUSetAllocator")
        message = agent.explain("batch")
        assert {"cpu.cfs_quota", "memory.limit"} <= {row["name"] for row in message["writes"]}
        assert not [row for row in message["writes"] if row["outcome"] == "refused"], message["writes"]
        assert agent.metric("nri_agent_ready", part="nri") == 1
        assert agent.stop() == 0
    assert ruled.value(batch, "cpu.cfs_quota_us") == "50000", "what was set stays when the agent ends"


def test_a_changed_rule_reaches_running_containers(ruled: Node) -> None:
    with AgentProgram(ruled, "nri") as agent:
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        pid = ruled.pid(ruled.daemon.cri.run(web, "app", COMMAND))
        assert of_process(pid, "cpuset.cpus") == "1"
        ruled.rule("NodeResourceTopology", topology("0"))
        wait_for(lambda: of_process(pid, "cpuset.cpus") == "0", agent.story)


def test_the_next_round_repairs_an_overwritten_value(ruled: Node) -> None:
    with AgentProgram(ruled, MODES) as agent:
        batch = ruled.run_pod("batch", "BestEffort", **BATCH)
        ruled.daemon.cri.run(batch, "app", COMMAND)
        wait_for(lambda: ruled.value(batch, "cpu.cfs_quota_us") == "50000", agent.story)
        ruled.overwrite(batch, "cpu.cfs_quota_us", "-1")
        wait_for(lambda: ruled.value(batch, "cpu.cfs_quota_us") == "50000", agent.story)


def test_a_pod_with_malformed_annotations_runs_and_does_not_affect_other_pods(ruled: Node) -> None:
    with AgentProgram(ruled, MODES) as agent:
        bad = {EXTENDED: "{", "scheduling.koordinator.sh/resource-status": "[" * 5000}
        broken = ruled.run_pod("broken", "BestEffort", labels=BE, annotations=bad)
        ruled.daemon.cri.run(broken, "app", COMMAND)
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        ruled.daemon.cri.run(web, "app", COMMAND)
        assert ruled.recorded(web, agent.story)[4] == "1"
        assert {row["hook"] for row in agent.explain("broken")["errors"]} >= {"CPUSetAllocator"}
        agent.wait_ready()


def test_the_agent_reports_a_bad_rule_and_keeps_the_last_good_rule(ruled: Node) -> None:
    with AgentProgram(ruled, MODES) as agent:
        (ruled.rules / "NodeResourceTopology.json").write_text('{"kind": "NodeResourceTopology", "metadata": 7}')
        wait_for(lambda: agent.metric("nri_agent_rule_problems", kind="NodeResourceTopology") == 1, agent.story)
        assert "NodeResourceTopology.json" in agent.ask("/readyz")
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        ruled.daemon.cri.run(web, "app", COMMAND)
        assert ruled.recorded(web, agent.story)[4] == "1"
        ruled.rule("NodeResourceTopology", topology("0"))
        wait_for(lambda: "NodeResourceTopology.json" not in agent.ask("/readyz"), agent.story)


def test_a_removed_pod_does_not_affect_other_pods(ruled: Node) -> None:
    with AgentProgram(ruled, MODES) as agent:
        for number in range(3):
            removed = ruled.run_pod(f"gone-{number}", "BestEffort", **BATCH)
            ruled.remove_pod(removed)
        batch = ruled.run_pod("batch", "BestEffort", **BATCH)
        ruled.daemon.cri.run(batch, "app", COMMAND)
        assert ruled.recorded(batch, agent.story)[:2] == ["512", "50000"]
        agent.wait_ready()


def test_values_stay_after_the_agent_is_killed_and_its_restart_applies_new_rules(ruled: Node) -> None:
    with AgentProgram(ruled, "nri") as agent:
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        pid = ruled.pid(ruled.daemon.cri.run(web, "app", COMMAND))
        agent.kill()
        assert of_process(pid, "cpuset.cpus") == "1"
        ruled.rule("NodeResourceTopology", topology("0"))
        agent.start()
        wait_for(lambda: of_process(pid, "cpuset.cpus") == "0", agent.story)


def test_the_agent_reconnects_to_a_restarted_runtime(ruled: Node) -> None:
    with AgentProgram(ruled, MODES) as agent:
        web = ruled.run_pod("web", "Burstable", **SENSITIVE)
        pid = ruled.pid(ruled.daemon.cri.run(web, "app", COMMAND))
        ruled.daemon.kill()
        agent.wait_ready(False)
        assert of_process(pid, "cpuset.cpus") == "1"
        ruled.daemon.start()
        agent.wait_ready()
        later = ruled.run_pod("later", "Burstable", **SENSITIVE)
        ruled.daemon.cri.run(later, "app", COMMAND)
        assert ruled.recorded(later, agent.story)[4] == "1"


def test_removed_pods_leave_no_descriptors_or_threads_in_the_agent(ruled: Node) -> None:
    """NRI_PODS=200 for the long run."""
    count = int(os.environ.get("NRI_PODS", "20"))
    with AgentProgram(ruled, MODES) as agent:

        def used() -> tuple[int, int]:
            """Descriptors and threads of the agent."""
            folder = f"/proc/{agent.pid}"
            return len(os.listdir(f"{folder}/fd")), len(os.listdir(f"{folder}/task"))

        before = used()
        for number in range(count):
            pod = ruled.run_pod(f"pod-{number}", "BestEffort", **BATCH)
            ruled.daemon.cri.run(pod, "app", ("sleep", "1000"))
            ruled.remove_pod(pod)
            if number == count // 2:
                before = used()
        wait_for(lambda: all(now <= then + 4 for now, then in zip(used(), before, strict=True)), agent.story)
        waiting = agent.metric("nri_agent_held", what="waiting writes")
        assert waiting is not None and waiting < 50
        agent.wait_ready()
