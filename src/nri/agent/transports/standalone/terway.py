"""TerwayQoS on the machine: the two files of the terway network daemon, kept as NodeSLO and the pods want them.

Rules: the files are there while NodeSLO chooses terway and not otherwise; before a NodeSLO has been read they are left
alone, so that an agent that starts takes nothing away. A bad annotation leaves its pod out, and no other. Next:
:mod:`nri.agent.transports.standalone.traffic`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.agent.parts import Parts
from nri.agent.pods.running import plain_context
from nri.agent.transports.standalone import files
from nri.agent.transports.standalone.pods import switched_on
from nri.agent.transports.standalone.tally import Tally
from nri.host import Result
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.hooks import terway_qos
from nri.policies.koordinator.refresh.running import RunningPod
from nri.policies.koordinator.rules import network

__all__ = ["apply"]


def apply(parts: Parts, folder: str, pods: Iterable[RunningPod], tally: Tally) -> list[Result]:
    """Write or remove the files.

    Args:
        parts: of the agent.
        folder: where the daemon looks for them, on the machine.
        pods: those that run.
        tally: counts.
    """
    node, document = parts.decisions.node, parts.book.document("NodeSLO")
    if document is None or not switched_on(node.gates, terway_qos.NAME):
        return []
    spec = document.get("spec")
    results: list[Result]
    if network.terway_chosen(spec):
        listed = [(plain_context(pod), manifest.kube_class(pod.pod)) for pod in pods]
        tally.items += len(listed)
        text, errors = terway_qos.pods_text(listed, node.quirks)
        tally.failed(terway_qos.NAME, errors)
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
