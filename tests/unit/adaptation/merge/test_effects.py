"""What an entry does to the adjustment collected for the runtime, and to resources."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge.effects import collect, drop, put_resources
from nri.adaptation.merge.entries import read
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE, TREE
from nri.rules import Rules
from tests.unit.adaptation.merge.build import adjusts, as_json, parse


def collected(*replies: dict[str, Any], rules: Rules = Rules.DEFAULT) -> Any:
    """The adjustment after these, field by field."""
    adjust = m.ContainerAdjustment()
    for reply in replies:
        for entry in read(adjusts(**reply).adjust, TREE):
            collect(adjust, entry, rules)
    return as_json(adjust)


def resources(before: dict[str, Any], after: dict[str, Any], **options: bool) -> Any:
    """Resources of a container after an update's were put over them."""
    container = parse({"linux": {"resources": before}}, m.Container())
    put_resources(container, read(parse(after, m.LinuxResources()), RESOURCES_TREE), **options)
    return as_json(container.linux.resources)


def test_a_value_replaces_an_earlier_one_as_a_whole() -> None:
    first = {"linux": {"io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4}, "cgroups_path": "/a"}}
    second = {"linux": {"io_priority": {"class": "IOPRIO_CLASS_RT"}, "cgroups_path": "/b"}}
    assert collected(first, second) == second


def test_a_setting_drops_an_earlier_mark_of_its_key_and_a_removal_an_earlier_setting() -> None:
    assert collected({"annotations": {"-k": ""}}, {"annotations": {"k": "v"}}) == {"annotations": {"k": "v"}}
    assert collected({"annotations": {"k": "v"}}, {"annotations": {"-k": ""}}) == {"annotations": {"-k": ""}}


def test_in_the_reference_setting_and_mark_stay_side_by_side() -> None:
    both = collected({"annotations": {"k": "v"}}, {"annotations": {"-k": ""}}, rules=Rules.REFERENCE)
    assert both == {"annotations": {"k": "v", "-k": ""}}


def test_a_mark_in_a_map_of_messages_is_an_empty_message() -> None:
    removed = collected({"linux": {"net_devices": {"eth0": {"name": "x"}}}}, {"linux": {"net_devices": {"-eth0": {}}}})
    assert removed == {"linux": {"net_devices": {"-eth0": {}}}}


def test_an_element_of_a_list_replaces_that_of_the_same_key() -> None:
    mounts = [{"destination": "/a", "source": "1"}, {"destination": "/b", "source": "1"}]
    after = collected({"mounts": mounts}, {"mounts": [{"destination": "/a", "source": "2"}]})
    assert after == {"mounts": [mounts[1], {"destination": "/a", "source": "2"}]}


@pytest.mark.parametrize(("rules", "reach"), [(Rules.DEFAULT, True), (Rules(removals_reach_reply=False), False)])
def test_a_removal_of_a_variable_reaches_the_reply_by_rule(rules: Rules, reach: bool) -> None:
    assert collected({"env": [{"key": "-A"}]}, rules=rules) == ({"env": [{"key": "-A"}]} if reach else {})


def test_arguments_come_without_their_mark() -> None:
    assert collected({"args": ["", "b"]}) == {"args": ["b"]}


def test_hooks_are_appended() -> None:
    hook = {"hooks": {"prestart": [{"path": "/h"}]}}
    assert collected(hook, hook) == {"hooks": {"prestart": [{"path": "/h"}, {"path": "/h"}]}}


@pytest.mark.parametrize(("rules", "removed"), [(Rules.DEFAULT, True), (Rules(rdt_removal_kept=False), False)])
def test_an_rdt_reset_forgets_what_was_set_and_stays_in_force_by_rule(rules: Rules, removed: bool) -> None:
    gold = {"linux": {"rdt": {"clos_id": {"value": "gold"}}}}
    after = collected(gold, {"linux": {"rdt": {"remove": True}}}, rules=rules)
    assert after == {"linux": {"rdt": {"remove": True}}}
    after = collected({"linux": {"rdt": {"remove": True}}}, gold, rules=rules)
    assert after["linux"]["rdt"].get("remove", False) is removed


def test_a_resource_is_put_over_that_of_the_container_and_others_stay() -> None:
    before = {"cpu": {"shares": {"value": "1"}, "cpus": "0"}, "unified": {"a": "1", "b": "1"}}
    after = resources(before, {"cpu": {"shares": {"value": "2"}}, "unified": {"b": "2"}})
    assert after == {"cpu": {"shares": {"value": "2"}, "cpus": "0"}, "unified": {"a": "1", "b": "2"}}


@pytest.mark.parametrize(("replaces", "limits"), [(True, ["2"]), (False, ["1", "2"])])
def test_a_huge_page_limit_replaces_that_of_its_size_or_stands_beside_it(replaces: bool, limits: list[str]) -> None:
    before, after = ({"hugepage_limits": [{"page_size": "2MB", "limit": limit}]} for limit in "12")
    matches = resources(before, after, replaces=replaces)["hugepage_limits"]
    assert [limit["limit"] for limit in matches] == limits


def test_dropping_takes_every_element_of_a_key() -> None:
    adjust = adjusts(env=[{"key": "A", "value": "1"}, {"key": "B"}, {"key": "A", "value": "2"}]).adjust
    drop(adjust.env, "key", {"A"})
    assert [pair.key for pair in adjust.env] == ["B"]
