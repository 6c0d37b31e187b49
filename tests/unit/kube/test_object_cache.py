"""A cache of objects with a size limit. The largest objects are dropped first."""

from __future__ import annotations

from nri.kube.object_cache import ObjectCache


def test_the_largest_objects_are_dropped_at_the_limit() -> None:
    cache = ObjectCache(100)
    for name, size in (("a", 30), ("big", 60), ("b", 20), ("c", 40)):
        cache.put(("ns", name), name, size)
    assert [*cache.objects.values()] == ["a", "b", "c"]
    assert cache.problem == "1 object omitted: ns/big: its 60 bytes exceed the limit for all objects"
    assert not cache.has_room_again
    assert cache.remove(("ns", "c")) and not cache.remove(("ns", "c"))
    cache.remove(("ns", "a"))
    assert not cache.has_room_again, "80 bytes are free, and twice 60 are not"
    cache.put(("ns", "big"), "small", 5)
    assert (cache.problem, [*cache.objects.values()]) == ("", ["b", "small"])


def test_a_dropped_object_returns_if_it_fits_half_of_the_free_memory() -> None:
    cache = ObjectCache(100)
    cache.put(("a",), "a", 70)
    cache.put(("b",), "b", 40)
    assert [*cache.objects] == [("b",)]
    cache.remove(("b",))
    assert not cache.has_room_again
    cache = ObjectCache(100)
    cache.put(("a",), "a", 45)
    cache.put(("b",), "b", 44)
    cache.put(("c",), "c", 43)
    assert ("a",) not in cache.objects
    cache.remove(("b",))
    cache.remove(("c",))
    assert cache.has_room_again


def test_an_object_that_grows_and_shrinks_is_counted_once() -> None:
    cache = ObjectCache(1000)
    for number in range(10_000):
        cache.put(("a",), number, 500 - number % 2)
    cache.put(("b",), "b", 500)
    assert [*cache.objects.values()] == [9999, "b"]


def test_of_many_dropped_objects_five_are_named() -> None:
    cache = ObjectCache()
    for number in range(2000):
        cache.leave_out((f"ns{number}", "a"), "why")
    assert cache.problem.startswith("2000 objects omitted: ns0/a: why; ") and cache.problem.endswith("; and 1995 more")
