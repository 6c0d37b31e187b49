"""The systemd unit of the agent: everything is closed except what the table opens, each with its reason.

Access that every mode needs is open; access for a hook or strategy is a comment, to be copied into a drop-in.
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
    """The text of the unit."""
    rows = read()
    shared = [row for row in rows if row.choice in ("always", "mode")]
    lines = [
        UNIT.format(name=NAME, venv=VENV),
        "# Root because of cgroups and the runtime's sockets. Its other needs:",
        *rights([line for row in shared for line in row.unit]),
        "",
        "# Hooks that are off by default need more. Add their lines in a drop-in: systemctl edit nri-agent",
    ]
    lines += [line for row in rows if row not in shared for line in _comments(row)]
    return "\n".join([*lines, *INSTALL])


def _comments(row: Row) -> list[str]:
    lines = [f"#   {line.key}={line.value}" for line in row.unit]
    if row.capabilities:
        lines.append(f"#   CapabilityBoundingSet={' '.join(f'CAP_{name}' for name in row.capabilities)}")
    reasons = "; ".join(dict.fromkeys([*(line.why for line in row.unit), *row.capabilities.values()]))
    return [f"# {row.choice} {row.value}: {reasons}", *lines] if lines else []
