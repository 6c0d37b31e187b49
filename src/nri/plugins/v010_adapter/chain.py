"""Run the programs that a file names, one after the other. Each program gets the results of the programs before it.

As in the Go adapter, the first error ends the chain. The file is read again when it changes. While the file is invalid,
its last valid content stays in force.
"""

from __future__ import annotations

import json
import os
from time import monotonic
from typing import NamedTuple

from nri.config.complaint import suggest
from nri.config.syntax import parse_json
from nri.config.watch import fingerprint
from nri.errors import ConfigError
from nri.files import open_regular
from nri.plugins.v010_adapter import program, request
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: The protocol's version if the file is missing.
VERSION = "0.1"
#: The keys of the file.
KEYS = ("version", "plugins")
#: Report at most this many unknown keys.
MAX_UNKNOWN_KEYS = 10
#: Maximum size of the file.
MAX_FILE_BYTES = 1 << 20
#: All programs together may use this share of the runtime's timeout, so that the answer arrives in time.
TIME_SHARE = 0.9


class ChainError(Exception):
    """A program refused or failed. The message begins with the program's name."""


class ProgramEntry(NamedTuple):
    """A program and its configuration. `conf` is a dict with the key `conf`, or empty."""

    type: str
    conf: dict[str, Any]


class Listing(NamedTuple):
    """The content of the file. `unknown` has a warning for each unknown key."""

    version: str
    plugins: tuple[ProgramEntry, ...]
    unknown: tuple[str, ...] = ()


NOTHING = Listing(VERSION, ())


def read_listing(path: str) -> Listing:
    """Read the programs that a file names. A missing file has none. Raises ConfigError if the file is invalid."""
    try:
        with open(path, "rb", opener=open_regular) as file:  # opening a pipe would block
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise ConfigError(path, "", f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(path, "", f"more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        document = parse_json(data)
    except ValueError as error:
        raise ConfigError(path, "", f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(path, "", 'expected an object, such as {"version": "0.1", "plugins": []}')
    version, plugins = document.get("version") or "", document.get("plugins", [])
    if not isinstance(version, str):
        raise ConfigError(path, "version", f'{version!r} is not a string; write "{VERSION}"')
    if plugins is None:
        plugins = []
    if not isinstance(plugins, list):
        raise ConfigError(path, "plugins", "expected a list")
    unknown = [f"{name}: unknown key, ignored ({suggest(name, KEYS)})" for name in document if name not in KEYS]
    listed = tuple(_entry(path, place, row) for place, row in enumerate(plugins))
    return Listing(version, listed, tuple(unknown[:MAX_UNKNOWN_KEYS]))


def _entry(path: str, place: int, row: Any) -> ProgramEntry:
    key = f"plugins[{place}]"
    if not isinstance(row, dict):
        raise ConfigError(path, key, 'expected an object, such as {"type": "clearcfs"}')
    kind = row.get("type")
    if not isinstance(kind, str) or not kind or "\0" in kind:
        raise ConfigError(path, f"{key}.type", "expected the name of a program")
    if "/" in kind and not kind.startswith("/"):
        raise ConfigError(path, f"{key}.type", f"{kind!r} is neither a name nor an absolute path")
    return ProgramEntry(kind, {"conf": row["conf"]} if "conf" in row else {})


class ProgramChain:
    """The programs that a file names.

    Args:
        path: the path of the file.
        folder: the folder that is searched for programs after PATH.
        timeout_s: the limit for each program in seconds.
        max_bytes: the limit for each program's output.
        tell: called with a line for the log.
    """

    def __init__(
        self, path: str, folder: str, *, timeout_s: float, max_bytes: int, tell: Callable[[str], object]
    ) -> None:
        self._path, self._folder = path, folder
        self._timeout_s, self._max_bytes, self._tell = timeout_s, max_bytes, tell
        self._listing = NOTHING
        self._stamp: object = None

    def load(self) -> Listing:
        """Read the file if it has changed. Raises ConfigError if it is invalid; the last valid content stays valid."""
        stamp = fingerprint(self._path)
        if stamp != self._stamp or self._stamp is None:
            self._stamp = stamp
            self._listing = read_listing(self._path)
            self._log_problems()
        return self._listing

    def _log_problems(self) -> None:
        """Log unknown keys and missing programs of a new file."""
        for warning in self._listing.unknown:
            self._tell(f"{self._path}: {plain(warning)}")
        path = self._programs_path()
        for kind in dict.fromkeys(entry.type for entry in self._listing.plugins):
            try:
                program.find(kind, path)
            except program.RunError as error:
                self._tell(f"{self._path}: {plain(str(error))}; all starts are refused until it exists")

    def _programs_path(self) -> str:
        return ":".join(_folders(os.environ.get("PATH", ""), self._folder))

    def pass_through(self, event: dict[str, Any], time_left_s: float | None) -> list[dict[str, Any]]:
        """Run all programs on an event, and return their results. Raises ChainError if a program fails."""
        try:
            listing = self.load()
        except ConfigError as error:
            self._tell(f"{error}; the last valid content stays in force")
            listing = self._listing
        deadline = None if time_left_s is None else monotonic() + TIME_SHARE * time_left_s
        results: list[dict[str, Any]] = []
        for entry in listing.plugins:
            request_ = {**entry.conf, "version": listing.version, **event}
            if results:
                request_["results"] = results
            try:
                results.append(self._run(entry, request_, deadline))
            except (program.RunError, request.AnswerError) as error:
                raise ChainError(f"plugin: {plain(entry.type, 200)}: {plain(str(error))}") from None
        return results

    def _run(self, entry: ProgramEntry, request_: dict[str, Any], deadline: float | None) -> dict[str, Any]:
        timeout_s = self._timeout_s
        if deadline is not None:
            timeout_s = min(timeout_s, deadline - monotonic())
        if timeout_s <= 0:
            raise program.RunError("no time left")
        path = self._programs_path()
        outcome = program.run(
            program.find(entry.type, path),
            json.dumps(request_).encode(),
            timeout_s=timeout_s,
            max_bytes=self._max_bytes,
            environment={**os.environ, "PATH": path},
        )
        for line in outcome.stderr.splitlines():
            self._tell(f"{plain(entry.type, 200)}: {plain(line)}")
        result = request.read_result(outcome.output, outcome.code)
        if result["error"]:
            raise program.RunError(result["error"])
        if outcome.code:
            self._tell(f"{plain(entry.type, 200)} ended with exit code {outcome.code}; its result is used")
        return result


def _folders(path: str, last: str) -> Sequence[str]:
    """The folders of PATH and `last`, without empty entries, which would mean the working directory."""
    return [folder for folder in (*path.split(":"), last) if folder]
