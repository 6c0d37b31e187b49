"""The hooks of several directories, read again when something in them has changed.

One job: which hooks there are now. Rules: of files of the same name the one in the last directory counts; directories
that are not there are empty, and seen when they come. A set of files is taken as a whole: as long as one of them is
broken, all hooks stay what they were, so that no container misses a hook because of a file that is being edited. A
file whose program is not there is left out, with a warning, until it is.

Changes are found by looking: one `stat` for each file and program. inotify would need a watch on each folder above one
that is missing, has limits that other programs use up, and says nothing on some network and overlay file systems.
Next: `nri.plugins.hook_injector.plugin` looks before each creation, and every second.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from typing import NamedTuple

from nri.config.complaint import together
from nri.config.source import read_file
from nri.config.watch import fingerprint
from nri.errors import ConfigError
from nri.plugins.hook_injector.hook_file import Hook, parse_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nri.config.watch import Fingerprint

__all__ = ["HookDirectories", "HooksChange"]

#: Files of one directory at most.
MAX_FILES = 1_000


class HooksChange(NamedTuple):
    """The outcome of a look that found a change.

    Attributes:
        error: why the hooks stay what they were, with further errors in `others`; None if they could be read.
        warnings: what is odd in files that count.
    """

    error: ConfigError | None
    warnings: Sequence[ConfigError]


class _Snapshot(NamedTuple):
    """The files, errors and programs that were there at one look.

    Attributes:
        files: the fingerprint of each file, by path.
        errors: of directories that cannot be read.
        programs: of each hook that was read, and whether it was there.
    """

    files: Mapping[str, Fingerprint]
    errors: tuple[str, ...]
    programs: Mapping[str, bool]


class HookDirectories:
    """Directories of hooks.

    Args:
        directories: in the order of their rank, the one that counts most last.

    Attributes:
        directories: likewise.
        hooks: all hooks, in the order in which they are to run.
    """

    __slots__ = ("_lock", "_snapshot", "directories", "hooks")

    def __init__(self, directories: Sequence[str]) -> None:
        self.directories = tuple(directories)
        self.hooks: tuple[Hook, ...] = ()
        self._snapshot: _Snapshot | None = None
        self._lock = allocate_lock()

    def refresh(self) -> HooksChange | None:
        """Look whether anything has changed, and read all files if so; None if nothing has.

        The hooks are replaced at once, by all or none of what is new. May be called by several threads.
        """
        with self._lock:
            files, errors = self._list()
            programs = (
                {} if self._snapshot is None else {path: os.path.exists(path) for path in self._snapshot.programs}
            )
            if self._snapshot == _Snapshot(files, tuple(str(error) for error in errors), programs):
                return None
            return self._read(files, errors)

    def _list(self) -> tuple[dict[str, Fingerprint], list[ConfigError]]:
        """The fingerprint of each file, in order of rank; and errors."""
        files: dict[str, Fingerprint] = {}
        errors: list[ConfigError] = []
        for directory in self.directories:
            try:
                names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
            except FileNotFoundError:
                continue
            except OSError as error:
                errors.append(ConfigError(directory, "", f"cannot read the directory: {error.strerror or error}"))
                continue
            if len(names) > MAX_FILES:
                errors.append(ConfigError(directory, "", f"holds {len(names)} hooks; {MAX_FILES} are read at most"))
                continue
            for name in names:
                path = os.path.join(directory, name)
                stamp = fingerprint(path)
                if stamp is not None:  # a link that leads nowhere, as while a ConfigMap is exchanged, is not a file
                    files[path] = stamp
        return files, errors

    def _read(self, files: Mapping[str, Fingerprint], errors: list[ConfigError]) -> HooksChange:
        hooks: dict[str, Hook] = {}
        programs: dict[str, bool] = {}
        warnings: list[ConfigError] = []
        for path in files:
            name = os.path.basename(path)
            try:
                hook, hook_warnings = parse_hook(name, read_file(path, "json"))
            except ConfigError as error:
                errors.append(error)
                continue
            warnings += hook_warnings
            programs[hook.path] = os.path.exists(hook.path)
            if programs[hook.path]:
                hooks[name] = hook
            else:
                step = "the hook is left out until it is there"
                warnings.append(ConfigError(path, "hook.path", f"there is no {hook.path}", step))
        failed = tuple(str(error) for error in errors if error.source in self.directories)
        self._snapshot = _Snapshot(files, failed, programs)
        if errors:
            return HooksChange(together(errors), ())
        self.hooks = tuple(sorted(hooks.values(), key=lambda hook: (hook.name.lower(), hook.name)))
        return HooksChange(None, warnings)
