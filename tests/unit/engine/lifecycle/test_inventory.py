"""The tables of pods and containers. A change counts only when it is written."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, read_spec, write_spec
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState, Store
from nri.engine.support.errors import AlreadyExists, EngineError, NotFound, WrongState


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return Inventory(Store(tmp_path / "records"))


def pod(identity: str = "1f" * 32, **more: Any) -> PodEntry:
    return PodEntry(PodRecord(identity, name=f"name-{identity}", state=PodState.READY, **more))


def container(identity: str, **more: Any) -> ContainerEntry:
    record = ContainerRecord(identity, name=f"name-{identity}", **{"state": ContainerState.RUNNING, **more})
    return ContainerEntry(record, {})


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_pod_is_found_by_id_or_prefix(inventory: Inventory) -> None:
    one, other = pod("1f" * 32), pod("2e" * 32)
    inventory.add(one)
    inventory.add(other)
    assert inventory.pod("1f" * 32) is inventory.pod("1f1f") is one
    assert inventory.pods() == [one, other]
    with pytest.raises(NotFound):
        inventory.pod("3d")
    with pytest.raises(NotFound):
        inventory.container("1f1f")


def test_a_container_during_creation_is_not_found(inventory: Inventory) -> None:
    inventory.add(container("c" * 64, state=ContainerState.CREATING))
    with pytest.raises(NotFound):
        inventory.container("c" * 64)
    assert inventory.containers() == []


def test_containers_are_listed_by_pod_or_all(inventory: Inventory) -> None:
    for identity, of in (("a" * 64, "p1"), ("b" * 64, "p2")):
        inventory.add(container(identity, pod_id=of))
    assert [entry.id for entry in inventory.containers("p2")] == ["b" * 64]
    assert len(inventory.containers()) == 2


def test_an_occupied_name_is_an_error_that_names_the_holder(inventory: Inventory) -> None:
    first, second = pod("1f" * 32), pod("2e" * 32)
    second.record.name = first.record.name
    inventory.add(first)
    with pytest.raises(AlreadyExists) as raises:
        inventory.add(second)
    assert raises.value.holder == first.id
    inventory.drop(first)
    inventory.add(second)
    assert inventory.pods() == [second]


def test_a_change_that_cannot_be_written_is_not_applied(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pod()
    inventory.add(entry)
    monkeypatch.setattr(inventory.store, "put", full)
    with pytest.raises(EngineError, match=r"cannot be written: .*No space"):
        inventory.put(entry, pid=7, ips=["10.0.0.1"])
    assert (entry.record.pid, entry.record.ips) == (0, [])
    with pytest.raises(EngineError):
        inventory.move_pod(entry, "update")
    assert entry.record.state is PodState.READY


def test_a_removal_step_works_on_a_full_disk(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pod()
    inventory.add(entry)
    monkeypatch.setattr(inventory.store, "put", full)
    inventory.move_pod(entry, "stop")
    assert entry.record.state is PodState.STOPPING


def test_facts_are_recorded_even_if_they_cannot_be_written(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entry = pod()
    inventory.add(entry)
    monkeypatch.setattr(inventory.store, "put", full)
    with caplog.at_level(logging.WARNING):
        inventory.note(entry, pid=7)
    assert entry.record.pid == 7
    assert "will have to detect the change" in caplog.text


def test_a_record_that_cannot_be_removed_is_kept(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pod()
    inventory.add(entry)
    monkeypatch.setattr(inventory.store, "remove", full)
    with pytest.raises(EngineError, match="cannot be removed"):
        inventory.drop(entry)
    assert inventory.pods() == [entry]


def test_an_impossible_step_is_refused(inventory: Inventory) -> None:
    entry = container("c" * 64)
    inventory.add(entry)
    with pytest.raises(WrongState, match="running"):
        inventory.move_container(entry, "start")


def test_an_entry_is_printed_with_short_id_and_names() -> None:
    config = {"metadata": {"name": "app"}}
    entry = ContainerEntry(ContainerRecord("c" * 64, name="app_web_default_uid_0_0", config=config), {})
    assert str(entry) == "container ccccccccccccc default/web/app"
    pod_entry = PodEntry(PodRecord("1f" * 32, namespace="default", config={"metadata": {"name": "web"}}))
    assert str(pod_entry) == "pod 1f1f1f1f1f1f1 default/web"
    assert str(ContainerEntry(ContainerRecord("c" * 64), {}))  # a record with an ID only


def test_a_spec_can_be_written_and_read_and_damage_is_an_error(tmp_path: Path) -> None:
    write_spec(tmp_path, {"a": [1]})
    assert read_spec(tmp_path) == {"a": [1]}
    for text in ("{", "[]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"Expecting|not a JSON object"):
            read_spec(tmp_path)
    assert read_spec(tmp_path / "none") == {}
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(OSError, match="not a regular file"):
        read_spec(tmp_path)
