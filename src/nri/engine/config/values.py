"""The engine's settings: a class is a table of ``engine.toml``, a field a key.

Contradicting settings are a ValueError that names them. Durations are seconds, written as a number or like "5s".
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

_MAX_PORT = 65535
#: The domain of the kubelet's pods.
FIRST_DOMAIN = "k8s.io"
_DOMAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
#: The longest path of a unix socket, in bytes.
_MAX_SOCKET_PATH_BYTES = 107


def check_limits(settings: object, *names: str) -> None:
    """ValueError for a negative limit."""
    for name in names:
        if (value := getattr(settings, name)) < 0:
            raise ValueError(f"{name} {value} must not be negative; 0 means no limit")


@dataclass(frozen=True, slots=True)
class OciRuntime:
    """An OCI runtime; pods select it by the name of its table, the runtime handler.

    Attributes:
        path: the program: a path, or a name that is searched in PATH.
        arguments: arguments before each command, for example ``--systemd-cgroup``.
        timeout: the longest duration of a command, in seconds.
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
        host: the registry's host in image names, for example ``docker.io`` or ``registry.example:5000``.
        mirrors: hosts that are tried before it, in order; the prefix ``http://`` allows plain HTTP.
        certificates: the folder of its CAs (``*.crt``) and client certificates; empty for the system's.
        insecure: accept plain HTTP and unknown certificates.
    """

    host: str
    mirrors: tuple[str, ...] = ()
    certificates: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """Images: the programs that pull and unpack them, and the registries.

    Attributes:
        skopeo, umoci: the programs: a path, or a name that is searched in PATH.
        snapshots: how root file systems are created: ``overlay``, ``copy``, or ``auto`` for overlay where it works.
        stall_timeout: cancel a pull that makes no progress for this long, in seconds.
        size_limit: the most bytes of one image, unpacked; 0 for no limit.
        entries_limit: the most files and folders of one image; 0 for no limit.
        image_volumes: what a container gets at each ``VOLUME`` of its image, as in CRI-O: ``bind``, a writable copy of
            the image's folder; ``mkdir``, the folder in its root file system; ``ignore``, nothing.
        registries: registries with mirrors, certificates or plain HTTP; others need no entry.
    """

    skopeo: str = "skopeo"
    umoci: str = "umoci"
    snapshots: Literal["auto", "overlay", "copy"] = "auto"
    stall_timeout: Duration = 60.0
    size_limit: int = 64 << 30
    entries_limit: int = 1_000_000
    image_volumes: Literal["bind", "mkdir", "ignore"] = "bind"
    registries: tuple[Registry, ...] = ()

    def __post_init__(self) -> None:
        check_timeouts(self, "stall_timeout")
        check_limits(self, "size_limit", "entries_limit")


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Networks of pods, by CNI.

    Attributes:
        config_dir: the folder of network configurations; the first usable ``.conflist``, ``.conf`` or ``.json`` counts.
        plugin_dirs: the folders of CNI plugins, in search order.
        timeout: the longest duration of a plugin's call, in seconds.
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
        driver: who creates cgroups: the OCI runtime itself (``cgroupfs``) or systemd. It has to be the kubelet's
            driver.
        parent: the parent cgroup of pods that request none: a path, or a slice with the driver ``systemd``.
        conmon: the cgroup of conmon processes: a path, or ``pod`` for the pod's cgroup.
    """

    driver: Literal["cgroupfs", "systemd"] = "cgroupfs"
    parent: str = "/nri-engine"
    conmon: str = "pod"

    def __post_init__(self) -> None:
        if ".." in self.parent.split("/"):
            raise ValueError(f'parent "{self.parent}" must not contain ".."')


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Settings of all containers, and the node's files that define classes and devices.

    Attributes:
        pids_limit: the most processes of a container; 0 for no limit.
        seccomp_root: the folder of ``localhost`` seccomp profiles; the default is the kubelet's.
        apparmor_profile: the AppArmor profile for requests of the runtime's default; empty for none.
        cdi_dirs: folders of CDI files, lowest rank first.
        rdt_config: the file of RDT classes; empty: each class is the resctrl group with its name.
        blockio_config: the file of block-I/O classes; empty: there are no classes.
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
    """The server for exec, attach and port forward.

    Attributes:
        address: the address to listen on. The kubelet is on this machine, so loopback is enough.
        port: the port to listen on; 0 for any free one.
        idle_timeout: close a stream without traffic after this time, in seconds.
        token_timeout: how long an address that was handed out is valid, in seconds.
    """

    address: str = "127.0.0.1"
    port: int = 0
    idle_timeout: Duration = 4 * 3600.0
    token_timeout: Duration = 60.0

    def __post_init__(self) -> None:
        check_timeouts(self, "idle_timeout", "token_timeout")
        if not 0 <= self.port <= _MAX_PORT:
            raise ValueError(f"port {self.port} must be 0, for any free port, or 1 to {_MAX_PORT}")


@dataclass(frozen=True, slots=True)
class NriConfig(AdaptationSettings):
    """NRI inside the engine.

    Attributes:
        disable: no plugin can connect, and requests are not changed.
        tell_refused: if a plugin rejects an update, notify all plugins by PostUpdateContainer of the actual resources.
            A rejected creation is always reported, by StopContainer and RemoveContainer.
    """

    disable: bool = False
    default_validator: ValidatorConfig = field(default_factory=ValidatorConfig)


@dataclass(frozen=True, slots=True)
class DomainConfig:
    """A separate set of pods, containers and images for another client than the kubelet, with the same plugins.

    Attributes:
        socket: the unix socket of its CRI; empty for ``NAME.sock`` next to the engine's socket.
    """

    socket: str = ""


def _runtimes() -> Mapping[str, OciRuntime]:
    return {"runc": OciRuntime("runc"), "crun": OciRuntime("crun")}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """All settings of an engine. `EngineConfig()` is an engine without a configuration file.

    Attributes:
        socket: the unix socket of the CRI; its folder is created.
        root: the folder of persistent data: images, records, snapshots. Its mode is 0700.
        state: the folder of data until the next reboot: bundles, exit files, network namespaces. Its mode is 0700.
        default_runtime: the table of `runtimes` for pods that request no handler.
        runtimes: OCI runtimes by the names of handlers.
        conmon: the program: a path, or a name that is searched in PATH.
        log_level: the lowest level that is logged.
        dry: run no processes, images and networks: every step is decided, recorded and reported, but not executed.
        domains: further domains by name, like containerd's ``moby`` next to ``k8s.io``.
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
                raise ValueError(f'domains has "{name}", which is not a valid domain name: use letters, digits, "-._"')
            sockets[f"domains.{name}.socket"] = self._socket_of(name)
        for name, path in {**sockets, "root": self.root, "state": self.state}.items():
            if not path.is_absolute():
                raise ValueError(f'{name} "{path}" must be an absolute path')
        for name, path in sockets.items():
            if len(bytes(path)) > _MAX_SOCKET_PATH_BYTES:
                raise ValueError(
                    f'{name} "{path}" exceeds {_MAX_SOCKET_PATH_BYTES} bytes, the longest path of a socket'
                )
        if len({*sockets.values()}) < len(sockets):
            raise ValueError(f"{' and '.join(sockets)} must be different")
        if self.default_runtime not in self.runtimes:
            names = ", ".join(self.runtimes) or "none"
            raise ValueError(
                f'default_runtime "{self.default_runtime}" is not a table of runtimes; existing tables: {names}'
            )

    def of_domain(self, name: str) -> EngineConfig:
        """The settings of a further domain: these, with its socket, and with folders below these."""
        return replace(
            self,
            socket=self._socket_of(name),
            root=self.root / "domains" / name,
            state=self.state / "domains" / name,
            domains={},
            streaming=replace(self.streaming, port=0),
        )

    def outermost_folders(self, domain: str) -> tuple[Path, Path]:
        """The folders `root` and `state` of the whole engine, if these are the settings of this domain."""
        return (self.root, self.state) if domain == FIRST_DOMAIN else (self.root.parents[1], self.state.parents[1])

    def _socket_of(self, domain: str) -> Path:
        """The socket of a further domain; a dry engine has all sockets in its folder."""
        socket = self.domains[domain].socket
        return Path(socket) if socket and not self.dry else self.socket.with_name(f"{domain}.sock")
