"""Resources as a message that was received."""

from __future__ import annotations

from nri.api import messages as m


def resources(**values: int | str) -> m.LinuxResources:
    """Resources with these fields set: `limit` of the memory, `pids`, all others of the CPU."""
    resources = m.LinuxResources()
    for name, value in values.items():
        if name in ("cpus", "mems"):
            setattr(resources.cpu, name, value)
        elif name == "pids":
            resources.pids.limit = int(value)
        else:
            part = resources.memory if name == "limit" else resources.cpu
            getattr(part, name).value = value
    return resources
