"""Read deploy/plugins.yaml: the access to a node that each bundled plugin needs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "deploy/plugins.yaml"
MOUNT_TYPES = ("Directory", "DirectoryOrCreate", "File")
MOUNT_KEYS = {"name", "host", "type", "why", "at"}
#: Where a container finds the folder of the runtime's socket, and where nodes have it.
SOCKET_DIR = "/var/run/nri"
CONFIG_DIR = "/etc/nri-plugin"
HEALTH_PORT = 8080


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the node.

    `at` is where the container has it; `write`: it writes there; `changes`: mounts that come later must be seen.
    """

    name: str
    host: str
    type: str
    why: str
    at: str
    write: bool = False
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a systemd unit that opens something."""

    key: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Need:
    """The needs of one plugin; the keys are explained in deploy/plugins.yaml."""

    name: str
    does: str
    args: tuple[str, ...] = ("-idx", "10")
    config: dict[str, Any] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    paths: str = ""
    capabilities: dict[str, str] = field(default_factory=dict)
    host_network: str = ""
    host_pid: str = ""
    follows: str = ""
    unit: tuple[Line, ...] = ()
    unit_args: tuple[str, ...] = ()

    @property
    def object_name(self) -> str:
        """The name of its DaemonSet, and of its unit."""
        return f"nri-plugin-{self.name}"

    @property
    def followed(self) -> str:
        """The plural name of its custom resource in the API."""
        return f"{self.follows.lower().removesuffix('y')}ies"

    @property
    def indexed(self) -> bool:
        """Whether it has one index, `-idx NN`."""
        return self.args[:1] == ("-idx",)


def read(path: Path = TABLE) -> list[Need]:
    """All plugins of the table, sorted. Raises ValueError for an invalid row."""
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [_need(name, row) for name, row in sorted(rows.items())]


def _need(name: str, row: dict[str, Any]) -> Need:
    values = dict(row)
    if re.fullmatch(r"[a-z][a-z0-9-]*", name) is None:
        raise ValueError(f"{name}: not a name for Kubernetes")
    for key in ("args", "unit_args"):
        if key in row:
            values[key] = tuple(row[key])
    return Need(name=name, **values | opened(name, row, ("changes", "write")))


def opened(name: str, row: dict[str, Any], flags: tuple[str, ...], root: str = "") -> dict[str, Any]:
    """The mounts and the unit's lines of a row. Raises ValueError for invalid ones.

    Args:
        name: the row's, for errors.
        row: its keys.
        flags: further keys of its mounts: `write`, `changes`.
        root: where the container has the node's paths, unless a mount says otherwise.
    """
    for mount in row.get("mounts", ()):
        if unknown := mount.keys() - MOUNT_KEYS - set(flags):
            raise ValueError(f"{name}: mount {mount['name']}: unknown key {min(unknown)}")
        if mount["type"] not in MOUNT_TYPES:
            raise ValueError(
                f"{name}: mount {mount['name']}: type {mount['type']} is not one of {', '.join(MOUNT_TYPES)}"
            )
    return {
        "mounts": tuple(Mount(**{"at": root + mount["host"]} | mount) for mount in row.get("mounts", ())),
        "unit": tuple(Line(key, **line) for key, line in row.get("unit", {}).items()),
    }


def version() -> str:
    """The release that manifests and charts name, as pyproject.toml has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def semantic_version() -> str:
    """The same in the form that Helm demands: ``0.1.0-dev0``."""
    return re.sub(r"^(\d+\.\d+\.\d+)\.?(?=[a-z])", r"\1-", version())
