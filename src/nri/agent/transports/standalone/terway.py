"""TerwayQoS on the machine: the two files of the terway network daemon, kept as NodeSLO and the pods want them.

Rules: the files are there while NodeSLO chooses terway and not otherwise; before a NodeSLO has been read they are left
alone, so that an agent that starts takes nothing away. A bad annotation leaves its pod as it was, which is out if it
never had a good one, and no other pod. Next:
:mod:`nri.agent.transports.standalone.traffic`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nri.agent.parts import Parts
from nri.agent.pods.last_good import LastGood
from nri.agent.pods.running import plain_context
from nri.agent.transports.standalone import files
from nri.agent.transports.standalone.pods import NAME, switched_on
from nri.agent.transports.standalone.tally import Tally
from nri.host import Result
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.hooks import terway_qos
from nri.policies.koordinator.names import ANNOTATION_NETWORK_QOS
from nri.policies.koordinator.refresh.running import RunningPod
from nri.policies.koordinator.rules import network

__all__ = ["apply"]


def apply(parts: Parts, folder: str, pods: Iterable[RunningPod], tally: Tally, good: LastGood) -> list[Result]:
    """Write or remove the files.

    Args:
        parts: of the agent.
        folder: where the daemon looks for them, on the machine.
        pods: those that run.
        tally: counts.
        good: the annotations that could be read, of this round and the ones before it.
    """
    node, document = parts.decisions.node, parts.book.document("NodeSLO")
    if document is None or not switched_on(node.gates, terway_qos.NAME):
        return []
    spec = document.get("spec")
    results: list[Result]
    if network.terway_chosen(spec):
        listed = [(plain_context(pod), manifest.kube_class(pod.pod)) for pod in pods]
        tally.items += len(listed)
        good.only({context.uid for context, _ in listed})
        text, errors = terway_qos.pods_text(listed, node.quirks)
        for place, (context, kube_class) in enumerate(listed):
            error = errors.get(context.uid)
            parts.decisions.failed(context, NAME, terway_qos.NAME, "" if error is None else error.reason)
            if error is None:
                good.keep(context.uid, ANNOTATION_NETWORK_QOS, context.annotations)
                continue
            tally.failed(f"{context.namespace}/{context.name}", [error])
            instead = good.instead(context.uid, ANNOTATION_NETWORK_QOS, context.annotations)
            if instead is not None:
                listed[place] = (replace(context, annotations=instead), kube_class)
        if errors:
            text, _ = terway_qos.pods_text(listed, node.quirks)
        limits = network.terway(spec, node.quirks)
        results = [
            files.replace(parts.root, folder, terway_qos.NODE_FILE, terway_qos.node_text(limits)),
            files.replace(parts.root, folder, terway_qos.POD_FILE, text),
        ]
    else:
        names = (terway_qos.NODE_FILE, terway_qos.POD_FILE)
        results = [files.remove(parts.root, folder, name) for name in names]
    parts.observer.wrote(results)
    tally.wrote(results)
    return results
