"""A recorder that keeps everything: each step of each event with its bytes, in a ring of bounded length.

One job: be the `nri.interfaces.Reporter` whose price the cases `state-recorder` and `create-recorder` measure, the same
for the runtime's side and the plugin's. Next: `bench.runtime` and `bench.plugin`, which use it if they are told to.
"""

from collections import deque
from time import monotonic_ns

#: That many steps are kept; then the oldest go. A step of the benchmarks' events is up to 6 KiB.
STEPS = 8192


class Recorder:
    """Keeps steps as tuples: when, which step, and what was told of it."""

    def __init__(self) -> None:
        self.steps: deque[tuple[object, ...]] = deque(maxlen=STEPS)
        self._keep = self.steps.append

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        self._keep((monotonic_ns(), "begins", event, serial, request))

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        self._keep((monotonic_ns(), "asked", plugin, event, serial, request))

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        self._keep((monotonic_ns(), "answered", plugin, event, serial, reply, duration_s))

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        self._keep((monotonic_ns(), "failed", plugin, event, serial, error, duration_s))

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        self._keep((monotonic_ns(), "merged", plugin, event, serial, error))

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        self._keep((monotonic_ns(), "ends", event, serial, reply, error, duration_s))
