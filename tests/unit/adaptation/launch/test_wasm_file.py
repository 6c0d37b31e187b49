"""WebAssembly files are recognized by their first bytes, never by their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.adaptation.launch import wasm_file
from nri.adaptation.launch.trusted import TrustedFile


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (wasm_file.MAGIC + b"rest", True),
        (wasm_file.MAGIC[:7], False),
        (b"\0asm\2\0\0\0", False),
        (b"#!/bin/sh\n", False),
        (b"", False),
    ],
)
def test_webassembly_is_recognized_by_its_first_bytes(tmp_path: Path, content: bytes, expected: bool) -> None:
    path = tmp_path / "10-plugin"
    path.write_bytes(content)
    path.chmod(0o755)
    with TrustedFile(str(path)) as file:
        assert wasm_file.is_wasm(file) is expected


def test_a_missing_wasmtime_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm_file, "find_spec", lambda name: None)
    assert wasm_file.missing()
    assert "pip install '.[wasm]'" in wasm_file.INSTALL
