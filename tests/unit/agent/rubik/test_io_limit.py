"""ioLimit: rows of the annotation, and limits of containers, at a creation and later."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.rubik import io_limit
from nri.agent.rubik.io_limit import ANNOTATION
from tests.support.needs import need_root
from tests.support.rubik_world import RubikWorld, create_container, pod

READ = "blkio.throttle.read_bps_device"


def asking(name: str, *rows: tuple[str, str], key: str = "device_read_bps") -> dict[str, Any]:
    limits = {key: [{"device": device, "value": value} for device, value in rows]}
    return pod(name, blkio_limit=json.dumps(limits))


def make_world(folder: Path, *pods: dict[str, Any]) -> RubikWorld:
    world = RubikWorld(folder, *pods, ioLimit=None)
    world.loop()
    return world


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("device_read_bps", "read_bps"), ("device_write_bps", "write_bps"),
        ("device_read_iops", "read_iops"), ("device_write_iops", "write_iops"),
    ],
)  # fmt: skip
def test_a_container_has_the_limits_of_its_pods_annotation(tmp_path: Path, key: str, file: str) -> None:
    world = make_world(tmp_path, a := asking("a", ("8:0", "1048576"), key=key), b := pod("b"))
    name = f"blkio.throttle.{file}_device"
    assert (world.text(world.app(a), name), world.text(world.app(b), name)) == ("8:0 1048576", "")
    assert world.text(world.folder_of(a), name) == "", "containers have limits, and pods have none"


@pytest.mark.parametrize("how", ["annotation", "configuration", "nought"])
def test_a_limit_without_a_request_is_removed(tmp_path: Path, how: str) -> None:
    world = make_world(tmp_path, a := asking("a", ("8:0", "1048576")))
    if how == "configuration":
        world.configure()
    else:
        world.run(pod("a") if how == "annotation" else asking("a", ("8:0", "0")))
    world.loop()
    assert world.text(world.app(a), READ) == "8:0 0"


def test_a_disabled_service_removes_the_limits_of_a_container_created_meanwhile(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path)
    world.configure()
    world.loop()
    world.run(a := asking("a", ("8:0", "1048576")))
    world.overwrite(world.app(a), READ, "8:0 1048576\n8:16 7")
    world.loop()
    assert world.text(world.app(a), READ) == "8:0 0", "and nothing is written for the other disk"


def test_a_disabled_service_removes_limits_of_a_killed_agent_and_keeps_foreign_ones(tmp_path: Path) -> None:
    world = make_world(tmp_path, a := asking("a", ("8:0", "1048576")), b := asking("b", ("8:0", "many")), c := pod("c"))
    world.overwrite(world.app(a), READ, "8:0 1048576\n8:16 7")
    world.kill()
    d, e = asking("d", ("8:0", "5")), asking("e", ("8:0", "6"))
    world.run(a, b, c, d, e)
    world.overwrite(world.app(d), READ, "8:0 7")
    world.overwrite(world.app(c), READ, "8:0 8")
    world.configure()
    world.loop(2)
    assert world.text(world.app(a), READ) == "8:0 0", "and nothing is written for the other disk"
    assert [world.text(world.app(entry), READ) for entry in (b, c, d, e)] == ["", "8:0 8", "8:0 7", ""]
    assert world.loops.errors == [], "nobody has asked for the service"


def test_a_disk_is_found_by_its_path_and_an_invalid_one_is_reported(tmp_path: Path) -> None:
    need_root()
    world = RubikWorld(tmp_path, ioLimit=None)
    (tmp_path / "dev").mkdir()
    os.mknod(tmp_path / "dev/sda", 0o060600, os.makedev(8, 300))
    (tmp_path / "dev/null").write_text("")
    world.run(a := asking("a", ("/dev/sda", "1"), ("/dev/null", "2"), ("/dev/gone", "3"), ("sda", "4")))
    world.loop()
    assert world.text(world.app(a), READ) == "8:300 1"
    assert (
        "ioLimit: shop/a: volcano.sh/blkio-limit: device_read_bps: '/dev/null' is not a block device"
        in world.loops.health()[1]
    )
    assert len(world.loops.errors) == 3


@pytest.mark.parametrize("value", ["-1", "many", "", "9" * 30])
def test_an_invalid_row_affects_no_other_row_and_keeps_the_disks_last_valid_limit(tmp_path: Path, value: str) -> None:
    world = make_world(tmp_path, a := asking("a", ("8:0", "5")), b := asking("b", ("8:0", "6")))
    world.run(asking("a", ("8:0", value), ("8:16", "7")), b)
    for _ in range(2):
        world.loop()
        assert (world.text(world.app(a), READ), world.text(world.app(b), READ)) == ("8:16 7", "8:0 6")
    assert "is not a 64-bit number" in world.loops.health()[1]
    world.configure()
    world.loop()
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


DISKS = {"/dev/sda": "8:0", "/dev/nvme0n1": "259:300"}


def limits_of(*rows: tuple[str, str], key: str = "device_read_bps") -> io_limit.DiskLimits:
    text = json.dumps({key: [{"device": device, "value": value} for device, value in rows]})
    return io_limit.disk_limits(io_limit.parse({ANNOTATION: text}), lambda path: DISKS.get(path, ""))


@pytest.mark.parametrize("device", ["-8:0", f"{10**20}:0", "8:-1", " 8:0", "8", "sda", "/dev/null", ""])
def test_a_row_without_a_block_device_is_an_error_with_the_device(device: str) -> None:
    actual = limits_of((device, "5"), ("8:16", "6"))
    assert (actual.limits, actual.unclear) == ({"io.read_bps": {"8:16": 6}}, {})
    assert actual.problems == [f"device_read_bps: {device!r} is not a block device; write /dev/NAME or MAJOR:MINOR"]


@pytest.mark.parametrize("value", ["", "x", "-1", "+1", "1.5", "0x10", "1_000", "18446744073709551616", "9" * 30])
def test_a_row_without_a_number_is_reported_and_the_disk_keeps_its_limit(value: str) -> None:
    actual = limits_of(("8:0", value), ("/dev/nvme0n1", "6"), key="device_write_iops")
    assert (actual.limits, actual.unclear) == ({"io.write_iops": {"259:300": 6}}, {"io.write_iops": {"8:0"}})
    assert actual.problems == [f"device_write_iops: {value!r} of '8:0' is not a 64-bit number"]
    with pytest.raises(ValueError, match=r"blkio-limit: device_write_iops: .* is not a 64-bit number"):
        io_limit.check({ANNOTATION: json.dumps({"device_write_iops": [{"device": "8:0", "value": value}]})})


def test_a_device_is_given_by_path_or_numbers_and_zero_means_no_limit() -> None:
    actual = limits_of(("/dev/sda", "18446744073709551615"), ("259:300", "0"), ("/dev/sda", "7"))
    assert actual == ({"io.read_bps": {"8:0": 7, "259:300": -1}}, {}, [])


@pytest.mark.parametrize(
    "text", ["{bad", "{} more", "[]", '{"device_read_bps": {}}', '{"device_read_bps": [{"value": 5}]}']
)
def test_invalid_json_in_the_annotation_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|expected|must be|is not|a list|a text"):
        io_limit.parse({ANNOTATION: text})


def test_without_the_annotation_there_are_no_limits() -> None:
    assert io_limit.disk_limits(io_limit.parse({}), DISKS.__getitem__) == ({}, {}, [])


@given(st.lists(st.tuples(st.sampled_from(["8:0", "8:16", "sda", ""]), st.sampled_from(["", "0", "10", "x"]))))
def test_every_row_has_an_effect_or_an_error(rows: list[tuple[str, str]]) -> None:
    actual = limits_of(*rows)
    good = {device: int(value) or -1 for device, value in rows if ":" in device and value.isdecimal()}
    assert actual.limits.get("io.read_bps", {}) == good
    assert len(actual.problems) == sum(":" not in device or not value.isdecimal() for device, value in rows)


LIMIT = '{"device_read_bps": [{"device": "8:0", "value": "7"}], "device_write_iops": [{"device": "8:0", "value": "0"}]}'


@pytest.mark.parametrize(("text", "expected"), [(LIMIT, {"8:0": 7}), ("{", {})], ids=["as asked", "unreadable"])
def test_a_container_has_its_block_io_limits_before_it_starts(
    tmp_path: Path, text: str, expected: dict[str, int]
) -> None:
    world = RubikWorld(tmp_path, ioLimit=None)
    create_container(world, 50_000, blkio_limit=text)
    assert [world.value("kubepods/burstable/podu/c", knob) for knob in ("io.read_bps", "io.write_iops")] == [
        expected,
        {},
    ]
