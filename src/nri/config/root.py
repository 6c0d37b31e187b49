"""Paths below a root folder, for example a copy of /etc or a host's root mounted in a container."""

from __future__ import annotations

import os

#: The kernel's limit for a chain of symbolic links.
MAX_LINKS = 40


def resolve_below(root: str, path: str) -> str:
    """Return the path below `root`, with symbolic links resolved as if `root` were /: a link to /run stays below."""
    if root == "/":
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")][::-1]
    resolved, hops = "", 0
    while parts:
        part = parts.pop()
        if part == "..":
            resolved = os.path.dirname(resolved)
            continue
        candidate = f"{resolved}/{part}"
        try:
            target = os.readlink(root + candidate)
        except OSError:
            resolved = candidate
            continue
        hops += 1
        if hops > MAX_LINKS:
            return root + candidate
        if target.startswith("/"):
            resolved = ""
        parts.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return root.rstrip("/") + (resolved or "/")
