"""Memory sysctls of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator.system_config import System, parse, switch_values
from tests.support.host_trees import write_files
from tests.support.loop_world import LoopWorld

FREE, SCALE = "proc/sys/vm/min_free_kbytes", "proc/sys/vm/watermark_scale_factor"


def world_of(folder: Path, **settings: int) -> LoopWorld:
    world = LoopWorld(folder, {"systemStrategy": settings}, gates={"SystemConfig": True})
    write_files(folder, {FREE: "67584\n", SCALE: "10\n"})
    world.memory(16 << 30, 8 << 30)
    return world


def number(world: LoopWorld, file: str) -> int:
    return int((world.folder / file).read_text())


def test_sysctls_are_set_and_restored(tmp_path: Path) -> None:
    world = world_of(tmp_path, minFreeKbytesFactor=100, watermarkScaleFactor=150)
    world.loop(2)
    assert (number(world, FREE), number(world, SCALE)) == ((16 << 20) // 100, 150)
    world.slo({"systemStrategy": {"watermarkScaleFactor": 150}})
    world.loop()
    assert (number(world, FREE), number(world, SCALE)) == (67584, 150)
    world.slo({})
    world.loop()
    assert (number(world, FREE), number(world, SCALE)) == (67584, 10)


def test_the_memory_size_is_read_from_the_node_object(tmp_path: Path) -> None:
    world = world_of(tmp_path, minFreeKbytesFactor=100)
    world.store.put("Node", {"status": {"capacity": {"memory": "8Gi"}}}, "test")
    world.loop()
    assert number(world, FREE) == (8 << 20) // 100


def test_a_factor_that_reserves_too_much_is_reported_and_not_applied(tmp_path: Path) -> None:
    world = world_of(tmp_path, minFreeKbytesFactor=1000)
    world.loop()
    assert number(world, FREE) == 67584
    assert "minFreeKbytesFactor 1000 means 1677721 kB" in world.loops.health()[1]


def test_a_sysctl_of_other_kernels_is_unsupported(tmp_path: Path) -> None:
    world = world_of(tmp_path, memcgReapBackGround=1)
    world.loop()
    assert "mm.memcg_reaper stays unchanged: unsupported here" in world.loops.health()[1]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ({"watermarkScaleFactor": 500}, "systemStrategy.watermarkScaleFactor: 500 is not between 10 and 400"),
        ({"minFreeKbytesFactor": 0}, "systemStrategy.minFreeKbytesFactor: 0 is not above 0"),
    ],
)
def test_out_of_range_numbers_are_errors_with_their_name(source: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}$"):
        parse(source)


def test_an_empty_document_requests_nothing() -> None:
    assert parse(None) == System()


def test_a_share_of_the_memory_stays_free_within_limits() -> None:
    assert switch_values(parse({"minFreeKbytesFactor": 100}), 8 << 30) == ({"vm.min_free_kbytes": (8 << 20) // 100}, "")
    assert switch_values(parse({"minFreeKbytesFactor": 1, "memcgReapBackGround": 0}), 8 << 30)[0] == {
        "mm.memcg_reaper": 0
    }
