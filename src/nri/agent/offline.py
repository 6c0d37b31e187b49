"""Decisions without an agent: pods out of manifests, rules out of files, and what each hook would give them.

Rules: nothing is written and no server is asked; what this machine cannot do is said beside each value, because the
node may be another one. The result has the form of the agent's own explanations (`nri.agent.explain`). Next:
`nri.agent.account`, which adds the rules of each hook.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nri import host
from nri.agent import cgroup_paths as paths
from nri.agent.capabilities import Capability, capabilities
from nri.agent.decisions import class_of, subject_of, values_of
from nri.agent.explain import History
from nri.agent.hooks import CREATE, RUN_POD, decide
from nri.agent.model import MEMORY_LIMIT, Container, Pod
from nri.agent.pods import manifest
from nri.agent.profile import profile_of
from nri.agent.rules.files import FileRules
from nri.agent.rules.origins import with_places
from nri.agent.rules.store import RuleStore
from nri.config.complaint import together
from nri.errors import ConfigError
from nri.kube import quantity
from nri.kube.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from nri.agent.profile import Profile
    from nri.agent.settings import AgentSettings
    from nri.config.settings import Loaded
    from nri.kube.document import Document

__all__ = ["explain_manifests", "explained", "missing_rules", "no_pods", "pods_of", "store_of"]


def missing_rules(loaded: Loaded[AgentSettings]) -> ConfigError | None:
    """The error that there is no file of rules where one was named; None if there is, or if none was."""
    path, named = loaded.settings.rules.path, loaded.origins.get("rules.path")
    if named is None or loaded.settings.rules.source != "files" or path.exists():
        return None
    advice = "give a file or a folder; it is watched, which a pipe cannot be" if str(path) == "-" else ""
    return ConfigError(named, "rules.path", f"there is no {path}", advice)


def store_of(settings: AgentSettings) -> RuleStore:
    """The rules of the settings' files, read once; what is wrong with them are the store's problems."""
    profile = profile_of(settings.profile)
    store = RuleStore(profile.node(settings, host.Root(settings.root)), profile.kinds, log=False)
    FileRules(settings, store).look()
    return store


class Listed(NamedTuple):
    """A pod of a file; `place` finds what a note or an error is about: a label, its containers, the pod."""

    pod: dict[str, Any]
    place: Callable[[str], str]


def pods_of(path: str) -> list[Listed]:
    """The pods of a file or of the files of a folder. ConfigError with all that cannot be read."""
    folder = Folder(path)
    folder.changed()
    if folder.errors:
        raise together(list(folder.errors.values()))
    if not folder.files and not os.path.exists(path):
        raise ConfigError(path, "", "there is no such file")
    return [
        Listed(_shaped(document, each), partial(_place, document, each))
        for found in folder.files.values()
        for document, each in found
        if each.get("kind") == "Pod"
    ]


def _place(document: Document, pod: dict[str, Any], text: str) -> str:
    """The file and line of what a text is about: a label or annotation that it names, or the pod."""
    for part in ("annotations", "labels"):
        for key in document.table(document.table(pod, "metadata"), part):
            if re.search(rf"(^|annotation ){re.escape(str(key))}([:,]| names )", text):
                return document.place(pod, "metadata", part, str(key))
    return (
        document.place(pod, "spec", "containers")
        if text.startswith("containers.")
        else document.place(pod, "metadata", "name")
    )


def _shaped(document: Document, pod: dict[str, Any]) -> dict[str, Any]:
    """A pod, of which all that is read is what the API would have. ConfigError with the place of what is not."""
    meta, spec = document.table(pod, "metadata"), document.table(pod, "spec")
    texts = {key: document.pairs(meta, key, "metadata.") for key in ("labels", "annotations")}
    for key in ("name", "namespace", "uid"):
        document.text(meta, key, "metadata.")
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(document.tables(spec, kind, "spec.")):
            where = f"spec.{kind}[{number}]."
            document.text(container, "name", where)
            document.tables(container, "env", where)
            wanted = document.table(container, "resources", where)
            for part in ("requests", "limits"):
                for name, value in document.table(wanted, part, f"{where}resources.").items():
                    try:
                        quantity.parse(value)
                    except ValueError as error:
                        raise document.error(str(error), f"{where}resources.{part}.{name}", wanted, part) from None
    return {**pod, "metadata": {**meta, **texts}}


def no_pods(path: str) -> ConfigError:
    """The error that a file or folder that was to have pods has none."""
    return ConfigError(path, "", "there is no pod in it", 'a document with "kind: Pod"')


def explain_manifests(settings: AgentSettings, path: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Work out what every pod of a file would get, and what there is to say of the rules.

    Raises:
        ConfigError: a file or a rule cannot be read.
    """
    store, pods = store_of(settings), pods_of(path)
    if problems := store.problems():
        raise together([ConfigError(each.source, "", each.error) for each in problems])
    if not pods:
        raise no_pods(path)
    profile = profile_of(settings.profile)
    table = {row.what: row for row in capabilities(host.Root(settings.root), profile)}
    found = [with_places(explained(each.pod, settings, store.node, table), store, profile) for each in pods]
    return found, store.remarks()


def explained(
    pod: Mapping[str, Any], settings: AgentSettings, node: Any, table: Mapping[str, Capability]
) -> dict[str, Any]:
    """Work out what one pod would get by the rules of `node`; `table` is what the machine can do."""
    profile, history = profile_of(settings.profile), History()
    folder = paths.kube_class_path(manifest.kube_class(pod))
    context = manifest.listed_pod(pod, f"{folder}/pod")  # of its class, which is all that hooks look at
    if context.problem is not None:
        raise context.problem
    if not context.uid:
        context = replace(context, uid=f"{context.namespace}/{context.name}")
    asked: list[tuple[str, Pod | Container]] = [(RUN_POD, context)]
    asked += [(CREATE, each) for each in _containers(pod, context)]
    for stage, subject in asked:
        outcome = decide(profile.hooks, stage, subject, node)
        about = subject_of(subject)
        history.decided(about, stage, "", values_of(outcome.because))
        history.failed(about, stage, "", ((each.hook, each.reason) for each in outcome.errors))
    strategies = profile.strategies_on(settings.gates)
    history.failed(subject_of(context), "", "", profile.unreadable(context, node, strategies).items())
    found = history.of(context.uid) or {"key": context.uid, "values": [], "writes": [], "errors": []}
    notes = [
        *profile.unread(context.labels, context.annotations, context.extended),
        *profile.absent_containers(context.annotations, _names_of(pod)),
        *_without_effect(profile, context, node, strategies),
    ]
    found |= {"namespace": context.namespace, "name": context.name, "notes": notes, "of": class_of(profile, context)}
    given, keys = {**context.labels, **context.annotations}, {row.name: row.keys for row in profile.hooks}
    for row in (*found["values"], *found["errors"]):
        row["reads"] = [key for key in keys.get(row["hook"], ()) if key in given]
    for row in found["values"]:
        knob = table.get(row["field"])
        row["supported_here"] = knob is None or knob.supported
        row["unsupported_because"] = "" if knob is None else knob.reason
        row["instead"] = "" if knob is None else knob.instead
    found["notes"] += [
        f"{row['field']}: {row['hook']} makes it 0, with which nothing runs: {row['reason']}"
        for row in found["values"]
        if (row["field"], row["value"]) == (MEMORY_LIMIT, "0")
    ]
    found["notes"] += _unsupported(found["values"])
    return found


def _names_of(pod: Mapping[str, Any]) -> list[str]:
    """The names of a pod's containers, init containers first."""
    spec = pod.get("spec") or {}
    return [container.get("name", "") for key in ("initContainers", "containers") for container in spec.get(key) or ()]


def _containers(pod: Mapping[str, Any], context: Pod) -> Iterator[Container]:
    """The containers of a pod as its spec has them, those that initialize it first."""
    spec = pod.get("spec") or {}
    for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name = each.get("name", "")
        yield Container(
            pod=context,
            name=name,
            folder=f"{context.folder}/{name}",
            env={one.get("name", ""): one.get("value", "") for one in each.get("env") or ()},
            resources=manifest.container_resources(each),
            extended=manifest.extended_of(each),
        )


def _without_effect(profile: Profile, context: Pod, node: Any, strategies: Collection[str]) -> Iterator[str]:
    """Annotations and labels of hooks and strategies that are switched off."""
    gates = node.gates or frozenset()
    given = {**context.labels, **context.annotations}
    shared = {key for row in profile.hooks if row.name in gates for key in row.keys} | {profile.class_label}
    off = [(row.name, row.keys) for row in profile.hooks if row.name not in gates]
    off += [(row.name, (row.key,)) for row in profile.strategies if row.name not in strategies]
    for name, keys in off:
        unread = [key for key in keys if key in given and key not in shared]
        if unread:
            yield f"{', '.join(unread)}: without effect, for {name} is off (gates.{name} = true switches it on)"


def _unsupported(values: list[dict[str, Any]]) -> list[str]:
    """The writes that this machine could not do, a line each."""
    lines = dict.fromkeys(
        f"{row['field']}: not supported on this machine: {row['unsupported_because']}"
        + (f"; instead: {row['instead']}" if row["instead"] else "")
        for row in values
        if not row["supported_here"]
    )
    return list(lines)
