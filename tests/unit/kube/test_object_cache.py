"""Objects are kept within a bound, the largest are left out first."""

from __future__ import annotations

from nri.kube.object_cache import ObjectCache


def test_the_largest_objects_are_left_out_where_there_is_no_room() -> None:
    kept = ObjectCache(100)
    for name, size in (("a", 30), ("big", 60), ("b", 20), ("c", 40)):
        kept.put(("ns", name), name, size)
    assert [*kept.objects.values()] == ["a", "b", "c"]
    assert kept.problem == "1 object left out: ns/big: its 60 bytes exceed the limit for all objects"
    assert not kept.has_room_again
    assert kept.remove(("ns", "c")) and not kept.remove(("ns", "c"))
    kept.remove(("ns", "a"))
    assert not kept.has_room_again, "80 bytes are free, and twice 60 are not"
    kept.put(("ns", "big"), "small", 5)
    assert (kept.problem, [*kept.objects.values()]) == ("", ["b", "small"])


def test_an_object_that_was_left_out_has_room_again_when_half_of_what_is_free_would_do() -> None:
    kept = ObjectCache(100)
    kept.put(("a",), "a", 70)
    kept.put(("b",), "b", 40)
    assert [*kept.objects] == [("b",)]
    kept.remove(("b",))
    assert not kept.has_room_again
    kept = ObjectCache(100)
    kept.put(("a",), "a", 45)
    kept.put(("b",), "b", 44)
    kept.put(("c",), "c", 43)
    assert ("a",) not in kept.objects
    kept.remove(("b",))
    kept.remove(("c",))
    assert kept.has_room_again


def test_an_object_that_grows_and_shrinks_is_counted_once() -> None:
    kept = ObjectCache(1000)
    for number in range(10_000):
        kept.put(("a",), number, 500 - number % 2)
    kept.put(("b",), "b", 500)
    assert [*kept.objects.values()] == [9999, "b"]


def test_a_thousand_objects_that_are_left_out_are_counted_and_five_are_named() -> None:
    kept = ObjectCache()
    for number in range(2000):
        kept.leave_out((f"ns{number}", "a"), "why")
    assert kept.problem.startswith("2000 objects left out: ns0/a: why; ") and kept.problem.endswith("; and 1995 more")
