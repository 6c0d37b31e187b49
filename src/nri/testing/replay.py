"""Run the events of a recording again with other plugins, and compare each outcome with the recorded outcome.

    with Replay("traces") as replay:
        replay.add(MyPlugin(), "10")
        assert not replay.differences()

The runtime starts with the pods and containers that the first recorded plugin received. For a recording by a runtime,
the merged replies are compared. For a recording by a plugin (`nri run`, `nri agent`), the answers of the plugin with
the same index and name are compared, or the answers of the plugin with the same index.
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

#: The request that plugins send by themselves.
_PLUGIN_REQUEST: Final = "UpdateContainers"
#: The command in recordings of a plugin that only watches.
_OBSERVER: Final = "nri record"
_PARTIAL: Final = "a part of it is missing"
_OBSERVED: Final = "it was recorded by nri record, without the answers of plugins"
#: At most this many plugins of a recording are stored.
_MAX_PLUGINS: Final = 256
#: The memory limit for pods and containers, in addition to twice the size of the recording.
STATE_BYTES = 14 << 20
#: The estimated memory of an object, in addition to its message.
OBJECT_BYTES = 2000
#: The estimated memory of a byte of a message.
BYTES_PER_BYTE = 3
#: At most this many differences are shown for an event.
_MAX_LINES = 100
#: A line of differences has at most this many characters.
_MAX_LINE = 4096
_MAX_ID_CHARS: Final = 256
_LONG_ID: Final = f"the id of its pod or container has more than {_MAX_ID_CHARS} characters"
_TOO_LARGE: Final = "the recording has too many pods and containers at the same time: use a part of it (nri trace cut)"


class Outcome(NamedTuple):
    """The outcome of a recorded event.

    Attributes:
        event: the recorded event.
        left_out: the reason why the event was not run again, or "".
        differences: descriptions of the differences from the recorded outcome.
        missed: the plugins that did not answer in the recording, with the reasons.
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
    """A runtime that runs a recording again. Add plugins to it, then call `outcomes` or `differences`.

    Args:
        path: a recording, or a folder of recordings.
        reporters: further reporters, for example a `nri.trace.recorder.Recorder` that records the run.
        options: options of `FakeRuntime`: `policy`, `request_timeout_s`, and more.

    Attributes:
        recorded: the plugins of the recording, ``NN-name``; complete after all events.
        lost: the number of steps that the recorder could not store; complete after all events.
        trace: the recording; its `problems` are the unreadable records.

    Raises ConfigError without a recording.
    """

    def __init__(self, path: str | os.PathLike[str], *, reporters: Iterable[Reporter] = (), **options: Any) -> None:
        self.trace = Trace(path)
        self.recorded: dict[str, None] = {}
        self.lost = 0
        self._answers, self._sources = _Answers(), _Sources()
        self._free_bytes = STATE_BYTES + 2 * self.trace.size_bytes
        self._sizes: dict[str, int] = {}  # sizes of pods and containers that events have created
        state = _first_state(self.trace, self._free_bytes)
        self._free_bytes -= _state_bytes(state)
        super().__init__(pods=state.pods, containers=state.containers, reporters=[self._answers, *reporters], **options)

    def differences(self) -> list[str]:
        """Run all events. Returns a line for each difference, and for each event that could not be run.

        An empty list means that all events were run again with the same outcome.
        """
        return [
            f"{outcome.subject}: {line}"
            for outcome in self.outcomes()
            for line in (outcome.differences or ([outcome.left_out] if outcome.left_out else []))
        ]

    def outcomes(self, *, real_time: bool = False) -> Iterator[Outcome]:
        """Run the events one after the other. With `real_time`, wait the recorded time between them."""
        began, first_ns = monotonic(), 0
        for item in self.trace.items():
            if isinstance(item, Note):
                self._sources.take_note(item)
                if item.kind == "plugin" and len(self.recorded) < _MAX_PLUGINS:
                    self.recorded[item.plugin] = None
                self.lost += item.lost
                continue
            self._sources.take_event(item)
            if item.name not in BY_RPC and item.name != _PLUGIN_REQUEST:
                continue  # the connection of a plugin; those of this runtime are connected already
            first_ns = first_ns or item.began_ns
            missed, owner = _missing_answers(item), self._sources.owner(item)
            left_out = _OBSERVED if self._sources.is_observer(item) else self._why_not(item, owner)
            if left_out:
                yield Outcome(item, left_out, (), missed)
                continue
            if real_time:
                sleep(max(0.0, (item.began_ns - first_ns) / 1e9 - (monotonic() - began)))
            lines = self._run(item, owner)
            if lines:
                lines += [
                    *_missing_answer_lines("recorded", missed),
                    *_missing_answer_lines("now", self._answers.missed),
                ]
            self._release_removed(item)
            yield Outcome(item, "", tuple(lines), missed)

    def _why_not(self, event: Event, owner: str | None) -> str:
        """The reason why an event cannot be run again, or ""."""
        if event.name != _PLUGIN_REQUEST:
            reason = _why_not(event)
            if owner and not reason and self._counterpart(owner) is None:
                index = owner.partition("-")[0]
                step = f"add it with index {index}"
                return f"it was recorded by {owner}, and no plugin with this index was added: {step}"
            return reason or self._size_problem(event)
        if not event.whole or event.message is None or not event.steps:
            return _PARTIAL
        if event.steps[0].plugin not in self._attached:
            return f"{event.steps[0].plugin} requested it, and was not added, or is a separate program"
        return "" if event.message.update else "evictions that a plugin requests are not repeated"

    def _size_problem(self, event: Event) -> str:
        """The reason why the objects of an event exceed a limit, or "". Their size is counted if they do not."""
        for message, objects in ((event.pod, self.pods), (event.container, self.containers)):
            if message is not None and len(message.id) > _MAX_ID_CHARS:
                return _LONG_ID
            if message is not None and message.id not in objects and message.id not in self._sizes:
                size = OBJECT_BYTES + BYTES_PER_BYTE * message.ByteSize()
                if size > self._free_bytes:
                    return _TOO_LARGE
                self._sizes[message.id] = size
                self._free_bytes -= size
        return ""

    def _release_removed(self, event: Event) -> None:
        """Subtract the size of objects that an event has removed, and drop the requests of plugins."""
        for message, objects in ((event.pod, self.pods), (event.container, self.containers)):
            if message is not None and message.id not in objects:
                self._free_bytes += self._sizes.pop(message.id, 0)
        self.updates.clear()
        self.evictions.clear()

    def _repeat_request(self, event: Event) -> list[str]:
        """Repeat a request of a plugin. Returns the differences."""
        plugin = self._attached[event.steps[0].plugin].plugin
        recorded, now, error = "" if event.error is None else event.error.message, set[str](), ""
        try:
            now = {container_id.container_id for container_id in plugin.runtime.update(*event.message.update).result()}
        except NriError as raised:  # even if the plugin has disconnected
            error = raised.message if isinstance(raised, RpcError) else str(raised)
        if recorded != error:
            return [f"recorded: {recorded or 'ok'}; now: {error or 'ok'}"]
        reply = event.parse(event.name, event.reply, reply=True)
        before = {container_id.container_id for container_id in reply.failed} if reply is not None else set()
        return [
            f"update of container {id_}: recorded {_outcome_word(id_ in before)}; now {_outcome_word(id_ in now)}"[
                :_MAX_LINE
            ]
            for id_ in sorted(before ^ now)[:_MAX_LINES]
        ]

    def _counterpart(self, owner: str) -> str | None:
        """The plugin of this runtime with the label of a recorded plugin, or with its index.

        Returns None without one.
        """
        index = owner.partition("-")[0]
        labels = sorted(row.plugin for row in self.plugins)
        return owner if owner in labels else next((label for label in labels if label.startswith(f"{index}-")), None)

    def _run(self, event: Event, owner: str | None) -> list[str]:
        """Run an event. `owner` is the result of `_Sources.owner`. Returns the differences."""
        self._answers.clear()
        if event.name == _PLUGIN_REQUEST:
            return self._repeat_request(event)
        request, error = event.message, None
        more = [getattr(request, name) for name in _FURTHER_ARGUMENTS.get(event.name, ())]
        container = [] if event.container is None else [_copy(event.container)]
        try:
            reply = getattr(self, BY_RPC[event.name].method)(_copy(event.pod), *container, *more)
            if event.name == "CreateContainer":
                reply.commit()
        except NriError as raised:
            error = raised
        recorded = "" if event.error is None else event.error.text
        now = "" if error is None else str(error)
        as_raised = (
            owner is not None and recorded and now.endswith(recorded)
        )  # a runtime adds the plugin's name before the text
        if recorded != now and not as_raised:
            return [f"recorded: {recorded or 'ok'}; now: {now or 'ok'}"]
        if owner is None:
            return list(_differences(event, event.reply, self._answers.merged))
        counterpart = self._counterpart(owner) if owner else None
        if counterpart is None or error is not None:
            return []  # no answer to compare
        return list(_differences(event, event.reply, self._answers.of(counterpart)))


class _Sources:
    """The source of each recording: a runtime, which also records the connected plugins, or a single plugin."""

    def __init__(self) -> None:
        self._runtimes: set[int] = set()
        self._observers: set[int] = set()
        self._owners: dict[int, str] = {}

    def take_note(self, note: Note) -> None:
        """Determine the source from a note: a note on a runtime's plugin, or a note with the recording command."""
        if note.kind == "plugin":
            self._runtimes.add(note.recording)
        elif note.about.get("command") == _OBSERVER:
            self._observers.add(note.recording)

    def take_event(self, event: Event) -> None:
        """Determine the source from an event: only runtimes merge answers, and a plugin's recording has one plugin."""
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
        """The plugin that recorded an event, "" if it is not known. Returns None if a runtime recorded the event."""
        if event.recording in self._runtimes:
            return None
        return event.steps[0].plugin if event.steps else self._owners.get(event.recording, "")


def _missing_answers(event: Event) -> dict[str, str]:
    """The plugins that did not answer an event, with reasons. Empty if the event failed: its error has the reason."""
    steps = event.steps if event.error is None else ()
    return {step.plugin: step.error.text for step in steps if step.silent and step.error is not None}


def _missing_answer_lines(when: str, missed: dict[str, str]) -> list[str]:
    return [f"{when} without {plugin}, which did not answer: {reason}" for plugin, reason in missed.items()]


def _outcome_word(failed: bool) -> str:
    return "failed" if failed else "done"


class _Answers:
    """A reporter that stores the plugins' answers to an event. `missed` has the plugins without an answer."""

    def __init__(self) -> None:
        self._answered: dict[str, bytes] = {}
        self.missed: dict[str, str] = {}
        self.merged = b""

    def of(self, plugin: str) -> bytes:
        """The answer of a plugin. Returns b"" without an answer."""
        return self._answered.get(plugin, b"")

    def clear(self) -> None:
        """Drop the answers of the last event."""
        self._answered.clear()
        self.missed = {}
        self.merged = b""

    def event_begins(self, *_: object) -> None:
        """Ignore the step, because the recording has the request."""

    plugin_asked = reply_merged = event_begins

    def plugin_failed(self, *step: Any) -> None:
        """Store the reason of a missing answer."""
        if isinstance(step[3], (*LATE, ConnectionClosed, ProtocolError)):
            self.missed[step[0]] = str(step[3])

    def plugin_answered(self, *step: Any) -> None:
        """Store the reply."""
        self._answered[step[0]] = step[3]

    def event_ends(self, *step: Any) -> None:
        """Store the merged reply."""
        self.merged = step[2]


#: The fields of an event in addition to pod and container, in the order of the method's arguments.
_FURTHER_ARGUMENTS: Final = {
    "UpdateContainer": ("linux_resources",),
    "UpdatePodSandbox": ("overhead_linux_resources", "linux_resources"),
}


def _copy(message: Any) -> Any:
    """Copy a message, because the runtime changes its arguments."""
    if message is None:
        return None
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _first_state(trace: Trace, max_bytes: int) -> m.SynchronizeRequest:
    """The state that the first plugin received before the first event, of all its parts."""
    state: m.SynchronizeRequest = m.SynchronizeRequest()
    plugin = None
    for event in trace.events():
        if event.name in BY_RPC or event.name == _PLUGIN_REQUEST:
            break
        asked_plugin = event.steps[0].plugin if event.steps else ""
        if event.name == "Synchronize" and event.whole and event.message is not None and plugin in (None, asked_plugin):
            plugin = asked_plugin
            if _state_bytes(state) + _state_bytes(event.message) > max_bytes:
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
    """The estimated memory of a state's pods and containers."""
    return OBJECT_BYTES * (len(state.pods) + len(state.containers)) + BYTES_PER_BYTE * state.ByteSize()


def _why_not(event: Event) -> str:
    """The reason why an event cannot be run again, or ""."""
    if event.name == VALIDATE:
        return "a validator recorded it: record the runtime instead, to run it again with the creation"
    if event.redacted:
        return "its values were replaced in the recording: record with --redact none to run it again"
    if not event.whole or event.pod is None:
        return _PARTIAL
    return ""


def _differences(event: Event, recorded: bytes, now: bytes) -> Iterator[str]:
    """Describe the differences of two replies."""
    # Runtimes without plugins, and older plugins, answer a creation with an empty message.
    if (recorded or EMPTY_CREATION) == (now or EMPTY_CREATION):
        return
    before, after = event.parse(event.name, recorded, reply=True), event.parse(event.name, now, reply=True)
    if before == after:
        return
    if before is None or after is None:
        yield "the recorded reply cannot be decoded"
        return
    old, new = _requests(before, event), _requests(after, event)
    differing = [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]
    for key in differing[:_MAX_LINES]:
        yield f"{key}: recorded {old.get(key, 'nothing')}; now {new.get(key, 'nothing')}"[:_MAX_LINE]
    if len(differing) > _MAX_LINES:
        yield f"and {count(len(differing) - _MAX_LINES, 'further difference')}"
    if not differing:
        yield "the same entries in another order, or with values that the container already has"


def _requests(reply: Any, event: Event) -> dict[str, str]:
    """Describe the changes that a reply requests, by container, field and key."""
    container = event.container or m.Container()
    texts = {}
    if isinstance(reply, m.CreateContainerResponse):
        texts = {
            f"{change.field} {change.key}".rstrip(): show(change.after)
            for change in of_adjustment(reply.adjust, container)
        }
    for update in getattr(reply, "update", ()):
        suffix = "" if update.container_id == container.id else f" of container {update.container_id}"
        texts |= {f"{change.field} {change.key}".rstrip() + suffix: show(change.after) for change in of_update(update)}
    for eviction in getattr(reply, "evict", ()):
        texts[f"eviction of container {eviction.container_id}"] = show(eviction.reason)
    return texts
