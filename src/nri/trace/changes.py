"""Who changed what in the containers of a recording, who refused one, and who gave no answer.

One job: to read a recording's events into the history that the adaptation keeps of containers while it runs, so that a
recording and a runtime explain a container alike. Bounded as there. Next: `nri.adaptation.audit.provenance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.audit import CREATION, SILENT, Provenance
from nri.api import messages as m
from nri.errors import ConfigError
from nri.kube.named import NamedContainer, any_of, find
from nri.trace.history import parsed

if TYPE_CHECKING:
    from nri.trace.history import Event, Trace

__all__ = ["Changes", "why"]

#: Events of one container that are remembered where only one is asked for.
_MOST_EVENTS: Final = 10_000
#: What a runtime tells next of a container that it could not create, and what is said of one then.
_ENDS: Final = ("StopContainer", "RemoveContainer")
_NOT_MADE: Final = (
    "the container",
    "never ran",
    "if its creation failed after its plugins had answered, the runtime's log says why, which no recording has",
)


class Changes:
    """The histories of a recording's containers, of the events that it has been given. Not thread-safe."""

    def __init__(self, **bounds: int) -> None:
        """`bounds` are those of `Provenance`."""
        self._now_s = 0.0
        self._known = Provenance(**bounds, clock=lambda: self._now_s)
        self._answered: set[str] = set()  # containers of which plugins were asked, and no more is known

    def take(self, event: Event) -> None:
        """Take the next event."""
        container = event.container
        if container is None or not container.id:
            return
        self._now_s = event.began_ns / 1e9
        steps = [step for step in event.steps if step.event == event.name]
        replies = [(step.plugin, step.reply) for step in steps if step.reply]
        silent = [(container.id, step.plugin, SILENT, step.error.text) for step in steps if step.silent and step.error]
        failed = "" if event.error is None else event.error.text or event.error.kind
        outcomes = [] if failed else silent
        if event.name == CREATION and not failed and len(self._answered) < _MOST_EVENTS:
            self._answered.add(container.id)
        elif container.id in self._answered:
            self._answered.discard(container.id)
            if event.name in _ENDS and container.state == m.ContainerState.CONTAINER_CREATED:
                outcomes.append((container.id, *_NOT_MADE))
        self._known.record(event.name, container.id, event.request, replies, _updated(event), failed, outcomes)

    def containers(self) -> list[NamedContainer]:
        """The containers of which something is known, the newest first."""
        return self._known.containers()

    def explain(self, container: str) -> dict[str, Any] | None:
        """The chain of changes of a container, as the admin socket gives it; None if nothing is known of it."""
        found = self._known.explain(container)
        return None if found is None else found.to_json()


def why(recording: Trace, word: str) -> dict[str, Any]:
    """The chain of changes of the container that a person means by a word, as `nri.kube.named` reads it.

    Raises ConfigError if the recording has no such container, or several.
    """
    changes, wanted = Changes(max_records=_MOST_EVENTS), set[str]()
    for event in recording.events():
        pod, container = event.pod, event.container
        if container is None:
            continue
        names = ("", "", "") if pod is None else (pod.name, pod.namespace, pod.id)
        if find(word, [NamedContainer(container.id, container.name, *names, runs=False)]):
            wanted.add(container.id)
        if container.id in wanted or not wanted.isdisjoint(_updated(event)):
            changes.take(event)
    found = find(word, [one for one in changes.containers() if one.id in wanted])
    if len(found) > 1:
        raise ConfigError(recording.path, "", any_of(word, found), "name one of them")
    chain = changes.explain(found[0].id) if found else None
    if chain is None:
        step = f"nri trace show {recording.path} lists what there is"
        raise ConfigError(recording.path, "", f'no event of a container "{word}"', step)
    return chain


def _updated(event: Event) -> set[str]:
    """The containers that the plugins' answers update."""
    replies = (step.reply for step in event.steps if step.reply and step.event == event.name)
    messages = (parsed(event.name, reply, reply=True) for reply in replies)
    return {update.container_id for message in messages for update in getattr(message, "update", ())}
