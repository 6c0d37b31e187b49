"""Merging CreateContainer: one adjustment from all replies, each plugin shown what earlier ones did.

A reply is taken whole or not at all: first every field is claimed, then the collected adjustment changes, in one
bulk merge when nothing is removed or taken over. What later plugins see is only worked out when somebody asks.
Nothing is logged, nobody is called, the runtime's own messages stay as they are. Next:
`nri.adaptation.pipeline`, which calls the plugins.
"""

from __future__ import annotations

from collections.abc import Container as Collection

from nri.adaptation.merge.claims import Claimer
from nri.adaptation.merge.effects import collect
from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.fields import TREE
from nri.adaptation.merge.ledger import Ledger
from nri.adaptation.merge.shown import Shown
from nri.adaptation.merge.update import Eviction, Ignored, UpdateBook
from nri.adaptation.rules import Rules
from nri.api import messages as m
from nri.errors import NriError

__all__ = ["CreateState"]


def _empty_adjustment() -> m.ContainerAdjustment:
    """What the runtime gets when no plugin asks for anything: present, with its usual parts present."""
    adjust = m.ContainerAdjustment()
    adjust.hooks.SetInParent()
    adjust.linux.resources.memory.SetInParent()
    adjust.linux.resources.cpu.SetInParent()
    return adjust


_EMPTY = _empty_adjustment()


class CreateState:
    """The fold of one CreateContainer event.

    Attributes:
        ledger: who owns what; its `claims` are the material for provenance.
    """

    __slots__ = ("_adjust", "_book", "_id", "_marked", "_request", "_rules", "_shown", "ledger")

    def __init__(
        self, request: m.CreateContainerRequest, rules: Rules = Rules.DEFAULT, known: Collection[str] | None = None
    ) -> None:
        """`known`: ids of the containers that the runtime has, which updates may name; None for not checked."""
        self._request = request
        self._rules = rules
        self._id = request.container.id
        self._shown = Shown(request.container, rules)
        self.ledger = Ledger(rules)
        self._book = UpdateBook(self.ledger, rules, known, created=self._id)
        self._adjust = m.ContainerAdjustment()
        self._adjust.MergeFrom(_EMPTY)
        self._marked = False

    def apply(self, plugin: str, reply: m.CreateContainerResponse) -> None:
        """Take one plugin's reply: all of it, or nothing and ConflictError, UpdateError or PluginError."""
        before, ignored = self.ledger.mark(), len(self._book.ignored)
        entries: list[Entry] = []
        plain = True
        adjust = reply.adjust
        try:
            if reply.HasField("adjust"):
                entries = read(adjust, TREE)
                plain = Claimer(self.ledger, self._rules, self._id, plugin, self._adjust).claim(entries)
            updates = reply.update
            planned = self._book.plan(updates, plugin) if updates else None
        except NriError:
            self.ledger.rollback(before)
            del self._book.ignored[ignored:]
            raise
        self._collect(adjust, entries, plain)
        self._shown.add(entries, adjust)
        if planned:
            self._book.commit(planned)
        if self._rules.evictions_kept and reply.evict:
            self._book.evict(reply.evict, plugin)

    def _collect(self, adjust: m.ContainerAdjustment, entries: list[Entry], plain: bool) -> None:
        merged = self._adjust
        # A mark that is already there may have to go: merging messages cannot do that.
        if plain and not (self._marked and self._rules.last_word_wins):
            merged.MergeFrom(adjust)
        else:
            for entry in entries:
                collect(merged, entry, self._rules)
                if entry.marked:
                    self._marked = True
        if not self._rules.rdt_only_when_asked and adjust.HasField("linux"):
            merged.linux.rdt.SetInParent()

    @property
    def container(self) -> m.Container:
        """The container as the next plugin sees it. Belongs to the state: do not change it."""
        return self._shown.container()

    @property
    def request(self) -> m.CreateContainerRequest:
        """The request for the next plugin, as a new message."""
        request = m.CreateContainerRequest()
        if self._request.HasField("pod"):
            request.pod.CopyFrom(self._request.pod)
        request.container.CopyFrom(self.container)
        return request

    def encoded_base(self) -> bytes:
        """Bytes of the container as it was after the last step that is None, or of the request's container.

        Not normalised as long as no step is None: `nri.adaptation.question` sees to that.
        """
        return self._shown.encoded_base()

    def steps(self) -> list[m.Container | None]:
        """How `container` came about: per change the message to append to its bytes, or None for encoding it anew."""
        return self._shown.steps()

    def reply(self) -> m.CreateContainerResponse:
        """The merged reply. Its adjustment is always present."""
        reply = m.CreateContainerResponse(update=self._book.updates())
        reply.adjust.CopyFrom(self._adjust)
        # Fields that this version does not know have no owner, so they do not pass.
        reply.adjust.DiscardUnknownFields()
        self._book.fill_evictions(reply.evict)
        return reply

    def owners(self) -> m.OwningPlugins:
        """Who set what, of this container and of those updated along with it."""
        return self.ledger.message()

    @property
    def evictions(self) -> list[Eviction]:
        """What the replies asked to evict; empty unless the rules keep evictions."""
        return self._book.evictions

    @property
    def ignored(self) -> list[Ignored]:
        """What plugins asked for and did not get, without failing the event."""
        return self._book.ignored
