"""Compiled code on disk: taken again, refused where others could have put it, and never in the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support import wat
from tests.support.needs import need_module

need_module("wasmtime")

import wasmtime  # noqa: E402 - an extra

from nri.adaptation.launch.wasm import cache  # noqa: E402 - needs wasmtime
from nri.adaptation.launch.wasm.program import Program  # noqa: E402


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    made: list[bytes] = []
    compiler = wasmtime.Module

    class Counted(compiler):  # type: ignore[misc, valid-type]
        def __init__(self, engine: object, data: bytes) -> None:
            made.append(data)
            super().__init__(engine, data)

    monkeypatch.setattr(wasmtime, "Module", Counted)
    return made


def test_a_program_is_compiled_once_and_again_when_its_content_changes(
    tmp_path: Path, compilations: list[bytes]
) -> None:
    folder = str(tmp_path / "new" / "cache")
    code, other = wat.plugin(), wat.plugin({"shutdown": wat.NOTHING})
    names = [Program("10-a", each, cache=folder).names for each in (code, code, other, code)]
    assert compilations == [code, other]
    assert names[0] == names[1] == names[3] != names[2]


def test_code_that_others_could_have_put_there_is_not_run(tmp_path: Path, compilations: list[bytes]) -> None:
    code = wat.plugin()
    Program("10-a", code, cache=str(tmp_path))
    other = wat.plugin({"shutdown": wat.NOTHING})
    tmp_path.chmod(0o777)
    for each in (code, other):
        Program("10-a", each, cache=str(tmp_path))
    assert compilations == [code, code, other]
    assert len(list(tmp_path.iterdir())) == 1, "something was written where others decide"


def test_code_that_is_damaged_is_compiled_anew_and_repaired(tmp_path: Path, compilations: list[bytes]) -> None:
    code = wat.plugin()
    Program("10-a", code, cache=str(tmp_path))
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"no code")
    Program("10-a", code, cache=str(tmp_path))
    Program("10-a", code, cache=str(tmp_path))
    assert compilations == [code, code]


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path, compilations: list[bytes]) -> None:
    (tmp_path / "file").write_text("")
    Program("10-a", wat.plugin(), cache=str(tmp_path / "file" / "cache"))
    Program("10-a", wat.plugin(), cache=None)
    assert len(compilations) == 2


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT", 2)
    codes = [wat.plugin({"shutdown": f"(i64.const {number})"}) for number in range(3)]
    kept: list[str] = []
    for age, code in enumerate(codes):
        Program("10-a", code, cache=str(tmp_path))
        (new,) = {path.name for path in tmp_path.iterdir()} - set(kept)
        os.utime(tmp_path / new, (age + 1, age + 1))
        kept.append(new)
    assert {path.name for path in tmp_path.iterdir()} == set(kept[1:])


def test_what_else_is_in_the_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT", 1)
    others = [tmp_path / name for name in ("notes", "other.cwasm", "new-1")]
    for path in others:
        path.write_text("kept")
        os.utime(path, (1, 1))
    for number in range(3):
        Program("10-a", wat.plugin({"shutdown": f"(i64.const {number})"}), cache=str(tmp_path))
    assert all(path.exists() for path in others)
    assert len(list(tmp_path.iterdir())) == len(others) + 1


def test_code_that_may_only_be_read_is_taken(
    tmp_path: Path, compilations: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    code = wat.plugin()
    Program("10-a", code, cache=str(tmp_path))
    monkeypatch.setattr(os, "utime", read_only)
    Program("10-a", code, cache=str(tmp_path))
    assert compilations == [code]


def test_code_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []
    sync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        steps.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    def renamed(before: str, after: str, **folders: int) -> None:
        steps.append(os.stat(before, dir_fd=folders["src_dir_fd"]).st_size)
        rename(before, after, **folders)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    Program("10-a", wat.plugin(), cache=str(tmp_path))
    (kept,) = tmp_path.iterdir()
    assert steps[:2] == [kept.stat().st_size] * 2
