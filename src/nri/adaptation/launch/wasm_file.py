"""Tell files in WebAssembly from others, and whether they can be run here; neither the file is loaded nor wasmtime."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.adaptation.launch.trusted import TrustedFile

__all__ = ["CODE_BYTES", "INSTALL", "MAGIC", "is_wasm", "missing"]

#: With which a file of WebAssembly (version 1) begins.
MAGIC = b"\0asm\1\0\0\0"
#: The largest of them, in bytes.
CODE_BYTES = 64 << 20
#: The next step where wasmtime is missing.
INSTALL = "it is WebAssembly, for which this runtime lacks wasmtime: pip install '.[wasm]', in a checkout of nri"


def is_wasm(file: TrustedFile) -> bool:
    """Whether a file is WebAssembly."""
    return file.read(len(MAGIC)) == MAGIC


def missing() -> bool:
    """Whether what WebAssembly needs is not installed."""
    return find_spec("wasmtime") is None
