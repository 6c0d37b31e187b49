"""The settings of `nri.adaptation.Adaptation` as one frozen value, for programs that read them from a file.

The keys are those of containerd's table; a program that has more, or another default, makes a subclass. Pure. Next:
`nri.adaptation.adaptation`, which takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nri.adaptation.plugin_policy.policy import DEFAULT_PATH
from nri.api import naming
from nri.api.default_validator import ValidatorConfig
from nri.config import Duration, check_timeouts

__all__ = ["AdaptationSettings"]


@dataclass(frozen=True, slots=True)
class AdaptationSettings:
    """NRI as a program serves it to plugins.

    Attributes:
        disable_connections: only plugins that the program launches, and built-in ones.
        socket_path: where plugins connect.
        plugin_path: the folder of plugins that the program launches.
        plugin_config_path: the folder of their configuration.
        plugin_registration_timeout: how long a plugin has to register, in seconds.
        plugin_request_timeout: how long a plugin has for one request, in seconds; the policy may say more.
        default_validator: what all plugins together may not do; None for anything.
        policy_path: the operator's policy for each plugin; empty for none.
        admin_socket: where ``nri why`` asks; empty for nowhere.
        allowed_uids: users whose plugins may connect, beside root and the program's own.
        provenance: remember who changed what, for ``nri why``.
        tell_refused: if a plugin refuses an update, tell all of them by PostUpdateContainer what the container has;
            they hear of a refused creation by RemoveContainer.
        compat: ``reference`` reproduces the reference's behaviour, see docs/deviations.md.
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
        """The same as keyword arguments of `Adaptation`; without `tell_refused`, which some programs do themselves."""
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
