"""Create the CRI requests for the pods of Kubernetes manifests, as the kubelet of Kubernetes 1.34 does.

Each key is either used, or refused because the container would be wrong without it, or listed in the pod's notes.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nri.cri.pb import api_pb2 as pb
from nri.host.cgroups import Driver, KubeQos, pod_path
from nri.kube import kubelet
from nri.kube.manifest import pod_resources
from nri.kube.pod_manifests import pod_name, read_pod_manifests
from nri.pods.containers import ContainerRequest, ContainerRequests, Node, security_profile, selinux
from nri.pods.folder import LOGS
from nri.pods.unread_keys import Unread, unread, watch
from nri.pods.volumes import Volume

if TYPE_CHECKING:
    from nri.config.source import Source
    from nri.kube.document import Document
    from nri.kube.pod_manifests import PodManifest

__all__ = ["Node", "PodRequest", "read_pods"]

_MAX_SECONDS = 2**31 - 1


@dataclass(slots=True)
class PodRequest:
    """The requests for a pod.

    Attributes:
        config: the CRI's configuration of its sandbox.
        handler: the runtime handler, or "" for the default handler.
        containers: the containers in start order, init containers first.
        volumes: the volumes to prepare before the containers.
        notes: a line for each key without effect, with file and line.
    """

    config: pb.PodSandboxConfig
    handler: str
    containers: list[ContainerRequest] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.config.metadata.namespace}/{self.config.metadata.name}"


_CLUSTER = "only a cluster's scheduler and controllers use it"
_PROBE = "only the kubelet runs probes"
_ACCOUNT = "an API server is required"
#: The reason why a key has no effect.
_REASONS = {
    **dict.fromkeys(
        ("affinity", "nodeSelector", "nodeName", "preemptionPolicy", "priority", "schedulerName", "schedulingGates",
         "tolerations", "topologySpreadConstraints", "readinessGates", "resourceClaims", "activeDeadlineSeconds",
         "overhead"),
        _CLUSTER,
    ),
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
    **dict.fromkeys(
        ("automountServiceAccountToken", "serviceAccount", "serviceAccountName", "enableServiceLinks", "subdomain",
         "setHostnameAsFQDN"),
        _ACCOUNT,
    ),
    "lifecycle": "only the kubelet runs hooks",
    "restartPolicy": "containers are not restarted",
    "terminationMessagePath": "only the kubelet reads termination messages",
    "terminationMessagePolicy": "only the kubelet reads termination messages",
    "hostAliases": "the runtime writes /etc/hosts",
    "hostUsers": "a kubelet's id ranges are required",
    "imagePullSecrets": "images are pulled with the runtime's own credentials",
    "ephemeralContainers": "containers cannot be added later",
    "volumeDevices": "block devices of claims require a cluster",
    "resizePolicy": "containers are not resized",
    "medium": "the volume is a folder on disk",
    "sizeLimit": "the size of the volume is not limited",
    "fsGroupChangePolicy": "volumes are new, so every file gets the group",
    "serviceName": "only a cluster has Services",
}  # fmt: skip
_VOLUME = re.compile(r"(?:.*\.)?volumes\[\d+\]\.\w+")
#: Fields that a cluster writes into objects, which need no note.
_IGNORED_KEYS = frozenset(
    ["apiVersion", "kind", "status"]
    + [f"metadata.{key}" for key in ("creationTimestamp", "resourceVersion", "generation", "generateName", "selfLink",
                                     "managedFields", "ownerReferences", "finalizers")]
)  # fmt: skip


def read_pods(source: Source, node: Node) -> list[PodRequest]:
    """Create the requests for every pod in a manifest: a Pod, or the template of a Deployment and similar kinds.

    Raises ConfigError, with file, line and key, if the manifest is invalid or has no pods.
    """
    requests = list[PodRequest]()
    names = set[str]()
    manifests, left_out = read_pod_manifests(source, watch)  # trees that record which keys are read
    for manifest, tree in manifests:
        request = _pod(manifest, node)
        if request.name in names:
            raise manifest.document.error(f"duplicate pod name {request.name}", "metadata.name", tree)
        names.add(request.name)
        unused = [key for key in unread(tree, _IGNORED_KEYS) if key.path not in manifest.unknown_keys]
        is_pod = tree.get("kind") == "Pod"
        request.notes = [*manifest.key_notes, *(_note_text(manifest.document, key, is_pod=is_pod) for key in unused)]
        requests.append(request)
    requests[0].notes[:0] = left_out
    return requests


def _note_text(document: Document, key: Unread, *, is_pod: bool) -> str:
    """Describe a key without effect: file, line and the reason."""
    reason = "no container mounts it" if _VOLUME.fullmatch(key.path) else _REASONS.get(key.key, "")
    if not reason:
        outside = not is_pod and ".template." not in key.path
        reason = "only a cluster's controllers use it" if outside else "it is not used"
    return f"{document.place(key.table, key.key)}: {key.path} is ignored: {reason}"


def _pod(manifest: PodManifest, node: Node) -> PodRequest:
    """Create the requests for a pod."""
    document, tree = manifest.document, manifest.pod
    metadata, spec = document.table(tree, "metadata"), document.table(tree, "spec")
    first = document.tables(spec, "initContainers", "spec.")
    containers = [*first, *document.tables(spec, "containers", "spec.")]
    resources = pod_resources(document, spec)
    qos = kubelet.qos_class(resources)
    request = PodRequest(
        _sandbox(document, metadata, spec, node, qos), document.text(spec, "runtimeClassName", "spec.")
    )
    reader = ContainerRequests(document, spec, request.config, node)
    for place, (container, share) in enumerate(
        zip(containers, kubelet.shares(resources, node.memory_bytes), strict=True)
    ):
        request.containers.append(reader.read(container, share, first=place < len(first)))
    request.volumes = [*reader.volumes.values()]
    return request


def _sandbox(
    document: Document, metadata: dict[str, Any], spec: dict[str, Any], node: Node, qos: str
) -> pb.PodSandboxConfig:
    """Create the configuration of a pod's sandbox."""
    name = pod_name(document, metadata)
    if not name:
        raise document.error("a pod requires a name", "metadata.name", metadata or None)
    identity = pb.PodSandboxMetadata(
        name=name,
        namespace=document.text(metadata, "namespace", "metadata.") or "default",
        uid=document.text(metadata, "uid", "metadata.") or str(uuid.uuid4()),
    )
    try:
        cgroup = pod_path(node.driver, KubeQos(qos), identity.uid)
    except ValueError as error:
        raise document.error(str(error), "metadata.uid", metadata, "uid") from None
    if node.driver is Driver.SYSTEMD:
        cgroup = cgroup.rpartition("/")[2]
    elif root := node.cgroup_root.strip("/"):
        cgroup = f"/{root}/{cgroup}"
    else:
        cgroup = f"/{cgroup}"
    config = pb.PodSandboxConfig(
        metadata=identity,
        hostname=document.text(spec, "hostname", "spec."),
        log_directory=f"{node.folder}/{identity.uid}/{LOGS}",
        labels=document.pairs(metadata, "labels", "metadata."),
        annotations=document.pairs(metadata, "annotations", "metadata."),
        linux=pb.LinuxPodSandboxConfig(cgroup_parent=cgroup),
    )
    for key in ("name", "namespace", "uid"):
        config.labels[f"io.kubernetes.pod.{key}"] = getattr(identity, key)
    _network(document, spec, config)
    _security(document, spec, config.linux, node.seccomp_root)
    return config


def _network(document: Document, spec: dict[str, Any], config: pb.PodSandboxConfig) -> None:
    """Set namespaces, host name and DNS."""
    on_node = document.flag(spec, "hostNetwork", "spec.")
    shared, host = (document.flag(spec, key, "spec.") for key in ("shareProcessNamespace", "hostPID"))
    if shared and host:
        raise document.error("hostPID and shareProcessNamespace exclude each other", "spec.hostPID", spec, "hostPID")
    options = config.linux.security_context.namespace_options
    options.network = pb.NODE if on_node else pb.POD
    options.pid = pb.NODE if host else pb.POD if shared else pb.CONTAINER
    options.ipc = pb.NODE if document.flag(spec, "hostIPC", "spec.") else pb.POD
    if not on_node:
        config.hostname = config.hostname or config.metadata.name[:63].rstrip("-.")
    policy = document.text(spec, "dnsPolicy", "spec.")
    if policy and policy not in ("Default", "None", "ClusterFirst", "ClusterFirstWithHostNet"):
        raise document.error(f'expected Default or None, not "{policy}"', "spec.dnsPolicy", spec, "dnsPolicy")
    table = document.table(spec, "dnsConfig", "spec.")
    if table or policy == "None":
        dns = config.dns_config
        dns.servers.extend(document.texts(table, "nameservers", "spec.dnsConfig."))
        dns.searches.extend(document.texts(table, "searches", "spec.dnsConfig."))
        for option in document.tables(table, "options", "spec.dnsConfig."):
            name, value = (document.text(option, key, "spec.dnsConfig.options.") for key in ("name", "value"))
            dns.options.append(f"{name}:{value}" if value else name)


def _security(document: Document, spec: dict[str, Any], linux: pb.LinuxPodSandboxConfig, root: str) -> None:
    """Set the security context of the sandbox."""
    table, where = document.table(spec, "securityContext", "spec."), "spec.securityContext."
    context = linux.security_context
    for key, target in (("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)):
        if table.get(key) is not None:
            target.value = document.number(table, key, 2**32 - 1, where)
    for sysctl in document.tables(table, "sysctls", where):
        name, value = (document.text(sysctl, key, f"{where}sysctls.") for key in ("name", "value"))
        linux.sysctls[name] = value
    selinux(document, table, where, context)
    security_profile(document, table, where, context, root)
    document.number(spec, "terminationGracePeriodSeconds", _MAX_SECONDS, "spec.")
