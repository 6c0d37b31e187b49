"""Every control of cgroup v2 that a plugin sets on the engine is applied and kept in a node with systemd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from tests.nodes.conftest import CGROUPS, ENGINE_UNIT, EVERY_ENGINE, NRI, run
from tests.real.controls import CONTROLS, MIB, together, unified
from tests.real.plugin_process import PluginProcess
from tools.runtimes.images import BUSYBOX

SOCKET = Path("/var/run/nri/nri.sock")
#: A node has one memory node, no huge pages, and no disk.
NODE_CONTROLS = {
    **{name: control for name, control in CONTROLS.items() if name not in ("cpuset.mems", "hugetlb.2MB.max", "io.max")},
    "memory.oom.group": unified("memory.oom.group", "1", "0"),
    "cpu.max.burst": unified("cpu.max.burst", "1000", "2000"),
}
#: runc 1.1 has no property of the scope for these, so a reload of systemd resets them.
RESET = {"systemd runc": {"io.weight", "memory.oom.group"}}


@pytest.fixture
def cgroup(engine: str) -> Iterator[Path]:
    """The cgroup of a container with all controls, which its plugin also changes in each update."""
    annotations = {
        "test/set": json.dumps(together("setters", NODE_CONTROLS)),
        "test/update": json.dumps(
            {"on": "UpdateContainer", "container": "main", "set": together("update", NODE_CONTROLS)}
        ),
    }
    limits = {"memory": "128Mi"}
    container = {
        "name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "100000"],
        "resources": {"limits": limits},
    }  # fmt: skip
    manifest = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "controlled", "annotations": annotations},
        "spec": {"hostNetwork": True, "containers": [container]},
    }  # fmt: skip
    path = Path("/run/controlled.json")
    path.write_text(json.dumps(manifest))
    with plugin():
        run(*NRI, "pod", "run", "-f", str(path))
    try:
        (procs,) = [file for file in CGROUPS.glob("kubepods*/**/cgroup.procs") if _runs(file, "sleep")]
        yield procs.parent
    finally:
        run(*NRI, "pod", "rm", "-f", "controlled")


def _runs(procs: Path, program: str) -> bool:
    return any(Path(f"/proc/{pid}/comm").read_text() == f"{program}\n" for pid in procs.read_text().split())


@contextmanager
def plugin() -> Iterator[None]:
    """Run the plugin that does what annotations of pods say."""
    with PluginProcess(SOCKET) as process:
        process.wait_for("Synchronize")
        yield


def differences(cgroup: Path, part: str) -> dict[str, str]:
    """The controls whose files do not have the text of this part."""
    texts = {name: (cgroup / control.file).read_text().strip() for name, control in NODE_CONTROLS.items()}
    return {name: text for name, text in texts.items() if text != getattr(NODE_CONTROLS[name], part)}


@pytest.mark.parametrize("engine", EVERY_ENGINE, indirect=True)
def test_controls_of_a_container_survive_a_reload_and_a_restart_of_the_engine(engine: str, cgroup: Path) -> None:
    reset = RESET.get(engine, set())
    assert differences(cgroup, "text") == {}
    run("systemctl", "daemon-reload")
    assert differences(cgroup, "text").keys() == reset, "after a reload"
    run("systemctl", "restart", ENGINE_UNIT)
    assert differences(cgroup, "text").keys() == reset, "after a restart of the engine"
    with plugin(), CriClient("", timeout_s=100) as cri:
        (container,) = cri.call("ListContainers", pb.ListContainersRequest()).containers
        resources = pb.LinuxContainerResources(memory_limit_in_bytes=120 * MIB)
        request = pb.UpdateContainerResourcesRequest(container_id=container.id, linux=resources)
        cri.call("UpdateContainerResources", request)
    assert differences(cgroup, "updated") == {}, "after an update"
    run("systemctl", "daemon-reload")
    # An update to the value of a new cgroup cannot be lost.
    assert differences(cgroup, "updated").keys() == reset - {"memory.oom.group"}, "after an update and a reload"
