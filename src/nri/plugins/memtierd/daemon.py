"""The memtierd of one container: its folder NAMESPACE/POD/CONTAINER, configuration and process.

A process of an earlier plugin is adopted or killed only if its command line has the configuration of that folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
from contextlib import ExitStack, suppress
from time import monotonic, sleep

from nri.errors import Reject
from nri.files import open_regular, read_regular, remove_tree, write_whole
from nri.host import process
from nri.host.root import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

PROGRAM = "memtierd"
CONFIG, OUTPUT, PID, STATS = "memtierd.config.yaml", "memtierd.output", "memtierd.pid", "memtierd.stats"
#: The kernel must end a killed process, or start a program, within this time.
KILL_TIMEOUT_S = 5.0
#: Interval of the checks during that time.
POLL_INTERVAL_S = 0.005
#: Maximum size of a configuration; a configuration has a few lines.
MAX_CONFIG_BYTES = 1 << 20
#: Longer output is discarded at the next check.
MAX_OUTPUT_BYTES = 4 << 20

#: Namespace, pod and container.
Owner = tuple[str, str, str]


class Daemon:
    """A memtierd process, which may have ended by itself, or the folder of an earlier process (`pid` 0)."""

    def __init__(self, folder: str, pid: int = 0) -> None:
        self.folder = folder
        self._pid = pid
        #: The id of the last container that it was started for; a restarted container has the same folder.
        self.container = ""
        #: Whether its end was logged.
        self.is_end_logged = False

    @classmethod
    def start(cls, run_dir: str, owner: Owner, template: str, cgroup: str) -> Self:
        """Create the folder and start the process. Raises Reject if that fails."""
        folder = os.path.join(run_dir, *owner)
        try:
            _make_folder(run_dir, owner)
            text = configuration(template, cgroup, folder)
            write_whole(os.path.join(folder, CONFIG), text.encode(), sync=False)
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, OUTPUT))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            output = os.open(os.path.join(folder, OUTPUT), flags, 0o600)
            try:
                streams: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
                streams += [(os.POSIX_SPAWN_DUP2, output, number) for number in (1, 2)]
                pid = os.posix_spawnp(PROGRAM, _command(folder), os.environ, file_actions=streams, setsid=True,
                                      setsigdef=[signal.SIGPIPE])  # fmt: skip
            finally:
                os.close(output)
            try:
                write_whole(os.path.join(folder, PID), f"{pid}\n".encode(), 0o400, sync=False)
            except OSError:
                os.kill(pid, signal.SIGKILL)  # without a pid file, no later plugin would find the process
                os.waitpid(pid, 0)
                raise
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and error.filename == PROGRAM:
                raise Reject(f"program {PROGRAM} not found in PATH ({os.environ.get('PATH', '')})") from None
            raise Reject(f"cannot start {PROGRAM}: {error}") from None
        return cls(folder, pid)

    @classmethod
    def adopt(cls, folder: str) -> Self | None:
        """The process that an earlier plugin has started for this folder. Returns None if the process has ended."""
        try:
            pid = int(read_regular(os.path.join(folder, PID), 64, follow=False))
        except (OSError, ValueError):
            return None
        return cls(folder, pid) if _is_running(folder, pid) else None

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        self._reap()
        return not _is_running(self.folder, self._pid)

    def has(self, template: str, cgroup: str) -> bool:
        """Whether the process was started with this configuration."""
        try:
            text = read_regular(os.path.join(self.folder, CONFIG), MAX_CONFIG_BYTES, follow=False).decode()
        except (OSError, UnicodeDecodeError):
            return False
        return text == configuration(template, cgroup, self.folder)

    def last_line(self) -> str:
        """The last line of the output. Returns "" without output."""
        try:
            with open(os.path.join(self.folder, OUTPUT), "rb", opener=open_regular) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 512))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line for line in reversed(lines) if line.strip()), "")

    def trim(self) -> None:
        """Discard the output if it is long: the process may run for years, and its folder is in memory."""
        with suppress(OSError):
            output = open_regular(os.path.join(self.folder, OUTPUT), os.O_WRONLY | os.O_NOFOLLOW)
            try:
                if os.fstat(output).st_size > MAX_OUTPUT_BYTES:
                    os.ftruncate(output, 0)
            finally:
                os.close(output)

    def stop(self) -> None:
        """Kill the process and remove its folder. Raises OSError if that fails."""
        with suppress(ProcessLookupError), ExitStack() as stack:
            if self._pid:
                descriptor = os.pidfd_open(self._pid)
                stack.callback(os.close, descriptor)
                if not self.ended:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    self._reap(KILL_TIMEOUT_S)
        remove_tree(self.folder)
        for above in (os.path.dirname(self.folder), os.path.dirname(os.path.dirname(self.folder))):
            with suppress(OSError):
                os.rmdir(above)  # fails unless empty

    def _reap(self, timeout_s: float = 0.0) -> None:
        """Collect the exit status if the process has ended. It may be the child of an earlier plugin."""
        end = monotonic() + timeout_s
        with suppress(ChildProcessError):
            while self._pid and os.waitpid(self._pid, os.WNOHANG)[0] == 0 and monotonic() < end:
                sleep(POLL_INTERVAL_S)


def configuration(template: str, cgroup: str, folder: str) -> str:
    """Return the configuration of a class for one container."""
    text = template.replace("$CGROUP2_ABS_PATH", cgroup)
    return text.replace("$MEMTIERD_SWAP_STATS_PATH", os.path.join(folder, STATS))


def existing_folders(run_dir: str) -> Iterator[tuple[Owner, str]]:
    """The folders of containers, which contain a configuration."""
    for namespace in _folders(run_dir):
        for pod in _folders(os.path.join(run_dir, namespace)):
            for name in _folders(os.path.join(run_dir, namespace, pod)):
                folder = os.path.join(run_dir, namespace, pod, name)
                if os.path.lexists(os.path.join(folder, CONFIG)):
                    yield (namespace, pod, name), folder


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _command(folder: str) -> list[str]:
    return [PROGRAM, "-c", "", "-config", os.path.join(folder, CONFIG)]


def _is_running(folder: str, pid: int) -> bool:
    """Whether this process is the memtierd of this folder."""
    end = monotonic() + KILL_TIMEOUT_S
    # A process has no command line while it starts a program, and after its end.
    while not (command := process.command_line(Root(), pid)) and monotonic() < end:
        status = process.read_stat(Root(), pid)
        if status is None or status.state in "ZX":
            return False
        sleep(POLL_INTERVAL_S)
    return command[-4:] == _command(folder)[1:]


def _make_folder(run_dir: str, parts: Sequence[str]) -> None:
    """Create a folder below `run_dir`. Raises OSError if its path has a link, ValueError if a name is invalid."""
    path = run_dir
    os.makedirs(run_dir, 0o700, exist_ok=True)
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part:
            raise ValueError(f"{part!r} is not the name of a folder")
        path = os.path.join(path, part)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # the umask may have removed bits; an existing folder keeps its mode
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder, or a link", path)


def present() -> bool:
    """Whether the program is in PATH."""
    return shutil.which(PROGRAM) is not None
