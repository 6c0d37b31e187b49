"""Sources by their word in the settings."""

from __future__ import annotations

from typing import get_args, get_type_hints

from nri.agent import agent
from nri.agent.settings.values import Mode, PodSettings, RuleSettings
from nri.agent.sources import POD_SOURCES, RULE_SOURCES, load


def test_every_word_of_the_settings_has_its_source() -> None:
    assert set(get_args(get_type_hints(RuleSettings)["source"])) == set(RULE_SOURCES)
    assert set(get_args(get_type_hints(PodSettings)["source"])) == set(POD_SOURCES)
    assert set(get_args(Mode)) == set(agent.TRANSPORTS)


def test_a_name_is_loaded() -> None:
    assert load("nri.agent.settings:Settings").__name__ == "Settings"
