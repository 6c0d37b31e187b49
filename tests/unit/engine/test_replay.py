"""The restart of a dry engine: unfinished creations, ended containers and damaged records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine import replay as module
from nri.engine.calls.statuses import StatusCalls
from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.lifecycle.inventory import container_status
from nri.engine.lifecycle.processes import Processes
from nri.engine.replay import RECORD_LOST, lost_container, lost_pod, sweep
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError


def records(dry: Any, kind: str) -> dict[str, Any]:
    paths = (dry.config.root / "records" / kind).glob("*.json")
    return {path.stem: json.loads(path.read_text()) for path in paths}


def change(dry: Any, kind: str, identity: str, **values: Any) -> None:
    path = dry.config.root / "records" / kind / f"{identity}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_after_a_reboot_containers_have_exited_and_are_reported_once(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    engine = dry.restart()
    assert engine.inventory.container(container_id).ended.wait(20)
    assert engine.inventory.container(container_id).record.state is ContainerState.EXITED
    assert dry.told.of("c")[-1] == "stop_container"
    engine = dry.restart()
    engine.pod_removal.remove(pod)
    assert dry.told.of("c").count("stop_container") == dry.told.of("c").count("remove_container") == 1
    assert dry.told.of("pod") == ["run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox"]


def test_a_recorded_but_unreported_exit_is_reported(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    dry.engine.container_removal.stop(container_id)
    dry.engine.stop()
    change(dry, "containers", container_id, nri={"told": "created"})
    dry.told.events.clear()
    engine = dry.restart()
    assert engine.inventory.container(container_id).ended.wait(20)
    assert dry.told.of("c") == ["stop_container"]
    assert dry.told.known[-1][1] == ["c"]  # and plugins that join before know of it


def test_unfinished_creations_are_undone_without_an_event(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.create(pod)
    dry.engine.stop()
    change(dry, "containers", container_id, state="creating")
    dry.told.events.clear()
    engine = dry.restart()
    assert (engine.inventory.containers(), engine.complaints, dry.told.events) == ([], [], [])
    assert records(dry, "containers") == {} and not (dry.config.state / "bundles" / container_id).exists()
    dry.engine.stop()
    change(dry, "pods", pod, state="creating")
    engine = dry.restart()
    assert (engine.inventory.pods(), records(dry, "pods")) == ([], {})


def test_names_and_configurations_survive_a_restart(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.create(pod, labels={"a": "b"})
    before = dry.engine.inventory.container(container_id).record
    after = dry.restart().inventory.container(container_id)
    assert (after.record.name, after.record.labels) == (before.name, {"a": "b"})
    assert after.config.command == ["sh"] and after.spec["process"]["args"] == ["sh"]


def test_an_interrupted_removal_can_be_repeated(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    dry.engine.container_removal.stop(container_id)
    dry.engine.stop()
    change(dry, "containers", container_id, state="removing")
    engine = dry.restart()
    engine.container_removal.remove(container_id)
    assert engine.inventory.containers() == [] and dry.told.of("c")[-1] == "remove_container"


def test_a_pod_with_a_damaged_record_is_not_ready_and_keeps_its_containers(dry: Any) -> None:
    pod = dry.pod()
    container = dry.create(pod)
    dry.engine.stop()
    (dry.config.root / "records/pods" / f"{pod}.json").write_text("{")
    for _ in range(2):  # also at the next start
        engine = dry.restart()
        record = engine.inventory.pod(pod).record
        assert (record.state, record.namespace, record.uid) == (PodState.STOPPING, "n", "u-pod")
        assert engine.inventory.pod(pod).config.metadata.name == "pod"
        assert engine.inventory.container(container).record.pod_id == pod
    engine.pod_removal.remove(pod)
    assert (engine.inventory.pods(), engine.inventory.containers()) == ([], [])
    assert (dry.config.root / "records/broken" / f"{pod}.json").read_text() == "{"


def test_a_container_with_a_damaged_record_shows_the_reason(dry: Any) -> None:
    pod = dry.pod()
    container = dry.create(pod)
    dry.engine.stop()
    (dry.config.root / "records/containers" / f"{container}.json").write_text("{")
    engine = dry.restart()
    entry = engine.inventory.container(container)
    assert (entry.record.pod_id, entry.config.metadata.name, entry.record.image) == (pod, "c", "busybox")
    assert f"records/containers/{container}.json" in entry.record.message and "set aside as" in entry.record.message
    assert dry.told.known[-1] == (["pod"], ["c"])
    engine.container_removal.remove(container)
    assert dry.told.of("c")[-2:] == ["stop_container", "remove_container"]
    assert not (dry.config.state / "bundles" / container).exists()


def test_a_container_with_damaged_record_and_spec_is_ended(dry: Any) -> None:
    container = dry.create(dry.pod())
    dry.engine.stop()
    (dry.config.root / "records/containers" / f"{container}.json").write_text("{")
    (dry.config.state / "bundles" / container / "config.json").write_text("{")
    engine = dry.restart()
    assert engine.inventory.containers() == [] and not (dry.config.state / "bundles" / container).exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("mounts", [{"container_path": 7}]), ("resources", {"cpu_shares": "x"}), ("user", {"uid": []}),
     ("config", {"metadata": {"name": 7}}), ("config", {}),
     ("config", {"metadata": {"name": "c"}}), ("exit_code", 1 << 40)],
)  # fmt: skip
def test_a_record_with_an_impossible_value_is_set_aside(dry: Any, key: str, value: object) -> None:
    container = dry.create(dry.pod())
    dry.engine.stop()
    change(dry, "containers", container, **{key: value})
    engine = dry.restart()
    assert "set aside as" in engine.inventory.container(container).record.message
    container_status(engine.inventory.container(container))


@pytest.mark.parametrize("spec", ['{"mounts": "x"}', "{", '{"linux": {"resources": {"cpu": 7}}}'])
def test_a_container_with_an_unusable_spec_can_be_stopped_and_removed(dry: Any, spec: str) -> None:
    container = dry.run(dry.pod())
    dry.engine.stop()
    (dry.config.state / "bundles" / container / "config.json").write_text(spec)
    engine = dry.restart()
    assert [line for line in engine.complaints if f"{container}/config.json cannot be used" in line]
    engine.container_removal.stop(container)
    engine.container_removal.remove(container)
    assert engine.inventory.containers() == []


def test_containers_without_a_record_are_removed(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.create(pod)
    dry.engine.stop()
    (dry.config.root / "records/containers" / f"{container_id}.json").unlink()
    engine = dry.restart()
    assert not (dry.config.state / "bundles" / container_id).exists()
    assert engine.inventory.pods() and (dry.config.state / "pods" / pod).exists()
    dry.engine.stop()
    (dry.config.root / "records/pods" / f"{pod}.json").unlink()
    dry.restart()
    assert not (dry.config.state / "pods" / pod).exists()


def test_a_pod_without_its_files_is_not_ready(dry: Any) -> None:
    pod = dry.pod()
    dry.engine.stop()
    for path in (dry.config.state / "pods" / pod).iterdir():
        path.unlink()
    (dry.config.state / "pods" / pod).rmdir()
    assert dry.restart().inventory.pod(pod).record.state is PodState.STOPPING


def processes_of(dry: Any) -> Processes:
    return Processes(dry.engine.inventory, dry.engine.machinery)


def test_recorded_containers_keep_their_images(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    removed_ids: list[str] = []
    monkeypatch.setattr(dry.engine.images, "unmount", removed_ids.append)
    for name in ("c1", "c1-image0", "c2", "c2-image3", "p1"):
        (dry.engine.images.snapshots.root / name).mkdir()
    assert sweep(dry.engine.machinery, processes_of(dry), {"c1", "p1"}) == []
    assert removed_ids == ["c2", "c2-image3"]


def leftovers_of(dry: Any) -> list[Path]:
    """Folders of a container and a pod that no record knows."""
    places = dry.engine.machinery.places
    folders = [places.bundle("lost"), places.pod("lostpod"), dry.engine.images.root / "dry/lost"]
    (dry.engine.images.snapshots.root / "lost").mkdir()
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def test_only_folders_without_a_record_are_removed(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    folders = leftovers_of(dry)
    assert sweep(dry.engine.machinery, processes_of(dry), {pod, container_id}) == []
    assert not [folder for folder in folders if folder.exists()]
    places = dry.engine.machinery.places
    assert places.bundle(container_id).exists()
    assert places.pod(pod).exists()


def test_a_folder_that_cannot_be_removed_is_logged_and_the_others_are_removed(
    dry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, pod, _ = leftovers_of(dry)

    def refuse(*_: object) -> None:
        raise EngineError("it is busy")

    monkeypatch.setattr(module, "remove_bundle", refuse)
    complaints = sweep(dry.engine.machinery, processes_of(dry), set())
    assert "the bundle of lost, which has no record: it is busy" in complaints
    assert bundle.exists()
    assert not pod.exists()


def test_a_pod_with_a_lost_record_is_listed_under_its_id(dry: Any) -> None:
    pod, other = dry.pod(), dry.pod("other")
    dry.engine.stop()
    (dry.config.root / "records/pods" / f"{pod}.json").write_text("{")
    change(dry, "pods", other, config={})
    engine = dry.restart()
    items = StatusCalls(engine.inventory).list_pod_sandbox(pb.ListPodSandboxRequest(), None).items
    assert {item.id: item.metadata.name for item in items} == {pod: pod, other: other}
    for identity in (pod, other):
        engine.pod_removal.remove(identity)


def bundle(dry: Any, identity: str, spec: object) -> None:
    folder = dry.engine.machinery.places.bundle(identity)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(spec))


def test_a_lost_container_has_the_pod_of_its_spec_and_the_cgroup_of_its_name(dry: Any, tmp_path: Path) -> None:
    (tmp_path / "cgroups/kubepods/pod1/c1").mkdir(parents=True)
    cgroups = Cgroups(v2=True, root=tmp_path / "cgroups")
    rows = {"sandbox-id": "p1", "container-name": "app", "sandbox-name": "web", "sandbox-namespace": "shop"}
    bundle(dry, "c1", {"annotations": {f"io.kubernetes.cri.{key}": text for key, text in rows.items()}})
    container = lost_container("c1", "it cannot be read", dry.engine.machinery, cgroups)
    assert (container.pod_id, container.cgroup_path, container.state) == (
        "p1", "/kubepods/pod1/c1", ContainerState.UNKNOWN,
    )  # fmt: skip
    assert (container.reason, container.message) == (RECORD_LOST, "it cannot be read")
    assert container.config["metadata"] == {"name": "app"}
    pod = lost_pod("p1", dry.engine.machinery, cgroups, [container])
    assert (pod.state, pod.namespace, pod.cgroup_parent) == (PodState.STOPPING, "shop", "/kubepods/pod1")
    assert pod.config["linux"]["cgroup_parent"] == "/kubepods/pod1"  # a client's, which the engine does not remove


@pytest.mark.parametrize(
    "spec", [[], {"annotations": 7}, {"annotations": {"io.kubernetes.cri.sandbox-id": ["p"]}},
             {"annotations": {"io.kubernetes.cri.sandbox-id": "\ud800"}}]
)  # fmt: skip
def test_a_lost_container_without_a_spec_has_no_pod(dry: Any, tmp_path: Path, spec: object) -> None:
    bundle(dry, "c1", spec)
    container = lost_container("c1", "", dry.engine.machinery, Cgroups(v2=True, root=tmp_path / "none"))
    assert (container.pod_id, container.cgroup_path, container.runtime_handler) == ("", "", "runc")


def test_a_lost_pod_has_the_default_cgroup(dry: Any, tmp_path: Path) -> None:
    pod = lost_pod("p1", dry.engine.machinery, Cgroups(v2=True, root=tmp_path / "none"), [])
    assert pod.config["metadata"] == {"name": "p1"}
    assert pod.cgroup_parent == dry.engine.machinery.pod_cgroup("p1") and pod.config["linux"]["cgroup_parent"] == ""
