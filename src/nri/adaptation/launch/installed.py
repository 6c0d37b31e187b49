"""All installed plugins of this machine, each with a supervisor."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.launch.discovery import discover
from nri.adaptation.launch.supervisor import Supervisor
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.peers.health import PluginHealth
    from nri.adaptation.registration.handshake import RuntimeSettings
    from nri.adaptation.registration.registry import Registry
    from nri.plugin_policy.policy import Policies
    from nri.ttrpc import Interceptor

log = logging.getLogger("nri.adaptation")


class InstalledPlugins:
    """The supervisors of all installed plugins.

    Args:
        folder: the folder of the plugins.
        config_folder: the folder of their configuration.
    """

    def __init__(
        self,
        folder: str,
        config_folder: str,
        settings: RuntimeSettings,
        policies: Policies,
        registry: Registry,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        self._folder, self._config_folder = folder, config_folder
        self._settings = settings
        self._policies = policies
        self._registry = registry
        self._interceptors = interceptors
        self._supervisors: dict[str, Supervisor] = {}

    def __contains__(self, label: str) -> bool:
        return label in self._supervisors

    def start(self) -> None:
        """Launch all plugins and wait until each is active or has failed.

        Raises ConfigError if the folder is unreadable.
        """
        plugins, skipped = discover(self._folder, self._settings.rules)
        for file in skipped:
            log.error("not a plugin, skipped: %s: %s", plain(file.path), plain(file.reason))
        self._supervisors = {
            plugin.label: Supervisor(
                plugin, self._config_folder, self._settings, self._policies, self._registry, self._interceptors
            )
            for plugin in plugins
        }
        for supervisor in self._supervisors.values():
            supervisor.start()
        settings = self._settings
        deadline = monotonic() + settings.registration_timeout_s + 2 * settings.request_timeout_s
        for supervisor in self._supervisors.values():
            supervisor.started.wait(max(0.0, deadline - monotonic()))

    def nudge(self) -> None:
        """Wake all supervisors: a plugin has joined or left."""
        for supervisor in list(self._supervisors.values()):
            supervisor.nudge()

    def stop(self) -> None:
        """Stop restarting plugins, and end running plugins."""
        for supervisor in self._supervisors.values():
            supervisor.stop()

    def join(self, deadline: float) -> None:
        """Wait until all plugins have ended. Kill the others at the deadline."""
        for supervisor in self._supervisors.values():
            supervisor.join(deadline)

    @property
    def health(self) -> list[PluginHealth]:
        """The health of the installed plugins, running or not."""
        return [supervisor.health for supervisor in self._supervisors.values()]
