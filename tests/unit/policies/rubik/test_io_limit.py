"""Limits of block I/O: devices, the annotation, what goes and comes, and what is kept when it cannot be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.rubik import io_limit
from nri.policies.rubik.io_limit import ANNOTATION, Change


@pytest.mark.parametrize("device", ["-8:0", f"{10**20}:0", "8:-1", " 8:0", "8", "sda", "/dev/null", ""])
def test_what_is_no_block_device_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match="no block device"):
        io_limit.device_number(device, lambda path: "8:0" if path == "/dev/sda" else "")


def test_a_device_is_named_by_its_path_or_its_numbers() -> None:
    assert io_limit.device_number("/dev/sda", lambda path: "8:0") == "8:0"
    assert io_limit.device_number("259:300", lambda path: "") == "259:300"


def test_a_bad_annotation_changes_nothing_and_a_removed_one_takes_its_limits_back() -> None:
    good = {ANNOTATION: '{"device_read_bps": [{"device": "8:0", "value": "5"}]}'}
    with pytest.raises(ValueError, match="not JSON"):
        io_limit.asked(good, {ANNOTATION: "{bad"})
    with pytest.raises(ValueError, match="not JSON"):
        io_limit.asked({}, {ANNOTATION: "{} more"})
    assert io_limit.asked({}, {}) is None
    removed = io_limit.asked(good, {})
    assert removed is not None
    found = io_limit.change(removed, {"io.read_bps": ["8:0"]}, lambda path: "")
    assert found["io.read_bps"] == Change(["8:0"], [])


@given(st.lists(st.tuples(st.sampled_from(["8:0", "8:16", "sda", ""]), st.sampled_from(["", "0", "10", "x"]))))
def test_limits_come_in_order_but_for_devices_that_are_none_and_values_that_are_empty(
    pairs: list[tuple[str, str]],
) -> None:
    text = json.dumps({"Device_Read_Bps": [{"device": device, "value": value} for device, value in pairs]})
    found = io_limit.change(io_limit.parse(text), {}, lambda path: "")
    assert found["io.read_bps"].set == [(one, other) for one, other in pairs if ":" in one and other]


@given(st.lists(st.lists(st.sampled_from(["8:0", "8:16", "1048576", "total"]), max_size=3)))
def test_a_file_names_the_first_word_of_each_line_of_two_and_more(lines: list[list[str]]) -> None:
    text = "\n".join("  ".join(words) for words in lines)
    assert io_limit.present(text) == [words[0] for words in lines if len(words) >= 2]
