"""Which of the things that a container uses are hints for its place, as its annotations say.

One job: :class:`Sources` of a container: mounts, devices, and paths that are allowed or denied. Rules: pure; without
annotations all count; a hint that cannot be read is among the container's doubts, and counts as not given.
Next: `nri.placement.devices`, which finds where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from nri.api import annotations as convention
from nri.api.selectors import check_pattern
from nri.config import Source, read
from nri.errors import ConfigError
from nri.placement.containers import Container, shown
from nri.placement.expressions import matches

__all__ = ["Sources", "sources_of"]

_KINDS: Final = ("mounts", "devices", "pod-resources")
#: Paths or patterns of one annotation: each is compared with each mount and device.
_MAX_PATHS: Final = 100
#: Small files that a runtime or a kubelet mounts, and libraries: where they are says nothing.
_UNTOLD: Final = ("/etc/", "/dev/termination-log", "/lib/", "/lib64/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/")
_UNTOLD_VOLUMES: Final = re.compile(r"/pods/[0-9a-fA-F-]+/volumes/kubernetes\.io~(configmap|secret)/")


@dataclass(frozen=True)
class _Paths:
    """Paths by their beginnings, or by patterns."""

    type: Literal["prefix", "glob"] = "prefix"
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.paths) > _MAX_PATHS:
            raise ValueError(f"{len(self.paths)} paths; at most {_MAX_PATHS} are read")
        for path in self.paths if self.type == "glob" else ():
            check_pattern(path)

    def have(self, path: str) -> bool:
        """Whether a path is among them."""
        return matches(path, self.paths) if self.type == "glob" else path.startswith(tuple(self.paths))


@dataclass(frozen=True, slots=True)
class Sources:
    """The hints that count for one container.

    Attributes:
        counts: whether a path, in the node or in /sys, is not denied.
    """

    mounts: bool
    devices: bool
    counts: Callable[[str], bool]

    def counts_mount(self, source: str, destination: str, options: list[str]) -> bool:
        """Whether a mount is a hint: it can be written, and is no small file of the runtime or the kubelet."""
        if not self.mounts or "ro" in options or _UNTOLD_VOLUMES.search(source):
            return False
        return not (source.startswith(_UNTOLD) or destination.startswith(_UNTOLD)) and self.counts(source)


def sources_of(container: Container) -> Sources:
    """The sources of a container's hints."""
    kinds = _kinds(container)
    if not kinds:
        return Sources(mounts=False, devices=False, counts=lambda _path: False)
    denied, allowed = _paths(container, "deny"), _paths(container, "allow")
    return Sources("mounts" in kinds, "devices" in kinds, lambda path: allowed.have(path) or not denied.have(path))


def _kinds(container: Container) -> set[str]:
    found = container.asks("topologyhints")
    if found is None:
        return set(_KINDS)
    value = convention.BOOLEANS.get(found[1])
    if value is not None:
        return set(_KINDS) if value else set()
    kinds: set[str] = set()
    for word in found[1].split(","):
        if word == "none":
            return set()
        if word not in (*_KINDS, "all"):
            container.doubt("topologyhints", f"{shown(word)} is none of {', '.join(_KINDS)}, all, none, true and false")
        kinds |= set(_KINDS) if word == "all" else {word} & {*_KINDS}
    return kinds


def _paths(container: Container, which: str) -> _Paths:
    key = f"{which}.topologyhints"
    found = container.asks(key)
    if found is None:
        return _Paths()
    try:
        return read(_Paths, [Source(f"annotation {key}", found[1], "yaml")])
    except (ConfigError, ValueError) as error:
        container.doubt(key, str(error))
        return _Paths()
