"""Resources as a message that was received."""

from __future__ import annotations

from nri.api import messages as m


def resources(**values: int | str) -> m.LinuxResources:
    """Resources with these fields set: `limit` of the memory, `pids`, all others of the CPU."""
    made = m.LinuxResources()
    for name, value in values.items():
        if name in ("cpus", "mems"):
            setattr(made.cpu, name, value)
        elif name == "pids":
            made.pids.limit = int(value)
        else:
            part = made.memory if name == "limit" else made.cpu
            getattr(part, name).value = value
    return made
