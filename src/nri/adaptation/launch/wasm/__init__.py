"""Plugins in WebAssembly: compile them, limit what they can use of this process, and call them with a deadline.

Requires wasmtime, an optional dependency (``wasm``). So only `nri.adaptation.launch.start` imports this package, and
only for a plugin in WebAssembly. Reading order: `program` (a compiled file), `host` (what plugins can call), `instance`
(one run).
"""
