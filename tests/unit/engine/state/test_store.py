"""Records on disk: atomic writes, damaged files set aside, unknown keys kept."""

import json
import os
from pathlib import Path

import pytest

from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState, Store
from nri.files import TEMPORARY


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state")


def reopened(store: Store) -> Store:
    return Store(store.root)


def test_written_records_are_loaded_again(store: Store) -> None:
    pod = PodRecord("p1", name="web", namespace="shop", state=PodState.READY, ips=["10.0.0.2"], done=["network"])
    container = ContainerRecord("c1", pod_id="p1", state=ContainerState.EXITED, exit_code=137, nri={"stopped": True})
    store.put(pod)
    store.put(container)
    loaded = reopened(store).load()
    assert loaded == ({"p1": pod}, {"c1": container}, {}, {}, [])
    assert loaded.containers["c1"].state is ContainerState.EXITED


def test_removing_a_record_twice_is_not_an_error(store: Store) -> None:
    store.put(PodRecord("p1"))
    store.remove("p1")
    store.remove("p1")
    assert reopened(store).load().pods == {}


def test_a_key_of_a_newer_version_is_written_again(store: Store) -> None:
    store.put(PodRecord("p1"))
    path = store.root / "pods/p1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "blue"}))
    pod = store.load().pods["p1"]
    pod.name = "web"
    store.put(pod)
    assert json.loads(path.read_text())["colour"] == "blue"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Expecting value"),
        ('{"version": 1, "id": "p2"', "Expecting"),
        ("[]", "not a mapping"),
        ("[" * 100_000, "recursion"),
        ('{"version": 1}', "'id' is missing"),
        ('{"version": 2, "id": "p2"}', "version 2"),
        ('{"version": 1, "id": "other"}', "the record of 'other'"),
        ('{"version": 1, "id": "p2", "state": "asleep"}', "'asleep'"),
        ('{"version": 1, "id": "p2", "attempt": "one"}', "'attempt'"),
        ('{"version": 1, "id": "p2", "labels": {"a": 1}}', "'labels'"),
        ('{"version": 1, "id": "p2", "pid": 1180591620717411303424}', "'pid'"),
        ('{"version": 1, "id": "p2", "created_at_ns": -1}', "'created_at_ns'"),
        ('{"version": 1, "id": "p2", "cgroup_path": "/../../etc"}', "'cgroup_path'"),
        ('{"version": 1, "id": "p2", "bundle": "/a\\u0000b"}', "'bundle'"),
    ],
)
def test_a_damaged_file_is_set_aside_and_the_others_are_loaded(store: Store, text: str, complaint: str) -> None:
    store.put(PodRecord("p1"))
    (store.root / "pods/p2.json").write_text(text)
    loaded = store.load()
    assert [*loaded.pods] == ["p1"]
    assert len(loaded.complaints) == 1 and "pods/p2.json" in loaded.complaints[0] and complaint in loaded.complaints[0]
    assert loaded.lost_pods == {"p2": loaded.complaints[0]}
    assert (store.root / "broken/p2.json").read_text() == text
    assert store.load().complaints == []


def test_a_file_damaged_twice_is_set_aside_twice(store: Store) -> None:
    for _ in range(2):
        (store.root / "pods/p2.json").write_text("x")
        store.load()
    assert sorted(path.name for path in (store.root / "broken").iterdir()) == ["p2.json", "p2.json.1"]


def test_incomplete_files_of_a_kill_are_deleted(store: Store) -> None:
    (store.root / "pods" / f"{TEMPORARY}p1.json").write_text("{")
    assert store.load() == ({}, {}, {}, {}, [])
    assert [*(store.root / "pods").iterdir()] == []


def test_on_a_full_disk_the_old_record_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(PodRecord("p1", name="before"))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put(PodRecord("p1", name="after"))
    monkeypatch.undo()
    assert store.load().pods["p1"].name == "before"
    assert [path.name for path in (store.root / "pods").iterdir()] == ["p1.json"]


def test_the_folder_is_private(store: Store) -> None:
    store.put(PodRecord("p1"))
    modes = {path.stat().st_mode & 0o777 for path in (store.root, store.root / "pods", store.root / "containers")}
    assert modes == {0o700}
    assert (store.root / "pods/p1.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("identity", ["", "../p1", "a/b", ".hidden", "x" * 129])
def test_an_id_that_is_a_path_is_refused(store: Store, identity: str) -> None:
    with pytest.raises(ValueError, match="is not a valid id"):
        store.put(PodRecord(identity))
