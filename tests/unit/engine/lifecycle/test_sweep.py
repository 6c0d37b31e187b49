"""What a machine's sudden end has left is taken away, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle import sweep as module
from nri.engine.lifecycle.sweep import _strays, sweep
from nri.engine.support.errors import EngineError


def test_what_has_an_id_stays_and_images_that_it_mounts() -> None:
    assert _strays(["c1", "c1-image0", "c2", "c2-image3", "p1"], {"c1", "p1"}) == ["c2", "c2-image3"]


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
