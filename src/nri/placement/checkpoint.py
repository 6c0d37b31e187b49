"""The state file: the pins of every container, written after each event and read at the start.

The first line is the complete state; each further line is the change of one event.
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
from nri.placement.state import Entries, PlacementState, check_version, json_entries, patch_tree

#: A container takes about 200 bytes.
MAX_BYTES = 16 << 20
#: Reading a JSON object takes 0.1 ms. A container has two objects, and one more for each change.
MAX_TABLES = 1 << 15
#: The number of values that `MAX_TABLES` objects can have.
_MAX_VALUES = MAX_TABLES << 4
#: The file is rewritten when the lines of changes are longer than this and longer than the first line.
_MIN_CHANGES_BYTES = 64 << 10
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Checkpoint:
    """The state file of one policy.

    Args:
        folder: the folder of the file; if it does not exist, it is created and only root can enter it.
        name: the name of the policy.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path = Path(folder) / f"{name}.json"
        self._name = name
        self._written_state: PlacementState | None = None
        #: Inode and size after our last write; if they differ, another program has replaced or changed the file.
        self._identity = (0, 0)
        #: The descriptor for further lines, and the function that closes it.
        self._file = -1
        self._close: Callable[[], object] = int
        #: How many more bytes and tables the lines of changes may have.
        self._remaining_bytes = self._remaining_tables = 0

    def read(self) -> tuple[PlacementState | None, str]:
        """The content of the file and "". If the file cannot be used, None and the reason.

        Raises:
            ConfigError: other users can write the file; it decides over CPUs, so it must not be trusted.
        """
        try:
            self._refuse_foreign(os.lstat(self.path))
            text = read_regular(self.path, MAX_BYTES, follow=False).decode()
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
            return None, f"{self.path}: written by the policy {state.policy}"
        return state, ""

    def _tree(self, text: str) -> Any:
        """The first line with the changes of all further lines. Raises ConfigError."""
        if not text:
            raise ConfigError(str(self.path), "", "the file is empty")
        for kind, sign, limit in (
            ("lines", "\n", MAX_TABLES),
            ("tables", "{", MAX_TABLES),
            ("values", ":", _MAX_VALUES),
        ):
            if (size := text.count(sign)) > limit:
                raise ConfigError(str(self.path), "", f"{size} {kind} in the file exceed the limit of {limit}")
        first, *more = text.split("\n")
        tree = parse_text(Source(str(self.path), first, "json"))
        check_version(tree)
        # The last line has no newline if the process was killed while it wrote; that event was never answered.
        for number, line in enumerate(more[:-1], 2):
            try:
                patch_tree(tree, parse_text(Source(str(self.path), line, "json")))
            except ConfigError:
                parse_text(Source(str(self.path), "\n" * (number - 1) + line, "json"))  # its error has the line number
                raise
            except (AttributeError, KeyError, TypeError) as error:
                where = f"{self.path}:{number}"
                raise ConfigError(where, "", f"the line is not a change of the first line: {line[:80]}") from error
        if isinstance(tree, dict):
            tree.setdefault("free", dict.fromkeys(tree.get("containers", ()), "cpus mems"))
        return tree

    def write(self, state: PlacementState) -> None:
        """Write the state, or only its changes since the last write. Raises OSError if the file cannot be written."""
        if self._written_state is None or not self.add(state.since(self._written_state)):
            self._write_whole(_line(state.tree()))
            self._written_state = state

    def add(self, entries: Entries) -> bool:
        """Append the changes in these entries. Returns False if the entire state must be written.

        Raises OSError if the file cannot be written.
        """
        written, self._written_state = self._written_state, None  # stays None if the write fails
        changes = None if written is None else written.take(entries)
        if changes is None or not self._is_unchanged() or (changes and not self._append(_line(json_entries(changes)))):
            return False
        self._written_state = written
        return True

    def _write_whole(self, data: bytes) -> None:
        try:
            # Without sync: after a crash of the machine none of these containers runs.
            write_whole(self.path, data, sync=False)
        except FileNotFoundError:
            private_folder(self.path.parent)
            write_whole(self.path, data, sync=False)
        self._close()
        self._file = os.open(self.path, _APPEND)
        self._close = finalize(self, os.close, self._file)
        self._identity = os.fstat(self._file).st_ino, len(data)
        self._remaining_bytes = min(max(len(data), _MIN_CHANGES_BYTES), MAX_BYTES - len(data))
        self._remaining_tables = MAX_TABLES - data.count(b"{")

    def _is_unchanged(self) -> bool:
        """Whether the file is as we wrote it last."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return (status.st_ino, status.st_size) == self._identity

    def _append(self, data: bytes) -> bool:
        """Append a line. Returns False if the file is too long or the write was incomplete."""
        self._remaining_bytes -= len(data)
        self._remaining_tables -= data.count(b"{")
        self._identity = self._identity[0], self._identity[1] + len(data)
        return min(self._remaining_bytes, self._remaining_tables) >= 0 and os.write(self._file, data) == len(data)

    def _refuse_foreign(self, status: os.stat_result) -> None:
        reason = ""
        if stat.S_ISLNK(status.st_mode):
            reason = "the state file must not be a link"
        elif status.st_mode & 0o022:
            reason = f"other users can write it: its mode is {status.st_mode & 0o777:o}"
        elif status.st_uid not in (0, os.geteuid()):
            reason = f"it belongs to user {status.st_uid}"
        if reason:
            raise ConfigError(str(self.path), _FOREIGN, reason, "remove it; then all containers are placed again")


_FOREIGN = "state file"


def _line(tree: dict[str, Any]) -> bytes:
    return _encoded(tree).encode() + b"\n"
