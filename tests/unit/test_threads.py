"""A pool of threads at a limit of threads, and errors of calls on other threads."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from contextlib import nullcontext

import pytest

from nri.thread_pool import ThreadPool
from nri.threads import run_all, run_on_new_thread
from tests.support.no_threads import no_threads


def test_work_waits_until_a_thread_can_be_started() -> None:
    with ThreadPool(2) as pool:
        with no_threads():
            early = pool.submit(lambda: 1)
        assert pool.submit(lambda: 2).result(20) == 2
        assert early.result(20) == 1


def test_without_new_threads_existing_threads_do_the_work() -> None:
    with ThreadPool(4) as pool:
        pool.submit(int).result(20)
        with no_threads():
            works = [pool.submit(int) for _ in range(20)]
            assert not wait(works, 20).not_done


class Broken(Exception):
    """An error that no caller expects."""


def fail() -> None:
    raise Broken("of its own kind")


@pytest.mark.parametrize("starved", [False, True])
def test_an_unexpected_error_is_raised_after_all_calls_have_run(starved: bool) -> None:
    finished = list[int]()
    calls = [fail, lambda: finished.append(1), lambda: finished.append(2), fail]
    with no_threads() if starved else nullcontext(), pytest.raises(Broken, match="of its own kind") as raised:
        run_all(calls, "all")
    assert sorted(finished) == [1, 2]
    assert raised.value.__notes__ == ["and Broken: of its own kind"]


def test_a_call_on_a_new_thread_raises_its_exception_in_the_caller() -> None:
    names = list[str]()
    run_on_new_thread(lambda: names.append(threading.current_thread().name), "new")
    assert names == ["new"]
    with pytest.raises(Broken):
        run_on_new_thread(fail, "new")
    with no_threads(), pytest.raises(OSError, match="can't start new thread"):
        run_on_new_thread(lambda: names.append("never"), "new")
    assert names == ["new"]
