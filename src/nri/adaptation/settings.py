"""The settings of `nri.adaptation.Adaptation` as a frozen value, for programs that read them from a file.

The keys are those of containerd's table. A program with more keys, or other defaults, defines a subclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nri.api import naming
from nri.api.default_validator import ValidatorConfig
from nri.config import Duration, check_timeouts
from nri.plugin_policy.policy import DEFAULT_PATH


@dataclass(frozen=True, slots=True)
class AdaptationSettings:
    """The NRI settings of a program.

    Attributes:
        disable_connections: only plugins that the program launches, and built-in plugins, are used.
        socket_path: the socket to which plugins connect.
        plugin_path: the folder of plugins that the program launches.
        plugin_config_path: the folder of their configuration.
        plugin_registration_timeout: how long a plugin may take to register.
        plugin_request_timeout: how long a plugin may take to answer a request; the policy may set more.
        policy_path: the file with the operator's policy for each plugin; empty for no policy.
        admin_socket: the socket for ``nri why``; empty for no socket.
        allowed_uids: users whose plugins may connect, in addition to root and the program's user.
        provenance: record which plugin changed what, for ``nri why``.
        tell_refused: if a plugin refuses an update, send all plugins PostUpdateContainer with the container's
            resources; a refused creation is followed by RemoveContainer.
        compat: ``reference`` reproduces the behaviour of the Go library, see docs/deviations.md.
    """

    disable_connections: bool = False
    socket_path: str = naming.DEFAULT_SOCKET
    plugin_path: str = naming.PLUGIN_DIR
    plugin_config_path: str = naming.CONFIG_DIR
    plugin_registration_timeout: Duration = naming.REGISTRATION_TIMEOUT_S
    plugin_request_timeout: Duration = naming.REQUEST_TIMEOUT_S
    default_validator: ValidatorConfig | None = None
    policy_path: str = DEFAULT_PATH
    admin_socket: str = "/var/run/nri/admin.sock"
    allowed_uids: tuple[int, ...] = ()
    provenance: bool = True
    tell_refused: bool = False
    compat: Literal["default", "reference"] = "default"

    def __post_init__(self) -> None:
        check_timeouts(self, "plugin_registration_timeout", "plugin_request_timeout")

    def arguments(self) -> dict[str, Any]:
        """The settings as keyword arguments of `Adaptation`; without `tell_refused`, which some programs implement."""
        return {
            "disable_connections": self.disable_connections,
            "socket_path": self.socket_path,
            "plugin_path": self.plugin_path,
            "plugin_config_path": self.plugin_config_path,
            "registration_timeout_s": self.plugin_registration_timeout,
            "request_timeout_s": self.plugin_request_timeout,
            "default_validator": self.default_validator,
            "policy_path": self.policy_path or None,
            "admin_socket": self.admin_socket or None,
            "allowed_uids": self.allowed_uids,
            "provenance": self.provenance,
            "compat": self.compat,
        }
