"""A profile: whose rules an agent enforces, as one frozen value; all else in the agent knows no profile by its name.

Rules: neutral. A profile is found by its name when settings choose it, and its larger parts (strategies, what it does
in standalone mode) are names of classes that are loaded when an agent is made, so that settings cost nothing. A profile
is a package in `nri.agent`; a strategy of it is one module and one row. Next: `nri.agent.settings`.
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

#: The profiles that there are.
PROFILES: Final[Mapping[str, str]] = {
    "koordinator": "nri.agent.koordinator.profile:PROFILE",
    "rubik": "nri.agent.rubik:PROFILE",
}

Document = Mapping[str, Any]
#: The last good document of a kind, None while there is none.
Documents = Callable[[str], Document | None]


class UnreadKey(Protocol):
    """A key of a document without effect; as a text with the reason."""

    @property
    def key(self) -> str:
        """Its place in the document."""
        ...

    @property
    def why(self) -> str:
        """The reason, and behind "; " what was meant, if that is known."""
        ...


class Kind(NamedTuple):
    """One kind of object that rules come from.

    Attributes:
        parse: what it means; ValueError if it cannot be read.
        absent: what holds after it was deleted.
        same: whether two rules are so near to each other that nothing needs to be written again.
        into: the rules of the node with this one in place.
        unread: the keys of a document without effect.
        key: the key by which a document is known that says no kind; "" if there is no such document.
    """

    parse: Callable[[Document], Any]
    absent: Any
    same: Callable[[Any, Any], bool] | None
    into: Callable[[Any, Any], Any]
    unread: Callable[[Document], Sequence[UnreadKey]]
    key: str = ""

    def read(self, document: Document) -> Any:
        """Return the rule of a document. ValueError if it cannot be read, whatever is wrong with it."""
        try:
            return self.parse(document)
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"it cannot be read: {type(error).__name__}: {error}") from None


class StrategyRow(NamedTuple):
    """One strategy.

    Attributes:
        name: by which it is switched on and off.
        default: whether it is on.
        what: what it does, for people.
        made: its class, a `nri.agent.loops.strategy.Strategy`, made with the settings and the names that are on; rows
            with one class are one strategy.
        owns: the knobs that are its own.
        key: the annotation by which a pod asks for it; "" if there is none.
        document_keys: as of a hook.
    """

    name: str
    default: bool
    what: str
    made: str
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
    """All that an agent needs to know of its profile.

    Attributes:
        name: as the settings have it.
        hooks: in the order in which they decide.
        strategies: in the order in which they decide.
        switches: further gates, each with its default and what it is.
        kinds: the kinds of documents that rules come from.
        node: the rules before any document was read, made with the settings and the machine.
        strategy_rules: makes the reader of what documents ask of strategies, a `nri.agent.loops.strategy.Rules`.
        class_label: the label of a pod's class, which every hook may read.
        programs: the host's programs that documents list, made with these and the cgroup driver. Raises ValueError.
        prepare: makes what changes of a container need on the host before it is created, by the rules of now.
        reconciler: the class of what standalone mode does beside asking hooks, made with the parts; "" for none.
        network: the class of what standalone mode does with the network, made with the settings and the parts; "" for
            none.
        transports: the transports that only this profile has, by mode.
        foreign: agents beside which this one does not start.
        unreadable: what is wrong with a pod's annotations that no hook's stage reads, by hook or strategy; made with
            the pod, the rules and the strategies that are on.
        unread: a line for each label, annotation or key in one that nothing reads, and for each such resource.
        absent_containers: a line for annotations that name containers which the pod does not have.
        class_of: a pod's QoS class; "" for none.
        own_file: the agent's settings out of a configuration file of the profile's own, None for a file that is none.
            Raises ConfigError for one with mistakes.
        asked: the gates that the strategies' document asks for, each with its key.
        origins: the kinds and keys of documents by which a hook or strategy decides for pods of a class.
        off: how a hook or strategy is switched off, with its name in braces.
        on: the key of the settings by which they are switched on.
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
    asked: Callable[[Document | None], Mapping[str, str]]
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
        """All that can be switched on and off, with whether it is on."""
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
        own = frozenset(row.key for row in self.strategies if row.key)
        return own.union(*(row.keys for row in self.hooks))

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
    """Return the profile of a name. Raises ValueError for one that is none."""
    if name not in PROFILES:
        raise ValueError(f'there is no profile "{name}"; there is {", ".join(PROFILES)}')
    found: Profile = load(PROFILES[name])
    return found


def load(name: str) -> Any:
    """The object of a name such as `package.module:Class`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
