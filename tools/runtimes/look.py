"""Run a container and see what it sees: its environment, and its memory limit from inside and outside.

Rules: pod and container are removed again at once. Used by the demo and by `python -m tools.runtimes look`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.runtimes.cgroups import memory_limit
from tools.runtimes.cri import Cri

POD_NAME = "hello"
MEMORY_BYTES = 64 << 20
_INSIDE = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container looks like; memory limits for people, such as `64 MiB`."""

    env: dict[str, str]
    memory_inside: str
    memory_cgroup: str

    def rows(self) -> dict[str, str]:
        """All of it as title -> text."""
        return {
            **{f"env {name}": self.env[name] for name in sorted(self.env)},
            "memory limit, read inside": self.memory_inside,
            "memory limit, its cgroup": self.memory_cgroup,
        }


def look(cri: Cri) -> Seen:
    """Create a pod with a container that asks for `MEMORY_BYTES`, read what it sees, remove both."""
    pod = cri.run_pod(POD_NAME)
    try:
        container = cri.run(pod, "main", memory_limit_in_bytes=MEMORY_BYTES)
        lines = cri.exec(container, "/bin/env").splitlines()
        return Seen(
            env=dict(line.split("=", 1) for line in lines if "=" in line),
            memory_inside=_mebibytes(cri.exec(container, "/bin/sh", "-c", _INSIDE).strip()),
            memory_cgroup=_mebibytes(memory_limit(cri.info(container)["pid"])),
        )
    finally:
        cri.remove_pod(pod.id)


def _mebibytes(text: str) -> str:
    return f"{int(text) >> 20} MiB" if text.isdigit() else text
