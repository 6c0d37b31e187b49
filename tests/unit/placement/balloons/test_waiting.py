from __future__ import annotations

from nri.placement.balloons.waiting import BEFORE_ALL, Turn, Waiting

A, B, C = ((float(n), 0, name) for n, name in enumerate("abc"))


def hopeful(waiting: Waiting, begin: Turn = BEFORE_ALL, end: Turn | None = None) -> Turn | None:
    return waiting.next(begin, end, lambda _: False)


def test_containers_come_in_the_order_of_their_turns_between_two_of_them() -> None:
    waiting = Waiting()
    for turn in (C, A, B):
        waiting.put(turn, None)
    assert [hopeful(waiting), hopeful(waiting, A), hopeful(waiting, C)] == [A, B, None]
    assert hopeful(waiting, A, B) is None
    assert waiting.next(BEFORE_ALL, None, lambda _: True) is None


def test_one_that_is_dropped_or_moved_has_its_old_turn_no_more() -> None:
    waiting = Waiting()
    for turn in (A, B):
        waiting.put(turn, None)
    before = waiting.copy()
    waiting.drop("a")
    waiting.move((7.0, 0, "b"))
    waiting.move(C)  # which does not wait
    waiting.drop("c")
    assert (hopeful(waiting), hopeful(waiting, (7.0, 0, "b"))) == ((7.0, 0, "b"), None)
    assert (hopeful(before), hopeful(before, A)) == (A, B), "the copy is as it was"
    assert not waiting.short()
