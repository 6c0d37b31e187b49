"""Defaults of containers, each written as one text as in CRI-O; and their form in an OCI spec."""

from __future__ import annotations

from typing import Any, NamedTuple

from nri.api.builders.checks import RLIMITS
from nri.engine.support.capabilities import KNOWN, full_name

_UNLIMITED = (1 << 64) - 1


class DefaultMount(NamedTuple):
    """A folder or file of the node in every container."""

    host_path: str
    container_path: str
    readonly: bool


class DefaultDevice(NamedTuple):
    """A device of the node in every container; `permissions` of r, w and m."""

    host_path: str
    container_path: str
    permissions: str


def parse_ulimit(text: str) -> dict[str, Any]:
    """The ``process.rlimits`` entry of ``nofile=1024:2048``, or of ``core=-1`` for no limit. Raises ValueError."""
    name, equals, limits = text.partition("=")
    soft_text, colon, hard_text = limits.partition(":")
    soft, hard = _limit(soft_text), _limit(hard_text if colon else soft_text)
    kind = name.strip().upper().removeprefix("RLIMIT_")
    if not equals or soft is None or hard is None or kind not in RLIMITS:
        names = ", ".join(RLIMITS).lower()
        raise ValueError(f'"{text}" must be NAME=SOFT:HARD, for example nofile=1024:2048; names: {names}')
    if soft > hard:
        raise ValueError(f'"{text}": the soft limit {soft} exceeds the hard limit {hard}')
    return {"type": f"RLIMIT_{kind}", "soft": soft, "hard": hard}


def _limit(text: str) -> int | None:
    text = text.strip()
    if text == "-1":
        return _UNLIMITED
    return int(text) if text.isascii() and text.isdecimal() and int(text[:21]) <= _UNLIMITED else None


def parse_variable(text: str) -> tuple[str, str]:
    """The name and value of ``NAME=VALUE``. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not name or not equals or "\0" in text:
        raise ValueError(f'"{text}" must be NAME=VALUE')
    return name, value


def parse_capability(text: str) -> str:
    """The full name of a capability. Raises ValueError."""
    if full_name(text) not in KNOWN:
        raise ValueError(f'"{text}" is not a capability')
    return full_name(text)


def parse_mount(text: str) -> DefaultMount:
    """A mount from ``/HOST:/CONTAINER`` or ``/HOST:/CONTAINER:ro``. Raises ValueError."""
    host_path, _, remainder = text.partition(":")
    container_path, colon, option = remainder.partition(":")
    if not (host_path.startswith("/") and container_path.startswith("/")) or option != ("ro" if colon else ""):
        raise ValueError(f'"{text}" must be /HOST:/CONTAINER or /HOST:/CONTAINER:ro')
    return DefaultMount(host_path, container_path, bool(colon))


def parse_device(text: str) -> DefaultDevice:
    """A device from ``/dev/HOST:/dev/CONTAINER:rwm``; the last two parts may be missing. Raises ValueError."""
    host_path, *others = text.split(":")
    container_path = others.pop(0) if others and others[0].startswith("/") else host_path
    permissions = others.pop(0) if others else "rwm"
    is_absolute = host_path.startswith("/") and container_path.startswith("/")
    if others or not is_absolute or not permissions or set(permissions) - set("rwm"):
        raise ValueError(f'"{text}" must be /dev/HOST:/dev/CONTAINER:rwm; the last two parts may be missing')
    return DefaultDevice(host_path, container_path, permissions)
