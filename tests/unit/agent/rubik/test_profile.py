"""rubik's profile: its names exist, and the owners of knobs do not conflict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nri.agent.model import Pod
from nri.agent.ownership import KnobConflict, check, check_apart
from nri.agent.profile import StrategyRow, load, profile_of
from nri.agent.rubik.pods import PREEMPTIBLE
from nri.agent.rubik.profile import PROFILE, SERVICES, unread, unreadable
from nri.agent.rubik.service import Node
from nri.agent.rubik.settings import KIND
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings
from nri.host import Root

FEATURES = {
    "preemption", "dynCache", "ioCost", "dynMemory", "quotaTurbo", "psi", "cpuevict", "memoryevict", "quotaBurst",
    "ioLimit", "cpi",
}  # fmt: skip


@pytest.mark.parametrize("row", PROFILE.strategies, ids=lambda row: row.name)
def test_every_service_is_known_to_rubik_and_off_by_default(row: StrategyRow) -> None:
    service = load(row.strategy_class)
    assert row.name in FEATURES and not row.default
    assert service(AgentSettings(), [row.name]).name == row.name


def test_every_service_of_rubik_is_implemented() -> None:
    assert PROFILE.gates.keys() == FEATURES == {row.name for row in SERVICES}


def test_no_two_services_set_the_same_knob_of_a_pod() -> None:
    check(PROFILE.owners())


def test_the_documentation_lists_the_conflicts_of_each_service() -> None:
    page = (Path(__file__).parents[4] / "docs/howto/rubik.md").read_text(encoding="utf-8")
    table = page.partition("| service | switch off in")[2].partition("\n\n")[0].splitlines()[2:]
    message = {
        (service, gate, on)
        for services, *gates in (row.strip("|").split("|") for row in table)
        for service in re.findall(r"`(\w+)`", services)
        for on, cell in zip((True, False), gates, strict=True)
        for gate in re.findall(r"`(\w+)`", cell)
    }
    koordinator, every = profile_of("koordinator"), list(PROFILE.owners())
    rows = [*koordinator.hooks, *koordinator.strategies]
    collected = set()
    for service in FEATURES:
        for row in rows:
            own_rows = [owner for owner in every if owner.name == service]
            foreign_file = [owner for owner in koordinator.owners() if owner.name == row.name]
            try:
                check_apart([foreign_file, own_rows])
            except KnobConflict:
                collected.add((service, row.name, row.default))
    assert message == collected


def test_the_settings_choose_hooks_and_the_failure_policy(tmp_path: Path) -> None:
    node = PROFILE.node(AgentSettings(profile="rubik", failure_policy="Fail"), Root(tmp_path))
    assert (node.fail, node.gates, node.stages_off) == (True, frozenset(), frozenset())


def test_rules_cannot_come_from_an_api_server() -> None:
    with pytest.raises(ValueError, match="the API server has no rules of profile rubik"):
        AgentSettings(profile="rubik", rules=RuleSettings(source="apiserver"))


def test_a_decision_has_the_block_of_its_service_as_its_origin() -> None:
    assert list(PROFILE.origins("psi", "online")) == [(KIND, "psi")]
    assert profile_of("rubik") is PROFILE


def test_every_service_can_be_previewed() -> None:
    names = tuple(row.name for row in PROFILE.strategies)
    assert AgentSettings(profile="rubik", preview=names).preview == names
    with pytest.raises(ValueError, match="preview: cpuBurst is not a hook or strategy of profile rubik"):
        AgentSettings(profile="rubik", preview=("cpuBurst",))  # type: ignore[arg-type]  # of the other profile


def test_an_unreadable_annotation_is_reported_for_enabled_services() -> None:
    context = Pod(annotations={"volcano.sh/quota-burst-time": "soon", "volcano.sh/cache-limit": "huge"})
    assert unreadable(context, Node(), {"dynCache", "ioLimit"}) == {
        "dynCache": "volcano.sh/cache-limit 'huge' is not one of low, middle, high, max, dynamic"
    }


def test_a_misspelt_annotation_and_an_invalid_switch_are_reported() -> None:
    assert unread(
        {"volcano.sh/preemptible": "true", "app": "x"}, {PREEMPTIBLE: "yes", "volcano.sh/else": ""}, None
    ) == [
        "volcano.sh/preemptable: 'yes' is neither true nor false, and has no effect",
        "volcano.sh/preemptible: nothing reads it; did you mean volcano.sh/preemptable?",
    ]
