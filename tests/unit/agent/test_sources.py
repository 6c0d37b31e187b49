"""Sources are chosen by their names in the settings."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

from nri.agent import agent
from nri.agent.agent import POD_SOURCES, RULE_SOURCES, pod_source, rule_sources
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import KINDS, PROFILE
from nri.agent.pods.files import FilePods
from nri.agent.profile import load
from nri.agent.rules.files import FileRules
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import Mode, PodSettings, RuleSettings


def test_every_source_in_the_settings_has_an_implementation() -> None:
    assert set(get_args(get_type_hints(RuleSettings)["source"])) == set(RULE_SOURCES)
    assert set(get_args(get_type_hints(PodSettings)["source"])) == set(POD_SOURCES)
    assert set(get_args(Mode)) == {*agent.TRANSPORTS, *PROFILE.transports}


def test_a_class_is_loaded_by_its_name() -> None:
    assert load("nri.agent.settings:AgentSettings").__name__ == "AgentSettings"


def test_settings_choose_the_sources(tmp_path: Path) -> None:
    settings = AgentSettings(rules=RuleSettings(path=tmp_path), pods=PodSettings(source="files", path=tmp_path))
    assert isinstance(pod_source(settings), FilePods)
    assert [type(rule_source) for rule_source in rule_sources(settings, RuleStore(Node(), KINDS))] == [FileRules]
