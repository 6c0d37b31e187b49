"""Run a container and see what it sees: its environment, and its memory limit from inside and outside.

Rules: pod and container are removed again at once. Used by the demo and by `python -m tools.runtimes look`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.runtimes.cgroups import memory_limit
from tools.runtimes.cri import Cri

POD_NAME = "hello"
MEMORY_BYTES = 64 << 20
_INSIDE = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"

#: What is done with a container while it runs; it gets the id.
Meanwhile = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container looks like; memory limits for people, such as `64 MiB`. `others`: title -> text."""

    env: dict[str, str]
    memory_inside: str
    memory_cgroup: str
    others: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> dict[str, str]:
        """All of it as title -> text."""
        return {
            **{f"env {name}": self.env[name] for name in sorted(self.env)},
            "memory limit, read inside": self.memory_inside,
            "memory limit, its cgroup": self.memory_cgroup,
            **self.others,
        }


def look(cri: Cri, others: Mapping[str, str] | None = None, meanwhile: Meanwhile | None = None) -> Seen:
    """Create a pod with a container that asks for `MEMORY_BYTES`, read what it sees, remove both.

    `others` are shell commands by the title that their output gets.
    """
    pod = cri.run_pod(POD_NAME)
    try:
        container = cri.run(pod, "main", memory_limit_in_bytes=MEMORY_BYTES)
        lines = cri.exec(container, "/bin/env").splitlines()
        seen = Seen(
            env=dict(line.split("=", 1) for line in lines if "=" in line),
            memory_inside=mebibytes(cri.exec(container, "/bin/sh", "-c", _INSIDE).strip()),
            memory_cgroup=mebibytes(memory_limit(cri.info(container)["pid"])),
            others=_asked(cri, container, others or {}),
        )
        if meanwhile is not None:
            meanwhile(container)
        return seen
    finally:
        cri.remove_pod(pod.id)


def _asked(cri: Cri, container: str, others: Mapping[str, str]) -> dict[str, str]:
    """The output of shell commands in a container by title, where there is any."""
    found = {title: cri.exec(container, "/bin/sh", "-c", text).strip() for title, text in others.items()}
    return {title: text for title, text in found.items() if text}


def look_dry(cri: Cri, meanwhile: Meanwhile) -> dict[str, Any]:
    """Create the same in an engine that runs nothing, and return the OCI spec; nothing can be seen inside."""
    pod = cri.run_pod(POD_NAME)
    try:
        container = cri.run(pod, "main", memory_limit_in_bytes=MEMORY_BYTES)
        spec: dict[str, Any] = cri.info(container)["runtimeSpec"]
        meanwhile(container)
        return spec
    finally:
        cri.remove_pod(pod.id)


def mebibytes(text: str) -> str:
    """A number of bytes for people; what is no number stays."""
    return f"{int(text) >> 20} MiB" if text.isdigit() else text
