"""The sections of ``agent.toml``, each as a frozen class with defaults, units and meanings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nri.adaptation import POLICY_PATH
from nri.agent.settings.kubelet_address import kubelet_address
from nri.api import naming
from nri.backoff import CAP_S, FIRST_S
from nri.config import Duration, check_timeouts
from nri.config.complaint import WrongValue

CONTAINERD = "/run/containerd/containerd.sock"
#: The maximum length in bytes of the path of a unix socket.
_MAX_PATH = 107
_MAX_ROUNDS = 1000


def check_sockets(table: object, *names: str) -> None:
    """Make the paths of sockets absolute. Raises ValueError for a path that no unix socket can have."""
    for name in names:
        value = getattr(table, name)
        path = str(value) and os.path.abspath(value)
        object.__setattr__(table, name, type(value)(path))  # the table is frozen for all others
        if len(path.encode()) > _MAX_PATH:
            raise ValueError(f'{name} "{path}" is longer than the {_MAX_PATH} bytes of a socket path')


@dataclass(frozen=True, slots=True)
class NriSettings:
    """Mode "nri": the agent as a plugin of the runtime.

    Attributes:
        socket: the runtime's NRI socket.
        name: the plugin's name; koordlet's is "koordlet_nri".
        index: two digits that order the plugins. Like koordlet's plugin, the agent has 00 and runs first.
        connect_timeout: how long one connection and its registration may take.
        backoff: the longest pause before the second attempt to connect; it doubles each time.
        backoff_cap: the longest pause between two attempts.
    """

    socket: str = naming.DEFAULT_SOCKET
    name: str = "nri-agent"
    index: str = "00"
    connect_timeout: Duration = 6.0
    backoff: Duration = FIRST_S
    backoff_cap: Duration = CAP_S

    def __post_init__(self) -> None:
        check_timeouts(self, "connect_timeout", "backoff", "backoff_cap")
        check_sockets(self, "socket")
        if len(self.index) != 2 or not self.index.isdecimal() or not self.index.isascii():
            raise ValueError(f'index "{self.index}" must be two digits, for example "00"')
        if not self.name or "/" in self.name:
            raise ValueError(f'name "{self.name}" cannot be the name of a plugin')


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Mode "proxy": a CRI proxy between the kubelet and a runtime without NRI.

    Attributes:
        listen: the socket that the kubelet uses as its container runtime.
        runtime_endpoint: the runtime's own CRI socket.
        state: the folder in which the proxy records pods and containers for its next start.
        socket_path: the socket for other NRI plugins; empty for none.
        plugin_path: the folder of plugins that the proxy launches; empty for none.
        plugin_config_path: the folder of their configuration.
        policy_path: the file or folder with the operator's policies for plugins; empty for none.
        skip_label: pods with this label, KEY=VALUE, pass unchanged; empty for none.
    """

    listen: str = "/run/nri-proxy/proxy.sock"
    runtime_endpoint: str = CONTAINERD
    state: Path = Path("/var/lib/nri-proxy")
    socket_path: str = ""
    plugin_path: str = ""
    plugin_config_path: str = naming.CONFIG_DIR
    policy_path: str = POLICY_PATH
    skip_label: str = "runtimeproxy.koordinator.sh/skip-hookserver=true"

    def __post_init__(self) -> None:
        check_sockets(self, "listen", "socket_path")
        if self.listen == self.runtime_endpoint.removeprefix("unix://"):
            raise ValueError(f'listen and runtime_endpoint are both "{self.listen}"; they must differ')
        if self.skip_label and "=" not in self.skip_label[1:]:
            raise ValueError(f'skip_label "{self.skip_label}" must be KEY=VALUE, or empty')


@dataclass(frozen=True, slots=True)
class HooksSettings:
    """Mode "hooks": the agent as a hook server of Koordinator's own runtime proxy.

    Attributes:
        socket: the socket at which the agent serves RuntimeHookService.
        endpoint: the path of this socket as the proxy sees it, for an agent in a container; empty if it is the same.
        registration_folder: the folder in which the proxy looks for hook servers.
        failure_policy: whether the proxy passes or fails a request while the agent is unreachable.
        runtime: the runtime behind the proxy, which determines the names of container cgroups.
    """

    socket: str = "/run/nri/agent-hooks.sock"
    endpoint: str = ""
    registration_folder: Path = Path("/etc/runtime/hookserver.d")
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    runtime: Literal["containerd", "cri-o", "docker", "iSulad", "pouch", "nri-engine"] = "containerd"

    def __post_init__(self) -> None:
        check_sockets(self, "socket")


@dataclass(frozen=True, slots=True)
class StandaloneSettings:
    """Mode "standalone": the agent compares values in force with its decisions and corrects them.

    Attributes:
        interval: the pause between two rounds over all pods; changes are applied immediately.
        force_update: write an unchanged value again after this time, in all modes.
        cgroup_driver: the kubelet's cgroup driver; "auto" detects it.
        apply: "cri" also sends values of containers to the runtime, if the CRI can express them.
    """

    interval: Duration = 10.0
    force_update: Duration = 60.0
    cgroup_driver: Literal["auto", "cgroupfs", "systemd"] = "auto"
    apply: Literal["cgroups", "cri"] = "cgroups"

    def __post_init__(self) -> None:
        check_timeouts(self, "interval", "force_update")


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The strategies that sample the node by a timer; `gates` switches them on.

    Attributes:
        interval: the pause between two samples.
        memory_evict_cooldown: the pause after an eviction because of memory.
        cpu_evict_cooldown: the pause after an eviction because of CPU.
        evict_after: the number of consecutive rounds above a threshold after which a pod is evicted (profile rubik).
    """

    interval: Duration = 1.0
    memory_evict_cooldown: Duration = 4.0
    cpu_evict_cooldown: Duration = 20.0
    evict_after: int = 1

    def __post_init__(self) -> None:
        check_timeouts(self, "interval")
        if not 1 <= self.evict_after <= _MAX_ROUNDS:
            raise WrongValue(
                "evict_after", f"{self.evict_after} is not between 1 and {_MAX_ROUNDS}", "1 evicts immediately"
            )


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The source of NodeSLO, NodeResourceTopology and the node.

    Attributes:
        source: where rules come from: files of this node, or an apiserver.
        path: a file or folder with the documents, in YAML or JSON; changes are applied immediately.
        kubeconfig: the kubeconfig file for rules and pods from the apiserver; empty for the agent's service account.
        node_name: the name of this node at the apiserver; empty for the name of this machine.
    """

    source: Literal["files", "apiserver"] = "files"
    path: Path = Path("/etc/nri/agent/rules")
    kubeconfig: str = ""
    node_name: str = ""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The source of this node's pods.

    Attributes:
        source: where pods come from: NRI (modes nri and proxy), an apiserver, the kubelet, the CRI, or files.
        interval: the pause between two queries of the kubelet or the CRI.
        kubelet: the kubelet's address, https://HOST:PORT; http only for loopback addresses.
        kubelet_token: the file with the token for the kubelet; empty for the token of the service account.
        kubelet_ca: the file with the CA of the kubelet's certificate; empty if the certificate is not verified.
        cri: the runtime's CRI socket; empty for proxy.runtime_endpoint in mode proxy, otherwise for the first existing
            socket of this project's engine, containerd, K3s, CRI-O and iSulad.
        path: a file or folder with manifests of pods, in YAML or JSON.
    """

    source: Literal["nri", "apiserver", "kubelet", "cri", "files"] = "cri"
    interval: Duration = 10.0
    kubelet: str = "https://127.0.0.1:10250"
    kubelet_token: str = ""
    kubelet_ca: str = ""
    cri: str = ""
    path: Path = Path("/etc/nri/agent/pods")

    def __post_init__(self) -> None:
        check_timeouts(self, "interval")
        try:
            kubelet_address(self.kubelet)
        except ValueError as error:
            raise WrongValue("kubelet", f'"{self.kubelet}" {error}', 'for example "https://127.0.0.1:10250"') from None


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """The hook GPUEnvInject, if HAMi-core shares GPUs between containers.

    Attributes:
        library: the path of HAMi-core's library on the node.
        monitor: let HAMi's monitor read the GPU usage of containers.
    """

    library: str = "/usr/local/vgpu/libvgpu.so"
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class TerwaySettings:
    """The hook TerwayQoS, which writes files for the terway network daemon.

    Attributes:
        folder: the folder of these files on the node.
    """

    folder: Path = Path("/var/lib/terway/qos")


@dataclass(frozen=True, slots=True)
class TcSettings:
    """The hook TCNetworkQoS: the network interface with the bandwidth to share.

    Attributes:
        interface: the name of the interface; empty means the interface of the default route.
    """

    interface: str = ""
