"""Quantities of Kubernetes: `500m`, `1.5Gi`, `10k`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from nri.text import cut

#: Maximum number of characters of an invalid quantity that the error shows.
_MAX_SHOWN_CHARACTERS = 128
#: Maximum length of a quantity in the cache.
_MAX_CACHED_CHARACTERS = 32

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"  # unambiguous, so that splits are not tried
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
        raise ValueError(
            f'"{cut(text, _MAX_SHOWN_CHARACTERS)}" is not a quantity; write, for example, 500m, 2 or 1.5Gi'
        )
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


#: Cached because a node's pods request the same few quantities, and reconcilers read them repeatedly.
_cached = lru_cache(maxsize=1024)(_read)
