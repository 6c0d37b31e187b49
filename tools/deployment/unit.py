"""The systemd unit of a plugin: everything of the machine is closed but what the table opens, each with its reason.

Next: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.deployment.kustomize import HEAD
from tools.deployment.table import Line, Need

#: Where the units look for the project: python3 -m venv, then pip install.
VENV = "/opt/nri-plugins"
#: A further line for what the operator adds: EnvironmentFile, then the program's last words.
UNIT = """\
[Unit]
Description=NRI plugin {name}: {does}
After=containerd.service crio.service nri-engine.service
Before=kubelet.service
StartLimitIntervalSec=0

[Service]
Type=notify
# Further flags, as NRI_PLUGIN_ARGS="--config /etc/nri/{name}.yaml --log-level debug"
EnvironmentFile=-/etc/default/{object_name}
ExecStart={venv}/bin/python -I -m nri.plugins {name} {args} $NRI_PLUGIN_ARGS
Restart=always
RestartSec=1
"""
#: Lines that every unit has, unless the table replaces them.
CLOSED = {
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "DevicePolicy": "closed",
    "IPAddressDeny": "any",
    "KeyringMode": "private",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "MemoryMax": "128M",
    "NoNewPrivileges": "yes",
    "PrivateDevices": "yes",
    "PrivateNetwork": "yes",
    "PrivateTmp": "yes",
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHome": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectSystem": "strict",
    "RestrictAddressFamilies": "AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service",
    "TasksMax": "64",
    "UMask": "0077",
}
#: The end of every unit.
INSTALL = ("", "[Install]", "WantedBy=multi-user.target", "")


def files(need: Need) -> dict[str, str]:
    """The unit below deploy/systemd, by path."""
    return {f"{need.object_name}.service": HEAD + text(need)}


def text(need: Need) -> str:
    """The unit: what it runs, what of the machine it has, and why."""
    args = " ".join((*need.args, *need.unit_args))
    head = UNIT.format(name=need.name, object_name=need.object_name, does=need.does.rstrip("."), venv=VENV, args=args)
    root = "# Root because of the runtime's socket, with nothing of root's power and nothing of the machine."
    if need.unit:
        root = "# Root because of the runtime's socket. Its other needs come first, each with its reason."
    return "\n".join([head, root, *rights(need.unit), *INSTALL])


def rights(opened: Sequence[Line]) -> list[str]:
    """What is open, each with its reason, and everything else, which is closed."""
    lines = [text for line in opened for text in (f"# {line.why}", f"{line.key}={line.value}")]
    return lines + [f"{key}={value}" for key, value in CLOSED.items() if key not in {line.key for line in opened}]
