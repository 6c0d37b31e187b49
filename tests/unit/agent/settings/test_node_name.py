"""The name of this node."""

import socket

import pytest

from nri.agent.settings import AgentSettings
from nri.agent.settings.node_name import node_name
from nri.agent.settings.values import RuleSettings


def test_the_name_in_the_settings_overrides_the_hostname(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Machine-1.example")
    assert node_name(AgentSettings(rules=RuleSettings(node_name="other"))) == "other"
    assert node_name(AgentSettings()) == "machine-1.example"
