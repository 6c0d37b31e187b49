"""One event with an answer while it is under way: takes the plugins' replies in turn and keeps what is to be recorded.

A `Fold` belongs to one event and one thread. It reads a reply, holds it to what the operator allows, has it merged (or
only described, for a shadow plugin), and shows the outcome to the next plugin. Merging itself is
`nri.adaptation.merge`. Next: `nri.adaptation.dispatch.dispatcher`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from nri.adaptation.audit import shadow
from nri.adaptation.plugin_policy import allow
from nri.api import messages as m
from nri.errors import NriError, PluginError

if TYPE_CHECKING:
    from nri.adaptation.audit.inventory import Inventory, Known
    from nri.adaptation.peers.event_request import Question
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import Plan
    from nri.metrics import Observer

__all__ = ["Fold"]

log = logging.getLogger("nri.adaptation")


class Fold:
    """Collects the replies of one event.

    Attributes:
        question: what is asked.
        state: the fold of `nri.adaptation.merge`.
        answered: the plugins that answered.
        request: the request's bytes as the runtime made it; None as long as nobody answered.
        replies: name and bytes of every reply that says something.
        touched: ids of the containers that the replies update.
    """

    __slots__ = (
        "_inventory",
        "_kind",
        "_known",
        "_observer",
        "answered",
        "question",
        "replies",
        "request",
        "state",
        "touched",
    )

    def __init__(
        self, question: Question, state: Any, kind: Any, inventory: Inventory, known: Known, observer: Observer | None
    ) -> None:
        self.question = question
        self.state = state
        self._kind = kind
        self._inventory = inventory
        self._known = known
        self._observer: Any = observer  # as in `Asker`
        self.answered: list[Peer] = []
        self.request: bytes | None = None
        self.replies: list[tuple[str, bytes]] = []
        self.touched: set[str] = set()

    def take(self, peer: Peer, plan: Plan, encoded: bytes) -> None:
        """Take one plugin's reply. PluginError, ConflictError or UpdateError: the event fails because of it."""
        if self.request is None:
            self.request = self.question.payload
        self.answered.append(peer)
        if not encoded:
            return
        try:
            reply = self._kind.FromString(encoded)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            if plan.policy.shadow:
                what = f"its reply cannot be read: {error}"
                self._tell(shadow.failure(peer.label, self.question.spec.rpc, self.question.pod, what))
                return
            raise PluginError(peer.label, f"its reply cannot be read: {error}") from None
        policy = plan.policy
        if policy.shadow:
            self._shadow(peer, reply)
            return
        self.replies.append((peer.label, encoded))
        updates = reply.update
        if updates:
            self.touched.update([update.container_id for update in updates])
        try:
            if policy.allow is not None:
                self._check(peer, policy.allow, reply)
            self.state.apply(peer.label, reply)
        except NriError as error:
            peer.last_error = str(error)
            raise
        question, observer = self.question, self._observer
        question.follow(self.state)
        if observer is not None:
            adjust, evict = self._parts(reply)
            observer.record_plugin_adjustments(peer.label, question.spec.rpc, adjust, len(updates), len(evict))

    @staticmethod
    def _parts(reply: Any) -> tuple[Any, Any]:
        """A reply's adjustment and evictions, as far as its event has them."""
        if reply.__class__ is m.StopContainerResponse:
            return None, ()
        adjust = reply.adjust if reply.__class__ is m.CreateContainerResponse and reply.HasField("adjust") else None
        return adjust, reply.evict

    def _check(self, peer: Peer, allowed: allow.Allow, reply: Any) -> None:
        adjust, evict = self._parts(reply)
        question = self.question
        breach = allow.breach(
            allowed,
            peer.label,
            question.pod.namespace,
            question.spec.number,
            adjust=adjust,
            update=reply.update,
            evict=evict,
            namespace_of=self._known.namespace_of,
        )
        if breach is not None:
            raise breach

    def _shadow(self, peer: Peer, reply: Any) -> None:
        """Say what a shadow plugin would have done."""
        question = self.question
        report = shadow.report(
            peer.label,
            question.spec.rpc,
            question.pod,
            question.shown(),
            reply,
            ledger=self.state.ledger,
            resources_of=self._inventory.resources_of,
        )
        self._tell(report)

    def _tell(self, report: shadow.ShadowReport) -> None:
        if not report.empty:
            log.info("%s", report)
        if self._observer is not None:
            self._observer.record_shadow(report)
