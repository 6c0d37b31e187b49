"""A recording run again: its events through the real adaptation and other plugins, each outcome with the recorded one.

    with Replay("traces") as again:
        again.add(MyPlugin(), "10")
        assert not again.differences()

Rules: the runtime begins with the pods and containers that the first plugin of the recording was given; events come one
after the other, in the order in which they began. Of a recording by a runtime the merged replies are compared; of one
that a plugin made of itself (`nri run`, `nri agent`), its answers with those of the plugin that has its index and name,
or its index. A runtime's recording notes which plugins take part; a plugin's recording has no such notes. An event
whose values were replaced cannot be run again, for plugins would see the replacements; nor can one of which a part is
missing. Next: `nri.trace.history`, which reads the recording, and `nri.adaptation.audit.diff`, whose words the
differences are.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.audit import of_adjustment, of_update, show
from nri.api import messages as m
from nri.api.events import BY_RPC, EMPTY_CREATION
from nri.errors import LATE, ConnectionClosed, NriError, ProtocolError, RpcError
from nri.testing.runtime import FakeRuntime
from nri.text import count
from nri.trace.history import VALIDATE, Event, Note, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from nri.interfaces import Reporter

__all__ = ["Outcome", "Replay"]

#: Requests that plugins make by themselves, and the recordings of a plugin that only looked on.
_BY_ITSELF: Final = "UpdateContainers"
_OBSERVER: Final = "nri record"
_PARTIAL: Final = "a part of it is missing"
_OBSERVED: Final = "it was only looked at by a plugin, and the answers of others are not in it"
#: Plugins that recordings are remembered to have had.
_MOST_PLUGINS: Final = 256
#: Bytes of the pods and containers that are kept, besides twice those of the recording: about what one takes, and what
#: it takes for each byte of its message.
STATE_BYTES, OBJECT_BYTES, BYTES_PER_BYTE = 14 << 20, 2000, 3
#: Differences of one event that are told, and characters of a line.
_MAX_LINES, _MAX_LINE = 100, 4096
_LONGEST_ID: Final = 256
_LONG_ID: Final = f"the id of its pod or container has more than {_LONGEST_ID} characters"
_NO_ROOM: Final = "the recording has more pods and containers at the same time than are kept: cut a part of it"


class Outcome(NamedTuple):
    """The outcome of a recorded event.

    Attributes:
        event: as it was recorded.
        left_out: why it was not run again; "" if it was.
        differences: what differs from the recorded outcome, in words; empty if nothing does.
        missed: the plugins without which it went on when it was recorded, and why they gave no answer.
    """

    event: Event
    left_out: str
    differences: tuple[str, ...]
    missed: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def subject(self) -> str:
        """The event with its pod and container, by name."""
        return f"{self.event.name} {self.event.subject}".rstrip()


class Replay(FakeRuntime):
    """A runtime that repeats what a recording has. Add plugins to it, then ask for `outcomes` or `differences`.

    Args:
        path: a recording, or a folder of them.
        reporters: told of everything as well; a `nri.trace.recorder.Recorder` records it again.
        options: what `FakeRuntime` takes: `policy`, `request_timeout_s`, and more.

    Attributes:
        recorded: the plugins of the recording, ``NN-name``, once the events have been run.
        lost: steps that are missing in the recording, because it could not keep up; known then as well.
        trace: the recording; its `problems` are what could not be read.

    Raises ConfigError where there is no recording.
    """

    def __init__(self, path: str | os.PathLike[str], *, reporters: Iterable[Reporter] = (), **options: Any) -> None:
        self.trace = Trace(path)
        self.recorded: dict[str, None] = {}
        self.lost = 0
        self._answers, self._makers = _Answers(), _Makers()
        self._room = STATE_BYTES + 2 * self.trace.size_bytes
        self._sizes: dict[str, int] = {}  # of pods and containers that events have made
        state = _first_state(self.trace, self._room)
        self._room -= _state_bytes(state)
        super().__init__(pods=state.pods, containers=state.containers, reporters=[self._answers, *reporters], **options)

    def differences(self) -> list[str]:
        """Run all events; returns a line for each difference, and one for each event that could not be run.

        An empty list says that everything was run again and came out the same.
        """
        return [
            f"{outcome.subject}: {line}"
            for outcome in self.outcomes()
            for line in (outcome.differences or ([outcome.left_out] if outcome.left_out else []))
        ]

    def outcomes(self, *, real_time: bool = False) -> Iterator[Outcome]:
        """Run the events one after the other; with `real_time`, as far apart as they were."""
        began, first_ns = monotonic(), 0
        for item in self.trace.items():
            if isinstance(item, Note):
                self._makers.take_note(item)
                if item.kind == "plugin" and len(self.recorded) < _MOST_PLUGINS:
                    self.recorded[item.plugin] = None
                self.lost += item.lost
                continue
            self._makers.take_event(item)
            if item.name not in BY_RPC and item.name != _BY_ITSELF:
                continue  # plugins joined and were given their settings: those of this runtime have done so already
            first_ns = first_ns or item.began_ns
            missed, owner = _missed(item), self._makers.owner(item)
            left_out = _OBSERVED if self._makers.is_observer(item) else self._why_not(item, owner)
            if left_out:
                yield Outcome(item, left_out, (), missed)
                continue
            if real_time:
                sleep(max(0.0, (item.began_ns - first_ns) / 1e9 - (monotonic() - began)))
            lines = self._run(item, owner)
            if lines:
                lines += [*_without("recorded", missed), *_without("now", self._answers.missed)]
            self._forget_gone(item)
            yield Outcome(item, "", tuple(lines), missed)

    def _why_not(self, event: Event, owner: str | None) -> str:
        """Why an event cannot be run again; "" if it can."""
        if event.name != _BY_ITSELF:
            reason = _why_not(event)
            if owner and not reason and self._counterpart(owner) is None:
                index = owner.partition("-")[0]
                step = f"add it with index {index}"
                return f"{owner} recorded this by itself, and no plugin with its index is here: {step}"
            return reason or self._no_room(event)
        if not event.whole or event.message is None or not event.steps:
            return _PARTIAL
        if event.steps[0].plugin not in self._attached:
            return f"{event.steps[0].plugin} asked for it by itself, and is not attached here, or is a separate program"
        return "" if event.message.update else "evictions that a plugin asks for by itself are not asked for again"

    def _no_room(self, event: Event) -> str:
        """Why what an event makes cannot be kept; "" if it can, and it is counted then."""
        for message, there in ((event.pod, self.pods), (event.container, self.containers)):
            if message is not None and len(message.id) > _LONGEST_ID:
                return _LONG_ID
            if message is not None and message.id not in there and message.id not in self._sizes:
                size = OBJECT_BYTES + BYTES_PER_BYTE * message.ByteSize()
                if size > self._room:
                    return _NO_ROOM
                self._sizes[message.id] = size
                self._room -= size
        return ""

    def _forget_gone(self, event: Event) -> None:
        """Give back the room of what an event has removed, and forget what plugins have asked for so far."""
        for message, there in ((event.pod, self.pods), (event.container, self.containers)):
            if message is not None and message.id not in there:
                self._room += self._sizes.pop(message.id, 0)
        self.updates.clear()
        self.evictions.clear()

    def _ask(self, event: Event) -> list[str]:
        """Have a plugin ask for what it asked for by itself."""
        plugin = self._attached[event.steps[0].plugin].plugin
        recorded, now, error = "" if event.error is None else event.error.message, set[str](), ""
        try:
            now = {each.container_id for each in plugin.runtime.update(*event.message.update).result()}
        except NriError as raised:  # also of a plugin that has gone meanwhile
            error = raised.message if isinstance(raised, RpcError) else str(raised)
        if recorded != error:
            return [f"recorded: {recorded or 'ok'}; now: {error or 'ok'}"]
        reply = event.parse(event.name, event.reply, reply=True)
        before = {each.container_id for each in reply.failed} if reply is not None else set()
        return [
            f"update of container {each}: recorded {_ended(each in before)}; now {_ended(each in now)}"[:_MAX_LINE]
            for each in sorted(before ^ now)[:_MAX_LINES]
        ]

    def _counterpart(self, owner: str) -> str | None:
        """The plugin of this runtime with the name of a recorded one, else with its index; None without one."""
        index = owner.partition("-")[0]
        labels = sorted(row.plugin for row in self.plugins)
        return owner if owner in labels else next((each for each in labels if each.startswith(f"{index}-")), None)

    def _run(self, event: Event, owner: str | None) -> list[str]:
        """Run an event; `owner` is as `_Makers.owner` gives it. Returns what differs."""
        self._answers.clear()
        if event.name == _BY_ITSELF:
            return self._ask(event)
        request, error = event.message, None
        more = [getattr(request, name) for name in _MORE.get(event.name, ())]
        container = [] if event.container is None else [_copy(event.container)]
        try:
            made = getattr(self, BY_RPC[event.name].method)(_copy(event.pod), *container, *more)
            if event.name == "CreateContainer":
                made.commit()
        except NriError as raised:
            error = raised
        recorded = "" if event.error is None else event.error.text
        now = "" if error is None else str(error)
        as_raised = owner is not None and recorded and now.endswith(recorded)  # a runtime says which plugin it was
        if recorded != now and not as_raised:
            return [f"recorded: {recorded or 'ok'}; now: {now or 'ok'}"]
        if owner is None:
            return list(_differences(event, event.reply, self._answers.merged))
        counterpart = self._counterpart(owner) if owner else None
        if counterpart is None or error is not None:
            return []  # no answer to compare
        return list(_differences(event, event.reply, self._answers.of(counterpart)))


class _Makers:
    """Who made each recording: a runtime, whose notes say which plugins take part, or a plugin of itself."""

    def __init__(self) -> None:
        self._runtimes: set[int] = set()
        self._observers: set[int] = set()
        self._owners: dict[int, str] = {}

    def take_note(self, note: Note) -> None:
        """Learn from a note; `opened` has the command that made the recording, if one did."""
        if note.kind == "plugin":
            self._runtimes.add(note.recording)
        elif note.about.get("command") == _OBSERVER:
            self._observers.add(note.recording)

    def take_event(self, event: Event) -> None:
        """Learn from an event: a runtime alone merges answers, and one plugin's recording has no other plugin in it."""
        if any(step.merged or step.refused is not None for step in event.steps):
            self._runtimes.add(event.recording)
        if event.steps:
            plugin = event.steps[0].plugin
            if self._owners.setdefault(event.recording, plugin) != plugin:
                self._owners[event.recording] = ""

    def is_observer(self, event: Event) -> bool:
        """Whether the event was recorded by `nri record`."""
        return event.recording in self._observers

    def owner(self, event: Event) -> str | None:
        """The plugin that recorded an event of itself, "" if that is not known; None if a runtime recorded it."""
        if event.recording in self._runtimes:
            return None
        return event.steps[0].plugin if event.steps else self._owners.get(event.recording, "")


def _missed(event: Event) -> dict[str, str]:
    """The plugins without which an event went on, and why they gave no answer; one that failed says it by itself."""
    steps = event.steps if event.error is None else ()
    return {step.plugin: step.error.text for step in steps if step.silent and step.error is not None}


def _without(when: str, missed: dict[str, str]) -> list[str]:
    return [f"{when} without {plugin}, which gave no answer: {reason}" for plugin, reason in missed.items()]


def _ended(failed: bool) -> str:
    return "failed" if failed else "done"


class _Answers:
    """A reporter that keeps what the plugins of this runtime answer to one event; `missed`: those that do not."""

    def __init__(self) -> None:
        self._answered: dict[str, bytes] = {}
        self.missed: dict[str, str] = {}
        self.merged = b""

    def of(self, plugin: str) -> bytes:
        """The answer of a plugin; empty if it gave none."""
        return self._answered.get(plugin, b"")

    def clear(self) -> None:
        """Forget the last event."""
        self._answered.clear()
        self.missed = {}
        self.merged = b""

    def event_begins(self, *_: object) -> None:
        """Leave it: the recording has the request."""

    plugin_asked = reply_merged = event_begins

    def plugin_failed(self, *step: Any) -> None:
        """Keep why there is no answer, if there is none."""
        if isinstance(step[3], (*LATE, ConnectionClosed, ProtocolError)):
            self.missed[step[0]] = str(step[3])

    def plugin_answered(self, *step: Any) -> None:
        """Keep the reply."""
        self._answered[step[0]] = step[3]

    def event_ends(self, *step: Any) -> None:
        """Keep the merged reply."""
        self.merged = step[2]


#: The parts of an event besides pod and container, in the order of the method's arguments.
_MORE: Final = {
    "UpdateContainer": ("linux_resources",),
    "UpdatePodSandbox": ("overhead_linux_resources", "linux_resources"),
}


def _copy(message: Any) -> Any:
    """A message of its own: the runtime keeps and changes what it is given."""
    if message is None:
        return None
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _first_state(trace: Trace, most_bytes: int) -> m.SynchronizeRequest:
    """The state that the first plugin was given before the first event, put together of its parts."""
    state: m.SynchronizeRequest = m.SynchronizeRequest()
    plugin = None
    for event in trace.events():
        if event.name in BY_RPC or event.name == _BY_ITSELF:
            break
        asked = event.steps[0].plugin if event.steps else ""
        if event.name == "Synchronize" and event.whole and event.message is not None and plugin in (None, asked):
            plugin = asked
            if _state_bytes(state) + _state_bytes(event.message) > most_bytes:
                event.leave_out("part of the first state")
                break
            more = event.message.more
            if state.pods or state.containers:
                state.MergeFrom(event.message)
            else:
                state = event.message  # not copied: it may have megabytes
            if not more:
                break
    return state


def _state_bytes(state: m.SynchronizeRequest) -> int:
    """About how many bytes the pods and containers of a state take."""
    return OBJECT_BYTES * (len(state.pods) + len(state.containers)) + BYTES_PER_BYTE * state.ByteSize()


def _why_not(event: Event) -> str:
    """Why an event cannot be run again; "" if it can."""
    if event.name == VALIDATE:
        return "a validator was asked alone: record the runtime to run it again with the creation"
    if event.redacted:
        return "its values were replaced when it was recorded: record with --redact none to run it again"
    if not event.whole or event.pod is None:
        return _PARTIAL
    return ""


def _differences(event: Event, recorded: bytes, now: bytes) -> Iterator[str]:
    """The differences of two replies, in words."""
    # Runtimes without plugins, and older plugins, answer a creation with nothing at all.
    if (recorded or EMPTY_CREATION) == (now or EMPTY_CREATION):
        return
    before, after = event.parse(event.name, recorded, reply=True), event.parse(event.name, now, reply=True)
    if before == after:
        return
    if before is None or after is None:
        yield "the recorded reply cannot be read"
        return
    old, new = _asked_for(before, event), _asked_for(after, event)
    differing = [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]
    for key in differing[:_MAX_LINES]:
        yield f"{key}: recorded {old.get(key, 'nothing')}; now {new.get(key, 'nothing')}"[:_MAX_LINE]
    if len(differing) > _MAX_LINES:
        yield f"and {count(len(differing) - _MAX_LINES, 'further difference')}"
    if not differing:
        yield "the same entries, in another order or with values that the container has already"


def _asked_for(reply: Any, event: Event) -> dict[str, str]:
    """The requests of a reply, by container, field and key, in words."""
    container = event.container or m.Container()
    found = {}
    if isinstance(reply, m.CreateContainerResponse):
        found = {
            f"{each.field} {each.key}".rstrip(): show(each.after) for each in of_adjustment(reply.adjust, container)
        }
    for update in getattr(reply, "update", ()):
        of = "" if update.container_id == container.id else f" of container {update.container_id}"
        found |= {f"{each.field} {each.key}".rstrip() + of: show(each.after) for each in of_update(update)}
    for eviction in getattr(reply, "evict", ()):
        found[f"eviction of container {eviction.container_id}"] = show(eviction.reason)
    return found
