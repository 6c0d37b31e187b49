"""The real parts that create pods and containers, built from the engine's configuration."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nri.api.annotations import REQUIRED_PLUGINS
from nri.api.default_validator import missing_plugins, required_names
from nri.config.complaint import combined_error
from nri.config.syntax import parse_json
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, OciRuntime
from nri.engine.images import ImageStore, Transport
from nri.engine.images import Registry as ImageRegistry
from nri.engine.images.space_budget import Limits
from nri.engine.lifecycle.hooks import ContainerHooks
from nri.engine.lifecycle.places import Places
from nri.engine.lifecycle.pod_namespaces import PodNamespaces
from nri.engine.machine import detect_machine, with_features
from nri.engine.network import Cni, NetworkNamespaces
from nri.engine.process import Conmon, ExecResult, Exit, Exits, Runtime, StreamOwner, exec_sync
from nri.engine.spec import Base, Machine, base_of, base_problems, joined_bases, localhost_profile
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, MissingTool
from nri.errors import ConfigError, NriError, RequestError
from nri.files import open_regular
from nri.oci import BlockIoClasses, CdiDevices, Generator, RdtClasses
from nri.text import cut, quote

_log = logging.getLogger(__name__)
_PROFILE_BYTES = _SPEC_BYTES = 4 << 20
_NO_HUGETLB, _NO_SWAP, _NO_V2 = (
    "this machine's cgroups cannot limit huge pages",
    "this machine's cgroups cannot limit swap",
    "this machine has cgroup v1",
)


class Machinery:
    """The parts of one engine: OCI runtimes, conmon, images, networks, and the machine's features.

    Raises EngineError or ConfigError if a part cannot be created.

    Attributes:
        hooks: the OCI hooks of the node's directories.
        dry: whether nothing is done to the machine, see `nri.engine.lifecycle.dry`.
    """

    dry = False

    def __init__(self, config: EngineConfig, places: Places) -> None:
        self.config, self.places = config, places
        self.machine = detect_machine()
        registries = [
            ImageRegistry(row.host, row.mirrors, row.certificates, row.insecure) for row in config.images.registries
        ]
        transport = Transport(config.images.skopeo, registries, stall_s=config.images.stall_timeout)
        driver, limits = config.images.snapshots, Limits(config.images.size_limit, config.images.entries_limit)
        self.images = ImageStore(places.images, transport, umoci=config.images.umoci, driver=driver, limits=limits)
        self.conmon = Conmon(config.conmon, log_size_max=config.containers.log_size_max)
        network = config.network
        self.cni = Cni(network.plugin_dirs, places.networks, timeout_s=network.timeout)
        self.network_namespaces = NetworkNamespaces(places.namespaces)
        self.namespaces = PodNamespaces(self.network_namespaces)
        self._runtimes: dict[str, Runtime] = {}
        self.hooks = ContainerHooks(config.containers.hooks_dir)
        own_base = base_of(config.containers.base_spec())
        self._bases = {
            name: joined_bases(_read_base(name, settings.base_runtime_spec), own_base)
            for name, settings in config.runtimes.items()
        }
        self._cdi = CdiDevices(config.containers.cdi_dirs)
        rdt, blockio = config.containers.rdt_config, config.containers.blockio_config
        self._rdt = RdtClasses.read(rdt) if rdt else RdtClasses()
        self._blockio = BlockIoClasses.read(blockio) if blockio else None

    def exits(self, on_exit: Callable[[Exit], None]) -> Exits:
        """Create the part that reports the ends of containers."""
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
        """Check the runtime handler of a request; "" is the default.

        RequestError for an unknown one, MissingTool for one whose program is missing.
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
        """The OCI runtime of a handler. EngineError if it is no longer configured."""
        if handler not in self._runtimes:
            settings = self.config.runtimes.get(handler)
            if settings is None:
                raise EngineError(f"the runtime handler {handler!r} is no longer configured")
            self._runtimes[handler] = self._make_runtime(handler, settings)
        return self._runtimes[handler]

    def _make_runtime(self, handler: str, settings: OciRuntime) -> Runtime:
        binary = shutil.which(settings.path) or settings.path
        arguments = [*settings.arguments]
        if self.systemd_cgroup and "--systemd-cgroup" not in arguments:
            arguments.append("--systemd-cgroup")
        return Runtime(binary, self.places.runtime(handler), arguments=arguments, timeout_s=settings.timeout)

    @functools.cache  # noqa: B019  an engine lasts as long as its process
    def machine_of(self, handler: str) -> Machine:
        """The features of the machine together with the OCI runtime of a handler."""
        return with_features(self.machine, self._features(self.runtime(handler)))

    def _features(self, runtime: Runtime) -> Mapping[str, Any]:
        """The features that an OCI runtime reports."""
        try:
            output = run([runtime.binary, "features"], timeout_s=runtime.timeout_s, check=False)
            features = parse_json(output.stdout) if output.code == 0 else {}
        except (EngineError, ValueError):
            return {}  # it is missing, which is reported when it is used, or it has no such command
        return features if isinstance(features, dict) else {}

    def base(self, handler: str) -> Base:
        """The defaults of containers with this handler; the engine's own for one that is no longer configured."""
        return self._bases.get(handler, Base())

    @property
    def systemd_cgroup(self) -> bool:
        """Whether cgroups are systemd's."""
        return self.config.cgroups.driver == "systemd"

    def missing_programs(self) -> list[str]:
        """The missing programs of those that every container needs."""
        default = self.config.runtimes[self.config.default_runtime]
        return [program for program in (self.config.conmon, default.path) if shutil.which(program) is None]

    def pod_cgroup(self, pod_id: str) -> str:
        """The cgroup of a pod that names none: a separate one, or with systemd the common slice."""
        default = self.config.cgroups.parent
        return default if self.systemd_cgroup else f"{default.rstrip('/')}/pod{pod_id}"

    def generator(self, spec: Mapping[str, Any], left_out: Callable[[str], object] | None = None) -> Generator:
        """Create a generator that applies plugins' adjustments to a spec, with this node's classes and devices.

        `left_out` receives a line for each resource that this machine cannot limit; without it, it is logged.
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
            cdi=self._cdi.inject,
            rdt=self._rdt.resolve,
            blockio=None if self._blockio is None else self._blockio.resolve,
            check_resources=check,
        )

    def seccomp(
        self, security: pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext
    ) -> dict[str, Any] | None:
        """The requested ``localhost`` seccomp profile, read from the operator's folder; None if none is requested.

        Raises RequestError.
        """
        path = localhost_profile(security)
        if not path:
            return None
        root, plain = self.config.containers.seccomp_root, Path(os.path.normpath(path))
        field = "linux.security_context.seccomp.localhost_ref"
        # The Security Profiles Operator links its folder into the kubelet's, where only root can create links.
        if not (plain.is_relative_to(root) or plain.resolve().is_relative_to(root.resolve())):
            raise RequestError(field, path, f"must be below {root}")
        try:
            with open(plain.resolve(), "rb", opener=open_regular) as file:
                profile = parse_json(file.read(_PROFILE_BYTES))
        except (OSError, ValueError) as error:
            raise RequestError(field, path, f"cannot be read: {error}") from error
        if not isinstance(profile, dict):
            raise RequestError(field, path, "is not a seccomp profile")
        return profile

    def check_required_plugins(self, devices: list[str], labels: Sequence[str]) -> None:
        """Raise NriError unless the plugins that CDI devices require have answered.

        A device requires plugins by its annotation of the same name as a pod's, for example because the driver that
        prepared the device finishes its work in a plugin.

        Args:
            devices: qualified names.
            labels: the plugins that answered, NN-name.
        """
        for device, text in self._cdi.annotations(devices, REQUIRED_PLUGINS).items():
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
        """The spec with CDI devices injected. SpecError for an unknown device."""
        return self._cdi.inject(spec, names) if names else spec


def _read_base(handler: str, path: str) -> Base:
    """The defaults in a file; none without a path. Raises ConfigError."""
    if not path:
        return Base()
    try:
        with open(path, "rb", opener=open_regular) as file:
            data = file.read(_SPEC_BYTES + 1)
        if len(data) > _SPEC_BYTES:
            raise ValueError(f"exceeds {_SPEC_BYTES} bytes")
        spec = parse_json(data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(path, "", f"cannot be read: {reason}", f"see runtimes.{handler}.base_runtime_spec") from None
    if problems := base_problems(spec) if isinstance(spec, dict) else ["expected an object"]:
        raise combined_error([ConfigError(path, "", problem) for problem in problems])
    return base_of(spec)


def fit(resources: dict[str, Any], machine: Machine) -> list[str]:
    """Remove the parts of a spec's ``linux.resources`` that this machine does not support; returns a line for each."""
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
