"""Rules from files: the objects that hold them as YAML or JSON, in one file or in a folder of them.

Rules: an object of another node, or of another kind, is passed over, so that a folder may hold those of all nodes; a
kind that is there for other nodes alone, or whose name is nearly one, is reported. Of two files that give one kind the
first one counts, and the second is reported. A file that cannot be read leaves in force what it said last.
Next: `nri.kube.folder`, which looks at the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

from nri.agent.rules.store import RuleStore
from nri.agent.settings.node_name import node_name
from nri.agent.worker import Worker
from nri.kube.folder import Folder
from nri.text import count, plain

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings
    from nri.kube.document import Document

__all__ = ["FileRules"]

#: The pause between two looks at the files, in seconds.
LOOK_S = 1.0
#: A key, or the number of an item.
_PART = re.compile(r"[^.\[\]]+|\[\d{1,9}(?=\])")
_MOST_ODD, _MOST_NAME = 20, 253
#: How alike a kind has to be to one of rules; a folder may hold any others.
_ALIKE = 0.8


class FileRules:
    """The source of rules that reads files.

    Args:
        settings: `rules.path` and `rules.node_name` are read.
        store: where the rules go.
    """

    def __init__(self, settings: AgentSettings, store: RuleStore) -> None:
        self._store = store
        self._node = node_name(settings)
        self._path = settings.rules.path
        self._folder = Folder(settings.rules.path)
        self._worker = Worker("rules of files", lambda _: self.look(), LOOK_S)
        #: The file that each kind was taken from.
        self._said: dict[str, str] = {}
        #: Refusals, by kind ("" is a whole file) and file, to take them back once the file is mended.
        self._refused: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Read the files, and watch them from now on."""
        self.look()
        self._worker.start()

    def stop(self) -> None:
        """Watch them no longer."""
        self._worker.stop()

    def health(self) -> tuple[bool, str]:
        """Always ready: no file is no rule. Mistakes in files are in the store."""
        return True, f"{count(len(self._said), 'kind')} of rules from {self._path}"

    def look(self) -> None:
        """Take in what has changed since the last look."""
        if not self._folder.changed():
            return
        refused: set[tuple[str, str]] = set()
        for name, error in self._folder.errors.items():
            words = f"{error.key}: {error.reason}" if error.key else error.reason
            self._store.refuse("", name, words, error.source)
            refused.add(("", name))
        said: dict[str, str] = {}
        #: Files by the other node that has an object of a kind in it, and lines on objects of no kind.
        others: dict[str, dict[str, str]] = {}
        odd: list[str] = []
        for name, found in self._folder.files.items():
            for document, thing in found:
                kind = self._kind(thing)
                if kind not in self._store.kinds:
                    odd += _odd(kind, self._store.kinds, document.place(thing, "kind"))
                    continue
                if owner := self._owner(thing):
                    others.setdefault(kind, {})[owner] = name
                    continue
                if kind in said:
                    self._store.refuse(kind, name, f"another one is given in {said[kind]}, which counts")
                    refused.add((kind, name))
                    continue
                said[kind] = name
                self._store.put(kind, thing, name, partial(_place, document, thing))
        for kind, name in self._refused - refused:
            if said.get(kind) != name:
                self._store.accept(kind, name)
        for kind in self._said.keys() - said.keys():
            self._store.put(kind, None, self._said[kind])
        self._said, self._refused = said, refused
        lines = [*odd[:_MOST_ODD], *self._foreign(others, said)]
        if self._folder.files and not (said or refused or lines):
            named = (f'object with "{kind.key}"' if kind.key else name for name, kind in self._store.kinds.items())
            lines = [f"{self._path}: there are no rules in it: it has no {', no '.join(named)}"]
        self._store.remark(str(self._path), lines)

    def _kind(self, thing: Mapping[str, Any]) -> str:
        """The kind of an object; one that says none may be known by a key that it has."""
        by_key = (name for name, kind in self._store.kinds.items() if kind.key and kind.key in thing)
        return str(thing.get("kind", "")) or next(by_key, "")

    def _owner(self, thing: dict[str, Any]) -> str:
        """The other node that an object is of; "" if it is this one's: it has its name, or none."""
        meta = thing.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        return "" if name in (None, "", self._node) else plain(str(name), _MOST_NAME)

    def _foreign(self, others: Mapping[str, Mapping[str, str]], ours: Collection[str]) -> Iterator[str]:
        for kind, files in others.items():
            if kind not in ours:
                (owner, name), *more = files.items()
                named = f"{owner} and of {len(more)} more" if more else owner
                yield f"{name}: {kind} is of node {named}, and this is {self._node} (rules.node_name)"


def _odd(kind: str, kinds: Iterable[str], place: str) -> list[str]:
    """A line on an object that has no kind, or one that is nearly a kind of rules."""
    near = get_close_matches(kind.casefold()[:_MOST_NAME], [each.casefold() for each in kinds], 1, _ALIKE)
    if kind and not near:
        return []
    named = next((each for each in kinds if near and each.casefold() == near[0]), "")
    told = f"{plain(kind, _MOST_NAME)}: nothing reads it; did you mean {named}?" if kind else "it has no kind"
    return [f"{place}: kind: {told}"]


def _place(document: Document, thing: dict[str, Any], error: str) -> str:
    """The file and line of a key, or of the one that an error begins with."""
    key = error.partition(": ")[0]
    if key.startswith("annotation "):
        return document.place(thing, "metadata", "annotations", key.removeprefix("annotation "))
    names = _PART.findall(key) if " " not in key else []
    keys = [int(name[1:]) if name.startswith("[") else name for name in names]
    if keys and keys[0] not in thing:
        keys.insert(0, "spec")
    return document.place(thing, *keys)
