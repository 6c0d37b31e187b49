"""Quantities as Kubernetes writes them: `500m`, `1.5Gi`, `10k`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from nri.text import cut

__all__ = ["parse"]

#: Characters of a wrong one that its error shows.
_MAX_SHOWN_CHARACTERS = 128
#: Characters of one that is remembered.
_MAX_CACHED_CHARACTERS = 32

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"  # one way to read digits: two would be tried in each split
    r"(?P<suffix>[eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?"
)
_POWERS = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def parse(value: object) -> Fraction:
    """Return the exact value of a quantity. Raises ValueError with the reason and a fix."""
    text = str(value).strip()
    quantity = (
        None if isinstance(value, bool) else _cached(text) if len(text) <= _MAX_CACHED_CHARACTERS else _read(text)
    )
    if quantity is None:
        raise ValueError(f'"{cut(text, _MAX_SHOWN_CHARACTERS)}" is not a quantity; write such as 500m, 2, 1.5Gi')
    return quantity


def _read(text: str) -> Fraction | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = Fraction(match["number"]), match["suffix"] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        scale = Fraction(10) ** int(suffix[1:])
    elif suffix.endswith("i"):
        scale = Fraction(1024) ** _POWERS[{"K": "k"}.get(suffix[0], suffix[0])]
    else:
        scale = Fraction(1000) ** _POWERS[suffix]
    return number * Fraction(scale)


#: A node's pods ask for the same few quantities, and a reconciler reads all of them again and again.
_cached = lru_cache(maxsize=1024)(_read)
