"""An event as provenance stores it: its bytes, and the split by container.

A reply may update every container of the node. Each history stores only its own updates; otherwise the whole reply
would be stored for each container. A packed record takes a fifth of the memory.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nri.adaptation.containers.answer_order import SequenceNumbers
from nri.api import messages as m
from nri.kube.container_search import NamedContainer
from nri.wire import bytes_field

#: The event after which a container is known.
CREATION: Final = "CreateContainer"
#: The plugin's name for undone updates; `SequenceNumbers.undone` has the undone answers.
TAKEN_BACK: Final = "(taken back)"
#: The outcome for a plugin if the event continued without its answer.
SILENT: Final = "gave no answer"
NO_NUMBERS: Final[Mapping[str, int | SequenceNumbers]] = MappingProxyType({})


class Record(NamedTuple):
    """An event.

    Attributes:
        when: seconds since 1970.
        event: the RPC name; ``UpdateContainers`` and ``Synchronize`` for requests of plugins.
        container: the id of the event's own container, or "".
        request: the bytes of the runtime's request message; empty without a request.
        replies: ``NN-name`` and bytes of each reply, in the order of the calls.
        failed: the reason why nothing was applied, or "".
        outcomes: outcomes of single fields of updates: (container, field, outcome, reason); for a plugin, `SILENT`.
        numbers: the sequence number of each reply by ``NN-name``; the key "" has the number of the request.
    """

    when: float
    event: str
    container: str
    request: bytes
    replies: Sequence[tuple[str, bytes]]
    failed: str = ""
    outcomes: Sequence[tuple[str, str, str, str]] = ()
    numbers: Mapping[str, int | SequenceNumbers] = NO_NUMBERS

    @property
    def is_given_up(self) -> bool:
        """Whether the runtime failed to create the container, according to the record."""
        return bool(self.failed) and not self.request and self.event == CREATION


def packed(record: Record) -> bytes | None:
    """Compress a record for `unpacked`. Returns None for a record with `SequenceNumbers`. Takes about 20 us."""
    try:
        fields: Any = (*record[:-1], dict(record.numbers))
        return zlib.compress(marshal.dumps(fields), 1)
    except ValueError:
        return None


def unpacked(data: bytes) -> Record:
    """Decompress a record."""
    return Record(*marshal.loads(zlib.decompress(data)))  # noqa: S302 - it has never left this process


#: The reply of each event that can carry updates.
_REPLIES: dict[str, Any] = {
    "CreateContainer": m.CreateContainerResponse,
    "UpdateContainer": m.UpdateContainerResponse,
    "StopContainer": m.StopContainerResponse,
    "Synchronize": m.SynchronizeResponse,
    "UpdateContainers": m.UpdateContainersRequest,
}


def named(container: str, records: Iterable[Record]) -> NamedContainer:
    """A container with its names and its pod's names, from its first readable request, marked as running."""
    for record in records:
        if record.container == container and record.request:
            try:  # the requests of all container events begin with the pod and the container
                request = m.CreateContainerRequest.FromString(record.request)
            except Exception:  # noqa: BLE001, S112 - the next one may be readable
                continue
            pod = request.pod
            return NamedContainer(container, request.container.name, pod.name, pod.namespace, pod.id, runs=True)
    return NamedContainer(container, "", "", "", "", runs=True)


def updates_of(event: str, raw: bytes) -> list[m.ContainerUpdate]:
    """The updates of a reply. For ``UpdateContainers``, the updates of the plugin's own request."""
    kind = _REPLIES.get(event)
    return [] if kind is None else list(kind.FromString(raw).update)


def parts_of(record: Record, targets: Collection[str]) -> Iterable[tuple[str, Record]]:
    """Split a record by container: updates go to the records of their containers, the rest to the event's container."""
    own_replies: list[tuple[str, bytes]] = []
    replies_by_target: dict[str, list[tuple[str, bytes]]] = {target_id: [] for target_id in targets}
    kind: Any = _REPLIES.get(record.event)
    for plugin, raw in record.replies:
        try:
            message = kind.FromString(raw)
        except Exception:  # noqa: BLE001 - an invalid reply concerns only the event
            own_replies.append((plugin, raw))
            continue
        number = kind.DESCRIPTOR.fields_by_name["update"].number
        pieces: dict[str, list[bytes]] = {}
        for update in message.update:
            pieces.setdefault(update.container_id, []).append(bytes_field(number, update.SerializeToString()))
        for target, encoded in pieces.items():
            if target in replies_by_target:
                replies_by_target[target].append((plugin, b"".join(encoded)))
        message.ClearField("update")
        own_replies.append((plugin, message.SerializeToString() + b"".join(pieces.get(record.container, ()))))
    outcomes: dict[str, list[tuple[str, str, str, str]]] = {}
    for row in record.outcomes:
        outcomes.setdefault(row[0], []).append(row)
    if record.container:
        yield record.container, record._replace(replies=own_replies, outcomes=outcomes.get(record.container, ()))
    for target, replies in replies_by_target.items():
        yield target, record._replace(request=b"", replies=replies, outcomes=outcomes.get(target, ()))
