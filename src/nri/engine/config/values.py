"""The engine's settings. Each class is a table of ``engine.toml``, and each field is a key of the table.

A constructor raises ValueError if a value is invalid, or if two settings contradict each other. Durations are in
seconds; files have them as a number or a string like "5s".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from nri.adaptation import AdaptationSettings
from nri.api.default_validator import ValidatorConfig
from nri.config import Duration, check_timeouts
from nri.engine.config.defaults import parse_capability, parse_device, parse_mount, parse_ulimit, parse_variable
from nri.engine.support.annotations import parse_allowable, parse_pattern
from nri.engine.support.sysctls import Sysctl, parse_sysctl
from nri.errors import RequestError
from nri.kube.kubelet import SECCOMP_ROOT
from nri.service.settings import HttpSettings

_MAX_PORT = 65535
#: The size of conmon's buffer. conmon cannot limit a log to less than this.
_MIN_LOG_BYTES = 8192
#: The name of the domain with the kubelet's pods.
FIRST_DOMAIN = "k8s.io"
#: The sysctls of `enable_unprivileged_ports` and `enable_unprivileged_icmp`.
_USER_PORTS, _USER_PINGS = ("net.ipv4.ip_unprivileged_port_start=0",), ("net.ipv4.ping_group_range=0 2147483647",)
#: A valid name of a domain.
_DOMAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
#: The maximum length of the path of a unix socket.
_MAX_SOCKET_PATH_BYTES = 107


def check_limits(settings: object, *names: str) -> None:
    """Raise ValueError if one of the limits is negative."""
    for name in names:
        if (value := getattr(settings, name)) < 0:
            raise ValueError(f"{name} {value} must not be negative; 0 means no limit")


#: The functions that check each text of these keys of an OCI runtime.
_RUNTIME_PARSERS: Mapping[str, Callable[[str], object]] = {
    "default_capabilities": parse_capability,
    "pod_annotations": parse_pattern,
    "container_annotations": parse_pattern,
    "allowed_annotations": parse_allowable,
}


def _check_texts(settings: object, parsers: Mapping[str, Callable[[str], object]]) -> None:
    """ValueError for a text that the parser of its key rejects."""
    for key, parse in parsers.items():
        for text in getattr(settings, key) or ():
            try:
                parse(text)
            except ValueError as error:
                raise ValueError(f"{key} {error}") from None


def _capabilities_spec(names: tuple[str, ...] | None) -> dict[str, Any]:
    """The capabilities of an OCI process; None for the engine's."""
    return {} if names is None else {"capabilities": {"bounding": [parse_capability(name) for name in names]}}


@dataclass(frozen=True, slots=True)
class OciRuntime:
    """An OCI runtime. Pods select it by their runtime handler, which is the name of its table.

    Attributes:
        path: the OCI runtime's program: a path, or a name that is searched in PATH.
        arguments: arguments before each command, for example ``--systemd-cgroup``.
        timeout: kill a command of the OCI runtime that takes longer.
        base_runtime_spec: a file with an OCI spec, as ``ctr oci spec`` prints it: the defaults of environment, bounding
            capabilities, process limits, mounts, hooks and annotations.
        default_capabilities: as in the table ``containers``, for this runtime's containers only.
        seccomp_profile: the seccomp profile of containers that request the runtime's default; empty for the engine's.
        pod_annotations: patterns of the pod annotations that the OCI spec gets, as in containerd: ``*`` matches all but
            a slash. An annotation on which OCI runtimes act, for example ``run.oci.handler``, must match a pattern with
            the same prefix.
        container_annotations: the same for annotations of containers.
        allowed_annotations: the annotations that the engine acts on, as in CRI-O: ``io.kubernetes.cri-o.Devices``,
            ``io.kubernetes.cri-o.umask``, ``io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw``.
        cgroup_writable: let containers create child cgroups; requires cgroup v2.
        privileged_without_host_devices: give privileged containers only the devices that they request.
        privileged_without_host_devices_all_devices_allowed: let these containers nevertheless use all devices.
    """

    path: str = "runc"
    arguments: tuple[str, ...] = ()
    timeout: Duration = 30.0
    base_runtime_spec: str = ""
    default_capabilities: tuple[str, ...] | None = None
    seccomp_profile: str = ""
    pod_annotations: tuple[str, ...] = ()
    container_annotations: tuple[str, ...] = ()
    allowed_annotations: tuple[str, ...] = ()
    cgroup_writable: bool = False
    privileged_without_host_devices: bool = False
    privileged_without_host_devices_all_devices_allowed: bool = False

    def __post_init__(self) -> None:
        check_timeouts(self, "timeout")
        _check_texts(self, _RUNTIME_PARSERS)
        if self.privileged_without_host_devices_all_devices_allowed and not self.privileged_without_host_devices:
            raise ValueError(
                "privileged_without_host_devices_all_devices_allowed requires privileged_without_host_devices = true"
            )

    def base_spec(self) -> dict[str, Any]:
        """The defaults that have a form in an OCI spec."""
        return {"process": _capabilities_spec(self.default_capabilities)}


@dataclass(frozen=True, slots=True)
class Registry:
    """The operator's settings for one registry. They replace the settings for this registry in `registries_conf`.

    Attributes:
        host: the beginning of image names: a host such as ``registry.example:5000``, a host with a path, or
            ``*.DOMAIN`` for all hosts of a domain. The longest match is used.
        mirrors: hosts to try before this registry, in order; the prefix ``http://`` allows plain HTTP.
        location: the host, or host and path, that replaces `host` in requests; empty for `host` itself.
        certificates: a folder with the registry's CA certificates (``*.crt``) and client certificates; empty for the
            CAs of this machine.
        insecure: accept plain HTTP and certificates that cannot be verified.
        blocked: refuse every pull from this registry and its mirrors.
    """

    host: str
    mirrors: tuple[str, ...] = ()
    location: str = ""
    certificates: str = ""
    insecure: bool = False
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """Settings of images and registries.

    Attributes:
        skopeo: the program that pulls images: a path, or a name that is searched in PATH.
        umoci: the program that unpacks images: a path, or a name that is searched in PATH.
        snapshots: how root file systems are created: ``overlay`` (overlayfs over shared layers), ``copy`` (a copy of
            the image), or ``auto`` (overlayfs if it works, otherwise a copy).
        stall_timeout: cancel a pull that makes no progress for this long, while it copies or unpacks, as containerd's
            ``image_pull_progress_timeout`` and CRI-O's ``pull_progress_timeout``.
        pull_timeout: cancel a pull that takes longer than this, even if it makes progress.
        size_limit: the maximum bytes of an unpacked image with all layers; 0 means no limit.
        entries_limit: the maximum number of files and folders in an image's layers; 0 means no limit.
        image_volumes: what is at each ``VOLUME`` of an image, as in CRI-O: ``bind`` mounts a writable copy of the
            image's folder; ``mkdir`` creates a folder in the root file system; ``ignore`` does nothing.
        credentials_file: logins for registries, as in podman's ``auth.json`` and Docker's ``config.json``, for pulls
            without another login. The file is read at each pull.
        signature_policy: a policy as in ``containers-policy.json``: which images and signatures are accepted. If empty,
            ``/etc/containers/policy.json`` is used if it exists.
        pinned_images: images that the kubelet does not remove to free disk space, as in CRI-O: a name, ``START*``, or
            ``*PART*``.
        registries_conf: registries, mirrors and short names, as in ``containers-registries.conf`` (version 2) of podman
            and CRI-O. The files ``*.conf`` in PATH``.d`` are read, too. If empty, short names mean Docker Hub.
        registries: settings of registries. A registry without mirrors, certificates and plain HTTP needs no entry.
    """

    skopeo: str = "skopeo"
    umoci: str = "umoci"
    snapshots: Literal["auto", "overlay", "copy"] = "auto"
    stall_timeout: Duration = 60.0
    pull_timeout: Duration = 4 * 3600.0
    size_limit: int = 64 << 30
    entries_limit: int = 1_000_000
    image_volumes: Literal["bind", "mkdir", "ignore"] = "bind"
    credentials_file: str = ""
    signature_policy: str = ""
    pinned_images: tuple[str, ...] = ()
    registries_conf: str = ""
    registries: tuple[Registry, ...] = ()

    def __post_init__(self) -> None:
        check_timeouts(self, "stall_timeout", "pull_timeout")
        check_limits(self, "size_limit", "entries_limit")
        for key in ("credentials_file", "signature_policy", "registries_conf"):
            if (path := getattr(self, key)) and not path.startswith("/"):
                raise ValueError(f'{key} "{path}" must be an absolute path')
        for pattern in self.pinned_images:
            if (
                not pattern
                or "*" in pattern.removeprefix("*").removesuffix("*")
                or (pattern.startswith("*") and not pattern.endswith("*"))
            ):
                raise ValueError(f'pinned_images "{pattern}" must be a name, START* or *PART*')


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Settings of pod networks, which CNI plugins create.

    Attributes:
        config_dir: the folder with CNI network configurations. The first usable ``.conflist``, ``.conf`` or ``.json``
            file by name is used.
        plugin_dirs: the folders that are searched for CNI plugins, in order.
        max_conf_num: attach each pod to this many networks, one for each file, as in containerd; 0 for all files. The
            first network has the interface ``eth0`` and the pod's addresses, the next ``eth1``.
        conf_template: the file of a template, as in containerd. When the kubelet reports the node's address ranges
            and there is no network, the engine writes the result to ``10-nri-engine-net.conflist`` in config_dir. The
            fields are ``.PodCIDR``, ``.PodCIDRRanges`` and ``.Routes``.
        timeout: kill a CNI plugin that takes longer.
    """

    config_dir: Path = Path("/etc/cni/net.d")
    plugin_dirs: tuple[Path, ...] = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    max_conf_num: int = 1
    conf_template: str = ""
    timeout: Duration = 60.0

    def __post_init__(self) -> None:
        check_timeouts(self, "timeout")
        check_limits(self, "max_conf_num")


@dataclass(frozen=True, slots=True)
class CgroupConfig:
    """Settings of cgroups.

    Attributes:
        driver: who creates cgroups: the OCI runtime (``cgroupfs``) or ``systemd``, as in the kubelet's configuration.
        parent: the parent cgroup of pods that do not request a parent: a path, or a slice if driver is ``systemd``.
        conmon: the cgroup of conmon processes: ``pod`` for the pod's cgroup, or a path. If driver is ``systemd``, a
            slice, in which each conmon process gets a scope.
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


#: Keys with a list of strings, and the function that checks each string.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "default_ulimits": parse_ulimit,
    "default_env": parse_variable,
    "default_capabilities": parse_capability,
    "default_mounts": parse_mount,
    "additional_devices": parse_device,
}


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Settings of all containers, and paths of files that define devices and classes.

    Attributes:
        pids_limit: the maximum number of processes in a container; 0 means no limit.
        enable_unprivileged_ports: let every user listen on ports below 1024 in pods with their own network namespace,
            as in containerd.
        enable_unprivileged_icmp: let every user ping in pods with their own network namespace, as in containerd.
        default_sysctls: sysctls as ``NAME=VALUE``, as in CRI-O, for pods that have the sysctl's namespace and request
            no other value. They override the two keys above.
        seccomp_root: the folder with the seccomp profiles of the type ``localhost``; the default is the kubelet's.
        default_ulimits: process limits, for example ``nofile=1024:2048``; -1 means no limit.
        default_env: environment variables as ``NAME=VALUE``; image and request override them.
        default_capabilities: the capabilities of each container; requests can add and drop some. The default is
            containerd's list.
        default_mounts: folders and files of the node that every container gets: ``/HOST:/CONTAINER``, read-only with
            ``:ro``. A requested mount at the same path replaces the default.
        additional_devices: devices of the node that every container gets: ``/dev/HOST:/dev/CONTAINER:rwm``. The path
            in the container and the permissions may be omitted.
        allowed_devices: the devices that a pod may request by the annotation ``io.kubernetes.cri-o.Devices``, if
            `allowed_annotations` of its OCI runtime has this annotation.
        device_ownership_from_security_context: give requested devices to the container's ``runAsUser`` and
            ``runAsGroup``, as in containerd.
        default_annotations: annotations of every OCI spec.
        log_size_max: the maximum bytes of a container's log, as in CRI-O; 0 means no limit. conmon empties a log that
            reaches the limit; kubelets rotate logs themselves, without losing lines.
        hooks_dir: folders with configuration files of OCI hooks, as in podman and CRI-O. A file replaces the file of
            the same name in earlier folders. Do not also use the plugin ``hook-injector``, which reads the same files.
        apparmor_profile: the AppArmor profile of containers that request the runtime's default; empty for no profile.
        cdi_dirs: folders with CDI files. A later folder has precedence.
        rdt_config: the file that defines RDT classes. If empty, a class that a plugin sets is the resctrl group of the
            same name, and annotations cannot select a class.
        blockio_config: the file that defines block-I/O classes; empty for no classes.
        ignore_rdt_not_enabled_errors, ignore_blockio_not_enabled_errors: create a container without its class, as in
            containerd, if an annotation selects a class and this node has no classes.
    """

    pids_limit: int = 0
    enable_unprivileged_ports: bool = True
    enable_unprivileged_icmp: bool = True
    default_sysctls: tuple[str, ...] = ()
    seccomp_root: Path = Path(SECCOMP_ROOT)
    default_ulimits: tuple[str, ...] = ()
    default_env: tuple[str, ...] = ()
    default_capabilities: tuple[str, ...] | None = None
    default_mounts: tuple[str, ...] = ()
    additional_devices: tuple[str, ...] = ()
    allowed_devices: tuple[str, ...] = ("/dev/fuse", "/dev/net/tun")
    device_ownership_from_security_context: bool = False
    default_annotations: Mapping[str, str] = field(default_factory=dict)
    log_size_max: int = 0
    hooks_dir: tuple[str, ...] = ()
    apparmor_profile: str = ""
    cdi_dirs: tuple[str, ...] = ("/etc/cdi", "/var/run/cdi")
    rdt_config: str = ""
    blockio_config: str = ""
    ignore_rdt_not_enabled_errors: bool = False
    ignore_blockio_not_enabled_errors: bool = False

    def __post_init__(self) -> None:
        check_limits(self, "pids_limit", "log_size_max")
        if 0 < self.log_size_max < _MIN_LOG_BYTES:
            raise ValueError(
                f"log_size_max {self.log_size_max} must be at least {_MIN_LOG_BYTES}, conmon's buffer, or 0"
            )
        self.sysctls()
        _check_texts(self, _PARSERS)
        for path in self.allowed_devices:
            if not path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f'allowed_devices "{path}" must be an absolute path without ".."')

    def base_spec(self) -> dict[str, Any]:
        """Return process limits, environment, capabilities and annotations as a partial OCI spec."""
        process: dict[str, Any] = {
            "rlimits": [parse_ulimit(text) for text in self.default_ulimits],
            "env": list(self.default_env),
            **_capabilities_spec(self.default_capabilities),
        }
        return {"process": process, "annotations": dict(self.default_annotations)}

    def sysctls(self) -> list[Sysctl]:
        """Return the default sysctls of pods. Raises ValueError if one is invalid."""
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
    """Settings of the server for exec, attach and port forwarding.

    Attributes:
        address: the address to listen on. The kubelet is on this machine, so loopback is enough.
        port: the port to listen on; 0 means any free port.
        idle_timeout: close a stream without traffic after this time.
        token_timeout: how long the URL in the answer to Exec, Attach or PortForward is valid.
        tls_certificate, tls_key: PEM files of a certificate and its private key, for TLS; they are read again when they
            change.
        tls_client_ca: a PEM file with CAs; clients then need a certificate of these CAs.
        tls_min_version: the oldest version of TLS that clients may use.
    """

    address: str = "127.0.0.1"
    port: int = 0
    idle_timeout: Duration = 4 * 3600.0
    token_timeout: Duration = 60.0
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    tls_min_version: Literal["1.2", "1.3"] = "1.2"

    def __post_init__(self) -> None:
        check_timeouts(self, "idle_timeout", "token_timeout")
        if not 0 <= self.port <= _MAX_PORT:
            raise ValueError(f"port {self.port} must be 0, for any free port, or 1 to {_MAX_PORT}")
        if bool(self.tls_certificate) != bool(self.tls_key) or (self.tls_client_ca and not self.tls_key):
            raise ValueError("tls_certificate and tls_key must both be set; tls_client_ca requires them")


@dataclass(frozen=True, slots=True)
class NriConfig(AdaptationSettings):
    """Settings of NRI in the engine.

    Attributes:
        disable: switch NRI off: plugins cannot connect, and requests are not changed.
        tell_refused: if a plugin refuses an update, send PostUpdateContainer with the actual resources to all plugins.
            A refused creation always causes StopContainer and RemoveContainer.
    """

    disable: bool = False
    default_validator: ValidatorConfig = field(default_factory=ValidatorConfig)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Settings of OpenTelemetry traces: a span for each call of the CRI, each event of NRI and each call of a plugin.

    Attributes:
        endpoint: the address of a collector that receives OTLP over HTTP, for example ``http://127.0.0.1:4318``. If
            empty, no spans are sent.
    """

    endpoint: str = ""

    def __post_init__(self) -> None:
        try:
            url = urlsplit(self.endpoint)
            valid = not self.endpoint or bool(url.scheme in ("http", "https") and url.hostname and url.port != 0)
        except ValueError:  # the port is not a number
            valid = False
        if not valid:
            raise ValueError(f'endpoint "{self.endpoint}" is not an http:// or https:// address')


@dataclass(frozen=True, slots=True)
class DomainConfig:
    """A separate set of pods, containers and images, for another client than the kubelet. All domains share plugins.

    Attributes:
        socket: the unix socket where the domain's CRI is served. If empty, ``NAME.sock`` next to the engine's socket.
    """

    socket: str = ""


def _runtimes() -> Mapping[str, OciRuntime]:
    return {"runc": OciRuntime("runc"), "crun": OciRuntime("crun")}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """All settings of an engine. `EngineConfig()` has the defaults.

    Attributes:
        socket: the unix socket where the CRI is served; its folder is created.
        root: the folder of persistent data: images, records, snapshots. Its mode is 0700.
        state: the folder of data that a reboot removes: bundles, exit files, network namespaces. Its mode is 0700.
        default_runtime: the name of the runtime for pods that request no runtime handler: a NAME of [runtimes.NAME].
        runtimes: OCI runtimes by runtime handler.
        conmon: the program conmon, which holds a container's streams: a path, or a name that is searched in PATH.
        log_level: the lowest level that is logged.
        dry: decide, record and report every step, but run no process, pull no image and create no network.
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
    tracing: TracingConfig = TracingConfig()

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
            raise ValueError(f'default_runtime "{self.default_runtime}" is not among the configured runtimes: {names}')

    def of_domain(self, name: str) -> EngineConfig:
        """Return the settings of a further domain: these settings with the domain's socket and subfolders."""
        return replace(
            self,
            socket=self._socket_of(name),
            root=self.root / "domains" / name,
            state=self.state / "domains" / name,
            domains={},
            streaming=replace(self.streaming, port=0),
        )

    def outermost_folders(self, domain: str) -> tuple[Path, Path]:
        """Return the folders `root` and `state` of the engine, if `self` has the settings of `domain`."""
        return (self.root, self.state) if domain == FIRST_DOMAIN else (self.root.parents[1], self.state.parents[1])

    def _socket_of(self, domain: str) -> Path:
        """Return the socket of a further domain. A dry engine has all sockets in its own folder."""
        socket = self.domains[domain].socket
        return Path(socket) if socket and not self.dry else self.socket.with_name(f"{domain}.sock")
