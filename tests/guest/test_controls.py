"""Values that a plugin sets on a real containerd are in cgroup v2, at creation and by updates.

The outcome is measured and compared with what each containerd does, so that a control that stops working and one that
starts to work both fail a test. All controls are in one container: a life of one takes long in the guest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.real.controls import CONTROLS, MIB, disk, together
from tests.real.plugin_process import PluginProcess
from tools.runtimes import RELEASES, Containerd, Installed, cgroups
from tools.runtimes.config import DaemonSettings

#: What NRI's hugepage limits need of containerd, and an emulated processor of its timeouts.
SETTINGS: dict[str, Any] = {
    "cri": {"disable_hugetlb_controller": False},
    "request_timeout_s": 30,
    "registration_timeout_s": 60,
}
#: Control -> the releases that do not apply it. `runc update` knows no hugepages, and no containerd hands on the pids
#: of an update (support_matrix.py).
NOT_CREATED: dict[str, tuple[str, ...]] = {"pids.max": ("1.7",)}
NOT_UPDATED = {"pids.max": tuple(RELEASES), "hugetlb.2MB.max": tuple(RELEASES)}


@dataclass(frozen=True, slots=True)
class Told:
    """What a container's files say: without a plugin's wishes, as created, as updated, as updated unsolicited."""

    key: str
    plain: dict[str, str]
    created: dict[str, str]
    updated: dict[str, str]
    unsolicited: dict[str, str]


def files(daemon: Containerd, container: str) -> dict[str, str]:
    """What all the controls' files of a container say."""
    pid = daemon.cri.info(container)["pid"]
    return {name: cgroups.read_unified(pid, control.file) for name, control in CONTROLS.items()}


def run_container(daemon: Containerd, name: str, annotations: dict[str, str]) -> str:
    """Run a container in a pod with these annotations, with a memory limit above the annotations' values."""
    pod = daemon.cri.run_pod(name, annotations=annotations)
    return daemon.cri.run(pod, "main", memory_limit_in_bytes=128 * MIB)


@pytest.fixture(scope="module")
def daemon(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """A containerd that has hugepages and one class of block I/O, which limits the disk."""
    classes = tmp_path_factory.mktemp("blockio") / "classes.yaml"
    classes.write_text(f"Classes: {{slow: [{{Devices: [/dev/vda], ThrottleReadBps: {3 * MIB}}}]}}\n")
    with Containerd(installed, DaemonSettings(**SETTINGS, blockio=str(classes))) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def readings(key: str, daemon: Containerd) -> Told:
    """All the files, read at each step of two containers' lives."""
    wishes = {
        "test/set": json.dumps(together("setters")),
        "test/update": json.dumps({"on": "UpdateContainer", "container": "main", "set": together("update")}),
    }
    with PluginProcess(daemon.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        other = run_container(daemon, "plain", {})
        plain = files(daemon, other)
        container = run_container(daemon, "wished", wishes)
        created = files(daemon, container)
        daemon.cri.update(container, memory_limit_in_bytes=120 * MIB)
        updated = files(daemon, container)
        plugin.send({"container": other, "set": together("update")})
        answer = plugin.wait_for("Updated")
        assert (answer["failed"], answer["error"]) == ([], "")
        return Told(key, plain, created, updated, files(daemon, other))


def compare(
    message: Told, name: str, output: str, text: str, before: str, exceptions: dict[str, tuple[str, ...]]
) -> None:
    """Assert that a control's file has `text`, or still `before` if this containerd does not apply the control."""
    assert before != text, f"{name}: the case shows nothing, it was {text!r} before"
    expected = before if message.key in exceptions.get(name, ()) else text
    assert output == expected, f"{name} on containerd {message.key}: {output!r}, before {before!r}"


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_set_at_creation_is_in_the_cgroup(readings: Told, name: str) -> None:
    compare(readings, name, readings.created[name], CONTROLS[name].text, readings.plain[name], NOT_CREATED)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_returned_from_an_update_is_in_the_cgroup(readings: Told, name: str) -> None:
    compare(readings, name, readings.updated[name], CONTROLS[name].updated, readings.created[name], NOT_UPDATED)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_of_an_unsolicited_update_is_in_the_cgroup(readings: Told, name: str) -> None:
    compare(readings, name, readings.unsolicited[name], CONTROLS[name].updated, readings.plain[name], NOT_UPDATED)


def test_a_block_io_class_limits_the_disk(daemon: Containerd) -> None:
    with PluginProcess(daemon.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        container = run_container(daemon, "slow", {"test/set": json.dumps({"set_blockio_class": "slow"})})
    text = files(daemon, container)["io.max"]
    assert text == f"{disk()} rbps={3 * MIB} wbps=max riops=max wiops=max"
