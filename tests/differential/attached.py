"""Stories told to an adaptation with plugins in Go attached, in threads, and what the plugins were shown.

`attached` starts the plugins and reads what they wrote down; `tell` asks stories and keeps what became of each request;
`retell` asks the same of another adaptation. Next: `plugins`.
"""

import json
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from nri.api import messages as m
from tests.differential.oracle import Oracle
from tests.differential.requests import Story
from tests.support.sides import Outcome, Request, Side, crew

CREW = (
    ("10", "logger"), ("20", "allocator"), ("30", "agent"), ("40", "refuser"), ("50", "slow"), ("90", "validator"),
)  # fmt: skip
#: A late answer takes longer than plugins have.
TIMEOUT_S, LATE_MS = 4.0, 5000
#: What plugins write down, by event: the types of the messages. Other container events: the container.
SHOWN: dict[str, tuple[Any, ...]] = {
    "UpdateContainer": (m.Container, m.LinuxResources),
    "UpdatePodSandbox": (m.LinuxResources, m.LinuxResources),
    "ValidateContainerAdjustment": (m.ValidateContainerAdjustmentRequest,),
}


class Exchange(NamedTuple):
    """A request and what became of it."""

    request: Request
    outcome: Outcome


class Records:
    """What plugins were shown, by plugin, request and event."""

    def __init__(self, folder: Path, kinds: Sequence[str]) -> None:
        self._paths = {kind: folder / f"{kind}.log" for kind in kinds}
        self.seen: dict[tuple[str, str, str], tuple[Any, ...]] = {}

    def options(self) -> dict[str, dict[str, Any]]:
        """What the plugins are started with to write it down."""
        options: dict[str, dict[str, Any]] = {kind: {"log": path} for kind, path in self._paths.items()}
        options["slow"]["keep"] = True
        return {**options, "allocator": {"cpus": 8}}

    def read(self) -> None:
        """Take in what has been written."""
        for kind, path in self._paths.items():
            for line in map(json.loads, path.read_text().splitlines()):
                event, data = line["event"], [b64decode(entry or "") for entry in line["seen"]]
                types = SHOWN.get(event, (m.PodSandbox if event.endswith("Sandbox") else m.Container,))
                shown = tuple(kind.FromString(entry) for kind, entry in zip(types, data, strict=True))
                self.seen[kind, line["request"], event] = shown


@contextmanager
def attached(side: Side, folder: Path, threads: int) -> Iterator[Records]:
    """The plugins at a side, and what they are shown; to be read at the end."""
    folder.mkdir()
    plugins = [(idx, kind) for idx, kind in CREW if threads == 1 or kind != "allocator"]
    records = Records(folder, [kind for _, kind in plugins if kind != "allocator"])
    with crew(side, plugins, **records.options()):
        yield records
    records.read()


def in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run all at once; the first error is raised."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(work,)) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for error in errors:
        raise error


def tell(side: Side, seed: int, threads: int, requests: int, *, tame: bool, late: int) -> list[list[Exchange]]:
    """The stories of one seed as they go at a side, each in a thread of its own."""
    messages: list[list[Exchange]] = [[] for _ in range(threads)]
    with ExitStack() as stack:
        stories = [
            Story(
                stack.enter_context(Oracle()),
                f"{seed}-{number}",
                tame=tame,
                late_ms=LATE_MS,
                late=late if threads == 1 else 0,
            )
            for number in range(threads)
        ]

        def work(story: Story, exchanges: list[Exchange]) -> None:
            for _ in range(requests // threads):
                request = story.next()
                outcome = side.send(request)
                story.done(request, outcome)
                exchanges.append(Exchange(request, outcome))

        in_threads([lambda pair=pair: work(*pair) for pair in zip(stories, messages, strict=True)])  # type: ignore[misc]
    return messages


def retell(side: Side, messages: list[list[Exchange]]) -> list[list[Outcome]]:
    """The same requests at another side."""
    outcomes: list[list[Outcome]] = [[] for _ in messages]

    def work(exchanges: list[Exchange], results: list[Outcome]) -> None:
        results += [side.send(exchange.request) for exchange in exchanges]

    in_threads([lambda pair=pair: work(*pair) for pair in zip(messages, outcomes, strict=True)])  # type: ignore[misc]
    return outcomes
