"""Five healthy plugins in one process: they note every event in order, and each changes every container.

As a program: `python -m tests.torture.healthy SOCKET`. It prints ``ready`` once all take part, and at each line on
stdin what each has seen since the last one, as one line of JSON. None connects again: an end before that is a fault
of the node.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from typing import Any

import nri
from nri.api.events import EVENTS
from nri.stub.session.session import Session

#: Index of each; the hostile one's stands between them.
INDICES = ("05", "15", "25", "35", "45")
LABELS = tuple(f"{index}-steady" for index in INDICES)
#: The variable that each sets.
VARIABLE = "STEADY_"


class Steady(nri.Plugin):
    """Notes every event of a pod that has a life."""

    name = "steady"

    def __init__(self, index: str) -> None:
        self.index = index
        self.seen: list[tuple[str, str]] = []

    def note(self, rpc: str, pod: nri.PodSandbox) -> None:
        """Remember one event; pods that belong to no thread are not counted."""
        if "torture/life" in pod.annotations:
            self.seen.append((rpc, pod.id))

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> Any:
        """Tell the container who was here, and ask for something for another one."""
        self.note("CreateContainer", pod)
        update = nri.Update("standing-1").set_cpu_shares(100 + int(self.index)).set_ignore_failure()
        return nri.Adjustment().add_env(VARIABLE + self.index, pod.name), ([update] if self.index == "25" else [])


def _handler(rpc: str) -> Any:
    def handle(self: Steady, pod: nri.PodSandbox, *_: object) -> None:
        self.note(rpc, pod)

    return handle


for _spec in EVENTS:
    if _spec.rpc not in ("CreateContainer", "ValidateContainerAdjustment"):
        setattr(Steady, _spec.method, _handler(_spec.rpc))


def main(arguments: list[str]) -> int:
    """Run all five until stdin says a word."""
    (path,) = arguments
    ended: dict[str, str] = {}
    begun = [threading.Event() for _ in INDICES]
    plugins = [Steady(index) for index in INDICES]

    def run(plugin: Steady, ready: threading.Event) -> None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
            why: object = Session(plugin, sock, index=plugin.index, on_ready=ready.set).run()
        except Exception as error:
            why = repr(error)
        ended[f"{plugin.index}-steady"] = str(why)

    for plugin, ready in zip(plugins, begun, strict=True):
        threading.Thread(target=run, args=(plugin, ready), daemon=True).start()
        if not ready.wait(30):
            print(f"not ready: {ended}", flush=True)
            return 1
    print("ready", flush=True)
    for _ in sys.stdin:
        calls = {}
        for plugin in plugins:
            calls[f"{plugin.index}-steady"], plugin.seen = plugin.seen, []
        print(json.dumps({"seen": calls, "ended": ended}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
