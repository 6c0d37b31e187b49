"""Recognize WebAssembly files, and check for wasmtime, without loading the file or wasmtime."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.adaptation.launch.trusted import TrustedFile

#: The first bytes of a WebAssembly file (version 1).
MAGIC = b"\0asm\1\0\0\0"
#: The largest accepted file, in bytes.
CODE_BYTES = 64 << 20
#: The error text if wasmtime is missing.
INSTALL = "it is WebAssembly, which requires wasmtime: run pip install '.[wasm]' in a checkout of nri"


def is_wasm(file: TrustedFile) -> bool:
    """Whether a file is WebAssembly."""
    return file.read(len(MAGIC)) == MAGIC


def missing() -> bool:
    """Whether wasmtime is missing from this installation."""
    return find_spec("wasmtime") is None
