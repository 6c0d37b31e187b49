"""A node under systemd: where these tests can run, its engine and its agent, as their units run them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from nri.host.cgroups import Driver, KubeQos, pod_path
from tests.support.needs import need_machine
from tools.runtimes.images import BUSYBOX, image_archive

NRI = (sys.executable, "-m", "nri")
UNITS = Path("/etc/systemd/system")
CGROUPS = Path("/sys/fs/cgroup")
ENGINE_UNIT = "nri-engine.service"
#: Drivers of cgroups and OCI runtimes, for the fixture `engine`.
SYSTEMD = ("systemd runc", "systemd crun")
EVERY_ENGINE = (*SYSTEMD, "cgroupfs runc", "cgroupfs crun")
CONFIGURATION = """
default_runtime = "{runtime}"
[cgroups]
driver = "{driver}"
{parent}
[nri]
plugin_request_timeout = "30s"
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


def run(*words: str) -> str:
    """Run a program of the node; returns its output."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A node is slow."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", autouse=True)
def systemd_node() -> None:
    """Run only on cgroup v2 with systemd as process 1."""
    has_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    has_systemd = Path("/run/systemd/system").exists() and Path("/proc/1/comm").read_text() == "systemd\n"
    need_machine(has_v2 and has_systemd, "cgroup v2 under systemd; `make test-nodes` brings its own")


@dataclass(frozen=True, slots=True)
class BatchPod:
    """A running pod of the class batch, with one container.

    Attributes:
        cgroup: its folder; a slice with the driver systemd.
    """

    cgroup: Path

    def cgroup_of(self, program: str) -> Path:
        """The cgroup with a process of this program, in the pod's."""
        for file in self.cgroup.rglob("cgroup.procs"):
            for pid in file.read_text().split():
                with suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text() == f"{program}\n":
                        return file.parent
        raise AssertionError(f"no process of {program} in {self.cgroup}")


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest, systemd_node: None) -> Iterator[str]:
    """The engine as the unit that `nri engine unit` prints, with one image; its driver of cgroups and OCI runtime."""
    driver, runtime = request.param.split()
    parent = 'parent = "kubepods.slice"' if driver == "systemd" else ""
    Path("/etc/nri").mkdir(exist_ok=True)
    Path("/etc/nri/engine.toml").write_text(CONFIGURATION.format(driver=driver, runtime=runtime, parent=parent))
    (UNITS / ENGINE_UNIT).write_text(run(*NRI, "engine", "unit"))
    run("systemctl", "daemon-reload")
    run("systemctl", "start", ENGINE_UNIT)
    run(*NRI, "engine", "load", f"oci-archive:{image_archive(print)}:{BUSYBOX}", BUSYBOX)
    yield request.param
    run("systemctl", "stop", ENGINE_UNIT)


@pytest.fixture
def batch_pod(engine: str, tmp_path: Path) -> Iterator[Callable[[], BatchPod]]:
    """Start a pod of the class batch."""

    def start() -> BatchPod:
        uid = str(uuid.uuid4())
        (tmp_path / "pod.yaml").write_text(POD.replace("UID", uid))
        run(*NRI, "pod", "run", "-f", str(tmp_path / "pod.yaml"))
        driver = Driver(engine.split(maxsplit=1)[0])
        return BatchPod(CGROUPS / pod_path(driver, KubeQos.BEST_EFFORT, uid))

    yield start
    if "default/batch" in run(*NRI, "pod", "ps", "-a"):
        run(*NRI, "pod", "rm", "-f", "batch")


@pytest.fixture
def agent(engine: str, tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Start the agent as a unit: with these modes, and this file of rules. It finds the engine's sockets itself."""
    unit = "nri-test-agent.service"

    def start(modes: str, rules: str) -> None:
        (tmp_path / "rules.yaml").write_text(rules)
        words = (*NRI, "agent", "run", "--mode", modes, "--rules", str(tmp_path / "rules.yaml"))
        run("systemd-run", f"--unit={unit}", "--property=Type=notify", f"--working-directory={Path.cwd()}", *words)

    yield start
    run("systemctl", "stop", unit)
