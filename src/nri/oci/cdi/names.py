"""Names of CDI devices, ``vendor.com/class=name``: taken apart, and checked. Pure.

Next: `nri.oci.cdi.file`, which checks names by it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["QualifiedName", "check_kind", "check_name", "parse"]

_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class QualifiedName(NamedTuple):
    """A name in its parts; `str` puts it together again."""

    vendor: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.kind}={self.name}"


def parse(text: str) -> QualifiedName:
    """Take a qualified name apart. ValueError says what is wrong with it."""
    kind, sign, name = text.partition("=")
    if not sign or text.startswith("/"):
        raise ValueError(f'"{text}" is no qualified name; write vendor.com/class=name')
    vendor, kind = check_kind(kind)
    return QualifiedName(vendor, kind, check_name(name))


def check_kind(text: str) -> tuple[str, str]:
    """Return vendor and class of ``vendor.com/class``. ValueError says what is wrong with them."""
    vendor, sign, kind = text.partition("/")
    if not sign:
        raise ValueError(f'"{text}" has no "/"; write vendor.com/class')
    for what, part in (("vendor", vendor), ("class", kind)):
        if not _KIND_PART.fullmatch(part):
            raise ValueError(
                f'the {what} "{part}" must begin with a letter, end with a letter or digit, and have letters, digits, '
                f"_, - and . only"
            )
    return vendor, kind


def check_name(name: str) -> str:
    """Return a device's own name. ValueError says what is wrong with it."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f'the name "{name}" must begin and end with a letter or digit, and have letters, digits, _, -, . and : only'
        )
    return name
