"""Files that only root and the runtime's user can change: every name on the path is checked and held open.

A plugin runs with the runtime's rights. So the owner and mode of the file matter, and those of every folder and link on
its path: a user who can write to a folder can replace a file in it, even between a check and a start. Each name is
opened relative to the folder before it, never twice by path, and links are followed step by step. A folder that other
users can write to is trusted if it is sticky, as `/tmp` is: users cannot replace files of other users in such a folder.

The interpreter in a script's first line is checked in the same way, and its own interpreter if it is a script, as far
as the kernel follows. Later steps of the interpreter are not checked: `/usr/bin/env` searches a program, a shell starts
programs, and any of them loads modules. Changes by root and the runtime's user in the meantime are not detected, nor
are file systems with inconsistent answers (FUSE, NFS).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from nri.text import plain

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

#: The path of a file may contain at most this many links; the kernel's limit.
MAX_LINKS = 40

#: At most this many scripts may be interpreters of scripts in a row; the kernel's limit.
MAX_INTERPRETERS = 4
#: The kernel reads this many bytes of a script's first line.
MAX_LINE_BYTES = 256

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedError(Exception):
    """Another user can change a file. The text names the user and the remedy."""


class TrustedFile:
    """A regular file that was reached only over trusted names. A context manager that closes the file.

    Raises:
        UntrustedError: another user can change the file.
        OSError: the file cannot be reached, or its path has too many links.
    """

    __slots__ = ("_file", "_folder", "_name")

    def __init__(self, path: str) -> None:
        self._file = -1
        self._name = ""
        self._folder = _root(path)
        try:
            self._walk(os.path.join(os.getcwd(), path))
        except BaseException:
            self.close()
            raise

    def _walk(self, path: str) -> None:
        names = [name for name in path.split("/") if name not in ("", ".")]
        names.reverse()
        links = 0
        while names:
            name = names.pop()
            fd = os.open(name, _LOOK, dir_fd=self._folder)
            try:
                info = os.fstat(fd)
                if stat.S_ISLNK(info.st_mode):
                    links += 1
                    if links > MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    _check("it" if not names else f"link {name}", info)
                    target = os.readlink("", dir_fd=fd)
                    names += [part for part in reversed(target.split("/")) if part not in ("", ".")]
                    if target.startswith("/"):
                        self._enter_folder(_root(path))
                elif names:
                    if not stat.S_ISDIR(info.st_mode):
                        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                    _check("its folder" if len(names) == 1 else f"folder {_path_of(fd)}", info)
                    self._enter_folder(fd)
                    fd = -1
                else:
                    if not stat.S_ISREG(info.st_mode):
                        raise UntrustedError("it is not a file")
                    _check("it", info)
                    self._name, self._file, fd = name, fd, -1
            finally:
                if fd >= 0:
                    os.close(fd)
        if self._file < 0:
            raise UntrustedError("it is not a file")
            # A number above the numbers of a child's own descriptors.
        self._enter_folder(fcntl.fcntl(self._folder, fcntl.F_DUPFD_CLOEXEC, 10))

    def _enter_folder(self, folder: int) -> None:
        before, self._folder = self._folder, folder
        os.close(before)

    @property
    def folder(self) -> int:
        """The descriptor of the folder that contains the file itself, not a link to it."""
        return self._folder

    @property
    def executable(self) -> str:
        """A path for `exec` through the open folder, so that no name above it is looked up again.

        Returns "" for a script: its interpreter gets the path, and does not have our descriptors.
        """
        is_script = self.read(2) == b"#!"
        return "" if is_script else f"/proc/self/fd/{self._folder}/{self._name}"

    @property
    def interpreter(self) -> str:
        """The interpreter in a script's first line, as the kernel reads it. Returns "" for a program."""
        head = self.read(MAX_LINE_BYTES)
        if not head.startswith(b"#!"):
            return ""
        words = head[2:].partition(b"\n")[0].replace(b"\t", b" ").split(b"\0")[0].split(b" ")
        return next((os.fsdecode(word) for word in words if word), "")

    def read(self, max_bytes: int) -> bytes:
        """Read at most `max_bytes` bytes of the file."""
        with open(self._open(os.O_RDONLY), "rb") as file:
            return file.read(max_bytes)

    def _open(self, flags: int) -> int:
        return os.open(f"/proc/self/fd/{self._file}", flags | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file. Calling it again has no effect."""
        for descriptor in (self._file, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._folder = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_interpreter(script: TrustedFile) -> str:
    """Check the interpreter of a script like the script itself. A program has no interpreter.

    Returns why the start will fail if the interpreter is missing, else "": the kernel's error would name the script.
    Raises UntrustedError if another user can change it.
    """
    path = script.interpreter
    for _ in range(MAX_INTERPRETERS):
        if not path:
            return ""
        try:
            with TrustedFile(path) as file:
                next_path = file.interpreter
        except FileNotFoundError:
            hint = "; the script has Windows line endings" if path.endswith("\r") else ""
            return f"its interpreter {plain(path)} does not exist{hint}"
        except UntrustedError as error:
            raise UntrustedError(f"its interpreter {plain(path)}: {error}") from None
        path = next_path
    return ""


def _root(path: str) -> int:
    """Open the root folder, where the path of every file begins."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check("its folder" if path.count("/") == 1 else "folder /", os.fstat(root))
    except BaseException:
        os.close(root)
        raise
    return root


def _path_of(descriptor: int) -> str:
    """The path of an open folder, for messages."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def outsider() -> int | None:
    """The number that stands for all users outside of our user namespace. Returns None if we are not in a namespace.

    In a namespace, parent folders that belong to the host's root seem to belong to another user. They are accepted if
    only their owner can write to them.
    """
    with open("/proc/self/uid_map", encoding="ascii") as file:
        if file.read().split() == ["0", "0", "4294967295"]:
            return None
    with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
        return int(file.read())


def _check(what: str, info: os.stat_result) -> None:
    """Raise UntrustedError if another user can change a file, a link or a folder."""
    mode = info.st_mode
    above = what.startswith("folder ")
    if info.st_uid not in (0, os.geteuid()) and not (above and info.st_uid == outsider()):
        raise UntrustedError(f"{what} belongs to user {info.st_uid}, who can change it; remedy: chown root")
    sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if mode & 0o022 and not stat.S_ISLNK(mode) and not sticky:
        bits = f"{stat.S_IMODE(mode):04o}"
        raise UntrustedError(f"{what} can be written by group or others (mode {bits}); remedy: chmod go-w")
