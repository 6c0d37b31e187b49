"""The user that a container's process runs as: what request and image want, and the groups that come of it.

Two steps, because between them the caller has to look into the root file system's /etc/passwd and /etc/group: first
`wanted_user`, then, with the account that was found, `user`. Next: `nri.engine.spec.mounts`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Account, ImageConfig
from nri.errors import RequestError

__all__ = ["UserWish", "checked_id", "user", "wanted_user"]

_FIELD = "linux.security_context"
_MOST = 2**32 - 2  # an id of all ones means "no id" to the kernel


class UserWish(NamedTuple):
    """A user and a group, each a name, a number or "" for what /etc/passwd says (without a row there: 0)."""

    user: str
    group: str


def wanted_user(config: pb.ContainerConfig, image: ImageConfig) -> UserWish:
    """The user to run as: the request's user (number before name), else the image's; the request's group over both.

    Raises:
        RequestError: a group without a user, which the CRI forbids, or an id out of range.
    """
    security = config.linux.security_context
    group = ""
    if security.HasField("run_as_group"):
        if not security.HasField("run_as_user") and not security.run_as_username:
            raise RequestError(f"{_FIELD}.run_as_group", security.run_as_group.value, "needs run_as_user beside it")
        group = str(checked_id(security.run_as_group.value, "run_as_group"))
    if security.HasField("run_as_user"):
        return UserWish(str(checked_id(security.run_as_user.value, "run_as_user")), group)
    if security.run_as_username:
        return UserWish(security.run_as_username, group)
    name, _, image_group = image.user.partition(":")
    return UserWish(name or "0", image_group)


def user(config: pb.ContainerConfig, account: Account) -> dict[str, Any]:
    """The ``process.user``. The primary group is among the additional ones, so that dropping it gains nothing.

    With the policy Strict only the groups of the request count, else also those that /etc/group has the user in.
    """
    security = config.linux.security_context
    asked = [checked_id(gid, "supplemental_groups") for gid in security.supplemental_groups]
    strict = security.supplemental_groups_policy == pb.Strict
    groups = [account.gid, *asked, *(() if strict else account.groups)]
    return {"uid": account.uid, "gid": account.gid, "additionalGids": list(dict.fromkeys(groups))}


def checked_id(value: int, field: str) -> int:
    """A user's or group's id of a field. RequestError: it is none that the kernel has."""
    if not 0 <= value <= _MOST:
        raise RequestError(f"{_FIELD}.{field}", value, f"is no id between 0 and {_MOST}")
    return value
