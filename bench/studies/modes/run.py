"""`python -m bench modes`: no agent, and the agent by NRI, as CRI proxy and standalone, with the same pods in turns.

As root. A cluster of one node (etcd, kube-apiserver, kubelet, containerd 2.4) with Koordinator's rules in its API. In
each round, in each mode: some pods one after the other, then ten at once; in as many rounds as --full says, also 110 at
once. Prints tables; with --write they go into bench/RESULTS.md, with a picture.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import time
from contextlib import ExitStack

from bench.report import HERE, put
from bench.studies.modes import tables
from bench.studies.modes.agents import MODES, NONE, Agent, in_mode
from bench.studies.modes.measured import Batch, Mode, Rest, together
from bench.studies.modes.node import BenchNode, bench_node
from bench.studies.modes.picture import picture
from bench.studies.modes.segment import Values, live
from tests.peers.drivers import LineProcess
from tools.runtimes.machine import MissingError

#: Numbers of pods that are made at once, in addition to those made one after the other.
FEW, MANY = 10, 110
#: How long the agent is left alone to see what it uses when nothing happens, in seconds.
REST_S = 20.0
#: How long what is still going on has to come to its end, in seconds: its watches, and the kubelet's looks at new pods.
SETTLE_S, LOOKS_S = 1.0, 20.0


class Bench:
    """The whole run: a node, and what was measured by mode."""

    def __init__(self, node: BenchNode, watcher: LineProcess, options: argparse.Namespace) -> None:
        self.node, self.options = node, options
        self.values = Values(watcher)
        self.modes: dict[str, Mode] = {name: Mode() for name in options.modes}
        self._numbers = itertools.count()
        self._folders = itertools.count()

    def round(self, number: int) -> None:
        """Every mode once, each time in another order."""
        names = list(self.modes)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if self.modes[name].failure:
                continue
            began = time.monotonic()
            try:
                self._in_mode(name, full=number < self.options.full)
            except (
                RuntimeError,
                AssertionError,
                OSError,
            ) as error:  # of this mode: the others are measured all the same
                if name == NONE:
                    raise
                self.modes[name].failure = str(error)
                self.node.clear()
            _say(f"round {number + 1} of {self.options.rounds}: {name}, {time.monotonic() - began:.0f} s")

    def _in_mode(self, name: str, *, full: bool) -> None:
        mode = self.modes[name]
        folder = self.node.cluster.runtime.run_dir / f"a{next(self._folders)}"
        calls = self.node.calls_until_now()
        with in_mode(name, self.node, folder, compiled=self.options.compiled) as agent:
            if agent is not None:
                mode.start_ms.append(agent.cpu_ms())
                time.sleep(SETTLE_S)  # its watches begin
                mode.start_calls.append(self.node.calls_until_now() - calls)
                if full:
                    self._measure_at_rest(mode, agent, 0)
            singles = [self._batch(agent, 1) for _ in range(self.options.singles)]
            mode.batches.setdefault(1, []).append(together(singles))
            for count in (FEW, *((MANY,) if full else ())):
                self.node.clear()
                mode.batches.setdefault(count, []).append(self._batch(agent, count))
            if full and agent is not None:
                time.sleep(LOOKS_S)
                self._measure_at_rest(mode, agent, MANY)
            self.node.clear()

    def _batch(self, agent: Agent | None, count: int) -> Batch:
        return live(self.node, agent, self.values, list(itertools.islice(self._numbers, count)))

    def _measure_at_rest(self, mode: Mode, agent: Agent, pods: int) -> None:
        """Look at the agent when nothing happens."""
        cpu, calls_before = agent.cpu_ms(), self.node.calls_until_now()
        time.sleep(REST_S)
        calls = (self.node.calls_until_now() - calls_before).total()
        mode.rests.append(Rest(pods, (agent.cpu_ms() - cpu) / REST_S, calls / REST_S, *agent.memory_mib()))


def measure(options: argparse.Namespace) -> dict[str, Mode]:
    """Measure everything."""
    with ExitStack() as stack:
        node = stack.enter_context(bench_node(_say))
        words = [sys.executable, "-m", "bench.studies.modes.watcher", node.pods_cgroup]
        watcher = stack.enter_context(LineProcess(words))
        watcher.wait_event("ready", timeout_s=30)
        bench = Bench(node, watcher, options)
        for number in range(options.rounds):
            bench.round(number)
    return bench.modes


def page(options: argparse.Namespace, modes: dict[str, Mode]) -> str:
    """The text of all tables."""
    about = (
        f"{options.rounds} interleaved rounds ({options.full} with {MANY} pods), {time.strftime('%Y-%m-%d')}, "
        f"{'the compiled package' if options.compiled else 'pure Python'}, CPython {platform.python_version()}, "
        f"Linux {platform.release().split('-')[0]}, {os.cpu_count()} cores that everything shares: etcd, "
        "kube-apiserver 1.34, kubelet, containerd 2.4, the pods and the agent."
    )
    parts = [about, "![From the request for a pod to its policy in force](modes.svg)"]
    parts += ["### Pods, to the first instruction and to the policy in force", tables.lives(modes)]
    parts += ["### The agent", tables.agents(modes)]
    failures = [f"- {name}: {mode.failure.splitlines()[0]}" for name, mode in modes.items() if mode.failure]
    if failures:
        parts += ["### What could not be measured", "\n".join(failures)]
    return "\n\n".join(parts) + "\n"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench modes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--full", type=int, default=1, help=f"rounds with {MANY} pods at once, too (default 1)")
    parser.add_argument("--singles", type=int, default=6, help="pods one after the other, in each round and mode")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), metavar="MODE")
    parser.add_argument("--compiled", action="store_true", help="the agent with the compiled package")
    parser.add_argument("--write", action="store_true", help="put the tables into bench/RESULTS.md, with a picture")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    options = parser().parse_args(arguments)
    if NONE not in options.modes:
        parser().error(f'"{NONE}" must be among the modes: all ratios are to it')
    try:
        modes = measure(options)
    except MissingError as error:
        _say(f"bench: error: {error}")
        return 2
    text = page(options, modes)
    print(text)
    for name, mode in modes.items():
        if mode.failure:
            _say(f"{name}: {mode.failure}")
    if options.write:
        put("modes", text)
        (HERE / "modes.svg").write_text(picture(modes))
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
