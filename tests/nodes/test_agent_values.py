"""Pod values of the agent on an engine with systemd's cgroups: they are in force, and stay so."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nodes.conftest import NRI, run
from tests.support.waiting import wait_for
from tools.runtimes.images import BUSYBOX

CGROUPS = Path("/sys/fs/cgroup")
RULES = """
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: groupIdentity}
    beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
"""
POD = f"""
apiVersion: v1
kind: Pod
metadata:
  name: batch
  uid: UID
  labels: {{koordinator.sh/qosClass: BE, koordinator.sh/priority: "5500"}}
  annotations:
    node.koordinator.sh/extended-resource-spec: >-
      {{"containers": {{"work": {{"requests": {{"kubernetes.io/batch-cpu": "500"}},
      "limits": {{"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "256Mi"}}}}}}}}
spec:
  hostNetwork: true
  containers:
  - name: work
    image: {BUSYBOX}
    imagePullPolicy: Never
    command: [sh, -c, "trap exit TERM; while true; do sleep 0.1; done"]
    resources:
      requests: {{kubernetes.io/batch-cpu: "500", kubernetes.io/batch-memory: 256Mi}}
      limits: {{kubernetes.io/batch-cpu: "500", kubernetes.io/batch-memory: 256Mi}}
"""
#: Half a CPU and 256 MiB, as files of cgroup v2.
VALUES = {"cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": str(256 << 20)}


def values(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text().strip() for name in VALUES}


@pytest.fixture
def batch_pod(engine: str, tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Start the pod; returns its slice."""

    def start() -> Path:
        uid = uuid.uuid4()
        (tmp_path / "pod.yaml").write_text(POD.replace("UID", str(uid)))
        run(*NRI, "pod", "run", "-f", str(tmp_path / "pod.yaml"))
        name = f"kubepods-besteffort-pod{str(uid).replace('-', '_')}.slice"
        return CGROUPS / "kubepods.slice/kubepods-besteffort.slice" / name

    yield start
    run(*NRI, "pod", "rm", "-f", "batch")


@pytest.mark.parametrize("modes", ["nri", "nri,standalone"])
def test_values_of_a_pod_last_over_its_first_container_and_a_reload(
    modes: str, agent: Callable[[str, str], None], batch_pod: Callable[[], Path]
) -> None:
    agent(modes, RULES)
    folder = batch_pod()
    wait_for(lambda: values(folder) == VALUES, lambda: f"the values of {folder}: {values(folder)}", timeout_s=5)
    run("systemctl", "daemon-reload")
    assert values(folder) == VALUES, "after a reload"
    assert "gone" not in run(*NRI, "agent", "explain", "batch")
