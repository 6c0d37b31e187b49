"""The user of a container's process, as the request or the image names it.

`requested_user` reads the request and the image's configuration. `find_account` looks the user up in the image's passwd
and group files. `user` writes the result into the OCI spec. A user of digits is always an id, never a name. An invalid
id in a row that is not used is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Account, ImageConfig
from nri.engine.spec.process import image_name
from nri.errors import RequestError

_FIELD = "linux.security_context"
_MAX_ID = 2**32 - 2  # for the kernel, 2**32 - 1 means "no id"
_MAX_DIGITS = len(str(_MAX_ID))
_MAX_GROUPS = 1 << 16  # NGROUPS_MAX of the kernel
_PASSWD, _GROUP = "/etc/passwd", "/etc/group"


class RequestedUser(NamedTuple):
    """A user and a group, as ids or names.

    Attributes:
        group: None means the user's group in /etc/passwd.
        source: the field or image that names the user, for errors.
    """

    user: int | str
    group: int | str | None
    source: str


def requested_user(config: pb.ContainerConfig, image: ImageConfig) -> RequestedUser:
    """The user of the request, or the image's user without a request. The id takes precedence over the name.

    A requested group takes precedence over the user's group.

    Raises RequestError if a group is requested without a user, which the CRI forbids, or if an id is out of range.
    """
    security = config.linux.security_context
    group: int | str | None = None
    if security.HasField("run_as_group"):
        if not security.HasField("run_as_user") and not security.run_as_username:
            raise RequestError(f"{_FIELD}.run_as_group", security.run_as_group.value, "requires run_as_user")
        group = checked_id(security.run_as_group.value, "run_as_group")
    if security.HasField("run_as_user"):
        return RequestedUser(checked_id(security.run_as_user.value, "run_as_user"), group, f"{_FIELD}.run_as_user")
    if security.run_as_username:
        source = f"{_FIELD}.run_as_username"
        return RequestedUser(_number_or_name(security.run_as_username, source), group, source)
    source = f"the user of image {image_name(config)}"
    name, _, image_group = image.user.partition(":")
    group = _number_or_name(image_group, source) if image_group else None
    return RequestedUser(_number_or_name(name or "0", source), group, source)


def parse_id(text: str) -> int | None:
    """The id in a text of ASCII digits. None if the text has other characters, or if the id is out of range."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return None
    number = int(text)
    return number if number <= _MAX_ID else None


def _number_or_name(text: str, source: str) -> int | str:
    """The id in a text of digits, or the text as a name. Raises RequestError if an id is out of range.

    Digits that are not ASCII are out of range, too.
    """
    number = parse_id(text)
    if number is None and text.isnumeric():
        raise RequestError(source, text, f"must be between 0 and {_MAX_ID}")
    return text if number is None else number


def find_account(requested: RequestedUser, passwd: str, group: str) -> Account:
    """Look up a user in the content of an image's /etc/passwd and /etc/group. Only a name has to exist there.

    Raises RequestError if no row has the name, or if its row has an invalid id.
    """
    row = _matching_row(_rows(passwd), requested.user)
    if row is None and isinstance(requested.user, str):
        raise RequestError(requested.source, requested.user, f"the image has no such user in {_PASSWD}")
    uid = requested.user if isinstance(requested.user, int) else _id(row or [], 2, _PASSWD, requested)
    gid = _find_group(row, group, requested)
    name = row[0] if row else ""
    group_rows = [row for row in _rows(group) if name and len(row) >= 4 and name in row[3].split(",")]
    groups = dict.fromkeys(_id(row, 2, _GROUP, requested) for row in group_rows)
    return Account(uid, gid, tuple(_check_count(groups, requested.source)))


def _find_group(user_row: list[str] | None, group: str, requested: RequestedUser) -> int:
    """The requested group, or the group in the user's row of passwd, or 0 if there is no such row."""
    if isinstance(requested.group, int):
        return requested.group
    if requested.group is None:
        return _id(user_row, 3, _PASSWD, requested) if user_row else 0
    row = _matching_row(_rows(group), requested.group)
    if row is None:
        raise RequestError(requested.source, requested.group, f"the image has no such group in {_GROUP}")
    return _id(row, 2, _GROUP, requested)


def _rows(text: str) -> Iterable[list[str]]:
    """The rows of a passwd or group file that have a name and a column for the id."""
    return (row for line in text.split("\n") if len(row := line.split(":")) >= 3 and row[0])


def _matching_row(rows: Iterable[list[str]], key: int | str) -> list[str] | None:
    """The first row whose id is the integer `key`, or whose name is the string `key`."""
    if isinstance(key, int):
        return next((row for row in rows if parse_id(row[2]) == key), None)
    return next((row for row in rows if row[0] == key), None)


def _id(row: list[str], column: int, file: str, requested: RequestedUser) -> int:
    """The id in a column of a row. Raises RequestError if the id is invalid."""
    text = row[column] if column < len(row) else ""
    number = parse_id(text)
    if number is None:
        reason = f"the image's {file} has {text[:32]!r} for {row[0][:32]!r}, which is not an id between 0 and {_MAX_ID}"
        raise RequestError(requested.source, str(requested.user), reason)
    return number


def user(config: pb.ContainerConfig, image: ImageConfig, account: Account) -> dict[str, Any]:
    """The ``process.user`` of a container.

    The primary group is also an additional group, so that a process gains nothing by giving up its primary group. Under
    the policy Strict the user's groups in /etc/group are ignored; the primary group is then added only if the request
    or the image names a user, as in containerd.
    """
    security = config.linux.security_context
    strict = security.supplemental_groups_policy == pb.Strict
    has_user = security.HasField("run_as_user") or bool(security.run_as_username or image.user)
    primary = [account.gid] if has_user or not strict else []
    groups = [*primary, *supplemental_groups(security), *(() if strict else account.groups)]
    additional = _check_count(dict.fromkeys(groups), f"{_FIELD}.supplemental_groups")
    return {"uid": account.uid, "gid": account.gid, "additionalGids": list(additional)}


def supplemental_groups(security: pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext) -> list[int]:
    """The requested supplemental groups. Raises RequestError if a group is invalid, or if there are too many."""
    groups = _check_count(dict.fromkeys(security.supplemental_groups), f"{_FIELD}.supplemental_groups")
    return [checked_id(gid, "supplemental_groups") for gid in groups]


def _check_count(groups: Collection[int], source: str) -> Collection[int]:
    if len(groups) > _MAX_GROUPS:
        raise RequestError(source, len(groups), f"a process can have at most {_MAX_GROUPS} groups")
    return groups


def checked_id(value: int, field: str) -> int:
    """Return an id of a user or group. Raises RequestError if the kernel does not allow it."""
    if not 0 <= value <= _MAX_ID:
        raise RequestError(f"{_FIELD}.{field}", value, f"must be between 0 and {_MAX_ID}")
    return value
