"""Our plugin in the benchmarks: the replies of bench/peers/go/cmd/benchpl, by the public API.

Lines and commands are those of bench/peers/README.md. It answers `usage` in a thread that sleeps until it is asked.
"""

from __future__ import annotations

import os
import sys
import time

import nri

DELAY_S = int(os.environ.get("BENCH_DELAY_MS", "0")) / 1e3


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


class Bench(nri.Plugin):
    """The benchmarks' plugin."""

    events = 0
    first = True

    def configure(self) -> None:
        # Written by hand: importing json would be counted as a part of the start.
        say(f'{{"event": "configured", "ns": {time.clock_gettime_ns(time.CLOCK_MONOTONIC)}}}')
        Bench.first = OPTIONS.index == "00"

    def synchronize(self, pods, containers) -> None:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        say(f'{{"event": "synchronized", "ns": {now}, "pods": {len(pods)}, "containers": {len(containers)}}}')

    def start_container(self, pod, container) -> None:
        if DELAY_S:
            time.sleep(DELAY_S)
        if not container.name:
            raise ValueError("a container without a name")
        self.events += 1

    post_start_container = start_container

    def create_container(self, pod, container) -> nri.Adjustment:
        self.start_container(pod, container)
        adjustment = nri.Adjustment()
        if not self.first:
            index = OPTIONS.index
            adjustment.add_unified(f"bench.{index}.first", "1000000")
            return adjustment.add_unified(f"bench.{index}.second", "2000000")
        adjustment.add_env("BENCH_FIRST", "the first value that the plugin adds")
        adjustment.add_env("BENCH_SECOND", "the second value that the plugin adds")
        options = ["rbind", "ro", "nosuid", "nodev"]
        adjustment.add_mount("/bench/mount", source="/var/lib/bench/source", type="bind", options=options)
        adjustment.add_annotation("bench.example.com/annotation", "the annotation's value")
        return adjustment.set_cpu_shares(512).set_memory_limit(512 << 20)


def answer_usage(plugin_class: type[Bench]) -> None:
    """Answer each line of stdin with what this process has used."""
    import json
    import resource

    for line in sys.stdin:
        with open("/proc/self/status") as status:
            sizes = {
                key: int(value.split()[0])
                for key, _, value in (row.partition(":") for row in status)
                if key in ("VmRSS", "VmHWM")
            }
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_ns = int((used.ru_utime + used.ru_stime) * 1e9)
        reply = {"cpu_ns": cpu_ns, "rss_kb": sizes["VmRSS"], "peak_kb": sizes["VmHWM"]}
        say(json.dumps({"id": json.loads(line).get("id"), "ok": True, "reply": reply}))
    os._exit(0)


if __name__ == "__main__":
    from nri.stub.program.options import parse
    from nri.stub.program.start import run

    arguments = sys.argv[1:]
    idle = "--no-usage" in arguments  # measuring the start: no second thread
    OPTIONS = parse([a for a in arguments if a != "--no-usage"], os.environ, sys.argv[0], "bench")
    OPTIONS.no_reconnect = True
    if not idle:
        from _thread import start_new_thread

        start_new_thread(answer_usage, (Bench,))
    reporter = None
    if os.environ.get("BENCH_RECORDER"):
        from nri.trace.recorder import Recorder

        reporter = Recorder(os.environ["BENCH_RECORDER"])
    sys.exit(run(Bench, OPTIONS, reporter=reporter))
