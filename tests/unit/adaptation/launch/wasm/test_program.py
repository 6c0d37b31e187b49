"""Checks of a WebAssembly file before any of its code runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nri.api.events import EVENTS
from nri.errors import ConfigError
from tests.support import wat
from tests.support.needs import need_module

need_module("wasmtime")

import wasmtime  # noqa: E402 - an extra

from nri.adaptation.launch.wasm import program as program_module  # noqa: E402 - needs wasmtime
from nri.adaptation.launch.wasm.program import Program, has_plain_types  # noqa: E402 - needs wasmtime


def refusal(code: bytes, **options: bool) -> str:
    with pytest.raises(ConfigError) as messages:
        Program("/plugins/10-a", code, **options)  # type: ignore[arg-type]
    return str(messages.value)


def test_the_exports_of_a_program_are_read() -> None:
    program = Program("10-a", wat.plugin({"create_container": wat.NOTHING}))
    assert {"malloc", "plugin_configure", "plugin_create_container"} <= program.names


def test_an_unknown_import_is_an_error_with_its_name() -> None:
    code = wat.plugin(imports='(import "env" "gpu_open" (func (param i32))) (import "net" "dial" (func))')
    assert refusal(code) == "/plugins/10-a: it imports env.gpu_open, net.dial, which this runtime does not provide"


def test_an_import_of_a_wrong_type_is_an_error_with_the_type() -> None:
    code = wat.plugin(imports='(import "env" "log" (func (param i64)))')
    assert "it imports env.log as i64 ->, which this runtime does not provide" in refusal(code)


@pytest.mark.parametrize("name", ["malloc", "free", "plugin_api_version", "memory"])
def test_a_missing_required_function_is_an_error_with_its_name(name: str) -> None:
    assert refusal(wat.plugin(without=(name,))) == (
        f"/plugins/10-a: it is not an NRI plugin: it does not export {name}"
    )


def test_a_function_of_a_wrong_type_is_an_error_with_both_types() -> None:
    code = wat.plugin(more='(func (export "plugin_create_container") (param i32))')
    assert refusal(code).endswith(
        "it exports plugin_create_container as i32 ->; a plugin must export it as i32 i32 -> i64"
    )


def test_a_truncated_file_is_an_error() -> None:
    assert "it cannot be compiled: " in refusal(wat.plugin()[:40])


def test_functions_of_events_may_be_missing_except_in_the_reference_wasm_events_optional() -> None:
    code = wat.plugin({"create_container": wat.NOTHING})
    Program("10-a", code)
    assert "it does not export plugin_synchronize, plugin_shutdown, plugin_state_change, " in refusal(
        code, all_events=True
    )
    methods = ("synchronize", "shutdown", "state_change", *(spec.method for spec in EVENTS))
    Program("10-a", wat.plugin(dict.fromkeys(methods, wat.NOTHING)), all_events=True)


@pytest.mark.parametrize(
    "kind", ["v128", "anyref", "(ref func)", "exnref", "(ref null i31)", "(ref null noextern)", "(ref null $t)"]
)
@pytest.mark.parametrize(
    "place", ['(import "env" "log" (func (param {})))', '(func (export "plugin_shutdown") (param {}))']
)
def test_a_type_that_would_crash_the_runtime_is_refused(kind: str, place: str) -> None:
    text = place.format(kind)
    types = "(type $t (func))"
    code = wat.plugin(imports=types + text) if text.startswith("(import") else wat.plugin(imports=types, more=text)
    assert ("a function takes or returns a vector" if kind == "v128" else "it cannot be compiled: ") in refusal(code)


def test_vectors_inside_functions_are_accepted() -> None:
    inside = "(drop (i8x16.splat (i32.const 0)))"
    Program("10-a", wat.plugin(more=f"(func {inside}) (global v128 (v128.const i64x2 0 0))"))
    code = wat.plugin(imports='(import "env" "pair" (global v128))')
    assert "it imports env.pair, which this runtime does not provide" in refusal(code)
    Program("10-a", wat.plugin(more='(global (export "pair") v128 (v128.const i64x2 0 0))'))


def test_a_reference_in_long_form_is_not_a_plain_type() -> None:
    assert has_plain_types(wat.plugin())
    begin = b"\0asm\1\0\0\0"
    assert has_plain_types(begin + b"\0\2\1a" + b"\1\x88\x80\0\1\x60\2\x7f\x6f\1\x7e")
    for types in (b"\x60\1\x63\x70\1\x7b", b"\x60\0\1\x7b", b"\x5f\0"):
        assert not has_plain_types(begin + bytes([1, len(types) + 1, 1]) + types)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    created: list[bytes] = []
    compiler = wasmtime.Module

    class Counted(compiler):  # type: ignore[misc, valid-type]
        def __init__(self, engine: object, data: bytes) -> None:
            created.append(data)
            super().__init__(engine, data)

    monkeypatch.setattr(wasmtime, "Module", Counted)
    return created


def test_a_program_is_compiled_once_for_each_content(tmp_path: Path, compilations: list[bytes]) -> None:
    folder = str(tmp_path / "new" / "cache")
    code, other = wat.plugin(), wat.plugin({"shutdown": wat.NOTHING})
    names = [Program("10-a", entry, cache=folder).names for entry in (code, code, other, code)]
    assert compilations == [code, other]
    assert names[0] == names[1] == names[3] != names[2]


def test_cached_code_that_others_can_write_is_not_run(tmp_path: Path, compilations: list[bytes]) -> None:
    code = wat.plugin()
    Program("10-a", code, cache=str(tmp_path))
    other = wat.plugin({"shutdown": wat.NOTHING})
    tmp_path.chmod(0o777)
    for entry in (code, other):
        Program("10-a", entry, cache=str(tmp_path))
    assert compilations == [code, code, other]
    assert len(list(tmp_path.iterdir())) == 1, "something was written where others decide"


def test_damaged_cached_code_is_compiled_again_and_repaired(tmp_path: Path, compilations: list[bytes]) -> None:
    code = wat.plugin()
    Program("10-a", code, cache=str(tmp_path))
    (remaining,) = tmp_path.iterdir()
    remaining.write_bytes(b"no code")
    Program("10-a", code, cache=str(tmp_path))
    Program("10-a", code, cache=str(tmp_path))
    assert compilations == [code, code]


def test_without_a_cache_folder_the_program_is_compiled_each_time(tmp_path: Path, compilations: list[bytes]) -> None:
    (tmp_path / "file").write_text("")
    Program("10-a", wat.plugin(), cache=str(tmp_path / "file" / "cache"))
    Program("10-a", wat.plugin(), cache=None)
    assert len(compilations) == 2


def test_the_least_recently_used_code_is_removed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "MAX_CACHED", 2)
    codes = [wat.plugin({"shutdown": f"(i64.const {number})"}) for number in range(3)]
    remaining: list[str] = []
    for age, code in enumerate(codes):
        Program("10-a", code, cache=str(tmp_path))
        (new,) = {path.name for path in tmp_path.iterdir()} - set(remaining)
        os.utime(tmp_path / new, (age + 1, age + 1))
        remaining.append(new)
    assert {path.name for path in tmp_path.iterdir()} == set(remaining[1:])


def test_other_files_in_the_cache_folder_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "MAX_CACHED", 1)
    other_entries = [tmp_path / name for name in ("notes", "other.cwasm", "new-1")]
    for path in other_entries:
        path.write_text("kept")
        os.utime(path, (1, 1))
    for number in range(3):
        Program("10-a", wat.plugin({"shutdown": f"(i64.const {number})"}), cache=str(tmp_path))
    assert all(path.exists() for path in other_entries)
    assert len(list(tmp_path.iterdir())) == len(other_entries) + 1


def test_cached_code_on_a_read_only_disk_is_used(
    tmp_path: Path, compilations: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    code = wat.plugin()
    Program("10-a", code, cache=str(tmp_path))
    monkeypatch.setattr(os, "utime", read_only)
    Program("10-a", code, cache=str(tmp_path))
    assert compilations == [code]


def test_cached_code_is_synced_to_disk_before_its_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    (remaining,) = tmp_path.iterdir()
    assert steps[:2] == [remaining.stat().st_size] * 2
