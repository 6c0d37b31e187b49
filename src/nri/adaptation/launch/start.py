"""Start one run of an installed plugin: as a process, or in this one if its file is WebAssembly.

A file's kind shows in its first bytes, never in its name, and is looked at each time, in the very file that is then
started. WebAssembly is never executed. It needs wasmtime, an extra that is imported for it alone; what was compiled is
kept while the file stays the same.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from nri.adaptation.launch.process import Process
from nri.adaptation.launch.trusted import TrustedFile, check_interpreter
from nri.adaptation.launch.wasm_file import CODE_BYTES, INSTALL, MAGIC, is_wasm, missing
from nri.adaptation.peers.peer import LAUNCHED, WASM, Peer
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.wasm import WasmPeer
from nri.errors import ConfigError
from nri.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adaptation.launch.discovery import Found
    from nri.adaptation.launch.wasm.program import Program
    from nri.adaptation.registration.registry import Registry
    from nri.ttrpc import Interceptor

__all__ = ["Run", "Starter"]


class Run(Protocol):
    """One run of a plugin, for the thread that looks after it."""

    status: str
    failed: bool

    @property
    def last_words(self) -> str:
        """The last lines that it wrote to stderr, each of them plain (`nri.text`)."""

    def wait(self, look: Callable[[], float]) -> None:
        """Block until it has ended. `look` is called at once, after a `nudge`, and after as long as it returned."""

    def nudge(self) -> None:
        """Have `wait` call its `look` again."""

    def kill(self) -> None:
        """End it; harmless if it has ended."""


class Starter:
    """Starts the runs of one plugin.

    Args:
        trusted: only files that root and our own user alone decide about.
        all_events: a file of WebAssembly must have the functions of all events.
        cache: where its compiled code is kept; None for nowhere.
    """

    def __init__(
        self,
        found: Found,
        registry: Registry,
        interceptors: Sequence[Interceptor] = (),
        *,
        trusted: bool = True,
        all_events: bool = False,
        cache: str | None = None,
    ) -> None:
        self._found, self._registry, self._interceptors = found, registry, interceptors
        self._trusted, self._all_events, self._cache = trusted, all_events, cache
        self._program: Program | None = None
        self._refused: tuple[bytes, ConfigError] | None = None
        #: The name of this plugin's runs, as peers have it.
        self.kind = WASM if found.wasm else LAUNCHED

    def start(self, config: str) -> tuple[Run, Peer]:
        """Start a run that is given `config`. ConfigError, UntrustedError or OSError if it cannot be started."""
        path = self._found.path
        if not self._trusted:
            data = _read_if_wasm(path)
            return self._load(data, config) if data else self._launch(config)
        with TrustedFile(path) as trusted:
            if is_wasm(trusted):
                return self._load(trusted.read(CODE_BYTES + 1), config)
            check_interpreter(trusted)
            return self._launch(config, trusted)

    def join(self, peer: Peer) -> None:
        """Have a run that was started take part."""
        if isinstance(peer, RemotePeer):
            self._registry.connect(peer)
        else:
            self._registry.admit(peer)

    def _launch(self, config: str, file: TrustedFile | None = None) -> tuple[Run, Peer]:
        found, self.kind = self._found, LAUNCHED
        process = Process(found, file)
        peer = RemotePeer(
            self._registry, process.socket, LAUNCHED,
            index=found.index, name=found.name, pid=process.pid, uid=os.geteuid(), interceptors=self._interceptors,
        )  # fmt: skip
        peer.config = config
        return process, peer

    def _load(self, data: bytes, config: str) -> tuple[Run, Peer]:
        found, self.kind = self._found, WASM
        if missing():
            raise ConfigError(found.path, "", INSTALL)
        if len(data) > CODE_BYTES:
            raise ConfigError(found.path, "", f"the plugin has more than {CODE_BYTES >> 20} MiB")
        from nri.adaptation.launch.wasm.instance import Instance

        instance = Instance(f"{WASM}:{found.label}", self._compiled(data))
        return instance, WasmPeer(self._registry, found.index, found.name, instance, config, os.geteuid())

    def _compiled(self, data: bytes) -> Program:
        """The file's program, compiled only if the file is another one than the last time."""
        from nri.adaptation.launch.wasm.program import Program, digest_of

        digest = digest_of(data)
        if self._refused is not None and self._refused[0] == digest:
            raise ConfigError(self._found.path, "", self._refused[1].reason)
        if self._program is None or self._program.digest != digest:
            try:
                self._program = Program(self._found.path, data, cache=self._cache, all_events=self._all_events)
            except ConfigError as error:
                self._refused = digest, error
                raise
        return self._program


def _read_if_wasm(path: str) -> bytes:
    """The content of a file of WebAssembly; b"" for any other."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            begin = file.read(len(MAGIC))
            return begin + file.read(CODE_BYTES) if begin == MAGIC else b""
    except OSError:
        return b""
