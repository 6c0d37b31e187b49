"""The settings of the proxy as frozen values. The fields are the keys of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from nri.adaptation import AdaptationSettings
from nri.config import Duration, check_timeouts
from nri.config.settings import SettingsLoader
from nri.service.settings import HttpSettings

#: The kernel's limit for the path of a unix socket.
_MAX_PATH_BYTES = 107
#: Stands for a socket in the folder of `listen`, named after it, so that two proxies of a node do not collide.
_BESIDE: Final = "beside listen"


@dataclass(frozen=True, slots=True)
class PluginSettings(AdaptationSettings):
    """The NRI settings of the proxy. Its socket must differ from the socket of a runtime that serves NRI by itself."""

    admin_socket: str = _BESIDE


@dataclass(frozen=True, slots=True)
class HookServerSettings:
    """Koordinator's hook servers behind the proxy.

    Attributes:
        enable: look for hook servers, and call them.
        folder: the folder in which hook servers register, each with a JSON file.
        timeout: how long a hook server may take to answer, in seconds.
        every: call all hook servers that list a stage, one after the other, and not only the first.
    """

    enable: bool = False
    folder: Path = Path("/etc/runtime/hookserver.d")
    timeout: Duration = 2.0
    every: bool = False

    def __post_init__(self) -> None:
        check_timeouts(self, "timeout")


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """A CRI proxy.

    Attributes:
        listen: the socket to which the kubelet connects.
        runtime_endpoint: the runtime's CRI socket; empty for the first known socket that exists.
        state: the folder in which the proxy stores its records over its own restarts.
        unsayable: how to handle an adjustment that the CRI cannot express: ``report`` leaves it out and logs it,
            ``refuse`` fails the request.
        skip_label_key, skip_label_value: pods with this label are not passed to plugins and hook servers.
        poll_interval: after this many seconds without a list of containers, the proxy requests a list, to find
            containers that have ended.
        nri: the NRI settings for plugins.
        http: the address of health and metrics.
        hook_servers: Koordinator's hook servers.
    """

    listen: str = "/run/nri-proxy/proxy.sock"
    runtime_endpoint: str = ""
    state: Path = Path("/var/lib/nri-proxy")
    unsayable: Literal["report", "refuse"] = "report"
    skip_label_key: str = "runtimeproxy.koordinator.sh/skip-hookserver"
    skip_label_value: str = "true"
    poll_interval: Duration = 10.0
    nri: PluginSettings = field(default_factory=PluginSettings)
    hook_servers: HookServerSettings = field(default_factory=HookServerSettings)
    http: HttpSettings = field(default_factory=HttpSettings)

    def __post_init__(self) -> None:
        listen = self.listen.removeprefix("unix://")
        if self.nri.admin_socket == _BESIDE:
            beside = f"{listen.removesuffix('.sock')}-admin.sock"
            object.__setattr__(self, "nri", replace(self.nri, admin_socket=beside))
        paths = {"listen": listen, "runtime_endpoint": self.runtime_endpoint.removeprefix("unix://"),
                 "nri.admin_socket": self.nri.admin_socket}  # fmt: skip
        for name, path in paths.items():
            if len(path.encode()) > _MAX_PATH_BYTES:
                raise ValueError(f"{name} {path} is too long for a socket (at most {_MAX_PATH_BYTES} bytes)")
            if "://" in path:
                raise ValueError(f"{name} {path} is not the path of a unix socket")
        if not listen:
            raise ValueError("listen is empty: the kubelet requires a socket")
        if listen == paths["runtime_endpoint"]:
            raise ValueError(f"listen and runtime_endpoint are both {self.listen}: the proxy would call itself")
        check_timeouts(self, "poll_interval")


PROXY_SETTINGS: Final = SettingsLoader(
    ProxySettings, "/etc/nri/proxy.toml", "NRI_PROXY_CONFIG", {"NRI_SOCKET": "nri.socket_path"}
)
