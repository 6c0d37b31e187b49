"""`differ`: what the plugins between its indices change, shown by connecting at several indices from one process.

One job: to keep what one index was given until the next one gets the same event, and to log the difference. It adjusts
nothing. Rules: an event is known by its name and its container or pod, so that one that a plugin in between has refused
is not compared with the next one. Next: `nri.plugins.differ.comparison` finds the differences,
`nri.stub.program.several` runs the connections.
"""

from __future__ import annotations

import copy
import sys
from _thread import allocate_lock

import nri
from nri.errors import ConfigError
from nri.plugins.differ.comparison import differences, yaml_differences
from nri.plugins.dump import tree_of, yaml_lines
from nri.stub.program.options import Flag
from nri.stub.session import settings
from nri.stub.support import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from nri.stub.base import PluginBase

__all__ = ["FLAGS", "Differ", "DifferConfig"]


class DifferConfig:
    """At which indices it connects, and how much it says.

    Attributes:
        indices: at least two, 0 to 99; from flags or `--config FILE`, because it is asked before there is a runtime.
        logFile: a file to append to instead of the program's log.
        verboseLevel: 0 changes only; 1 also what the first index gets; 2 also each message before and after; 3 also
            what Synchronize brings.
        yaml: differences as lines of YAML instead of fields.
    """

    indices: tuple[int, ...] = (0, 99)
    logFile: str = ""
    verboseLevel: int = 0
    yaml: bool = False

    def __post_init__(self) -> None:
        wrong = [index for index in self.indices if not 0 <= index <= 99]
        if wrong:
            raise ValueError(f"indices: {wrong[0]} is no index; they are 0 to 99")
        if len(set(self.indices)) < max(2, len(self.indices)):
            raise ValueError("indices: at least two are wanted, and each once; write 0,99")


FLAGS = {
    "indices": Flag("indices", "LIST", "connect at these indices, at least two (default 0,99)"),
    "verbose-level": Flag("verboseLevel", "N", "0 changes, 1 and the first data, 2 and all data, 3 and Synchronize"),
    "yaml": Flag("yaml", "", "print differences as lines of YAML"),
}


#: Messages of events that an index keeps for the next one; more are of events that never got there.
MAX_KEPT_EVENTS = 512


class _Messages:
    """The messages that the connections of one process keep for each other: by place in the row, then by event."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self.by_place: dict[int, dict[tuple[str, ...], Mapping[str, Any]]] = {}

    def keep(self, place: int, event: tuple[str, ...], messages: Mapping[str, Any]) -> None:
        """Keep an event's messages for the next place."""
        with self._lock:
            messages_by_event = self.by_place.setdefault(place, {})
            messages_by_event.pop(event, None)
            messages_by_event[event] = messages
            if len(messages_by_event) > MAX_KEPT_EVENTS:
                del messages_by_event[next(iter(messages_by_event))]

    def take(self, place: int, event: tuple[str, ...]) -> Mapping[str, Any] | None:
        """Take the messages of an event from a place; None if that place was not given it."""
        with self._lock:
            return self.by_place.get(place, {}).pop(event, None)


class Differ(nri.Plugin):
    """Show what the plugins between its indices change in pods and containers; it changes nothing itself."""

    name = "differ"
    flags = FLAGS
    Config = DifferConfig
    config: DifferConfig

    def __init__(self, row: Sequence[int] = (0,), place: int = 0, messages: _Messages | None = None) -> None:
        """Make one connection of several: `row` are all indices in ascending order, `place` is ours among them."""
        self._index, self._place, self._last = row[place], place, len(row) - 1
        self.messages = messages or _Messages()

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> None:
        """Run it as a program; the indices are its own flag."""
        super().main(["--idx", "00", *(sys.argv[1:] if argv is None else argv)])

    @classmethod
    def _connections(cls, options: Any) -> list[tuple[PluginBase, Any]]:
        probe = cls()
        settings.apply(probe, "", options.config, options.own)
        return cls.row(probe.config.indices, options)

    @classmethod
    def row(cls, indices: Sequence[int], options: Any) -> list[tuple[PluginBase, Any]]:
        """Make the connections for these indices, each with its options."""
        ascending, messages = sorted(indices), _Messages()
        connections: list[tuple[PluginBase, Any]] = []
        for place, index in enumerate(ascending):
            connection_options = copy.copy(options)
            connection_options.index = f"{index:02d}"
            connections.append((cls(ascending, place, messages), connection_options))
        return connections

    def configure(self) -> None:
        try:
            logs.send_to_file(self.log.logger, self.config.logFile)
        except OSError as error:
            reason = f"cannot open {self.config.logFile}: {error.strerror}"
            raise ConfigError("configuration", "logFile", reason) from None

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        if self.config.verboseLevel > 2:
            for tag, messages in (("pods", pods), ("containers", containers)):
                self._write(f"Synchronize: {tag}", [])
                for message in messages:
                    self._write(f"Synchronize: {tag}", yaml_lines([tree_of(message)]))

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._compare("RunPodSandbox", pod=pod)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._compare("StopPodSandbox", pod=pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._compare("RemovePodSandbox", pod=pod)

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("CreateContainer", pod=pod, container=container)

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("PostCreateContainer", pod=pod, container=container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("StartContainer", pod=pod, container=container)

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("PostStartContainer", pod=pod, container=container)

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources) -> None:
        self._compare("UpdateContainer", pod=pod, container=container, resources=resources)

    def post_update_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("PostUpdateContainer", pod=pod, container=container)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("StopContainer", pod=pod, container=container)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._compare("RemoveContainer", pod=pod, container=container)

    # -- comparing ----------------------------------------------------------------------------------------------------

    def _compare(self, event: str, **messages: Any) -> None:
        """Log what has changed since the index before, and keep the messages for the one after."""
        event_key = (event, messages["pod"].id, messages["container"].id if "container" in messages else "")
        if self._place == 0:
            if self.config.verboseLevel > 0:
                for tag, message in messages.items():
                    self._write(f"{event}: {tag}", yaml_lines(tree_of(message)))
        else:
            before = self.messages.take(self._place - 1, event_key)
            for tag, message in messages.items() if before is not None else ():
                self._log_differences(event, tag, before[tag], message)  # type: ignore[index]
        if self._place < self._last:
            self.messages.keep(self._place, event_key, messages)

    def _log_differences(self, event: str, tag: str, before: Any, after: Any) -> None:
        if before == after:
            self._write(f"{event}: {tag}", ["<no changes>"])
            return
        old, new = tree_of(before), tree_of(after)
        if self.config.verboseLevel > 1:
            self._write(f"{event}: {tag} before", yaml_lines(old))
        lines = yaml_differences(old, new) if self.config.yaml else list(map(str, differences(old, new)))
        self._write(f"{event}: {tag}", lines)
        if self.config.verboseLevel > 1:
            self._write(f"{event}: {tag} after", yaml_lines(new))

    def _write(self, what: str, lines: list[str]) -> None:
        """Log lines, each after the index and what it is about."""
        head = f"[{self._index:02d}] {what}:"
        text = "\n".join([f"{head} {line}" for line in lines] or [head])
        self.log.logger.info("%s", text, extra=logs.EACH_LINE)


if __name__ == "__main__":
    Differ.main()
