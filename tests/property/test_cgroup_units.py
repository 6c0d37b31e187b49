"""Units of cgroup files: a value survives encoding, and conversions keep the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.host.cgroups import units
from nri.host.cgroups.units import Codec, Value

NUMBERS = st.integers(1, 1 << 50)
LIMITS = st.one_of(st.just(-1), NUMBERS)
DEVICES = st.builds("{}:{}".format, st.integers(1, 400), st.integers(0, 300))
BY_DEVICE = st.dictionaries(DEVICES, LIMITS, min_size=1, max_size=1)
CODECS: dict[str, tuple[Codec, st.SearchStrategy[Value]]] = {
    "number": (units.NUMBER, st.integers()),
    "limit v1": (units.LIMIT_V1, LIMITS),
    "limit v2": (units.LIMIT_V2, LIMITS),
    "quota v2": (units.QUOTA_V2, LIMITS),
    "period v2": (units.PERIOD_V2, NUMBERS),
    "cpus": (units.CPUS, st.frozensets(st.integers(0, 400))),
    "bfq": (units.BFQ_WEIGHT, NUMBERS),
    "throttle": (units.throttle(), BY_DEVICE),
    "io.max": (units.io_max("rbps"), BY_DEVICE),
    "words": (units.WORDS_BY_DEVICE, st.dictionaries(DEVICES, st.just("ctrl=user a=1"), min_size=1, max_size=1)),
}


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_a_value_is_decoded_from_its_encoded_text(name: str, data: st.DataObject) -> None:
    codec, drawn = CODECS[name]
    value = data.draw(drawn)
    (text,) = codec.encode(value, "")
    assert codec.decode(text) == value
    assert codec.holds(f"{text}\n", value)


@pytest.mark.parametrize("name", CODECS)
@given(text=st.text(alphabet="0123456789:-=,. maxdefultrbps\n", max_size=30))
def test_any_text_of_a_file_is_a_value_or_an_error(name: str, text: str) -> None:
    codec = CODECS[name][0]
    try:
        codec.decode(text)
    except ValueError as error:
        assert str(error)
    assert codec.holds(text, _some(name)) in (True, False)


def _some(name: str) -> Value:
    if name == "cpus":
        return frozenset({1})
    return {"8:0": 5} if name in ("throttle", "io.max") else {"8:0": "x"} if name == "words" else 5


@given(st.integers(1, 10000))
def test_a_weight_survives_the_conversion_to_shares(weight: int) -> None:
    assert units.shares_to_weight(units.weight_to_shares(weight)) == weight
    assert 2 <= units.weight_to_shares(weight) <= 262144


@given(st.integers(-5, 300000), st.integers(-5, 300000))
def test_more_shares_never_give_less_weight(one: int, two: int) -> None:
    low, high = sorted((one, two))
    assert 1 <= units.shares_to_weight(low) <= units.shares_to_weight(high) <= 10000


@given(st.integers(10, 1000), st.integers(10, 1000))
def test_block_io_weights_keep_their_order_and_survive_the_conversion(one: int, two: int) -> None:
    low, high = sorted((one, two))
    assert 1 <= units.blkio_to_io_weight(low) <= units.blkio_to_io_weight(high) <= 10000
    assert units.io_to_blkio_weight(units.blkio_to_io_weight(one)) == one
    assert units.IO_WEIGHT.holds(units.IO_WEIGHT.encode(one, "")[0], one)


@given(st.integers(2, 262144))
def test_shares_match_a_file_with_their_weight(shares: int) -> None:
    assert units.WEIGHT.holds(units.WEIGHT.encode(shares, "")[0], shares)
