"""A pool of threads at a limit of threads."""

from __future__ import annotations

from concurrent.futures import wait

from nri.threads import ThreadPool
from tests.support.no_threads import no_threads


def test_what_comes_while_no_thread_can_be_started_is_done_by_the_next_that_can_be() -> None:
    with ThreadPool(2) as pool:
        with no_threads():
            early = pool.submit(lambda: 1)
        assert pool.submit(lambda: 2).result(20) == 2
        assert early.result(20) == 1


def test_what_comes_while_no_thread_can_be_started_is_done_by_one_that_is_there() -> None:
    with ThreadPool(4) as pool:
        pool.submit(int).result(20)
        with no_threads():
            works = [pool.submit(int) for _ in range(20)]
            assert not wait(works, 20).not_done
