"""rubik's profile: what it names is there, and who sets which knob makes sense."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nri.agent.profile import load, profile_of
from nri.agent.rubik.configuration import KIND
from nri.agent.rubik.decisions.settings import FEATURES
from nri.agent.rubik.profile import PROFILE, SERVICES
from nri.agent.settings import AgentSettings
from nri.host import Root
from nri.policies.ownership import KnobConflict, check, check_apart


@pytest.mark.parametrize("row", SERVICES, ids=lambda row: row.name)
def test_each_service_is_one_of_rubiks_and_off_unless_its_file_switches_it_on(row: object) -> None:
    name, made = row.name, load(row.made)  # type: ignore[attr-defined]
    assert name in FEATURES and not row.default  # type: ignore[attr-defined]
    assert made(AgentSettings(), [name]).name == name


def test_each_of_rubiks_services_is_carried_out() -> None:
    assert PROFILE.gates.keys() == FEATURES.keys()


def test_no_two_services_set_one_knob_of_one_pod() -> None:
    check(PROFILE.owners())


def test_the_page_says_which_of_koordinators_hooks_and_strategies_exclude_each_service() -> None:
    page = (Path(__file__).parents[4] / "docs/howto/rubik.md").read_text(encoding="utf-8")
    table = page.partition("| service | switch off in")[2].partition("\n\n")[0].splitlines()[2:]
    said = {
        (service, gate, on)
        for services, *gates in (row.strip("|").split("|") for row in table)
        for service in re.findall(r"`(\w+)`", services)
        for on, cell in zip((True, False), gates, strict=True)
        for gate in re.findall(r"`(\w+)`", cell)
    }
    koordinator, every = profile_of("koordinator"), list(PROFILE.owners())
    rows = [*koordinator.hooks, *koordinator.strategies]
    found = set()
    for service in FEATURES:
        for row in rows:
            ours = [owner for owner in every if owner.name == service]
            theirs = [owner for owner in koordinator.owners() if owner.name == row.name]
            try:
                check_apart([theirs, ours])
            except KnobConflict:
                found.add((service, row.name, row.default))
    assert said == found


def test_what_is_switched_on_and_how_it_fails_comes_from_the_settings(tmp_path: Path) -> None:
    node = PROFILE.node(AgentSettings(profile="rubik", failure_policy="Fail"), Root(tmp_path))
    assert (node.fail, node.gates, node.stages_off) == (True, frozenset(), frozenset())


def test_a_decision_comes_from_the_block_of_its_service() -> None:
    assert list(PROFILE.origins("psi", "online")) == [(KIND, "psi")]
    assert profile_of("rubik") is PROFILE


def test_every_service_can_be_previewed() -> None:
    names = tuple(row.name for row in PROFILE.strategies)
    assert AgentSettings(profile="rubik", preview=names).preview == names
    with pytest.raises(ValueError, match="preview: cpuBurst is not a hook or strategy of profile rubik"):
        AgentSettings(profile="rubik", preview=("cpuBurst",))  # type: ignore[arg-type]  # of the other profile
