"""The hook TerwayQoS: two files from which the terway network daemon reads the bandwidths of the node and its pods.

The files are written when NodeSLO or pods change, and removed when NodeSLO does not choose terway. Before the first
NodeSLO they are unchanged. Bandwidths are bytes per second. An unreadable annotation keeps the pod's last valid limit;
a pod without a valid limit is left out. Files are replaced atomically, and links are not followed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from nri.agent.hooks import Hook
from nri.agent.koordinator.bandwidths import (
    ANNOTATION_NETWORK_QOS,
    DOCUMENT_KEYS,
    UINT64,
    Bandwidths,
    node_total,
    pod_bandwidths,
    shared_out,
    unsigned,
)
from nri.agent.koordinator.documents import SLO, read_spec
from nri.agent.koordinator.names import BE, LABEL_QOS, LS, LSE, LSR, SYSTEM
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.reconcile import switched_on
from nri.agent.last_good import LastGoodAnnotations
from nri.agent.model import HookError, Pod
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.parts import Parts
from nri.agent.transports.standalone.pods import NAME as TRANSPORT
from nri.agent.transports.standalone.tally import Tally
from nri.files import write_in
from nri.host import Outcome, Result, Root
from nri.host.outcome import explain
from nri.kube import quantity

NAME: Final = "TerwayQoS"
FOLDER: Final = "/host-var-lib/terway/qos"
POD_FILE: Final = "pod.json"
NODE_FILE: Final = "global_bps_config"
_PRIORITIES: Final = {SYSTEM: 0, LSE: 1, LSR: 1, LS: 1, BE: 2}
_KUBE_PRIORITIES: Final = {"Guaranteed": 1, "Burstable": 1, "BestEffort": 2}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def is_chosen(spec: Any) -> bool:
    """Return whether NodeSLO chooses terway to limit bandwidths."""
    policies = read_spec(spec).get("resourceQOSStrategy", {}).get("policies", {})
    return bool(policies.get("netQOSPolicy") == "terway-qos")


def rule_of(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> Bandwidths:
    """Return the bandwidths in bytes per second. Raises ValueError if a bandwidth is malformed or above the node's."""
    fields = read_spec(spec)
    if "systemStrategy" not in fields:
        return Bandwidths()
    total = node_total(fields)
    if total < 0:
        raise ValueError(f"spec.systemStrategy.totalNetworkBandwidth: {total} is below 0")
    node = total // 8
    reference_total = node if quirks.bandwidth_shares_in_bytes else total
    return shared_out(fields, node, lambda value: bytes_per_s(value, reference_total, quirks))


def bytes_per_s(value: int | str | None, total: int, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return a share in bytes per second. A string is in bits; a number is a percentage of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return unsigned(value, quirks) * total % UINT64 // 100
    rate = unsigned(quantity.ceil(quantity.capped(value)), quirks) // 8
    if rate > total:
        raise ValueError(f"{value!r} is more than the node's {total}")
    return rate


class PodLimits(NamedTuple):
    """A pod's bandwidths in bytes per second; 0 means no limit."""

    ingress: int = 0
    egress: int = 0


def node_text(bandwidths: Bandwidths) -> str:
    """Return the content of the node's file: a line for each bandwidth. terway calls all pods offline."""
    return "".join(
        f"{name if name.startswith('hw') else 'offline_' + name} {value}\n" for name, value in bandwidths.items()
    )


def pods_text(pods: Iterable[tuple[Pod, str]], quirks: Quirks = Quirks.DEFAULT) -> tuple[str, dict[str, HookError]]:
    """Return the content of the pods' file, and the errors of left-out pods by uid.

    Args:
        pods: each pod with its Kubernetes QoS class.
        quirks: the differences from Koordinator.
    """
    entries: dict[str, Any] = {}
    errors: dict[str, HookError] = {}
    for pod, kube_class in pods:
        try:
            limits = pod_limits(pod.annotations, quirks)
        except HookError as error:
            errors[pod.uid] = error
            continue
        entries[pod.uid] = {
            "podName": pod.name,
            "podNamespace": pod.namespace,
            "podUID": pod.uid,
            "prio": priority(pod.labels, kube_class),
            "cgroupDir": f"/sys/fs/cgroup/net_cls/{pod.folder.strip('/')}",
            "qosConfig": {"ingressBandwidth": limits.ingress, "egressBandwidth": limits.egress},
        }
    return json.dumps(dict(sorted(entries.items())), separators=(",", ":"), ensure_ascii=False), errors


def priority(labels: Mapping[str, str], kube_class: str) -> int:
    """Return the priority of a pod: 0 for system, 1 for latency-sensitive and 2 for best-effort pods."""
    return _PRIORITIES.get(labels.get(LABEL_QOS, "-"), _KUBE_PRIORITIES.get(kube_class, 0))


def pod_limits(annotations: Mapping[str, str], quirks: Quirks = Quirks.DEFAULT) -> PodLimits:
    """Read a pod's bandwidths. Raises HookError if the annotation is unreadable."""
    if not annotations.get(ANNOTATION_NETWORK_QOS):
        return PodLimits()
    try:
        limits = pod_bandwidths(annotations)
        return PodLimits(*(_bytes(limits.get(key), key, quirks) for key in ("ingressLimit", "egressLimit")))
    except ValueError as error:
        raise HookError(NAME, str(error)) from None


def _bytes(bits: int | None, key: str, quirks: Quirks) -> int:
    if bits is None and not quirks.absent_bandwidth_is_none:
        raise ValueError(f"annotation {ANNOTATION_NETWORK_QOS}: {key} is missing")
    bits = bits or 0
    if bits < 0 and quirks.negative_bandwidth_refused:
        raise ValueError(f"annotation {ANNOTATION_NETWORK_QOS}: {key}: bandwidth {bits} is negative")
    return bits % (1 << 64) // 8


def apply(parts: Parts, folder: str, pods: Iterable[Pod], tally: Tally, good: LastGoodAnnotations) -> list[Result]:
    """Write or remove terway's files.

    Args:
        parts: the shared parts of the agent.
        folder: the folder from which the daemon reads the files.
        pods: the running pods.
        tally: the counts of the round.
        good: the last readable annotations of this and earlier rounds.
    """
    node, document = parts.decisions.node, parts.store.document(SLO)
    if document is None or not switched_on(node, NAME):
        return []
    spec = document.get("spec")
    results: list[Result]
    if is_chosen(spec):
        listed = [(pod, pod.kube_class) for pod in pods]
        tally.items += len(listed)
        good.only({context.uid for context, _ in listed})
        text, errors = pods_text(listed, node.quirks)
        for place, (context, kube_class) in enumerate(listed):
            error = errors.get(context.uid)
            parts.decisions.failed(context, TRANSPORT, NAME, "" if error is None else error.reason)
            if error is None:
                good.keep(context.uid, ANNOTATION_NETWORK_QOS, context.annotations)
                continue
            tally.failed(f"{context.namespace}/{context.name}", [error])
            replacement = good.instead(context.uid, ANNOTATION_NETWORK_QOS, context.annotations)
            if replacement is not None:
                listed[place] = (replace(context, annotations=replacement), kube_class)
        if errors:
            text, _ = pods_text(listed, node.quirks)
        limits = rule_of(spec, node.quirks)
        results = [
            replace_file(parts.root, folder, NODE_FILE, node_text(limits)),
            replace_file(parts.root, folder, POD_FILE, text),
        ]
    else:
        names = (NODE_FILE, POD_FILE)
        results = [remove_file(parts.root, folder, name) for name in names]
    parts.observer.wrote(results)
    tally.wrote(results)
    return results


def replace_file(root: Root, folder: str, name: str, text: str) -> Result:
    """Replace a file in an existing folder atomically.

    Args:
        root: the machine.
        folder: the path of the folder.
        name: the name of the file.
        text: the content of the file.
    """
    path = f"{folder}/{name}"
    if root.find(path) == text:
        return Result(path, "file", len(text), Outcome.UNCHANGED)
    try:
        parent = root.open(folder, _FOLDER)
    except OSError as error:
        return Result(path, "file", len(text), *explain(error))
    try:
        write_in(parent, name, text.encode("utf-8", "surrogateescape"), 0o644)
    except OSError as error:
        return Result(path, "file", len(text), *explain(error))
    finally:
        os.close(parent)
    return Result(path, "file", len(text), Outcome.APPLIED)


def remove_file(root: Root, folder: str, name: str) -> Result:
    """Remove a file. The outcome is "unchanged" if the file does not exist."""
    path = f"{folder}/{name}"
    try:
        parent = root.open(folder, _FOLDER)
    except OSError:
        return Result(path, "file", "none", Outcome.UNCHANGED)
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return Result(path, "file", "none", Outcome.UNCHANGED)
    except OSError as error:
        return Result(path, "file", "none", *explain(error))
    finally:
        os.close(parent)
    return Result(path, "file", "none", Outcome.APPLIED)


HOOK: Final = Hook(
    NAME,
    False,
    (SLO, "pods"),
    (LABEL_QOS, ANNOTATION_NETWORK_QOS),
    {},
    (OwnedKnob(Level.NODE, "terway"),),
    document_keys=DOCUMENT_KEYS,
)
