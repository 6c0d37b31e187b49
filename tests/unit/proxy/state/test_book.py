"""Records found by either name, and what plugins were told moving forward only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.proxy.state import CREATED, CREATING, STOPPED, Book, Checkpoint, ContainerRecord, PodRecord


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    kept = Checkpoint(tmp_path / "kept")
    kept.open()
    yield Book(kept)
    kept.close()


def test_a_container_is_found_by_either_name_once_it_has_both(book: Book) -> None:
    record = book.put(ContainerRecord(id="ours", pod_id="p", told=CREATING))
    assert (book.named("ours"), book.container("theirs")) == (record, None)
    book.note(record, runtime_id="theirs")
    assert (book.container("theirs"), book.container("the")) == (record, record)
    book.drop(record)
    assert (book.named("ours"), book.container("theirs")) == (None, None)


def test_the_beginning_of_an_id_finds_what_only_one_has(book: Book) -> None:
    first, _ = book.put(PodRecord(id="abc")), book.put(PodRecord(id="abd"))
    assert (book.pod("abc"), book.pod("ab"), book.pod("")) == (first, None, None)


def test_a_step_is_told_by_one_of_many(book: Book) -> None:
    record = book.put(ContainerRecord(id="c", pod_id="p", told=CREATED))
    told: list[bool] = []
    threads = [
        threading.Thread(target=lambda: told.append(book.advance(record, STOPPED, (CREATED,)))) for _ in range(16)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(told) == [False] * 15 + [True]


def test_a_record_that_was_dropped_does_not_come_back_by_a_late_note(book: Book, tmp_path: Path) -> None:
    record = book.put(ContainerRecord(id="c", runtime_id="r", pod_id="p"))
    book.drop(record)
    book.note(record, told=STOPPED)
    assert book.named("c") is None and not list((tmp_path / "kept").glob("*.json"))
