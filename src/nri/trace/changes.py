"""The changes of containers in a recording: the plugin of each change, refusals, and missing answers.

The events of a recording go into the adaptation's `Provenance`, so that a recording and a runtime explain a container
in the same way.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.audit import CREATION, SILENT, Provenance
from nri.adaptation.merge import count_entries
from nri.api import messages as m
from nri.errors import ConfigError
from nri.kube.container_search import NamedContainer, any_of, find
from nri.trace.allowance import kind_of

if TYPE_CHECKING:
    from nri.trace.history import Event, Trace

#: The history of a container has at most this many events.
_MAX_EVENTS = 10_000
#: At most this many creations without later events are stored.
_MAX_CREATIONS = 2000
#: The histories may have this many bytes more than the recording.
_MAX_BYTES: Final = 4 << 20
#: Values in the answers for a container in any case. A change has about three values and takes a thousand bytes when it
#: is explained.
_VALUES = 20_000
#: A further value for this many bytes of the recording.
_BYTES_PER_VALUE = 400
#: The values of at most this many containers are counted.
_MAX_COUNTED = 4096
#: A container's id has at most this many characters.
_MAX_ID_CHARACTERS = 256
#: An error names at most this many containers that match a word.
_MAX_MATCHES = 1000
#: The events that a runtime sends for a container that it could not create, and the outcome to record for it.
_ENDS: Final = ("StopContainer", "RemoveContainer")
_NOT_STARTED: Final = (
    "the container",
    "never ran",
    "if its creation failed after its plugins had answered, the reason is in the runtime's log, not in a recording",
)


class Changes:
    """The histories of a recording's containers. Not thread-safe.

    Args:
        recording_bytes: the size of the recording, which extends the limit.
        bounds: further arguments of `Provenance`.
    """

    def __init__(self, recording_bytes: int = 0, **bounds: int) -> None:
        self._now_s = 0.0
        max_bytes = min(_MAX_BYTES + recording_bytes, 32 << 20)
        self._histories = Provenance(**{"max_bytes": max_bytes, **bounds}, clock=lambda: self._now_s)
        self._created: set[str] = set()  # containers with a creation, but without later events
        self._max_values = _VALUES + recording_bytes // _BYTES_PER_VALUE
        self._values: OrderedDict[str, int] = OrderedDict()  # in the answers for each container

    def take(self, event: Event) -> None:
        """Add the next event."""
        container = event.container
        if container is None or not 0 < len(container.id) <= _MAX_ID_CHARACTERS:
            return
        self._now_s = event.began_ns / 1e9
        steps = [step for step in event.steps if step.event == event.name]
        replies, updated = _replies(event)
        if not self._has_values(event, container.id, replies):
            event.leave_out("change")
            return
        silent = [(container.id, step.plugin, SILENT, step.error.text) for step in steps if step.silent and step.error]
        failed = "" if event.error is None else event.error.text or event.error.kind
        outcomes = [] if failed else silent
        if event.name == CREATION and not failed and len(self._created) < _MAX_CREATIONS:
            self._created.add(container.id)
        elif container.id in self._created:
            self._created.discard(container.id)
            if event.name in _ENDS and container.state == m.ContainerState.CONTAINER_CREATED:
                outcomes.append((container.id, *_NOT_STARTED))
        self._histories.record(event.name, container.id, event.request, replies, updated, failed, outcomes)

    def _has_values(self, event: Event, container: str, replies: list[tuple[str, bytes]]) -> bool:
        """Count the values of an event's answers. Returns whether the history of a container has room for them."""
        kind, before = kind_of(event.name, reply=True), self._values.get(container, 0)
        remaining = self._max_values - before
        values = sum(count_entries(kind, reply, max(0, remaining)) for _, reply in replies)
        self._values[container] = before + values  # counting costs time even if the values are left out
        if len(self._values) > _MAX_COUNTED:
            self._values.popitem(last=False)
        return values <= remaining

    def containers(self) -> list[NamedContainer]:
        """The containers with a history, the newest first."""
        return self._histories.containers()

    def explain(self, container: str, *, values: bool = False) -> dict[str, Any] | None:
        """The chain of changes of a container in the admin socket's form. Returns None if it has no history.

        Args:
            values: include image, state and values in force.
        """
        explanation = self._histories.explain(container)
        if explanation is None:
            return None
        return explanation.to_json_with_values() if values else explanation.to_json()


def container_history(recording: Trace, word: str) -> dict[str, Any]:
    """Return the chain of changes of the container that a word matches, see `nri.kube.container_search`.

    Raises ConfigError if no container or several containers match.
    """
    changes, ids = Changes(recording.size_bytes, max_records=_MAX_EVENTS), set[str]()
    for event in recording.events():
        pod, container = event.pod, event.container
        if container is None:
            continue
        names = ("", "", "") if pod is None else (pod.name, pod.namespace, pod.id)
        fits = len(ids) < _MAX_MATCHES and len(container.id) <= _MAX_ID_CHARACTERS
        if fits and find(word, [NamedContainer(container.id, container.name, *names, runs=False)]):
            ids.add(container.id)
        if container.id in ids or not ids.isdisjoint(_replies(event)[1]):
            changes.take(event)
    matches = find(word, [container_ for container_ in changes.containers() if container_.id in ids])
    if len(matches) > 1:
        raise ConfigError(recording.path, "", any_of(word, matches), "choose one of them")
    chain = changes.explain(matches[0].id) if matches else None
    if chain is None:
        step = f"list all events: nri trace show {recording.path}"
        raise ConfigError(recording.path, "", f'container "{word}" not found', step)
    return chain


def _replies(event: Event) -> tuple[list[tuple[str, bytes]], set[str]]:
    """The valid answers of plugins, and the containers that they update."""
    replies, updated = [], set[str]()
    for step in event.steps:
        message = event.parse(event.name, step.reply, reply=True) if step.reply and step.event == event.name else None
        if message is not None and step.reply:
            replies.append((step.plugin, step.reply))
            ids = (update.container_id for update in getattr(message, "update", ()))
            updated.update(container_id for container_id in ids if len(container_id) <= _MAX_ID_CHARACTERS)
    return replies, updated
