"""Start a run of an installed plugin: as a process, or inside the runtime if its file is WebAssembly.

The first bytes of a file show its kind, not its name. They are checked at each start, in the same open file that is
then started. Wasmtime, an optional dependency, is imported only for WebAssembly. Compiled code is kept while the file
stays the same.
"""

from __future__ import annotations

import errno
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

    from nri.adaptation.launch.discovery import PluginFile
    from nri.adaptation.launch.wasm.program import Program
    from nri.adaptation.registration.registry import Registry
    from nri.ttrpc import Interceptor


class Run(Protocol):
    """A run of a plugin, for its supervisor's thread."""

    status: str
    failed: bool

    @property
    def last_words(self) -> str:
        """The last lines that the plugin wrote to stderr, made printable (`nri.text.plain`)."""

    def wait(self, check: Callable[[], float]) -> None:
        """Block until the run has ended.

        Calls `check` at once, after a `nudge`, and after the seconds that it returned.
        """

    def nudge(self) -> None:
        """Make `wait` call its `check` again."""

    def kill(self) -> None:
        """End the run. Harmless if it has ended."""


class Starter:
    """Starts the runs of a plugin.

    Args:
        trusted: start only files that only root and the runtime's user can change.
        all_events: a WebAssembly file must have the functions of all events.
        cache: the folder for compiled code; None disables the cache.
    """

    def __init__(
        self,
        plugin: PluginFile,
        registry: Registry,
        interceptors: Sequence[Interceptor] = (),
        *,
        trusted: bool = True,
        all_events: bool = False,
        cache: str | None = None,
    ) -> None:
        self._plugin, self._registry, self._interceptors = plugin, registry, interceptors
        self._trusted, self._all_events, self._cache = trusted, all_events, cache
        self._program: Program | None = None
        self._refused: tuple[bytes, ConfigError] | None = None
        #: The kind of this plugin's runs, as in `Peer`.
        self.kind = WASM if plugin.wasm else LAUNCHED

    def start(self, config: str) -> tuple[Run, Peer]:
        """Start a run with the configuration `config`. Raises ConfigError, UntrustedError or OSError if that fails."""
        path = self._plugin.path
        if not self._trusted:
            data = _read_if_wasm(path)
            return self._load(data, config) if data else self._launch(config)
        with TrustedFile(path) as trusted:
            if is_wasm(trusted):
                return self._load(trusted.read(CODE_BYTES + 1), config)
            missing_interpreter = check_interpreter(trusted)
            if missing_interpreter:
                raise FileNotFoundError(errno.ENOENT, missing_interpreter)
            return self._launch(config, trusted)

    def join(self, peer: Peer) -> None:
        """Register a started run."""
        if isinstance(peer, RemotePeer):
            self._registry.connect(peer)
        else:
            self._registry.admit(peer)

    def _launch(self, config: str, file: TrustedFile | None = None) -> tuple[Run, Peer]:
        plugin, self.kind = self._plugin, LAUNCHED
        process = Process(plugin, file)
        peer = RemotePeer(
            self._registry, process.socket, LAUNCHED,
            index=plugin.index, name=plugin.name, pid=process.pid, uid=os.geteuid(), interceptors=self._interceptors,
        )  # fmt: skip
        peer.config = config
        return process, peer

    def _load(self, data: bytes, config: str) -> tuple[Run, Peer]:
        plugin, self.kind = self._plugin, WASM
        if missing():
            raise ConfigError(plugin.path, "", INSTALL)
        if len(data) > CODE_BYTES:
            raise ConfigError(plugin.path, "", f"the plugin is larger than {CODE_BYTES >> 20} MiB")
        from nri.adaptation.launch.wasm.instance import Instance

        instance = Instance(f"{WASM}:{plugin.label}", self._compiled_program(data))
        return instance, WasmPeer(self._registry, plugin.index, plugin.name, instance, config, os.geteuid())

    def _compiled_program(self, data: bytes) -> Program:
        """The file's program. It is compiled only if the file's content has changed."""
        from nri.adaptation.launch.wasm.program import Program, digest_of

        digest = digest_of(data)
        if self._refused is not None and self._refused[0] == digest:
            raise ConfigError(self._plugin.path, "", self._refused[1].reason)
        if self._program is None or self._program.digest != digest:
            try:
                self._program = Program(self._plugin.path, data, cache=self._cache, all_events=self._all_events)
            except ConfigError as error:
                self._refused = digest, error
                raise
        return self._program


def _read_if_wasm(path: str) -> bytes:
    """The content of a WebAssembly file; b"" for any other file."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            begin = file.read(len(MAGIC))
            return begin + file.read(CODE_BYTES) if begin == MAGIC else b""
    except OSError:
        return b""
