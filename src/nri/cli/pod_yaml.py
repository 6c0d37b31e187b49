"""A Kubernetes manifest as the messages that a runtime would send to its plugins. Pure but for reading the file.

Ids are made from names, so the same manifest gives the same messages. What a kubelet or a runtime adds on its way
(labels, cgroup paths, usual mounts, resource arithmetic) is added as containerd's CRI has it, as far as it can be
known without a node; values that come from the cluster (`valueFrom`) are left empty and reported. Next:
`nri.cli.try_` sends them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from nri.api import messages as m
from nri.cli import quantity
from nri.config import Source, parse_text, read_file
from nri.errors import ConfigError

__all__ = ["ImageConfig", "Workload", "read_image_config", "read_manifest"]

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_USUAL_MOUNTS = (
    ("/proc", "proc", "proc", ["nosuid", "noexec", "nodev"]),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
    ("/dev/mqueue", "mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
    ("/sys", "sysfs", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
    ("/sys/fs/cgroup", "cgroup", "cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"]),
)
_SECCOMP = {"RuntimeDefault": 0, "Unconfined": 1, "Localhost": 2}


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about the process: environment, entry point, command."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


@dataclass(slots=True)
class Workload:
    """A pod and its containers, in the order in which they are created.

    Attributes:
        pod: the pod.
        containers: its containers, those that initialize it first.
        notes: what could not be known, for people.
    """

    pod: m.PodSandbox
    containers: list[m.Container] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_image_config(path: str) -> ImageConfig:
    """Read an image's configuration: the OCI document, or what `docker inspect` and `skopeo inspect --config` print."""
    tree = parse_text(read_file(path))
    if isinstance(tree, list):
        tree = tree[0] if tree else {}
    config = tree.get("config", tree.get("Config", tree)) if isinstance(tree, dict) else None
    if not isinstance(config, dict):
        raise ConfigError(path, "config", "not the configuration of an image", "see: skopeo inspect --config")
    lists = {key: _texts(path, key, config.get(key)) for key in ("Env", "Entrypoint", "Cmd")}
    return ImageConfig(tuple(lists["Env"]), tuple(lists["Entrypoint"]), tuple(lists["Cmd"]))


def read_manifest(path: str, image: ImageConfig | None = None) -> Workload:
    """Read a Pod, or the pod template of a Deployment, DaemonSet, StatefulSet, Job or CronJob.

    Of several documents in the file the first with a pod counts. ConfigError says what is wrong, and where.
    """
    source = read_file(path)
    for text in re.split(r"(?m)^---.*$", source.text):
        tree = parse_text(Source(path, text, source.format))
        pod = _find_pod(tree)
        if pod is not None:
            return _Reader(path, image or ImageConfig()).workload(pod)
    raise ConfigError(path, "", "holds no Pod, nor anything with a pod template", "kind: Pod")


def _find_pod(tree: Any) -> dict[str, Any] | None:
    """The pod, or pod template with the name and namespace of its owner, that a document holds."""
    if not isinstance(tree, dict):
        return None
    if tree.get("kind") == "List":
        return next((pod for item in tree.get("items") or [] if (pod := _find_pod(item))), None)
    if tree.get("kind") == "Pod":
        return tree
    owner, holder = tree.get("metadata") or {}, tree.get("spec")
    if isinstance(holder, dict) and isinstance(holder.get("jobTemplate"), dict):
        holder = holder["jobTemplate"].get("spec")
    template = holder.get("template") if isinstance(holder, dict) else None
    if not isinstance(template, dict):
        return None
    named = {key: owner.get(key) for key in ("name", "namespace")} if isinstance(owner, dict) else {}
    return {**template, "metadata": {**named, **(template.get("metadata") or {})}}


def _texts(where: str, key: str, value: Any) -> list[str]:
    """A list of texts; missing is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError(where, key, "expected a list")
    return [_text(one) for one in value]


def _text(value: Any) -> str:
    """A scalar as YAML wrote it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _id(*names: str) -> str:
    return hashlib.sha256("/".join(names).encode()).hexdigest()


class _Reader:
    """Reads one pod of one file."""

    def __init__(self, path: str, image: ImageConfig) -> None:
        self._path = path
        self._image = image
        self._notes: list[str] = []

    def _table(self, tree: Any, key: str, where: str = "") -> dict[str, Any]:
        value = tree.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(self._path, f"{where}{key}", "expected a table of keys")
        return value

    def _tables(self, tree: Any, key: str, where: str = "") -> list[dict[str, Any]]:
        value = tree.get(key) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ConfigError(self._path, f"{where}{key}", "expected a list of tables")
        return value

    def workload(self, tree: dict[str, Any]) -> Workload:
        """The pod with its containers."""
        spec, metadata = self._table(tree, "spec"), self._table(tree, "metadata")
        containers = [*self._tables(spec, "initContainers", "spec."), *self._tables(spec, "containers", "spec.")]
        if not containers:
            raise ConfigError(self._path, "spec.containers", "a pod needs at least one container")
        name, namespace = _text(metadata.get("name")) or "pod", _text(metadata.get("namespace")) or "default"
        digest = _id(namespace, name)
        uid = _text(metadata.get("uid")) or "-".join(
            (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
        )
        requests = [self._quantities(one, place) for place, one in enumerate(containers)]
        qos = _qos(requests)
        parent = "/kubepods" + {"Guaranteed": "", "Burstable": "/burstable"}.get(qos, "/besteffort") + f"/pod{uid}"
        pod = m.PodSandbox(
            id=_id("sandbox", namespace, name),
            name=name,
            uid=uid,
            namespace=namespace,
            labels={key: _text(value) for key, value in self._table(metadata, "labels", "metadata.").items()},
            annotations={key: _text(value) for key, value in self._table(metadata, "annotations", "metadata.").items()},
            runtime_handler=_text(spec.get("runtimeClassName")),
        )
        pod.linux.cgroup_parent = parent
        pod.linux.cgroups_path = f"{parent}/{pod.id}"
        made = Workload(pod, notes=self._notes)
        for place, one in enumerate(containers):
            made.containers.append(self._container(spec, one, pod, requests[place], qos))
        return made

    def _quantities(self, container: dict[str, Any], place: int) -> dict[str, Fraction]:
        """Requests and limits as ``requests.cpu`` and so on; a limit without a request is one, too."""
        found: dict[str, Fraction] = {}
        resources = self._table(container, "resources")
        for kind in ("limits", "requests"):
            for name, value in self._table(resources, kind, "resources.").items():
                try:
                    found[f"{kind}.{name}"] = quantity.parse(value)
                except ValueError as error:
                    where = f"spec.containers[{place}].resources.{kind}.{name}"
                    raise ConfigError(self._path, where, str(error)) from None
        for key in [key for key in found if key.startswith("limits.")]:
            found.setdefault(key.replace("limits.", "requests."), found[key])
        return found

    def _container(
        self, spec: dict[str, Any], tree: dict[str, Any], pod: m.PodSandbox, wanted: dict[str, Fraction], qos: str
    ) -> m.Container:
        name = _text(tree.get("name"))
        if not name:
            raise ConfigError(self._path, "spec.containers", "a container without a name")
        made = m.Container(
            id=_id(pod.namespace, pod.name, name),
            pod_sandbox_id=pod.id,
            name=name,
            state=m.ContainerState.CONTAINER_CREATED,
            args=self._args(tree),
            env=self._env(tree, name),
            image=m.Image(name=_text(tree.get("image"))),
        )
        identity = {"container.name": name, "pod.name": pod.name, "pod.namespace": pod.namespace, "pod.uid": pod.uid}
        made.labels.update({f"io.kubernetes.{key}": value for key, value in identity.items()})
        cri = {
            "container-name": name, "container-type": "container", "image-name": made.image.name,
            "sandbox-id": pod.id, "sandbox-name": pod.name, "sandbox-namespace": pod.namespace, "sandbox-uid": pod.uid,
        }  # fmt: skip
        made.annotations.update({f"io.kubernetes.cri.{key}": value for key, value in cri.items()})
        for target, kind, origin, options in _USUAL_MOUNTS:
            made.mounts.add(destination=target, type=kind, source=origin, options=options)
        self._mounts(spec, tree, pod, made)
        _resources(made.linux, wanted, qos)
        made.linux.cgroups_path = f"{pod.linux.cgroup_parent}/{made.id}"
        host = {"network": "hostNetwork", "pid": "hostPID", "ipc": "hostIPC"}
        for kind in ("pid", "ipc", "uts", "mount", "network", "cgroup"):
            if not spec.get(host.get(kind, "")):
                made.linux.namespaces.add(type=kind)
        self._security(spec, tree, made)
        return made

    def _args(self, tree: dict[str, Any]) -> list[str]:
        """The command line: `command` replaces the image's entry point and command, `args` the command alone."""
        command, args = _texts(self._path, "command", tree.get("command")), _texts(self._path, "args", tree.get("args"))
        if command:
            return command + args
        return [*self._image.entrypoint, *(args or self._image.cmd)]

    def _env(self, tree: dict[str, Any], name: str) -> list[str]:
        found = dict(one.partition("=")[::2] for one in self._image.env)
        found.setdefault(*_PATH.split("=", 1))
        for one in self._tables(tree, "env"):
            variable = _text(one.get("name"))
            if "valueFrom" in one:
                self._notes.append(f"container {name}: the value of {variable} comes from the cluster: left empty")
            found[variable] = _text(one.get("value"))
        if tree.get("envFrom"):
            self._notes.append(f"container {name}: envFrom comes from the cluster: left out")
        return [f"{key}={value}" for key, value in found.items()]

    def _mounts(self, spec: dict[str, Any], tree: dict[str, Any], pod: m.PodSandbox, made: m.Container) -> None:
        """Volumes, at the place where the kubelet prepares them."""
        volumes = {_text(one.get("name")): one for one in self._tables(spec, "volumes", "spec.")}
        for mount in self._tables(tree, "volumeMounts"):
            name = _text(mount.get("name"))
            volume = volumes.get(name, {})
            kind = next((key for key in volume if key != "name"), "empty-dir")
            source = f"/var/lib/kubelet/pods/{pod.uid}/volumes/kubernetes.io~{_dashed(kind)}/{name}"
            if kind == "hostPath":
                source = _text(self._table(volume, "hostPath").get("path"))
            mode = "ro" if mount.get("readOnly") else "rw"
            made.mounts.add(
                destination=_text(mount.get("mountPath")),
                type="bind",
                source=source,
                options=["rbind", "rprivate", mode],
            )

    def _security(self, spec: dict[str, Any], tree: dict[str, Any], made: m.Container) -> None:
        """User, group and seccomp profile; the container's word before the pod's."""
        context = {**self._table(spec, "securityContext", "spec."), **self._table(tree, "securityContext")}
        try:
            made.user.uid, made.user.gid = int(context.get("runAsUser") or 0), int(context.get("runAsGroup") or 0)
            made.user.additional_gids.extend(int(one) for one in context.get("supplementalGroups") or [])
        except (TypeError, ValueError) as error:
            raise ConfigError(self._path, "securityContext", f"not a user or group id: {error}") from None
        profile = self._table(context, "seccompProfile", "securityContext.")
        if profile:
            kind = _text(profile.get("type"))
            if kind not in _SECCOMP:
                known = ", ".join(_SECCOMP)
                raise ConfigError(self._path, "seccompProfile.type", f'expected one of {known}, not "{kind}"')
            made.linux.seccomp_profile.profile_type = _SECCOMP[kind]  # type: ignore[assignment]
            made.linux.seccomp_profile.localhost_ref = _text(profile.get("localhostProfile"))


def _dashed(kind: str) -> str:
    """The kubelet's folder name of a kind of volume: emptyDir -> empty-dir."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()


def _qos(containers: list[dict[str, Fraction]]) -> str:
    """The pod's class of service, by the kubelet's rule."""
    keys = ("cpu", "memory")
    if not any(one.get(f"requests.{key}") for one in containers for key in keys):
        return "BestEffort"
    sure = all(
        one.get(f"limits.{key}") and one[f"limits.{key}"] == one[f"requests.{key}"]
        for one in containers
        for key in keys
    )
    return "Guaranteed" if sure else "Burstable"


def _resources(linux: m.LinuxContainer, wanted: dict[str, Fraction], qos: str) -> None:
    """What the kubelet asks the runtime for; 0 where it asks for nothing, as it does."""
    resources = linux.resources
    resources.cpu.shares.value = quantity.cpu_shares(wanted.get("requests.cpu", Fraction(0)))
    resources.cpu.period.value = quantity.CPU_PERIOD_US
    limit = wanted.get("limits.cpu")
    resources.cpu.quota.value = quantity.cpu_quota_us(limit) if limit else 0
    resources.memory.limit.value = quantity.ceil(wanted.get("limits.memory", Fraction(0)))
    for key, value in wanted.items():
        if key.startswith("limits.hugepages-"):
            size = key.removeprefix("limits.hugepages-").removesuffix("i")
            resources.hugepage_limits.add(page_size=f"{size}B", limit=quantity.ceil(value))
    # Burstable depends on the node's memory; the kubelet's upper end is the best guess.
    linux.oom_score_adj.value = {"Guaranteed": -997, "BestEffort": 1000}.get(qos, 999)
