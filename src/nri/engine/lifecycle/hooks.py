"""The OCI hooks that containers get from the node's hooks.d directories."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from nri.config.complaint import single_errors
from nri.config.hooks.conditions import ConditionError, Facts
from nri.config.hooks.directories import HookDirectories, HooksChange
from nri.config.hooks.hook_file import Hook
from nri.config.hooks.pattern import Budget
from nri.engine.support.errors import EngineError

_log = logging.getLogger(__name__)


class ContainerHooks:
    """The hooks in `directories`. A later directory has precedence. Raises ConfigError if a file is invalid.

    Files are read again when they change. While a changed file is invalid, the previous hooks stay in force.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = HookDirectories(directories)
        change = self._directories.refresh()
        if change is not None and change.error is not None:
            raise change.error
        self._report(change)

    def of(self, args: Sequence[str], annotations: Mapping[str, str], *, has_mounts: bool) -> dict[str, list[Any]]:
        """Return the hooks of a container as in a spec, by stage.

        Raises EngineError if a hook's conditions cannot be evaluated.
        """
        self._report(self._directories.refresh())
        facts = Facts(args, annotations, has_mounts, Budget())
        hooks: dict[str, list[Any]] = {}
        for hook in self._directories.hooks:
            try:
                is_match = hook.when.match(facts)
            except ConditionError as error:
                raise EngineError(f'the hook "{hook.name}" cannot be matched: {error}') from None
            for stage in hook.stages if is_match else ():
                # As in CRI-O: hooks of both stages run in the order of their files.
                name = "createRuntime" if stage == "prestart" else stage
                hooks.setdefault(name, []).append(_spec_hook(hook))
        return hooks

    def _report(self, change: HooksChange | None) -> None:
        """Log a change of the files."""
        if change is None or not self._directories.directories:
            return
        for error in () if change.error is None else single_errors(change.error):
            _log.error("%s; the previous hooks stay in force", error)
        for warning in change.warnings:
            _log.warning("%s", warning)


def _spec_hook(hook: Hook) -> dict[str, Any]:
    """Return a hook as in a spec."""
    row = {"path": hook.path, "args": [*hook.args], "env": [*hook.env], "timeout": hook.timeout_s}
    return {key: value for key, value in row.items() if value}
