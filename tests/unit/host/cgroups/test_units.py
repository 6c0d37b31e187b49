"""Units of cgroup files. tests/property has the round trips."""

from __future__ import annotations

import pytest

from nri.host.cgroups import units


@pytest.mark.parametrize(
    ("shares", "weight"),
    [(0, 1), (2, 1), (512, 20), (1000, 39), (1024, 39), (2000, 77), (2048, 79), (262144, 10000), (1 << 30, 10000)],
)
def test_shares_become_weights_like_in_kubernetes(shares: int, weight: int) -> None:
    assert units.shares_to_weight(shares) == weight


def test_weights_become_shares() -> None:
    assert [units.weight_to_shares(weight) for weight in (1, 100, 10000)] == [2, 2598, 262144]
    assert [units.blkio_to_io_weight(weight) for weight in (10, 100, 1000)] == [1, 910, 10000]
    assert [units.io_to_blkio_weight(weight) for weight in (1, 910, 10000)] == [10, 100, 1000]


@pytest.mark.parametrize(
    ("convert", "number"),
    [(units.weight_to_shares, 0), (units.weight_to_shares, 10001), (units.blkio_to_io_weight, 9),
     (units.blkio_to_io_weight, 1001), (units.io_to_blkio_weight, 0)],
)  # fmt: skip
def test_a_weight_out_of_range_is_refused(convert: object, number: int) -> None:
    assert callable(convert)
    with pytest.raises(ValueError, match=r"must be between"):
        convert(number)


def test_no_limit_is_minus_one_on_both_versions() -> None:
    assert units.LIMIT_V1.decode("9223372036854771712\n") == units.LIMIT_V2.decode("max\n") == -1
    assert units.LIMIT_V1.encode(-5, "") == ("-1",)
    assert units.LIMIT_V2.encode(-1, "") == ("max",)
    assert units.LIMIT_V1.decode("4096") == units.LIMIT_V2.decode("4096") == 4096


@pytest.mark.parametrize(
    ("text", "quota", "period"),
    [
        ("max 100000\n", -1, 100000),
        ("100000 100000", 100000, 100000),
        ("5000 20000", 5000, 20000),
        ("7000", 7000, 100000),
    ],
)
def test_on_cgroup_v2_one_file_has_quota_and_period(text: str, quota: int, period: int) -> None:
    assert (units.QUOTA_V2.decode(text), units.PERIOD_V2.decode(text)) == (quota, period)
    assert units.PERIOD_V2.encode(50000, text)[0] == f"{text.partition(' ')[0].strip()} 50000"


@pytest.mark.parametrize("text", ["", "not_a_number 100000", "x"])
def test_an_invalid_quota_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a number|no quota"):
        units.QUOTA_V2.decode(text)
    assert not units.QUOTA_V2.holds(text, 5)


def test_a_period_can_be_written_without_an_old_value() -> None:
    assert units.PERIOD_V2.encode(50000, "") == ("max 50000",)


def test_an_empty_set_is_written_as_a_newline() -> None:
    assert units.CPUS.encode(frozenset(), "0-3") == ("\n",)
    assert units.CPUS.holds("\n", frozenset())
    assert units.CPUS.holds("0,1,2\n", frozenset({0, 1, 2}))


def test_a_limit_of_a_device_does_not_affect_other_devices() -> None:
    text = "8:0 rbps=1048576 wbps=max riops=max wiops=5\n252:0 rbps=7 wbps=max riops=max wiops=max\n"
    codec = units.io_max("rbps")
    assert codec.decode(text) == {"8:0": 1048576, "252:0": 7}
    assert codec.holds(text, {"8:0": 1048576})
    assert codec.holds(text, {"9:0": -1}), "what is not there has no limit"
    assert not codec.holds(text, {"8:0": -1})
    assert units.io_max("wbps").decode(text) == {"8:0": -1, "252:0": -1}
    assert codec.encode({"8:0": 5, "9:0": -1, "10:0": 0}, text) == ("8:0 rbps=5", "9:0 rbps=max", "10:0 rbps=max")


def test_on_cgroup_v1_zero_removes_a_throttle() -> None:
    assert units.throttle().encode({"8:0": -1, "8:16": 9}, "") == ("8:0 0", "8:16 9")
    assert units.throttle().decode("8:16 9\nnonsense\n") == {"8:16": 9}
    assert units.throttle().holds("8:16 9\n", {"8:0": -1, "8:16": 9})


def test_the_block_io_weight_is_the_default_of_the_file() -> None:
    assert units.BFQ_WEIGHT.decode("default 100\n8:0 200\n") == units.BFQ_WEIGHT.decode("100\n") == 100
    assert units.IO_WEIGHT.encode(100, "") == ("default 910",)
    assert units.IO_WEIGHT.decode("default 910\n") == 100
    with pytest.raises(ValueError, match="not a number"):
        units.BFQ_WEIGHT.decode("")


def test_settings_by_device_are_compared() -> None:
    text = "8:0 enable=1 ctrl=user\n"
    assert units.WORDS_BY_DEVICE.holds(text, {"8:0": "enable=1 ctrl=user"})
    assert not units.WORDS_BY_DEVICE.holds(text, {"8:16": "enable=1"})
    assert units.WORDS_BY_DEVICE.encode({"8:0": "enable=0"}, text) == ("8:0 enable=0",)
