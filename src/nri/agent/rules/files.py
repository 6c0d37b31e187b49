"""Rules from files: objects as YAML or JSON, in one file or a folder.

Objects of other nodes or kinds are skipped, so that a folder may contain objects of all nodes. A kind that exists for
other nodes only, or has a misspelt name, is reported. If two files define one kind, the first file counts and the
second file is reported. If a file becomes unreadable, its last readable content stays in force.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nri.agent.rules.store import RuleStore
from nri.agent.settings.node_name import node_name
from nri.agent.worker import Worker
from nri.kube.folder import Folder
from nri.text import count, nearest, plain

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings
    from nri.kube.document import Document

#: The pause between two checks of the files, in seconds.
CHECK_INTERVAL_S = 1.0
#: A part of the path of a key: a name, or the number of a list item.
_PART = re.compile(r"[^.\[\]]+|\[\d{1,9}(?=\])")
#: The maximum number of remarks on objects of unknown kinds.
_MAX_ODD = 20
#: The maximum length of a name in a remark, in characters.
_MAX_NAME = 253


class FileRules:
    """The source of rules that reads files.

    Args:
        settings: `rules.path` and `rules.node_name` are read.
        store: receives the rules.
    """

    def __init__(self, settings: AgentSettings, store: RuleStore) -> None:
        self._store = store
        self._node = node_name(settings)
        self._path = settings.rules.path
        self._folder = Folder(settings.rules.path)
        self._worker = Worker("rules from files", lambda _: self.check(), CHECK_INTERVAL_S)
        #: The file that each kind was read from.
        self._file_by_kind: dict[str, str] = {}
        #: Refusals by kind ("" is a whole file) and file, to withdraw them once the file is fixed.
        self._refused: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Read the files, and start to watch them for changes."""
        self.check()
        self._worker.start()

    def stop(self) -> None:
        """Stop watching the files."""
        self._worker.stop()

    def health(self) -> tuple[bool, str]:
        """Return True: rules are optional, and the store reports mistakes in files."""
        return True, f"{count(len(self._file_by_kind), 'kind')} of rules from {self._path}"

    def check(self) -> None:
        """Read the files that changed since the last call."""
        if not self._folder.changed():
            return
        refused: set[tuple[str, str]] = set()
        for name, error in self._folder.errors.items():
            words = f"{error.key}: {error.reason}" if error.key else error.reason
            self._store.refuse("", name, words, error.source)
            refused.add(("", name))
        file_by_kind: dict[str, str] = {}
        #: For each kind, the files with objects of other nodes, by the name of the node.
        foreign_files: dict[str, dict[str, str]] = {}
        odd: list[str] = []  # remarks on objects with a missing or misspelt kind
        for name, documents in self._folder.files.items():
            for document, obj in filter(self._may_have_rules, documents):
                kind = self._kind(obj)
                if kind not in self._store.kinds:
                    odd += _kind_remarks(kind, self._store.kinds, document.place(obj, "kind"))
                    continue
                if owner := self._owner(kind, obj):
                    foreign_files.setdefault(kind, {})[owner] = name
                    continue
                if kind in file_by_kind:
                    self._store.refuse(kind, name, f"{file_by_kind[kind]} also defines this kind and is used instead")
                    refused.add((kind, name))
                    continue
                file_by_kind[kind] = name
                self._store.put(kind, obj, name, partial(_error_place, document, obj))
        for kind, name in self._refused - refused:
            if file_by_kind.get(kind) != name:
                self._store.accept(kind, name)
        for kind in self._file_by_kind.keys() - file_by_kind.keys():
            self._store.put(kind, None, self._file_by_kind[kind])
        self._file_by_kind, self._refused = file_by_kind, refused
        lines = [*odd[:_MAX_ODD], *self._foreign_node_remarks(foreign_files, file_by_kind)]
        if self._folder.files and not (file_by_kind or refused or lines):
            named = (
                f'object with "{kind.key}"' if kind.key else f"{name} {kind.object_name}".rstrip()
                for name, kind in self._store.kinds.items()
            )
            lines = [f"{self._path}: no rules found; expected {', '.join(named)}"]
        self._store.remark(str(self._path), lines)

    def _kind(self, obj: Mapping[str, Any]) -> str:
        """Return the kind of an object. An object without the field `kind` is identified by another key."""
        by_key = (name for name, kind in self._store.kinds.items() if kind.key and kind.key in obj)
        return str(obj.get("kind", "")) or next(by_key, "")

    def _may_have_rules(self, entry: tuple[Document, dict[str, Any]]) -> bool:
        """Return whether an object may contain rules. Of some kinds only one object does."""
        row = self._store.kinds.get(self._kind(entry[1]))
        return row is None or row.object_name in ("", _name(entry[1]))

    def _owner(self, kind: str, obj: dict[str, Any]) -> str:
        """Return the other node that an object belongs to; "" if it belongs to this node or to no node."""
        name = "" if self._store.kinds[kind].object_name else _name(obj)
        return "" if name in (None, "", self._node) else plain(str(name), _MAX_NAME)

    def _foreign_node_remarks(
        self, files_by_kind: Mapping[str, Mapping[str, str]], own_kinds: Collection[str]
    ) -> Iterator[str]:
        for kind, files in files_by_kind.items():
            if kind not in own_kinds:
                (owner, name), *more = files.items()
                named = f"{owner} and of {len(more)} more" if more else owner
                yield f"{name}: {kind} belongs to node {named}, but this node is {self._node} (rules.node_name)"


def _name(obj: dict[str, Any]) -> Any:
    """The name of an object; None without one."""
    meta = obj.get("metadata")
    return meta.get("name") if isinstance(meta, dict) else None


def _kind_remarks(kind: str, kinds: Iterable[str], place: str) -> list[str]:
    """Return a remark on an object with a missing or misspelt kind, as a list of at most one line."""
    # A folder may contain objects of other kinds.
    suggestion = nearest(kind, kinds, may_be_foreign=True)
    if kind and not suggestion:
        return []
    problem = f"{plain(kind, _MAX_NAME)}: nothing reads it; did you mean {suggestion}?" if kind else "missing"
    return [f"{place}: kind: {problem}"]


def _error_place(document: Document, obj: dict[str, Any], error: str) -> str:
    """Return the file and line of a key, or of the key at the beginning of an error."""
    key = error.partition(": ")[0]
    if key.startswith("annotation "):
        return document.place(obj, "metadata", "annotations", key.removeprefix("annotation "))
    names = _PART.findall(key) if " " not in key else []
    keys = [int(name[1:]) if name.startswith("[") else name for name in names]
    if keys and keys[0] not in obj:
        keys.insert(0, "spec")
    return document.place(obj, *keys)
