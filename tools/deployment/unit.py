"""The systemd unit of a plugin: everything is closed except what the table opens, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from tools.deployment.kustomize import HEAD
from tools.deployment.table import Line, Need

#: The environment of the project for the units: python3 -m venv, then pip install.
VENV = "/opt/nri-plugins"
#: The operator adds flags in EnvironmentFile; they come last on the command line.
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
# Exit status 2: the configuration cannot be used, so that another start would fail too.
RestartPreventExitStatus=2
RestartSec=1
"""
#: Lines of every unit, unless the table replaces them.
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
    """The text of the unit."""
    args = " ".join((*need.args, *need.unit_args))
    head = UNIT.format(name=need.name, object_name=need.object_name, does=need.does.rstrip("."), venv=VENV, args=args)
    root = "# Root because of the runtime's socket, without capabilities and without access to the machine."
    if need.unit:
        root = "# Root because of the runtime's socket. Its other needs come first, each with the reason."
    return "\n".join([head, root, *rights(need.unit), *INSTALL])


def rights(opened: Sequence[Line]) -> list[str]:
    """The open lines, each with its reason, and all others, which are closed."""
    lines = [text for line in opened for text in (f"# {line.why}", f"{line.key}={line.value}")]
    return lines + [f"{key}={value}" for key, value in CLOSED.items() if key not in {line.key for line in opened}]
