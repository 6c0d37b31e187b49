"""The generator's step for mounts: remove mounts, add mounts with a check of propagation, and sort."""

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

PROPAGATION = ("rprivate", "rshared", "rslave")


def adjust(draft: Draft, adjusted: Iterable[Any], table: Callable[[], MountTable], rules: Rules) -> None:
    """Remove and add mounts, and sort all mounts. An added mount replaces the mount with the same destination.

    In the Go library a mount without a propagation option inherits the option of the previous mount in the adjustment,
    and the source of every mount is checked, even if it is not a path.
    """
    propagation, has_changes = "", False
    for mount in adjusted:
        has_changes = True
        destination, is_removal = split(mount.destination)
        remove(draft, destination, rules)
        if is_removal:
            continue
        options = list(mount.options)
        if rules.propagation_per_mount:
            propagation = ""
        propagation = next((option for option in reversed(options) if option in PROPAGATION), propagation)
        if not rules.propagation_per_mount or _is_bind(mount.type, options):
            _check(draft, mount.source, propagation, table, rules)
        put(draft, _mount(mount, options))
    if has_changes:
        sort(draft)


def _mount(mount: Any, options: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"destination": mount.destination}
    if mount.type:
        row["type"] = mount.type
    if mount.source:
        row["source"] = mount.source
    if options:
        row["options"] = options
    return row


def _is_bind(kind: str, options: list[str]) -> bool:
    return kind in ("bind", "rbind") or "bind" in options or "rbind" in options


def _check(draft: Draft, source: str, requested: str, table: Callable[[], MountTable], rules: Rules) -> None:
    """Raise SpecError if the source's mount does not have the propagation, and set the root's propagation."""
    if requested not in ("rshared", "rslave"):
        return
    accepted = ("rshared",) if requested == "rshared" else ("rshared", "rslave")
    propagation = table().propagation(source, by_prefix=not rules.propagation_per_mount)
    if propagation is None:
        raise SpecError("", f"failed to adjust mounts in OCI Spec: failed to get mount info for {quote(source)}")
    if propagation not in accepted:
        reason = f"path {quote(source)} mount propagation is {quote(propagation)}, not {quote(' or '.join(accepted))}"
        raise SpecError("", f"failed to adjust mounts in OCI Spec: {reason}")
    linux = draft.table("linux")
    if requested == "rshared" or linux.get("rootfsPropagation") not in accepted:
        linux["rootfsPropagation"] = requested


def remove(draft: Draft, destination: str, rules: Rules) -> None:
    """Remove the mounts at a destination. The Go library removes only the first."""
    places = [
        place for place, row in enumerate(draft.objects("mounts")) if (row.get("destination") or "") == destination
    ]
    for place in reversed(places if rules.removal_takes_all else places[:1]):
        del draft.rows("mounts")[place]


def put(draft: Draft, mount: dict[str, Any]) -> None:
    """Append a mount to the spec."""
    draft.rows("mounts").append(mount)


def sort(draft: Draft) -> None:
    """Sort mounts by the depth of their destination, so that no mount hides another."""
    if draft.objects("mounts"):
        draft.rows("mounts").sort(key=_depth)


def _depth(mount: dict[str, Any]) -> tuple[int, str]:
    destination = str(mount.get("destination") or "")
    return clean_path(destination).count("/"), destination
