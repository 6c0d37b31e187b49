"""Lives of pods with one container each, drawn from a seed: what a runtime asks, from the pod's start to its removal.

A life is the same whatever runs beside it. What plugins are to do is in the pod's annotations, as `fieldplugin` reads
them (tests/peers/README.md): how many CPUs it wants for itself, and who refuses what.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from nri.api import messages as m
from tests.support.sides import Outcome, Request

Send = Callable[[Request], Outcome]

#: Who refuses which event, in how many of a hundred lives.
REFUSALS = (
    ("refuser", "CreateContainer", 15),
    ("validator", "ValidateContainerAdjustment", 5),
    ("refuser", "StartContainer", 3),
    ("refuser", "UpdateContainer", 10),
    ("refuser", "StopContainer", 4),
)
#: How many containers of one thread are alive at once.
ALIVE = 3


class Life:
    """One pod and its container.

    Attributes:
        failures: the events that failed, with the errors.
        refused: the events that plugins were told to refuse, as far as the life gets to them.
    """

    def __init__(self, seed: int, number: int) -> None:
        random = Random(f"{seed}-{number}")
        self.name = f"{number:05}"
        self.failures: dict[str, str] = {}
        refusals = [(plugin, event) for plugin, event, percent in REFUSALS if random.randrange(100) < percent]
        annotations = {f"{plugin}.test/{event}": json.dumps({"error": "refused"}) for plugin, event in refusals}
        annotations["cpus.test/exclusive"] = str(random.choice((0, 0, 0, 1, 1, 2, 3)))
        self._resized = str(random.choice((0, 1, 2, 4)))
        self._updated = random.random() < 0.4
        self._stopped = random.random() < 0.9  # else it is removed as it runs
        self._pod = m.PodSandbox(
            id=f"p{self.name}", name=f"pod{self.name}", uid=f"u{self.name}", namespace="lives", annotations=annotations
        )
        self._container = m.Container(id=f"c{self.name}", pod_sandbox_id=self._pod.id, name="main", args=["sleep", "1"])
        refused = {"CreateContainer" if event.startswith("Validate") else event for _, event in refusals}
        later = {"StartContainer"}
        later |= {"UpdateContainer"} if self._updated else set()
        later |= {"StopContainer"} if self._stopped else set()
        self.refused = {"CreateContainer"} if "CreateContainer" in refused else refused & later

    def begin(self, send: Send) -> bool:
        """From the pod to a container that runs, perhaps updated. False: it is not created, and the pod is gone."""
        self._ask(send, "RunPodSandbox")
        if not self._ask(send, "CreateContainer"):
            self._ask(send, "StopPodSandbox")
            self._ask(send, "RemovePodSandbox")
            return False
        for event in ("PostCreateContainer", "StartContainer", "PostStartContainer"):
            self._ask(send, event)
        if self._updated:
            self._pod.annotations["cpus.test/exclusive"] = self._resized
            self._ask(send, "UpdateContainer")
            self._ask(send, "PostUpdateContainer")
        return True

    def end(self, send: Send) -> None:
        """From the running container to nothing."""
        if self._stopped:
            self._ask(send, "StopContainer")
        for event in ("RemoveContainer", "StopPodSandbox", "RemovePodSandbox"):
            self._ask(send, event)

    def _ask(self, send: Send, event: str) -> bool:
        container = None if event.endswith("Sandbox") else self._container
        resources = m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=512)))
        outcome = send(Request(event, self._pod, container, resources if event == "UpdateContainer" else None))
        if outcome.error is not None:
            self.failures[event] = outcome.error
        return outcome.error is None


class _Threads:
    """Lives lived by several threads, which come to rest together after each."""

    def __init__(self, send: Send, threads: int, at_rest: Callable[[], bool]) -> None:
        self._send, self._at_rest = send, at_rest
        self._barrier = threading.Barrier(threads, self._rest)
        self._going = True
        self.errors: list[BaseException] = []

    def _rest(self) -> None:
        self._going = self._at_rest()

    def run(self, lives: Sequence[Life]) -> None:
        """Live some lives, one after the other, with a few alive at once."""
        try:
            self._run(lives)
        except threading.BrokenBarrierError:
            pass  # another thread has the reason
        except BaseException as error:
            self.errors.append(error)
            self._barrier.abort()

    def _run(self, lives: Sequence[Life]) -> None:
        alive: deque[Life] = deque()
        for life in lives:
            if len(alive) == ALIVE:
                alive.popleft().end(self._send)
            if life.begin(self._send):
                alive.append(life)
            self._barrier.wait()
            if not self._going:
                return
        while alive:
            alive.popleft().end(self._send)


def live(lives: Sequence[Life], send: Send, threads: int, at_rest: Callable[[], bool] = lambda: True) -> None:
    """Have all lives lived, by so many threads at once: each ends an older one and begins a new one, then all rest.

    So what the last of them was not told of shows, as nobody has asked for anything since.

    Args:
        at_rest: called whenever no request is under way; False ends everything.
    """
    assert len(lives) % threads == 0, "every thread must come to rest as often as the others"
    group = _Threads(send, threads, at_rest)
    workers = [threading.Thread(target=group.run, args=(lives[start::threads],)) for start in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for error in group.errors:
        raise error
