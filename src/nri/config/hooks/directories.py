"""Read the hooks of several directories, and read them again after a change.

Of files with the same name the file in the last directory counts. A missing directory counts as empty. A `stat` of each
file and program finds changes. inotify would need a watch on each folder above a missing folder, has limits that other
programs use up, and reports nothing on some network and overlay file systems.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from typing import NamedTuple

from nri.config.complaint import combined_error
from nri.config.hooks.hook_file import Hook, InvalidHook, parse_hook
from nri.config.source import read_file
from nri.config.watch import fingerprint
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nri.config.watch import Fingerprint

#: Read at most this many files of one directory.
MAX_FILES = 1_000


class HooksChange(NamedTuple):
    """The outcome of a refresh after a change.

    Attributes:
        error: why the previous hooks stay in force, with further errors in `others`, or None.
        warnings: problems of files that could be read.
    """

    error: ConfigError | None
    warnings: Sequence[ConfigError]


class _Snapshot(NamedTuple):
    """The files, errors and programs at one refresh.

    Attributes:
        files: the fingerprint of each file, by path.
        errors: of directories that cannot be read.
        programs: whether the program of each hook exists, by path.
    """

    files: Mapping[str, Fingerprint]
    errors: tuple[str, ...]
    programs: Mapping[str, bool]


class HookDirectories:
    """Directories of hooks.

    Args:
        directories: their paths in the order of precedence, the strongest directory last.

    Attributes:
        directories: their paths, in the same order.
        hooks: all hooks, in the order in which they run.
    """

    __slots__ = ("_lock", "_snapshot", "directories", "hooks")

    def __init__(self, directories: Sequence[str]) -> None:
        self.directories = tuple(directories)
        self.hooks: tuple[Hook, ...] = ()
        self._snapshot: _Snapshot | None = None
        self._lock = allocate_lock()

    def refresh(self) -> HooksChange | None:
        """Read all files again if a file has changed. Returns None if no file has changed. Thread-safe.

        While one file is broken, all previous hooks stay in force: a container must not miss a hook because somebody
        edits its file.
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
        """The fingerprint of each file in order of precedence, and errors."""
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
                errors.append(ConfigError(directory, "", f"has {len(names)} hooks; at most {MAX_FILES} are read"))
                continue
            for name in names:
                path = os.path.join(directory, name)
                stamp = fingerprint(path)
                if stamp is not None:  # a broken link is ignored: links break while a ConfigMap is replaced
                    files[path] = stamp
        return files, errors

    def _read(self, files: Mapping[str, Fingerprint], errors: list[ConfigError]) -> HooksChange:
        hooks: dict[str, Hook] = {}
        programs: dict[str, bool] = {}
        warnings: list[ConfigError] = []
        for path in files:
            name = os.path.basename(path)
            hook: Hook | None = None
            problem: ConfigError | None = None
            try:
                hook, hook_warnings = parse_hook(name, read_file(path, "json"))
                program = hook.path
                warnings += hook_warnings
            except InvalidHook as error:
                program, problem = error.program, error
            except ConfigError as error:
                errors.append(error)
                continue
            try:
                os.stat(program)
            except (FileNotFoundError, ValueError):  # ValueError: a lone surrogate; other mistakes do not matter then
                programs[program] = False
                step = "the hook is ignored until the program exists"
                warnings.append(ConfigError(path, "hook.path", f"{program} does not exist", step))
                continue
            except OSError as error:
                problem = ConfigError(path, "hook.path", f"{program} cannot be used: {error.strerror}")
            programs[program] = os.path.exists(program)
            if problem is not None:
                errors.append(problem)
            elif hook is not None:
                hooks[name] = hook
        failed = tuple(str(error) for error in errors if error.source in self.directories)
        self._snapshot = _Snapshot(files, failed, programs)
        if errors:
            return HooksChange(combined_error(errors), ())
        self.hooks = tuple(sorted(hooks.values(), key=lambda hook: (hook.name.lower(), hook.name)))
        return HooksChange(None, warnings)
