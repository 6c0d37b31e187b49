"""Every rule of the merge that differs from the reference's, in both modes with the same plugins."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from nri.rules import Rules
from tests.unit.adaptation.merge.build import (
    Containers,
    adjusts,
    as_json,
    create_state,
    fold,
    resources,
    stop_state,
    update,
    update_state,
)

SHARES = {"cpu": {"shares": {"value": "5"}}}
LIMIT = {"memory": {"limit": {"value": "9"}}}


def removals_reach_reply(rules: Rules) -> Any:
    state = create_state({"env": ["A=1"], "linux": {"devices": [{"path": "/dev/x"}]}}, rules)
    fold(state, adjusts(env=[{"key": "-A"}], linux={"devices": [{"path": "-/dev/x"}]}))
    adjust = state.reply().adjust
    return [entry.key for entry in adjust.env], [device.path for device in adjust.linux.devices]


def last_word_wins(rules: Rules) -> Any:
    state = create_state({}, rules)
    fold(state, adjusts(annotations={"k": "v"}), adjusts(annotations={"-k": ""}))
    return dict(state.reply().adjust.annotations), dict(state.container.annotations)


def removal_frees_key(rules: Rules) -> Any:
    states = create_state({}, rules), create_state({}, rules)
    return (
        fold(
            states[0],
            adjusts(env=[{"key": "A"}]),
            adjusts(env=[{"key": "-A"}]),
            adjusts(env=[{"key": "A", "value": "c"}]),
        ),
        fold(states[1], *[adjusts(linux={"namespaces": [{"type": "-pid"}]})] * 2),
    )


def same_plugin_may_repeat(rules: Rules) -> Any:
    state = create_state({}, rules)
    error = fold(state, adjusts(env=[{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]))
    return error, [entry.value for entry in state.reply().adjust.env]


def literal_marks_refused(rules: Rules) -> Any:
    state = create_state({}, rules)
    return fold(state, adjusts(rlimits=[{"type": "-RLIMIT_CORE"}])), len(state.reply().adjust.rlimits)


def limits_replace(rules: Rules) -> Any:
    state = create_state({"rlimits": [{"type": "RLIMIT_CORE", "hard": "1"}]}, rules)
    fold(state, adjusts(rlimits=[{"type": "RLIMIT_CORE", "hard": "2"}]))
    return [limit.hard for limit in state.container.rlimits]


def args_reset_shows_original(rules: Rules) -> Any:
    state = create_state({"args": ["original"]}, rules)
    fold(state, adjusts(args=["a"]), adjusts(args=[""]))
    return list(state.container.args), fold(state, adjusts(args=["c"]))


def rdt_removal_kept(rules: Rules) -> Any:
    state = create_state({}, rules)
    fold(state, adjusts(linux={"rdt": {"remove": True, "clos_id": {"value": "gold"}}}))
    return as_json(state.reply().adjust.linux.rdt)


def rdt_only_when_asked(rules: Rules) -> Any:
    state = create_state({}, rules)
    fold(state, adjusts(linux={"cgroups_path": "/x"}))
    return state.reply().adjust.linux.HasField("rdt")


def later_plugins_see_all(rules: Rules) -> Any:
    state = create_state({}, rules)
    fold(state, adjusts(linux={"rdt": {"clos_id": {"value": "gold"}}}, CDI_devices=[{"name": "v/c=1"}]))
    return state.container.linux.rdt.clos_id.value, [device.name for device in state.container.CDI_devices]


def pids_in_updates(rules: Rules) -> Any:
    state = update_state({"pids": {"limit": "9"}}, rules)
    error = fold(
        state,
        {"update": [update("x", pids={"limit": "7"}), update("ctr", **SHARES)]},
        {"update": [update("ctr", **LIMIT)]},
    )
    return error, as_json(state.reply().update[0].linux.resources.pids)


def ignored_update_rolls_back(rules: Rules) -> Any:
    state = stop_state(rules)
    first, ignored = update("o", **SHARES), update("o", ignore=True, **LIMIT, **SHARES)
    return fold(state, {"update": [first]}, {"update": [ignored]}, {"update": [update("o", **LIMIT)]})


def absent_containers_left_out(rules: Rules) -> Any:
    containers = Containers({"known"})
    containers.creating = ("coming",)
    state = stop_state(rules, containers)
    requests = [update(target, **SHARES) for target in ("", "gone", "known", "coming")]
    error = fold(state, {"update": requests})
    reported = [(entry.container_id, entry.reason) for entry in state.ignored]
    remaining = [entry.container_id for _, entry in state.side.deferred]
    return error, [entry.container_id for entry in state.reply().update], reported, remaining


def ignore_failure_covers_self_update(rules: Rules) -> Any:
    return fold(create_state({}, rules), {"update": [update("ctr", ignore=True, **SHARES)]})


def empty_updates_change_nothing(rules: Rules) -> Any:
    state = update_state({"cpu": {"shares": {"value": "3"}}}, rules)
    fold(state, {"update": [{"container_id": "ctr"}, {"container_id": "other"}]})
    return [as_json(entry) for entry in state.reply().update]


def evictions_kept(rules: Rules) -> Any:
    state = create_state({}, rules)
    fold(state, {"evict": [{"container_id": "x", "reason": "r"}]})
    return [update.container_id for update in state.reply().evict], len(state.evictions)


EMPTY = {"linux": {"resources": {"memory": {}, "cpu": {}}}}
#: Rule -> what to do, what the reference makes of it, what we make of it by default.
SCENARIOS: dict[Callable[[Rules], Any], tuple[Any, Any]] = {
    removals_reach_reply: (([], []), (["-A"], ["-/dev/x"])),
    last_word_wins: (({"k": "v", "-k": ""}, {"k": "v"}), ({"-k": ""}, {})),
    removal_frees_key: (
        (
            'plugins "30-c" and "20-b" both tried to set Env A',
            'plugins "20-b" and "10-a" both tried to set Namespace pid',
        ),
        ("", ""),
    ),
    same_plugin_may_repeat: (('plugins "10-a" and "10-a" both tried to set Env A', []), ("", ["2"])),
    literal_marks_refused: (("", 1), ("plugin 10-a: cannot remove RLIMIT_CORE: rlimits does not support removal", 0)),
    limits_replace: ([1, 2], [2]),
    args_reset_shows_original: (([], 'plugins "10-a" and "20-b" both tried to set Args '), (["original"], "")),
    rdt_removal_kept: ({"clos_id": {"value": "gold"}}, {"remove": True, "clos_id": {"value": "gold"}}),
    rdt_only_when_asked: (True, False),
    later_plugins_see_all: (("", []), ("gold", ["v/c=1"])),
    pids_in_updates: (('plugins "20-b" and "10-a" both tried to set PidsLimit ', {}), ("", {"limit": "7"})),
    ignored_update_rolls_back: ('plugins "30-c" and "20-b" both tried to set MemLimit ', ""),
    absent_containers_left_out: (
        ("", ["", "gone", "known", "coming"], [], []),
        (
            "",
            ["known"],
            [("", "it does not name a container"), ("gone", "the runtime does not know the container")],
            ["coming"],
        ),
    ),
    ignore_failure_covers_self_update: ('plugin "10-a" asked update of "ctr" during creation', ""),
    empty_updates_change_nothing: ([{"container_id": "other", **EMPTY}, {"container_id": "ctr", **EMPTY}], [{}]),
    evictions_kept: (([], 0), (["x"], 1)),
}


@pytest.mark.parametrize("rule", SCENARIOS, ids=lambda rule: rule.__name__)
def test_the_reference_mode_equals_the_reference(rule: Callable[[Rules], Any]) -> None:
    assert rule(Rules.REFERENCE) == SCENARIOS[rule][0]


@pytest.mark.parametrize("rule", SCENARIOS, ids=lambda rule: rule.__name__)
def test_the_default_mode_does_what_users_expect(rule: Callable[[Rules], Any]) -> None:
    assert rule(Rules.DEFAULT) == SCENARIOS[rule][1]


def test_every_scenario_belongs_to_a_rule() -> None:
    assert {rule.__name__ for rule in SCENARIOS} <= {field.name for field in fields(Rules)}


def test_device_rules_in_an_update_are_reported_and_not_applied() -> None:
    state = stop_state()
    fold(state, {"update": [update("x", devices=[{"type": "c"}], **SHARES)]})
    assert [(entry.container_id, entry.field) for entry in state.side.ignored] == [("x", "linux.resources.devices")]
    assert not state.reply().update[0].linux.resources.devices


def test_ignored_fields_of_a_failed_reply_are_forgotten() -> None:
    state = create_state()
    refused = [update("x", devices=[{"type": "c"}]), update("ctr", **SHARES)]
    error = fold(state, resources(**SHARES), {"update": refused})
    assert "during creation" in error
    assert state.ignored == []
