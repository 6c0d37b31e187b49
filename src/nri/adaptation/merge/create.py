"""Merging CreateContainer: one adjustment from all replies, each plugin shown what earlier ones did.

A reply is taken whole or not at all: first every field is claimed, then the collected adjustment changes, in one bulk
merge when nothing is removed or taken over. The later plugins' view is only worked out when it is asked for. Nothing is
logged, no plugin is called, the runtime's own messages stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nri.adaptation.merge.claims import Claimer
from nri.adaptation.merge.container_view import AcceptedAdjustment, ContainerView
from nri.adaptation.merge.effects import collect
from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.fast_path import Fields, survey
from nri.adaptation.merge.fast_path import entries as fields_to_entries
from nri.adaptation.merge.ledger import Ledger
from nri.adaptation.merge.side_updates import Eviction, Ignored, KnownContainers, SideUpdates
from nri.api import messages as m
from nri.api.fields import TREE
from nri.errors import NriError
from nri.rules import Rules
from nri.wire import bytes_field

__all__ = ["CreateMerge"]


def _empty_adjustment() -> bytes:
    """The adjustment that the runtime gets when no plugin asks for anything: its usual parts are present."""
    adjust = m.ContainerAdjustment()
    adjust.hooks.SetInParent()
    adjust.linux.resources.memory.SetInParent()
    adjust.linux.resources.cpu.SetInParent()
    encoded: bytes = adjust.SerializeToString()
    return encoded


#: What an `AcceptedAdjustment` is made of, where a later plugin is shown the container.
_Taken = tuple[list[Entry] | None, Fields, m.ContainerAdjustment, bytes | None]

_EMPTY: Final = _empty_adjustment()
#: The encoded reply when no plugin asks for anything.
_NOTHING: Final = bytes_field(1, _EMPTY)


class CreateMerge:
    """The merge of one CreateContainer event. Its parts are made when a reply needs them.

    Attributes:
        ledger: who owns what; its `claims` are the material for provenance.
        side: updates and evictions of other containers; None if no plugin asked for any.
    """

    __slots__ = (
        "_adjust",
        "_encoded",
        "_id",
        "_known",
        "_marked",
        "_plain",
        "_request",
        "_rules",
        "_shown",
        "_taken",
        "_whole",
        "ledger",
        "side",
    )  # fmt: skip

    def __init__(
        self, request: m.CreateContainerRequest, rules: Rules = Rules.DEFAULT, known: KnownContainers | None = None
    ) -> None:
        """`known`: ids of the containers that the runtime has, which updates may name; None for not checked."""
        self._request = request
        self._rules = rules
        self._known = known
        self._id = request.container.id
        self.ledger = Ledger(rules)
        self._marked = False
        self._whole = True  # all replies were merged as they are
        self._adjust: m.ContainerAdjustment | None = None
        # Encoded adjustments that come after what is in `_adjust`: merged together, once, when that is asked for.
        self._plain: list[bytes] = []
        self.side: SideUpdates | None = None
        self._shown: ContainerView | None = None
        self._encoded: bytes | None = None
        self._taken: list[_Taken] = []  # what `_shown` has not been told yet

    def apply(self, plugin: str, reply: m.CreateContainerResponse) -> None:
        """Take one plugin's reply: all of it, or nothing and ConflictError, UpdateError or PluginError."""
        updates, evict = reply.update, reply.evict
        if not updates and not evict:
            if reply.HasField("adjust"):
                self.adjusted(plugin, reply.adjust)
            return
        side = self._updates()
        before, ignored = self.ledger.mark(), len(side.ignored)
        try:
            # Updates are claimed after the adjustment; a refused one takes back the claims, and nothing else happened.
            taken = self._claim(plugin, reply.adjust) if reply.HasField("adjust") else None
            planned = side.plan(updates, plugin)
        except NriError:
            self.ledger.rollback(before)
            del side.ignored[ignored:]
            raise
        if taken is not None:
            self._collect(reply.adjust, *taken)
        side.commit(planned)
        side.evict(evict, plugin)

    def adjusted(self, plugin: str, adjust: m.ContainerAdjustment, encoded: bytes | None = None) -> None:
        """Take a reply that is nothing but an adjustment, as `apply` does; `encoded` are its bytes, where at hand."""
        self._collect(adjust, *self._claim(plugin, adjust), encoded)

    def _claim(self, plugin: str, adjust: m.ContainerAdjustment) -> tuple[bool, list[Entry] | None, Fields]:
        """Claim all fields, or none and raise ConflictError, UpdateError or PluginError.

        Returns whether to merge the message as a whole, and its entries, or None and the fields if it is fresh.
        """
        found = survey(adjust, self._id)
        if found is not None and self.ledger.claim_fresh(found[1], plugin):
            return True, None, found[0]
        entries = read(adjust, TREE)
        before = self.ledger.mark()
        try:
            plain = Claimer(self.ledger, self._rules, self._id, plugin, self._collected()).claim(entries)
        except NriError:
            self.ledger.rollback(before)
            raise
        return plain, entries, []

    def _collect(
        self,
        adjust: m.ContainerAdjustment,
        plain: bool,
        entries: list[Entry] | None,
        found: Fields,
        encoded: bytes | None = None,
    ) -> None:
        # A mark that is already there may have to go: merging messages cannot do that.
        if plain and not (self._marked and self._rules.last_word_wins):
            if encoded is not None:
                self._plain.append(encoded)
            else:
                self._collected().MergeFrom(adjust)
        else:
            merged = self._collected()
            self._whole = False
            for entry in entries if entries is not None else fields_to_entries(found):
                collect(merged, entry, self._rules)
                if entry.marked:
                    self._marked = True
        if not self._rules.rdt_only_when_asked:
            if adjust.HasField("linux"):
                self._collected().linux.rdt.SetInParent()
                self._whole = False
        elif entries is not None and adjust.linux.HasField("rdt") and not self._collected().linux.rdt.ListFields():
            self._collected().linux.ClearField("rdt")  # an empty one asks for nothing
            self._whole = False
        self._taken.append((entries, found, adjust, encoded))

    def _collected(self) -> m.ContainerAdjustment:
        merged = self._adjust
        if merged is None:
            merged = self._adjust = m.ContainerAdjustment.FromString(b"".join([_EMPTY, *self._plain]))
            self._plain = []
        elif self._plain:
            merged.MergeFromString(b"".join(self._plain))
            self._plain = []
        return merged

    def _updates(self) -> SideUpdates:
        if self.side is None:
            self.side = SideUpdates(self.ledger, self._rules, self._known, created=self._id)
        return self.side

    def _view(self) -> ContainerView:
        """The container as later plugins are shown it, up to date."""
        shown = self._shown
        if shown is None:
            shown = self._shown = ContainerView(self._request.container, self._rules, self._encoded)
        if self._taken:
            taken, self._taken = self._taken, []
            for each in taken:
                shown.add(AcceptedAdjustment(*each))
        return shown

    @property
    def container(self) -> m.Container:
        """The container as the next plugin sees it. Belongs to the state: do not change it."""
        return self._view().container()

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

        Not normalised as long as no step is None: `nri.adaptation.peers.event_request` sees to that.
        """
        if self._shown is not None:
            return self._shown.encoded_base()
        if self._encoded is None:
            self._encoded = self._request.container.SerializeToString()
        return self._encoded

    def steps(self) -> list[bytes | None]:
        """The changes that made `container`: for each the bytes to append, or None for encoding it again."""
        return self._view().steps()

    def reply(self) -> m.CreateContainerResponse:
        """The merged reply, as a new message. Its adjustment is always present."""
        reply = m.CreateContainerResponse(update=self.updates)
        reply.adjust.CopyFrom(self.adjust)
        if self.side is not None:
            self.side.fill_evictions(reply.evict)
        return reply

    def encoded_reply(self, replies: Sequence[tuple[str, bytes]]) -> bytes:
        """An encoding of the merged reply; fields that are in several replies may be in it in pieces.

        Encodings one behind the other are an encoding of what they make together, so what was merged as it is need only
        be joined: encoding it again costs an event that is recorded more than all other steps of the record.

        Args:
            replies: the encoded replies that were taken, in their order, each with its plugin.
        """
        if self.side is None and self._whole:
            if len(replies) == 1:  # as most have: no call
                return _NOTHING + replies[0][1]
            return b"".join([_NOTHING, *[reply for _, reply in replies]])
        encoded: bytes = self.reply().SerializeToString()
        return encoded

    @property
    def adjust(self) -> m.ContainerAdjustment:
        """The merged adjustment. Belongs to the state; after the event the caller may have it."""
        merged = self._collected()
        # Fields that this version does not know have no owner, so they do not pass.
        merged.DiscardUnknownFields()
        return merged

    @property
    def updates(self) -> list[m.ContainerUpdate]:
        """The merged updates of other containers. Belong to the state, like `adjust`."""
        return [] if self.side is None else self.side.updates()

    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set, of this container and of those updated along with it."""
        return self.ledger.message()

    @property
    def evictions(self) -> list[Eviction]:
        """The evictions that the replies asked for; empty unless the rules keep evictions."""
        return [] if self.side is None else self.side.evictions

    @property
    def ignored(self) -> list[Ignored]:
        """The parts of replies that were left out without failing the event."""
        return [] if self.side is None else self.side.ignored
