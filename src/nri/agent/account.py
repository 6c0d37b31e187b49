"""An agent's account of a pod, with the rules and annotations that each hook reads.

Pure. The agent names the hook of each value; which rules and annotations a hook reads is in its row of the
profile. Next: `nri.agent.offline`, which explains without an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nri.agent.profile import Profile

__all__ = ["enriched"]


def enriched(found: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """An explanation in which each value and each error names the rules and the labels and annotations of its hook.

    Of these it names the ones that the pod has, where the agent tells which.
    """
    hooks = {row.name: row for row in profile.hooks}
    reads = {
        name: (tuple(kind for kind in row.sources if kind in profile.kinds), row.keys) for name, row in hooks.items()
    }
    both = {
        part: [_with_reads(row, reads, found.get("keys")) for row in found.get(part, ())]
        for part in ("values", "errors")
    }
    return {**found, **both}


def _with_reads(
    row: Mapping[str, Any], reads: Mapping[str, tuple[Collection[str], Collection[str]]], has: Collection[str] | None
) -> dict[str, Any]:
    rules, keys = reads.get(row.get("hook", ""), ((), ()))
    return {"reads": [key for key in keys if has is None or key in has], **row, "rules": list(rules)}
