"""Pods from files: manifests with their status, as `kubectl get pods -o yaml` prints them; for tests and laptops.

Rules: a pod that names another node is passed over, and so is what is no pod; a file that cannot be read leaves what it
said last. Next: `nri.kube.folder`, which looks at the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.agent.pods.source import Known, KnownPods
from nri.agent.settings.node_name import node_name
from nri.agent.worker import Worker
from nri.kube.folder import Folder

if TYPE_CHECKING:
    from nri.agent.settings import Settings

__all__ = ["FilePods"]

#: The pause between two looks at the files, in seconds.
LOOK_S = 1.0


class FilePods(KnownPods):
    """The source of pods that reads files.

    Args:
        settings: `pods.path` and `rules.node_name` are read.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(Known())
        self._node = node_name(settings)
        self._folder = Folder(settings.pods.path)
        self._worker = Worker("pods of files", lambda _: self.look(), LOOK_S)

    def start(self) -> None:
        """Read the files, and watch them from now on."""
        self.look()
        self._worker.start()

    def stop(self) -> None:
        """Watch them no longer."""
        self._worker.stop()

    def look(self) -> None:
        """Take in what has changed since the last look."""
        if not self._folder.changed():
            return
        self._known.failed("; ".join(str(error) for error in self._folder.errors.values())[:1000])
        found = (thing for each in self._folder.files.values() for _, thing in each)
        self._known.replace(thing for thing in found if self._ours(thing))

    def _ours(self, thing: dict[str, Any]) -> bool:
        """Whether an object is a pod of this node: it names it, or none."""
        spec, meta = thing.get("spec") or {}, thing.get("metadata")
        if thing.get("kind") != "Pod" or not isinstance(meta, dict) or not isinstance(spec, dict):
            return False
        return spec.get("nodeName") in (None, "", self._node)
