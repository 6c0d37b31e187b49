"""TerwayQoS on the machine: the two files of the terway network daemon, kept as NodeSLO and the pods want them.

Rules: the files are there while NodeSLO chooses terway and not otherwise; before a NodeSLO has been read they are left
alone, so that an agent that starts takes nothing away. A bad annotation leaves its pod as it was, which is out if it
never had a good one, and no other pod. A reader sees a file's old text or the new
one, never half of it; nothing outside of the folder is met, whatever links are in it; a write that changes nothing is
none. Next: `nri.agent.koordinator.traffic`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from nri.agent.koordinator import network_rules as network
from nri.agent.koordinator import terway_qos
from nri.agent.koordinator.documents import SLO
from nri.agent.koordinator.names import ANNOTATION_NETWORK_QOS
from nri.agent.koordinator.reconcile import switched_on
from nri.agent.parts import Parts
from nri.agent.pods.last_good import LastGoodAnnotations
from nri.agent.pods.running import plain_context
from nri.agent.transports.standalone.pods import NAME
from nri.agent.transports.standalone.tally import Tally
from nri.files import write_in
from nri.host import Outcome, Result, Root
from nri.host.outcome import explain
from nri.policies import manifest
from nri.policies.running import RunningPod

__all__ = ["apply", "remove_file", "replace_file"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def apply(
    parts: Parts, folder: str, pods: Iterable[RunningPod], tally: Tally, good: LastGoodAnnotations
) -> list[Result]:
    """Write or remove the files.

    Args:
        parts: of the agent.
        folder: where the daemon looks for them, on the machine.
        pods: those that run.
        tally: counts.
        good: the annotations that could be read, of this round and the ones before it.
    """
    node, document = parts.decisions.node, parts.store.document(SLO)
    if document is None or not switched_on(node, terway_qos.NAME):
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
            replace_file(parts.root, folder, terway_qos.NODE_FILE, terway_qos.node_text(limits)),
            replace_file(parts.root, folder, terway_qos.POD_FILE, text),
        ]
    else:
        names = (terway_qos.NODE_FILE, terway_qos.POD_FILE)
        results = [remove_file(parts.root, folder, name) for name in names]
    parts.observer.wrote(results)
    tally.wrote(results)
    return results


def replace_file(root: Root, folder: str, name: str, text: str) -> Result:
    """Put a file with this text into a folder that is there, in one step.

    Args:
        root: the machine.
        folder: its path.
        name: of the file.
        text: all of it.
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
    """Take a file away; unchanged if it is not there."""
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
