"""Block-I/O classes: weights and throttles by the name of a class, for the devices that match. goresctrl's format.

    Classes:
      throttled:
        - Weight: 80                      # devices that no further item names
        - Devices: ["/dev/sd[a-z]", "/dev/disk/by-id/*SSD*"]
          ThrottleReadBps: 50M
          Weight: 50

Devices are looked for whenever a class is resolved, so that one that was plugged in counts. Next: `nri.oci.generator`.
"""

from __future__ import annotations

import glob
import math
import os
import stat

from nri.config import Source, read, read_file
from nri.config.complaint import together
from nri.config.place import at, show
from nri.config.quantity import parse
from nri.config.root import inside
from nri.config.syntax import line_of
from nri.errors import ConfigError, SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from nri.config.place import Path

__all__ = ["BlockIoClasses"]

_Quantity = int | float | str


class _Item:
    """Settings for the devices that match some patterns, or for all others."""

    Devices: list[str] | None = None
    Weight: _Quantity | None = None
    ThrottleReadBps: _Quantity | None = None
    ThrottleWriteBps: _Quantity | None = None
    ThrottleReadIOPS: _Quantity | None = None
    ThrottleWriteIOPS: _Quantity | None = None


class _File:
    Classes: dict[str, list[_Item]]


#: Of the format: the spec's key, and what values are in order.
_THROTTLES = {
    "ThrottleReadBps": "throttleReadBpsDevice",
    "ThrottleWriteBps": "throttleWriteBpsDevice",
    "ThrottleReadIOPS": "throttleReadIOPSDevice",
    "ThrottleWriteIOPS": "throttleWriteIOPSDevice",
}
_WEIGHTS = range(10, 1001)


class BlockIoClasses:
    """The block-I/O classes of a configuration.

    Args:
        config: the configuration; `BlockIoClasses.read(path)` takes it from a file.
        find: the paths that a pattern matches; default: the machine's.
        root: where the host's / is.

    Raises:
        ConfigError: something in it cannot be used, with source, line, key and value.
    """

    def __init__(self, config: Source, *, find: Callable[[str], Sequence[str]] | None = None, root: str = "/") -> None:
        self._root = root
        self.find = find or self._glob
        classes = read(_File, [config]).Classes if config.text.strip() else {}
        problems: list[ConfigError] = []
        self._classes = {name: _settings(config, name, items, problems) for name, items in classes.items()}
        if problems:
            raise together(problems)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, root: str = "/") -> BlockIoClasses:
        """Read the classes of a file. ConfigError if it cannot be used."""
        return cls(read_file(path), root=root)

    @property
    def names(self) -> list[str]:
        """Names of all classes."""
        return sorted(self._classes)

    def resolve(self, name: str) -> dict[str, Any]:
        """The spec's ``linux.resources.blockIO`` of a class. SpecError if there is no such class."""
        if name not in self._classes:
            raise SpecError("", f'no block-I/O class "{name}"; known: {", ".join(self.names) or "none"}')
        made: dict[str, Any] = {}
        devices: dict[str, dict[tuple[int, int], int]] = {}
        for patterns, values in self._classes[name]:
            if patterns is None:
                made.update(values)
                continue
            for number in self._numbers(patterns):
                for key, value in values.items():
                    devices.setdefault(key, {})[number] = value
        for key, values_by_number in devices.items():
            list_key, value_key = ("weightDevice", "weight") if key == "weight" else (key, "rate")
            made[list_key] = [
                {"major": major, "minor": minor, value_key: value} for (major, minor), value in values_by_number.items()
            ]
        return made

    def _numbers(self, patterns: list[str]) -> Iterator[tuple[int, int]]:
        """The numbers of the block devices that some patterns match, each once; other files are passed over."""
        seen = set()
        for path in (path for pattern in patterns for path in self.find(pattern)):
            try:
                found = os.stat(path)
            except OSError:
                continue  # unplugged in between, or a link to nothing
            number = os.major(found.st_rdev), os.minor(found.st_rdev)
            if stat.S_ISBLK(found.st_mode) and number not in seen:
                seen.add(number)
                yield number

    def _glob(self, pattern: str) -> list[str]:
        if self._root == "/":
            return sorted(glob.glob(pattern))
        inner = sorted(glob.glob(pattern.lstrip("/"), root_dir=self._root))
        return [inside(self._root, f"/{path}") for path in inner]


def _settings(
    source: Source, name: str, items: list[_Item], problems: list[ConfigError]
) -> list[tuple[list[str] | None, dict[str, int]]]:
    """Patterns and values of a class's items. Problems are appended."""
    made = []
    for place, item in enumerate(items):
        here: Path = ("Classes", name, place)
        values: dict[str, int] = {}
        for key in ("Weight", *_THROTTLES):
            given = getattr(item, key)
            if given is None or given == "":
                continue
            try:
                values[_THROTTLES.get(key, "weight")] = _number(key, given)
                if key != "Weight" and item.Devices is None:
                    raise ValueError("limits nothing: give the Devices that it is for")
            except ValueError as error:
                where = at(source, line_of(source, (*here, key)))
                problems.append(ConfigError(where, show((*here, key)), str(error)))
        made.append((item.Devices, values))
    return made


def _number(key: str, given: _Quantity) -> int:
    """The whole number of a quantity, rounded up. ValueError if it is none, or out of bounds."""
    number = math.ceil(parse(given))
    if key == "Weight" and number not in _WEIGHTS:
        raise ValueError(f"{given} is not between {_WEIGHTS[0]} and {_WEIGHTS[-1]}")
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{given} is out of bounds")
    return number
