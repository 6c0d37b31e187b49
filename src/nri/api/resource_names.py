"""Names of resources in an OCI spec, beside those of the API's fields that hold the same. Tables, and nothing else."""

from __future__ import annotations

__all__ = ["CPU", "CPUSET", "MEMORY"]

#: Optional values: of the API's message, and of the spec.
CPU = (
    ("period", "period"),
    ("quota", "quota"),
    ("shares", "shares"),
    ("realtime_runtime", "realtimeRuntime"),
    ("realtime_period", "realtimePeriod"),
)
MEMORY = (
    ("limit", "limit"),
    ("reservation", "reservation"),
    ("swap", "swap"),
    ("kernel", "kernel"),
    ("kernel_tcp", "kernelTCP"),
    ("swappiness", "swappiness"),
    ("disable_oom_killer", "disableOOMKiller"),
    ("use_hierarchy", "useHierarchy"),
)
#: Texts of `cpu`, which have the same name in both.
CPUSET = ("cpus", "mems")
