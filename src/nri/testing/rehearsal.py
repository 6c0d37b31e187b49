"""Test the start of a plugin before it is installed: launch, configure and synchronize it as a runtime would.

The launcher is started by `nri.adaptation.launch`, with the environment and timeouts of a runtime without pods.
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
from nri.errors import NriError, failure_text
from nri.files import read_regular
from nri.host.process import numbers, read_stat
from nri.host.root import MACHINE
from nri.metrics import Observer
from nri.stub.program.failure_note import note_path
from nri.testing import FakeRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.adaptation import PluginHealth

_PR_SET_CHILD_SUBREAPER = 36
#: The plugin is started only once.
_POLICY = '[defaults]\nrestart = "never"\n'


class _Synchronization(Observer):
    """An observer that stores the error of a failed synchronization, which the process's end would hide."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:  # noqa: ARG002
        """Store the first error."""
        self.error = self.error or error


def rehearse(
    launcher: bytes, file_name: str, file: Path, config: Path | None, drop_ins: Path, timeout_s: float | None = None
) -> None:
    """Start a plugin as a runtime would.

    Args:
        launcher: the content of the launcher to install.
        file_name: the launcher's file name, ``NN-name``.
        file: the plugin's file, for errors.
        config: the plugin's configuration; None: the existing file in `drop_ins`, if it exists.
        drop_ins: the folder of drop-in configuration.
        timeout_s: how long the plugin may take to register, in seconds; None: the default of runtimes.

    Raises:
        NriError: the plugin does not become active; the error has the reason.
    """
    text, name = _configuration(config, drop_ins, file_name)
    with tempfile.TemporaryDirectory(prefix="nri-enable-", dir=executable_folder(file)) as scratch:
        plugins, configs = Path(scratch, "plugins"), Path(scratch, "conf.d")
        for folder in (plugins, configs):
            folder.mkdir(mode=0o700)
        (plugins / file_name).write_bytes(launcher)
        (plugins / file_name).chmod(0o700)
        (configs / f"{file_name}.conf").write_bytes(text)
        with _restore_note(file_name), _kill_descendants():
            reason = _launch(plugins, configs, file_name, timeout_s or REGISTRATION_TIMEOUT_S, file)
    if reason:
        raise NriError(f"{file}: does not start as the runtime would start it: {with_source(reason, name)}")


def _configuration(config: Path | None, drop_ins: Path, file_name: str) -> tuple[bytes, str]:
    """The configuration that the plugin would get, and its file. Raises NriError if it is not text."""
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
def _restore_note(file_name: str) -> Iterator[None]:
    """Restore the plugin's note for `nri doctor` after the block, because a failed test start must not leave a note."""
    path = Path(note_path(DEFAULT_SOCKET, file_name))
    had_folder = os.path.isdir(path.parent)  # also False without permission; then the file could not be written either
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
def _kill_descendants() -> Iterator[None]:
    """Kill processes that the plugin has left running. As a subreaper, this process becomes their parent."""
    libc = ctypes.CDLL(None)
    before = set(_child_pids())
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        while pids := set(_child_pids()) - before:  # repeat: children of ended processes move to this process
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _child_pids() -> list[int]:
    stats = ((pid, read_stat(MACHINE, pid)) for pid in numbers(MACHINE))
    return [pid for pid, stat in stats if stat is not None and stat.parent == os.getpid()]


def executable_folder(file: Path) -> str:
    """Choose a folder in which programs can be started. Hardened machines do not permit that in /tmp."""
    for folder in (tempfile.gettempdir(), "/var/tmp", str(file.parent)):  # noqa: S108 - a private folder is created in it
        if os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return folder
    return tempfile.gettempdir()


def _launch(plugins: Path, configs: Path, file_name: str, timeout_s: float, file: Path) -> str:
    """Launch the plugin, and end it again. Returns the reason why it did not become active, or ""."""
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
        return f"synchronize: {failure_text(synchronization.error, file_name)}"
    return reason_of(cut_off, runtime.health(file_name), timeout_s, file)


def reason_of(cut_off: str, ended: PluginHealth, timeout_s: float, file: Path) -> str:
    """The reason why a plugin did not become active: its own error text, if it has one, or the runtime's `cut_off`."""
    words = last_error_of(ended.last_words, file)
    if "timed out" in cut_off:
        return f"it does not register within {timeout_s:g} s{f'; its last output: {words}' if words else ''}"
    if words:
        return words
    if cut_off.startswith("failed to"):
        return cut_off
    if "exit code 0" in ended.last_error:
        return "it ends at once, without registering"
    return ended.last_error or "it does not register"


def last_error_of(words: str, file: Path) -> str:
    """Find the error in a program's output: the last line that begins with "error: ", or the end of a traceback."""
    lines = words.splitlines()
    error_lines = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if error_lines or not lines:
        return error_lines[-1] if error_lines else ""
    places = [f"{match[1]}:{match[2]}" for line in lines if (match := re.match(r'\s*File "(.+)", line (\d+)', line))]
    plugin_places = [place for place in places if place.startswith(f"{file}:")] or places
    return f"{plugin_places[-1]}: {lines[-1]}" if plugin_places else lines[-1]


def with_source(reason: str, name: str) -> str:
    """Replace "the runtime's configuration" by the name of the configuration file."""
    return reason.replace("the runtime's configuration", name, 1) if name else reason
