"""Pods from files: manifests with a status, as `kubectl get pods -o yaml` prints them. Useful for tests and laptops.

Pods of other nodes are skipped. A pod without a uid is reported once and left out, because the uid is the name of
its cgroup and of its records. If a file becomes unreadable, its last readable content stays in force.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from nri.agent.pods.manifest import key_of, uid_of
from nri.agent.pods.source import KnownPods, PodList
from nri.agent.settings.node_name import node_name
from nri.agent.worker import Worker
from nri.kube.folder import Folder
from nri.text import count, plain

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings
    from nri.kube.document import Document

_log = logging.getLogger(__name__)
#: The pause between two checks of the files, in seconds.
CHECK_INTERVAL_S = 1.0
#: The maximum number of pods without a uid that are reported one by one; each report searches for a line.
_MAX_REPORTED_PODS = 20


class FilePods(KnownPods):
    """The source of pods that reads files.

    Args:
        settings: `pods.path` and `rules.node_name` are read.
    """

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(PodList())
        self._node = node_name(settings)
        self._folder = Folder(settings.pods.path)
        self._reported_pods: frozenset[str] = frozenset()
        self._worker = Worker("pods from files", lambda _: self.check(), CHECK_INTERVAL_S)

    def start(self) -> None:
        """Read the files, and start to watch them for changes."""
        self.check()
        self._worker.start()

    def stop(self) -> None:
        """Stop watching the files."""
        self._worker.stop()

    def check(self) -> None:
        """Read the files that changed since the last call."""
        if not self._folder.changed():
            return
        self._pod_list.failed("; ".join(str(error) for error in self._folder.errors.values())[:1000])
        documents = [(document, obj) for file in self._folder.files.values() for document, obj in file]
        node_pods = [(document, obj) for document, obj in documents if self._is_of_this_node(obj)]
        self._warn_without_uid([(document, pod) for document, pod in node_pods if not uid_of(pod)])
        self._pod_list.replace(pod for _, pod in node_pods if uid_of(pod))

    def _warn_without_uid(self, without_uid: list[tuple[Document, dict[str, Any]]]) -> None:
        """Log a warning for each pod without a uid, once."""
        texts = [_without_uid(document, pod) for document, pod in without_uid[:_MAX_REPORTED_PODS]]
        if len(without_uid) > _MAX_REPORTED_PODS:
            texts.append(f"{count(len(without_uid) - _MAX_REPORTED_PODS, 'more pod')} without a uid are ignored")
        for text in texts:
            if text not in self._reported_pods:
                _log.warning("%s", text)
        self._reported_pods = frozenset(texts)

    def _is_of_this_node(self, obj: dict[str, Any]) -> bool:
        """Return whether an object is a pod of this node, or a pod without a node."""
        spec, meta = obj.get("spec") or {}, obj.get("metadata")
        if obj.get("kind") != "Pod" or not isinstance(meta, dict) or not isinstance(spec, dict):
            return False
        return spec.get("nodeName") in (None, "", self._node)


def _without_uid(document: Document, pod: dict[str, Any]) -> str:
    name = plain(key_of(pod).strip("/"))
    return (
        f"{document.place(pod, 'metadata')}: pod {name} has no uid and is ignored. Add the metadata.uid that "
        "its cgroups have; kubectl get pod -o yaml prints it"
    )
