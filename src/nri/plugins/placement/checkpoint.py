"""The state file: what every container was given, written after each event and read at the start.

One job: :class:`Checkpoint`. Rules: a file that others could have written is refused, because it decides over CPUs; one
that cannot be read is reported, and counts as none. It is replaced whole and not waited for on the disk: after a crash
of the machine no container of it runs. Next: `nri.policies.placement.state`, its content.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from nri.config import Source, read
from nri.errors import ConfigError
from nri.files import private_folder, read_regular, write_whole
from nri.policies.placement.state import PlacementState

__all__ = ["Checkpoint"]

#: Some 200 bytes for each container.
_MOST_BYTES = 16 << 20


class Checkpoint:
    """The state file of one policy.

    Args:
        folder: made if it is not there, for root alone.
        name: of the policy.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path = Path(folder) / f"{name}.json"
        self._name = name

    def read(self) -> tuple[PlacementState | None, str]:
        """The content of the file, None if there is none, and why it cannot be used, "" if it can.

        Raises:
            ConfigError: others could have written it.
        """
        try:
            self._refuse_foreign(os.lstat(self.path))
            text = read_regular(self.path, _MOST_BYTES, follow=False).decode()
            state = read(PlacementState, [Source(str(self.path), text, "json")])
        except FileNotFoundError:
            return None, ""
        except (OSError, UnicodeDecodeError) as error:
            return None, f"{self.path}: {error}"
        except ConfigError as error:
            if error.key == _FOREIGN:
                raise
            return None, str(error)
        if state.policy != self._name:
            return None, f"{self.path}: it was written by {state.policy}"
        return state, ""

    def write(self, state: PlacementState) -> None:
        """Write what is to be kept. Raises OSError."""
        data = json.dumps(state.tree(), separators=(",", ":")).encode()
        try:
            write_whole(self.path, data, sync=False)
        except FileNotFoundError:
            private_folder(self.path.parent)
            write_whole(self.path, data, sync=False)

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
