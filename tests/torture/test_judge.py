"""The judge finds faults: a good outcome, with one change at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.torture import judge
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.healthy import LABELS
from tests.torture.soak import GROWTH_MIB, WARM, growth

ROW = ("RunPodSandbox", "life-{}-{}", 0.01, "")
HELD = {"memory": 50_000, "descriptors": 20, "threads": 6}


def well() -> Outcome:
    """Two threads of twelve events, which all plugins saw in one order."""
    events = [[("RunPodSandbox", f"life-{thread}-{n}", 0.01, "") for n in range(12)] for thread in range(2)]
    calls = [(row[0], row[1]) for pair in zip(*events, strict=True) for row in pair]
    return Outcome(
        Attack("made", "", "", lambda target: None, refusals=("20-hostile",), fails=False), 2.0, 1.0,
        events=events, seen={label: list(calls) for label in LABELS},
        before=dict(HELD), most=dict(HELD), after=dict(HELD), log=b"INFO nri.adaptation: plugin is active\n" * 3,
        count={"turns": 1},
    )  # fmt: skip


def test_a_good_outcome_has_no_faults() -> None:
    assert judge.faults(well()) == []


def an_event_that_waits(outcome: Outcome) -> None:
    outcome.events[0][3] = ("RunPodSandbox", "life-0-3", 2.3, "")


def an_event_that_fails(outcome: Outcome) -> None:
    outcome.events[0][3] = ("RunPodSandbox", "life-0-3", 0.1, "plugin 25-steady failed")


def an_event_that_is_lost(outcome: Outcome) -> None:
    outcome.seen["25-steady"].remove(("RunPodSandbox", "life-1-5"))


def an_event_that_comes_twice(outcome: Outcome) -> None:
    outcome.seen["25-steady"].append(("RunPodSandbox", "life-1-5"))


def an_order_of_its_own(outcome: Outcome) -> None:
    calls = outcome.seen["45-steady"]
    calls[0], calls[1] = calls[1], calls[0]


def test_only_an_event_that_waited_too_long_may_be_overtaken() -> None:
    outcome = well()
    an_order_of_its_own(outcome)
    outcome.rest["overtook"] = [list(outcome.seen["45-steady"][0])]
    assert judge.faults(outcome) == []
    outcome.rest["overtook"] = [list(outcome.seen["45-steady"][5])]
    assert len(judge.faults(outcome)) == 1


def events_out_of_turn(outcome: Outcome) -> None:
    for call in outcome.seen.values():
        call[0], call[2] = call[2], call[0]


def a_thread_that_hangs(outcome: Outcome) -> None:
    outcome.rest["hanging"] = ["events-0"]


def a_thread_that_starves(outcome: Outcome) -> None:
    del outcome.events[1][5:]


def a_healthy_plugin_that_is_cut_off(outcome: Outcome) -> None:
    outcome.ended["05-steady"] = "closed"


def memory_that_swells(outcome: Outcome) -> None:
    outcome.most["memory"] += (outcome.attack.memory_mib + 1) * 1024


def memory_that_stays(outcome: Outcome) -> None:
    outcome.after["memory"] += (outcome.attack.after_mib + 1) * 1024


def descriptors_that_stay(outcome: Outcome) -> None:
    outcome.after["descriptors"] += 3


def threads_that_stay(outcome: Outcome) -> None:
    outcome.after["threads"] += 1


def many_threads(outcome: Outcome) -> None:
    outcome.most["threads"] += 41


def many_lines(outcome: Outcome) -> None:
    outcome.log *= 100


def a_traceback(outcome: Outcome) -> None:
    outcome.log += b"Traceback (most recent call last):\n"


def a_forged_line(outcome: Outcome) -> None:
    outcome.log += b"all is well\n"


def a_long_line(outcome: Outcome) -> None:
    outcome.log += b"INFO nri.adaptation: " + b"x" * judge.LINE_BYTES + b"\n"


def an_escape_in_the_log(outcome: Outcome) -> None:
    outcome.log += b"INFO nri.adaptation: \x1b[2J\n"


def a_turned_text_on_the_terminal(outcome: Outcome) -> None:
    outcome.shown = "05-steady \u202egnp"


def an_attack_that_is_none(outcome: Outcome) -> None:
    outcome.count.clear()


def an_attack_that_nobody_refuses(outcome: Outcome) -> None:
    outcome.attack = replace(outcome.attack, fails=True)


FAULTS: dict[Callable[[Outcome], None], str] = {
    an_event_that_waits: "took longer than 2 s",
    an_event_that_fails: "failed that must not",
    an_event_that_is_lost: "did not get 1 of",
    an_event_that_comes_twice: "twice",
    an_order_of_its_own: "another order",
    events_out_of_turn: "out of order",
    a_thread_that_hangs: "events hang",
    a_thread_that_starves: "got through 5 events only",
    a_healthy_plugin_that_is_cut_off: "lost its connection",
    memory_that_swells: "memory grew",
    memory_that_stays: "not given back",
    descriptors_that_stay: "3 descriptors are left over",
    threads_that_stay: "1 threads are left over",
    many_threads: "41 more threads",
    many_lines: "lines were logged",
    a_traceback: "a traceback",
    a_forged_line: "not from nri",
    a_long_line: "a line of the log has",
    an_escape_in_the_log: "the log holds the raw character",
    a_turned_text_on_the_terminal: "a terminal is shown",
    an_attack_that_is_none: "did nothing",
    an_attack_that_nobody_refuses: "nothing was refused",
}


@pytest.mark.parametrize(("change", "text"), FAULTS.items(), ids=lambda fault: getattr(fault, "__name__", ""))
def test_the_judge_finds_the_fault(change: Callable[[Outcome], None], text: str) -> None:
    outcome = well()
    change(outcome)
    assert [fault for fault in judge.faults(outcome) if text in fault], judge.faults(outcome)


def test_a_refusal_by_the_hostile_plugin_is_not_a_fault() -> None:
    outcome = well()
    outcome.events[0][3] = ("RunPodSandbox", "life-0-3", 0.1, "plugin 20-hostile: too many entries")
    assert judge.faults(outcome) == []


def test_a_failed_check_of_the_attack_is_a_fault() -> None:
    def check(outcome: Outcome) -> None:
        raise AssertionError("nobody joined")

    outcome = well()
    outcome.attack = replace(outcome.attack, check=check)
    assert judge.faults(outcome) == ["nobody joined"]


def resources(**more: int) -> dict[str, Any]:
    return {name: number + more.get(name, 0) for name, number in HELD.items()}


def test_a_soak_compares_the_end_with_the_warm_node() -> None:
    warm = [resources()] * WARM
    assert growth([*warm, resources(), resources()]) == []
    assert growth([*warm, resources(memory=(GROWTH_MIB + 1) * 1024), resources(memory=(GROWTH_MIB + 1) * 1024)])
    assert growth([*warm, resources(threads=1), resources(threads=1)])
    assert growth([*warm, resources(threads=1), resources()]) == [], "a thread that ends before the end is not a leak"
