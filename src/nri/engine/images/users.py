"""The user that a container runs as, looked up in its own passwd and group files.

Rules: files are opened below the root file system, so a symlink in an image cannot show us the host's; both are read up
to a limit; numbers need no entry.
Next: :mod:`nri.engine.network`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.errors import InvalidRequest
from nri.host.root import open_below

__all__ = ["User", "parse_user", "resolve_user"]

_LIMIT_BYTES = 4 << 20
_LARGEST = (1 << 32) - 2


class User(NamedTuple):
    """A user in numbers, with its further groups and its home."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"
    name: str = ""


def resolve_user(rootfs: Path, text: str, extra_groups: tuple[int, ...] = ()) -> User:
    """The user that ``USER`` or a request names, as ``name``, ``uid``, ``name:group`` or ``uid:gid``.

    Raises InvalidRequest for a name that the image does not have.
    """
    return parse_user(_read(rootfs, "etc/passwd"), _read(rootfs, "etc/group"), text, extra_groups)


def parse_user(passwd: str, group: str, text: str, extra_groups: tuple[int, ...] = ()) -> User:
    """Look a user up as :func:`resolve_user` does, in the texts of both files. Pure."""
    wanted, colon, wanted_group = text.partition(":")
    wanted = wanted or "0"
    rows = [row.split(":") for row in passwd.splitlines()]
    row = next((row for row in rows if len(row) >= 6 and wanted in (row[0], row[2]) and row[2].isdigit()), None)
    if row is None and not wanted.isdigit():
        raise InvalidRequest(f"the image has no user {wanted!r} in /etc/passwd")
    uid = _number(row[2] if row else wanted, text)
    gid = _number(row[3], text) if row and row[3].isdigit() else 0
    name = row[0] if row else ""
    groups = [each.split(":") for each in group.splitlines()]
    if colon and wanted_group:
        gid = _group(groups, wanted_group, text)
    member = [] if colon else [int(each[2]) for each in groups if _has(each, name)]
    further = tuple(dict.fromkeys([*member, *extra_groups]))
    return User(uid, gid, further, row[5] or "/" if row else "/", name)


def _group(groups: list[list[str]], wanted: str, text: str) -> int:
    for row in groups:
        if len(row) >= 3 and wanted == row[0] and row[2].isdigit():
            return _number(row[2], text)
    if not wanted.isdigit():
        raise InvalidRequest(f"the image has no group {wanted!r} in /etc/group")
    return _number(wanted, text)


def _has(row: list[str], user: str) -> bool:
    return bool(user) and len(row) >= 4 and row[2].isdigit() and user in row[3].split(",")


def _number(digits: str, text: str) -> int:
    if int(digits) > _LARGEST:
        raise InvalidRequest(f"{text!r} names no user: {digits} is more than a user's number can be")
    return int(digits)


def _read(rootfs: Path, path: str) -> str:
    """A file of the image as text; empty if there is none, or if it is no file."""
    try:
        descriptor = open_below(rootfs, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return ""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_LIMIT_BYTES).decode(errors="replace")
