"""Merge CreateContainer: one adjustment from all replies. Each plugin sees the changes of earlier plugins.

A reply is merged completely or not at all: first every field is claimed, then the merged adjustment changes, in a
bulk merge if nothing is removed or taken over. The container for later plugins is computed only on demand.
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
from nri.adaptation.merge.side_updates import Eviction, IgnoredRequest, KnownContainers, SideUpdates
from nri.api import messages as m
from nri.api.fields import TREE
from nri.errors import NriError
from nri.rules import Rules
from nri.wire import bytes_field


def _empty_adjustment() -> bytes:
    """The adjustment that the runtime gets if no plugin requests a change. Its usual messages are present."""
    adjust = m.ContainerAdjustment()
    adjust.hooks.SetInParent()
    adjust.linux.resources.memory.SetInParent()
    adjust.linux.resources.cpu.SetInParent()
    encoded: bytes = adjust.SerializeToString()
    return encoded


#: The arguments of `AcceptedAdjustment`, which is created if a later plugin sees the container.
_AdjustmentParts = tuple[list[Entry] | None, Fields, m.ContainerAdjustment, bytes | None]

_EMPTY: Final = _empty_adjustment()
#: The encoded reply if no plugin requests anything.
_EMPTY_REPLY: Final = bytes_field(1, _EMPTY)


class CreateMerge:
    """The merge of a CreateContainer event. Its components are created when a reply needs them.

    Attributes:
        ledger: the owners of fields.
        side: updates and evictions of other containers; None if no plugin requested them.
    """

    __slots__ = (
        "_adjust",
        "_container_view",
        "_containers",
        "_encoded",
        "_id",
        "_is_verbatim",
        "_marked",
        "_pending_adjustments",
        "_plain",
        "_request",
        "_rules",
        "ledger",
        "side",
    )  # fmt: skip

    def __init__(
        self, request: m.CreateContainerRequest, rules: Rules = Rules.DEFAULT, containers: KnownContainers | None = None
    ) -> None:
        """`containers` are the existing containers, which updates may name. With None, updates are not checked."""
        self._request = request
        self._rules = rules
        self._containers = containers
        self._id = request.container.id
        self.ledger = Ledger(rules)
        self._marked = False
        self._is_verbatim = True  # all replies were merged as they are
        self._adjust: m.ContainerAdjustment | None = None
        # Encoded adjustments that follow `_adjust`. They are merged into it together, on demand.
        self._plain: list[bytes] = []
        self.side: SideUpdates | None = None
        self._container_view: ContainerView | None = None
        self._encoded: bytes | None = None
        self._pending_adjustments: list[_AdjustmentParts] = []  # adjustments that `_container_view` has not got yet

    def apply(self, plugin: str, reply: m.CreateContainerResponse) -> None:
        """Merge a plugin's reply completely.

        Raises ConflictError, UpdateError or PluginError and then merges nothing.
        """
        updates, evict = reply.update, reply.evict
        if not updates and not evict:
            if reply.HasField("adjust"):
                self.adjusted(plugin, reply.adjust)
            return
        side = self._updates()
        before, ignored = self.ledger.mark(), len(side.ignored)
        try:
            # Updates are claimed after the adjustment. A refused update rolls back the claims, and nothing else has
            # changed.
            claimed = self._claim_fields(plugin, reply.adjust) if reply.HasField("adjust") else None
            planned = side.plan(updates, plugin)
        except NriError:
            self.ledger.rollback(before)
            del side.ignored[ignored:]
            raise
        if claimed is not None:
            self._collect(reply.adjust, *claimed)
        side.commit(planned)
        side.evict(evict, plugin)

    def adjusted(self, plugin: str, adjust: m.ContainerAdjustment, encoded: bytes | None = None) -> None:
        """Merge a reply that has only an adjustment, as `apply` does. `encoded` are its bytes, if available."""
        self._collect(adjust, *self._claim_fields(plugin, adjust), encoded)

    def _claim_fields(self, plugin: str, adjust: m.ContainerAdjustment) -> tuple[bool, list[Entry] | None, Fields]:
        """Claim all fields. Raises ConflictError, UpdateError or PluginError and then claims no field.

        Returns whether to merge the message as a whole; and its entries, or for a fresh reply None; and its fields.
        """
        fresh = survey(adjust, self._id)
        if fresh is not None and self.ledger.claim_fresh(fresh[1], plugin):
            return True, None, fresh[0]
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
        fields: Fields,
        encoded: bytes | None = None,
    ) -> None:
        # Merging messages cannot remove a mark that an earlier reply has set.
        if plain and not (self._marked and self._rules.last_word_wins):
            if encoded is not None:
                self._plain.append(encoded)
            else:
                self._collected().MergeFrom(adjust)
        else:
            merged = self._collected()
            self._is_verbatim = False
            for entry in entries if entries is not None else fields_to_entries(fields):
                collect(merged, entry, self._rules)
                if entry.marked:
                    self._marked = True
        if not self._rules.rdt_only_when_asked:
            if adjust.HasField("linux"):
                self._collected().linux.rdt.SetInParent()
                self._is_verbatim = False
        elif entries is not None and adjust.linux.HasField("rdt") and not self._collected().linux.rdt.ListFields():
            self._collected().linux.ClearField("rdt")  # an empty message requests nothing
            self._is_verbatim = False
        self._pending_adjustments.append((entries, fields, adjust, encoded))

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
            self.side = SideUpdates(self.ledger, self._rules, self._containers, created=self._id)
        return self.side

    def _view(self) -> ContainerView:
        """The up-to-date container as later plugins see it."""
        view = self._container_view
        if view is None:
            view = self._container_view = ContainerView(self._request.container, self._rules, self._encoded)
        if self._pending_adjustments:
            unseen, self._pending_adjustments = self._pending_adjustments, []
            for parts in unseen:
                view.add(AcceptedAdjustment(*parts))
        return view

    @property
    def container(self) -> m.Container:
        """The container as the next plugin sees it. Do not change it."""
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
        """The container's bytes after the last step that is None, or the bytes of the request's container.

        Not normalised if no step is None: `nri.adaptation.peers.event_request` normalises them.
        """
        if self._container_view is not None:
            return self._container_view.encoded_base()
        if self._encoded is None:
            self._encoded = self._request.container.SerializeToString()
        return self._encoded

    def steps(self) -> list[bytes | None]:
        """The container's changes so far: for each change the bytes to append, or None if it must be encoded again."""
        return self._view().steps()

    def reply(self) -> m.CreateContainerResponse:
        """The merged reply, as a new message. Its adjustment is always present."""
        reply = m.CreateContainerResponse(update=self.updates)
        reply.adjust.CopyFrom(self.adjust)
        if self.side is not None:
            self.side.fill_evictions(reply.evict)
        return reply

    def encoded_reply(self, replies: Sequence[tuple[str, bytes]]) -> bytes:
        """Encode the merged reply. A message field may occur in several pieces, from several replies.

        Joined encodings are an encoding of the merged messages, so replies that were merged unchanged only have to be
        joined. Encoding them again would be the most expensive step of recording an event.

        Args:
            replies: the merged replies in their order, encoded, each with the name of its plugin.
        """
        if self.side is None and self._is_verbatim:
            if len(replies) == 1:  # the usual case, which needs no call
                return _EMPTY_REPLY + replies[0][1]
            return b"".join([_EMPTY_REPLY, *[reply for _, reply in replies]])
        encoded: bytes = self.reply().SerializeToString()
        return encoded

    @property
    def adjust(self) -> m.ContainerAdjustment:
        """The merged adjustment. Do not change it before the event is over."""
        merged = self._collected()
        # Fields that this version does not know do not have owners, so they are dropped.
        merged.DiscardUnknownFields()
        return merged

    @property
    def updates(self) -> list[m.ContainerUpdate]:
        """The merged updates of other containers. Do not change them before the event is over."""
        return [] if self.side is None else self.side.updates()

    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set, in this container and in updated containers."""
        return self.ledger.message()

    @property
    def evictions(self) -> list[Eviction]:
        """The requested evictions; empty unless the rules keep evictions."""
        return [] if self.side is None else self.side.evictions

    @property
    def ignored(self) -> list[IgnoredRequest]:
        """The requests in replies that were ignored without failing the event."""
        return [] if self.side is None else self.side.ignored
