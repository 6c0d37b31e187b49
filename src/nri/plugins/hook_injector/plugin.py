"""`hook-injector`: add OCI hooks from hooks.d directories, for runtimes that do not read those directories.

At the start a broken file is an error; later the previous hooks stay in force.
"""

from __future__ import annotations

import nri
from nri.config.complaint import single_errors
from nri.config.hooks import pattern
from nri.config.hooks.conditions import ConditionError, Facts
from nri.config.hooks.directories import HookDirectories
from nri.stub.program.options import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from nri.config.hooks.directories import HooksChange

#: The default directories of podman and CRI-O: for packages, and for the administrator, whose files take precedence.
DIRECTORIES = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")

#: Check directories this often while no container is created.
WATCH_S = 1.0

#: The list of hooks in an adjustment by stage. `prestart` is deprecated; its hooks run at the same moment as the hooks
#: of `createRuntime`.
HOOK_LISTS = {
    "prestart": "create_runtime",
    "createRuntime": "create_runtime",
    "createContainer": "create_container",
    "startContainer": "start_container",
    "poststart": "poststart",
    "poststop": "poststop",
}


class HookInjector(nri.Plugin):
    """Add OCI hooks to containers, from files in hooks.d directories."""

    name = "hook-injector"
    sets = ("hooks",)
    flags: ClassVar[Mapping[str, Flag]] = {
        "hooks-dirs": Flag(
            "hooks_dirs",
            "DIR,DIR",
            f"directories of hooks; the last directory takes precedence (default {','.join(DIRECTORIES)})",
        ),
        "disableWatch": Flag("disable_watch", "", "read the directories only once, and ignore later changes"),
    }

    class Config:
        """Keys of the configuration."""

        hooks_dirs: list[str] = list(DIRECTORIES)  # noqa: RUF012 - a default, which is copied
        disable_watch: bool = False

    config: Config

    def __init__(self) -> None:
        self._directories: HookDirectories | None = None
        self._logged = ""

    def configure(self) -> None:
        pattern.load()  # fail at the start without google-re2, not at the first file with a pattern
        directories = tuple(self.config.hooks_dirs)
        if self._directories is not None and self._directories.directories == directories:
            self._refresh()
            return
        hook_directories = HookDirectories(directories)
        change = hook_directories.refresh()
        assert change is not None  # the first refresh always has a change
        if change.error is not None:
            raise change.error
        self._directories = hook_directories
        self._log_change(change)

    @nri.every(WATCH_S)
    def watch(self) -> None:
        """Check for changes, so that mistakes are logged soon after they are made."""
        self._refresh()

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        self._refresh()
        annotations = {**container.annotations, **pod.annotations}
        facts = Facts(container.args, annotations, bool(container.mounts), pattern.Budget())
        adjustment = nri.Adjustment()
        added: list[str] = []
        for hook in self._directories.hooks if self._directories is not None else ():
            try:
                if not hook.when.match(facts):
                    continue
            except ConditionError as error:
                raise nri.Reject(f'hook generation failed: matching hook "{hook.name}": {error}') from None
            added.append(hook.name)
            adjustment.message.hooks.SetInParent()  # a hook without stages is a match, too
            for stage in hook.stages:
                adjustment.add_hook(HOOK_LISTS[stage], hook.path, hook.args, hook.env, hook.timeout_s)
        if not added:
            self.log.debug("no hooks to inject")
            return None
        self.log.info("OCI hooks injected: %s", ", ".join(added))
        return adjustment

    def _refresh(self) -> None:
        if self._directories is not None and not self.config.disable_watch:
            change = self._directories.refresh()
            if change is not None:
                self._log_change(change)

    def _log_change(self, change: HooksChange) -> None:
        """Log a change, but the same errors only once."""
        assert self._directories is not None
        errors = [] if change.error is None else single_errors(change.error)
        text = "\n".join(str(message) for message in (*errors, *change.warnings))
        if errors and text == self._logged:
            return
        self._logged = text
        for error in errors:
            self.log.error("%s; the previous hooks stay in force", error)
        for warning in change.warnings:
            self.log.warning("%s", warning)
        if not errors:
            names = ", ".join(hook.name for hook in self._directories.hooks)
            self.log.info("hooks of %s: %s", ", ".join(self._directories.directories), names or "none")


if __name__ == "__main__":
    HookInjector.main()
