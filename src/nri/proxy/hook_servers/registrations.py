"""The folder in which hook servers register: one file of JSON each, looked at before every request.

    {"remote-endpoint": "/run/koordlet.sock", "failure-policy": "Ignore", "runtime-hooks": ["PreRunPodSandbox"]}

Rules: the order of the servers is that of the files' names. A file is read again when its content
(`nri.config.watch`), mode or owner is another. A bad one is named in the log and passed over, and what was last good
of it stays; a file that is gone takes its server along. A person who may write such a file hears of every container, so
others must not. Next: `nri.proxy.hook_servers.servers`.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from pathlib import Path
from typing import Final

from nri.config.watch import fingerprint_of
from nri.files import open_regular
from nri.kube.shapes import Items, Record, decode
from nri.proxy.hook_servers.dispatch import STAGES, HookServer
from nri.text import plain

__all__ = ["FOLDER", "Registrations", "parse"]

#: Where Koordinator's own proxy looks.
FOLDER: Final = Path("/etc/runtime/hookserver.d")
#: More files than a node has hook servers, and more bytes than one needs.
MOST_FILES, MOST_BYTES = 64, 64 << 10
_SHAPE: Final = Record({"remote-endpoint": str, "failure-policy": str, "runtime-hooks": Items(str)})
_POLICIES = ("Fail", "Ignore", "")
#: A unix socket's path is no longer, in bytes.
_LONGEST_PATH = 107

_log = logging.getLogger("nri.proxy.hook_servers")


def parse(text: str) -> HookServer:
    """Read a registration file; ValueError says what is wrong with it. Stages that are not known are passed over."""
    found = decode(text, _SHAPE)
    endpoint = found.get("remote-endpoint", "").removeprefix("unix://")
    if not endpoint.startswith("/") or len(os.fsencode(endpoint)) > _LONGEST_PATH or "\0" in endpoint:
        raise ValueError(f"remote-endpoint: {plain(endpoint, 120)!r} is not the path of a unix socket")
    policy = found.get("failure-policy", "")
    if policy not in _POLICIES:
        raise ValueError(f"failure-policy: {plain(policy, 40)!r} is neither Fail nor Ignore")
    return HookServer(endpoint, tuple(name for name in found.get("runtime-hooks", ()) if name in STAGES), policy)


class Registrations:
    """The hook servers that are registered in a folder. Any thread may ask."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, ...]] = {}
        self._good: dict[str, HookServer] = {}
        self._problems: dict[str, str] = {}
        self._unread = ""

    def servers(self) -> list[HookServer]:
        """All that are registered now, in the order of their files' names."""
        with self._lock:
            self._look()
            return [self._good[name] for name in sorted(self._good)]

    def _look(self) -> None:
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json"))
        except OSError as error:
            absent = isinstance(error, FileNotFoundError)
            what = "is not there: no hook server is asked until one registers in it"
            if not absent:
                what = f"cannot be read, and nothing in it changes: {error}"
            if self._unread != what:  # said once, not at every request
                _log.warning("%s %s", self.folder, what)
            self._unread = what
            if not absent:
                return
            names = []
        else:
            self._unread = ""
        for name in self._problems.keys() - set(names):
            del self._problems[name]
        names, too_many = names[:MOST_FILES], names[MOST_FILES:]
        for name in self._seen.keys() - set(names):
            del self._seen[name]
            if self._good.pop(name, None):
                _log.info("%s: the hook server is no longer registered", self.folder / name)
        for name in too_many:
            self._report(name, f"it is more than {MOST_FILES} files")
        for name in names:
            self._read(name)

    def _read(self, name: str) -> None:
        path = self.folder / name
        try:
            found = path.stat()
            seen = (*fingerprint_of(found), found.st_mode, found.st_uid)  # a file may be bad by its owner or mode alone
            if self._seen.get(name) == seen:
                return
            self._seen[name] = seen
            server = parse(_text(path))
        except (OSError, ValueError) as error:
            self._report(name, str(getattr(error, "strerror", None) or error))
            return
        self._problems.pop(name, None)
        self._good[name] = server
        _log.info("%s: hook server %s for %s", path, server.endpoint, ", ".join(server.stages) or "nothing")

    def _report(self, name: str, problem: str) -> None:
        if self._problems.get(name) == problem:
            return
        self._problems[name] = problem
        kept = "what was last good of it stays" if name in self._good else "it is passed over"
        _log.warning("%s: %s; %s", plain(str(self.folder / name)), plain(problem), kept)


def _text(path: Path) -> str:
    descriptor = open_regular(path)  # it is judged when it is open, so that it cannot be another one by then
    try:
        found = os.fstat(descriptor)
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.geteuid()):
            raise ValueError(f"others may write to it (mode {found.st_mode & 0o7777:04o}, user {found.st_uid})")
        raw = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    return raw.decode()
