"""A row of the examination: what was looked at, how it is, and the next step.

Next: :mod:`nri.engine.check.programs`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Check", "State"]

#: ``missing``: the engine cannot do its work; ``limited``: it does, with less, or in other places than usual.
State = Literal["ok", "limited", "missing"]


class Check(NamedTuple):
    """One thing that the engine needs or can use.

    Attributes:
        what: the thing, in a word or two.
        state: how it is.
        found: what was found, with version and place.
        next: what to do if it is not ``ok``.
    """

    what: str
    state: State
    found: str
    next: str = ""
