"""The tools with which the engine creates pods and containers, built from its configuration."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nri.api.annotations import REQUIRED_PLUGINS
from nri.api.default_validator import missing_plugins, required_names
from nri.config.syntax import parse_json
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, OciRuntime
from nri.engine.images import ImageStore, Transport
from nri.engine.images.space_budget import Limits
from nri.engine.lifecycle.places import Places
from nri.engine.lifecycle.pod_namespaces import PodNamespaces
from nri.engine.lifecycle.settings_files import SettingsFiles, read_settings_files
from nri.engine.machine import detect_machine, with_features
from nri.engine.network import Cni, NetworkNamespaces, Template
from nri.engine.process import Conmon, ExecResult, Exit, Exits, Runtime, StreamOwner, exec_sync
from nri.engine.spec import Base, Machine, localhost_profile
from nri.engine.support.annotations import class_annotation
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, MissingTool
from nri.errors import ConfigError, NriError, RequestError, SpecError
from nri.files import read_regular
from nri.oci import Generator
from nri.text import cut, quote

_log = logging.getLogger(__name__)
#: Exists where resctrl is mounted.
RESCTRL = Path("/sys/fs/resctrl/schemata")
#: The name of a container, its annotations, and those of its pod.
ContainerAnnotations = tuple[str, Mapping[str, str], Mapping[str, str]]
_PROFILE_BYTES = 4 << 20
_NO_HUGETLB, _NO_SWAP, _NO_V2 = (
    "this machine's cgroups cannot limit huge pages",
    "this machine's cgroups cannot limit swap",
    "this machine has cgroup v1",
)


class Machinery:
    """The tools of one engine: OCI runtimes, conmon, images, networks, and the machine's features.

    The constructor raises EngineError or ConfigError if a tool cannot be created.

    Attributes:
        config: the settings that are in force; see :meth:`configure`.
        hooks: the OCI hooks of the node's directories.
        dry: whether the tools change nothing on the machine; see `nri.engine.lifecycle.dry`.
    """

    dry = False

    def __init__(self, config: EngineConfig, places: Places) -> None:
        self.places = places
        self.machine = detect_machine()
        self.images = ImageStore(places.images, driver=config.images.snapshots)
        self.network_namespaces = NetworkNamespaces(places.namespaces)
        self.namespaces = PodNamespaces(self.network_namespaces)
        self.cni = Cni(config.network.plugin_dirs, places.networks, timeout_s=config.network.timeout)
        self._lock = threading.Lock()
        self._runtimes: dict[str, Runtime] = {}
        self.configure(self.read_files(config))

    def read_files(self, config: EngineConfig) -> SettingsFiles:
        """Read the files that settings name, and change nothing. Raises ConfigError if a file is invalid."""
        for name, settings in config.runtimes.items():
            if settings.cgroup_writable and not (self.dry or self.machine.cgroup_v2):
                raise ConfigError(f"runtimes.{name}.cgroup_writable", "", "requires cgroup v2; this node has v1")
        return read_settings_files(config, self.machine.architecture)

    def configure(self, files: SettingsFiles) -> None:
        """Use other settings for the next calls. Running calls of programs are not changed.

        Nothing here can fail, so the settings are never applied only partly.
        """
        config = files.config
        images, network = config.images, config.network
        self.images.transport = Transport(
            images.skopeo,
            files.registries,
            stall_s=images.stall_timeout,
            total_s=images.pull_timeout,
            credentials_file=images.credentials_file,
            policy=images.signature_policy,
        )
        self.images.umoci, self.images.limits = images.umoci, Limits(images.size_limit, images.entries_limit)
        self.conmon = Conmon(config.conmon, log_size_max=config.containers.log_size_max)
        self.cni.configure(network.plugin_dirs, network.timeout)
        with self._lock:  # a runtime that is created now would keep the previous settings
            self.config, self._files, self.hooks = config, files, files.hooks
            for handler, runtime in self._runtimes.items():
                if settings := config.runtimes.get(handler):
                    runtime.configure(*self._command(settings), settings.timeout)
            self._machines: dict[str, Machine] = {}

    def exits(self, on_exit: Callable[[Exit], None]) -> Exits:
        """Create the object that reports the ends of containers."""
        return Exits(on_exit)

    def exec_sync(
        self,
        runtime: Runtime,
        container_id: str,
        process: dict[str, Any],
        timeout_s: float | None,
        client_gone: threading.Event | None = None,
        owner: StreamOwner | None = None,
    ) -> ExecResult:
        """Run a program in a container and wait for its end. Raises CommandTimeout, CommandFailed."""
        return exec_sync(runtime, container_id, process, timeout_s=timeout_s, client_gone=client_gone, owner=owner)

    def handler(self, requested: str) -> str:
        """Return the runtime handler of a request. "" requests the default handler.

        Raises RequestError if the handler is unknown, and MissingTool if its program is missing.
        """
        handler = requested or self.config.default_runtime
        if handler not in self.config.runtimes:
            names = ", ".join(self.config.runtimes)
            raise RequestError("runtime_handler", requested, f"is not a runtime handler of this engine; known: {names}")
        path = self.config.runtimes[handler].path
        if not self.dry and shutil.which(path) is None:
            raise MissingTool(path)
        return handler

    def runtime(self, handler: str) -> Runtime:
        """Return the OCI runtime of a handler. Raises EngineError if the handler is no longer configured."""
        with self._lock:
            if handler not in self._runtimes:
                settings = self.config.runtimes.get(handler)
                if settings is None:
                    raise EngineError(f"the runtime handler {handler!r} is no longer configured")
                self._runtimes[handler] = self._make_runtime(handler, settings)
            return self._runtimes[handler]

    def _make_runtime(self, handler: str, settings: OciRuntime) -> Runtime:
        binary, arguments = self._command(settings)
        return Runtime(binary, self.places.runtime(handler), arguments=arguments, timeout_s=settings.timeout)

    def _command(self, settings: OciRuntime) -> tuple[str, list[str]]:
        """Return an OCI runtime's program, and the arguments before each of its commands."""
        arguments = [*settings.arguments]
        if self.systemd_cgroup and "--systemd-cgroup" not in arguments:
            arguments.append("--systemd-cgroup")
        return shutil.which(settings.path) or settings.path, arguments

    def machine_of(self, handler: str) -> Machine:
        """The features of the machine together with the OCI runtime of a handler."""
        machines = self._machines
        if handler not in machines:
            machines[handler] = with_features(self.machine, self._features(self.runtime(handler)))
        return machines[handler]

    def _features(self, runtime: Runtime) -> Mapping[str, Any]:
        """The features that an OCI runtime reports."""
        try:
            output = run([runtime.binary, "features"], timeout_s=runtime.timeout_s, check=False)
            features = parse_json(output.stdout) if output.code == 0 else {}
        except (EngineError, ValueError):
            return {}  # the program has no such command, or it is missing, which is reported when it is used
        return features if isinstance(features, dict) else {}

    @property
    def network_template(self) -> Template | None:
        """The template of the pod network."""
        return self._files.network

    def base(self, handler: str) -> Base:
        """Return the defaults of containers with this handler. If it is no longer configured, there are no defaults."""
        return self._files.bases.get(handler, Base())

    def default_seccomp(self, handler: str) -> dict[str, Any] | None:
        """The profile of containers that request the default of this handler; None for the engine's."""
        return self._files.seccomp_profiles.get(handler)

    @property
    def systemd_cgroup(self) -> bool:
        """Whether systemd creates the cgroups."""
        return self.config.cgroups.driver == "systemd"

    def missing_programs(self) -> list[str]:
        """Return the missing programs among those that every container requires."""
        config = self.config  # a reload may replace it meanwhile
        default = config.runtimes[config.default_runtime]
        return [program for program in (config.conmon, default.path) if shutil.which(program) is None]

    def pod_cgroup(self, pod_id: str) -> str:
        """Return the parent cgroup of a pod that requests none: its own cgroup, or with systemd the common slice."""
        default = self.config.cgroups.parent
        return default if self.systemd_cgroup else f"{default.rstrip('/')}/pod{pod_id}"

    def generator(self, spec: Mapping[str, Any], left_out: Callable[[str], object] | None = None) -> Generator:
        """Create a generator that applies plugins' adjustments to a spec, with this node's classes and devices.

        `left_out` receives a line for each resource that this machine cannot limit. Without it, the line is logged.
        """

        def check(resources: dict[str, Any]) -> None:
            for line in fit(resources, self.machine):
                if left_out is None:
                    _log.info("a plugin's adjustment is not applied: %s", line)
                else:
                    left_out(line)

        return Generator(
            dict(spec),
            compat=self.config.nri.compat,
            cdi=self._files.cdi.inject,
            rdt=self._files.rdt.resolve,
            blockio=None if self._files.blockio is None else self._files.blockio.resolve,
            check_resources=check,
        )

    def set_classes(self, spec: dict[str, Any], container: ContainerAnnotations) -> None:
        """Add the RDT and block-I/O classes that annotations select to a spec. RequestError for an unavailable class.

        Without a file of classes no annotation can select one: otherwise every author of a pod could use every resctrl
        group of the node.
        """
        settings = self.config.containers
        for kind, key, config, is_optional in (
            ("rdt", "rdt_config", settings.rdt_config, settings.ignore_rdt_not_enabled_errors),
            ("blockio", "blockio_config", settings.blockio_config, settings.ignore_blockio_not_enabled_errors),
        ):
            selection = class_annotation(kind, *container)
            if selection is None or (not selection.class_name and kind == "blockio"):
                continue
            field = f'annotations["{selection.key}"]'
            reason = "" if config else f"no classes: set containers.{key} on this node"
            if not reason and kind == "rdt" and not (self.dry or RESCTRL.exists()):
                reason = f"this node has no RDT: {RESCTRL} does not exist"
            if reason and is_optional:
                _log.info("container %s: %s is ignored: %s", container[0], field, reason)
                continue
            if reason:
                raise RequestError(field, selection.class_name, reason)
            try:
                if kind == "rdt":
                    rdt = self._files.rdt.resolve_annotation(selection.class_name, is_of_pod=selection.is_of_pod)
                    spec["linux"]["intelRdt"] = rdt
                elif self._files.blockio is not None:
                    spec["linux"]["resources"]["blockIO"] = self._files.blockio.resolve(selection.class_name)
            except SpecError as error:
                raise RequestError(field, selection.class_name, error.reason) from None

    def seccomp(
        self, security: pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext
    ) -> dict[str, Any] | None:
        """Read the requested ``localhost`` seccomp profile. Returns None if the request has no such profile.

        Raises RequestError if the profile is not in the configured folder, or cannot be read.
        """
        path = localhost_profile(security)
        if not path:
            return None
        root, plain = self.config.containers.seccomp_root, Path(os.path.normpath(path))
        field = "linux.security_context.seccomp.localhost_ref"
        real = Path(os.path.realpath(plain))
        # The Security Profiles Operator links its folder into the kubelet's, where only root can create links.
        if not (plain.is_relative_to(root) or real.is_relative_to(os.path.realpath(root))):
            raise RequestError(field, path, f"must be below {root}")
        try:
            profile = parse_json(read_regular(real, _PROFILE_BYTES))
        except (OSError, ValueError) as error:
            raise RequestError(field, path, f"cannot be read: {error}") from error
        if not isinstance(profile, dict):
            raise RequestError(field, path, "is not a seccomp profile")
        return profile

    def check_required_plugins(self, devices: list[str], labels: Sequence[str]) -> None:
        """Raise NriError unless the plugins that CDI devices require have answered.

        A device names the plugins in an annotation with the same key as a pod's annotation. An example is a driver that
        prepares the device in two steps, the second of them in a plugin.

        Args:
            devices: qualified names.
            labels: the plugins that answered, NN-name.
        """
        for device, text in self._files.cdi.annotations(devices, REQUIRED_PLUGINS).items():
            names, mistake = required_names(text)
            if mistake:
                raise NriError(
                    f"CDI device {device}: invalid {REQUIRED_PLUGINS} annotation {quote(cut(text))}: {mistake}"
                )
            missing = missing_plugins(names, labels)
            if missing:
                plural = "s" if len(missing) > 1 else ""
                shown = quote(cut(",".join(missing)))
                raise NriError(f"required plugin{plural} {shown} not present: CDI device {device} requires it")

    def with_devices(self, spec: dict[str, Any], names: list[str]) -> dict[str, Any]:
        """Return the spec with CDI devices injected. Raises SpecError if a device is unknown."""
        return self._files.cdi.inject(spec, names) if names else spec


def fit(resources: dict[str, Any], machine: Machine) -> list[str]:
    """Remove the fields of ``linux.resources`` that this machine does not support, and return a line for each."""
    lines = []
    if resources.get("unified") and not machine.cgroup_v2:
        lines.append(f"unified ({', '.join(sorted(resources.pop('unified')))}): {_NO_V2}")
    if resources.get("hugepageLimits") and not machine.hugetlb:
        resources.pop("hugepageLimits")
        lines.append(f"hugepage_limits: {_NO_HUGETLB}")
    memory = resources.get("memory") or {}
    if "swap" in memory and not machine.swap_limit and memory.pop("swap") != memory.get("limit"):
        lines.append(f"memory.swap: {_NO_SWAP}")
    return lines
