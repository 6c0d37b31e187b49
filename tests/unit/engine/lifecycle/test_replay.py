"""An engine's next life, on a dry engine: what was half made, what had ended, what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle import replay as module
from nri.engine.lifecycle.replay import sweep
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError, ToolMissing


def records(dry: Any, kind: str) -> dict[str, Any]:
    paths = (dry.config.root / "records" / kind).glob("*.json")
    return {path.stem: json.loads(path.read_text()) for path in paths}


def change(dry: Any, kind: str, identity: str, **values: Any) -> None:
    path = dry.config.root / "records" / kind / f"{identity}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_containers_that_are_gone_with_their_machine_have_ended_and_are_told_once(dry: Any) -> None:
    pod = dry.pod()
    made = dry.run(pod)
    engine = dry.restart()
    assert engine.inventory.container(made).ended.wait(20)
    assert engine.containers.get(made).state is ContainerState.EXITED
    assert dry.told.of("c")[-1] == "stop_container"
    engine = dry.restart()
    engine.pods.remove(pod)
    assert dry.told.of("c").count("stop_container") == dry.told.of("c").count("remove_container") == 1
    assert dry.told.of("pod") == ["run_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox"]


def test_an_end_that_was_written_down_and_not_told_is_told(dry: Any) -> None:
    pod = dry.pod()
    made = dry.run(pod)
    dry.engine.containers.stop(made)
    dry.engine.stop()
    change(dry, "containers", made, nri={"told": "created"})
    dry.told.events.clear()
    engine = dry.restart()
    assert engine.inventory.container(made).ended.wait(20)
    assert dry.told.of("c") == ["stop_container"]
    assert dry.told.known[-1][1] == ["c"]  # and plugins that join before know of it


def test_what_was_half_made_is_taken_back_and_told_to_nobody(dry: Any) -> None:
    pod = dry.pod()
    made = dry.create(pod)
    dry.engine.stop()
    change(dry, "containers", made, state="creating")
    dry.told.events.clear()
    engine = dry.restart()
    assert (engine.containers.list(), engine.complaints, dry.told.events) == ([], [], [])
    assert records(dry, "containers") == {} and not (dry.config.state / "bundles" / made).exists()
    dry.engine.stop()
    change(dry, "pods", pod, state="creating")
    engine = dry.restart()
    assert (engine.pods.list(), records(dry, "pods")) == ([], {})


def test_names_and_configurations_are_those_of_before(dry: Any) -> None:
    pod = dry.pod()
    made = dry.create(pod, labels={"a": "b"})
    before = dry.engine.containers.get(made)
    after = dry.restart().containers.entry(made)
    assert (after.record.name, after.record.labels) == (before.name, {"a": "b"})
    assert after.config.command == ["sh"] and after.spec["process"]["args"] == ["sh"]


def test_a_container_being_removed_is_removed_when_it_is_asked_for_again(dry: Any) -> None:
    pod = dry.pod()
    made = dry.run(pod)
    dry.engine.containers.stop(made)
    dry.engine.stop()
    change(dry, "containers", made, state="removing")
    engine = dry.restart()
    engine.containers.remove(made)
    assert engine.containers.list() == [] and dry.told.of("c")[-1] == "remove_container"


def test_nothing_is_touched_for_a_record_that_cannot_be_read(dry: Any) -> None:
    pod = dry.pod()
    made = dry.create(pod)
    dry.engine.stop()
    (dry.config.root / "records/pods" / f"{pod}.json").write_text("{")
    engine = dry.restart()
    assert engine.pods.list() == [] and made in records(dry, "containers")
    assert (dry.config.state / "bundles" / made).exists()
    assert [line for line in engine.complaints if "left alone" in line]


def test_what_no_record_knows_is_taken_away(dry: Any) -> None:
    pod = dry.pod()
    made = dry.create(pod)
    dry.engine.stop()
    (dry.config.root / "records/containers" / f"{made}.json").unlink()
    engine = dry.restart()
    assert not (dry.config.state / "bundles" / made).exists()
    assert engine.pods.list() and (dry.config.state / "pods" / pod).exists()
    dry.engine.stop()
    (dry.config.root / "records/pods" / f"{pod}.json").unlink()
    dry.restart()
    assert not (dry.config.state / "pods" / pod).exists()


def test_a_pod_whose_files_are_gone_is_not_ready(dry: Any) -> None:
    pod = dry.pod()
    dry.engine.stop()
    for path in (dry.config.state / "pods" / pod).iterdir():
        path.unlink()
    (dry.config.state / "pods" / pod).rmdir()
    assert dry.restart().pods.get(pod).state is PodState.STOPPING


def test_what_has_an_id_stays_and_images_that_it_mounts(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[str] = []
    monkeypatch.setattr(dry.engine.images, "unmount", gone.append)
    for name in ("c1", "c1-image0", "c2", "c2-image3", "p1"):
        (dry.engine.images.snapshots.root / name).mkdir()
    assert sweep(dry.engine.machinery, {"c1", "p1"}) == []
    assert gone == ["c2", "c2-image3"]


def left(dry: Any) -> list[Path]:
    """Folders of a container and a pod that no record knows."""
    places = dry.engine.machinery.places
    folders = [places.bundle("lost"), places.pod("lostpod"), dry.engine.images.root / "dry/lost"]
    (dry.engine.images.snapshots.root / "lost").mkdir()
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def test_folders_without_a_record_go_and_those_with_one_stay(dry: Any) -> None:
    pod = dry.pod()
    made = dry.run(pod)
    folders = left(dry)
    assert sweep(dry.engine.machinery, {pod, made}) == []
    assert not [folder for folder in folders if folder.exists()]
    places = dry.engine.machinery.places
    assert places.bundle(made).exists()
    assert places.pod(pod).exists()


def test_what_cannot_be_taken_away_is_told_and_the_rest_goes(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, pod, _ = left(dry)

    def refuse(*_: object) -> None:
        raise EngineError("it is busy")

    monkeypatch.setattr(module, "remove_tree", refuse)
    complaints = sweep(dry.engine.machinery, set())
    assert "the bundle of lost, of which there is no record: it is busy" in complaints
    assert bundle.exists()
    assert not pod.exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [(ToolMissing("runc"), ""), (EngineError("its state is a pipe. Remove it"), "its state is a pipe")],
)
def test_a_runtime_that_cannot_say_what_it_has_holds_nothing_up(
    dry: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: EngineError, told: str
) -> None:
    machinery, places = dry.engine.machinery, dry.engine.machinery.places
    runtime = machinery.runtime("runc")
    places.runtime("runc").mkdir(parents=True, exist_ok=True)
    (places.bundles / "stray").mkdir()

    def containers() -> dict[str, object]:
        raise error

    monkeypatch.setattr(type(runtime), "containers", lambda _: containers())
    assert sweep(machinery, set()) == []
    assert not (places.bundles / "stray").exists()
    lines = [text for text in caplog.messages if "is left there" in text]
    assert ([told in text for text in lines] == [True]) if told else lines == []
