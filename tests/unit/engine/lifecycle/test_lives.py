"""The tables of pods and containers: a change counts when it is written, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle.lives import ContainerLife, Lives, PodLife, read_spec, write_spec
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState, Store
from nri.engine.support.errors import AlreadyThere, EngineError, NotThere, WrongState


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    store = Store(tmp_path / "records")
    yield Lives(store)
    store.close()


def pod(identity: str = "1f" * 32, **more: Any) -> PodLife:
    return PodLife(PodRecord(identity, name=f"name-{identity}", state=PodState.READY, **more))


def container(identity: str, **more: Any) -> ContainerLife:
    record = ContainerRecord(identity, name=f"name-{identity}", **{"state": ContainerState.RUNNING, **more})
    return ContainerLife(record, {})


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_one_is_found_by_its_id_or_the_beginning_of_it(lives: Lives) -> None:
    one, other = pod("1f" * 32), pod("2e" * 32)
    lives.add(one)
    lives.add(other)
    assert lives.pod("1f" * 32) is lives.pod("1f1f") is one
    assert lives.pods() == [one, other]
    with pytest.raises(NotThere):
        lives.pod("3d")
    with pytest.raises(NotThere):
        lives.container("1f1f")


def test_what_is_still_being_made_is_not_there(lives: Lives) -> None:
    lives.add(container("c" * 64, state=ContainerState.CREATING))
    with pytest.raises(NotThere):
        lives.container("c" * 64)
    assert lives.containers() == []


def test_containers_are_those_of_a_pod_or_all(lives: Lives) -> None:
    for identity, of in (("a" * 64, "p1"), ("b" * 64, "p2")):
        lives.add(container(identity, pod_id=of))
    assert [each.id for each in lives.containers("p2")] == ["b" * 64]
    assert len(lives.containers()) == 2


def test_a_name_that_is_taken_names_its_holder_and_is_free_after_a_drop(lives: Lives) -> None:
    first, second = pod("1f" * 32), pod("2e" * 32)
    second.record.name = first.record.name
    lives.add(first)
    with pytest.raises(AlreadyThere) as taken:
        lives.add(second)
    assert taken.value.holder == first.id
    lives.drop(first)
    lives.add(second)
    assert lives.pods() == [second]


def test_a_change_that_cannot_be_written_changes_nothing(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    life = pod()
    lives.add(life)
    monkeypatch.setattr(lives.store, "put", full)
    with pytest.raises(EngineError, match=r"cannot be written: .*No space"):
        lives.put(life, pid=7, ips=["10.0.0.1"])
    assert (life.record.pid, life.record.ips) == (0, [])
    with pytest.raises(EngineError):
        lives.move_pod(life, "stop")
    assert life.record.state is PodState.READY


def test_what_has_happened_anyhow_is_noted_and_told(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    life = pod()
    lives.add(life)
    monkeypatch.setattr(lives.store, "put", full)
    with caplog.at_level(logging.WARNING):
        lives.note(life, pid=7)
    assert life.record.pid == 7
    assert "will have to find out" in caplog.text


def test_a_record_that_cannot_be_removed_stays(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    life = pod()
    lives.add(life)
    monkeypatch.setattr(lives.store, "remove", full)
    with pytest.raises(EngineError, match="cannot be removed"):
        lives.drop(life)
    assert lives.pods() == [life]


def test_a_step_that_may_not_begin_is_refused(lives: Lives) -> None:
    life = container("c" * 64)
    lives.add(life)
    with pytest.raises(WrongState, match="running"):
        lives.move_container(life, "start")


def test_a_life_is_told_by_its_short_id_and_its_names() -> None:
    config = {"metadata": {"name": "app"}}
    life = ContainerLife(ContainerRecord("c" * 64, name="app_web_default_uid_0_0", config=config), {})
    assert str(life) == "container ccccccccccccc default/web/app"
    made = PodLife(PodRecord("1f" * 32, namespace="default", config={"metadata": {"name": "web"}}))
    assert str(made) == "pod 1f1f1f1f1f1f1 default/web"
    assert str(ContainerLife(ContainerRecord("c" * 64), {}))  # a record of which little is left


def test_a_spec_comes_back_and_one_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    write_spec(tmp_path, {"a": [1]})
    assert read_spec(str(tmp_path)) == {"a": [1]}
    for text in ("{", "[]"):
        (tmp_path / "config.json").write_text(text)
        assert read_spec(str(tmp_path)) == {}
    assert read_spec(str(tmp_path / "none")) == {}
