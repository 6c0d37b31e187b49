"""Parse mount tables in the form of `/proc/PID/mountinfo` (proc(5)). Lines of another form are skipped."""

from __future__ import annotations

import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The table of this process's own mount namespace.
OWN_MOUNT_TABLE = "/proc/self/mountinfo"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mount.

    Attributes:
        device: the numbers of the device, `8:1`.
        path: the mount point.
        tags: the optional fields, for example `shared:12`.
        kind: the type of the file system, `ext4` or `cgroup2`, or "" if the line does not have it.
        options: the options of the file system, for example `rw` and `nsdelegate`.
    """

    device: str
    path: str
    tags: tuple[str, ...]
    kind: str
    options: tuple[str, ...]


def parse(lines: Iterable[str]) -> Iterator[Mount]:
    """Yield the mounts of a table's lines."""
    for line in lines:
        before, _, after = line.rstrip("\n").partition(" - ")
        fields = before.split(" ")
        if len(fields) < 6:
            continue
        filesystem_fields = after.split(" ")
        options = tuple(filesystem_fields[2].split(",")) if len(filesystem_fields) > 2 else ()
        yield Mount(fields[2], _unescaped_path(fields[4]), tuple(fields[6:]), filesystem_fields[0], options)


def _unescaped_path(path: str) -> str:
    """The path without the octal escapes of blanks, tabs, newlines and backslashes."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path) if "\\" in path else path
