"""Run a container and read its environment, and its memory limit from inside and outside."""

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
class View:
    """What a container sees; memory limits are texts such as `64 MiB`. `outputs`: title -> output of a command."""

    env: dict[str, str]
    memory_inside: str
    memory_cgroup: str
    outputs: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> dict[str, str]:
        """The values as title -> text."""
        return {
            **{f"env {name}": self.env[name] for name in sorted(self.env)},
            "memory limit, read inside": self.memory_inside,
            "memory limit, its cgroup": self.memory_cgroup,
            **self.outputs,
        }


def look(cri: Cri, commands: Mapping[str, str] | None = None, meanwhile: Meanwhile | None = None) -> View:
    """Create a pod with a container that asks for `MEMORY_BYTES`, read what it sees, remove both.

    `commands` are shell commands by the title of their output.
    """
    pod = cri.run_pod(POD_NAME)
    try:
        container = cri.run(pod, "main", memory_limit_in_bytes=MEMORY_BYTES)
        lines = cri.exec(container, "/bin/env").splitlines()
        view = View(
            env=dict(line.split("=", 1) for line in lines if "=" in line),
            memory_inside=mebibytes(cri.exec(container, "/bin/sh", "-c", _INSIDE).strip()),
            memory_cgroup=mebibytes(memory_limit(cri.info(container)["pid"])),
            outputs=_command_outputs(cri, container, commands or {}),
        )
        if meanwhile is not None:
            meanwhile(container)
        return view
    finally:
        cri.remove_pod(pod.id)


def _command_outputs(cri: Cri, container: str, commands: Mapping[str, str]) -> dict[str, str]:
    """The outputs of shell commands in a container by title, without empty ones."""
    outputs = {title: cri.exec(container, "/bin/sh", "-c", text).strip() for title, text in commands.items()}
    return {title: text for title, text in outputs.items() if text}


def look_dry(cri: Cri, meanwhile: Meanwhile) -> dict[str, Any]:
    """Create the same in a dry engine, and return the OCI spec."""
    pod = cri.run_pod(POD_NAME)
    try:
        container = cri.run(pod, "main", memory_limit_in_bytes=MEMORY_BYTES)
        spec: dict[str, Any] = cri.info(container)["runtimeSpec"]
        meanwhile(container)
        return spec
    finally:
        cri.remove_pod(pod.id)


def mebibytes(text: str) -> str:
    """A number of bytes as MiB; any other text unchanged."""
    return f"{int(text) >> 20} MiB" if text.isdigit() else text
