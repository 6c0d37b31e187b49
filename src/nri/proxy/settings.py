"""The settings of the proxy as frozen values; the fields are the keys of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from nri.adaptation import AdaptationSettings
from nri.config import Duration, check_timeouts
from nri.config.settings import SettingsLoader
from nri.service.settings import HttpSettings

#: Maximum length of a unix socket's path.
_MAX_PATH_BYTES = 107
#: Stands for a socket in the folder of `listen` and with its name, so that two proxies of a node do not collide.
_BESIDE: Final = "beside listen"


@dataclass(frozen=True, slots=True)
class PluginSettings(AdaptationSettings):
    """NRI as the proxy serves it to plugins; its socket must not be that of a runtime that serves NRI by itself."""

    admin_socket: str = _BESIDE


@dataclass(frozen=True, slots=True)
class HookServerSettings:
    """Koordinator's hook servers behind the proxy.

    Attributes:
        enable: look for hook servers, and ask them.
        folder: where they register themselves, a JSON file each.
        timeout: how long one has to answer, in seconds.
        every: ask all that list a stage, one after the other, and not the first alone.
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
        listen: the socket where the kubelet connects.
        runtime_endpoint: the CRI socket of the runtime; empty for the first one of the known places that is there.
        state: the folder of what the proxy keeps over its own restarts.
        unsayable: what happens with an adjustment that the CRI has no word for: ``report`` leaves it out and says so
            in the log, ``refuse`` fails the request.
        skip_label_key, skip_label_value: pods with this label are passed on without any plugin or hook server.
        poll_interval: how long without a list of containers until the proxy asks for one, to see which have ended, in
            seconds.
        nri: plugins.
        http: health and metrics.
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
                raise ValueError(f"{name} {path} is longer than a socket's path can be ({_MAX_PATH_BYTES} bytes)")
            if "://" in path:
                raise ValueError(f"{name} {path} is not the path of a unix socket")
        if not listen:
            raise ValueError("listen is empty: the kubelet needs a socket")
        if listen == paths["runtime_endpoint"]:
            raise ValueError(f"listen and runtime_endpoint are both {self.listen}: the proxy would call itself")
        check_timeouts(self, "poll_interval")


PROXY_SETTINGS: Final = SettingsLoader(
    ProxySettings, "/etc/nri/proxy.toml", "NRI_PROXY_CONFIG", {"NRI_SOCKET": "nri.socket_path"}
)
