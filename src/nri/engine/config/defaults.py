"""Parse the containers' defaults in engine.toml. Each default is one string with CRI-O's syntax."""

from __future__ import annotations

from typing import Any, NamedTuple

from nri.api.builders.checks import RLIMITS
from nri.engine.support.capabilities import KNOWN, full_name

_UNLIMITED = (1 << 64) - 1


class DefaultMount(NamedTuple):
    """A folder or file of the node that is mounted in every container."""

    host_path: str
    container_path: str
    readonly: bool


class DefaultDevice(NamedTuple):
    """A device of the node that every container gets. `permissions` has the letters r, w and m, or some of them."""

    host_path: str
    container_path: str
    permissions: str


def parse_ulimit(text: str) -> dict[str, Any]:
    """Return the ``process.rlimits`` entry for a string like ``nofile=1024:2048``. -1 means no limit.

    Raises ValueError if the string is invalid.
    """
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
    """Return the name and value of ``NAME=VALUE``. Raises ValueError if `text` has another form."""
    name, equals, value = text.partition("=")
    if not name or not equals or "\0" in text:
        raise ValueError(f'"{text}" must be NAME=VALUE')
    return name, value


def parse_capability(text: str) -> str:
    """Return the full name of a capability. Raises ValueError if the capability is unknown."""
    if full_name(text) not in KNOWN:
        raise ValueError(f'"{text}" is not a capability')
    return full_name(text)


def parse_mount(text: str) -> DefaultMount:
    """Return the mount of ``/HOST:/CONTAINER`` or ``/HOST:/CONTAINER:ro``. Raises ValueError for another form."""
    host_path, _, remainder = text.partition(":")
    container_path, colon, option = remainder.partition(":")
    if not (host_path.startswith("/") and container_path.startswith("/")) or option != ("ro" if colon else ""):
        raise ValueError(f'"{text}" must be /HOST:/CONTAINER or /HOST:/CONTAINER:ro')
    return DefaultMount(host_path, container_path, bool(colon))


def parse_device(text: str) -> DefaultDevice:
    """Return the device of ``/dev/HOST:/dev/CONTAINER:rwm``. Raises ValueError for another form.

    The path in the container defaults to the path on the host, and the permissions to ``rwm``.
    """
    host_path, *parts = text.split(":")
    container_path = parts.pop(0) if parts and parts[0].startswith("/") else host_path
    permissions = parts.pop(0) if parts else "rwm"
    is_absolute = host_path.startswith("/") and container_path.startswith("/")
    if parts or not is_absolute or not permissions or set(permissions) - set("rwm"):
        raise ValueError(f'"{text}" must be /dev/HOST[:/dev/CONTAINER][:rwm]')
    return DefaultDevice(host_path, container_path, permissions)
