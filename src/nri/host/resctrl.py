"""Share the last-level cache and memory bandwidth between groups of processes through the file system resctrl.

A group is a folder. Its shares are lines by resource (`L3`, `MB`) and cache domain. Masks are integers in this module,
and hexadecimal in the file.

Source: Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from nri.host.outcome import GONE_ERRORS, Outcome, Result, Unsupported, explain
from nri.host.root import Root

#: The mask of the cache, or the share of the bandwidth, by resource and cache domain.
Schemata = dict[str, dict[int, int]]

_TOP = "/sys/fs/resctrl"
#: Entries of a group's folder that are not groups.
_MONITORS = "mon_groups"
_RESERVED_NAMES = frozenset({"info", _MONITORS, "mon_data"})
_DIGITS = "0123456789abcdef"
_FLAGS = ("cat_l3", "cat_l2", "mba")


class Cache(NamedTuple):
    """The capabilities of a cache.

    Attributes:
        mask: the mask of the entire cache.
        least_bits: minimum number of bits in a mask.
        groups: maximum number of groups.
        sparse: whether masks may have gaps.
    """

    mask: int
    least_bits: int
    groups: int
    sparse: bool = False

    def complaint(self, mask: int) -> str:
        """Why the processor does not accept this mask. Returns "" if it does."""
        if mask <= 0 or mask & ~self.mask:
            return f"{mask:x} is not within {self.mask:x}"
        if mask.bit_count() < self.least_bits:
            return f"{mask:x} has fewer bits than {self.least_bits}"
        low = mask >> ((mask & -mask).bit_length() - 1)
        if not self.sparse and low & (low + 1):
            return f"{mask:x} has a gap, which this processor does not accept"
        return ""


class Bandwidth(NamedTuple):
    """The capabilities of memory bandwidth: minimum share, step, maximum number of groups."""

    least: int
    step: int
    groups: int


class Capabilities(NamedTuple):
    """The capabilities of resctrl. `domains` are the numbers of the caches, by resource."""

    caches: Mapping[str, Cache]
    bandwidth: Bandwidth | None
    domains: Mapping[str, tuple[int, ...]]


class Resctrl:
    """The resctrl file system of a machine."""

    def __init__(self, root: Root, path: str = _TOP) -> None:
        self._root, self._path = root, path

    def capabilities(self) -> Capabilities | Unsupported:
        """Read the capabilities, or the reason why there are none. Raises ValueError if a file is invalid."""
        text = self._root.find(f"{self._path}/schemata")
        if text is None:
            return Unsupported(self._missing())
        caches = {name: cache for name in self._infos() if (cache := self._cache(name)) is not None}
        domains = {name: tuple(sorted(shares)) for name, shares in parse_schemata(text).items()}
        return Capabilities(caches, self._bandwidth(), domains)

    def groups(self) -> list[str]:
        """The names of the groups, without the default group."""
        return [name for name in self._root.folders(self._path) if name not in _RESERVED_NAMES]

    def create(self, group: str) -> Result:
        """Create a group. The result is UNCHANGED if it exists."""
        return self._folder(group, "", "there", self._root.make_folder, errno.EEXIST)

    def remove(self, group: str) -> Result:
        """Remove a group; its processes move to the default group. The result is UNCHANGED if it does not exist."""
        return self._folder(group, "", "removed", self._root.remove_folder, errno.ENOENT)

    def monitors(self) -> list[tuple[str, str]]:
        """The monitoring groups: pairs of the containing group and the name."""
        return [
            (group, name)
            for group in ("", *self.groups())
            for name in self._root.folders(f"{self._group_folder(group)}/{_MONITORS}")
        ]

    def create_monitor(self, name: str, group: str = "") -> Result:
        """Create a monitoring group in an existing group. The result is UNCHANGED if it exists."""
        return self._folder(group, name, "there", self._root.make_folder, errno.EEXIST)

    def remove_monitor(self, name: str, group: str = "") -> Result:
        """Remove a monitoring group. The result is UNCHANGED if it does not exist."""
        return self._folder(group, name, "removed", self._root.remove_folder, errno.ENOENT)

    def add_to_monitor(self, name: str, process: int, group: str = "") -> Result:
        """Add a process, and its future children, to a monitoring group."""
        try:
            self._root.write(f"{self._group_folder(group, name)}/tasks", str(process))
        except (OSError, ValueError) as error:
            return Result(name, "tasks", process, *self._explained_error(group, error))
        return Result(name, "tasks", process, Outcome.APPLIED)

    def schemata(self, group: str = "") -> Schemata:
        """The shares of a group. Raises FileNotFoundError if it does not exist, ValueError if it is invalid."""
        return parse_schemata(self._root.read(f"{self._group_folder(group)}/schemata"))

    def set_schemata(self, group: str, schemata: Mapping[str, Mapping[int, int]]) -> list[Result]:
        """Set shares of a group. Returns a result for each resource. Other domains are unchanged."""
        return [self._set_line(group, resource, shares) for resource, shares in schemata.items()]

    def tasks(self, group: str = "") -> list[int]:
        """The threads of a group, ascending. Raises FileNotFoundError if the group does not exist."""
        return sorted({int(word) for word in self._root.read(f"{self._group_folder(group)}/tasks").split()})

    def add_tasks(self, group: str, threads: Iterable[int]) -> list[Result]:
        """Add threads to a group one by one. The result for a thread that has ended is GONE."""
        present: set[int] = set()
        try:
            present = set(self.tasks(group))
        except (OSError, ValueError):
            pass  # each write returns the error
        return [self._add(group, thread, thread in present) for thread in threads]

    def _add(self, group: str, thread: int, present: bool) -> Result:
        if present:
            return Result(group, "tasks", thread, Outcome.UNCHANGED)
        try:
            self._root.write(f"{self._group_folder(group)}/tasks", str(thread))
        except (OSError, ValueError) as error:
            return Result(group, "tasks", thread, *self._explained_error(group, error))
        return Result(group, "tasks", thread, Outcome.APPLIED)

    def _set_line(self, group: str, resource: str, shares: Mapping[int, int]) -> Result:
        name = f"schemata.{resource}"
        try:
            before = self.schemata(group).get(resource)
            if before is None:
                return Result(group, name, shares, Outcome.UNSUPPORTED, f"the processor cannot partition {resource}")
            if all(before.get(domain) == share for domain, share in shares.items()):
                return Result(group, name, shares, Outcome.UNCHANGED, "", before, before)
            self._root.write(f"{self._group_folder(group)}/schemata", format_line(resource, shares))
            after = self.schemata(group).get(resource, {})
        except (OSError, ValueError) as error:
            return Result(group, name, shares, *self._explained_error(group, error))
        if all(after.get(domain) == share for domain, share in shares.items()):
            return Result(group, name, shares, Outcome.APPLIED, "", before, after)
        reason = f"the value reads back as {format_line(resource, after).strip()}"
        return Result(group, name, shares, Outcome.CLAMPED, reason, before, after)

    def _folder(self, group: str, monitor: str, state: str, call: Callable[[str], None], fine: int) -> Result:
        target, knob = (monitor, "monitoring group") if monitor else (group, "group")
        if not target:
            return Result(target, knob, state, Outcome.REFUSED, "the default group always exists")
        try:
            call(self._group_folder(group, monitor))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == fine and self._root.exists(self._path):
                return Result(target, knob, state, Outcome.UNCHANGED)
            return Result(target, knob, state, *self._explained_error(group, error))
        return Result(target, knob, state, Outcome.APPLIED)

    def _explained_error(self, group: str, error: OSError | ValueError) -> tuple[Outcome, str]:
        if not isinstance(error, OSError):
            return Outcome.REFUSED, str(error)
        if not self._root.exists(f"{self._path}/schemata"):
            return Outcome.UNSUPPORTED, self._missing()
        outcome, words = explain(error)
        if error.errno == errno.ENOSPC:
            return outcome, "the processor has no more groups"
        if error.errno in GONE_ERRORS:
            return Outcome.GONE, words if self._root.exists(self._group_folder(group)) else "the group does not exist"
        status = (self._root.find(f"{self._path}/info/last_cmd_status") or "").strip()
        return outcome, f"{words}: {status}" if status not in ("", "ok") else words

    def _missing(self) -> str:
        """Why resctrl is missing: the processor does not support it, or it is not mounted."""
        flags: set[str] = set()
        for line in (self._root.find("/proc/cpuinfo") or "").splitlines():
            if line.startswith(("flags", "Features")):
                flags = set(line.partition(":")[2].split())
                break
        abilities = [flag for flag in _FLAGS if flag in flags]
        if not abilities:
            return "the processor, or the hypervisor, shares neither cache nor memory bandwidth"
        return f"resctrl is not mounted at {self._path}; the processor has {', '.join(abilities)}"

    def _group_folder(self, group: str, monitor: str = "") -> str:
        for name in (group, monitor):
            if "/" in name or "\0" in name or name in {".", "..", *_RESERVED_NAMES}:
                raise ValueError(f"{name!r} cannot be the name of a group")
        folder = f"{self._path}/{group}" if group else self._path
        return f"{folder}/{_MONITORS}/{monitor}" if monitor else folder

    def _infos(self) -> list[str]:
        return [name for name in self._root.folders(f"{self._path}/info") if name.startswith("L")]

    def _number(self, resource: str, file: str, base: int = 10) -> int | None:
        text = self._root.find(f"{self._path}/info/{resource}/{file}")
        # `int` also accepts signs and prefixes, which the kernel does not write.
        if text is not None and not all(letter in _DIGITS[:base] for letter in text.strip().lower()):
            raise ValueError(f"{self._path}/info/{resource}/{file} is not a number: {text.strip()[:40]!r}")
        return None if text is None else int(text, base)

    def _cache(self, name: str) -> Cache | None:
        mask = self._number(name, "cbm_mask", 16)
        if mask is None:  # the counters of a cache have a folder, too
            return None
        least, groups = self._number(name, "min_cbm_bits"), self._number(name, "num_closids")
        return Cache(mask, least or 1, groups or 0, bool(self._number(name, "sparse_masks")))

    def _bandwidth(self) -> Bandwidth | None:
        least = self._number("MB", "min_bandwidth")
        if least is None:
            return None
        return Bandwidth(least, self._number("MB", "bandwidth_gran") or 1, self._number("MB", "num_closids") or 0)


def parse_schemata(text: str) -> Schemata:
    """Parse lines such as `L3:0=fff;1=ff0`. Masks are hexadecimal, bandwidths (`MB`, `SMBA`) decimal."""
    schemata: Schemata = {}
    for line in text.splitlines():
        resource, mark, shares = line.strip().partition(":")
        if not mark:
            continue
        try:
            pairs = [share.split("=") for share in shares.split(";") if share.strip()]
            schemata[resource] = {int(domain): int(share, _base(resource)) for domain, share in pairs}
        except ValueError:
            raise ValueError(f"{line.strip()[:80]!r} is not a line of schemata") from None
    return schemata


def format_line(resource: str, shares: Mapping[int, int]) -> str:
    """A line of a schemata file, with the newline that the kernel requires."""
    words = (
        f"{domain}={share:x}" if _base(resource) == 16 else f"{domain}={share}" for domain, share in shares.items()
    )
    return f"{resource}:{';'.join(words)}\n"


def _base(resource: str) -> int:
    return 16 if resource.startswith("L") else 10
