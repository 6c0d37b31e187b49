"""The kubelet's CPU manager and memory manager, which pin containers if they are enabled.

Their policies are in their state files, which also reflect command line flags, and in the configuration file of
kubeadm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nri.config.root import resolve_below
from nri.config.source import read_file
from nri.config.syntax import parse_text
from nri.errors import ConfigError

_FOLDER = "/var/lib/kubelet"
#: Name of the manager, key of its policy in the configuration, and its state file.
_MANAGERS = (
    ("CPU", "cpuManagerPolicy", f"{_FOLDER}/cpu_manager_state"),
    ("memory", "memoryManagerPolicy", f"{_FOLDER}/memory_manager_state"),
)
_OFF = ("", "none", "None")


class Pinning(NamedTuple):
    """A manager that pins: `CPU` or `memory`, its policy, the file with the policy, and how to disable it."""

    manager: str
    policy: str
    file: str
    next: str

    def __str__(self) -> str:
        return f"{self.file}: the kubelet's {self.manager} manager is on, with the policy {self.policy}"


def pinning(root: str) -> list[Pinning]:
    """List the managers of the kubelet below `root` that pin containers. A file that cannot be read is skipped."""
    configured = _tree(root, f"{_FOLDER}/config.yaml")
    managers = []
    for manager, key, state in _MANAGERS:
        active_policy, configured_policy = _tree(root, state).get("policyName"), configured.get(key)
        for file, policy in ((state, active_policy), (f"{_FOLDER}/config.yaml", configured_policy)):
            if isinstance(policy, str) and policy not in _OFF:
                off = "none" if manager == "CPU" else "None"
                step = f"set {key} to {off}, remove {state}, and start the kubelet again"
                managers.append(Pinning(manager, policy[:64], file, step))
                break
    return managers


def _tree(root: str, path: str) -> dict[str, Any]:
    try:
        tree = parse_text(read_file(resolve_below(root, path), "yaml"))
    except ConfigError:
        return {}
    return tree if isinstance(tree, dict) else {}
