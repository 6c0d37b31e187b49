"""One memtierd for one container: folder, configuration and process, also that of a plugin that was here before.

Rules: the folder is NAMESPACE/POD/CONTAINER below the plugin's own, each part of it a real folder that only this user
can enter; a process is taken over or killed only if its command line has the configuration of that folder.
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

__all__ = ["PROGRAM", "Daemon", "Owner", "existing_folders", "present"]

PROGRAM = "memtierd"
CONFIG, OUTPUT, PID, STATS = "memtierd.config.yaml", "memtierd.output", "memtierd.pid", "memtierd.stats"
#: How long the kernel may take to end a process that was killed, or to begin one, in seconds.
KILL_TIMEOUT_S, POLL_INTERVAL_S = 5.0, 0.005
#: A configuration is a few lines; a pid file has one.
MAX_CONFIG_BYTES = 1 << 20
#: Of its output, at a look for it: what is longer begins anew.
MAX_OUTPUT_BYTES = 4 << 20

#: Namespace, pod and container.
Owner = tuple[str, str, str]


class Daemon:
    """A memtierd, which may have ended by itself; without a process, a folder that one has left."""

    def __init__(self, folder: str, pid: int = 0) -> None:
        self.folder = folder
        self._pid = pid
        #: The id of the container that it was last wanted for; a pod's next one has the same folder.
        self.container = ""
        #: Whether the log says already that it has ended by itself.
        self.is_end_logged = False

    @classmethod
    def start(cls, run_dir: str, owner: Owner, template: str, cgroup: str) -> Self:
        """Start one. Reject says why there is none."""
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
                os.kill(pid, signal.SIGKILL)  # nobody would find it again
                os.waitpid(pid, 0)
                raise
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and error.filename == PROGRAM:
                raise Reject(f"there is no program {PROGRAM} in PATH ({os.environ.get('PATH', '')})") from None
            raise Reject(f"cannot start {PROGRAM}: {error}") from None
        return cls(folder, pid)

    @classmethod
    def adopt(cls, folder: str) -> Self | None:
        """The one that an earlier plugin has started for this folder; None if it does not run."""
        try:
            pid = int(read_regular(os.path.join(folder, PID), 64, follow=False))
        except (OSError, ValueError):
            return None
        return cls(folder, pid) if _is_running(folder, pid) else None

    @property
    def ended(self) -> bool:
        """Whether it runs no longer."""
        self._reap()
        return not _is_running(self.folder, self._pid)

    def has(self, template: str, cgroup: str) -> bool:
        """Whether it was started with this configuration."""
        try:
            text = read_regular(os.path.join(self.folder, CONFIG), MAX_CONFIG_BYTES, follow=False).decode()
        except (OSError, UnicodeDecodeError):
            return False
        return text == configuration(template, cgroup, self.folder)

    def last_line(self) -> str:
        """The last line of its output, or "" if there is none."""
        try:
            with open(os.path.join(self.folder, OUTPUT), "rb", opener=open_regular) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 512))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line for line in reversed(lines) if line.strip()), "")

    def trim(self) -> None:
        """Let its output begin anew if it has become long: it may run for years, and its folder is in memory."""
        with suppress(OSError):
            output = open_regular(os.path.join(self.folder, OUTPUT), os.O_WRONLY | os.O_NOFOLLOW)
            try:
                if os.fstat(output).st_size > MAX_OUTPUT_BYTES:
                    os.ftruncate(output, 0)
            finally:
                os.close(output)

    def stop(self) -> None:
        """Kill it and remove its folder. OSError if that cannot be removed."""
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
                os.rmdir(above)  # the last of its pod, of its namespace

    def _reap(self, timeout_s: float = 0.0) -> None:
        """Take its exit status if it has ended, as a parent must; it may be no child of ours."""
        end = monotonic() + timeout_s
        with suppress(ChildProcessError):
            while self._pid and os.waitpid(self._pid, os.WNOHANG)[0] == 0 and monotonic() < end:
                sleep(POLL_INTERVAL_S)


def configuration(template: str, cgroup: str, folder: str) -> str:
    """The configuration of a class for one container."""
    text = template.replace("$CGROUP2_ABS_PATH", cgroup)
    return text.replace("$MEMTIERD_SWAP_STATS_PATH", os.path.join(folder, STATS))


def existing_folders(run_dir: str) -> Iterator[tuple[Owner, str]]:
    """The folders that this plugin has created for containers; other folders have no configuration in them."""
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
    """Whether this process is the memtierd of this folder.

    One that becomes a program in this moment has no command line yet, which one that has ended has not either.
    """
    end = monotonic() + KILL_TIMEOUT_S
    while not (command := process.command_line(Root(), pid)) and monotonic() < end:
        status = process.read_stat(Root(), pid)
        if status is None or status.state in "ZX":
            return False
        sleep(POLL_INTERVAL_S)
    return command[-4:] == _command(folder)[1:]


def _make_folder(run_dir: str, parts: Sequence[str]) -> None:
    """Make a folder below `run_dir`. OSError for a link in place of one; ValueError for what is not the name of one."""
    path = run_dir
    os.makedirs(run_dir, 0o700, exist_ok=True)
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part:
            raise ValueError(f"{part!r} is not the name of a folder")
        path = os.path.join(path, part)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # whatever the umask is; an existing folder keeps its mode
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is a link, or no folder", path)


def present() -> bool:
    """Whether there is such a program."""
    return shutil.which(PROGRAM) is not None
