"""A run of a plugin in WebAssembly: its functions are called one at a time, with deadlines, until a function fails.

The supervisor's thread (`Instance.wait`) enforces deadlines: it increments the engine's epoch, and the function traps
at its next branch. An unfinished function (a deadline, a trap, an exit) ends the run, because its memory may be in any
state. An error that a function returned does not end the run.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any

import wasmtime

from nri.adaptation.launch.stderr_tail import StderrTail
from nri.adaptation.launch.wasm import host
from nri.adaptation.launch.wasm.program import MEMORY_BYTES, TABLE_ELEMENTS, TABLES
from nri.adaptation.launch.wasm.stderr import StderrPipe
from nri.errors import ConnectionClosed, DeadlineExceeded, RemoteProtocolError, RpcError
from nri.text import plain
from nri.ttrpc import Code
from nri.ttrpc.frames import MAX_DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from nri.adaptation.launch.wasm.program import Program

#: The version of the go-plugin service that plugins must have.
API_VERSION = 1

_ERROR = 1 << 31
_MASK = 0xFFFFFFFF
_FOREVER_S = 3600.0

#: The runs that have resources of wasmtime.
_open: weakref.WeakSet[Instance] = weakref.WeakSet()
#: `ended` is set when this process ends and no run may start; `_guard` protects it and `_open`.
ended, _guard = threading.Event(), threading.Lock()
#: The end of this process waits this many seconds for runs.
EXIT_S = 5.0


@atexit.register
def end_all() -> None:
    """End all runs before the interpreter ends.

    Otherwise a thread that returns from WebAssembly to Python would be ended below frames of Rust, which aborts.
    """
    with _guard:
        ended.set()
        runs = list(_open)
    for run in runs:
        run.kill()
    deadline = monotonic() + EXIT_S
    for run in runs:
        run.closed.wait(max(0.0, deadline - monotonic()))


class Instance:
    """A run of a plugin.

    Attributes:
        label: the name for logs, as `nri.adaptation.peers.peer.Peer.qualified`.
        status: how the run ended, as text; "" while it runs.
        failed: whether the run ended for another reason than `end` or `kill`.
        closed: set as soon as the resources of the run are freed.
    """

    def __init__(self, label: str, program: Program) -> None:
        self.label = label
        self.status = ""
        self.failed = False
        self.closed = threading.Event()
        self._program = program
        self._stderr_tail = StderrTail()
        self.calling = threading.Lock()  # held while a function runs
        self._changed = threading.Condition()  # guards the following attributes
        self._deadline = 0.0  # the running function's deadline; 0.0 if no function runs
        self._interrupted = self._nudged = False
        self._ending = ""
        self._wakes_at = 0.0
        self._store: Any = None
        self._linker: Any = None
        self._stderr: StderrPipe | None = None
        self._exports: dict[str, Any] = {}
        self._memory: Any = None

    @property
    def names(self) -> Collection[str]:
        """The names that the plugin exports."""
        return self._program.names

    @property
    def last_words(self) -> str:
        """The last lines that the plugin wrote to stderr, made printable (`nri.text.plain`)."""
        return self._stderr_tail.text

    # -- for the supervisor's thread ----------------------------------------------------------------------------------

    def wait(self, check: Callable[[], float]) -> None:
        """Enforce the deadlines until the run has ended, and free its resources.

        `check` is called at once, after every `nudge`, and when the number of seconds that it returned has passed.
        """
        while not self.status:
            wakes_at = monotonic() + check()
            with self._changed:
                if self._deadline and monotonic() >= self._deadline:
                    self._interrupt()
                if self._deadline and not self._interrupted:
                    wakes_at = min(wakes_at, self._deadline)
                if not self._nudged and not self.status:
                    self._wakes_at = wakes_at
                    self._changed.wait(max(0.0, min(wakes_at - monotonic(), _FOREVER_S)))
                    self._wakes_at = 0.0
                self._nudged = False
        with self.calling:
            self._exports, self._memory = {}, None
            for resource in (self._store, self._linker):
                if resource is not None:
                    resource.close()
            if self._stderr is not None:
                self._stderr.close()
            self.closed.set()

    def nudge(self) -> None:
        """Make `wait` call its `check` again."""
        with self._changed:
            self._nudged = True
            self._changed.notify_all()

    def kill(self) -> None:
        """End the run. Harmless if it has ended."""
        self.end("ended by the runtime")

    def end(self, reason: str) -> None:
        """End the run at once, or as soon as the running function is interrupted."""
        with self._changed:
            if self.status or self._ending:
                return
            self._ending = reason
            if self._deadline:
                self._interrupt()
            else:
                self._set_status(reason, failed=False)

    def _interrupt(self) -> None:
        self._interrupted = True
        self._program.engine.increment_epoch()
        self._changed.notify_all()

    def _set_status(self, status: str, *, failed: bool) -> None:
        self.status, self.failed = self.status or status, failed
        self._nudged = True
        self._changed.notify_all()

    # -- for callers --------------------------------------------------------------------------------------------------

    def call(self, function: str, payload: bytes, deadline: float) -> bytes:
        """Run a function on a request. Returns the reply's bytes.

        Raises:
            DeadlineExceeded: the function was not finished at the deadline, in monotonic seconds; this ends the run.
            ConnectionClosed: the run has ended, or the function trapped, which ends the run.
            RemoteProtocolError: the reply is outside of the plugin's memory, or too long; this ends the run.
            RpcError: the function returned an error.
        """
        if not self.calling.acquire(timeout=max(0.0, deadline - monotonic())):
            raise DeadlineExceeded(function)
        try:
            self._start_call(deadline)
            try:
                if self._store is None:
                    self._initialize_plugin()
                return self._exchange(function, payload)
            except RpcError:
                raise
            except Exception as error:  # noqa: BLE001 - after any error the plugin's memory may be in any state
                failure = self._fail(function, error)
            except BaseException as error:  # an exception of a signal handler, for example
                self._fail(function, error)
                raise
            finally:
                with self._changed:
                    self._deadline = 0.0
                    if self._ending:
                        self._set_status(self._ending, failed=False)
        finally:
            self.calling.release()
        raise failure

    def _start_call(self, deadline: float) -> None:
        with self._changed:
            if self.status or self._ending:
                raise ConnectionClosed(self.status or self._ending)
            self._deadline, self._interrupted = deadline, False
            if self._store is not None:
                self._store.set_epoch_deadline(1)
            if deadline < self._wakes_at:
                self._changed.notify_all()

    def _initialize_plugin(self) -> None:
        """Create the plugin's memory and initialize the plugin."""
        program = self._program
        with _guard:
            if ended.is_set():
                raise ConnectionClosed("this process ends")
            _open.add(self)
        store = self._store = wasmtime.Store(program.engine)
        store.set_limits(MEMORY_BYTES, TABLE_ELEMENTS, instances=1, tables=TABLES, memories=1)
        with self._changed:
            store.set_epoch_deadline(
                0 if self._interrupted else 1
            )  # an epoch that has already passed does not interrupt
        self._stderr = StderrPipe(self._stderr_tail.add)
        try:
            self._linker = host.linker(program.engine, store, self)
        finally:
            self._stderr.opened()
        instance = self._linker.instantiate(store, program.module)
        self._exports = dict(instance.exports(store).items())
        self._memory = self._exports["memory"]
        if "_initialize" in self._exports:
            self._exports["_initialize"](store)
        version = self._exports["plugin_api_version"](store)
        if version != API_VERSION:
            raise RemoteProtocolError(f"API version mismatch, host: {API_VERSION}, plugin: {version}")

    def _exchange(self, function: str, payload: bytes) -> bytes:
        """Write a request to the plugin's memory, run a function on it, and read the reply."""
        store, exports = self._store, self._exports
        place = 0
        if payload:
            place = exports["malloc"](store, len(payload)) & _MASK
            if not place or place + len(payload) > self._memory.data_len(store):
                raise RemoteProtocolError(f"malloc({len(payload)}) returned no memory for a request")
            self._memory.write(store, payload, place)
        packed = exports[function](store, place, len(payload))
        at, size = packed >> 32 & _MASK, packed & _MASK & ~_ERROR
        if at + size > self._memory.data_len(store):
            raise RemoteProtocolError(f"the reply of {function} is outside of the plugin's memory")
        if size > MAX_DATA:
            raise RemoteProtocolError(f"the reply of {function} has {size} bytes; at most {MAX_DATA} are allowed")
        reply = bytes(self._memory.read(store, at, at + size))
        for address in (at, place):
            if address:
                exports["free"](store, address)
        if packed & _ERROR:
            raise RpcError(Code.UNKNOWN, plain(reply.decode(errors="replace")))
        return reply

    def _fail(self, function: str, error: BaseException) -> Exception:
        """End the run because of an error. Returns the call's exception."""
        if self._stderr is not None:
            self._stderr.drain()
        what, late = failure_text(error), False
        with self._changed:
            if self._interrupted and not self._ending:
                late, what = True, "interrupted: it took too long"
            status = self._ending or f"{what} in {function}{self._memory_note()}"
            for line in frames(error) if not self._ending and not self._stderr_tail.text else ():
                self._stderr_tail.add(f"  in {line}\n".encode())
            self._set_status(status, failed=not self._ending)
        if late:
            return DeadlineExceeded(function)
        return error if isinstance(error, RemoteProtocolError) else ConnectionClosed(status)

    def _memory_note(self) -> str:
        """The size of the plugin's memory as text if it was close to the limit, else ""."""
        size = 0 if self._memory is None else self._memory.data_len(self._store)
        return f", with {size >> 20} of {MEMORY_BYTES >> 20} MiB of memory" if size > MEMORY_BYTES * 0.9 else ""

    # -- for the host's functions -------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        """The end of the current call, in monotonic seconds."""
        return self._deadline

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than the current call may take."""
        until = monotonic() + seconds
        with self._changed:
            until = min(until, self._deadline)
            while not self._interrupted and (remaining_s := until - monotonic()) > 0:
                self._changed.wait(remaining_s)
            if not self._interrupted and monotonic() >= self._deadline:
                self._interrupt()  # the supervisor's thread may be late

    def write(self, data: bytes) -> None:
        """Add a message of the host to the stored stderr."""
        if self._stderr is not None:
            self._stderr.drain()  # the plugin's own output came first
        self._stderr_tail.add(data)

    @property
    def stderr_path(self) -> str:
        """The file to which the plugin's stderr is written."""
        assert self._stderr is not None  # created before the linker
        return self._stderr.path


#: At most this many functions of a trap are named, the innermost first.
_FRAMES = 8


def failure_text(error: BaseException) -> str:
    """A text that describes how a function ended."""
    if isinstance(error, wasmtime.ExitTrap):
        return f"exit code {error.code}"
    if isinstance(error, wasmtime.Trap):
        code = error.trap_code
        return (
            f"trapped ({code.name.lower().replace('_', ' ')})" if code is not None else f"trapped ({_last_line(error)})"
        )
    return plain(_last_line(error))


def _last_line(error: BaseException) -> str:
    """The cause of an error, which is the last line of wasmtime's text."""
    return next(
        (line.strip() for line in reversed(str(error).split("\n")) if line.strip()), "an error without a message"
    )


def frames(error: BaseException) -> list[str]:
    """The names of the functions in which a trap happened, the innermost first."""
    if not isinstance(error, wasmtime.Trap):
        return []
    return [plain(frame.func_name or f"function {frame.func_index}", 200) for frame in error.frames[:_FRAMES]]
