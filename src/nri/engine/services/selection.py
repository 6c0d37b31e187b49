"""Filters of lists: by id or its beginning, by state, by pod, by labels.

Rules: pure; all conditions of a filter have to hold; an empty one holds always.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["begins", "labelled"]


def begins(identity: str, wanted: str) -> bool:
    """Whether an id is, or begins with, the one that a filter has."""
    return identity.startswith(wanted)


def labelled(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether all labels of a selector are there with their values."""
    return all(labels.get(key) == value for key, value in selector.items())
