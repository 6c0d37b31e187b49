"""The calls of one CreateContainer in the package: every Python call below `nri/` on the caller's thread, as a tree.

    python tools/way_of_an_event.py                          the runtime's side, with one plugin
    python tools/way_of_an_event.py --side plugin            the plugin's side of the same event
    python tools/way_of_an_event.py --through call           only the call to the plugin
    python tools/way_of_an_event.py --through fake-runtime   as a test calls it, with everything that it checks

The adaptation, the plugin and the socket pair between them are real. Events differ a little (a record is sorted now
and then, a read waits or does not), so several are profiled and the median counts. A comprehension is part of its
function. Only the pure build can be profiled.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import nri
from nri.mux import trunk
from nri.testing import FakeRuntime, make_container, make_pod

PACKAGE = Path(nri.__file__).parent
#: The number of profiled events, after as many unprofiled ones, which create what is made only once.
EVENTS = 9

_INSIDE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
#: With this a plugin's thread begins each round.
READ = "Trunk.receive"


class Call(NamedTuple):
    """One call: how deep below the first one, the function, its file as `nri/...`, its first line."""

    depth: int
    function: str
    file: str
    line: int


class Profile:
    """Notes the calls of the package's functions in the thread that it is set for with `sys.setprofile`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._depth = 0
        self._files: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or code.co_name in _INSIDE:
            return
        file = self._files.get(code.co_filename)
        if file is None:
            path = Path(code.co_filename)
            inside = path.is_relative_to(PACKAGE)
            file = self._files[code.co_filename] = path.relative_to(PACKAGE.parent).as_posix() if inside else ""
        if not file:
            return
        if event == "return":  # also of a function that was called before this was set
            self._depth = max(0, self._depth - 1)
            return
        self.calls.append(Call(self._depth, code.co_qualname, file, code.co_firstlineno))
        self._depth += 1

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """Record the calls of this thread."""
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)


class PodName(nri.Plugin):
    """Tell every container which pod it runs in; and note what the plugin's own thread calls meanwhile."""

    def __init__(self, profile: Profile | None = None) -> None:
        self.profile = profile
        self.marks: list[int] = []

    def configure(self) -> None:
        sys.setprofile(self.profile)

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if self.profile is not None:
            self.marks.append(len(self.profile.calls))
        return nri.Adjustment().add_env("POD_NAME", pod.name)


def _as_runtimes_do(runtime: FakeRuntime, pod: nri.PodSandbox, container: nri.Container) -> None:
    """What docs/howto/runtime.md has a runtime do."""
    with runtime.adaptation.block_sync():
        reply = runtime.adaptation.create_container(pod, container)
        assert reply.adjust.env[0].key == "POD_NAME", "the plugin has not answered"
        reply.commit()


def _call(runtime: FakeRuntime, pod: nri.PodSandbox, container: nri.Container) -> None:
    runtime.adaptation.create_container(pod, container)


def _as_tests_do(runtime: FakeRuntime, pod: nri.PodSandbox, container: nri.Container) -> None:
    runtime.create_container(pod, container)


THROUGH: dict[str, Callable[[FakeRuntime, nri.PodSandbox, nri.Container], None]] = {
    "adaptation": _as_runtimes_do,
    "call": _call,
    "fake-runtime": _as_tests_do,
}


def runtime_ways(through: str = "adaptation") -> list[list[Call]]:
    """The calls of each of some CreateContainer events in the thread that asks."""
    ways = []
    with FakeRuntime() as runtime:
        runtime.add(PodName())
        for number in range(2 * EVENTS):
            pod = make_pod(name="web")
            container = make_container(pod=pod)
            profile = Profile()
            for _ in range(2):  # in a stream of events, as on a busy node: alone, it would also wake the monitor
                THROUGH[through](runtime, pod, make_container(pod=pod))
            with profile.of_this_thread():
                THROUGH[through](runtime, pod, container)
            if number >= EVENTS:
                ways.append(profile.calls)
    return ways


def plugin_ways() -> list[list[Call]]:
    """The same in the plugin's thread: from one read to the next."""
    profile = Profile()
    plugin = PodName(profile)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        for _ in range(2 * EVENTS):
            runtime.create_container(make_pod(name="web"))
    reads = [at for at, call in enumerate(profile.calls) if call.function == READ]
    answered = [
        profile.calls[start:end] for start, end in pairwise(reads) if any(start < at <= end for at in plugin.marks)
    ]
    return answered[EVENTS:]


def show(calls: list[Call]) -> str:
    """The tree, and the sum of it in the last line."""
    least = min(call.depth for call in calls)
    lines = [f"{'  ' * (call.depth - least)}{call.function}  {call.file}:{call.line}" for call in calls]
    return "\n".join([*lines, f"{len(calls)} calls in {len({call.file for call in calls})} files"])


def main(arguments: list[str]) -> int:
    """Print the way of the event."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--side", choices=["runtime", "plugin"], default="runtime", help="whose thread")
    parser.add_argument("--through", choices=THROUGH, default="adaptation", help="how the runtime asks")
    options = parser.parse_args(arguments)
    if not str(trunk.__file__).endswith(".py"):
        print("way_of_an_event: error: this is the compiled build, whose calls cannot be seen", file=sys.stderr)
        return 2
    ways = plugin_ways() if options.side == "plugin" else runtime_ways(options.through)
    calls = sorted(ways, key=len)[len(ways) // 2]
    print(show(calls))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
