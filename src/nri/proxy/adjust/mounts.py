"""Mounts of an adjustment in the CRI's words: bind mounts, with the few options that these have.

Rules: as `request`: what cannot be said comes back. A plain ``bind`` is a recursive one, as runtimes make them all.
Next: `nri.proxy.adjust.devices`.
"""

from __future__ import annotations

from nri.adaptation.merge.entries import Entry
from nri.api import messages as m
from nri.api.removal import split
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust.paths import ByPath

__all__ = ["say"]

_PROPAGATION = {
    "private": pb.PROPAGATION_PRIVATE,
    "rprivate": pb.PROPAGATION_PRIVATE,
    "slave": pb.PROPAGATION_HOST_TO_CONTAINER,
    "rslave": pb.PROPAGATION_HOST_TO_CONTAINER,
    "shared": pb.PROPAGATION_BIDIRECTIONAL,
    "rshared": pb.PROPAGATION_BIDIRECTIONAL,
}
_SAID = {"bind", "rbind", "rw", "ro", "rro", *_PROPAGATION}
_NO_OPTIONS = "the CRI's mounts have no such options"
_NO_TYPE = "the CRI has bind mounts only"
_NOT_THERE = "it is not in the request: runtimes add it, and the CRI cannot remove that"


def say(config: pb.ContainerConfig, entry: Entry) -> list[tuple[str, object, str]]:
    """Put mounts into a container's configuration, in the order in which plugins gave them."""
    rest: list[tuple[str, object, str]] = []
    set_again, there = set(entry.sets), ByPath(config.mounts)
    for mount in entry.value:
        destination, removed = split(mount.destination)
        if removed and destination not in there and destination not in set_again:
            rest.append((destination, "removed", _NOT_THERE))
        if not removed and not _is_bind(mount):
            rest.append((destination, f"type {mount.type or 'none'}", _NO_TYPE))
            continue
        there.drop(destination)
        if removed:
            continue
        there.add(_bind(mount))
        if lost := [option for option in mount.options if option not in _SAID]:
            rest.append((destination, ",".join(lost), _NO_OPTIONS))
    there.done()
    return rest


def _is_bind(mount: m.Mount) -> bool:
    return mount.type in ("bind", "rbind") or bool({"bind", "rbind"} & set(mount.options))


def _bind(mount: m.Mount) -> pb.Mount:
    made = pb.Mount(container_path=mount.destination, host_path=mount.source)
    for option in mount.options:  # the last one of a kind counts
        if option in _PROPAGATION:
            made.propagation = _PROPAGATION[option]
        elif option in ("ro", "rro", "rw"):
            made.readonly, made.recursive_read_only = option != "rw", option == "rro"
    return made
