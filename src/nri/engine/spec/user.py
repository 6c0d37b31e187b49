"""The user that a container's process runs as: what request or image want, looked up in the image's passwd and group.

Digits are a number and never a name, so no row of an image's files makes another id of it; a name is looked up
by name alone. A row that is needed and holds no id is an error, and every other row may hold anything. Steps:
`wanted_user`, then `find_account` in the texts of both files, then `user` for the spec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Account, ImageConfig
from nri.engine.spec.process import image_name
from nri.errors import RequestError

_FIELD = "linux.security_context"
_MOST = 2**32 - 2  # an id of all ones means "no id" to the kernel
_DIGITS = len(str(_MOST))
_MOST_GROUPS = 1 << 16  # NGROUPS_MAX of the kernel
_PASSWD, _GROUP = "/etc/passwd", "/etc/group"


class WantedUser(NamedTuple):
    """A user and a group, each a number or a name; no group is the one of /etc/passwd. `source` is for errors."""

    user: int | str
    group: int | str | None
    source: str


def wanted_user(config: pb.ContainerConfig, image: ImageConfig) -> WantedUser:
    """The user to run as: the request's user (number before name), else the image's; the request's group over both.

    Raises:
        RequestError: a group without a user, which the CRI forbids, or an id out of range.
    """
    security = config.linux.security_context
    group: int | str | None = None
    if security.HasField("run_as_group"):
        if not security.HasField("run_as_user") and not security.run_as_username:
            raise RequestError(f"{_FIELD}.run_as_group", security.run_as_group.value, "needs run_as_user beside it")
        group = checked_id(security.run_as_group.value, "run_as_group")
    if security.HasField("run_as_user"):
        return WantedUser(checked_id(security.run_as_user.value, "run_as_user"), group, f"{_FIELD}.run_as_user")
    if security.run_as_username:
        source = f"{_FIELD}.run_as_username"
        return WantedUser(_number_or_name(security.run_as_username, source), group, source)
    source = f"the user of image {image_name(config)}"
    name, _, image_group = image.user.partition(":")
    group = _number_or_name(image_group, source) if image_group else None
    return WantedUser(_number_or_name(name or "0", source), group, source)


def parse_id(text: str) -> int | None:
    """The id that a text is in ASCII digits; None for every other text, and for more than the kernel has."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        return None
    number = int(text)
    return number if number <= _MOST else None


def _number_or_name(text: str, source: str) -> int | str:
    """A number for digits, else a name. RequestError: digits of other scripts, or more than an id can be."""
    number = parse_id(text)
    if number is None and text.isnumeric():
        raise RequestError(source, text, f"is no id between 0 and {_MOST}")
    return text if number is None else number


def find_account(wanted: WantedUser, passwd: str, group: str) -> Account:
    """Look a user up in the texts of an image's /etc/passwd and /etc/group; a number needs no row there.

    Raises:
        RequestError: no row has the name, or the row holds something that is no id.
    """
    row = _row(_rows(passwd), wanted.user)
    if row is None and isinstance(wanted.user, str):
        raise RequestError(wanted.source, wanted.user, f"the image has no such user in {_PASSWD}")
    uid = wanted.user if isinstance(wanted.user, int) else _id(row or [], 2, _PASSWD, wanted)
    gid = _find_group(row, group, wanted)
    name = row[0] if row else ""
    member = [each for each in _rows(group) if name and len(each) >= 4 and name in each[3].split(",")]
    further = dict.fromkeys(_id(each, 2, _GROUP, wanted) for each in member)
    return Account(uid, gid, tuple(_bounded(further, wanted.source)))


def _find_group(user_row: list[str] | None, group: str, wanted: WantedUser) -> int:
    """The primary group: the wanted one, else that of the user's row, else 0."""
    if isinstance(wanted.group, int):
        return wanted.group
    if wanted.group is None:
        return _id(user_row, 3, _PASSWD, wanted) if user_row else 0
    row = _row(_rows(group), wanted.group)
    if row is None:
        raise RequestError(wanted.source, wanted.group, f"the image has no such group in {_GROUP}")
    return _id(row, 2, _GROUP, wanted)


def _rows(text: str) -> Iterable[list[str]]:
    """The rows of one of the files that name something and have an id."""
    return (row for line in text.split("\n") if len(row := line.split(":")) >= 3 and row[0])


def _row(rows: Iterable[list[str]], wanted: int | str) -> list[str] | None:
    """The first row of a number, or of a name: the one is never taken for the other."""
    if isinstance(wanted, int):
        return next((row for row in rows if parse_id(row[2]) == wanted), None)
    return next((row for row in rows if row[0] == wanted), None)


def _id(row: list[str], place: int, file: str, wanted: WantedUser) -> int:
    """The id in a column of a row that is needed."""
    text = row[place] if place < len(row) else ""
    number = parse_id(text)
    if number is None:
        reason = f"the image's {file} has {text[:32]!r} for {row[0][:32]!r}, which is no id between 0 and {_MOST}"
        raise RequestError(wanted.source, str(wanted.user), reason)
    return number


def user(config: pb.ContainerConfig, account: Account) -> dict[str, Any]:
    """The ``process.user``. The primary group is among the additional ones, so that dropping it gains nothing.

    With the policy Strict only the groups of the request count, else also those that /etc/group has the user in.
    """
    security = config.linux.security_context
    strict = security.supplemental_groups_policy == pb.Strict
    groups = [account.gid, *supplemental_groups(security), *(() if strict else account.groups)]
    additional = _bounded(dict.fromkeys(groups), f"{_FIELD}.supplemental_groups")
    return {"uid": account.uid, "gid": account.gid, "additionalGids": list(additional)}


def supplemental_groups(security: pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext) -> list[int]:
    """The further groups of a request, of a container or a pod, each once. RequestError: too many, or none."""
    asked = _bounded(dict.fromkeys(security.supplemental_groups), f"{_FIELD}.supplemental_groups")
    return [checked_id(gid, "supplemental_groups") for gid in asked]


def _bounded(groups: Collection[int], source: str) -> Collection[int]:
    if len(groups) > _MOST_GROUPS:
        raise RequestError(source, len(groups), f"a process has at most {_MOST_GROUPS} groups")
    return groups


def checked_id(value: int, field: str) -> int:
    """A user's or group's id of a field. RequestError: it is none that the kernel has."""
    if not 0 <= value <= _MOST:
        raise RequestError(f"{_FIELD}.{field}", value, f"is no id between 0 and {_MOST}")
    return value
