"""Find the knobs that work on this machine, and the reasons why other knobs do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nri.host.cgroups.hierarchies import Hierarchies, Version
from nri.host.cgroups.knobs import KNOBS, Knob, Place, knob
from nri.host.outcome import Unsupported

#: Maximum number of cgroups below the root that are searched for a file.
_MAX_CGROUPS = 40
#: Maximum depth of this search.
_MAX_DEPTH = 3


class LocatedFile(NamedTuple):
    """A knob's file in a cgroup. The file may be missing.

    Attributes:
        scope: the same file in the scope, if `path` is in the cgroup that crun creates below the scope, or "".
    """

    place: Place
    folder: str
    path: str
    scope: str = ""

    def in_unit(self) -> LocatedFile:
        """The file in the systemd unit's cgroup: the scope's file, or this file."""
        folder, mark, _ = self.scope.rpartition("/")
        return LocatedFile(self.place, folder, self.scope) if mark else self


def locate(hierarchies: Hierarchies, row: Knob, cgroup: str) -> LocatedFile | Unsupported:
    """Find the file of a knob in a cgroup: the first existing file, else the last possible file.

    Raises:
        ValueError: the path of the cgroup leads out of the hierarchy.
    """
    version, places = _places(hierarchies, row)
    if not places:
        return Unsupported(_no_place(hierarchies, row, version))
    candidates = []
    for place in places:
        folder = hierarchies.folder(place.controller, cgroup)
        outer = hierarchies.folder(place.controller, cgroup, inner=False)
        assert folder is not None  # `_places` returns only mounted hierarchies
        scope = f"{outer}/{place.file}" if outer != folder else ""
        candidates.append(LocatedFile(place, folder, f"{folder}/{place.file}", scope))
        if hierarchies.files.exists(candidates[-1].path):
            return candidates[-1]
    return candidates[-1]


def probe(hierarchies: Hierarchies, name: str, cgroup: str | None = None) -> LocatedFile | Unsupported:
    """Find the file of a knob in `cgroup`, or in any cgroup if it is None. Raises KeyError if the knob is unknown."""
    row = knob(name)
    for candidate in _candidates(hierarchies, row) if cgroup is None else (cgroup,):
        located = locate(hierarchies, row, candidate)
        if isinstance(located, Unsupported) or hierarchies.files.exists(located.path):
            return located
    where = "no cgroup" if cgroup is None else f"/{cgroup.strip('/')}"
    return Unsupported(missing_file(hierarchies, row, where))


def survey(hierarchies: Hierarchies) -> dict[str, LocatedFile | Unsupported]:
    """Every knob except huge pages, with its file or the reason why it does not work."""
    return {name: probe(hierarchies, name) for name in KNOBS if "SIZE" not in name}


def missing_file(hierarchies: Hierarchies, row: Knob, where: str) -> str:
    """Why a cgroup lacks a knob's file."""
    version, places = _places(hierarchies, row)
    place = places[-1]
    has = "has" if where.startswith("no ") else "lacks"
    reason = f"{where} {has} {place.file}"
    if place.only:
        reason += f": on cgroup v{version} only kernels of {place.only} have it" + _hint(row, "; ")
    elif row.since:
        reason += f": the kernel is older than Linux {row.since}, or built without it"
    elif version == 2:
        reason += f": the controller {place.controller} is not enabled for it, or the kernel is built without it"
    return reason


def _places(hierarchies: Hierarchies, row: Knob) -> tuple[Version | None, tuple[Place, ...]]:
    """The cgroup version of a knob's controller, and the knob's files in this version."""
    version: Version | None = None
    for candidate in (*row.v1, *row.v2):
        mounted = hierarchies.of(candidate.controller)
        if mounted is not None:
            version = mounted.version
            places = tuple(place for place in row.places(version) if hierarchies.of(place.controller) is mounted)
            if places:
                return version, places
    return version, ()


def _no_place(hierarchies: Hierarchies, row: Knob, version: Version | None) -> str:
    if version is None and (row.v2 or hierarchies.mode != "v2"):
        names = sorted({place.controller for place in (*row.v1, *row.v2)})
        return f"the controller {' or '.join(names)} is not mounted"
    return f"cgroup v{version or 2} has no {row.name}" + _hint(row, ": ")


def _hint(row: Knob, mark: str) -> str:
    return f"{mark}use {row.instead}" if row.instead else ""


def _candidates(hierarchies: Hierarchies, row: Knob) -> Iterator[str]:
    """The root cgroup and the first cgroups below it, level by level."""
    _, places = _places(hierarchies, row)
    controller = places[0].controller if places else ""
    level, looks = [""], 0
    for _ in range(_MAX_DEPTH):
        following: list[str] = []
        for cgroup in level:
            yield cgroup
            looks += 1
            if looks >= _MAX_CGROUPS:
                return
            following += [f"{cgroup}/{name}".lstrip("/") for name in hierarchies.below(cgroup, controller)]
        level = following
