"""A container of a manifest as the message that a runtime would send to its plugins when it is created.

The labels, annotations and mounts that a runtime adds on the way are those of containerd's CRI. Values that come from
the cluster (`valueFrom`) are left empty and noted. Pure. Next: `nri.kube.kubelet`, for the kubelet's share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.api import messages as m
from nri.kube import kubelet
from nri.kube.document import is_number, text

if TYPE_CHECKING:
    from nri.kube.document import Document
    from nri.kube.image_config import ImageConfig
    from nri.kube.kubelet import Quantities

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_USUAL_MOUNTS = (
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
_MOST_ID = 2**32 - 1
_SECCOMP = {"RuntimeDefault": 0, "Unconfined": 1, "Localhost": 2}


class ContainerReader:
    """Makes the messages of one pod's containers.

    Attributes:
        notes: values that cannot be known here, as lines for people.
    """

    def __init__(
        self, document: Document, spec: dict[str, Any], pod: m.PodSandbox, image: ImageConfig, qos: str
    ) -> None:
        """`spec` is the pod's own, `qos` its class of service; `image` counts for all of its containers."""
        self.notes: list[str] = []
        self._document = document
        self._spec = spec
        self._pod = pod
        self._image = image
        self._qos = qos
        self._names: set[str] = set()

    def read(self, tree: dict[str, Any], wanted: Quantities) -> m.Container:
        """Make the message of a container that asks for the resources `wanted`. ConfigError says what is wrong."""
        pod, name = self._pod, self._document.text(tree, "name")
        if not name:
            raise self._document.error("a container without a name", "spec.containers", tree)
        if name in self._names:
            raise self._document.error(f'a second container of the name "{name}"', "spec.containers", tree, "name")
        self._names.add(name)
        made = m.Container(
            id=kubelet.make_id(pod.id, name),
            pod_sandbox_id=pod.id,
            name=name,
            state=m.ContainerState.CONTAINER_CREATED,
            args=self._args(tree),
            env=self._env(tree, name),
            image=m.Image(name=self._document.text(tree, "image")),
        )
        self._name(made)
        self._mounts(tree, made)
        kubelet.set_resources(made.linux, wanted, self._qos)
        made.linux.cgroups_path = f"{pod.linux.cgroup_parent}/{made.id}"
        for kind in _NAMESPACES:
            if not self._spec.get(_HOST_KEYS.get(kind, "")):
                made.linux.namespaces.add(type=kind)
        self._security(tree, made)
        return made

    def _name(self, made: m.Container) -> None:
        """Set the labels of the kubelet and the annotations of the runtime."""
        pod, name = self._pod, made.name
        identity = {"container.name": name, "pod.name": pod.name, "pod.namespace": pod.namespace, "pod.uid": pod.uid}
        made.labels.update({f"io.kubernetes.{key}": value for key, value in identity.items()})
        cri = {
            "container-name": name, "container-type": "container", "image-name": made.image.name,
            "sandbox-id": pod.id, "sandbox-name": pod.name, "sandbox-namespace": pod.namespace, "sandbox-uid": pod.uid,
        }  # fmt: skip
        made.annotations.update({f"io.kubernetes.cri.{key}": value for key, value in cri.items()})

    def _args(self, tree: dict[str, Any]) -> list[str]:
        """Join the command line: `command` replaces the image's entry point and command, `args` the command alone."""
        command, args = self._document.texts(tree, "command"), self._document.texts(tree, "args")
        if command:
            return command + args
        return [*self._image.entrypoint, *(args or self._image.cmd)]

    def _env(self, tree: dict[str, Any], name: str) -> list[str]:
        """Lay the container's environment over the image's."""
        found = dict(one.partition("=")[::2] for one in self._image.env)
        found.setdefault(*_PATH.split("=", 1))
        for one in self._document.tables(tree, "env"):
            variable = self._document.text(one, "name", "env.")
            if "valueFrom" in one:
                self.notes.append(f"container {name}: the value of {variable} comes from the cluster: left empty")
            found[variable] = self._document.text(one, "value", "env.")
        if tree.get("envFrom"):
            self.notes.append(f"container {name}: envFrom comes from the cluster: left out")
        return [f"{key}={value}" for key, value in found.items()]

    def _mounts(self, tree: dict[str, Any], made: m.Container) -> None:
        """Add the mounts of every container, then the volumes, from where the kubelet prepares them."""
        for target, kind, origin, options in _USUAL_MOUNTS:
            made.mounts.add(destination=target, type=kind, source=origin, options=options)
        document = self._document
        volumes = {document.text(one, "name"): one for one in document.tables(self._spec, "volumes", "spec.")}
        for mount in document.tables(tree, "volumeMounts"):
            name = document.text(mount, "name")
            volume = volumes.get(name, {})
            kind = text(next((key for key in volume if key != "name"), "empty-dir"))
            source = kubelet.volume_folder(self._pod.uid, kind, name)
            if kind == "hostPath":
                source = document.text(document.table(volume, "hostPath"), "path", "hostPath.")
            made.mounts.add(
                destination=document.text(mount, "mountPath"),
                type="bind",
                source=source,
                options=["rbind", "rprivate", "ro" if mount.get("readOnly") else "rw"],
            )

    def _security(self, tree: dict[str, Any], made: m.Container) -> None:
        """Set user, group and seccomp profile; the container's word comes before the pod's."""
        document = self._document
        pods, own = document.table(self._spec, "securityContext", "spec."), document.table(tree, "securityContext")

        def said_by(key: str) -> dict[str, Any]:
            """The one of both whose word counts."""
            return own if key in own else pods

        made.user.uid, made.user.gid = (
            document.number(said_by(key), key, _MOST_ID, "securityContext.") for key in ("runAsUser", "runAsGroup")
        )
        groups = said_by("supplementalGroups")
        for one in document.items(groups, "supplementalGroups", "securityContext."):
            if not is_number(one, _MOST_ID):
                where = "securityContext.supplementalGroups"
                raise document.error(f"expected group ids from 0 to {_MOST_ID}", where, groups, "supplementalGroups")
            made.user.additional_gids.append(int(one))
        context = said_by("seccompProfile")
        profile = document.table(context, "seccompProfile", "securityContext.")
        if profile:
            kind = document.text(profile, "type", "seccompProfile.")
            if kind not in _SECCOMP:
                wrong = f'expected one of {", ".join(_SECCOMP)}, not "{kind}"'
                raise document.error(wrong, "seccompProfile.type", profile, "type")
            made.linux.seccomp_profile.profile_type = _SECCOMP[kind]  # type: ignore[assignment]
            made.linux.seccomp_profile.localhost_ref = document.text(profile, "localhostProfile", "seccompProfile.")
