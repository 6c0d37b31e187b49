"""Locks by name."""

import threading

from nri.engine.support.locks import KeyLocks


def test_one_name_is_held_once_and_others_go_on() -> None:
    locks, order, begun = KeyLocks(), [], threading.Event()

    def second() -> None:
        begun.set()
        with locks.hold("a"):
            order.append("second")

    with locks.hold("a"):
        thread = threading.Thread(target=second)
        thread.start()
        begun.wait(10)
        with locks.hold("b"):
            order.append("other")
        order.append("first")
    thread.join(10)
    assert order == ["other", "first", "second"]
    assert locks._held == {}
