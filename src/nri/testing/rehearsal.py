"""A rehearsal of a plugin's start, before it is installed: launched, configured and synchronized as a runtime would.

Rules: nothing is left out and nothing simulated. The launcher itself is started by the launching part of the adaptation
(`nri.adaptation.launch`): no PATH, three variables, the folder /, the time that runtimes allow. The runtime behind it
is the one of our tests, without a pod in it. containerd 1.7 ends with "fatal" over a plugin that fails here. The
plugin's note for `nri doctor` is taken back: nothing has failed on the node. Processes that it has started are ended
with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nri.adaptation.launch import config_text
from nri.api.naming import DEFAULT_SOCKET, REGISTRATION_TIMEOUT_S, split_file_name
from nri.config.source import MAX_BYTES
from nri.errors import NriError
from nri.files import read_regular
from nri.host.process import numbers, read_stat
from nri.host.root import MACHINE
from nri.metrics import Observer
from nri.stub.program.failure_note import note_path
from nri.testing import FakeRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.adaptation import PluginHealth

__all__ = ["rehearse"]

_PR_SET_CHILD_SUBREAPER = 36
#: One start is all that is wanted to be seen.
_POLICY = '[defaults]\nrestart = "never"\n'


class _Synchronization(Observer):
    """Keeps the error of a failed synchronization, which the end of the process would cover."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:  # noqa: ARG002
        """Keep the first error."""
        self.error = self.error or error


def rehearse(
    launcher: bytes, file_name: str, file: Path, config: Path | None, drop_ins: Path, timeout_s: float | None = None
) -> None:
    """Start a plugin as a runtime would.

    Args:
        launcher: what would be installed.
        file_name: under which name, ``NN-name``.
        file: the plugin's own file, for errors.
        config: its configuration; None: the one that is in `drop_ins` already, if any.
        drop_ins: the folder of drop-in configuration.
        timeout_s: how long it has to register, in seconds; None: as long as runtimes allow.

    Raises:
        NriError: it does not take part, with the reason.
    """
    text, name = _configuration(config, drop_ins, file_name)
    with tempfile.TemporaryDirectory(prefix="nri-enable-", dir=executable_folder(file)) as scratch:
        plugins, configs = Path(scratch, "plugins"), Path(scratch, "conf.d")
        for folder in (plugins, configs):
            folder.mkdir(mode=0o700)
        (plugins / file_name).write_bytes(launcher)
        (plugins / file_name).chmod(0o700)
        (configs / f"{file_name}.conf").write_bytes(text)
        with _notes_kept(file_name), _nothing_left_running():
            reason = _start(plugins, configs, file_name, timeout_s or REGISTRATION_TIMEOUT_S, file)
    if reason:
        raise NriError(f"{file}: does not start as the runtime would start it: {with_source(reason, name)}")


def _configuration(config: Path | None, drop_ins: Path, file_name: str) -> tuple[bytes, str]:
    """Return the configuration that the plugin would get, and the file it comes from. NriError if it is not text."""
    if config is not None:
        raw = read_regular(config, MAX_BYTES)
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise NriError(f"{config}: not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}") from None
        return raw, str(config)
    text, path = config_text(str(drop_ins), *split_file_name(file_name))
    return text.encode(), path or ""


@contextlib.contextmanager
def _notes_kept(file_name: str) -> Iterator[None]:
    """Keep the plugin's note for `nri doctor` as it is: one that is started by a runtime looks for it where all do."""
    path = Path(note_path(DEFAULT_SOCKET, file_name))
    had_folder = os.path.isdir(path.parent)  # False too where we may not look, and so could not write
    before = path.read_bytes() if os.path.isfile(path) else None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if before is None:
                path.unlink(missing_ok=True)
            elif not path.is_file() or path.read_bytes() != before:
                path.write_bytes(before)
            if not had_folder:
                path.parent.rmdir()


@contextlib.contextmanager
def _nothing_left_running() -> Iterator[None]:
    """End what the plugin has started and left, also in a session of its own: it becomes a child of this process."""
    libc = ctypes.CDLL(None)
    before = set(_own_children())
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        while left := set(_own_children()) - before:  # and what these have started comes next
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _own_children() -> list[int]:
    stats = ((pid, read_stat(MACHINE, pid)) for pid in numbers(MACHINE))
    return [pid for pid, stat in stats if stat is not None and stat.parent == os.getpid()]


def executable_folder(file: Path) -> str:
    """Choose a folder in which programs may be started: machines that are locked up do not allow that in /tmp."""
    for folder in (tempfile.gettempdir(), "/var/tmp", str(file.parent)):  # noqa: S108 - a folder of our own is made in it
        if os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    return tempfile.gettempdir()


def _start(plugins: Path, configs: Path, file_name: str, timeout_s: float, file: Path) -> str:
    """Have the plugin launched, and ended again; returns why it does not take part, "" if it does."""
    synchronization = _Synchronization()
    with contextlib.chdir("/"):
        runtime = FakeRuntime(
            name="nri-enable",
            policy=_POLICY,
            plugin_path=str(plugins),
            plugin_config_path=str(configs),
            registration_timeout_s=timeout_s,
            observer=synchronization,
        )
        try:
            if runtime.adaptation.ready([file_name]):
                return ""
            cut_off = runtime.health(file_name).last_error
        finally:
            runtime.close()
    if synchronization.error is not None:
        return f"synchronize: {synchronization.error}"
    return reason_of(cut_off, runtime.health(file_name), timeout_s, file)


def reason_of(cut_off: str, ended: PluginHealth, timeout_s: float, file: Path) -> str:
    """Say why a plugin does not take part: in its own words if it has any; `cut_off` is what the runtime says."""
    words = last_error_of(ended.last_words, file)
    if "timed out" in cut_off:
        return f"it does not register within {timeout_s:g} s{f'; its last words: {words}' if words else ''}"
    if words:
        return words
    if cut_off.startswith("failed to"):
        return cut_off
    if "exit code 0" in ended.last_error:
        return "it ends at once, without registering"
    return ended.last_error or "it does not register"


def last_error_of(words: str, file: Path) -> str:
    """Find the error in what a program wrote: our own line, or a traceback's end and the author's line."""
    lines = words.splitlines()
    own = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if own or not lines:
        return own[-1] if own else ""
    places = [f"{found[1]}:{found[2]}" for line in lines if (found := re.match(r'\s*File "(.+)", line (\d+)', line))]
    theirs = [place for place in places if place.startswith(f"{file}:")] or places
    return f"{theirs[-1]}: {lines[-1]}" if theirs else lines[-1]


def with_source(reason: str, name: str) -> str:
    """Name the file instead of the way on which its text comes."""
    return reason.replace("the runtime's configuration", name, 1) if name else reason
