"""`differ`: show what other plugins change, by connecting at several indices from one process.

Each connection keeps the messages of an event for the next connection, which logs the difference.
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


class DifferConfig:
    """The indices at which it connects, and how much it logs.

    Attributes:
        indices: at least two indices from 0 to 99. They come from flags or `--config FILE`, because they are needed
            before the runtime connects.
        logFile: a file to append to instead of the program's log.
        verboseLevel: 0 logs changes only; 1 also the messages of the first index; 2 also each message before and after
            a change; 3 also the messages of Synchronize.
        yaml: log differences as lines of YAML instead of fields.
    """

    indices: tuple[int, ...] = (0, 99)
    logFile: str = ""
    verboseLevel: int = 0
    yaml: bool = False

    def __post_init__(self) -> None:
        wrong = [index for index in self.indices if not 0 <= index <= 99]
        if wrong:
            raise ValueError(f"indices: {wrong[0]} is not an index from 0 to 99")
        if len(set(self.indices)) < max(2, len(self.indices)):
            raise ValueError("indices: at least two different indices are required; write, for example, 0,99")


FLAGS = {
    "indices": Flag("indices", "LIST", "connect at these indices, at least two (default 0,99)"),
    "verbose-level": Flag("verboseLevel", "N", "log 0: changes, 1: first messages, 2: all messages, 3: Synchronize"),
    "yaml": Flag("yaml", "", "print differences as lines of YAML"),
}


#: Keep at most this many events for the next index; older events never reached that index.
MAX_KEPT_EVENTS = 512


class _Messages:
    """The messages that connections keep for the next connection: by position of the connection, then by event."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self.by_position: dict[int, dict[tuple[str, ...], Mapping[str, Any]]] = {}

    def keep(self, position: int, event: tuple[str, ...], messages: Mapping[str, Any]) -> None:
        """Keep an event's messages for the next connection."""
        with self._lock:
            messages_by_event = self.by_position.setdefault(position, {})
            messages_by_event.pop(event, None)
            messages_by_event[event] = messages
            if len(messages_by_event) > MAX_KEPT_EVENTS:
                del messages_by_event[next(iter(messages_by_event))]

    def take(self, position: int, event: tuple[str, ...]) -> Mapping[str, Any] | None:
        """Remove and return the messages of an event. Returns None if that connection did not get the event."""
        with self._lock:
            return self.by_position.get(position, {}).pop(event, None)


class Differ(nri.Plugin):
    """Show the changes of pods and containers by the plugins between its indices, without own changes."""

    name = "differ"
    flags = FLAGS
    Config = DifferConfig
    config: DifferConfig

    def __init__(self, row: Sequence[int] = (0,), position: int = 0, messages: _Messages | None = None) -> None:
        """Create a connection. `row` has the indices of all connections in ascending order, `position` is its own."""
        self._index, self._position, self._last = row[position], position, len(row) - 1
        self.messages = messages or _Messages()

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> None:
        """Run the plugin as a program. --idx is not used, because `--indices` replaces it."""
        super().main(["--idx", "00", *(sys.argv[1:] if argv is None else argv)])

    @classmethod
    def _connections(cls, options: Any) -> list[tuple[PluginBase, Any]]:
        probe = cls()
        settings.apply(probe, "", options.config, options.own)
        return cls.row(probe.config.indices, options)

    @classmethod
    def row(cls, indices: Sequence[int], options: Any) -> list[tuple[PluginBase, Any]]:
        """Create the connections for these indices, each with its options."""
        ascending, messages = sorted(indices), _Messages()
        connections: list[tuple[PluginBase, Any]] = []
        for position, index in enumerate(ascending):
            connection_options = copy.copy(options)
            connection_options.index = f"{index:02d}"
            connections.append((cls(ascending, position, messages), connection_options))
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
        """Log the changes since the previous index, and keep the messages for the next index."""
        event_key = (event, messages["pod"].id, messages["container"].id if "container" in messages else "")
        if self._position == 0:
            if self.config.verboseLevel > 0:
                for tag, message in messages.items():
                    self._write(f"{event}: {tag}", yaml_lines(tree_of(message)))
        else:
            before = self.messages.take(self._position - 1, event_key)
            for tag, message in messages.items() if before is not None else ():
                self._log_differences(event, tag, before[tag], message)  # type: ignore[index]
        if self._position < self._last:
            self.messages.keep(self._position, event_key, messages)

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
        """Log lines, each with the index and `what` in front."""
        head = f"[{self._index:02d}] {what}:"
        text = "\n".join([f"{head} {line}" for line in lines] or [head])
        self.log.logger.info("%s", text, extra=logs.EACH_LINE)


if __name__ == "__main__":
    Differ.main()
