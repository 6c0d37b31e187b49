"""A container of the engine as `tests.real.adjustments` reads it back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.node import Node


@dataclass
class EngineView:
    """A container of the engine, as `fields.View` wants it."""

    node: Node
    id: str
    dir: Path

    @property
    def pid(self) -> int:
        return self.node.engine.inventory.container(self.id).record.pid

    def exec(self, *command: str) -> str:
        return self.node.engine.running_containers.exec_sync(self.id, command, 20).stdout.decode()

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        return self.node.cgroup(self.id, controller, v1_file)

    def spec(self, *path: str) -> Any:
        value = json.loads((self.node.config.state / "bundles" / self.id / "config.json").read_text())
        for name in path:
            value = (value or {}).get(name)
        return value

    def remove(self) -> None:
        self.node.engine.container_removal.remove(self.id)
