"""The kubelet's managers that pin containers themselves, and the placement plugins that they would undo.

Next: `nri.config.kubelet`, which finds them.
"""

from __future__ import annotations

import os

from nri.cli.doctor import Finding
from nri.config.kubelet import pinning
from nri.config.root import inside

_STATE = "/var/lib/nri/placement"
_PLUGINS = ("topology-aware", "balloons")


def check(root: str, findings: list[Finding]) -> None:
    """Judge the managers: each is fine by itself, and a mistake beside a plugin that pins."""
    used = [name for name in _PLUGINS if os.path.exists(inside(root, f"{_STATE}/{name}.json"))]
    for each in pinning(root):
        manager = f"the kubelet's {each.manager} manager pins containers (policy {each.policy})"
        if used:
            what = f"{manager}, and so does {used[0]}: each undoes the other's work"
            findings.append(Finding("warning", what, each.file, each.next))
        else:
            findings.append(Finding("note", manager, each.file, "run neither topology-aware nor balloons beside it"))
