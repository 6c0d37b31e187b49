"""Pin network namespaces as files, so that they exist without a process."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
from pathlib import Path

from nri.engine.support.errors import EngineError, InvalidRequest
from nri.engine.support.kernel import CLONE_NEWNET, MS_BIND, enter, is_namespace, mount, unmount, unshare
from nri.files import private_folder, remove_tree
from nri.threads import run_on_new_thread

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


class NetworkNamespaces:
    """The namespaces pinned below `root`, by name."""

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)

    def create(self, name: str, of: int = 0) -> Path:
        """Pin a new namespace, or the namespace of process `of`, and set its loopback interface up.

        Raises EngineError if that fails; then no file is left.
        """
        path = self._path(name)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_CLOEXEC, 0o400))
        except FileExistsError:
            raise EngineError(f"the network namespace {path} already exists") from None
        try:
            run_on_new_thread(lambda: _make_namespace(path, of), "nri-engine-netns")
        except BaseException as error:
            self.remove(name)
            if isinstance(error, OSError):
                raise EngineError(f"cannot create the network namespace {path}: {error}") from error
            raise
        return path

    def remove(self, name: str) -> None:
        """Unpin a namespace. It ends with the last process in it. No effect if it does not exist."""
        path = self._path(name)
        while unmount(path, lazily=True):
            pass
        remove_tree(path)

    def exists(self, name: str) -> bool:
        """Return whether the namespace exists. After a reboot only its file exists."""
        return is_namespace(self._path(name))

    def names(self) -> list[str]:
        """Return the names of all namespaces, including those that a reboot has ended."""
        return sorted(path.name for path in self.root.iterdir())

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(f"{name!r} is not the name of a network namespace")
        return self.root / name


def _make_namespace(path: Path, of: int) -> None:
    """Move this thread to the network namespace, and pin it. The thread must end afterwards."""
    if of:
        enter(of, "net", CLONE_NEWNET)
    else:
        unshare(CLONE_NEWNET)
    _loopback_up()
    mount("/proc/thread-self/ns/net", path, flags=MS_BIND)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
        flags = struct.unpack("16sH14x", answer)[1] | _IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))
