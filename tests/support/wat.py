"""Small plugins in WebAssembly, written as text: each function of the go-plugin ABI as an expression.

One job: `plugin(...)` gives the bytes of a module that has what a plugin needs, `install(...)` puts it into a plugin
folder. `reply(...)` is a reply, `error(...)` an error; any other expression of type i64 will do.
"""

from __future__ import annotations

from pathlib import Path

from nri.api import messages as m
from tests.support.needs import need_module

NEVER_ENDS = "(loop $again (br $again)) (i64.const 0)"
TRAPS = "(unreachable)"
NOTHING = "(i64.const 0)"

_HEAP = 1 << 16


class _Text(bytes):
    """The bytes of an answer, of which the module makes data."""

    failed = False


def reply(message: object) -> _Text:
    """The expression that answers with a message."""
    return _Text(message.SerializeToString())  # type: ignore[attr-defined]


def error(text: str) -> _Text:
    """The expression that answers with an error."""
    source = _Text(text.encode())
    source.failed = True
    return source


def plugin(
    functions: dict[str, str | _Text] | None = None,
    *,
    imports: str = "",
    more: str = "",
    without: tuple[str, ...] = (),
    version: int = 1,
    malloc: str = "",
) -> bytes:
    """A plugin of which each function is an expression over $place and $size; Configure answers with all events.

    Args:
        functions: by what stands behind ``plugin_`` in the function's name.
        imports, more: further text of the module.
        without: exports that it is to lack.
    """
    need_module("wasmtime")
    import wasmtime

    parts, data = [], 0
    for name, body in {"configure": reply(m.ConfigureResponse()), **(functions or {})}.items():
        text = body
        if isinstance(body, _Text):
            parts.append(f'(data (i32.const {1024 + data}) "{"".join(f"{chr(92)}{byte:02x}" for byte in body)}")')
            text = f"(i64.const {(1024 + data) << 32 | len(body) | (1 << 31 if body.failed else 0)})"
            data += len(body) + 8
        parts.append(_function(f"plugin_{name}", "(param $place i32) (param $size i32) (result i64)", str(text)))
    malloc = (
        malloc
        or """(global.set $next (i32.add (global.get $next) (local.get $size)))
        (i32.sub (global.get $next) (local.get $size))"""
    )
    for name, kind, body in (
        ("malloc", "(param $size i32) (result i32)", malloc),
        ("free", "(param i32)", "(global.set $next (i32.const 65536))"),
        ("plugin_api_version", "(result i64)", f"(i64.const {version})"),
    ):
        if name not in without:
            parts.append(_function(name, kind, body))
    memory = '(memory (export "memory") 8)' if "memory" not in without else "(memory 8)"
    module_text = f"(module {imports} {memory} (global $next (mut i32) (i32.const {_HEAP})) {' '.join(parts)} {more})"
    return bytes(wasmtime.wat2wasm(module_text))


def _function(name: str, kind: str, body: str) -> str:
    return f'(func (export "{name}") {kind} {body})'


def install(folder: Path, label: str, code: bytes) -> Path:
    """Put a plugin into a plugin folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / label
    path.write_bytes(code)
    path.chmod(0o755)
    return path
