"""Plugins in WebAssembly: compiled, given what they may use of this process, called with an end to each call.

Imports wasmtime, an extra (``wasm``), so this room is imported by `nri.adaptation.launch.start` alone and only for
such a plugin. Reading order: `program` (a file) and `cache` (compiled ones), `host` (what plugins can call),
`instance` (one run, and its end).
"""
