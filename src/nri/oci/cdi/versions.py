"""Versions of the CDI format, and the oldest one that has all that a file uses. Pure.

Next: `nri.oci.cdi.file`, which asks for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.oci.cdi.format import Document, Edits

__all__ = ["VERSIONS", "check_version"]


def _edits(document: Document) -> Iterator[Edits]:
    """All edits of a file."""
    for edits in (document.containerEdits, *(device.containerEdits for device in document.devices or ())):
        if edits is not None:
            yield edits


def _newer_rdt(document: Document) -> bool:
    rdts = (edits.intelRdt for edits in _edits(document))
    return any(rdt and (rdt.schemata is not None or rdt.enableMonitoring) for rdt in rdts)


def _dotted_class(document: Document) -> bool:
    return "." in document.kind.partition("/")[2]


def _digit_first(document: Document) -> bool:
    return any(device.name[:1].isdigit() for device in document.devices or ())


#: What came with a version, newest first: (version, what, whether a file uses it).
_FEATURES: tuple[tuple[str, str, Callable[[Document], bool]], ...] = (
    ("1.1.0", "netDevices", lambda one: any(edits.netDevices for edits in _edits(one))),
    ("1.1.0", "intelRdt.schemata and intelRdt.enableMonitoring", _newer_rdt),
    ("0.7.0", "intelRdt", lambda one: any(edits.intelRdt for edits in _edits(one))),
    ("0.7.0", "additionalGids", lambda one: any(edits.additionalGids for edits in _edits(one))),
    ("0.6.0", "annotations", lambda one: bool(one.annotations or any(each.annotations for each in one.devices or ()))),
    ("0.6.0", "a class with a dot", _dotted_class),
    ("0.5.0", "a device name that begins with a digit", _digit_first),
    (
        "0.5.0",
        "hostPath of a device node",
        lambda one: any(node.hostPath for edits in _edits(one) for node in edits.deviceNodes or ()),
    ),
    ("0.4.0", "type of a mount", lambda one: any(mount.type for edits in _edits(one) for mount in edits.mounts or ())),
)
#: Every released version, oldest first. Those before 0.3.0 are known, and no file may be of them.
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_OLDEST = "0.3.0"


def check_version(document: Document) -> None:
    """Check that a file's version exists and has what the file uses. ValueError says what is wrong."""
    version = document.cdiVersion.removeprefix("v")
    if version not in VERSIONS:
        raise ValueError(f'"{document.cdiVersion}" is no version; known are {", ".join(VERSIONS[2:])}')
    needed, what = next(((since, name) for since, name, used in _FEATURES if used(document)), (_OLDEST, "the format"))
    if VERSIONS.index(version) < VERSIONS.index(needed):
        raise ValueError(f'"{document.cdiVersion}" is too old: {what} came with {needed}')
