"""The user of a container's process: that of the request or the image, looked up in the image's passwd and group files.

Digits are always an id, never a name. A row that is needed has to have a valid id; other rows are ignored. The steps
are `requested_user`, then `find_account` with both files, then `user` for the spec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Account, ImageConfig
from nri.engine.spec.process import image_name
from nri.errors import RequestError

_FIELD = "linux.security_context"
_MAX_ID = 2**32 - 2  # the kernel takes all ones for "no id"
_MAX_DIGITS = len(str(_MAX_ID))
_MAX_GROUPS = 1 << 16  # NGROUPS_MAX of the kernel
_PASSWD, _GROUP = "/etc/passwd", "/etc/group"


class RequestedUser(NamedTuple):
    """A user and a group, as ids or names; without a group the one in /etc/passwd counts. `source` is for errors."""

    user: int | str
    group: int | str | None
    source: str


def requested_user(config: pb.ContainerConfig, image: ImageConfig) -> RequestedUser:
    """The requested user (id before name), otherwise the image's; a requested group overrides theirs.

    Raises:
        RequestError: a group without a user, which the CRI forbids, or an id that is out of range.
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
    """The id in a text of ASCII digits; None for any other text, and for a larger number than the kernel allows."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return None
    number = int(text)
    return number if number <= _MAX_ID else None


def _number_or_name(text: str, source: str) -> int | str:
    """An id for digits, otherwise a name. RequestError for other scripts' digits, and for ids out of range."""
    number = parse_id(text)
    if number is None and text.isnumeric():
        raise RequestError(source, text, f"must be between 0 and {_MAX_ID}")
    return text if number is None else number


def find_account(requested: RequestedUser, passwd: str, group: str) -> Account:
    """Look up a user in an image's /etc/passwd and /etc/group; an id does not have to exist there.

    Raises:
        RequestError: no row has the name, or its row has an invalid id.
    """
    row = _row(_rows(passwd), requested.user)
    if row is None and isinstance(requested.user, str):
        raise RequestError(requested.source, requested.user, f"the image has no such user in {_PASSWD}")
    uid = requested.user if isinstance(requested.user, int) else _id(row or [], 2, _PASSWD, requested)
    gid = _find_group(row, group, requested)
    name = row[0] if row else ""
    group_rows = [row for row in _rows(group) if name and len(row) >= 4 and name in row[3].split(",")]
    groups = dict.fromkeys(_id(row, 2, _GROUP, requested) for row in group_rows)
    return Account(uid, gid, tuple(_check_count(groups, requested.source)))


def _find_group(user_row: list[str] | None, group: str, requested: RequestedUser) -> int:
    """The primary group: the requested one, otherwise that of the user's row, otherwise 0."""
    if isinstance(requested.group, int):
        return requested.group
    if requested.group is None:
        return _id(user_row, 3, _PASSWD, requested) if user_row else 0
    row = _row(_rows(group), requested.group)
    if row is None:
        raise RequestError(requested.source, requested.group, f"the image has no such group in {_GROUP}")
    return _id(row, 2, _GROUP, requested)


def _rows(text: str) -> Iterable[list[str]]:
    """The rows of passwd or group that have a name and an id column."""
    return (row for line in text.split("\n") if len(row := line.split(":")) >= 3 and row[0])


def _row(rows: Iterable[list[str]], key: int | str) -> list[str] | None:
    """The first row with an id, or with a name; digits never match a name."""
    if isinstance(key, int):
        return next((row for row in rows if parse_id(row[2]) == key), None)
    return next((row for row in rows if row[0] == key), None)


def _id(row: list[str], place: int, file: str, requested: RequestedUser) -> int:
    """The id in a column of a row. RequestError if it is invalid."""
    text = row[place] if place < len(row) else ""
    number = parse_id(text)
    if number is None:
        reason = f"the image's {file} has {text[:32]!r} for {row[0][:32]!r}, which is not an id between 0 and {_MAX_ID}"
        raise RequestError(requested.source, str(requested.user), reason)
    return number


def user(config: pb.ContainerConfig, image: ImageConfig, account: Account) -> dict[str, Any]:
    """The ``process.user``. The primary group is among the additional ones, so that dropping it has no advantage.

    With the policy Strict only the request's groups count, otherwise also the user's groups in /etc/group. The primary
    group of a Strict container is left out if neither request nor image name a user, as in containerd.
    """
    security = config.linux.security_context
    strict = security.supplemental_groups_policy == pb.Strict
    has_user = security.HasField("run_as_user") or bool(security.run_as_username or image.user)
    primary = [account.gid] if has_user or not strict else []
    groups = [*primary, *supplemental_groups(security), *(() if strict else account.groups)]
    additional = _check_count(dict.fromkeys(groups), f"{_FIELD}.supplemental_groups")
    return {"uid": account.uid, "gid": account.gid, "additionalGids": list(additional)}


def supplemental_groups(security: pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext) -> list[int]:
    """The supplemental groups of a container's or pod's request. RequestError for too many, and for invalid ones."""
    groups = _check_count(dict.fromkeys(security.supplemental_groups), f"{_FIELD}.supplemental_groups")
    return [checked_id(gid, "supplemental_groups") for gid in groups]


def _check_count(groups: Collection[int], source: str) -> Collection[int]:
    if len(groups) > _MAX_GROUPS:
        raise RequestError(source, len(groups), f"a process can have at most {_MAX_GROUPS} groups")
    return groups


def checked_id(value: int, field: str) -> int:
    """Check the id of a user or group in a field. RequestError if the kernel does not allow it."""
    if not 0 <= value <= _MAX_ID:
        raise RequestError(f"{_FIELD}.{field}", value, f"must be between 0 and {_MAX_ID}")
    return value
