"""Effects of an entry on the collected adjustment and on resources."""

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


def test_a_value_replaces_an_earlier_one_completely() -> None:
    first = {"linux": {"io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4}, "cgroups_path": "/a"}}
    second = {"linux": {"io_priority": {"class": "IOPRIO_CLASS_RT"}, "cgroups_path": "/b"}}
    assert collected(first, second) == second


def test_a_setting_and_a_removal_of_the_same_key_replace_each_other() -> None:
    assert collected({"annotations": {"-k": ""}}, {"annotations": {"k": "v"}}) == {"annotations": {"k": "v"}}
    assert collected({"annotations": {"k": "v"}}, {"annotations": {"-k": ""}}) == {"annotations": {"-k": ""}}


def test_in_the_reference_a_setting_and_a_removal_of_a_key_are_both_kept() -> None:
    both = collected({"annotations": {"k": "v"}}, {"annotations": {"-k": ""}}, rules=Rules.REFERENCE)
    assert both == {"annotations": {"k": "v", "-k": ""}}


def test_a_removal_mark_in_a_map_of_messages_is_an_empty_message() -> None:
    removed = collected({"linux": {"net_devices": {"eth0": {"name": "x"}}}}, {"linux": {"net_devices": {"-eth0": {}}}})
    assert removed == {"linux": {"net_devices": {"-eth0": {}}}}


def test_a_list_element_replaces_the_element_with_the_same_key() -> None:
    mounts = [{"destination": "/a", "source": "1"}, {"destination": "/b", "source": "1"}]
    after = collected({"mounts": mounts}, {"mounts": [{"destination": "/a", "source": "2"}]})
    assert after == {"mounts": [mounts[1], {"destination": "/a", "source": "2"}]}


@pytest.mark.parametrize(("rules", "reach"), [(Rules.DEFAULT, True), (Rules(removals_reach_reply=False), False)])
def test_a_removed_variable_reaches_the_reply_according_to_the_rules(rules: Rules, reach: bool) -> None:
    assert collected({"env": [{"key": "-A"}]}, rules=rules) == ({"env": [{"key": "-A"}]} if reach else {})


def test_arguments_lose_their_removal_mark() -> None:
    assert collected({"args": ["", "b"]}) == {"args": ["b"]}


def test_hooks_are_appended() -> None:
    hook = {"hooks": {"prestart": [{"path": "/h"}]}}
    assert collected(hook, hook) == {"hooks": {"prestart": [{"path": "/h"}, {"path": "/h"}]}}


@pytest.mark.parametrize(("rules", "removed"), [(Rules.DEFAULT, True), (Rules(rdt_removal_kept=False), False)])
def test_an_rdt_reset_drops_earlier_values_and_is_kept_according_to_the_rules(rules: Rules, removed: bool) -> None:
    gold = {"linux": {"rdt": {"clos_id": {"value": "gold"}}}}
    after = collected(gold, {"linux": {"rdt": {"remove": True}}}, rules=rules)
    assert after == {"linux": {"rdt": {"remove": True}}}
    after = collected({"linux": {"rdt": {"remove": True}}}, gold, rules=rules)
    assert after["linux"]["rdt"].get("remove", False) is removed


def test_a_resource_replaces_the_containers_value_and_keeps_others() -> None:
    before = {"cpu": {"shares": {"value": "1"}, "cpus": "0"}, "unified": {"a": "1", "b": "1"}}
    after = resources(before, {"cpu": {"shares": {"value": "2"}}, "unified": {"b": "2"}})
    assert after == {"cpu": {"shares": {"value": "2"}, "cpus": "0"}, "unified": {"a": "1", "b": "2"}}


@pytest.mark.parametrize(("replaces", "limits"), [(True, ["2"]), (False, ["1", "2"])])
def test_a_huge_page_limit_replaces_its_size_or_is_added(replaces: bool, limits: list[str]) -> None:
    before, after = ({"hugepage_limits": [{"page_size": "2MB", "limit": limit}]} for limit in "12")
    matches = resources(before, after, replaces=replaces)["hugepage_limits"]
    assert [limit["limit"] for limit in matches] == limits


def test_drop_removes_every_element_with_the_key() -> None:
    adjust = adjusts(env=[{"key": "A", "value": "1"}, {"key": "B"}, {"key": "A", "value": "2"}]).adjust
    drop(adjust.env, "key", {"A"})
    assert [pair.key for pair in adjust.env] == ["B"]
