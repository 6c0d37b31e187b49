"""Convert values of knobs to the text of cgroup files, and back.

-1 means "no limit" on both cgroup versions. As in the CRI and the OCI spec, processor weights are in shares, and block
I/O weights are 10 to 1000. Values for devices are mappings whose keys are device numbers, for example `8:0`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nri.api import cpuset

#: A number, a set of CPUs or memory nodes, or a number or a text for each device.
Value = int | frozenset[int] | Mapping[str, int] | Mapping[str, str]

UNLIMITED = -1
#: A value of this size means "no limit": cgroup v1 writes the largest page-aligned number.
_NO_LIMIT_V1 = 1 << 62
_DEFAULT_PERIOD = "100000"
_SHARES, _WEIGHTS = (2, 262144), (1, 10000)
_BLKIO = (10, 1000)


@dataclass(frozen=True, slots=True)
class Codec:
    """The conversion of a unit in both directions.

    Attributes:
        encode: convert a value, given the file's current text, to texts; each text is written with a separate call.
        decode: parse a file's text; raises ValueError if it is invalid.
        by_device: whether a value is a mapping from devices.
    """

    encode: Callable[[Any, str], tuple[str, ...]]
    decode: Callable[[str], Value]
    by_device: bool = False

    def holds(self, text: str, value: Value) -> bool:
        """Whether a file with this text has this value, as far as the unit can tell values apart.

        For devices, only the devices in the value are compared. A device that is missing in the text has no limit.
        """
        try:
            present = self.decode(text)
        except ValueError:
            return False
        if isinstance(value, Mapping):
            assert isinstance(present, Mapping)
            return all(present.get(device, UNLIMITED) == expected for device, expected in value.items())
        return present == self.decode(self.encode(value, text)[-1])


def shares_to_weight(shares: int) -> int:
    """CPU shares of cgroup v1 (2 to 262144) as a weight of v2 (1 to 10000), as Kubernetes and the OCI spec convert.

    Shares outside of the range count as the nearest bound, as in the kernel.
    """
    low, high = _SHARES
    return _WEIGHTS[0] + (min(max(shares, low), high) - low) * (_WEIGHTS[1] - _WEIGHTS[0]) // (high - low)


def weight_to_shares(weight: int) -> int:
    """The least CPU shares that convert to this weight. Raises ValueError if it is not between 1 and 10000."""
    _check_bounds(weight, _WEIGHTS, "weight")
    low, high = _SHARES
    return low - (-(weight - 1) * (high - low) // (_WEIGHTS[1] - 1))


def blkio_to_io_weight(weight: int) -> int:
    """Convert a block I/O weight of v1 (10 to 1000) to v2 (1 to 10000). Raises ValueError if it is out of range."""
    _check_bounds(weight, _BLKIO, "block I/O weight")
    return 1 + (weight - _BLKIO[0]) * 9999 // (_BLKIO[1] - _BLKIO[0])


def io_to_blkio_weight(weight: int) -> int:
    """The least block I/O weight of v1 that converts to this weight of v2, or else to a larger weight."""
    _check_bounds(weight, _WEIGHTS, "weight")
    return _BLKIO[0] + -(-(weight - 1) * (_BLKIO[1] - _BLKIO[0]) // 9999)


def _check_bounds(number: int, bounds: tuple[int, int], what: str) -> None:
    if not bounds[0] <= number <= bounds[1]:
        raise ValueError(f"{number} is not a {what}: it must be between {bounds[0]} and {bounds[1]}")


def _number(text: str) -> int:
    word = text.strip()
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"{word[:40]!r} is not a number") from None


def _limit_v1(text: str) -> int:
    number = _number(text)
    return UNLIMITED if number < 0 or number >= _NO_LIMIT_V1 else number


def _limit_v2(text: str) -> int:
    return UNLIMITED if text.strip() == "max" else _number(text)


def _to_limit_v2(value: int) -> str:
    return "max" if value < 0 else str(value)


def _word(text: str, index: int) -> str:
    words = text.split()
    if len(words) <= index:
        raise ValueError(f"{text.strip()[:40]!r} has no quota and period")
    return words[index]


def _encode_period(value: int, text: str) -> tuple[str, ...]:
    words = text.split()
    return (f"{words[0] if words else 'max'} {value}",)


def _encode_cpus(value: frozenset[int], _text: str) -> tuple[str, ...]:
    """Encode a set. The kernel ignores an empty write, so an empty set is an empty line."""
    return (cpuset.to_text(value) or "\n",)


NUMBER = Codec(lambda value, _: (str(value),), _number)
LIMIT_V1 = Codec(lambda value, _: (str(max(value, UNLIMITED)),), _limit_v1)
LIMIT_V2 = Codec(lambda value, _: (_to_limit_v2(value),), _limit_v2)
#: Shares in the unit of `cpu.weight`.
WEIGHT = Codec(lambda value, _: (str(shares_to_weight(value)),), lambda text: weight_to_shares(_number(text)))
#: The first word of `cpu.max`; the kernel keeps the second if only one is written.
QUOTA_V2 = Codec(lambda value, _: (_to_limit_v2(value),), lambda text: _limit_v2(_word(text, 0)))
#: The second word of `cpu.max`, written with the unchanged first word.
PERIOD_V2 = Codec(_encode_period, lambda text: _number(_word(f"{text} {_DEFAULT_PERIOD}", 1)))
CPUS = Codec(_encode_cpus, cpuset.parse)


def _by_device(text: str) -> dict[str, str]:
    """Parse lines of `8:0 words`."""
    rows = (line.strip().partition(" ") for line in text.splitlines())
    return {device: words.strip() for device, _, words in rows if ":" in device}


#: A text for each device, as in `io.cost.model`.
WORDS_BY_DEVICE = Codec(
    lambda value, _: tuple(f"{device} {words}" for device, words in value.items()), _by_device, by_device=True
)


#: A weight for each device. The value -1 gives the device the weight of the whole cgroup, which is in the file's first
#: line, without a device.
DEVICE_WEIGHT = Codec(
    lambda value, _: tuple(
        f"{device} {'default' if weight == UNLIMITED else weight}" for device, weight in value.items()
    ),
    lambda text: {device: _number(words) for device, words in _by_device(text).items()},
    by_device=True,
)


def throttle() -> Codec:
    """Limits by device in files of `blkio.throttle`: lines of `8:0 1048576`. Writing 0 removes a limit."""
    return Codec(
        lambda value, _: tuple(f"{device} {max(limit, 0)}" for device, limit in value.items()),
        lambda text: {device: _number(words) or UNLIMITED for device, words in _by_device(text).items()},
        by_device=True,
    )


def io_max(key: str) -> Codec:
    """A limit by device in `io.max`, with the key `rbps`, `wbps`, `riops` or `wiops`."""

    def decode(text: str) -> dict[str, int]:
        rows = {device: dict(_pairs(words)) for device, words in _by_device(text).items()}
        return {device: _limit_v2(pairs[key]) for device, pairs in rows.items() if key in pairs}

    return Codec(
        lambda value, _: tuple(
            f"{device} {key}={_to_limit_v2(limit if limit > 0 else -1)}" for device, limit in value.items()
        ),
        decode,
        by_device=True,
    )


def _pairs(words: str) -> list[tuple[str, str]]:
    return [(name, value) for name, mark, value in (word.partition("=") for word in words.split()) if mark]


def _default_weight(text: str) -> int:
    """Parse the cgroup's weight, the first line of `io.weight`: `default 100` or `100`. Devices' lines may follow."""
    first = next(iter(text.split("\n")), "")
    return _number(first.removeprefix("default "))


#: A block I/O weight of 10 to 1000, converted to the unit of `io.weight`.
IO_WEIGHT = Codec(
    lambda value, _: (f"default {blkio_to_io_weight(value)}",), lambda text: io_to_blkio_weight(_default_weight(text))
)
#: A block I/O weight of 10 to 1000 without conversion, for BFQ.
BFQ_WEIGHT = Codec(lambda value, _: (str(value),), _default_weight)
