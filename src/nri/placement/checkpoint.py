"""The state file: what every container was given, written after each event and read at the start.

One job: :class:`Checkpoint`. Its first line has all, each that follows what one event has changed; a last line without
an end is what a kill has left of one that was never answered. Rules: a file that others could have written is refused,
because it decides over CPUs; one that cannot be read is reported, and counts as none. It is not waited for on the disk:
after a crash of the machine no container of it runs. Next: `nri.placement.state`, its content.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import finalize

from nri.config import Source, parse_text, read
from nri.errors import ConfigError
from nri.files import private_folder, read_regular, write_whole
from nri.placement.state import Entries, PlacementState, patched, plain, refuse_version

__all__ = ["Checkpoint"]

#: Some 200 bytes for each container.
MOST_BYTES = 16 << 20
#: Each takes a tenth of a millisecond to read. A container has two, and one more for each time that it changes.
MOST_TABLES = 1 << 15
#: As many as so many tables could have.
_MOST_VALUES = MOST_TABLES << 4
#: It is written whole again when lines of changes are longer than that, and than the first line.
_LEAST_CHANGES = 64 << 10
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Checkpoint:
    """The state file of one policy.

    Args:
        folder: made if it is not there, for root alone.
        name: of the policy.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path = Path(folder) / f"{name}.json"
        self._name = name
        self._written: PlacementState | None = None
        #: Its number and size after the last write: another one has been put there, or written to, by others.
        self._seen = (0, 0)
        #: It, open for further lines, and what closes it.
        self._file = -1
        self._close: Callable[[], object] = int
        #: How many bytes of changes there is room for, and how many tables.
        self._room = self._tables = 0

    def read(self) -> tuple[PlacementState | None, str]:
        """The content of the file, None if there is none, and why it cannot be used, "" if it can.

        Raises:
            ConfigError: others could have written it.
        """
        try:
            self._refuse_foreign(os.lstat(self.path))
            text = read_regular(self.path, MOST_BYTES, follow=False).decode()
            state = read(PlacementState, [Source(str(self.path), json.dumps(self._tree(text)), "json")])
        except FileNotFoundError:
            return None, ""
        except (OSError, ValueError) as error:
            return None, f"{self.path}: {getattr(error, 'strerror', None) or error}"
        except ConfigError as error:
            if error.key == _FOREIGN:
                raise
            return None, str(error)
        if state.policy != self._name:
            return None, f"{self.path}: it was written by {state.policy}"
        return state, ""

    def _tree(self, text: str) -> Any:
        """The first line with the changes of all others. Raises ConfigError."""
        if not text:
            raise ConfigError(str(self.path), "", "it is empty")
        for kind, sign, most in (
            ("lines", "\n", MOST_TABLES),
            ("tables", "{", MOST_TABLES),
            ("values", ":", _MOST_VALUES),
        ):
            if (found := text.count(sign)) > most:
                raise ConfigError(str(self.path), "", f"it has {found} {kind}, and at most {most} are read")
        first, *more = text.split("\n")
        tree = parse_text(Source(str(self.path), first, "json"))
        refuse_version(tree)
        for number, line in enumerate(more[:-1], 2):
            try:
                patched(tree, parse_text(Source(str(self.path), line, "json")))
            except ConfigError:
                parse_text(Source(str(self.path), "\n" * (number - 1) + line, "json"))  # says which line it is
                raise
            except (AttributeError, KeyError, TypeError) as error:
                where = f"{self.path}:{number}"
                raise ConfigError(where, "", f"the line is no change of the first: {line[:80]}") from error
        if isinstance(tree, dict):
            tree.setdefault("free", dict.fromkeys(tree.get("containers", ()), "cpus mems"))
        return tree

    def write(self, state: PlacementState) -> None:
        """Write what is to be kept, or what of it has changed. Raises OSError."""
        if self._written is None or not self.add(state.since(self._written)):
            self._write_whole(_line(state.tree()))
            self._written = state

    def add(self, entries: Entries) -> bool:
        """Write what of these has changed; whether that can be: else all is to be written. Raises OSError."""
        written, self._written = self._written, None  # should it fail
        changes = None if written is None else written.take(entries)
        if changes is None or not self._is_left() or (changes and not self._append(_line(plain(changes)))):
            return False
        self._written = written
        return True

    def _write_whole(self, data: bytes) -> None:
        try:
            write_whole(self.path, data, sync=False)
        except FileNotFoundError:
            private_folder(self.path.parent)
            write_whole(self.path, data, sync=False)
        self._close()
        self._file = os.open(self.path, _APPEND)
        self._close = finalize(self, os.close, self._file)
        self._seen = os.fstat(self._file).st_ino, len(data)
        self._room = min(max(len(data), _LEAST_CHANGES), MOST_BYTES - len(data))
        self._tables = MOST_TABLES - data.count(b"{")

    def _is_left(self) -> bool:
        """Whether the file is there as it was left."""
        try:
            found = os.lstat(self.path)
        except OSError:
            return False
        return (found.st_ino, found.st_size) == self._seen

    def _append(self, data: bytes) -> bool:
        """Add a line; whether there was room for it."""
        self._room -= len(data)
        self._tables -= data.count(b"{")
        self._seen = self._seen[0], self._seen[1] + len(data)
        return min(self._room, self._tables) >= 0 and os.write(self._file, data) == len(data)

    def _refuse_foreign(self, found: os.stat_result) -> None:
        reason = ""
        if stat.S_ISLNK(found.st_mode):
            reason = "it is a link"
        elif found.st_mode & 0o022:
            reason = f"others can write it: its mode is {found.st_mode & 0o777:o}"
        elif found.st_uid not in (0, os.geteuid()):
            reason = f"it belongs to user {found.st_uid}"
        if reason:
            raise ConfigError(str(self.path), _FOREIGN, reason, "remove it; all containers are placed again then")


_FOREIGN = "state file"


def _line(tree: dict[str, Any]) -> bytes:
    return _encoded(tree).encode() + b"\n"
