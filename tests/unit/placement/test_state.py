"""The saved state of a policy: JSON and back."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from nri.config import Source, read
from nri.errors import ConfigError
from nri.kube.requests import Requests
from nri.placement.containers import Hint
from nri.placement.state import BalloonState, PartState, PlacementState
from tests.support.placement import balloons, container, topology_aware


def read_again(state: PlacementState) -> PlacementState:
    return read(PlacementState, [Source("state", json.dumps(state.tree()), "json")])


def test_the_state_of_both_policies_survives_a_round_trip() -> None:
    first, second = topology_aware(), balloons({"name": "both", "components": [{"balloonType": "a"}]}, {"name": "a"})
    for policy in (first, second):
        policy.create(container("one", 1500, balloon_balloons="both"))
        policy.create(container("two", 200, qos="Burstable"))
        assert read_again(policy.saved()) == policy.saved()
        assert set(policy.saved().containers) == {"one", "two"}


def test_a_container_survives_a_round_trip() -> None:
    policy = topology_aware()
    one = container("one", 1500)
    one.hints, one.shares, one.mems = {"gpu": Hint(nodes="1")}, 1536, "0-1"
    policy.create(one)
    placed = container("one", 500)
    policy.saved().restore([placed, container("unknown", 1)])
    assert placed.requests == Requests(1500, 1500)
    assert (placed.hints, placed.shares, placed.mems) == ({"gpu": Hint(nodes="1")}, 1536, "0-1")


def test_a_new_order_of_balloons_cannot_be_written_as_a_change() -> None:
    one, other = BalloonState([PartState("a", 0, "1")]), BalloonState([PartState("b", 0, "2")])
    before = PlacementState("balloons", balloons={"a[0]": one, "b[0]": other})
    turned = PlacementState("balloons", balloons={"b[0]": other, "a[0]": one})
    assert deepcopy(before).take(turned.since(before)) is None
    placement_state = PlacementState("balloons", balloons={"b[0]": other})
    assert before.take(placement_state.since(before)) == {"balloons": {"a[0]": None}}
    assert before == placement_state


def test_missing_balloons_and_interrupts_are_removed_and_other_entries_kept() -> None:
    state = PlacementState("x", interrupts={"1": "0", "2": "0-1"}, free={"a": "cpus", "b": "mems"})
    assert state.take({"interrupts": {"2": "0-1"}, "free": {"a": None}}) == {
        "interrupts": {"1": None},
        "free": {"a": None},
    }
    assert (state.interrupts, state.free) == ({"2": "0-1"}, {"b": "mems"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"policy": "balloons", "version": 1}', "the file has version 1; this program reads version 3"),
        ('{"policy": "balloons", "grants": {"a": {"pool": 1}}}', "grants.a.pool: expected a string, not 1"),
        ("{}", "policy: missing"),
    ],
)
def test_an_invalid_state_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(PlacementState, [Source("state", text, "json")])
