"""The pictures of the documentation, each a function that draws it.

`svg` has boxes, words and arrows; each other module is one picture, and `PICTURES` names them all. They are drawn by a
program so that words, colours and distances are the same in all, and that none goes stale unseen:
`tools/generate_pictures.py` writes them, and compares.
"""

from __future__ import annotations

from collections.abc import Callable

from tools.pictures import (
    conflict,
    engine_parts,
    events,
    handshake,
    late,
    layers,
    life,
    modes,
    order,
    overview,
    provenance,
    proxy_place,
    two_ways,
)
from tools.pictures.svg import Picture

__all__ = ["PICTURES"]

#: File name without ending -> what draws it.
PICTURES: dict[str, Callable[[], Picture]] = {
    "overview": overview.draw,
    "events": events.draw,
    "life": life.draw,
    "modes": modes.draw,
    "engine": engine_parts.draw,
    "proxy": proxy_place.draw,
    "two-ways": two_ways.draw,
    "layers": layers.draw,
    "handshake": handshake.draw,
    "order": order.draw,
    "conflict": conflict.draw,
    "late": late.draw,
    "provenance": provenance.draw,
}
