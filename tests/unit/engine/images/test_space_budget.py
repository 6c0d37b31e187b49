"""The disk space of an image, during and after unpacking."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from nri.engine.images import space_budget
from nri.engine.images.pull_timer import PullTimer
from nri.engine.images.space_budget import Limits, SpaceBudget
from nri.engine.images.unpack import unpack
from nri.engine.support.errors import CommandTimeout, EngineError
from nri.files import Usage

HEX = "ab" * 32


class Disk(NamedTuple):
    """As shutil has it."""

    free: int


def new_budget(name: str, folder: Path, limits: Limits, stall_s: float = 60, total_s: float = 60) -> SpaceBudget:
    return SpaceBudget(name, folder, limits, PullTimer(name, stall_s, total_s))


def umoci(folder: Path, text: str) -> str:
    """A program in umoci's place; `$5` is the folder that it makes."""
    path = folder / "umoci"
    path.write_text(f"#!/bin/sh\nmkdir $5\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("does", "limits", "problem"),
    [
        (
            "head -c 9000000 /dev/urandom > $5/a",
            Limits(1 << 20),
            r"needs \d{7} bytes; the limit \(images.size_limit\) is 1048576 bytes",
        ),
        (
            "cd $5; touch a b c d e f",
            Limits(0, 5),
            r"contains more than 5 files; the limit \(images.entries_limit\) is 5",
        ),
    ],
)
@pytest.mark.parametrize("lasts", [False, True])
def test_an_oversized_image_is_an_error_that_names_the_layer(
    tmp_path: Path, does: str, limits: Limits, problem: str, lasts: bool
) -> None:
    blob = tmp_path / "layout/blobs/sha256" / HEX
    blob.parent.mkdir(parents=True)
    blob.touch()
    program = umoci(tmp_path, f"exec 5< {blob}; {does}{'; exec sleep 1000' if lasts else ''}")
    where = f"layer sha256:{HEX}" if lasts else "(it|layer sha256:.*)"
    with pytest.raises(EngineError, match=f"^image evil:1: {where} {problem}"):
        unpack(tmp_path / "layout", tmp_path / "rootfs", new_budget("evil:1", tmp_path, limits), program)


def test_hard_links_are_counted_separately(tmp_path: Path) -> None:
    program = umoci(tmp_path, "cd $5; touch a; for i in b c d e f; do ln a $i; done")
    with pytest.raises(EngineError, match="image a:1: it contains more than 5 files"):
        unpack(tmp_path, tmp_path / "rootfs", new_budget("a:1", tmp_path, Limits(0, 5)), program)


def test_an_image_within_its_limits_or_without_any_is_unpacked_and_counted(tmp_path: Path) -> None:
    program = umoci(tmp_path, "touch $5/a")
    for number, limits in enumerate((Limits(), Limits(1 << 20, 2), Limits(0, 0))):
        assert unpack(tmp_path, tmp_path / str(number), new_budget("a:1", tmp_path, limits), program).inodes == 2


def test_a_failed_program_is_an_error_with_its_message(tmp_path: Path) -> None:
    program = umoci(tmp_path, "rmdir $5; sleep 0.5; echo the layer is broken >&2; exit 1")
    with pytest.raises(EngineError, match="the layer is broken"):
        unpack(tmp_path, tmp_path / "rootfs", new_budget("a:1", tmp_path, Limits()), program)


def test_an_image_must_leave_a_part_of_the_disk_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1000))
    room = new_budget("a:1", tmp_path, Limits())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(100))
    room.check_bytes(900)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(99))
    with pytest.raises(EngineError, match=rf"no space left for image a:1: {tmp_path} has 99 free bytes"):
        room.check_bytes(1)


def test_layers_that_exist_count_as_much_as_new_ones(tmp_path: Path) -> None:
    budget = new_budget("a:1", tmp_path, Limits(100, 5))
    budget.spend(Usage(40, 5))
    with pytest.raises(
        EngineError, match=r"image a:1: it contains more than 5 files; the limit \(images.entries_limit\) is 5"
    ):
        budget.spend(Usage(0, 1))
    with pytest.raises(
        EngineError, match=r"image a:1: it needs 101 bytes; the limit \(images.size_limit\) is 100 bytes"
    ):
        new_budget("a:1", tmp_path, Limits(100)).spend(Usage(101, 1))


def test_unpacking_that_hangs_is_ended(tmp_path: Path) -> None:
    program = umoci(tmp_path, "exec sleep 1000")
    with pytest.raises(CommandTimeout, match=r"^pulling a:1: unpacking without progress: still running after 0\.3 s"):
        unpack(tmp_path, tmp_path / "rootfs", new_budget("a:1", tmp_path, Limits(), stall_s=0.3), program)


def test_unpacking_that_makes_progress_ends_only_at_the_deadline_of_its_pull(tmp_path: Path) -> None:
    program = umoci(tmp_path, "while :; do echo >> $5/a; sleep 0.1; done")
    budget = new_budget("a:1", tmp_path, Limits(), stall_s=0.5, total_s=2)
    with pytest.raises(CommandTimeout, match=r"a:1"):
        unpack(tmp_path, tmp_path / "rootfs", budget, program)
    assert (tmp_path / "rootfs/a").stat().st_size > 5
    with pytest.raises(CommandTimeout, match=r"^pulling a:1: still running after 2 s"):
        unpack(tmp_path, tmp_path / "again", budget, program)


def test_without_counters_of_the_kernel_only_the_deadline_of_the_pull_ends_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_budget, "io_bytes", lambda *_: None)
    program = umoci(tmp_path, "sleep 0.6; mkdir -p $5; echo > $5/a")
    unpack(tmp_path, tmp_path / "rootfs", new_budget("a:1", tmp_path, Limits(), stall_s=0.1), program)
    assert (tmp_path / "rootfs/a").exists()
    with pytest.raises(CommandTimeout, match=r"^image a:1: unpacking its layers: still running after 0\.(3|29)"):
        unpack(tmp_path, tmp_path / "again", new_budget("a:1", tmp_path, Limits(), stall_s=0.1, total_s=0.3), program)
