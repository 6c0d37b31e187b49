"""The programs of a node, one after the other: the file that names them, and what each gets to know of those before it.

The first error ends the chain, with the program's name before it, as in the reference. The file is read again when it
changes; while it cannot be used, the last good one stays in force. All of a chain has the time that the runtime gives
its plugin, and a program no more than its own. Next: `nri.plugins.v010_adapter.program`, `.request`.
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

__all__ = ["VERSION", "ChainError", "Listing", "ProgramChain", "ProgramEntry", "read_listing"]

#: Of the protocol, where the file is missing.
VERSION = "0.1"
#: Keys of the file, and how many others are reported.
KEYS = ("version", "plugins")
MAX_UNKNOWN_KEYS = 10
#: The longest file, in bytes.
MAX_FILE_BYTES = 1 << 20
#: The part of the runtime's time that programs may use: the answer has to arrive in time, too.
TIME_SHARE = 0.9


class ChainError(Exception):
    """A program refused, or did not do its work; the text begins with its name, and `words` is what it said last."""


class ProgramEntry(NamedTuple):
    """A program and its configuration; `conf` is a table with the key `conf`, or empty."""

    type: str
    conf: dict[str, Any]


class Listing(NamedTuple):
    """The content of the file; `unknown` are keys that were read past, in words."""

    version: str
    plugins: tuple[ProgramEntry, ...]
    unknown: tuple[str, ...] = ()


NOTHING = Listing(VERSION, ())


def read_listing(path: str) -> Listing:
    """The programs that a file names; none if it is missing. ConfigError if it cannot be used."""
    try:
        with open(path, "rb", opener=open_regular) as file:  # a pipe would wait for a writer
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise ConfigError(path, "", f"it cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(path, "", f"more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        document = parse_json(data)
    except ValueError as error:
        raise ConfigError(path, "", f"it is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(path, "", 'an object was expected, such as {"version": "0.1", "plugins": []}')
    version, plugins = document.get("version") or "", document.get("plugins", [])
    if not isinstance(version, str):
        raise ConfigError(path, "version", f'{version!r} is not text; write "{VERSION}"')
    if plugins is None:
        plugins = []
    if not isinstance(plugins, list):
        raise ConfigError(path, "plugins", "a list was expected")
    unknown = [f"{name}: unknown key, left out ({suggest(name, KEYS)})" for name in document if name not in KEYS]
    listed = tuple(_entry(path, place, row) for place, row in enumerate(plugins))
    return Listing(version, listed, tuple(unknown[:MAX_UNKNOWN_KEYS]))


def _entry(path: str, place: int, row: Any) -> ProgramEntry:
    key = f"plugins[{place}]"
    if not isinstance(row, dict):
        raise ConfigError(path, key, 'an object was expected, such as {"type": "clearcfs"}')
    kind = row.get("type")
    if not isinstance(kind, str) or not kind or "\0" in kind:
        raise ConfigError(path, f"{key}.type", "the name of a program was expected")
    if "/" in kind and not kind.startswith("/"):
        raise ConfigError(path, f"{key}.type", f"{kind!r} is neither a name nor an absolute path")
    return ProgramEntry(kind, {"conf": row["conf"]} if "conf" in row else {})


class ProgramChain:
    """The programs that a file names.

    Args:
        path: of the file.
        folder: where programs are that PATH has not.
        timeout_s: what one program may take, in seconds.
        max_bytes: what one program may write to stdout.
        tell: is called with a line for the log.
    """

    def __init__(
        self, path: str, folder: str, *, timeout_s: float, max_bytes: int, tell: Callable[[str], object]
    ) -> None:
        self._path, self._folder = path, folder
        self._timeout_s, self._max_bytes, self._tell = timeout_s, max_bytes, tell
        self._listing = NOTHING
        self._stamp: object = None

    def load(self) -> Listing:
        """Read the file, if it has changed since. ConfigError if it cannot be used; then the last good one stays."""
        stamp = fingerprint(self._path)
        if stamp != self._stamp or self._stamp is None:
            self._stamp = stamp
            self._listing = read_listing(self._path)
            self._log_problems()
        return self._listing

    def _log_problems(self) -> None:
        """Tell what of a new listing cannot work: keys that are not known, programs that are not there."""
        for warning in self._listing.unknown:
            self._tell(f"{self._path}: {plain(warning)}")
        path = self._programs_path()
        for kind in dict.fromkeys(entry.type for entry in self._listing.plugins):
            try:
                program.find(kind, path)
            except program.RunError as error:
                self._tell(f"{self._path}: {plain(str(error))}; all starts are refused until it is there")

    def _programs_path(self) -> str:
        return ":".join(_folders(os.environ.get("PATH", ""), self._folder))

    def pass_through(self, event: dict[str, Any], time_left_s: float | None) -> list[dict[str, Any]]:
        """Run all programs on a request; returns their results. ChainError with the first error."""
        try:
            listing = self.load()
        except ConfigError as error:
            self._tell(f"{error}; the last good one stays in force")
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
            raise program.RunError("no time was left for it")
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
            self._tell(f"{plain(entry.type, 200)} ended with {outcome.code}, and its result counts")
        return result


def _folders(path: str, last: str) -> Sequence[str]:
    """PATH and one more folder, without the empty words that mean the working directory."""
    return [folder for folder in (*path.split(":"), last) if folder]
