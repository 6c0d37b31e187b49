"""Damaged files of the engine, of conmon and of the OCI runtime, one file at a time.

Whatever is in them, the pod can be removed, and no process, mount, namespace or address remains.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.processes import Processes
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import unmount
from nri.files import remove_tree
from tests.engine.node import CGROUPS, V2, Node

#: The files, with the id of the pod and of the container in their place.
FILES = (
    "root/records/pods/{pod}.json",
    "root/records/containers/{container}.json",
    "root/networks/{pod}.json",
    "root/images/snapshots/{container}/snapshot.json",
    "state/bundles/{container}/config.json",
    "state/bundles/{container}/pid",
    "state/bundles/{container}/conmon.pid",
    "state/bundles/{container}/persist",
    "state/bundles/{pod}/config.json",
    "state/bundles/{pod}/conmon.pid",
    "state/bundles/{container}",
    "state/pods/{pod}/hosts",
    "state/runtimes/runc/{container}/state.json",
    "state/runtimes/runc/{container}",
    "state/runtimes/runc/{pod}/state.json",
)


def _values(path: Path) -> None:
    """Other values of other types under all keys at the top, or no table at all."""
    try:
        rows = json.loads(path.read_text())
    except ValueError:
        rows = {}
    rows = rows if isinstance(rows, dict) else {}
    bad = [None, -1, 2**70, "", "../../../../etc", [], {}, True, "x" * 5000, "a\0b", 1.5]
    path.write_text(json.dumps({key: bad[index % len(bad)] for index, key in enumerate(rows)}))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        for mounted in (path, path / "persist"):
            if mounted.is_mount():
                unmount(mounted, lazily=True)
        remove_tree(path)
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": _cut,
    "noise": lambda path: path.write_bytes(os.urandom(500)),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "null": lambda path: path.write_bytes(b"null"),
    "values": _values,
    "link": _replaced(lambda path: path.symlink_to("/etc/passwd")),
    "pipe": _replaced(os.mkfifo),
    "folder": _replaced(Path.mkdir),
    "removed": _replaced(lambda _: None),
}


def _kinds(file: str) -> list[str]:
    """The kinds of damage of a file; those that only change content are not for folders."""
    folder = file.endswith(("persist", "{container}"))
    return [kind for kind in DAMAGES if not folder or kind in ("link", "pipe", "removed")]


def _look(node: Node) -> None:
    """The calls that a kubelet makes all the time."""
    engine = node.engine
    for pod in engine.inventory.pods():
        engine.domain.pod_message(engine.inventory.pod(pod.id))
    for container in engine.inventory.containers():
        engine.domain.container_message(engine.inventory.container(container.id))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("moment", ["while the engine runs", "before a start"])
def test_a_pod_with_a_damaged_file_is_removed_and_nothing_remains(node: Node, file: str, moment: str) -> None:
    rows = []
    for kind in _kinds(file):
        pod = node.pod(kind, network=pb.POD, pid=pb.POD)
        rows.append((kind, pod, node.run(pod)))
    if moment == "before a start":
        node.stop()
    for kind, pod, container in rows:
        DAMAGES[kind](node.folder / file.format(pod=pod, container=container))
    node.engine  # noqa: B018  starts it again
    _look(node)
    for kind, pod, container in rows:
        began = time.monotonic()
        node.engine.container_removal.stop(container, 1)
        node.engine.pod_removal.stop(pod)
        node.engine.pod_removal.remove(pod)
        assert time.monotonic() - began < 20, kind
        leftovers = [line for line in node.machine.leftovers() if pod in line or container in line]
        assert leftovers == [], kind
    assert (node.engine.inventory.pods(), node.engine.inventory.containers()) == ([], [])
    if file.startswith("root/networks"):  # which addresses the pod has is known from there alone
        remove_tree(node.folder / "ipam")
        remove_tree(node.folder / "root/networks/broken")
    node.assert_nothing_left()


def test_a_missing_record_is_reported_and_its_container_runs_until_it_is_removed(node: Node) -> None:
    pod = node.pod(network=pb.POD)
    container = node.run(pod)
    pid = node.engine.inventory.container(container).record.pid
    node.stop()
    for path in (node.folder / "root/records").rglob("*.json"):
        path.write_text("{")
    for _ in range(2):
        node.restart()
        record = node.engine.inventory.container(container).record
        assert (record.state, record.pod_id, record.reason) == (ContainerState.UNKNOWN, pod, "RecordLost")
        assert f"{container}.json" in record.message and "set aside as" in record.message
        assert node.engine.inventory.pod(pod).record.state is PodState.STOPPING
        assert Path(f"/proc/{pid}").exists()
    assert len([line for line in node.engine.complaints if "set aside as" in line]) == 0
    node.engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_processes_in_nested_cgroups_of_a_damaged_container_are_killed_even_if_frozen(node: Node) -> None:
    pod = node.pod()
    container = node.run(pod)
    record = node.engine.inventory.container(container).record
    tops = [CGROUPS] if V2 else [CGROUPS / "freezer", CGROUPS / "pids"]
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            for top in tops:
                folder = top / record.cgroup_path.lstrip("/") / "below"
                folder.mkdir()
                (folder / "cgroup.procs").write_text(str(child.pid))
            freezer = tops[0] / record.cgroup_path.lstrip("/")
            (freezer / ("cgroup.freeze" if V2 else "freezer.state")).write_text("1" if V2 else "FROZEN")
            (node.folder / f"state/runtimes/runc/{container}/state.json").write_text("{")
            node.engine.container_removal.stop(container)
            node.engine.container_removal.remove(container)
            assert child.wait(10) == -9
        finally:
            child.kill()
    node.remove(pod)
    node.assert_nothing_left()


def test_an_unexpected_error_while_stopping_a_container_fails_stop_pod(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = node.pod()
    node.run(pod)

    def broken(*_: object) -> None:
        raise LookupError("no such zone")

    with monkeypatch.context() as context:
        context.setattr(Processes, "stop", broken)
        with pytest.raises(LookupError, match="no such zone"):
            node.engine.pod_removal.stop(pod)
    with monkeypatch.context() as context:
        context.setattr(node.engine.domain, "stop", broken)
        with pytest.raises(EngineError, match="plugins could not be notified: LookupError: no such zone"):
            node.engine.pod_removal.stop(pod)
    node.engine.pod_removal.stop(pod)
    node.remove(pod)


def test_a_second_engine_does_not_change_the_folders(node: Node) -> None:
    pod = node.pod()
    for folder in (node.config.root, node.config.state):
        folder.chmod(0o711)
    settings = node.folder / "second.toml"
    settings.write_text(f'root = "{node.config.root}"\nstate = "{node.config.state}"\nsocket = "{node.folder}/s"\n')
    argv = [sys.executable, "-m", "nri", "engine", "serve", "--config", str(settings)]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1 and f"another engine uses {node.config.root}" in second.stderr
    assert [folder.stat().st_mode & 0o777 for folder in (node.config.root, node.config.state)] == [0o711, 0o711]
    node.remove(pod)
