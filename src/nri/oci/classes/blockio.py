"""Block-I/O classes: weights and throttles for matching devices, by class name, in goresctrl's format.

    Classes:
      throttled:
        - Weight: 80                      # for all other devices
        - Devices: ["/dev/sd[a-z]", "/dev/disk/by-id/*SSD*"]
          ThrottleReadBps: 50M
          Weight: 50

Keys may be in any letter case, and a class may be empty, as in goresctrl's sample.
Devices are looked up whenever a class is resolved, so that hot-plugged devices are found.
"""

from __future__ import annotations

import glob
import math
import os
import stat

from nri.config import Source, read, read_file
from nri.config.complaint import combined_error
from nri.config.key_path import location, path_text
from nri.config.quantity import parse
from nri.config.root import resolve_below
from nri.config.syntax import line_of
from nri.errors import ConfigError, SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from nri.config.key_path import Path

_Quantity = int | float | str


class _Item:
    """Settings for the devices that match some patterns, or for all other devices."""

    _any_case = True
    Devices: list[str] | None = None
    Weight: _Quantity | None = None
    ThrottleReadBps: _Quantity | None = None
    ThrottleWriteBps: _Quantity | None = None
    ThrottleReadIOPS: _Quantity | None = None
    ThrottleWriteIOPS: _Quantity | None = None


class _File:
    _any_case = True
    Classes: dict[str, list[_Item | None] | None] | None = None


#: The keys of the spec, by key of the format.
_THROTTLES = {
    "ThrottleReadBps": "throttleReadBpsDevice",
    "ThrottleWriteBps": "throttleWriteBpsDevice",
    "ThrottleReadIOPS": "throttleReadIOPSDevice",
    "ThrottleWriteIOPS": "throttleWriteIOPSDevice",
}
_WEIGHTS = range(10, 1001)  # as the kernel accepts


class BlockIoClasses:
    """The block-I/O classes of a configuration.

    Args:
        config: the configuration; `BlockIoClasses.read(path)` reads it from a file.
        find: returns the paths that match a pattern. The default is a glob on this machine.
        root: the path of the host's root directory.

    Raises:
        ConfigError: the configuration is invalid; the error names source, line, key and value.
    """

    def __init__(self, config: Source, *, find: Callable[[str], Sequence[str]] | None = None, root: str = "/") -> None:
        self._root = root
        self.find = find or self._glob
        classes = (read(_File, [config]).Classes if config.text.strip() else None) or {}
        problems: list[ConfigError] = []
        self._classes = {name: _settings(config, name, items, problems) for name, items in classes.items()}
        if problems:
            raise combined_error(problems)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, root: str = "/") -> BlockIoClasses:
        """Read the classes of a file. Raises ConfigError if it is invalid."""
        return cls(read_file(path), root=root)

    @property
    def names(self) -> list[str]:
        """The sorted names of all classes."""
        return sorted(self._classes)

    def resolve(self, name: str) -> dict[str, Any]:
        """The spec's ``linux.resources.blockIO`` of a class. Raises SpecError if the class does not exist."""
        if name not in self._classes:
            raise SpecError("", f'no block-I/O class "{name}"; known: {", ".join(self.names) or "none"}')
        settings: dict[str, Any] = {}
        devices: dict[str, dict[tuple[int, int], int]] = {}
        for patterns, values in self._classes[name]:
            if patterns is None:
                settings.update(values)
                continue
            for number in self._numbers(patterns):
                for key, value in values.items():
                    devices.setdefault(key, {})[number] = value
        for key, values_by_number in devices.items():
            list_key, value_key = ("weightDevice", "weight") if key == "weight" else (key, "rate")
            settings[list_key] = [
                {"major": major, "minor": minor, value_key: value} for (major, minor), value in values_by_number.items()
            ]
        return settings

    def _numbers(self, patterns: list[str]) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the block devices that match some patterns, without duplicates; skip other files."""
        numbers = set()
        for path in (path for pattern in patterns for path in self.find(pattern)):
            try:
                status = os.stat(path)
            except OSError:
                continue  # unplugged meanwhile, or a dangling link
            number = os.major(status.st_rdev), os.minor(status.st_rdev)
            if stat.S_ISBLK(status.st_mode) and number not in numbers:
                numbers.add(number)
                yield number

    def _glob(self, pattern: str) -> list[str]:
        if self._root == "/":
            return sorted(glob.glob(pattern))
        inner = sorted(glob.glob(pattern.lstrip("/"), root_dir=self._root))
        return [resolve_below(self._root, f"/{path}") for path in inner]


def _settings(
    source: Source, name: str, items: list[_Item | None] | None, problems: list[ConfigError]
) -> list[tuple[list[str] | None, dict[str, int]]]:
    """Patterns and values of a class's items. Problems are appended to `problems`."""
    settings = []
    for place, item in enumerate(items or ()):
        if item is None:
            continue
        item_path: Path = ("Classes", name, place)
        values: dict[str, int] = {}
        for key in ("Weight", *_THROTTLES):
            quantity = getattr(item, key)
            if quantity is None or quantity == "":
                continue
            try:
                values[_THROTTLES.get(key, "weight")] = _number(key, quantity)
                if key != "Weight" and item.Devices is None:
                    raise ValueError("a throttle requires Devices: list the devices that it applies to")
            except ValueError as error:
                where = location(source, line_of(source, (*item_path, key)))
                problems.append(ConfigError(where, path_text((*item_path, key)), str(error)))
        settings.append((item.Devices, values))
    return settings


def _number(key: str, quantity: _Quantity) -> int:
    """The value of a quantity, rounded up to an integer. Raises ValueError if it is malformed or out of bounds."""
    number = math.ceil(parse(quantity))
    if key == "Weight" and number not in _WEIGHTS:
        raise ValueError(f"{quantity} must be between {_WEIGHTS[0]} and {_WEIGHTS[-1]}")
    if number < 0:
        raise ValueError(f"{quantity} must not be negative")
    return min(number, (1 << 63) - 1)  # as Kubernetes' quantities
