"""The folder in which hook servers register, each with a JSON file. The folder is checked before every request.

    {"remote-endpoint": "/run/koordlet.sock", "failure-policy": "Ignore", "runtime-hooks": ["PreRunPodSandbox"]}

Servers are ordered by file name. An invalid file is logged and ignored, and its last valid content stays in force.
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

#: The folder of Koordinator's proxy.
FOLDER: Final = Path("/etc/runtime/hookserver.d")
MAX_FILES, MAX_BYTES = 64, 64 << 10
_SHAPE: Final = Record({"remote-endpoint": str, "failure-policy": str, "runtime-hooks": Items(str)})
_POLICIES = ("Fail", "Ignore", "")
#: The kernel's limit for the path of a unix socket.
_MAX_PATH_BYTES = 107

_log = logging.getLogger("nri.proxy.hook_servers")


def parse(text: str) -> HookServer:
    """Parse a registration file. Unknown stages are ignored. Raises ValueError for an invalid file."""
    registration = decode(text, _SHAPE)
    endpoint = registration.get("remote-endpoint", "").removeprefix("unix://")
    if not endpoint.startswith("/") or len(os.fsencode(endpoint)) > _MAX_PATH_BYTES or "\0" in endpoint:
        raise ValueError(f"remote-endpoint: {plain(endpoint, 120)!r} is not the path of a unix socket")
    policy = registration.get("failure-policy", "")
    if policy not in _POLICIES:
        raise ValueError(f"failure-policy: {plain(policy, 40)!r} must be Fail or Ignore")
    return HookServer(endpoint, tuple(name for name in registration.get("runtime-hooks", ()) if name in STAGES), policy)


class Registrations:
    """The hook servers that are registered in a folder. Thread-safe."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._fingerprints: dict[str, tuple[int, ...]] = {}
        self._good: dict[str, HookServer] = {}
        self._problems: dict[str, str] = {}
        self._folder_problem = ""

    def servers(self) -> list[HookServer]:
        """All registered servers, in the order of their files' names."""
        with self._lock:
            self._refresh()
            return [self._good[name] for name in sorted(self._good)]

    def _refresh(self) -> None:
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json"))
        except OSError as error:
            absent = isinstance(error, FileNotFoundError)
            what = "not found: no hook server is called until one registers in it"
            if not absent:
                what = f"cannot be read; the last registrations stay in force: {error}"
            if self._folder_problem != what:  # logged once, not at every request
                _log.warning("%s %s", self.folder, what)
            self._folder_problem = what
            if not absent:
                return
            names = []
        else:
            self._folder_problem = ""
        for name in self._problems.keys() - set(names):
            del self._problems[name]
        names, too_many = names[:MAX_FILES], names[MAX_FILES:]
        for name in self._fingerprints.keys() - set(names):
            del self._fingerprints[name]
            if self._good.pop(name, None):
                _log.info("%s: the hook server is no longer registered", self.folder / name)
        for name in too_many:
            self._report(name, f"the folder has more than {MAX_FILES} files")
        for name in names:
            self._read(name)

    def _read(self, name: str) -> None:
        path = self.folder / name
        try:
            status = path.stat()
            fingerprint = (
                *fingerprint_of(status),
                status.st_mode,
                status.st_uid,
            )  # a file may be invalid only because of its owner or mode
            if self._fingerprints.get(name) == fingerprint:
                return
            self._fingerprints[name] = fingerprint
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
        consequence = "its last valid content stays in force" if name in self._good else "the file is ignored"
        _log.warning("%s: %s; %s", plain(str(self.folder / name)), plain(problem), consequence)


def _text(path: Path) -> str:
    descriptor = open_regular(path)  # opened first, so that the checked file is the file that is read
    try:
        status = os.fstat(descriptor)
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or status.st_uid not in (0, os.geteuid()):
            raise ValueError(f"other users can write to it (mode {status.st_mode & 0o7777:04o}, owner {status.st_uid})")
        raw = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"longer than {MAX_BYTES} bytes")
    return raw.decode()
