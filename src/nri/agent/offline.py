"""Explain what the hooks would decide for pods in manifests with rules from files, without a running agent.

Values that this machine does not support are marked instead of left out, because the node may be another machine.
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
from nri.agent.history import History
from nri.agent.hooks import CREATE, RUN_POD, decide
from nri.agent.model import MEMORY_LIMIT, Container, Pod
from nri.agent.pods import manifest
from nri.agent.profile import profile_of
from nri.agent.rules.files import FileRules
from nri.agent.rules.origins import with_places
from nri.agent.rules.store import RuleStore
from nri.config.complaint import combined_error
from nri.errors import ConfigError
from nri.kube.folder import Folder
from nri.kube.pod_manifests import pod_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from nri.agent.profile import Profile
    from nri.agent.settings import AgentSettings
    from nri.config.settings import LoadedSettings
    from nri.kube.document import Document


def missing_rules(loaded: LoadedSettings[AgentSettings]) -> ConfigError | None:
    """Return an error if the settings name a file of rules that does not exist."""
    path, named = loaded.settings.rules.path, loaded.origins.get("rules.path")
    if named is None or loaded.settings.rules.source != "files" or path.exists():
        return None
    advice = "use a file or a folder: it is watched for changes, so it cannot be a pipe" if str(path) == "-" else ""
    return ConfigError(named, "rules.path", f"{path} not found", advice)


def store_of(settings: AgentSettings) -> RuleStore:
    """Return a store with the rules of the settings' files, read once. Mistakes become problems of the store."""
    profile = profile_of(settings.profile)
    store = RuleStore(profile.node(settings, host.Root(settings.root)), profile.kinds, log=False)
    FileRules(settings, store).check()
    return store


class ListedPod(NamedTuple):
    """A pod of a file.

    Attributes:
        pod: the manifest.
        place: returns the file and line of the label, container or pod that a note or an error names.
        unknown: a line for each key that Kubernetes does not know.
    """

    pod: dict[str, Any]
    place: Callable[[str], str]
    unknown: list[str]


def pods_of(path: str) -> list[ListedPod]:
    """Return the pods of a file or folder, including pod templates. Raises ConfigError if a file is unreadable."""
    folder = Folder(path)
    folder.changed()
    problems = list(folder.errors.values())
    if not problems and not folder.files and not os.path.exists(path):
        raise ConfigError(path, "", "file not found")
    pods = []
    for document, tree in (entry for documents in folder.files.values() for entry in documents):
        try:
            manifest_ = pod_manifest(document, tree)
        except ConfigError as error:
            problems.append(error)
            continue
        if manifest_ is not None:
            pods.append(ListedPod(manifest_.pod, partial(_message_place, document, manifest_.pod), manifest_.key_notes))
    if problems:
        raise combined_error(problems)
    return pods


def _message_place(document: Document, pod: dict[str, Any], text: str) -> str:
    """Return the file and line of the label, annotation or pod that a message names."""
    for part in ("annotations", "labels"):
        for key in document.table(document.table(pod, "metadata"), part):
            if re.search(rf"(^|annotation ){re.escape(str(key))}([:,]| names )", text):
                return document.place(pod, "metadata", part, str(key))
    return (
        document.place(pod, "spec", "containers")
        if text.startswith("containers.")
        else document.place(pod, "metadata", "name")
    )


def no_pods(path: str) -> ConfigError:
    """Return the error for a file or folder without pods."""
    return ConfigError(path, "", "no pod found", 'a document with "kind: Pod"')


def explain_manifests(settings: AgentSettings, path: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return an explanation of the decisions on every pod of a file, and remarks on the rules.

    Raises:
        ConfigError: a file or a rule cannot be read.
    """
    store, pods = store_of(settings), pods_of(path)
    if problems := store.problems():
        raise combined_error([ConfigError(problem.source, "", problem.error) for problem in problems])
    if not pods:
        raise no_pods(path)
    profile = profile_of(settings.profile)
    table = {row.what: row for row in capabilities(host.Root(settings.root), profile)}
    accounts = [with_places(explained(pod.pod, settings, store.node, table), store, profile) for pod in pods]
    return accounts, store.remarks()


def explained(
    pod: Mapping[str, Any], settings: AgentSettings, node: Any, table: Mapping[str, Capability]
) -> dict[str, Any]:
    """Explain the decisions on one pod with the rules of `node`. `table` lists the capabilities of the machine."""
    profile, history = profile_of(settings.profile), History()
    folder = paths.kube_class_path(manifest.kube_class(pod))
    context = manifest.listed_pod(pod, f"{folder}/pod")  # hooks read only the class from the path
    if context.problem is not None:
        raise context.problem
    if not context.uid:
        context = replace(context, uid=f"{context.namespace}/{context.name}")
    requests: list[tuple[str, Pod | Container]] = [(RUN_POD, context)]
    requests += [(CREATE, container) for container in _containers(pod, context)]
    for stage, subject in requests:
        outcome = decide(profile.hooks, stage, subject, node)
        about = subject_of(subject)
        history.decided(about, stage, "", values_of(outcome.because))
        history.failed(about, stage, "", ((error.hook, error.reason) for error in outcome.errors))
    strategies = profile.strategies_on(settings.gates)
    history.failed(subject_of(context), "", "", profile.unreadable(context, node, strategies).items())
    account = history.account(context.uid) or {"key": context.uid, "values": [], "writes": [], "errors": []}
    notes = [
        *profile.unread(context.labels, context.annotations, context.extended),
        *profile.absent_containers(context.annotations, _names_of(pod)),
        *_without_effect(profile, context, node, strategies),
    ]
    account |= {"namespace": context.namespace, "name": context.name, "notes": notes, "of": class_of(profile, context)}
    pod_keys, keys = {**context.labels, **context.annotations}, {row.name: row.keys for row in profile.hooks}
    for row in (*account["values"], *account["errors"]):
        row["reads"] = [key for key in keys.get(row["hook"], ()) if key in pod_keys]
    for row in account["values"]:
        knob = table.get(row["field"])
        row["supported_here"] = knob is None or knob.supported
        row["unsupported_because"] = "" if knob is None else knob.reason
        row["instead"] = "" if knob is None else knob.instead
    account["notes"] += [
        f"{row['field']}: {row['hook']} sets it to 0, so no process can run: {row['reason']}"
        for row in account["values"]
        if (row["field"], row["value"]) == (MEMORY_LIMIT, "0")
    ]
    account["notes"] += _unsupported(account["values"])
    return account


def _names_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of a pod's containers, init containers first."""
    spec = pod.get("spec") or {}
    return [container.get("name", "") for key in ("initContainers", "containers") for container in spec.get(key) or ()]


def _containers(pod: Mapping[str, Any], context: Pod) -> Iterator[Container]:
    """Yield the containers of a pod's spec, init containers first."""
    spec = pod.get("spec") or {}
    for init_container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name = init_container.get("name", "")
        yield Container(
            pod=context,
            name=name,
            folder=f"{context.folder}/{name}",
            env={one.get("name", ""): one.get("value", "") for one in init_container.get("env") or ()},
            resources=manifest.container_resources(init_container),
            extended=manifest.extended_of(init_container),
        )


def _without_effect(profile: Profile, context: Pod, node: Any, strategies: Collection[str]) -> Iterator[str]:
    """Yield a note for each disabled hook or strategy whose annotations or labels the pod has."""
    gates = node.gates or frozenset()
    pod_keys = {**context.labels, **context.annotations}
    shared = {key for row in profile.hooks if row.name in gates for key in row.keys} | {profile.class_label}
    off = [(row.name, row.keys) for row in profile.hooks if row.name not in gates]
    off += [(row.name, (row.key,)) for row in profile.strategies if row.name not in strategies]
    for name, keys in off:
        unread = [key for key in keys if key in pod_keys and key not in shared]
        if unread:
            yield f"{', '.join(unread)}: without effect, because {name} is off (gates.{name} = true switches it on)"


def _unsupported(values: list[dict[str, Any]]) -> list[str]:
    """Return a line for each value that this machine does not support."""
    lines = dict.fromkeys(
        f"{row['field']}: not supported on this machine: {row['unsupported_because']}"
        + (f"; instead: {row['instead']}" if row["instead"] else "")
        for row in values
        if not row["supported_here"]
    )
    return list(lines)
