"""Files that root and our own user alone decide about: every name on the way is looked at, and held open.

A plugin runs with the runtime's rights. So it counts who owns the file and who may write it, and the same goes for
every folder and link on the way to it: who may write a folder can put another file under a name in it, also between a
look and a start. Each name is opened from the folder before it, never twice by a path, and links are followed by hand.
A folder in which others may write is trusted if it is sticky, as `/tmp` is: there, no user replaces what is another's.

A script is run by the interpreter that its first line names, so the same goes for that one, and for what it names if it
is a script itself, as far as the kernel follows. The interpreter's own steps are not seen: `/usr/bin/env` looks for a
program, a shell starts one, and any of them loads modules.

It does not protect from changes by root and our own user in the meantime, nor from a file system that gives other
answers (FUSE, NFS).
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

__all__ = ["TrustedFile", "UntrustedError", "check_interpreter"]

#: Links on the way to one file; the kernel allows as many.
LINKS = 40

#: Scripts that are interpreters of scripts; the kernel follows as many.
INTERPRETERS = 4
#: How much of a script's first line the kernel reads.
LINE_BYTES = 256

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedError(Exception):
    """Others than root and our own user decide about a file; the text says who, and the remedy."""


class TrustedFile:
    """A regular file that was reached over trusted names alone. A context manager, which closes it.

    Raises:
        UntrustedError: others decide about it.
        OSError: it cannot be reached, or there are too many links.
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
            found = os.open(name, _LOOK, dir_fd=self._folder)
            try:
                info = os.fstat(found)
                if stat.S_ISLNK(info.st_mode):
                    links += 1
                    if links > LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    _check("it" if not names else f"link {name}", info)
                    target = os.readlink("", dir_fd=found)
                    names += [each for each in reversed(target.split("/")) if each not in ("", ".")]
                    if target.startswith("/"):
                        self._enter(_root(path))
                elif names:
                    if not stat.S_ISDIR(info.st_mode):
                        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                    _check("its folder" if len(names) == 1 else f"folder {_path_of(found)}", info)
                    self._enter(found)
                    found = -1
                else:
                    if not stat.S_ISREG(info.st_mode):
                        raise UntrustedError("it is not a file")
                    _check("it", info)
                    self._name, self._file, found = name, found, -1
            finally:
                if found >= 0:
                    os.close(found)
        if self._file < 0:
            raise UntrustedError("it is not a file")
        # Away from the numbers that a child's own descriptors are to have.
        self._enter(fcntl.fcntl(self._folder, fcntl.F_DUPFD_CLOEXEC, 10))

    def _enter(self, folder: int) -> None:
        before, self._folder = self._folder, folder
        os.close(before)

    @property
    def folder(self) -> int:
        """The descriptor of the folder that the file itself is in, wherever a link to it is."""
        return self._folder

    @property
    def executable(self) -> str:
        """A path for `exec` that goes through the open folder: no name above it is looked up again.

        "" for a script: the kernel gives its path to the interpreter, where our descriptors are not.
        """
        is_script = self.read(2) == b"#!"
        return "" if is_script else f"/proc/self/fd/{self._folder}/{self._name}"

    @property
    def interpreter(self) -> str:
        """The program that a script's first line names, as the kernel reads it; "" for a program."""
        head = self.read(LINE_BYTES)
        if not head.startswith(b"#!"):
            return ""
        words = head[2:].partition(b"\n")[0].replace(b"\t", b" ").split(b"\0")[0].split(b" ")
        return next((os.fsdecode(word) for word in words if word), "")

    def read(self, most: int) -> bytes:
        """The file's content, at most so many bytes."""
        with open(self._open(os.O_RDONLY), "rb") as file:
            return file.read(most)

    def _open(self, flags: int) -> int:
        return os.open(f"/proc/self/fd/{self._file}", flags | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file; twice is harmless."""
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


def check_interpreter(script: TrustedFile) -> None:
    """Look at the interpreter of a script as at the script itself; nothing for a program.

    UntrustedError: others than root and our own user decide about it. One that is missing is left to the start.
    """
    named = script.interpreter
    for _ in range(INTERPRETERS):
        if not named:
            return
        try:
            with TrustedFile(named) as file:
                following = file.interpreter
        except FileNotFoundError:
            return
        except UntrustedError as error:
            raise UntrustedError(f"its interpreter {plain(named)}: {error}") from None
        named = following


def _root(path: str) -> int:
    """The folder from which every walk begins."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check("its folder" if path.count("/") == 1 else "folder /", os.fstat(root))
    except BaseException:
        os.close(root)
        raise
    return root


def _path_of(descriptor: int) -> str:
    """The place of an open folder, for people."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def outsider() -> int | None:
    """The number of every user outside of our user namespace; None if we are not in one.

    There, root's own folders above ours look like another user's; that only their owner may write them has to do.
    """
    with open("/proc/self/uid_map", encoding="ascii") as file:
        if file.read().split() == ["0", "0", "4294967295"]:
            return None
    with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
        return int(file.read())


def _check(what: str, info: os.stat_result) -> None:
    """Raise UntrustedError if others than root and our own user can change a file, a link or a folder."""
    mode = info.st_mode
    above = what.startswith("folder ")
    if info.st_uid not in (0, os.geteuid()) and not (above and info.st_uid == outsider()):
        raise UntrustedError(f"{what} belongs to user {info.st_uid}, who can change it; remedy: chown root")
    sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if mode & 0o022 and not stat.S_ISLNK(mode) and not sticky:
        bits = f"{stat.S_IMODE(mode):04o}"
        raise UntrustedError(f"{what} can be written by group or others (mode {bits}); remedy: chmod go-w")
