"""Record every step of every event of a process into a folder of trace files.

    with Recorder("/var/lib/nri/traces") as recorder:
        Adaptation(..., reporters=[recorder])

Each step costs an event one tuple and one `append`. A thread encodes, redacts and compresses the steps, and writes a
block twice a second, so a killed process loses at most one second. If steps come faster than they can be written, or
the disk is full, steps are lost, counted, and noted in the file.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import sys
import threading
from collections import deque
from contextlib import suppress
from itertools import accumulate
from time import gmtime, monotonic, sleep, strftime, time, time_ns
from typing import TYPE_CHECKING, Any, Final, Self

from nri.api.naming import NRI_VERSION
from nri.errors import failure_text
from nri.text import count, cut
from nri.trace import blocks
from nri.trace.catalog import Catalog
from nri.trace.pb import api_pb2 as t
from nri.trace.redaction import Redactor
from nri.user_agent import package_version
from nri.wire import bytes_field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger("nri.trace")

#: The thread wakes at this many steps.
_WAKE_STEPS = 128
#: At most this many steps wait for the thread.
_MAX_STEPS = 32768
#: The waiting steps have at most this many bytes.
_MAX_HELD_BYTES = 64 << 20
#: The number of buffers for copies of requests.
_SLABS = 512
#: The size of a buffer for copies of requests.
_SLAB_BYTES = 16 << 10
#: At most this many events have such buffers.
_MAX_LENT = 32
#: A block is written at this size.
_BLOCK_BYTES = 256 << 10
#: A block is written at least this often, in seconds.
_BLOCK_S = 0.5
#: This much of a block is reserved for a record of lost steps.
_LOSS_BYTES: Final = 64
#: After this many records, other threads may run.
_YIELD_RECORDS: Final = 128
#: Kinds of steps as constants, because the generated enum is slow.
_BEGINS, _ASKED, _ANSWERED, _FAILED, _MERGED, _ENDS = t.BEGINS, t.ASKED, t.ANSWERED, t.FAILED, t.MERGED, t.ENDS
#: The requests of at most this many events are stored, for comparison with later requests.
_MAX_OPEN_EVENTS = 4096
#: The states of at most this many plugins are stored.
_MAX_PLUGINS = 256
#: A text is cut to this many characters.
_MAX_TEXT_CHARACTERS = 4096
#: A text of the metadata is cut to this many characters.
_MAX_ABOUT_CHARACTERS = 1 << 20
#: The errors of a full disk.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
#: Write errors are logged at most this often, in seconds.
_REPORT_INTERVAL_S: Final = 60.0
_NAME: Final = re.compile(r"nri-[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{8}\.nritrace")


class Limits:
    """Limits for the files and the folder of a recorder.

    Args:
        file_bytes, file_s: start a new file at this size or age.
        folder_bytes, folder_s: remove the oldest traces of the folder above this total size, and traces that were last
            written this long ago.
    """

    def __init__(
        self,
        *,
        file_bytes: int = 32 << 20,
        file_s: float = 6 * 3600.0,
        folder_bytes: int = 512 << 20,
        folder_s: float = 7 * 86400.0,
    ) -> None:
        self.file_bytes, self.file_s = file_bytes, file_s
        self.folder_bytes, self.folder_s = folder_bytes, folder_s


class Recorder:
    """A `nri.interfaces.Reporter` that writes traces. Thread-safe. `close` it, or use it in a `with` block.

    Args:
        folder: the folder of the files. If it does not exist, it is created for this user only.
        redact: replace values, but not names and error texts, see `nri.trace.redaction`.
        about: metadata of the recording, for example ``{"policy": text}``, written to each file.
        limits: the limits for files and folder.

    Raises OSError if the folder cannot be created or written to. A full disk raises no error: writing is tried again.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        redact: bool = True,
        about: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._steps: deque[tuple[Any, ...]] = deque()
        self._add_step: Callable[[tuple[Any, ...]], None] = self._steps.append
        self._slabs = _Slabs()
        self._held_bytes = 0
        self._lost = 0
        self._wake = threading.Event()
        self._ended = False
        self._writer = _Writer(
            os.fspath(folder), redact, _metadata(redact, about or {}), limits or Limits(), self._slabs
        )
        self._writing = threading.Thread(target=self._run, name="nri-recorder", daemon=True)
        self._writing.start()

    # -- calls of the adaptation --------------------------------------------------------------------------------------

    # Each of these runs several times in an event, so only the first one checks the limits.

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Record the start of an event."""
        self._held_bytes += len(request)
        if len(self._steps) >= _WAKE_STEPS or self._held_bytes > _MAX_HELD_BYTES:
            self._wake_writer()
        self._add_step((_BEGINS, time_ns(), serial, event, "", self._slabs.copied(serial, request), None, 0.0))

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """Record a call of a plugin."""
        self._held_bytes += len(request)
        self._add_step((_ASKED, time_ns(), serial, event, plugin, self._slabs.copied(serial, request), None, 0.0))

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """Record the answer of a plugin."""
        if reply:
            self._held_bytes += len(reply)
        self._add_step((_ANSWERED, time_ns(), serial, event, plugin, reply, None, duration_s))

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Record an error of a plugin, or a missing answer."""
        self._add_step((_FAILED, time_ns(), serial, event, plugin, b"", error_record(error, plugin), duration_s))

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """Record that an answer was merged or refused."""
        self._add_step((_MERGED, 0, serial, event, plugin, b"", error and error_record(error), 0.0))

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """Record the end of an event."""
        if reply:
            self._held_bytes += len(reply)
        self._add_step((_ENDS, time_ns(), serial, event, "", reply, error and error_record(error), duration_s))

    def plugin_changed(self, plugin: str, state: str, about: Mapping[str, str]) -> None:
        """Record a new state of a plugin."""
        self._held_bytes += sum(map(len, about.values()))
        if len(self._steps) >= _WAKE_STEPS or self._held_bytes > _MAX_HELD_BYTES:  # a plugin may reconnect at any rate
            self._wake_writer()
        self._add_step((t.PLUGIN, time_ns(), 0, state, plugin, b"", dict(about), 0.0))

    def _wake_writer(self) -> None:
        """Wake the thread. Drop further steps if too many wait."""
        if len(self._steps) >= _MAX_STEPS or self._held_bytes > _MAX_HELD_BYTES:
            self._add_step = self._drop_step
        if not self._wake.is_set():
            self._wake.set()

    def _drop_step(self, step: tuple[Any, ...]) -> None:
        if isinstance(step[5], tuple):
            self._slabs.replace()
        self._lost += 1  # not atomic, so messages say "at least"

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Write steps until `close`."""
        due = monotonic() + _BLOCK_S
        while not self._ended:
            self._wake.wait(max(0.0, due - monotonic()))
            self._wake.clear()
            self._drain()
            if monotonic() >= due:
                self._flush()
                due = monotonic() + _BLOCK_S
        self._drain()
        self._writer.close()

    def _flush(self) -> None:
        try:
            self._writer.flush()
        except Exception:
            log.exception("a part of the recording could not be written")

    def _drain(self) -> None:
        """Pass the steps that wait now to the writer."""
        steps, writer = self._steps, self._writer
        self._held_bytes = 0
        lost, self._lost = self._lost, 0
        self._add_step = self._drop_step if self._ended else steps.append
        for number in range(len(steps)):
            if number % _YIELD_RECORDS == _YIELD_RECORDS - 1:
                sleep(0)  # a thread of an event may be waiting for the interpreter
            try:
                writer.add(steps.popleft())
            except Exception:  # noqa: BLE001 - a step that cannot be written must not end the recording
                lost += 1
        writer.lost += lost

    def close(self) -> None:
        """Write the waiting steps and end the file. Later steps are dropped."""
        self._ended = True
        self._add_step = self._drop_step
        self._wake.set()
        self._writing.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _metadata(redact: bool, more: Mapping[str, str]) -> dict[str, str]:
    return {
        "nri": package_version(),
        "protocol": NRI_VERSION,
        "python": sys.version.split()[0],
        "recording": secrets.token_hex(8),
        "redact": "values" if redact else "none",
        **{key: _text(text, _MAX_ABOUT_CHARACTERS) for key, text in more.items()},
    }


def _text(text: str, length: int = _MAX_TEXT_CHARACTERS) -> str:
    """Cut a text, and replace lone surrogates, which file names may contain and messages cannot."""
    return cut(text, length).encode(errors="replace").decode()


def error_record(error: Exception, plugin_name: str = "") -> t.Error:
    """Convert an error to a message, because the exception would keep the frames of its event in memory."""
    code = getattr(error, "code", 0)
    message, plugin = getattr(error, "message", ""), getattr(error, "plugin", "")
    return t.Error(
        kind=type(error).__name__,
        text=_text(failure_text(error, plugin_name)),
        code=code if isinstance(code, int) and 0 <= code < 1 << 31 else 0,
        message=_text(message) if isinstance(message, str) else "",
        plugin=plugin if isinstance(plugin, str) else "",
    )


class _Slabs:
    """Reusable buffers for copies of requests, lent to events until their end is written.

    Storing the requests themselves would force each new request into uncached memory, which costs an event more than
    all its steps. Without a free buffer, or for a long request, the request itself is stored.
    """

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque([bytearray() for _ in range(_SLABS)], maxlen=_SLABS)
        self._last_buffer: tuple[int, tuple[bytearray, int]] = (0, (bytearray(), 0))
        self._lent_buffers: dict[int, list[bytearray]] = {}

    def copied(self, serial: int, request: bytes) -> tuple[bytearray, int] | bytes:
        """Copy a request. Returns the buffer and the length, or the request itself. Thread-safe."""
        length, last = len(request), self._last_buffer
        if last[0] == serial and last[1][1] == length and last[1][0].startswith(request):
            return last[1]  # reserved for this event until its end
        if not 0 < length <= _SLAB_BYTES:
            return request
        try:
            slab = self._free.pop()
        except IndexError:
            return request
        if len(slab) < length:
            slab = bytearray(length | 1023)
        slab[:length] = request
        copy = slab, length
        self._last_buffer = serial, copy
        return copy

    def replace(self) -> None:
        """Replace a buffer that may still be in use by a new buffer."""
        self._free.append(bytearray())

    # Only for the writer's thread.

    def lent(self, serial: int, slab: bytearray) -> None:
        """Record a buffer of an event."""
        slabs = self._lent_buffers.setdefault(serial, [])
        if not any(other is slab for other in slabs):
            slabs.append(slab)
        if len(self._lent_buffers) > _MAX_LENT:  # the end of the oldest event was lost, or is late
            for _ in self._lent_buffers.pop(next(iter(self._lent_buffers))):
                self.replace()

    def ended(self, serial: int) -> None:
        """Return the buffers of an event."""
        self._free.extend(self._lent_buffers.pop(serial, ()))


class _Writer:
    """Encodes steps as records and blocks, and writes files. Not thread-safe."""

    def __init__(self, folder: str, redact: bool, about: dict[str, str], limits: Limits, slabs: _Slabs) -> None:
        self._folder, self._metadata, self._limits, self._slabs = folder, about, limits, slabs
        self._redactor = Redactor() if redact else None
        self._types = Catalog()
        self._kinds: dict[tuple[str, bool], Any] = {}
        self._plugins: dict[str, t.Record] = {}
        self._requests: dict[int, tuple[bytes, t.Record]] = {}
        self._block: list[bytes] = []
        self._first_ns = self._last_ns = 0
        self._bytes = 0
        self._file = -1
        self._file_bytes, self._file_begun = 0, 0.0
        self.lost = 0  # number of lost steps that are not yet noted in the file
        self._failing, self._reported_at = False, float("-inf")
        try:
            self._open()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._log_failure(error)

    def add(self, step: tuple[Any, ...]) -> None:
        """Add a step to the current block."""
        kind, time_ns_, serial, event, plugin, message, error, duration_s = step
        if isinstance(message, tuple):
            slab, length = message
            self._slabs.lent(serial, slab)
            message = bytes(memoryview(slab)[:length])
        if kind == _ENDS:
            self._slabs.ended(serial)
        record = t.Record(kind=kind, time_ns=time_ns_ or self._last_ns, serial=serial, event=event, plugin=plugin)
        if duration_s:
            record.duration_ns = max(0, int(duration_s * 1e9))
        if kind == t.PLUGIN:
            self._plugin(record, error)
        elif error:
            record.error.CopyFrom(error)
        if kind in (_BEGINS, _ASKED):
            self._request(record, message)
        elif message:
            self._message(record, message, reply=True)
        if kind == _ENDS:
            self._requests.pop(serial, None)
        self._append(record)

    def _plugin(self, record: t.Record, about: dict[str, str]) -> None:
        if self._redactor is not None and "config" in about:
            about["config"] = self._redactor.text(about["config"])
        record.about.update({key: _text(text, _MAX_ABOUT_CHARACTERS) for key, text in about.items()})
        self._plugins.pop(record.plugin, None)
        self._plugins[record.plugin] = record
        if len(self._plugins) > _MAX_PLUGINS:
            del self._plugins[next(iter(self._plugins))]

    def _request(self, record: t.Record, message: bytes) -> None:
        """Add a request, or mark it as equal to the previous one of the event."""
        previous = self._requests.get(record.serial)
        if previous is not None and previous[0] == message:
            record.same = record.kind == _ASKED
            record.redacted = previous[1].redacted
            return
        self._message(record, message, reply=False)
        self._requests.pop(record.serial, None)
        self._requests[record.serial] = message, record
        if len(self._requests) > _MAX_OPEN_EVENTS:
            del self._requests[next(iter(self._requests))]

    def _message(self, record: t.Record, message: bytes, *, reply: bool) -> None:
        """Add a redacted message. A message that is too long, or cannot be parsed for redaction, is left out."""
        if self._redactor is not None and message:
            try:
                message, record.redacted = self._redactor.encoded(self._type(record.event, reply), message)
            except Exception:  # noqa: BLE001 - the decoder's errors have no common base, and a plugin's reply may be anything
                record.omitted_bytes = len(message)
                return
        if len(message) > blocks.MAX_MESSAGE_BYTES:
            record.omitted_bytes = len(message)
        else:
            record.message = message

    def _type(self, event: str, reply: bool) -> Any:
        message_type = self._kinds.get((event, reply))
        if message_type is None:
            message_type = self._find(event, reply)
            if len(self._kinds) < _MAX_PLUGINS:
                self._kinds[event, reply] = message_type
        return message_type

    def _find(self, event: str, reply: bool) -> Any:
        for service in ("Plugin", "Runtime"):
            method = self._types.find(f"nri.pkg.api.v1alpha1.{service}", event)
            if method is not None:
                break
        else:
            raise LookupError(event)
        return method.reply if reply else method.request

    def _append(self, record: t.Record) -> None:
        encoded = bytes_field(1, record.SerializeToString())
        if self._bytes + len(encoded) > blocks.MAX_CONTENT_BYTES - _LOSS_BYTES:
            self.flush()
        self._add_to_block(record.time_ns, encoded)
        if self._bytes >= _BLOCK_BYTES:
            self.flush()

    def _add_to_block(self, time_ns_: int, encoded: bytes) -> None:
        if not self._block:
            self._first_ns = self._last_ns = time_ns_
        self._first_ns, self._last_ns = min(self._first_ns, time_ns_), max(self._last_ns, time_ns_)
        self._block.append(encoded)
        self._bytes += len(encoded)

    # -- files --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the current block, to a new file if the current file was removed. Unwritable steps are lost."""
        steps = len(self._block)
        if self.lost:
            loss = t.Record(kind=t.LOST, time_ns=time_ns(), count=self.lost)
            self._add_to_block(loss.time_ns, bytes_field(1, loss.SerializeToString()))
        raw, records = b"".join(self._block), len(self._block)
        self._block.clear()
        self._bytes = 0
        if not records:
            return
        try:
            if self._file >= 0:
                status = os.fstat(self._file)
                if not status.st_nlink or status.st_size < self._file_bytes:
                    self._close_file()  # another program has removed or truncated the file
            if self._file < 0:
                self._open()
            self._write(blocks.pack(raw, records, self._first_ns, self._last_ns))
        except OSError as error:
            self.lost += steps
            self._log_failure(error)
            return
        if self._failing:
            log.warning("the recorder writes to %s again; at least %s lost", self._folder, count(self.lost, "step"))
        self.lost, self._failing = 0, False
        limits = self._limits
        if self._file_bytes >= limits.file_bytes or monotonic() - self._file_begun >= limits.file_s:
            self._end_file()

    def _log_failure(self, error: OSError) -> None:
        """Log a write error."""
        self._requests.clear()
        if error.errno not in _NO_ROOM:
            self._close_file()  # the file may be unusable
        if not self._failing and monotonic() - self._reported_at > _REPORT_INTERVAL_S:
            self._failing, self._reported_at = True, monotonic()
            reason = error.strerror or error
            log.warning("the recorder cannot write to %s: %s; steps are lost until it can", self._folder, reason)

    def _open(self) -> None:
        """Create a file that can be read without earlier files. Remove it again after an error."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._remove_old_traces()
        now = time()
        stamp = f"{strftime('%Y%m%dT%H%M%S', gmtime(now))}.{int(now % 1 * 1e6):06}Z-{secrets.token_hex(4)}"
        path = os.path.join(self._folder, f"nri-{stamp}{blocks.SUFFIX}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        self._file_bytes, self._file_begun = 0, monotonic()
        self._requests.clear()
        try:
            self._begin_file()
        except OSError:
            self._close_file()
            with suppress(OSError):
                os.unlink(path)
            raise

    def _begin_file(self) -> None:
        """Write the beginning of a file: metadata of the recording, and the known plugins."""
        opened = t.Record(kind=t.OPENED, time_ns=time_ns(), about=self._metadata)
        waiting = [bytes_field(1, record.SerializeToString()) for record in (opened, *self._plugins.values())]
        self._write(blocks.MAGIC)
        while waiting:  # several blocks only for very large configurations
            sizes = accumulate(map(len, waiting))
            number = max(1, sum(size <= blocks.MAX_CONTENT_BYTES for size in sizes))
            self._write(blocks.pack(b"".join(waiting[:number]), number, opened.time_ns, opened.time_ns))
            del waiting[:number]

    def _write(self, data: bytes) -> None:
        remaining = data
        try:
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._file_bytes)  # remove the incomplete block
            raise
        self._file_bytes += len(data)

    def _end_file(self) -> None:
        """Write the final record of a file and close it."""
        now = time_ns()
        raw = bytes_field(1, t.Record(kind=t.CLOSED, time_ns=now).SerializeToString())
        with suppress(OSError):
            self._write(blocks.pack(raw, 1, now, now))
        self._close_file()

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _remove_old_traces(self) -> None:
        """Remove old traces of the folder according to the limits."""
        limits, now, traces = self._limits, time(), []
        for entry in os.scandir(self._folder):
            if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # another recorder may have removed it
                    status = entry.stat(follow_symlinks=False)
                    traces.append((entry.name, status.st_size, status.st_mtime))
        total = sum(size for _, size, _ in traces)
        for name, size, written in sorted(traces):
            if total > limits.folder_bytes or now - written > limits.folder_s:
                with suppress(OSError):
                    os.unlink(os.path.join(self._folder, name))
                total -= size

    def close(self) -> None:
        """Write the last block and end the file."""
        self.flush()
        if self._file >= 0:
            self._end_file()
