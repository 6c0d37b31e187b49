"""The zones of a NodeResourceTopology equal those that nri-plugins exported (record_zones)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from nri.config.json_lines import read_json_lines
from nri.kube.quantity import parse
from nri.placement.choices import Choices
from nri.placement.recorded.machines import Machines
from nri.placement.recorded.sequences import play
from tests.support.placement import DATA

CASES = {case["id"]: case for case in json.loads((DATA / "node-zones.json").read_text())["cases"]}


@cache
def machines() -> Machines:
    described = next(read_json_lines(DATA / "placement.json.xz", lambda _: ""))
    return Machines(described["topologies"], DATA)


def states(case: Mapping[str, Any], choices: Choices) -> Iterator[list[dict[str, Any]]]:
    """Our zones at the start of a case and after each of its steps."""
    run = play(case, machines().get(case["topology"]), choices)
    yield run.policy.node_zones()
    for _ in run.run():
        yield run.policy.node_zones()


def as_recorded(zone: Mapping[str, Any]) -> dict[str, Any]:
    """One of our zones in the shape of the table."""
    keys = ("capacity", "allocatable", "available")
    return {
        **zone,
        "parent": zone.get("parent", ""),
        "resources": {entry["name"]: [entry[key] for key in keys] for entry in zone["resources"]},
        "attributes": {entry["name"]: entry["value"] for entry in zone["attributes"]},
    }


def comparable(zones: list[dict[str, Any]]) -> dict[str, Any]:
    """Zones by name, quantities as numbers: `1500m` and `1.5` are the same."""
    return {
        zone["name"]: {
            **zone,
            "resources": {name: [parse(amount) for amount in amounts] for name, amounts in zone["resources"].items()},
        }
        for zone in zones
    }


@pytest.mark.parametrize("name", CASES)
def test_in_reference_mode_zones_equal_those_of_nri_plugins(name: str) -> None:
    case = CASES[name]
    for actual, recorded in zip(states(case, Choices.REFERENCE), case["zones"], strict=True):
        assert comparable([as_recorded(zone) for zone in actual]) == comparable(recorded)


@pytest.mark.parametrize("name", CASES)
def test_by_default_zones_differ_only_by_hard_reservations_and_limits(name: str) -> None:
    case = CASES[name]
    choices = replace(Choices.DEFAULT, reserved_cpus_stay_reserved=False, balloons_keep_their_limit=False)
    for actual, recorded in zip(states(case, choices), case["zones"], strict=True):
        assert comparable([as_recorded(zone) for zone in actual]) == comparable(recorded)
