"""Limits of block I/O: good rows count, and a bad row is named and costs the others nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.rubik.decisions import io_limit
from nri.agent.rubik.decisions.io_limit import ANNOTATION

DISKS = {"/dev/sda": "8:0", "/dev/nvme0n1": "259:300"}


def limits_of(*rows: tuple[str, str], key: str = "device_read_bps") -> io_limit.DiskLimits:
    text = json.dumps({key: [{"device": device, "value": value} for device, value in rows]})
    return io_limit.disk_limits(io_limit.parse({ANNOTATION: text}), lambda path: DISKS.get(path, ""))


@pytest.mark.parametrize("device", ["-8:0", f"{10**20}:0", "8:-1", " 8:0", "8", "sda", "/dev/null", ""])
def test_a_row_without_a_block_device_is_named(device: str) -> None:
    found = limits_of((device, "5"), ("8:16", "6"))
    assert (found.limits, found.unclear) == ({"io.read_bps": {"8:16": 6}}, {})
    assert found.problems == [f"device_read_bps: {device!r} is not a block device; write /dev/NAME or MAJOR:MINOR"]


@pytest.mark.parametrize("value", ["", "x", "-1", "+1", "1.5", "0x10", "1_000", "18446744073709551616", "9" * 30])
def test_a_row_without_a_number_is_named_and_what_its_disk_has_stays(value: str) -> None:
    found = limits_of(("8:0", value), ("/dev/nvme0n1", "6"), key="device_write_iops")
    assert (found.limits, found.unclear) == ({"io.write_iops": {"259:300": 6}}, {"io.write_iops": {"8:0"}})
    assert found.problems == [f"device_write_iops: {value!r} of '8:0' is not a number of 64 bits"]
    with pytest.raises(ValueError, match=r"blkio-limit: device_write_iops: .* is not a number"):
        io_limit.check({ANNOTATION: json.dumps({"device_write_iops": [{"device": "8:0", "value": value}]})})


def test_a_device_is_named_by_its_path_or_its_numbers_and_nought_is_no_limit() -> None:
    found = limits_of(("/dev/sda", "18446744073709551615"), ("259:300", "0"), ("/dev/sda", "7"))
    assert found == ({"io.read_bps": {"8:0": 7, "259:300": -1}}, {}, [])


@pytest.mark.parametrize(
    "text", ["{bad", "{} more", "[]", '{"device_read_bps": {}}', '{"device_read_bps": [{"value": 5}]}']
)
def test_what_is_not_json_of_that_shape_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|expected|must be|is not|a list|a text"):
        io_limit.parse({ANNOTATION: text})


def test_without_the_annotation_there_are_no_limits() -> None:
    assert io_limit.disk_limits(io_limit.parse({}), DISKS.__getitem__) == ({}, {}, [])


@given(st.lists(st.tuples(st.sampled_from(["8:0", "8:16", "sda", ""]), st.sampled_from(["", "0", "10", "x"]))))
def test_each_row_has_an_effect_or_a_line(rows: list[tuple[str, str]]) -> None:
    found = limits_of(*rows)
    good = {device: int(value) or -1 for device, value in rows if ":" in device and value.isdecimal()}
    assert found.limits.get("io.read_bps", {}) == good
    assert len(found.problems) == sum(":" not in device or not value.isdecimal() for device, value in rows)
