"""A device node as this host has it: what a CDI file leaves out is taken from the node of that path.

Next: `nri.oci.cdi.edits`, which puts it into a spec.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from nri.config.root import inside
from nri.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.oci.cdi.format import DeviceNode

__all__ = ["complete"]

_TYPES = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))


class _Node(NamedTuple):
    type: str
    major: int
    minor: int
    mode: int


def complete(node: DeviceNode, root: str = "/") -> dict[str, object]:
    """The spec's device of a node, completed by the host's. SpecError if the host lacks what is needed of it.

    A node with type and number needs no host; it takes only the file mode of one that is there.
    """
    made: dict[str, object] = {"path": node.path, "type": node.type, "major": node.major, "minor": node.minor}
    given = bool(node.type and (node.major or node.type == "p"))
    where = node.hostPath or node.path
    mode = node.fileMode
    try:
        host = _look(inside(root, where))
    except OSError as error:
        if not given:
            raise SpecError("", f'CDI device node "{where}": {error.strerror or error}') from None
    else:
        mode = host.mode if mode is None else mode
        if not given:
            if node.type not in ("", host.type):
                raise SpecError("", f'CDI device node "{where}" is of type {host.type}, not {node.type}')
            made["type"] = host.type
            if not node.major and host.type != "p":
                made["major"], made["minor"] = host.major, host.minor
    if mode is not None:
        made["fileMode"] = mode
    return made | {key: value for key, value in (("uid", node.uid), ("gid", node.gid)) if value is not None}


def _look(path: str) -> _Node:
    found = os.lstat(path)
    for is_type, name in _TYPES:
        if is_type(found.st_mode):
            return _Node(name, os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode))
    raise OSError(None, "not a device node")
