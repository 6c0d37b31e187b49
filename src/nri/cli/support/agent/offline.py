"""Decisions without an agent: pods out of manifests, rules out of files, and what each hook would give them.

Rules: nothing is written and nobody is asked; what this machine cannot do is told beside each value, because the node
may be another one. The result has the form of the agent's own explanations (`nri.agent.explain`). Next:
`nri.cli.support.agent.explained`, which shows it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri import host
from nri.agent.capabilities import Capability, capabilities
from nri.agent.decisions import subject_of, values_of
from nri.agent.explain import History
from nri.agent.machine import with_machine
from nri.agent.pods.files import FilePods
from nri.agent.rules.book import Problem, RuleBook
from nri.agent.rules.files import FileRules
from nri.agent.settings import base_node
from nri.errors import ConfigError
from nri.policies.koordinator.contexts import ContainerContext
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.names import LABEL_QOS
from nri.policies.koordinator.profile import CREATE, PROFILE, RUN_POD, decide
from nri.policies.koordinator.writes import KNOBS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nri.agent.settings import Settings
    from nri.policies.koordinator.profile import Node

__all__ = ["book_of", "explain_manifests", "pods_of"]

#: The word in place of a transport.
_NONE = "none"


def book_of(settings: Settings) -> tuple[RuleBook, list[Problem]]:
    """The rules of the settings' files, read once, and what is wrong with them."""
    book = RuleBook(with_machine(base_node(settings), host.Root(settings.root)))
    source = FileRules(settings, book)
    source.start()
    source.stop()
    return book, book.problems()


def pods_of(settings: Settings) -> list[Mapping[str, Any]]:
    """The pods of the settings' files, read once. ConfigError if they cannot be read."""
    source = FilePods(settings)
    source.start()
    source.stop()
    if source.problem:
        raise ConfigError(str(settings.pods.path), "", source.problem)
    return source.pods()


def explain_manifests(settings: Settings, path: str) -> list[dict[str, Any]]:
    """What every pod of a file would get. ConfigError for a file or a rule that cannot be read."""
    book, problems = book_of(settings)
    if problems:
        raise ConfigError(problems[0].source, "", problems[0].error)
    pods = pods_of(replace(settings, pods=replace(settings.pods, path=Path(path))))
    if not pods:
        raise ConfigError(path, "", "there is no pod in it", 'a document with "kind: Pod"')
    table = {row.what: row for row in capabilities(host.Root(settings.root))}
    return [_explained(pod, book.node, table) for pod in pods]


def _explained(pod: Mapping[str, Any], node: Node, table: Mapping[str, Capability]) -> dict[str, Any]:
    history = History()
    context = manifest.pod_context(pod, manifest.pod_folder(pod))
    if not context.uid:
        context = replace(context, uid=f"{context.namespace}/{context.name}")
    for stage, subject in ((RUN_POD, context), *((CREATE, each) for each in _containers(pod, context))):
        outcome = decide(stage, subject, node)
        about = subject_of(subject)
        history.decided(about, stage, _NONE, values_of(outcome.because))
        history.failed(about, stage, _NONE, ((each.hook, each.reason) for each in outcome.errors))
    found = history.of(context.uid) or {"key": context.uid, "values": [], "writes": [], "errors": []}
    found |= {"namespace": context.namespace, "name": context.name, "notes": list(_without_effect(context, node))}
    for row in found["values"]:
        knob = table.get(KNOBS.get(row["field"], ""))
        row["supported_here"] = knob is None or knob.supported
        row["unsupported_because"] = "" if knob is None else knob.reason
        row["instead"] = "" if knob is None else knob.instead
    found["notes"] += _unsupported(found["values"])
    return found


def _containers(pod: Mapping[str, Any], context: Any) -> Iterator[ContainerContext]:
    """The containers of a pod as its spec has them, those that initialize it first."""
    spec = pod.get("spec") or {}
    annotated = manifest.annotated(context.annotations) or {}
    for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name = each.get("name", "")
        yield ContainerContext(
            pod=context,
            name=name,
            env={one.get("name", ""): one.get("value", "") for one in each.get("env") or ()},
            resources=manifest.container_resources(each),
            extended=manifest.extended_of(each) or annotated.get(name),
        )


def _without_effect(context: Any, node: Node) -> Iterator[str]:
    """Annotations and labels of hooks that are switched off."""
    gates = node.gates or frozenset()
    for row in PROFILE:
        read = [key for key in row.keys if key != LABEL_QOS and key in {**context.labels, **context.annotations}]
        shared = {key for other in PROFILE if other.name in gates for key in other.keys}
        unread = [key for key in read if key not in shared]
        if unread and row.name not in gates:
            yield f"{', '.join(unread)}: without effect, for {row.name} is off; switch it on with gates.{row.name} = true"


def _unsupported(values: list[dict[str, Any]]) -> list[str]:
    """What this machine could not do, a line each."""
    lines = dict.fromkeys(
        f"{KNOBS[row['field']]}: not supported on this machine: {row['unsupported_because']}"
        + (f"; instead: {row['instead']}" if row["instead"] else "")
        for row in values
        if not row["supported_here"]
    )
    return list(lines)
