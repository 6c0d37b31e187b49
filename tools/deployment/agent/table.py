"""Read deploy/agent.yaml: the access to a node that the node agent needs for each choice of the operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.deployment.table import ROOT, Line, Mount, opened

TABLE = ROOT / "deploy/agent.yaml"
RBAC = ROOT / "deploy/agent/rbac.yaml"
NAME = "nri-agent"
#: A name that no registry has, as for the plugins.
IMAGE = "localhost/nri-agent"
#: Where a container has the node, which is the agent's `root`; its settings; its own socket; health and metrics.
HOST, CONFIG_DIR, SOCKET_DIR, HEALTH_PORT = "/host", "/etc/nri-agent", "/run/nri-agent", 9316
#: What a DaemonSet starts with, unless an operator says otherwise.
MODES = ("nri", "standalone")
DEFAULTS: dict[str, Any] = {"modes": list(MODES), "rules": {"source": "apiserver"}, "pods": {"source": "apiserver"}}
#: What a DaemonSet has to say, because of where it is.
FIXED: dict[str, Any] = {
    "root": HOST,
    "socket": f"{SOCKET_DIR}/agent.sock",
    "http": {"address": f"0.0.0.0:{HEALTH_PORT}"},
    "hooks": {"socket": "/run/nri-agent-hooks/agent.sock"},
}
#: The first word of a row's name, and what it represents in the settings.
CHOICES = ("always", "mode", "pods", "gate", "kernel")


@dataclass(frozen=True, slots=True)
class Row:
    """What one choice opens; the keys are explained in deploy/agent.yaml."""

    choice: str
    value: str
    why: str
    mounts: tuple[Mount, ...] = ()
    capabilities: dict[str, str] = field(default_factory=dict)
    host_pid: str = ""
    host_network: str = ""
    rbac: str = ""
    unit: tuple[Line, ...] = ()
    unit_only: str = ""
    component: str = ""

    @property
    def name(self) -> str:
        """The name of its component."""
        return self.component or f"{self.choice}-{self.value}".lower()

    @property
    def opens(self) -> bool:
        """Whether it opens anything of a DaemonSet."""
        return bool(self.mounts or self.capabilities or self.host_pid or self.host_network or self.rbac)

    @property
    def in_base(self) -> bool:
        """Whether the base has it: what all agents need, and those of the default modes."""
        return self.choice == "always" or (self.choice == "mode" and self.value in MODES)


def read(path: Path = TABLE) -> list[Row]:
    """All rows, in their order. Raises ValueError for what they cannot mean."""
    return [_row(name, row) for name, row in yaml.safe_load(path.read_text(encoding="utf-8")).items()]


def roles() -> list[dict[str, Any]]:
    """The objects of deploy/agent/rbac.yaml, in their order."""
    return [role for role in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if role]


def _row(name: str, row: dict[str, Any]) -> Row:
    choice, _, value = name.partition(" ")
    if choice not in CHOICES or bool(value) is (choice == "always"):
        raise ValueError(f"{name}: not one of {', '.join(CHOICES)} with what is chosen")
    return Row(choice, value, **row | opened(name, row, ("write",), HOST))
