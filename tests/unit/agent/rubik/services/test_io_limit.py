"""ioLimit: limits by disk on containers, taken away when they are no longer asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.needs import need_root
from tests.support.rubik_world import RubikWorld, pod

READ = "blkio.throttle.read_bps_device"


def asking(name: str, *rows: tuple[str, str], key: str = "device_read_bps") -> dict[str, Any]:
    limits = {key: [{"device": device, "value": value} for device, value in rows]}
    return pod(name, blkio_limit=json.dumps(limits))


def made(folder: Path, *pods: dict[str, Any]) -> RubikWorld:
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
def test_a_container_has_the_limits_that_its_pod_asks_for(tmp_path: Path, key: str, file: str) -> None:
    world = made(tmp_path, a := asking("a", ("8:0", "1048576"), key=key), b := pod("b"))
    name = f"blkio.throttle.{file}_device"
    assert (world.text(world.app(a), name), world.text(world.app(b), name)) == ("8:0 1048576", "")
    assert world.text(world.folder_of(a), name) == "", "containers have limits, and pods have none"


@pytest.mark.parametrize("how", ["annotation", "configuration", "nought"])
def test_a_limit_that_is_no_longer_asked_for_goes(tmp_path: Path, how: str) -> None:
    world = made(tmp_path, a := asking("a", ("8:0", "1048576")))
    if how == "configuration":
        world.configure()
    else:
        world.run(pod("a") if how == "annotation" else asking("a", ("8:0", "0")))
    world.loop()
    assert world.text(world.app(a), READ) == "8:0 0"


def test_a_container_that_was_being_made_when_the_service_was_switched_off_loses_what_its_hook_gave_it(
    tmp_path: Path,
) -> None:
    world = made(tmp_path)
    world.configure()
    world.loop()
    world.run(a := asking("a", ("8:0", "1048576")))
    world.overwrite(world.app(a), READ, "8:0 1048576\n8:16 7")
    world.loop()
    assert world.text(world.app(a), READ) == "8:0 0", "and nothing is written for the other disk"


def test_limits_of_an_agent_that_was_killed_go_if_the_service_is_off_and_those_of_others_stay(tmp_path: Path) -> None:
    world = made(tmp_path, a := asking("a", ("8:0", "1048576")), b := asking("b", ("8:0", "many")), c := pod("c"))
    world.overwrite(world.app(a), READ, "8:0 1048576\n8:16 7")
    world.kill()
    d, e = asking("d", ("8:0", "5")), asking("e", ("8:0", "6"))
    world.run(a, b, c, d, e)
    world.overwrite(world.app(d), READ, "8:0 7")
    world.overwrite(world.app(c), READ, "8:0 8")
    world.configure()
    world.loop(2)
    assert world.text(world.app(a), READ) == "8:0 0", "and nothing is written for the other disk"
    assert [world.text(world.app(each), READ) for each in (b, c, d, e)] == ["", "8:0 8", "8:0 7", ""]
    assert world.loops.errors == [], "nobody has asked for the service"


def test_a_disk_is_found_by_its_path_and_what_is_none_is_told(tmp_path: Path) -> None:
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
def test_a_bad_row_costs_no_other_row_and_its_disk_keeps_its_last_good_limit(tmp_path: Path, value: str) -> None:
    world = made(tmp_path, a := asking("a", ("8:0", "5")), b := asking("b", ("8:0", "6")))
    world.run(asking("a", ("8:0", value), ("8:16", "7")), b)
    for _ in range(2):
        world.loop()
        assert (world.text(world.app(a), READ), world.text(world.app(b), READ)) == ("8:16 7", "8:0 6")
    assert "is not a number of 64 bits" in world.loops.health()[1]
    world.configure()
    world.loop()
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]
