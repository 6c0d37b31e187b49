"""Sources of rules and pods, as the settings choose them; each is loaded only then.

Rules: one that needs another package (an apiserver, the CRI) is imported when it is chosen, so that an agent that reads
files needs neither. Next: `nri.agent.agent`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from nri.agent.pods import PodSource
from nri.agent.rules.book import RuleBook
from nri.agent.settings import AgentSettings
from nri.agent.shapes import Component

__all__ = ["POD_SOURCES", "RULE_SOURCES", "pod_source", "rule_sources"]

#: Made with the settings and the book.
RULE_SOURCES: Final[Mapping[str, str]] = {
    "files": "nri.agent.rules.files:FileRules",
    "apiserver": "nri.agent.rules.apiserver:ApiserverRules",
}
#: Made with the settings.
POD_SOURCES: Final[Mapping[str, str]] = {
    "apiserver": "nri.agent.pods.apiserver:ApiserverPods",
    "kubelet": "nri.agent.pods.kubelet:KubeletPods",
    "cri": "nri.agent.pods.cri:CriPods",
    "files": "nri.agent.pods.files:FilePods",
}


def rule_sources(settings: AgentSettings, book: RuleBook) -> list[Component]:
    """The sources that write into the book. Raises ConfigError if one cannot be as the settings say."""
    return [load(RULE_SOURCES[settings.rules.source])(settings, book)]


def pod_source(settings: AgentSettings) -> PodSource:
    """The source of this node's pods. Raises ConfigError if it cannot be as the settings say."""
    source: PodSource = load(POD_SOURCES[settings.pods.source])(settings)
    return source


def load(name: str) -> Any:
    """The class of a name such as `package.module:Class`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
