"""Create the CRI request for a container of a manifest as the kubelet does: process, resources, mounts, security."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.api import messages as m
from nri.cri.convert import to_cri
from nri.cri.pb import api_pb2 as pb
from nri.host.cgroups import Driver
from nri.kube import kubelet
from nri.kube.document import is_number
from nri.kube.environment import POD_ADDRESSES, EnvironmentReader, expanded, references
from nri.kube.pod_manifests import localhost_seccomp
from nri.pods.folder import SUB_PATHS, VOLUMES
from nri.pods.sub_paths import SubPath
from nri.pods.volumes import EMPTY_DIR, HOST_PATH, HOST_TYPES, Volume

if TYPE_CHECKING:
    from nri.kube.document import Document

#: The kubelet's annotation for the termination grace period of a container in seconds.
GRACE = "io.kubernetes.pod.terminationGracePeriod"
PULLS = ("Always", "IfNotPresent", "Never")
_MAX_ID = 2**32 - 1
_PROFILES = {"RuntimeDefault": 0, "Unconfined": 1, "Localhost": 2}
_PROPAGATION = {"": 0, "None": 0, "HostToContainer": 1, "Bidirectional": 2}
_PROTOCOLS = {"": 0, "TCP": 0, "UDP": 1, "SCTP": 2}
#: Files that an unprivileged container cannot see, or cannot write. Source: the kubelet.
_MASKED = ("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
           "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
           "/sys/devices/virtual/powercap")  # fmt: skip
_READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
#: The kernel's limit for a path (PATH_MAX), without the terminating null byte.
_MAX_PATH_BYTES = 4095


class Node(NamedTuple):
    """Properties of the machine that a pod's requests depend on.

    Attributes:
        name: the node's name, which environment variables may contain.
        folder: the folder of all pods; each pod has a folder in it, named by its uid.
        cgroup_root: the parent of the cgroup of all pods, or "" for the root cgroup.
        driver: the cgroup driver.
        memory_bytes: the node's memory, on which OOM scores depend, or 0 if unknown.
        seccomp_root: the folder of the seccomp profiles that manifests name.
    """

    name: str
    folder: str
    cgroup_root: str = ""
    driver: Driver = Driver.CGROUPFS
    memory_bytes: int = 0
    seccomp_root: str = kubelet.SECCOMP_ROOT


@dataclass(slots=True)
class ContainerRequest:
    """The request for a container.

    Attributes:
        config: the CRI's configuration of the container.
        pull: the pull policy, in `PULLS`.
        first: whether it is an init container, which must succeed before the next container starts.
        non_root: whether it must not run as root.
        address_variables: environment variables with the pod's address as value.
        place: file and line of the container, for errors.
        sub_paths: paths in volumes that are bound just before the container is created.
    """

    config: pb.ContainerConfig
    pull: str
    first: bool = False
    non_root: bool = False
    address_variables: set[str] = field(default_factory=set)
    place: str = ""
    sub_paths: list[SubPath] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return self.config.metadata.name


class ContainerRequests:
    """Creates the requests for the containers of a pod.

    Args:
        document: the manifest.
        spec: the pod's spec.
        pod: the configuration of its sandbox, to which host ports are added.
        node: the node.

    Attributes:
        volumes: the volumes that containers mount, by name.
    """

    def __init__(
        self,
        document: Document,
        spec: dict[str, Any],
        pod: pb.PodSandboxConfig,
        node: Node,
    ) -> None:
        self._document, self._spec, self._pod, self._node = document, spec, pod, node
        identity = {f"metadata.{key}": getattr(pod.metadata, key) for key in _IDENTITY}
        self._environment = EnvironmentReader(
            document,
            spec,
            {**identity, "spec.nodeName": node.name},
            {"labels": pod.labels, "annotations": pod.annotations},
        )
        self._folder = f"{node.folder}/{pod.metadata.uid}"
        self._context = document.table(spec, "securityContext", "spec.")
        self._tables = {document.text(volume, "name"): volume for volume in document.tables(spec, "volumes", "spec.")}
        self._names: set[str] = set()
        self.volumes: dict[str, Volume] = {}

    def read(self, tree: dict[str, Any], share: kubelet.Share, *, first: bool) -> ContainerRequest:
        """Create the request for a container. `first`: it is an init container. Raises ConfigError if it is invalid."""
        document, name = self._document, self._document.text(tree, "name")
        if not name or set("/\0") & set(name) or name in (".", ".."):
            raise document.error(
                "a container requires a name without slashes and null bytes", "spec.containers.name", tree, "name"
            )
        if name in self._names:
            raise document.error(f'duplicate container name "{name}"', "spec.containers", tree, "name")
        self._names.add(name)
        image = document.text(tree, "image")
        if not image:
            raise document.error("a container requires an image", "spec.containers.image", tree, "image")
        request = ContainerRequest(pb.ContainerConfig(), self._pull(tree, image), place=document.place(tree))
        config = request.config
        config.metadata.name = name
        config.image.image = config.image.user_specified_image = image
        config.working_dir = document.text(tree, "workingDir")
        config.log_path = f"{name}.log"
        config.stdin, config.stdin_once, config.tty = (
            document.flag(tree, key) for key in ("stdin", "stdinOnce", "tty")
        )
        grace = document.text(self._spec, "terminationGracePeriodSeconds", "spec.") or "30"
        config.annotations[GRACE] = grace
        identity = {"container.name": name, **{f"pod.{key}": getattr(self._pod.metadata, key) for key in _IDENTITY}}
        config.labels.update({f"io.kubernetes.{key}": value for key, value in identity.items()})
        self._process(tree, request)
        self._resources(config, share)
        self._ports(tree)
        self._mounts(tree, request)
        self._security(tree, request)
        # An init container that restarts is a sidecar: it runs next to the other containers.
        request.first = first and (tree.get("restartPolicy") if first else None) != "Always"
        return request

    def _pull(self, tree: dict[str, Any], image: str) -> str:
        """The pull policy. As in Kubernetes, the default is Always for the tag latest."""
        policy = self._document.text(tree, "imagePullPolicy")
        if policy and policy not in PULLS:
            where = "spec.containers.imagePullPolicy"
            raise self._document.error(f"expected one of {', '.join(PULLS)}", where, tree, "imagePullPolicy")
        last = image.rpartition("/")[2]
        newest = last.endswith(":latest") or (":" not in last and "@" not in image)
        return policy or ("Always" if newest else "IfNotPresent")

    # --- the process -----------------------------------------------------------------------------------------------

    def _process(self, tree: dict[str, Any], request: ContainerRequest) -> None:
        """Set environment and command line, and expand $(NAME) in them."""
        document = self._document
        if document.items(tree, "envFrom"):
            reason = "ConfigMaps and Secrets require a cluster: write the variables into env"
            raise document.error(reason, "spec.containers.envFrom", tree, "envFrom")
        environment = self._environment.read(tree)
        for name, missing in environment.missing.items():
            if missing.source in POD_ADDRESSES:
                request.address_variables.add(name)
            elif not missing.optional:
                reason = f"the value of {name} requires a cluster: write it as value"
                raise document.error(reason, f"env.valueFrom.{missing.source}", missing.table)
        values = environment.values
        request.config.envs.extend(pb.KeyValue(key=name, value=value.encode()) for name, value in values.items())
        for key, target in (("command", request.config.command), ("args", request.config.args)):
            target.extend(expanded(document, word, values, key, tree, key) for word in document.texts(tree, key))

    def _resources(self, config: pb.ContainerConfig, share: kubelet.Share) -> None:
        """Set the resources that the kubelet computes from requests and limits."""
        linux = m.LinuxContainer()
        kubelet.set_resources(linux, share)
        config.linux.resources.CopyFrom(to_cri(linux.resources).value)
        config.linux.resources.oom_score_adj = linux.oom_score_adj.value

    def _ports(self, tree: dict[str, Any]) -> None:
        """Add host ports to the pod; other ports are only information."""
        document = self._document
        for port in document.tables(tree, "ports"):
            inside, outside = (document.number(port, key, 65535, "ports.") for key in ("containerPort", "hostPort"))
            document.text(port, "name", "ports.")
            protocol, address = (document.text(port, key, "ports.") for key in ("protocol", "hostIP"))
            if protocol not in _PROTOCOLS:
                raise document.error(f'expected TCP, UDP or SCTP, not "{protocol}"', "ports.protocol", port, "protocol")
            if outside and self._pod.linux.security_context.namespace_options.network != pb.NODE:
                self._pod.port_mappings.add(
                    protocol=_PROTOCOLS[protocol],
                    container_port=inside,
                    host_port=outside,
                    host_ip=address,
                )

    # --- mounts ----------------------------------------------------------------------------------------------------

    def _mounts(self, tree: dict[str, Any], request: ContainerRequest) -> None:
        """Add the mounts of volumes."""
        document = self._document
        for index, mount in enumerate(document.tables(tree, "volumeMounts")):
            name, target = (document.text(mount, key, "volumeMounts.") for key in ("name", "mountPath"))
            if not target:
                raise document.error("a mount requires a path", "volumeMounts.mountPath", mount)
            volume = self._volume(name, mount)
            source, below = volume.path, self._sub_path(mount, request)
            if below:
                source = f"{self._folder}/{SUB_PATHS}/{request.name}/{index}"
                request.sub_paths.append(SubPath(volume.path, below, source, document.place(mount)))
            propagation = document.text(mount, "mountPropagation", "volumeMounts.")
            if propagation not in _PROPAGATION:
                reason = f'expected one of {", ".join(filter(None, _PROPAGATION))}, not "{propagation}"'
                raise document.error(reason, "volumeMounts.mountPropagation", mount, "mountPropagation")
            recursive = document.text(mount, "recursiveReadOnly", "volumeMounts.")
            request.config.mounts.add(
                container_path=target,
                host_path=source,
                readonly=document.flag(mount, "readOnly", "volumeMounts."),
                recursive_read_only=recursive == "Enabled",
                propagation=_PROPAGATION[propagation],
            )

    def _sub_path(self, mount: dict[str, Any], request: ContainerRequest) -> str:
        """The mounted path in the volume, from `subPath` or `subPathExpr`. Returns "" for the entire volume."""
        document, key = self._document, "subPath"
        path = document.text(mount, key, "volumeMounts.")
        if mount.get("subPathExpr") is not None:
            if path:
                raise document.error("excludes subPath: remove one of the two", "volumeMounts.subPathExpr", mount, key)
            key = "subPathExpr"
            expression = document.text(mount, key, "volumeMounts.")
            values = {env.key: env.value.decode() for env in request.config.envs}
            for variable in references(expression):
                if variable in request.address_variables:
                    reason = f"{variable} is the address of the pod, which is not known yet"
                    raise document.error(reason, f"volumeMounts.{key}", mount, key)
                if not values.get(variable):
                    reason = f"the variable {variable} does not exist or has no value"
                    raise document.error(reason, f"volumeMounts.{key}", mount, key)
            path = expanded(document, expression, values, f"volumeMounts.{key}", mount, key)
        if path.startswith("/") or ".." in path.split("/"):
            raise document.error("leads out of the volume", f"volumeMounts.{key}", mount, key)
        if "\0" in path or len(path.encode(errors="surrogateescape")) > _MAX_PATH_BYTES:
            reason = f"expected a path of at most {_MAX_PATH_BYTES} bytes, without null bytes"
            raise document.error(reason, f"volumeMounts.{key}", mount, key)
        return path

    def _volume(self, name: str, mount: dict[str, Any]) -> Volume:
        """Return the volume of a name."""
        if name in self.volumes:
            return self.volumes[name]
        document, table = self._document, self._tables.get(name)
        if table is None:
            names = ", ".join(self._tables) or "none"
            raise document.error(f'volume "{name}" not found; volumes: {names}', "volumeMounts.name", mount, "name")
        place = document.place(table)
        if table.get(HOST_PATH) is not None:
            host_path = document.table(table, HOST_PATH, "volumes.")
            path, kind = (document.text(host_path, key, f"volumes.{HOST_PATH}.") for key in ("path", "type"))
            if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
                raise document.error(
                    "expected an absolute path without .. and null bytes",
                    f"volumes.{HOST_PATH}.path",
                    host_path,
                    "path",
                )
            if kind not in HOST_TYPES:
                reason = f"expected one of {', '.join(filter(None, HOST_TYPES))}"
                raise document.error(reason, f"volumes.{HOST_PATH}.type", host_path, "type")
            volume = Volume(path, kind, place)
        elif EMPTY_DIR in table:
            document.table(table, EMPTY_DIR, "volumes.")
            if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
                raise document.error(
                    "the name of a volume must have only lower-case letters, digits and -",
                    "volumes.name",
                    table,
                    "name",
                )
            group = document.number(self._context, "fsGroup", _MAX_ID, "securityContext.") or -1
            volume = Volume(f"{self._folder}/{VOLUMES}/{name}", EMPTY_DIR, place, group)
        else:
            kind = next((str(key) for key in table if key != "name"), "nothing")
            reason = f"{kind} requires a cluster: use {HOST_PATH} or {EMPTY_DIR}"
            raise document.error(reason, f"volumes.{name}", table, kind)
        self.volumes[name] = volume
        return volume

    # --- security --------------------------------------------------------------------------------------------------

    def _security(self, tree: dict[str, Any], request: ContainerRequest) -> None:
        """Set user, groups, capabilities and profiles. The container's security context overrides the pod's."""
        document, where = self._document, "securityContext."
        container_context, context = document.table(tree, "securityContext"), request.config.linux.security_context
        for key in ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "appArmorProfile", "seLinuxOptions"):
            container_context.get(key), self._context.get(key)

        def context_with(key: str) -> dict[str, Any]:
            """The security context that sets a key: the container's, else the pod's."""
            return container_context if container_context.get(key) is not None else self._context

        context.namespace_options.CopyFrom(self._pod.linux.security_context.namespace_options)
        for key, target in (("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)):
            if context_with(key).get(key) is not None:
                target.value = document.number(context_with(key), key, _MAX_ID, where)
        request.non_root = document.flag(context_with("runAsNonRoot"), "runAsNonRoot", where)
        if request.non_root and context.HasField("run_as_user") and not context.run_as_user.value:
            raise document.error(
                "runAsNonRoot forbids user 0", f"{where}runAsUser", context_with("runAsUser"), "runAsUser"
            )
        self._groups(context)
        if document.flag(
            container_context, "privileged", where
        ):  # runtimes refuse it unless the sandbox is privileged as well
            context.privileged = self._pod.linux.security_context.privileged = True
        context.readonly_rootfs = document.flag(container_context, "readOnlyRootFilesystem", where)
        context.no_new_privs = container_context.get("allowPrivilegeEscalation") is not None and not document.flag(
            container_context, "allowPrivilegeEscalation", where
        )
        capabilities = document.table(container_context, "capabilities", where)
        context.capabilities.add_capabilities.extend(document.texts(capabilities, "add", f"{where}capabilities."))
        context.capabilities.drop_capabilities.extend(document.texts(capabilities, "drop", f"{where}capabilities."))
        if not context.privileged and document.text(container_context, "procMount", where) in ("", "Default"):
            context.masked_paths.extend(_MASKED)
            context.readonly_paths.extend(_READONLY)
        selinux(document, context_with("seLinuxOptions"), where, context)
        for key in ("seccompProfile", "appArmorProfile"):
            security_profile(document, context_with(key), where, context, self._node.seccomp_root, only=key)

    def _groups(self, context: pb.LinuxContainerSecurityContext) -> None:
        """Set the pod's supplemental groups, with the group of its volumes."""
        document, where = self._document, "securityContext."
        for group_id in document.items(self._context, "supplementalGroups", where):
            if not is_number(group_id, _MAX_ID):
                reason, key = f"expected group ids from 0 to {_MAX_ID}", "supplementalGroups"
                raise document.error(reason, f"{where}{key}", self._context, key)
            context.supplemental_groups.append(int(group_id))
        if group := document.number(self._context, "fsGroup", _MAX_ID, where):
            context.supplemental_groups.append(group)
        policy = document.text(self._context, "supplementalGroupsPolicy", where)
        if policy == "Strict":
            context.supplemental_groups_policy = pb.Strict


_IDENTITY = ("name", "namespace", "uid")
_Context = pb.LinuxSandboxSecurityContext | pb.LinuxContainerSecurityContext


def selinux(document: Document, table: dict[str, Any], where: str, context: _Context) -> None:
    """Set the SELinux label of a security context."""
    for key, value in document.pairs(table, "seLinuxOptions", where).items():
        if key not in ("user", "role", "type", "level"):
            raise document.error("expected user, role, type or level", f"{where}seLinuxOptions.{key}", table)
        setattr(context.selinux_options, key, value)


def security_profile(
    document: Document, table: dict[str, Any], where: str, context: _Context, root: str, only: str = ""
) -> None:
    """Set the seccomp and AppArmor profiles of a security context.

    Args:
        document: the manifest.
        table: the security context in the manifest.
        where: the prefix of its keys, for errors.
        context: the security context in the request.
        root: the node's folder of seccomp profiles.
        only: set only `seccompProfile` or only `appArmorProfile`.
    """
    for key, target in (("seccompProfile", context.seccomp), ("appArmorProfile", context.apparmor)):
        if only not in ("", key) or table.get(key) is None:
            continue
        profile = document.table(table, key, where)
        kind = document.text(profile, "type", f"{where}{key}.")
        if kind not in _PROFILES:
            raise document.error(f'expected one of {", ".join(_PROFILES)}, not "{kind}"', f"{where}{key}.type", profile)
        target.profile_type = _PROFILES[kind]  # type: ignore[assignment]
        if key == "seccompProfile":
            target.localhost_ref = localhost_seccomp(document, profile, where, root)
        else:
            target.localhost_ref = document.text(profile, "localhostProfile", f"{where}{key}.")
