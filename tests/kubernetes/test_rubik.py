"""Both profiles of the agent in one process under a real kubelet: its static pods have the values of both.

Without an API server: pods are known from NRI alone, and rules from files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.agent.koordinator import batch_resource, names
from tests.agent import node as agents
from tests.agent.node import AgentProgram, machine
from tests.kubernetes.conftest import RunPod
from tests.kubernetes.kubelet import CGROUPS
from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.pods import pod
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(not (CGROUPS / "cpu").is_dir(), reason="the values are read from files of cgroup v1")
WRITES = "blkio.throttle.write_iops_device"


@pytest.fixture
def agent(node: Node, tmp_path: Path) -> Iterator[AgentProgram]:
    """The agent with both profiles."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"agent": {"informerType": "nri", "enabledFeatures": ["ioLimit"]}}))
    with machine(tmp_path / "host", node.runtime.run_dir.name) as root:
        program = AgentProgram(agents.Node(node.runtime, root, tmp_path / "agent"), "nri,standalone", pods="nri")  # type: ignore[arg-type]
        program.more = ("--profile", "koordinator", "--profile", "rubik", "--config", str(config))
        with program:
            yield program


def values(static: StaticPod) -> tuple[str, str]:
    """Its quota, which is Koordinator's to give, and its limit of block I/O, which is rubik's."""
    return static.cgroup("cpu", "cpu.cfs_quota_us", "cpu.max"), static.cgroup("blkio", WRITES, "io.max")


def overwrite(static: StaticPod, controller: str, file: str, text: str) -> None:
    """Write a file of its container's cgroup, as somebody else."""
    rows = (line.split(":", 2) for line in Path(f"/proc/{static.pid()}/cgroup").read_text().splitlines())
    folder = next(folder for _, controllers, folder in rows if controller in controllers.split(","))
    (CGROUPS / controller / folder.lstrip("/") / file).write_text(text)


def test_pods_have_the_values_of_both_profiles_and_regain_them_after_a_kill(agent: AgentProgram, run: RunPod) -> None:
    disk = min(Path("/sys/block").glob("*/dev")).read_text().strip()
    words = {
        "volcano.sh/blkio-limit": json.dumps({"device_write_iops": [{"device": disk, "value": "7"}]}),
        batch_resource.ANNOTATION_EXTENDED: json.dumps(
            {"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "500"}}}}
        ),
    }
    manifest = pod("both", annotations=words)
    manifest["metadata"]["labels"][names.LABEL_QOS] = "BE"
    static = run(manifest)
    static.wait_ready()
    wait_for(lambda: values(static) == ("50000", f"{disk} 7"), lambda: f"{values(static)}\n{agent.story()}")
    agent.kill()
    overwrite(static, "cpu", "cpu.cfs_quota_us", "-1")
    overwrite(static, "blkio", WRITES, f"{disk} 0")
    assert values(static) == ("-1", "")
    agent.start()
    wait_for(lambda: values(static) == ("50000", f"{disk} 7"), lambda: f"{values(static)}\n{agent.story()}")
