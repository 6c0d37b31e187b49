"""Evictions: whom, when, and who never."""

from __future__ import annotations

import pytest

from nri.agent.rubik.decisions import evict
from nri.agent.rubik.decisions.evict import Cooldown, Sample, Window
from nri.agent.rubik.pods import PREEMPTIBLE, Pod
from nri.agent.rubik.service import Ticks

S = 10**9


def _off(name: str, namespace: str = "default", started: float | None = None) -> Pod:
    return Pod(name, name, namespace, labels={PREEMPTIBLE: "true"}, started=started)


def test_the_biggest_goes_of_those_that_may() -> None:
    pods = [_off("big", "kube-system"), _off("small"), _off("middle"), Pod("online", "online")]
    use = {"big": 90.0, "small": 1.0, "middle": 5.0, "online": 99.0}
    chosen = evict.victim(evict.candidates(pods, from_apiserver=False), use)
    assert chosen is not None
    assert chosen.name == "middle"


def test_of_equal_pods_the_newer_goes_then_the_first_by_name() -> None:
    use = {"a": 0.0, "b": 0.0, "c": 0.0}
    assert evict.victim([_off("a", started=1.0), _off("b", started=2.0)], use) == _off("b", started=2.0)
    assert evict.victim([_off("c"), _off("a"), _off("b")], use) == _off("a")


@pytest.mark.parametrize(
    "samples",
    [[], [Sample(0, 0, 1)], [Sample(0, 5 * S, 1), Sample(S, 0, 1)], [Sample(S, 0, 1), Sample(S, S, 1)]],
)
def test_a_counter_that_goes_back_or_tells_of_no_time_is_not_known(samples: list[Sample]) -> None:
    assert evict.cpu_percent(samples, 4) is None
    assert evict.victim([_off("a")], {"a": None}) is None


def test_use_is_of_the_last_two_samples() -> None:
    samples = [Sample(0, 0, 0), Sample(10 * S, 20 * S, 0), Sample(20 * S, 30 * S, 5_000_000)]
    assert evict.cpu_percent(samples, 4) == 25
    assert evict.memory_mb(samples) == 5
    assert evict.memory_mb([]) is None


def test_one_resource_a_round_the_first_of_the_configuration() -> None:
    avg10 = {"io": [9.0], "memory": [4.0, 6.0], "cpu": [5.0]}
    assert evict.pressed(["cpu", "memory", "io"], avg10, 5.0) == "memory"
    assert evict.pressed(["cpu"], avg10, 5.0) == ""


def test_a_window_averages_what_it_keeps_and_one_reading_decides_nothing() -> None:
    window = Window(2)
    assert window.add(0, Ticks(0, 100)) is None
    assert window.add(1 * S, Ticks(10, 200)) == 10
    assert window.add(2 * S, Ticks(100, 300)) == 50
    assert window.add(3 * S, Ticks(190, 400)) == 90
    assert len(window) == 3


def test_a_cool_down_follows_an_eviction_alone() -> None:
    pause = Cooldown(3)
    assert [pause.over(at) for at in (0, 2, 4)] == [True] * 3
    pause.begin(4)
    assert [pause.over(at) for at in (4, 6, 7)] == [False, False, True]


def test_pages_that_can_be_dropped_are_not_memory_in_use() -> None:
    assert evict.memory_percent({"MemTotal": 1000, "MemFree": 100, "Cached": 90, "Buffers": 5, "SReclaimable": 5}) == 80
    assert evict.memory_percent({"MemTotal": 100, "MemFree": 60, "Cached": 60}) == 0, "counted twice"
    with pytest.raises(ValueError, match="MemTotal"):
        evict.memory_percent({})
