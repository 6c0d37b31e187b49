"""Records are found by both ids, and their reported state only moves forward."""

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


def test_a_container_is_found_by_both_ids(store: Store) -> None:
    record = store.put(ContainerRecord(id="proxy1", pod_id="p", reported_step=CREATING))
    assert (store.named("proxy1"), store.container("runtime1")) == (record, None)
    store.note(record, runtime_id="runtime1")
    assert (store.container("runtime1"), store.container("run")) == (record, record)
    store.drop(record)
    assert (store.named("proxy1"), store.container("runtime1")) == (None, None)


def test_a_unique_prefix_of_an_id_finds_its_record(store: Store) -> None:
    first, _ = store.put(PodRecord(id="abc")), store.put(PodRecord(id="abd"))
    assert (store.pod("abc"), store.pod("ab"), store.pod("")) == (first, None, None)


def test_one_of_many_threads_reports_a_step(store: Store) -> None:
    record = store.put(ContainerRecord(id="c", pod_id="p", reported_step=CREATED))
    message: list[bool] = []
    threads = [
        threading.Thread(target=lambda: message.append(store.advance(record, STOPPED, (CREATED,)))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message) == [False] * 15 + [True]


def test_a_dropped_record_does_not_return(store: Store, tmp_path: Path) -> None:
    record = store.put(ContainerRecord(id="c", runtime_id="r", pod_id="p"))
    store.drop(record)
    store.note(record, reported_step=STOPPED)
    assert store.named("c") is None and not list((tmp_path / "kept").glob("*.json"))
