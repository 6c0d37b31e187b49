"""Which mounts and devices of a container are hints for its placement, according to its annotations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from nri.api import annotations as convention
from nri.api.selectors import check_pattern
from nri.config import Source, read
from nri.errors import ConfigError
from nri.placement.containers import Container, quoted
from nri.placement.expressions import matches

_KINDS: Final = ("mounts", "devices", "pod-resources")
#: Maximum number of paths or patterns in an annotation. Each path is compared with each mount and device.
_MAX_PATHS: Final = 100
#: Small files that a runtime or a kubelet mounts, and libraries; their location is irrelevant.
_IGNORED: Final = ("/etc/", "/dev/termination-log", "/lib/", "/lib64/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/")
_IGNORED_VOLUMES: Final = re.compile(r"/pods/[0-9a-fA-F-]+/volumes/kubernetes\.io~(configmap|secret)/")


@dataclass(frozen=True)
class _Paths:
    """A set of paths: prefixes or glob patterns."""

    type: Literal["prefix", "glob"] = "prefix"
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.paths) > _MAX_PATHS:
            raise ValueError(f"{len(self.paths)} paths; at most {_MAX_PATHS} are allowed")
        for path in self.paths if self.type == "glob" else ():
            check_pattern(path)

    def match(self, path: str) -> bool:
        """Whether a path has a listed prefix, or matches a listed pattern."""
        return matches(path, self.paths) if self.type == "glob" else path.startswith(tuple(self.paths))


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of one container's hints.

    Attributes:
        mounts: whether mounts are hints.
        devices: whether devices are hints.
        counts: return whether a path, on the node or in /sys, is allowed.
    """

    mounts: bool
    devices: bool
    counts: Callable[[str], bool]

    def counts_mount(self, source: str, destination: str, options: list[str]) -> bool:
        """Whether a mount is a hint: it is writable, and not a small file of the runtime or the kubelet."""
        if not self.mounts or "ro" in options or _IGNORED_VOLUMES.search(source):
            return False
        return not (source.startswith(_IGNORED) or destination.startswith(_IGNORED)) and self.counts(source)


def sources_of(container: Container) -> Sources:
    """The sources of a container's hints. Without annotations, all are used. An invalid annotation is ignored."""
    kinds = _kinds(container)
    if not kinds:
        return Sources(mounts=False, devices=False, counts=lambda _path: False)
    denied, allowed = _paths(container, "deny"), _paths(container, "allow")
    return Sources("mounts" in kinds, "devices" in kinds, lambda path: allowed.match(path) or not denied.match(path))


def _kinds(container: Container) -> set[str]:
    annotation = container.scoped_annotation("topologyhints")
    if annotation is None:
        return set(_KINDS)
    value = convention.BOOLEANS.get(annotation[1])
    if value is not None:
        return set(_KINDS) if value else set()
    kinds: set[str] = set()
    for word in annotation[1].split(","):
        if word == "none":
            return set()
        if word not in (*_KINDS, "all"):
            container.doubt(
                "topologyhints", f"{quoted(word)} is not one of {', '.join(_KINDS)}, all, none, true, false"
            )
        kinds |= set(_KINDS) if word == "all" else {word} & {*_KINDS}
    return kinds


def _paths(container: Container, which: str) -> _Paths:
    key = f"{which}.topologyhints"
    annotation = container.scoped_annotation(key)
    if annotation is None:
        return _Paths()
    try:
        return read(_Paths, [Source(f"annotation {key}", annotation[1], "yaml")])
    except (ConfigError, ValueError) as error:
        container.doubt(key, str(error))
        return _Paths()
