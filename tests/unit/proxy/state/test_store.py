"""Records found by either name, and what plugins were told moving forward only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.proxy.state import CREATED, CREATING, STOPPED, Checkpoint, ContainerRecord, PodRecord, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    checkpoint = Checkpoint(tmp_path / "kept")
    checkpoint.open()
    yield Store(checkpoint)
    checkpoint.close()


def test_a_container_is_found_by_either_name_once_it_has_both(store: Store) -> None:
    record = store.put(ContainerRecord(id="ours", pod_id="p", reported=CREATING))
    assert (store.named("ours"), store.container("theirs")) == (record, None)
    store.note(record, runtime_id="theirs")
    assert (store.container("theirs"), store.container("the")) == (record, record)
    store.drop(record)
    assert (store.named("ours"), store.container("theirs")) == (None, None)


def test_the_beginning_of_an_id_finds_what_only_one_has(store: Store) -> None:
    first, _ = store.put(PodRecord(id="abc")), store.put(PodRecord(id="abd"))
    assert (store.pod("abc"), store.pod("ab"), store.pod("")) == (first, None, None)


def test_a_step_is_told_by_one_of_many(store: Store) -> None:
    record = store.put(ContainerRecord(id="c", pod_id="p", reported=CREATED))
    message: list[bool] = []
    threads = [
        threading.Thread(target=lambda: message.append(store.advance(record, STOPPED, (CREATED,)))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message) == [False] * 15 + [True]


def test_a_record_that_was_dropped_does_not_come_back_by_a_late_note(store: Store, tmp_path: Path) -> None:
    record = store.put(ContainerRecord(id="c", runtime_id="r", pod_id="p"))
    store.drop(record)
    store.note(record, reported=STOPPED)
    assert store.named("c") is None and not list((tmp_path / "kept").glob("*.json"))
