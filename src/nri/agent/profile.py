"""Profiles: the hooks, strategies, documents and settings that an agent enforces, as one frozen value.

Nothing outside the profile's package names a profile. Classes of strategies and transports are given by dotted name and
imported when an agent is built, so that reading the settings stays cheap.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from nri.agent.hooks import Hook
from nri.agent.model import Changes, ExtendedResources, HostApplication, Pod
from nri.agent.ownership import Owner, Owns
from nri.config import Source
from nri.config.settings import FileLayer
from nri.host import Result, Root

__all__ = ["PROFILES", "Documents", "ForeignAgent", "Kind", "Profile", "StrategyRow", "UnreadKey", "load", "profile_of"]

#: The existing profiles.
PROFILES: Final[Mapping[str, str]] = {
    "koordinator": "nri.agent.koordinator.profile:PROFILE",
    "rubik": "nri.agent.rubik:PROFILE",
}

Document = Mapping[str, Any]
#: The last good document of a kind; None before the first one.
Documents = Callable[[str], Document | None]


class UnreadKey(Protocol):
    """A key of a document without effect; as a text with the reason."""

    @property
    def key(self) -> str:
        """Its place in the document."""
        ...

    @property
    def why(self) -> str:
        """The reason, followed by "; " and the suggestion, if there is one."""
        ...


class Kind(NamedTuple):
    """A kind of object that rules come from.

    Attributes:
        parse: converts a document to its rule. Raises ValueError.
        absent: the rule without a document.
        same: whether two rules are so similar that nothing has to be written again.
        into: returns the rules of the node with this rule replaced.
        unread: returns the keys of a document without effect.
        key: a key that identifies a document without a kind; "" if there is no such key.
        object_name: the name of the object if it is not that of the node.
        namespace: of that object.
        derived_from: kinds from which a document is computed while no source has one.
        derive: computes it from the documents of these kinds. Raises ValueError.
    """

    parse: Callable[[Document], Any]
    absent: Any
    same: Callable[[Any, Any], bool] | None
    into: Callable[[Any, Any], Any]
    unread: Callable[[Document], Sequence[UnreadKey]]
    key: str = ""
    object_name: str = ""
    namespace: str = ""
    derived_from: tuple[str, ...] = ()
    derive: Callable[..., Document | None] | None = None

    def read(self, document: Document) -> Any:
        """Return the rule of a document. ValueError if it cannot be read, whatever is wrong with it."""
        return self._guarded(self.parse, document)

    def compute(self, documents: Iterable[Document | None]) -> Document | None:
        """Compute the document from those of `derived_from`. ValueError as by `read`."""
        result: Document | None = self._guarded(self.derive, *documents)
        return result

    @staticmethod
    def _guarded(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"cannot be read: {type(error).__name__}: {error}") from None


class StrategyRow(NamedTuple):
    """A strategy, as the profile declares it.

    Attributes:
        name: by which it is switched on and off.
        default: whether it is on.
        what: what it does, for people.
        strategy_class: the dotted name of its `nri.agent.loops.strategy.Strategy`, called with the settings and the
            enabled names; rows with the same class are one strategy.
        owns: the knobs that are its own.
        key: the annotation by which a pod requests it; "" if there is none.
        document_keys: as for a hook.
    """

    name: str
    default: bool
    what: str
    strategy_class: str
    owns: tuple[Owns, ...] = ()
    key: str = ""
    document_keys: tuple[tuple[str, str], ...] = ()


class ForeignAgent(NamedTuple):
    """Another agent that writes the same files.

    Attributes:
        program: the name of its program.
        advice: what to do about it.
    """

    program: str
    advice: str


@dataclass(frozen=True, slots=True)
class Profile:
    """The hooks, strategies, documents and settings of an agent.

    Attributes:
        name: its name in the settings.
        hooks: in the order in which they decide.
        strategies: in the order in which they decide.
        switches: further gates, each with its default and meaning.
        kinds: the kinds of documents that rules come from.
        node: returns the rules before any document was read, from the settings and the machine.
        strategy_rules: returns a new `nri.agent.loops.strategy.Rules`.
        class_label: the label of a pod's class, which every hook may read.
        programs: returns the host programs of documents, from a reader and the cgroup driver. Raises ValueError.
        prepare: creates what changes of a container need on the host before its creation, by the current rules.
        reconciler: the class of further work in standalone mode, called with the parts; "" for none.
        network: the class of network work in standalone mode, called with the settings and the parts; "" for
            none.
        transports: additional transports of this profile, by mode.
        foreign: agents that this one does not start next to.
        unreadable: returns the errors of annotations that no hook's stage reads, by hook or strategy; gets
            the pod, the rules and the strategies that are on.
        unread: returns a line for each label, annotation, key or resource that nothing reads.
        absent_containers: returns a line for each annotation that names containers that the pod does not have.
        class_of: returns a pod's QoS class; "" for none.
        own_file: returns the agent's settings from a file in the profile's format; None for another.
            Raises ConfigError for a file with mistakes.
        requested_gates: returns the gates that the strategies' document requests, with the key of each.
        origins: returns the kinds and keys of documents that a hook or strategy decides by for pods of a class.
        off: how to switch off a hook or strategy, with its name in braces.
        on: the key of the settings that switches them on.
    """

    name: str
    hooks: tuple[Hook, ...]
    strategies: tuple[StrategyRow, ...]
    switches: Mapping[str, tuple[bool, str]]
    kinds: Mapping[str, Kind]
    node: Callable[[Any, Root], Any]
    strategy_rules: Callable[[], Any]
    class_label: str
    foreign: tuple[ForeignAgent, ...]
    unreadable: Callable[[Pod, Any, Collection[str]], dict[str, str]]
    unread: Callable[[Mapping[str, str], Mapping[str, str], Mapping[str, ExtendedResources] | None], list[str]]
    requested_gates: Callable[[Document | None], Mapping[str, str]]
    origins: Callable[[str, str], Iterable[tuple[str, str]]]
    class_of: Callable[[Pod], str]
    absent_containers: Callable[[Mapping[str, str], Collection[str]], list[str]] = lambda _annotations, _names: []
    programs: Callable[[Documents, str], Iterable[HostApplication]] = lambda _documents, _driver: ()
    prepare: Callable[[Root, Changes, Any], list[Result]] = lambda _root, _changes, _node: []
    reconciler: str = ""
    network: str = ""
    transports: Mapping[str, str] = field(default_factory=dict)
    own_file: Callable[[Source], FileLayer | None] = lambda _source: None
    off: str = "gates.{} = false"
    on: str = "gates"

    @property
    def gates(self) -> dict[str, bool]:
        """All gates, with their defaults."""
        rows = {row.name: row.default for row in self.hooks} | {row.name: row.default for row in self.strategies}
        return rows | {name: default for name, (default, _) in self.switches.items()}

    def hooks_on(self, gates: Mapping[str, bool]) -> frozenset[str]:
        """The names of the hooks that are on."""
        return frozenset(row.name for row in self.hooks if gates.get(row.name, row.default))

    def strategies_on(self, gates: Mapping[str, bool]) -> frozenset[str]:
        """The names of the strategies that are on."""
        return frozenset(row.name for row in self.strategies if gates.get(row.name, row.default))

    @property
    def keys(self) -> frozenset[str]:
        """All labels and annotations that a hook or a strategy reads."""
        strategy_keys = frozenset(row.key for row in self.strategies if row.key)
        return strategy_keys.union(*(row.keys for row in self.hooks))

    def owners(self) -> Iterator[Owner]:
        """The table of who owns which knob: hooks first."""
        for hook in self.hooks:
            yield from (Owner(hook.name, owns, self.off.format(hook.name)) for owns in hook.owns)
        for strategy in self.strategies:
            yield from (Owner(strategy.name, owns, self.off.format(strategy.name)) for owns in strategy.owns)

    def owners_on(self, gates: Mapping[str, bool]) -> list[Owner]:
        """The part of that table which is switched on."""
        on = self.hooks_on(gates) | self.strategies_on(gates)
        return [owner for owner in self.owners() if owner.name in on]

    def owners_of(self, *knobs: str) -> tuple[str, ...]:
        """The hooks and strategies that set one of these knobs."""
        return tuple(dict.fromkeys(owner.name for owner in self.owners() if owner.owns.knob in knobs))


def profile_of(name: str) -> Profile:
    """Return the profile of a name. Raises ValueError for an unknown name."""
    if name not in PROFILES:
        raise ValueError(f'unknown profile "{name}"; use {", ".join(PROFILES)}')
    profile: Profile = load(PROFILES[name])
    return profile


def load(name: str) -> Any:
    """The object of a name such as `package.module:Class`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
