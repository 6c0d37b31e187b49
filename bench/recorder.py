"""A recorder that keeps everything: each step of each event with its bytes, in a file in memory.

One job: be the `nri.interfaces.Reporter` whose price the cases `state-recorder` and `create-recorder` measure, the same
for the runtime's side and the plugin's. Next: `bench.runtime` and `bench.plugin`, which use it if they are told to.

Few steps are held, then written in one go. What makes a recorder slow is not its work but memory that no cache has:
where thousands of steps are held, each event's bytes go to fresh memory, and that costs an event of 31 us another 4 us.
"""

import marshal
import os
from time import monotonic_ns

#: So many steps are held at most, before the next event: some 30 events.
HELD = 128


class Recorder:
    """Keeps steps as tuples: which step, and what was told of it. An event begins with the time in ns."""

    def __init__(self) -> None:
        self._file = os.memfd_create("recorder")
        self._steps: list[tuple[object, ...]] = []
        self._keep = self._steps.append

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        self._keep(("begins", event, serial, request, monotonic_ns()))

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        self._keep(("asked", plugin, event, serial, request))

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        self._keep(("answered", plugin, event, serial, reply, duration_s))

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        self._keep(("failed", plugin, event, serial, str(error), duration_s))

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        self._keep(("merged", plugin, event, serial, error and str(error)))

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        self._keep(("ends", event, serial, reply, error and str(error), duration_s))
        if len(self._steps) > HELD:
            self.write()

    def write(self) -> None:
        """Write what is held to the file."""
        os.write(self._file, marshal.dumps(self._steps))
        self._steps.clear()
