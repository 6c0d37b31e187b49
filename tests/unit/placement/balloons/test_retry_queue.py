from __future__ import annotations

from nri.placement.balloons.retry_queue import BEFORE_ALL, RetryQueue, Turn

A, B, C = ((float(n), 0, name) for n, name in enumerate("abc"))


def next_turn(queue: RetryQueue, begin: Turn = BEFORE_ALL, end: Turn | None = None) -> Turn | None:
    return queue.next(begin, end, lambda _: False)


def test_containers_have_the_order_of_their_turns() -> None:
    queue = RetryQueue()
    for turn in (C, A, B):
        queue.put(turn, None)
    assert [next_turn(queue), next_turn(queue, A), next_turn(queue, C)] == [A, B, None]
    assert next_turn(queue, A, B) is None
    assert queue.next(BEFORE_ALL, None, lambda _: True) is None


def test_a_dropped_or_moved_container_loses_its_turn() -> None:
    queue = RetryQueue()
    for turn in (A, B):
        queue.put(turn, None)
    before = queue.copy()
    queue.drop("a")
    queue.move((7.0, 0, "b"))
    queue.move(C)  # which is not in the queue
    queue.drop("c")
    assert (next_turn(queue), next_turn(queue, (7.0, 0, "b"))) == ((7.0, 0, "b"), None)
    assert (next_turn(before), next_turn(before, A)) == (A, B), "the copy is as it was"
    assert not queue.has_unmet_request()
