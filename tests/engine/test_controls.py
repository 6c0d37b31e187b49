"""Every control that this kernel has with cgroups of version 1, set by a plugin on the engine and read back.

One container of each OCI runtime has nearly all of them: at its creation, by a request that the plugin changes, and by
an update of the plugin alone. Others have what contradicts them. tests/guest has the same for version 2.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.conformance import fields
from nri.conformance.fields import CASES, CDI_SPEC, CGROUP_PARENT, FOLDER, INSIDE, PROCESS, A, Case
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import OciRuntime
from tests.engine.node import CGROUPS, V2, Node, Recorder, unsolicited
from tests.engine.view import EngineView
from tests.real.adjustments import NEWER
from tests.real.controls import MIB, Control, call, disk_path, together
from tests.real.controls_v1 import CONTROLS, classes
from tests.support.needs import need_machine, need_root, need_tool
from tests.support.oci_runtimes import newer_runc

pytestmark = pytest.mark.timeout(900)  # the first one may have to build a runtime

RUNTIMES = ("runc", "runc13", "crun")
_WITH_CLASSES = {name for name, row in CONTROLS.items() if "set_blockio_class" in row.setters}
#: What an OCI runtime passes over at the creation, silently; crun 1.8.1 cannot be given a weight at all.
PASSED_OVER = {
    "runc": {"memory.kmem.tcp.limit_in_bytes"},
    "runc13": {"memory.kmem.tcp.limit_in_bytes"},
    "crun": {"blkio.bfq.weight"},
}
#: What it does not change in a container that exists. The engine says so by field.
_OF_RUNC = {"memory.kmem.tcp.limit_in_bytes", "memory.swappiness", "memory.oom_control", "devices.list", *_WITH_CLASSES}
#: crun only ever switches the OOM killer off.
NOT_UPDATED = {"runc": _OF_RUNC, "runc13": _OF_RUNC, "crun": {"blkio.bfq.weight", "memory.oom_control"}}
#: An answer to UpdateContainer has no device rules for the runtime, in the reference as here: docs/deviations.md.
NOT_IN_ANSWERS = {"devices.list"}
FIELDS = {"memory.kernel_tcp", "memory.swappiness", "memory.disable_oom_killer", "devices", "blockio_class"}
"""The fields of `_OF_RUNC`."""


FIRST = (
    "env", "env-replace", "annotation", "mount", "mount-tmpfs", "mount-remove", "args", "rlimit", "device",
    "device-rule", "cdi", "oom-score", "hook-create-runtime", "hook-prestart", "hook-poststart",
    "hook-create-container", "hook-start-container", "hook-poststop", "namespace-add", "sysctl", "seccomp", "rdt",
)  # fmt: skip
SECOND = ("env-remove", "cgroups-path", "namespace-remove")
THIRD = ("device-use", "namespace-replace")


def _namespace(kind: str, adjustment: nri.Adjustment, whose: str) -> Case:
    return Case("", PROCESS, lambda _: adjustment, lambda view: fields.namespace(view, kind), whose)


#: Of a pod on the node's network whose containers have processes and a host name of their own.
NAMESPACES = {
    "network": _namespace("net", A().set_namespace("network"), "own"),
    "pid": _namespace("pid", A().remove_namespace("pid"), "host"),
    "uts": _namespace("uts", A().remove_namespace("uts"), "host"),
    "sysctl": Case(
        "",
        INSIDE,
        lambda _: A().set_sysctl("net.ipv4.ip_default_ttl", "33"),
        lambda view: view.exec("/bin/cat", "/proc/sys/net/ipv4/ip_default_ttl").strip(),
        "33",
    ),
}
_LAST = "hook-poststop"  # read by taking the container away


class Rig:
    """An engine with one OCI runtime, a plugin, and a pod whose containers it adjusts."""

    def __init__(self, node: Node, handler: str, blockio: str = "") -> None:
        need_machine(not V2, "cgroups of version 1; tests/guest has those of version 2")
        need_machine(disk_path(), "disk whose input and output could be limited")
        self.node, self.handler = node, handler
        self.folder = node.folder / "seen"
        self.folder.mkdir()
        (self.folder / "hello").write_text("hello")
        self._start(blockio or classes(weight=handler != "crun"))
        self.plugin: Recorder = node.plugin()
        config = node.pod_config()
        config.annotations[FOLDER] = str(self.folder)
        config.annotations[CGROUP_PARENT] = f"/{node.machine.name}"
        self.pod = node.engine.pod_creation.run(config, handler)
        self._allow_realtime()

    def _start(self, classes_of_blockio: str) -> None:
        config = self.node.config
        runtimes = dict(config.runtimes)
        if self.handler == "runc13":
            runtimes[self.handler] = OciRuntime(newer_runc())
        blockio = self.node.folder / "blockio.yaml"
        blockio.write_text(classes_of_blockio)
        (self.node.folder / "cdi").mkdir()
        (self.node.folder / "cdi/test.json").write_text(json.dumps(CDI_SPEC))
        containers = replace(config.containers, cdi_dirs=(str(self.node.folder / "cdi"),), blockio_config=str(blockio))
        self.node.start(replace(config, runtimes=runtimes, containers=containers))

    def _allow_realtime(self) -> None:
        """A cgroup has realtime only of what its parents have."""
        folder = CGROUPS / "cpu"
        for name, runtime_us in ((self.node.machine.name, 100_000), (f"pod{self.pod}", 50_000)):
            folder /= name
            folder.mkdir(exist_ok=True)
            (folder / "cpu.rt_runtime_us").write_text(str(runtime_us))

    def run(self, name: str, cases: list[Case], setters: dict[str, Any] | None = None) -> EngineView:
        """A container with the adjustments of some cases, and other ones."""

        def adjust(pod: Any, _: Any) -> nri.Adjustment:
            adjustment = call(nri.Adjustment(), setters or {})
            for case in cases:
                adjustment.message.MergeFrom(case.adjust(pod).message)
            return adjustment

        self.plugin.on["create"] = adjust
        limit = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(memory_limit_in_bytes=128 * MIB))
        envs = [pb.KeyValue(key="OF_POD", value=b"old")]
        view = EngineView(self.node, self.node.run(self.pod, name, linux=limit, envs=envs), self.folder)
        del self.plugin.on["create"]
        command = Path(f"/proc/{view.pid}/cmdline")
        self.node.wait_for(lambda: b"init" not in command.read_bytes(), "the container's own process")
        return view

    def said(self, view: EngineView, controls: dict[str, Control], part: str) -> dict[str, str]:
        """What the controls' files of a container say; of several lines the one that is expected, if it is there."""
        path = self.node.engine.inventory.container(view.id).record.cgroup_path.lstrip("/")
        actual = {}
        for name, control in controls.items():
            controller, _, file = control.file.partition("/")
            text = (CGROUPS / controller / path / file).read_text().strip()
            actual[name] = expected_line if (expected_line := getattr(control, part)) in text.splitlines() else text
        return actual


def without(names: set[str]) -> dict[str, Control]:
    return {name: control for name, control in CONTROLS.items() if name not in names}


def texts(controls: dict[str, Control], part: str) -> dict[str, str]:
    return {name: getattr(control, part) for name, control in controls.items()}


@pytest.mark.parametrize("handler", RUNTIMES)
def test_every_control_that_a_plugin_sets_is_the_containers(node: Node, handler: str) -> None:
    rig = Rig(node, handler)
    cases = {name: CASES[name] for name in FIRST} | (NEWER if handler == "runc13" else {})
    plain = rig.run("plain", [])
    same = [name for name in cases if name != _LAST and cases[name].read(plain) == cases[name].effect]
    assert same == [], "a container that nobody adjusts reads the same"
    target = rig.run("made", [*cases.values()], together("setters", CONTROLS))
    process = without(PASSED_OVER[handler])
    assert rig.said(target, process, "text") == texts(process, "text")
    readings = {name: case.read(target) for name, case in cases.items() if name != _LAST}
    assert readings == {name: case.effect for name, case in cases.items() if name != _LAST}

    # A request that the plugin changes.
    rig.plugin.on["update"] = lambda _, container: [call(nri.Update(container.id), together("update", CONTROLS))]
    node.engine.resource_updates.update_container(target.id, pb.LinuxContainerResources(memory_limit_in_bytes=94 * MIB))
    changed = without(NOT_UPDATED[handler] | NOT_IN_ANSWERS)
    assert rig.said(target, changed, "updated") == texts(changed, "updated")

    # One that it makes by itself, of a container whose OOM killer is off by now, and of one that has none of it.
    (result,) = node.engine.nri.update(unsolicited(nri.Update(target.id).set_memory_disable_oom_killer(False).message))
    assert [row.outcome for row in result.fields] == ["unsupported"]
    (result,) = node.engine.nri.update(unsolicited(call(nri.Update(plain.id), together("update", CONTROLS)).message))
    changed = without(NOT_UPDATED[handler])
    assert rig.said(plain, changed, "updated") == texts(changed, "updated")
    assert {row.field for row in result.fields if row.reason} == (set() if handler == "crun" else FIELDS)
    assert cases[_LAST].read(target) == cases[_LAST].effect


@pytest.mark.parametrize("handler", RUNTIMES)
def test_what_contradicts_it_is_another_containers(node: Node, handler: str) -> None:
    rig = Rig(node, handler)
    groups = ({name: CASES[name] for name in SECOND}, {name: CASES[name] for name in THIRD}, NAMESPACES)
    for number, cases in enumerate(groups):
        view = rig.run(f"c{number}", [*cases.values()])
        assert {name: case.read(view) for name, case in cases.items()} == {
            name: case.effect for name, case in cases.items()
        }


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A disk whose scheduler knows weights."""
    need_root()
    (tmp_path / "disk").touch()
    os.truncate(tmp_path / "disk", 16 * MIB)
    losetup = need_tool("losetup")
    argv = [losetup, "--find", "--show", str(tmp_path / "disk")]
    disk = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20).stdout.strip()
    need_machine(disk, "free loop device")
    scheduler = Path("/sys/block", Path(disk).name, "queue/scheduler")
    before = next(entry for entry in scheduler.read_text().split() if entry.startswith("[")).strip("[]")
    try:
        need_machine("bfq" in scheduler.read_text(), "bfq scheduler")
        scheduler.write_text("bfq")
        yield disk
    finally:
        scheduler.write_text(before)
        subprocess.run([losetup, "--detach", disk], check=True, timeout=20)


@pytest.mark.parametrize("handler", ["runc", "runc13"])  # crun 1.8 looks for the file of an older kernel
def test_a_weight_for_one_disk_is_the_containers(loop: str, node: Node, handler: str) -> None:
    number = os.stat(loop).st_rdev
    rig = Rig(node, handler, f"Classes: {{heavy: [{{Devices: [{loop}], Weight: 321}}]}}")
    text = f"{os.major(number)}:{os.minor(number)} 321"
    control = Control("blkio/blkio.bfq.weight_device", {"set_blockio_class": "heavy"}, text, {}, "")
    view = rig.run("made", [], control.setters)
    assert rig.said(view, {"one": control}, "text") == {"one": text}
