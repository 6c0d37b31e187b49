"""Start of a plugin as a process or as WebAssembly, decided by the content of its file at that time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.launch import start
from nri.adaptation.launch.discovery import PluginFile
from nri.adaptation.launch.start import Starter
from nri.adaptation.launch.trusted import UntrustedError
from nri.adaptation.peers.wasm import WasmPeer
from nri.errors import ConfigError
from tests.support import wat
from tests.support.programs import script

WASM = b"\0asm\1\0\0\0"


class Registry:
    """Takes whoever comes."""

    def __init__(self) -> None:
        self.came: list[tuple[str, object]] = []

    def connect(self, peer: object) -> None:
        self.came.append(("connect", peer))

    def act(self, peer: object, action: object) -> None:
        """Nothing follows."""

    def admit(self, peer: object) -> None:
        self.came.append(("admit", peer))


def starter(path: Path, **options: Any) -> Starter:
    registry: Any = Registry()
    return Starter(PluginFile(str(path), "10", "a"), registry, **options)


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as messages:
        starter(path, **options).start("")
    return str(messages.value)


@pytest.mark.parametrize("trusted", [True, False])
def test_webassembly_is_never_executed_as_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    monkeypatch.setattr(start, "Process", lambda *_: pytest.fail("it was executed"))
    path = wat.install(tmp_path, "10-a", WASM)
    assert refusal(path, trusted=trusted).endswith("requires wasmtime: run pip install '.[wasm]' in a checkout of nri")


@pytest.mark.parametrize("trusted", [True, False])
def test_a_pipe_instead_of_a_plugin_is_refused_without_waiting(tmp_path: Path, trusted: bool) -> None:
    os.mkfifo(tmp_path / "10-a", 0o755)
    with pytest.raises(UntrustedError if trusted else PermissionError):
        starter(tmp_path / "10-a", trusted=trusted).start("")


@pytest.mark.parametrize("trusted", [True, False])
def test_any_other_file_is_started_as_a_process(tmp_path: Path, trusted: bool) -> None:
    path = script(tmp_path, "10-a", "#!/bin/sh\nexit 3\n")
    begin = starter(path, trusted=trusted)
    run, peer = begin.start("key: value")
    run.wait(lambda: 0.1)
    assert (run.status, peer.kind, peer.config, bool(peer.pid)) == ("exit code 3", "pre-connected", "key: value", True)
    begin.join(peer)
    peer.close("over")
    peer.release(0.0)


def test_an_oversized_file_is_refused_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "CODE_BYTES", 1 << 20)
    path = wat.install(tmp_path, "10-a", WASM.ljust((1 << 20) + 1))
    assert "larger than 1 MiB" in refusal(path)


def test_webassembly_that_others_can_write_is_not_loaded(tmp_path: Path) -> None:
    path = wat.install(tmp_path, "10-a", wat.plugin())
    path.chmod(0o777)
    with pytest.raises(UntrustedError, match="can be written by group or others"):
        starter(path).start("")


def test_webassembly_is_compiled_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wat.install(tmp_path, "10-a", wat.plugin())
    from nri.adaptation.launch.wasm import program

    compiled: list[str] = []
    first = program.Program.__init__

    def count(self: object, where: str, *remainder: Any, **options: Any) -> None:
        compiled.append(where)
        first(self, where, *remainder, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(program.Program, "__init__", count)
    begin = starter(path)
    runs = [begin.start("") for _ in range(3)]
    assert len(compiled) == 1
    assert all(isinstance(peer, WasmPeer) and peer.kind == "pre-connected-wasm" for _, peer in runs)
    wat.install(tmp_path, "10-a", wat.plugin(imports='(import "env" "what" (func))'))
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"it imports env\.what"):
            begin.start("")
    assert len(compiled) == 2, "what cannot be loaded is compiled at every attempt"
    wat.install(tmp_path, "10-a", wat.plugin())
    _, peer = begin.start("")
    begin.join(peer)
