"""A container of containerd as `nri.conformance.fields` reads it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.real.bundles import wait_own_process
from tools.runtimes import cgroups
from tools.runtimes.cri import Cri


@dataclass
class ContainerView:
    """A container of the tests, as `fields.View` wants it."""

    cri: Cri
    id: str
    dir: Path
    shared: bool = False
    started: bool = True
    pid: int = 0
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.info = self.cri.info(self.id)
        self.pid = self.info.get("pid", 0)
        if self.pid and self.started:
            wait_own_process(self.pid)

    def exec(self, *command: str) -> str:
        return self.cri.exec(self.id, *command)

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        if not v2_file and not cgroups.is_v1(self.pid, controller):
            # CPU weight: its relation to shares differs between runc releases.
            return str(self.spec("linux", "resources", "cpu", "shares"))
        return cgroups.read(self.pid, controller, v1_file, v2_file)

    def spec(self, *path: str) -> Any:
        value: Any = self.info["runtimeSpec"]
        for name in path:
            value = (value or {}).get(name)
        return value

    def remove(self) -> None:
        if not self.shared:
            self.cri.stop(self.id)
            self.cri.remove(self.id)
