"""The mounts of a spec: removed, added with a check of their propagation, and sorted so that none hides another.

`adjust` is a step of `nri.oci.generator`. Next: `nri.oci.propagation`, which knows the host's mounts.
"""

from __future__ import annotations

from nri.api.removal import split
from nri.errors import SpecError
from nri.oci.propagation import clean_path
from nri.text import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from nri.oci.draft import Draft
    from nri.oci.propagation import MountTable
    from nri.rules import Rules

__all__ = ["adjust", "put", "remove", "sort"]

PROPAGATION = ("rprivate", "rshared", "rslave")


def adjust(draft: Draft, adjusted: Iterable[Any], table: Callable[[], MountTable], rules: Rules) -> None:
    """Remove and add mounts; one takes the place of another with its destination. Then all are sorted.

    In the reference a mount without a propagation option has that of the one before it in the adjustment, and the
    source of any mount is asked, also of one that is no path.
    """
    propagation, any_at_all = "", False
    for mount in adjusted:
        any_at_all = True
        destination, marked = split(mount.destination)
        remove(draft, destination, rules)
        if marked:
            continue
        options = list(mount.options)
        if rules.propagation_per_mount:
            propagation = ""
        propagation = next((option for option in reversed(options) if option in PROPAGATION), propagation)
        if not rules.propagation_per_mount or _is_bind(mount.type, options):
            _check(draft, mount.source, propagation, table, rules)
        put(draft, _mount(mount, options))
    if any_at_all:
        sort(draft)


def _mount(mount: Any, options: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"destination": mount.destination}
    if mount.type:
        made["type"] = mount.type
    if mount.source:
        made["source"] = mount.source
    if options:
        made["options"] = options
    return made


def _is_bind(kind: str, options: list[str]) -> bool:
    return kind in ("bind", "rbind") or "bind" in options or "rbind" in options


def _check(draft: Draft, source: str, wanted: str, table: Callable[[], MountTable], rules: Rules) -> None:
    """Refuse a propagation that the source's mount does not have, and give the root file system what it needs."""
    if wanted not in ("rshared", "rslave"):
        return
    accepted = ("rshared",) if wanted == "rshared" else ("rshared", "rslave")
    found = table().propagation(source, by_prefix=not rules.propagation_per_mount)
    if found is None:
        raise SpecError("", f"failed to adjust mounts in OCI Spec: failed to get mount info for {quote(source)}")
    if found not in accepted:
        reason = f"path {quote(source)} mount propagation is {quote(found)}, not {quote(' or '.join(accepted))}"
        raise SpecError("", f"failed to adjust mounts in OCI Spec: {reason}")
    linux = draft.table("linux")
    if wanted == "rshared" or linux.get("rootfsPropagation") not in accepted:
        linux["rootfsPropagation"] = wanted


def remove(draft: Draft, destination: str, rules: Rules) -> None:
    """Take out what is mounted at a destination. The reference takes the first of several."""
    places = [
        place for place, row in enumerate(draft.objects("mounts")) if (row.get("destination") or "") == destination
    ]
    for place in reversed(places if rules.removal_takes_all else places[:1]):
        del draft.rows("mounts")[place]


def put(draft: Draft, mount: dict[str, Any]) -> None:
    """Append a mount."""
    draft.rows("mounts").append(mount)


def sort(draft: Draft) -> None:
    """Sort all mounts, those with fewer parts in their destination first, so that none is mounted over."""
    if draft.objects("mounts"):
        draft.rows("mounts").sort(key=_depth)


def _depth(mount: dict[str, Any]) -> tuple[int, str]:
    destination = str(mount.get("destination") or "")
    return clean_path(destination).count("/"), destination
