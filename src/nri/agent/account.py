"""Add to the explanation of a pod the rules, labels and annotations that each hook reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nri.agent.profile import Profile


def enriched(account: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Add to each value and error of an explanation the rules, labels and annotations that its hook reads.

    If the agent reported the labels and annotations of the pod, only these are added.
    """
    hooks = {row.name: row for row in profile.hooks}
    reads = {
        name: (tuple(kind for kind in row.sources if kind in profile.kinds), row.keys) for name, row in hooks.items()
    }
    both = {
        part: [_with_reads(row, reads, account.get("keys")) for row in account.get(part, ())]
        for part in ("values", "errors")
    }
    return {**account, **both}


def _with_reads(
    row: Mapping[str, Any], reads: Mapping[str, tuple[Collection[str], Collection[str]]], has: Collection[str] | None
) -> dict[str, Any]:
    rules, keys = reads.get(row.get("hook", ""), ((), ()))
    return {"reads": [key for key in keys if has is None or key in has], **row, "rules": list(rules)}
