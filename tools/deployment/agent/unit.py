"""The agent's systemd unit: everything of the machine is closed but what the table opens, each with its reason.

Rules: what every mode needs is open; what a hook or strategy needs besides stands as a comment that becomes a line of a
drop-in. Next: nothing.
"""

from __future__ import annotations

from tools.deployment.agent.kustomize import HEAD
from tools.deployment.agent.table import NAME, Row, read
from tools.deployment.unit import INSTALL, rights

#: Where the unit looks for the project: python3 -m venv, then pip install.
VENV = "/opt/nri-agent"
UNIT = """\
[Unit]
Description=NRI node agent: Koordinator's QoS rules for the pods of this node
After=network-online.target containerd.service crio.service nri-engine.service
Before=kubelet.service
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
# Further flags, as NRI_AGENT_ARGS="--mode nri --set nri.index=10"; variables as NODE_NAME
EnvironmentFile=-/etc/default/{name}
ExecStart={venv}/bin/python -I -m nri agent run $NRI_AGENT_ARGS
Restart=always
RestartSec=1
"""


def files() -> dict[str, str]:
    """The unit below deploy/systemd, by path."""
    return {f"{NAME}.service": HEAD + text()}


def text() -> str:
    """The unit: what it runs, what of the machine it has, and why."""
    rows = read()
    shared = [row for row in rows if row.choice in ("always", "mode")]
    lines = [
        UNIT.format(name=NAME, venv=VENV),
        "# Root because of cgroups and the runtime's sockets; what it needs besides:",
        *rights([line for row in shared for line in row.unit]),
        "",
        "# Hooks that are off at first need more. Put their lines into a drop-in: systemctl edit nri-agent",
    ]
    lines += [line for row in rows if row not in shared for line in _comments(row)]
    return "\n".join([*lines, *INSTALL])


def _comments(row: Row) -> list[str]:
    found = [f"#   {line.key}={line.value}" for line in row.unit]
    if row.capabilities:
        found.append(f"#   CapabilityBoundingSet={' '.join(f'CAP_{name}' for name in row.capabilities)}")
    reasons = "; ".join(dict.fromkeys([*(line.why for line in row.unit), *row.capabilities.values()]))
    return [f"# {row.choice} {row.value}: {reasons}", *found] if found else []
