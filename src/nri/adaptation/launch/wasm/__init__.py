"""Plugins in WebAssembly: compile them, limit what they can use of this process, and call them with a deadline.

Requires wasmtime, an optional dependency (``wasm``), so only `nri.adaptation.launch.start` imports this package, and
only for such a plugin. Reading order: `program` (a compiled file), `host` (what plugins can call), `instance` (one
run).
"""
