"""The settings of the engine as frozen values, each with its default, unit and meaning; they are the keys of the file.

Rules: pure; a class is a table of ``engine.toml``, a field a key. Settings that contradict each
other are a ValueError that names both. Durations are seconds, written as a number or as "5s".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from nri.adaptation import AdaptationSettings
from nri.api.default_validator import ValidatorConfig
from nri.config import Duration, check_timeouts
from nri.service.settings import HttpSettings

__all__ = [
    "FIRST_DOMAIN",
    "CgroupConfig",
    "ContainerConfig",
    "DomainConfig",
    "EngineConfig",
    "ImageConfig",
    "NetworkConfig",
    "NriConfig",
    "OciRuntime",
    "Registry",
    "StreamingConfig",
]

_MOST_PORT = 65535
#: The domain of the kubelet's pods.
FIRST_DOMAIN = "k8s.io"
_DOMAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
#: Bytes of a path that a unix socket can have.
_MOST_PATH = 107


def check_limits(settings: object, *names: str) -> None:
    """ValueError for a limit below 0."""
    for name in names:
        if (value := getattr(settings, name)) < 0:
            raise ValueError(f"{name} {value} is less than nothing; 0 is no limit")


@dataclass(frozen=True, slots=True)
class OciRuntime:
    """An OCI runtime, which a pod asks for by the handler's name that its table has.

    Attributes:
        path: the program: a path, or a name that is looked for in PATH.
        arguments: words before each command, such as ``--systemd-cgroup``.
        timeout: the longest that one command may take, in seconds.
    """

    path: str = "runc"
    arguments: tuple[str, ...] = ()
    timeout: Duration = 30.0

    def __post_init__(self) -> None:
        check_timeouts(self, "timeout")


@dataclass(frozen=True, slots=True)
class Registry:
    """The operator's settings for one registry.

    Attributes:
        host: the registry as image names have it, such as ``docker.io`` or ``registry.example:5000``.
        mirrors: hosts that are asked before it, in this order; ``http://`` before one allows plain HTTP.
        certificates: the folder of its own CAs (``*.crt``) and client certificates; empty for the system's.
        insecure: plain HTTP and unknown certificates are accepted.
    """

    host: str
    mirrors: tuple[str, ...] = ()
    certificates: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """Images: the programs that bring and unpack them, and the registries.

    Attributes:
        skopeo, umoci: the programs: a path, or a name that is looked for in PATH.
        snapshots: how root file systems are made: ``overlay``, ``copy``, or ``auto`` for overlay where it works.
        stall_timeout: a pull that brings nothing for so long is given up, in seconds.
        size_limit: the most bytes that one image may take, unpacked; 0 for no limit.
        entries_limit: the most files and folders of one image; 0 for no limit.
        registries: registries with mirrors, certificates or plain HTTP; others need no entry.
    """

    skopeo: str = "skopeo"
    umoci: str = "umoci"
    snapshots: Literal["auto", "overlay", "copy"] = "auto"
    stall_timeout: Duration = 60.0
    size_limit: int = 64 << 30
    entries_limit: int = 1_000_000
    registries: tuple[Registry, ...] = ()

    def __post_init__(self) -> None:
        check_timeouts(self, "stall_timeout")
        check_limits(self, "size_limit", "entries_limit")


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Networks of pods, by CNI.

    Attributes:
        config_dir: where the first usable ``.conflist``, ``.conf`` or ``.json`` is the network.
        plugin_dirs: where CNI plugins are looked for, in this order.
        timeout: the longest that one plugin may take, in seconds.
    """

    config_dir: Path = Path("/etc/cni/net.d")
    plugin_dirs: tuple[Path, ...] = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    timeout: Duration = 60.0

    def __post_init__(self) -> None:
        check_timeouts(self, "timeout")


@dataclass(frozen=True, slots=True)
class CgroupConfig:
    """Control groups of pods and containers.

    Attributes:
        driver: who makes cgroups: the OCI runtime by itself (``cgroupfs``), or systemd. As the kubelet's.
        parent: the cgroup of pods that name none: a path, or a slice with the driver ``systemd``.
        conmon: the cgroup of the conmons: a path; ``pod`` for the pod's own.
    """

    driver: Literal["cgroupfs", "systemd"] = "cgroupfs"
    parent: str = "/nri-engine"
    conmon: str = "pod"

    def __post_init__(self) -> None:
        if ".." in self.parent.split("/"):
            raise ValueError(f'parent "{self.parent}" leads out of its folder')


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Settings of all containers, and the node's files that classes and devices are resolved by.

    Attributes:
        pids_limit: the most processes of a container; 0 for no limit.
        seccomp_root: the folder that ``localhost`` seccomp profiles must be in; a kubelet's, unless changed.
        apparmor_profile: the AppArmor profile of those that ask for the runtime's default; empty for none.
        cdi_dirs: folders of CDI files, lowest rank first.
        rdt_config: the file of RDT classes; empty: a class is the resctrl group of that name.
        blockio_config: the file of block-I/O classes; empty: there are none.
    """

    pids_limit: int = 0
    seccomp_root: Path = Path("/var/lib/kubelet/seccomp")
    apparmor_profile: str = ""
    cdi_dirs: tuple[str, ...] = ("/etc/cdi", "/var/run/cdi")
    rdt_config: str = ""
    blockio_config: str = ""

    def __post_init__(self) -> None:
        check_limits(self, "pids_limit")


@dataclass(frozen=True, slots=True)
class StreamingConfig:
    """The server behind exec, attach and port forward.

    Attributes:
        address: where it listens. The kubelet is on this machine, so loopback will do.
        port: 0 for any free one.
        idle_timeout: a stream without traffic is closed after this time, in seconds.
        token_timeout: how long an address that was given out can be used, in seconds.
    """

    address: str = "127.0.0.1"
    port: int = 0
    idle_timeout: Duration = 4 * 3600.0
    token_timeout: Duration = 60.0

    def __post_init__(self) -> None:
        check_timeouts(self, "idle_timeout", "token_timeout")
        if not 0 <= self.port <= _MOST_PORT:
            raise ValueError(f"port {self.port} is none: 0 for any free one, or 1 to {_MOST_PORT}")


@dataclass(frozen=True, slots=True)
class NriConfig(AdaptationSettings):
    """NRI inside the engine.

    Attributes:
        disable: requests pass untouched, and no plugin can connect.
        tell_refused: if a plugin refuses an update, tell all of them by PostUpdateContainer what the container has;
            they hear of a refused creation in any case, by StopContainer and RemoveContainer.
    """

    disable: bool = False
    default_validator: ValidatorConfig = field(default_factory=ValidatorConfig)


@dataclass(frozen=True, slots=True)
class DomainConfig:
    """A further client's world beside the kubelet's: its own pods, containers and images, and the same plugins.

    Attributes:
        socket: the unix socket on which it has the CRI; empty for ``NAME.sock`` beside the engine's own.
    """

    socket: str = ""


def _runtimes() -> Mapping[str, OciRuntime]:
    return {"runc": OciRuntime("runc"), "crun": OciRuntime("crun")}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """All settings of an engine. `EngineConfig()` is an engine without a configuration file.

    Attributes:
        socket: the unix socket of the CRI; its folder is made.
        root: the folder of what outlives the machine's restart: images, records, snapshots. Mode 0700.
        state: the folder of what does not: bundles, exit files, network namespaces. Mode 0700.
        default_runtime: the table of `runtimes` for pods that ask for no handler.
        runtimes: OCI runtimes by the names of handlers.
        conmon: the program: a path, or a name that is looked for in PATH.
        log_level: the least that is logged.
        dry: no processes, images and networks: every step is decided, written down and told, and none is done.
        domains: further worlds of pods by their names, as containerd's ``moby`` is beside ``k8s.io``.
    """

    socket: Path = Path("/run/nri-engine/engine.sock")
    root: Path = Path("/var/lib/nri-engine")
    state: Path = Path("/run/nri-engine")
    default_runtime: str = "runc"
    runtimes: Mapping[str, OciRuntime] = field(default_factory=_runtimes)
    conmon: str = "conmon"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    dry: bool = False
    domains: Mapping[str, DomainConfig] = field(default_factory=dict)
    images: ImageConfig = ImageConfig()
    network: NetworkConfig = NetworkConfig()
    cgroups: CgroupConfig = CgroupConfig()
    containers: ContainerConfig = ContainerConfig()
    streaming: StreamingConfig = StreamingConfig()
    nri: NriConfig = NriConfig()
    http: HttpSettings = field(default_factory=HttpSettings)

    def __post_init__(self) -> None:
        sockets = {"socket": self.socket}
        for name in self.domains:
            if not _DOMAIN.fullmatch(name) or name == FIRST_DOMAIN:
                raise ValueError(
                    f'domains has "{name}", which is not the name of a further domain: letters, digits, "-._"'
                )
            sockets[f"domains.{name}.socket"] = self._socket_of(name)
        for name, path in {**sockets, "root": self.root, "state": self.state}.items():
            if not path.is_absolute():
                raise ValueError(f'{name} "{path}" must be an absolute path')
        for name, path in sockets.items():
            if len(bytes(path)) > _MOST_PATH:
                raise ValueError(f'{name} "{path}" is longer than the {_MOST_PATH} bytes that a socket may have')
        if len({*sockets.values()}) < len(sockets):
            raise ValueError(f"{' and '.join(sockets)} have to be different")
        if self.default_runtime not in self.runtimes:
            names = ", ".join(self.runtimes) or "none"
            raise ValueError(
                f'default_runtime "{self.default_runtime}" is not a table below runtimes; there is: {names}'
            )

    def of_domain(self, name: str) -> EngineConfig:
        """The settings of a further domain: these, with its socket, and folders below these."""
        return replace(
            self,
            socket=self._socket_of(name),
            root=self.root / "domains" / name,
            state=self.state / "domains" / name,
            domains={},
            streaming=replace(self.streaming, port=0),
        )

    def _socket_of(self, domain: str) -> Path:
        """The socket of a further domain; a dry engine has all of them in its folder."""
        own = self.domains[domain].socket
        return Path(own) if own and not self.dry else self.socket.with_name(f"{domain}.sock")
