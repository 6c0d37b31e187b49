"""Rules from files: NodeSLO, NodeResourceTopology and Node as YAML or JSON, in one file or in a folder of them.

Rules: an object of another node, or of another kind, is passed over, so that a folder may hold those of all nodes; of
two files that give one kind the first one counts, and the second is told. A file that cannot be read leaves in force
what it said last. Next: `nri.kube.folder`, which looks at the files.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from nri.agent.rules.book import RuleBook
from nri.agent.rules.parsed import KINDS
from nri.agent.settings.node_name import node_name
from nri.agent.worker import Worker
from nri.kube.folder import Folder

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings
    from nri.kube.document import Document

__all__ = ["FileRules"]

#: The pause between two looks at the files, in seconds.
LOOK_S = 1.0
_PART = re.compile(r"[^.\[\]]+")


class FileRules:
    """The source of rules that reads files.

    Args:
        settings: `rules.path` and `rules.node_name` are read.
        book: where the rules go.
    """

    def __init__(self, settings: AgentSettings, book: RuleBook) -> None:
        self._book = book
        self._node = node_name(settings)
        self._path = settings.rules.path
        self._folder = Folder(settings.rules.path)
        self._worker = Worker("rules of files", lambda _: self.look(), LOOK_S)
        #: The file that each kind was taken from.
        self._said: dict[str, str] = {}
        #: What was refused, by kind ("" is a whole file) and file, to take it back once it is mended.
        self._refused: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Read the files, and watch them from now on."""
        self.look()
        self._worker.start()

    def stop(self) -> None:
        """Watch them no longer."""
        self._worker.stop()

    def health(self) -> tuple[bool, str]:
        """Always ready: no file is no rule. What is wrong with files stands in the book."""
        return True, f"{len(self._said)} kinds of rules from {self._path}"

    def look(self) -> None:
        """Take in what has changed since the last look."""
        if not self._folder.changed():
            return
        refused: set[tuple[str, str]] = set()
        for name, error in self._folder.errors.items():
            words = f"{error.key}: {error.reason}" if error.key else error.reason
            self._book.refuse("", name, words, error.source)
            refused.add(("", name))
        said: dict[str, str] = {}
        for name, found in self._folder.files.items():
            for document, thing in found:
                kind = str(thing.get("kind", ""))
                if kind not in KINDS or not self._ours(thing):
                    continue
                if kind in said:
                    self._book.refuse(kind, name, f"another one is given in {said[kind]}, which counts")
                    refused.add((kind, name))
                    continue
                said[kind] = name
                self._book.put(kind, thing, name, partial(_place, document, thing))
        for kind, name in self._refused - refused:
            if said.get(kind) != name:
                self._book.accept(kind, name)
        for kind in self._said.keys() - said.keys():
            self._book.put(kind, None, self._said[kind])
        self._said, self._refused = said, refused

    def _ours(self, thing: dict[str, Any]) -> bool:
        """Whether an object is this node's: it has its name, or none."""
        meta = thing.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        return name in (None, "", self._node)


def _place(document: Document, thing: dict[str, Any], error: str) -> str:
    """The file and line of the key that an error begins with."""
    key = error.partition(": ")[0]
    if key.startswith("annotation "):
        return document.place(thing, "metadata", "annotations", key.removeprefix("annotation "))
    keys = _PART.findall(key) if " " not in key else []
    if keys and keys[0] not in thing:
        keys.insert(0, "spec")
    return document.place(thing, *keys)
