"""Tables of resource names in the API's messages and in an OCI spec."""

from __future__ import annotations

#: Optional values: the name in the API's message, and the name in the spec.
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
#: String values of `cpu`, with the same name in both.
CPUSET = ("cpus", "mems")
