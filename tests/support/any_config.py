"""A configuration with a field of every kind, for tests that read whatever a file may hold."""

from __future__ import annotations

import enum
from typing import Any, Literal

from nri.config import Duration


class Color(enum.Enum):
    """Values of two types."""

    RED = "red"
    ONE = 1


class Inner:
    """A part."""

    x: int = 1
    names: list[str] = []  # noqa: RUF012 - defaults are copied
    any: Any = None


class Config:
    """The whole."""

    a: str = ""
    b: float | list[int] | None = None
    c: Inner
    d: dict[str, Inner] = {}  # noqa: RUF012
    e: Literal["x", 1, True] = "x"
    f: Color = Color.RED
    g: Duration = 1.0
    h: Any = None
    i: tuple[int, ...] = ()
    j: set[str] = set()  # noqa: RUF012
    k: dict[str, float] = {}  # noqa: RUF012
