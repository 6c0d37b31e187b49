"""The options of the agent's settings, which its verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nri.cli.support.settings_options import Flag, SettingsOptions

if TYPE_CHECKING:
    from typing import Any

    from nri.agent.settings import AgentSettings
    from nri.config.settings import SettingsLoader


def _loader() -> SettingsLoader[AgentSettings]:
    from nri.agent.settings import AGENT_SETTINGS

    return AGENT_SETTINGS


def _modes(text: str) -> Mapping[str, Any]:
    return {"modes": [mode.strip() for mode in text.split(",") if mode.strip()]}


def _rules(path: str) -> Mapping[str, Any]:
    return {"rules.source": "files", "rules.path": path}  # a path is read only if the source is files


def _pods(path: str) -> Mapping[str, Any]:
    return {"pods.source": "files", "pods.path": path}


AGENT_OPTIONS = SettingsOptions(
    _loader,
    "/etc/nri/agent.toml",
    "nri.socket",
    "nri.index=10",
    (
        Flag(
            "--profile",
            "profile",
            "NAME",
            "The rules to apply: koordinator or rubik. With run and check, repeat the option for both.",
            multiple=True,
        ),
        Flag(
            "--mode", _modes, "MODES", "How to apply values: nri, proxy, hooks, standalone; separate several by commas."
        ),
        Flag("--rules", _rules, "PATH", "Read the rules from this file or folder."),
        Flag("--pods", _pods, "PATH", "Read the pods from this file or folder."),
        Flag("--root", "root", "DIR", "The machine's root file system."),
        Flag("--agent-socket", "socket", "PATH", "The agent's socket, which serves explain, health and metrics."),
        Flag("--metrics", "http.address", "HOST:PORT", "Serve /metrics, /healthz and /readyz on this address."),
    ),
)
