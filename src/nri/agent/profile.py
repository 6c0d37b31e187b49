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
from nri.agent.ownership import OwnedKnob, Owner
from nri.config import Source
from nri.config.settings import FileLayer
from nri.host import Result, Root

#: The dotted name of each profile.
PROFILES: Final[Mapping[str, str]] = {
    "koordinator": "nri.agent.koordinator.profile:PROFILE",
    "rubik": "nri.agent.rubik:PROFILE",
}

Document = Mapping[str, Any]
#: Returns the last good document of a kind, or None before the first document.
Documents = Callable[[str], Document | None]


class UnreadKey(Protocol):
    """A key of a document that has no effect. `str()` adds the reason."""

    @property
    def key(self) -> str:
        """The path of the key in the document."""
        ...

    @property
    def why(self) -> str:
        """The reason, followed by "; " and the suggestion, if there is one."""
        ...


class Kind(NamedTuple):
    """A kind of object that rules come from.

    Attributes:
        parse: converts a document to its rule, or raises ValueError.
        absent: the rule that applies without a document.
        same: returns whether two rules are so similar that no value has to be written again.
        into: returns the rules of the node with the rule of this kind replaced.
        unread: returns the keys of a document that have no effect.
        key: a key that identifies a document without the field `kind`; "" if there is no such key.
        object_name: the name of the object if it is not that of the node.
        namespace: the namespace of that object.
        derived_from: kinds from which a document is computed while no source has one.
        derive: computes the document from documents of these kinds. Raises ValueError.
        salvage: returns a document in which unreadable parts are replaced by those of the document in force, and the
            errors of these parts. Raises ValueError if nothing of the document can be used.
        in_api: whether an API server can have objects of the kind.
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
    salvage: Callable[[Document, Document | None], tuple[Document, str]] | None = None
    in_api: bool = True

    def read(self, document: Document) -> Any:
        """Return the rule of a document. Raises ValueError if the document has any mistake."""
        return self._with_named_error(self.parse, document)

    def readable(self, document: Document, in_force: Document | None) -> tuple[Document, str]:
        """Return the document without its unreadable parts, which keep the values in force, and their errors."""
        if self.salvage is None:
            return document, ""
        try:
            return self.salvage(document, in_force)
        except ValueError:
            return document, ""  # its reader reports the error

    def compute(self, documents: Iterable[Document | None]) -> Document | None:
        """Compute the document from the documents of `derived_from`. Raises ValueError as `read` does."""
        result: Document | None = self._with_named_error(self.derive, *documents)
        return result

    @staticmethod
    def _with_named_error(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"cannot be read: {type(error).__name__}: {error}") from None


class StrategyRow(NamedTuple):
    """A strategy, as the profile declares it.

    Attributes:
        name: the name of its switch.
        default: whether the strategy is on by default.
        what: a short description.
        strategy_class: the dotted name of its `nri.agent.loops.strategy.Strategy`, called with the settings and the
            enabled names; rows with the same class form one strategy.
        owns: the knobs that the strategy sets.
        key: the annotation that requests the strategy for a pod; "" if there is no such annotation.
        document_keys: as for a hook.
    """

    name: str
    default: bool
    what: str
    strategy_class: str
    owns: tuple[OwnedKnob, ...] = ()
    key: str = ""
    document_keys: tuple[tuple[str, str], ...] = ()


class ForeignAgent(NamedTuple):
    """Another agent that writes the same files.

    Attributes:
        program: the name of the executable.
        advice: how the user can avoid the conflict.
    """

    program: str
    advice: str


@dataclass(frozen=True, slots=True)
class Profile:
    """The hooks, strategies, documents and settings of an agent.

    Attributes:
        name: the name of the profile in the settings.
        hooks: in the order in which they decide.
        strategies: in the order in which they decide.
        switches: gates of other features, each with its default and description.
        kinds: the kinds of documents that rules come from.
        node: returns the rules before any document was read, from the settings and the machine.
        strategy_rules: returns a new `nri.agent.loops.strategy.Rules`.
        class_label: the label with a pod's class, which every hook can read.
        programs: returns the host programs that documents list, or raises ValueError; gets a reader of documents
            and the cgroup driver.
        prepare: creates the objects of the host that the changes of a container need before its creation.
        reconciler: the class of additional work in standalone mode, called with the parts; "" if there is no such work.
        network: the class of network rules in standalone mode, called with the settings and the parts; "" if there is
            no such class.
        transports: additional transports of this profile, by mode.
        foreign: agents next to which this agent refuses to start.
        unreadable: returns the errors of annotations that no hook reads at any stage, by hook or strategy; gets
            the pod, the rules and the enabled strategies.
        unread: returns a line for each label, annotation, key or resource that no hook or strategy reads.
        absent_containers: returns a line for each annotation that names a container that is not in the pod.
        class_of: returns the QoS class of a pod; "" if it has no class.
        own_file: returns the agent's settings from a file in the profile's format, or None for a file in another
            format. Raises ConfigError if the file has mistakes.
        requested_gates: returns the gates that the strategies' document requests, with the key of each.
        origins: returns the kinds and keys of the documents that a hook or strategy uses for pods of a class.
        off: a format string that explains how to switch off a hook or strategy; its name replaces `{}`.
        on: the key of the settings that switches hooks and strategies on.
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
        """Return the names of the enabled hooks."""
        return frozenset(row.name for row in self.hooks if gates.get(row.name, row.default))

    def strategies_on(self, gates: Mapping[str, bool]) -> frozenset[str]:
        """Return the names of the enabled strategies."""
        return frozenset(row.name for row in self.strategies if gates.get(row.name, row.default))

    @property
    def keys(self) -> frozenset[str]:
        """All labels and annotations that a hook or a strategy reads."""
        strategy_keys = frozenset(row.key for row in self.strategies if row.key)
        return strategy_keys.union(*(row.keys for row in self.hooks))

    def owners(self) -> Iterator[Owner]:
        """Yield the owner of each knob: hooks first."""
        for hook in self.hooks:
            yield from (Owner(hook.name, owns, self.off.format(hook.name)) for owns in hook.owns)
        for strategy in self.strategies:
            yield from (Owner(strategy.name, owns, self.off.format(strategy.name)) for owns in strategy.owns)

    def owners_on(self, gates: Mapping[str, bool]) -> list[Owner]:
        """Return the owners that are enabled."""
        on = self.hooks_on(gates) | self.strategies_on(gates)
        return [owner for owner in self.owners() if owner.name in on]

    def owners_of(self, *knobs: str) -> tuple[str, ...]:
        """Return the hooks and strategies that set one of these knobs."""
        return tuple(dict.fromkeys(owner.name for owner in self.owners() if owner.owns.knob in knobs))


def profile_of(name: str) -> Profile:
    """Return a profile by its name. Raises ValueError if the name is unknown."""
    if name not in PROFILES:
        raise ValueError(f'unknown profile "{name}"; use {", ".join(PROFILES)}')
    profile: Profile = load(PROFILES[name])
    return profile


def load(name: str) -> Any:
    """Import the object with a name in the form `package.module:Class`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
