"""The engine's settings: a class is a table of ``engine.toml``, a field a key.

Contradicting settings are a ValueError that names them. Durations are seconds, written as a number or like "5s".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from nri.adaptation import AdaptationSettings
from nri.api.default_validator import ValidatorConfig
from nri.config import Duration, check_timeouts
from nri.engine.config.defaults import parse_capability, parse_device, parse_mount, parse_ulimit, parse_variable
from nri.engine.support.sysctls import Sysctl, parse_sysctl
from nri.errors import RequestError
from nri.service.settings import HttpSettings

_MAX_PORT = 65535
_MIN_LOG_BYTES = 8192
#: The domain of the kubelet's pods.
FIRST_DOMAIN = "k8s.io"
_USER_PORTS, _USER_PINGS = ("net.ipv4.ip_unprivileged_port_start=0",), ("net.ipv4.ping_group_range=0 2147483647",)
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
        base_runtime_spec: a file with an OCI spec, as ``ctr oci spec`` prints it, whose environment, bounding
            capabilities, limits of processes, mounts, hooks and annotations are the defaults of its containers.
    """

    path: str = "runc"
    arguments: tuple[str, ...] = ()
    timeout: Duration = 30.0
    base_runtime_spec: str = ""

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
        pinned_images: images that the kubelet does not remove to free disk space, as in CRI-O: a name, ``START*``, or
            ``*PART*``.
        registries: registries with mirrors, certificates or plain HTTP; others need no entry.
    """

    skopeo: str = "skopeo"
    umoci: str = "umoci"
    snapshots: Literal["auto", "overlay", "copy"] = "auto"
    stall_timeout: Duration = 60.0
    size_limit: int = 64 << 30
    entries_limit: int = 1_000_000
    image_volumes: Literal["bind", "mkdir", "ignore"] = "bind"
    pinned_images: tuple[str, ...] = ()
    registries: tuple[Registry, ...] = ()

    def __post_init__(self) -> None:
        check_timeouts(self, "stall_timeout")
        check_limits(self, "size_limit", "entries_limit")
        for pattern in self.pinned_images:
            if (
                not pattern
                or "*" in pattern.removeprefix("*").removesuffix("*")
                or (pattern.startswith("*") and not pattern.endswith("*"))
            ):
                raise ValueError(f'pinned_images "{pattern}" must be a name, START* or *PART*')


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
        conmon: the cgroup of conmon processes: ``pod`` for the pod's cgroup, or a path; with the driver ``systemd`` a
            slice, in which each conmon gets a scope.
    """

    driver: Literal["cgroupfs", "systemd"] = "cgroupfs"
    parent: str = "/nri-engine"
    conmon: str = "pod"

    def __post_init__(self) -> None:
        for key, path in (("parent", self.parent), ("conmon", self.conmon)):
            if ".." in path.split("/"):
                raise ValueError(f'{key} "{path}" must not contain ".."')
        if self.driver == "systemd" and self.conmon != "pod" and not self.conmon.endswith(".slice"):
            raise ValueError(f'conmon "{self.conmon}" must be "pod" or a slice, because driver is "systemd"')


#: The functions that check each text of these keys.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "default_ulimits": parse_ulimit,
    "default_env": parse_variable,
    "default_capabilities": parse_capability,
    "default_mounts": parse_mount,
    "additional_devices": parse_device,
}


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Settings of all containers, and the node's files that define classes and devices.

    Attributes:
        pids_limit: the most processes of a container; 0 for no limit.
        enable_unprivileged_ports: in pods with their own network every user may listen on ports below 1024
            (``net.ipv4.ip_unprivileged_port_start=0``), as in containerd.
        enable_unprivileged_icmp: in these pods every user may ping (``net.ipv4.ping_group_range=0 2147483647``).
        default_sysctls: sysctls as ``NAME=VALUE`` for pods that request no other value and have the namespace, as in
            CRI-O; they replace the two above.
        seccomp_root: the folder of ``localhost`` seccomp profiles, which may be links; the default is the kubelet's.
        default_ulimits: limits of processes, for example ``nofile=1024:2048``; -1 for no limit.
        default_env: environment variables as ``NAME=VALUE``; image and request override them.
        default_capabilities: the capabilities of a container that requests no others, without those it drops. The
            default is containerd's list.
        default_mounts: folders and files of the node in every container, as ``/HOST:/CONTAINER`` with ``:ro`` if they
            are read-only; a mount of the request at the same path replaces them.
        additional_devices: devices of the node in every container, as ``/dev/HOST:/dev/CONTAINER:rwm``, of which the
            last two parts may be missing.
        default_annotations: annotations of every OCI spec.
        log_size_max: the most bytes of a container's log, as in CRI-O; conmon then empties it. 0 for no limit: the
            kubelet rotates logs itself, and loses nothing.
        hooks_dir: folders with files of OCI hooks, as of podman and CRI-O; a file in a later folder replaces one of the
            same name. The plugin ``hook-injector`` does the same for all runtimes; use one of both.
        apparmor_profile: the AppArmor profile for requests of the runtime's default; empty for none.
        cdi_dirs: folders of CDI files, lowest rank first.
        rdt_config: the file of RDT classes; empty: each class is the resctrl group with its name.
        blockio_config: the file of block-I/O classes; empty: there are no classes.
    """

    pids_limit: int = 0
    enable_unprivileged_ports: bool = True
    enable_unprivileged_icmp: bool = True
    default_sysctls: tuple[str, ...] = ()
    seccomp_root: Path = Path("/var/lib/kubelet")
    default_ulimits: tuple[str, ...] = ()
    default_env: tuple[str, ...] = ()
    default_capabilities: tuple[str, ...] | None = None
    default_mounts: tuple[str, ...] = ()
    additional_devices: tuple[str, ...] = ()
    default_annotations: Mapping[str, str] = field(default_factory=dict)
    log_size_max: int = 0
    hooks_dir: tuple[str, ...] = ()
    apparmor_profile: str = ""
    cdi_dirs: tuple[str, ...] = ("/etc/cdi", "/var/run/cdi")
    rdt_config: str = ""
    blockio_config: str = ""

    def __post_init__(self) -> None:
        check_limits(self, "pids_limit", "log_size_max")
        if 0 < self.log_size_max < _MIN_LOG_BYTES:
            raise ValueError(
                f"log_size_max {self.log_size_max} must be at least {_MIN_LOG_BYTES}, conmon's buffer, or 0"
            )
        self.sysctls()
        for key, parse in _PARSERS.items():
            for text in getattr(self, key) or ():
                try:
                    parse(text)
                except ValueError as error:
                    raise ValueError(f"{key} {error}") from None

    def base_spec(self) -> dict[str, Any]:
        """The defaults that have a form in an OCI spec."""
        process: dict[str, Any] = {
            "rlimits": [parse_ulimit(text) for text in self.default_ulimits],
            "env": list(self.default_env),
        }
        if self.default_capabilities is not None:
            process["capabilities"] = {"bounding": [parse_capability(text) for text in self.default_capabilities]}
        return {"process": process, "annotations": dict(self.default_annotations)}

    def sysctls(self) -> list[Sysctl]:
        """The sysctls of pods that request no other value. ValueError for an invalid one."""
        texts = [*_USER_PORTS * self.enable_unprivileged_ports, *_USER_PINGS * self.enable_unprivileged_icmp]
        sysctls: dict[tuple[str, ...], Sysctl] = {}
        for text in (*texts, *self.default_sysctls):
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f'default_sysctls "{text}" must be NAME=VALUE')
            try:
                sysctl = parse_sysctl(name.strip(), value.strip(), f"default_sysctls {name}")
            except RequestError as error:
                raise ValueError(str(error)) from None
            sysctls[sysctl.path] = sysctl
        return [*sysctls.values()]


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
