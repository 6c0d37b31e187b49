"""Convert a Kubernetes manifest to the messages that a runtime would send to its plugins.

Ids are hashes of names, so the same manifest gives the same messages. Additions of the kubelet and the runtime (labels,
cgroup paths, default mounts, resources) follow containerd; values that require a cluster are empty and noted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from nri.api import messages as m
from nri.config import Source, parse_text, read_file
from nri.errors import ConfigError
from nri.kube import kubelet, quantity
from nri.kube.document import Document, is_number, text
from nri.kube.environment import EnvironmentReader, expanded
from nri.kube.pod_manifests import localhost_seccomp, pod_name, read_pod_manifests
from nri.kube.pod_resources import has_pod_level

if TYPE_CHECKING:
    from nri.kube.environment import Environment
    from nri.kube.kubelet import Quantities
    from nri.kube.pod_manifests import PodManifest

#: Quantities with a lower maximum than the general one, in their base unit (CPUs): a CPU quota in microseconds must fit
#: in 64 bits.
_MAX_QUANTITIES = {"cpu": 10**9}


@dataclass(slots=True)
class Workload:
    """A pod and its containers, in the order in which they are created.

    Attributes:
        pod: the pod.
        containers: its containers, init containers first.
        notes: lines about unknown keys, and about values that require a cluster.
    """

    pod: m.PodSandbox
    containers: list[m.Container] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_manifests(source: Source, image: ImageConfig | None = None, node_bytes: int = 0) -> list[Workload]:
    """Convert the pods of a file, and its objects with pod templates, in their order.

    `node_bytes` is the node's memory, or 0 if unknown. Raises ConfigError if the file is invalid or has no pods.
    """
    pod_counts: Counter[tuple[str, str]] = Counter()
    pods, _ = read_pod_manifests(source)
    return [_workload(pod, image or ImageConfig(), pod_counts, node_bytes) for pod, _ in pods]


def _workload(
    manifest: PodManifest, image: ImageConfig, pod_counts: Counter[tuple[str, str]], node_bytes: int
) -> Workload:
    """Create the messages of a pod and its containers. `pod_counts` counts the pods of each namespace and name."""
    document = manifest.document
    spec, metadata = document.table(manifest.pod, "spec"), document.table(manifest.pod, "metadata")
    containers = [
        *document.tables(spec, "initContainers", "spec."),
        *document.tables(spec, "containers", "spec."),
    ]
    resources = pod_resources(document, spec)
    pod = _pod(document, spec, metadata, kubelet.qos_class(resources), pod_counts)
    reader = ContainerReader(document, spec, pod, image)
    shares = kubelet.shares(resources, node_bytes)
    messages = [reader.read(tree, share) for tree, share in zip(containers, shares, strict=True)]
    return Workload(pod, messages, [*manifest.key_notes, *reader.notes])


def _pod(
    document: Document, spec: dict[str, Any], metadata: dict[str, Any], qos: str, pod_counts: Counter[tuple[str, str]]
) -> m.PodSandbox:
    """Create the message of the pod."""
    name = pod_name(document, metadata) or "pod"
    namespace = document.text(metadata, "namespace", "metadata.") or "default"
    pod_counts[namespace, name] += 1
    names = [namespace, name, *map(str, range(2, pod_counts[namespace, name] + 1))]
    uid = document.text(metadata, "uid", "metadata.") or kubelet.make_uid(*names)
    pod = m.PodSandbox(
        id=kubelet.make_id("sandbox", *names),
        name=name,
        uid=uid,
        namespace=namespace,
        labels=document.pairs(metadata, "labels", "metadata."),
        annotations=document.pairs(metadata, "annotations", "metadata."),
        runtime_handler=document.text(spec, "runtimeClassName", "spec."),
    )
    pod.linux.cgroup_parent = kubelet.cgroup_parent(qos, uid)
    pod.linux.cgroups_path = f"{pod.linux.cgroup_parent}/{pod.id}"
    return pod


def pod_resources(document: Document, spec: dict[str, Any]) -> kubelet.PodResources:
    """Read the resources of a pod and its containers, with the defaults that an API server sets.

    A limit without a request is also a request; for the pod itself only if its containers have no requests.
    """
    containers = []
    for key, is_init in (("initContainers", True), ("containers", False)):
        for place, tree in enumerate(document.tables(spec, key, "spec.")):
            sidecar = is_init and document.text(tree, "restartPolicy") == "Always"
            amounts = _quantities(document, tree, f"spec.{key}[{place}].")
            amounts = {**_as_requests(amounts), **amounts}
            containers.append(kubelet.ContainerResources(amounts, is_init, sidecar))
    critical = document.text(spec, "priorityClassName", "spec.") == "system-node-critical"
    resources = kubelet.PodResources(containers, node_critical=critical)
    if spec.get("resources") is None:
        return resources
    amounts = {key: value for key, value in _quantities(document, spec, "spec.").items()
               if has_pod_level(key.partition(".")[2])}  # fmt: skip
    if any(key.startswith("limits.") for key in amounts):
        container_requests = {f"requests.{key}": value for key, value in resources.containers_total("requests").items()
                  if key in ("cpu", "memory")}  # fmt: skip
        amounts = {**_as_requests(amounts), **container_requests, **amounts}
    return resources._replace(pod=amounts)


def _as_requests(amounts: Quantities) -> dict[str, Fraction]:
    return {f"requests.{key.removeprefix('limits.')}": value for key, value in amounts.items()
            if key.startswith("limits.")}  # fmt: skip


def _quantities(document: Document, tree: dict[str, Any], where: str) -> dict[str, Fraction]:
    """Read the requests and limits of a container or a pod as ``requests.cpu`` and so on."""
    quantities: dict[str, Fraction] = {}
    resources = document.table(tree, "resources", where)
    for kind in ("limits", "requests"):
        table = document.table(resources, kind, f"{where}resources.")
        for name, value in table.items():
            try:
                quantities[f"{kind}.{name}"] = quantity.bounded(value, _MAX_QUANTITIES.get(str(name), quantity.MOST))
            except ValueError as error:
                raise document.error(str(error), f"{where}resources.{kind}.{name}", table, str(name)) from None
    return quantities


_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEFAULT_MOUNTS = (
    ("/proc", "proc", "proc", ["nosuid", "noexec", "nodev"]),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
    ("/dev/mqueue", "mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
    ("/sys", "sysfs", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
    ("/sys/fs/cgroup", "cgroup", "cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"]),
)
_NAMESPACES = ("pid", "ipc", "uts", "mount", "network", "cgroup")
#: The keys of a pod that give its containers the host's namespace.
_HOST_KEYS = {"network": "hostNetwork", "pid": "hostPID", "ipc": "hostIPC"}
#: The largest id of a user or group.
_MAX_ID = 2**32 - 1
_SECCOMP = {"RuntimeDefault": 0, "Unconfined": 1, "Localhost": 2}


class ContainerReader:
    """Creates the messages of a pod's containers.

    Attributes:
        notes: lines about values that require a cluster.
    """

    def __init__(
        self,
        document: Document,
        spec: dict[str, Any],
        pod: m.PodSandbox,
        image: ImageConfig,
    ) -> None:
        """`spec` is the pod's spec; `image` applies to all its containers."""
        self.notes: list[str] = []
        self._document = document
        self._spec = spec
        self._pod = pod
        self._image = image
        node = document.text(spec, "nodeName", "spec.")
        pod_fields = {"metadata.name": pod.name, "metadata.namespace": pod.namespace, "metadata.uid": pod.uid}
        self._environment = EnvironmentReader(
            document,
            spec,
            {**pod_fields, "spec.nodeName": node} if node else pod_fields,
            {"labels": pod.labels, "annotations": pod.annotations},
        )
        self._names: set[str] = set()

    def read(self, tree: dict[str, Any], share: kubelet.Share) -> m.Container:
        """Create the message of a container with its share of the pod's resources. Raises ConfigError if invalid."""
        pod, name = self._pod, self._document.text(tree, "name")
        if not name:
            raise self._document.error("a container requires a name", "spec.containers", tree)
        if name in self._names:
            raise self._document.error(f'duplicate container name "{name}"', "spec.containers", tree, "name")
        self._names.add(name)
        environment = self._environment.read(tree)
        container = m.Container(
            id=kubelet.make_id(pod.id, name),
            pod_sandbox_id=pod.id,
            name=name,
            state=m.ContainerState.CONTAINER_CREATED,
            args=self._args(tree, environment),
            env=self._env(tree, name, environment),
            image=m.Image(name=self._document.text(tree, "image")),
        )
        self._set_labels(container)
        self._add_mounts(tree, container)
        kubelet.set_resources(container.linux, share)
        container.linux.cgroups_path = f"{pod.linux.cgroup_parent}/{container.id}"
        for kind in _NAMESPACES:
            if not self._spec.get(_HOST_KEYS.get(kind, "")):
                container.linux.namespaces.add(type=kind)
        self._set_security(tree, container)
        return container

    def _set_labels(self, container: m.Container) -> None:
        """Set the labels of the kubelet and the annotations of the runtime."""
        pod, name = self._pod, container.name
        identity = {"container.name": name, "pod.name": pod.name, "pod.namespace": pod.namespace, "pod.uid": pod.uid}
        container.labels.update({f"io.kubernetes.{key}": value for key, value in identity.items()})
        cri = {
            "container-name": name, "container-type": "container", "image-name": container.image.name,
            "sandbox-id": pod.id, "sandbox-name": pod.name, "sandbox-namespace": pod.namespace, "sandbox-uid": pod.uid,
        }  # fmt: skip
        container.annotations.update({f"io.kubernetes.cri.{key}": value for key, value in cri.items()})

    def _args(self, tree: dict[str, Any], environment: Environment) -> list[str]:
        """Join the command line: `command` replaces the image's entry point and command, `args` the command alone."""
        command, args = (
            [
                expanded(self._document, word, environment.values, key, tree, key)
                for word in self._document.texts(tree, key)
            ]
            for key in ("command", "args")
        )
        if command:
            return command + args
        return [*self._image.entrypoint, *(args or self._image.cmd)]

    def _env(self, tree: dict[str, Any], name: str, environment: Environment) -> list[str]:
        """The image's environment, overridden by the container's environment."""
        values = dict(one.partition("=")[::2] for one in self._image.env)
        values.setdefault(*_PATH.split("=", 1))
        values.update(environment.values)
        for variable, missing in environment.missing.items():
            outcome = "omitted" if missing.optional else "left empty"
            self.notes.append(
                f"container {name}: the value of {variable} ({missing.source}) requires a cluster: {outcome}"
            )
        if tree.get("envFrom"):
            self.notes.append(f"container {name}: envFrom requires a cluster: omitted")
        return [f"{key}={value}" for key, value in values.items()]

    def _add_mounts(self, tree: dict[str, Any], container: m.Container) -> None:
        """Add the default mounts, then the volumes, from the folders in which the kubelet prepares them."""
        for target, kind, origin, options in _DEFAULT_MOUNTS:
            container.mounts.add(destination=target, type=kind, source=origin, options=options)
        document = self._document
        volumes = {document.text(one, "name"): one for one in document.tables(self._spec, "volumes", "spec.")}
        for mount in document.tables(tree, "volumeMounts"):
            name = document.text(mount, "name")
            volume = volumes.get(name, {})
            kind = text(next((key for key in volume if key != "name"), "empty-dir"))
            source = kubelet.volume_folder(self._pod.uid, kind, name)
            if kind == "hostPath":
                source = document.text(document.table(volume, "hostPath"), "path", "hostPath.")
            container.mounts.add(
                destination=document.text(mount, "mountPath"),
                type="bind",
                source=source,
                options=["rbind", "rprivate", "ro" if mount.get("readOnly") else "rw"],
            )

    def _set_security(self, tree: dict[str, Any], container: m.Container) -> None:
        """Set user, group and seccomp profile. The container's security context overrides the pod's."""
        document = self._document
        pod_context, container_context = (
            document.table(self._spec, "securityContext", "spec."),
            document.table(tree, "securityContext"),
        )

        def context_with(key: str) -> dict[str, Any]:
            """The security context that sets a key: the container's, else the pod's."""
            return container_context if key in container_context else pod_context

        container.user.uid, container.user.gid = (
            document.number(context_with(key), key, _MAX_ID, "securityContext.") for key in ("runAsUser", "runAsGroup")
        )
        groups = context_with("supplementalGroups")
        for one in document.items(groups, "supplementalGroups", "securityContext."):
            if not is_number(one, _MAX_ID):
                where = "securityContext.supplementalGroups"
                raise document.error(f"expected group ids from 0 to {_MAX_ID}", where, groups, "supplementalGroups")
            container.user.additional_gids.append(int(one))
        context = context_with("seccompProfile")
        profile = document.table(context, "seccompProfile", "securityContext.")
        if profile:
            kind = document.text(profile, "type", "seccompProfile.")
            if kind not in _SECCOMP:
                wrong = f'expected one of {", ".join(_SECCOMP)}, not "{kind}"'
                raise document.error(wrong, "seccompProfile.type", profile, "type")
            container.linux.seccomp_profile.profile_type = _SECCOMP[kind]  # type: ignore[assignment]
            container.linux.seccomp_profile.localhost_ref = localhost_seccomp(document, profile, "securityContext.")


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """The part of an image's configuration that describes its process: environment, entry point, command."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


def read_image_config(path: str) -> ImageConfig:
    """Read an image's configuration: the OCI document, or the output of `docker inspect` or `skopeo inspect --config`.

    Raises:
        ConfigError: the file cannot be read, or is not an image configuration.
    """
    source = read_file(path)
    tree = root = parse_text(source)
    if isinstance(tree, list):
        tree = tree[0] if tree else {}
    config = tree.get("config", tree.get("Config", tree)) if isinstance(tree, dict) else None
    if not isinstance(config, dict):
        raise ConfigError(path, "config", "not the configuration of an image", "see: skopeo inspect --config")
    env, entrypoint, cmd = (tuple(Document(source, root).texts(config, key)) for key in ("Env", "Entrypoint", "Cmd"))
    return ImageConfig(env, entrypoint, cmd)
