"""The rule from the node's annotations: how many times as fast its CPUs are as the ones that limits are meant for.

Next: `nri.agent.koordinator.cpu_normalization`.
"""

from __future__ import annotations

import math
from typing import Any, Final

from nri.agent.koordinator.names import ANNOTATION_RATIO
from nri.agent.koordinator.quirks import Quirks
from nri.policies.formulas import MIN_QUOTA_US

__all__ = ["NO_RATIO", "ratio", "same_ratio", "scaled"]

#: Normalization is off.
NO_RATIO: Final = -1.0
#: A smaller change is none.
_EPSILON: Final = 0.01


def ratio(node: Any) -> float:
    """Read the ratio of a node; -1 if it has none. Raises ValueError for one that is no positive number."""
    if not isinstance(node, dict) or not node:
        raise ValueError("there is no node")
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION_RATIO)
    if text is None:
        return NO_RATIO
    try:
        found = float(text) if text.isascii() and text == text.strip() and "_" not in text else math.nan
    except ValueError:
        found = math.nan
    if not found > 0 or math.isinf(found):
        raise ValueError(f"annotation {ANNOTATION_RATIO}: {text!r} is not a number above 0")
    return found


def same_ratio(old: float | None, new: float | None) -> bool:
    """Whether a new ratio is so near to the old one that nothing needs to be written again."""
    if old is None or new is None:
        return old is new
    return (old == NO_RATIO) == (new == NO_RATIO) and abs(old - new) < _EPSILON


def scaled(quota: int, ratio: float, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return a quota for a CPU that is so many times as fast as the one it was made for; slower ones change nothing."""
    if quota <= 0 or ratio <= 1:
        return quota
    least = MIN_QUOTA_US if quirks.scaled_quota_is_possible else 1
    return max(math.ceil(quota / ratio), min(quota, least))
