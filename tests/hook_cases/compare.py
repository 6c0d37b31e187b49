"""Compare what a stage gave with what was recorded, and show the difference.

Only values that were recorded are compared. Resources of a hook that were not recorded must not be set, unless nothing
but the error was recorded. "Not there", null and empty lists and objects are one and the same; quantities are compared
as numbers. Next:
`tests.hook_cases.inputs`.
"""

from __future__ import annotations

import difflib
import json
from typing import Any

from nri.kube import quantity

__all__ = ["difference"]

#: What a hook can set; at a hook's stage these are compared even if they were not recorded.
_RESOURCES = (
    *("bvt", "cpuset", "cpu_shares", "cfs_quota", "memory_limit", "cpu_idle"),
    *("env", "mounts", "devices", "resctrl", "oom_score_adj"),
)
#: Texts and states inside the original.
_INTERNAL = frozenset({"message", "initialized", "system_supported"})
#: Messages, in which 0 and "" are not set.
_MESSAGES = ("config", "container_resources", "resources")


def difference(stage: str, expected: dict[str, Any], got: dict[str, Any]) -> str:
    """Return a unified diff of what was recorded and what came out; "" if they are the same."""
    keys = set(expected) - _INTERNAL
    if stage.startswith("Pre") and keys != {"error"}:
        keys |= {key for key in _RESOURCES if key in got}
    expected_value = {key: _plain(expected.get(key), key) for key in keys}
    own_rows = {key: _plain(got.get(key), key) for key in keys}
    if "files" in expected:
        names = expected["files"] or {}
        own_rows["files"] = _plain({name: (got.get("files") or {}).get(name) for name in names}, "files")
    if expected.get("error", ...) is None:
        expected_value.pop("error")
        own_rows.pop("error")
    expected_value, own_rows = (
        {key: value for key, value in side.items() if value is not None} for side in (expected_value, own_rows)
    )
    if expected_value == own_rows:
        return ""
    recorded, own_file = (json.dumps(side, indent=1, sort_keys=True).split("\n") for side in (expected_value, own_rows))
    return "\n".join(difflib.unified_diff(recorded, own_file, "recorded", "ours", lineterm="", n=1))


def _plain(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        if key in ("requests", "limits"):
            return {name: str(quantity.parse(entry)) for name, entry in value.items()} or None
        nothing = (None, 0, "") if key in _MESSAGES else (None,)
        pairs = ((name, _plain(entry, name)) for name, entry in value.items())
        return {
            name: entry
            for name, entry in pairs
            if all(entry is not nothing_set and entry != nothing_set for nothing_set in nothing)
        } or None
    if isinstance(value, (list, tuple)):
        return [_plain(entry, key) for entry in value] or None
    return value
