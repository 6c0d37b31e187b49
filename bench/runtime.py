"""Our runtime in the benchmarks: the commands of bench/peers/go/cmd/benchrt, on `nri.adaptation`.

Policy, metrics and provenance are on, as in production. Lines and commands are those of bench/peers/README.md.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nri.adaptation import Adaptation
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.api.events import EventMask
from nri.metrics.prometheus import PrometheusObserver

OUT = threading.Lock()


def say(line: dict[str, Any]) -> None:
    with OUT:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def cpu_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)


def _recorder(folder: Path) -> Any:
    from nri.trace.recorder import Recorder  # a runtime that records nothing does not load it

    return Recorder(folder)


class Runtime:
    """The state and the adaptation behind the commands."""

    def __init__(self) -> None:
        self.pods: list[m.PodSandbox] = []
        self.containers: list[m.Container] = []
        self.adaptation: Adaptation | None = None

    def start(
        self, socket: str, pod: str, container: str, in_turn: bool = False, recorder: bool = False, **_: object
    ) -> None:
        self.pod = m.PodSandbox.FromString(Path(pod).read_bytes())
        self.container = m.Container.FromString(Path(container).read_bytes())
        policy = Path(socket).with_name("policy.toml")
        policy.write_text("[defaults]\nkeep_connected = true\n")
        self.adaptation = Adaptation(
            "benchrt",
            "v1.0.0",
            synchronize=lambda: (self.pods, self.containers),
            update=lambda updates: [],
            socket_path=socket,
            plugin_path="/nonexistent",
            policy_path=str(policy),
            request_timeout_s=60.0,
            registration_timeout_s=60.0,
            observer=PrometheusObserver(),
            fan_out=EventMask(0) if in_turn else None,
        )
        self.recorder = _recorder(Path(socket).with_name("traces")) if recorder else None
        self.adaptation.start()

    def state(self, containers: int, **_: object) -> None:
        def named(message: Any, i: int, kind: str) -> Any:
            copy = type(message).FromString(message.SerializeToString())
            copy.id = f"{kind}{i:063d}"
            return copy

        self.pods = [named(self.pod, i, "p") for i in range(containers // 2)]
        self.containers = [named(self.container, i, "c") for i in range(containers)]

    def wait(self, count: int, timeout_ms: int = 60000, **_: object) -> None:
        until = time.monotonic() + timeout_ms / 1000
        while sum(p.state == "active" for p in self.adaptation.plugins) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{[(p.plugin, p.state) for p in self.adaptation.plugins]}, wanted {count}")
            time.sleep(0.001)

    def round(self, kind: str, events: int, callers: int = 1, idle_us: int = 0, **more: Any) -> dict[str, Any]:
        """Events of one kind, recorded if there is a recorder, unless `recorded` is false."""
        if self.recorder is None or not more.get("recorded", True):
            return self._round(kind, events, callers, idle_us)
        reporting = parts_of(self.adaptation).reporting
        reporting.attach(self.recorder)
        try:
            return self._round(kind, events, callers, idle_us)
        finally:
            reporting.detach(self.recorder)

    def _round(self, kind: str, events: int, callers: int, idle_us: int) -> dict[str, Any]:
        call = {
            "psc": self.adaptation.post_start_container,
            "sc": self.adaptation.start_container,
            "cc": self.adaptation.create_container,
        }[kind]
        per_caller = events // callers
        results: list[list[int]] = [[] for _ in range(callers)]
        gate = threading.Barrier(callers + 1)

        def work(durations: list[int]) -> None:
            pod, container = self.pod, self.container
            clock = time.perf_counter_ns
            gate.wait()
            for _ in range(per_caller):
                if idle_us:
                    time.sleep(idle_us / 1e6)
                begin = clock()
                call(pod, container)
                durations.append(clock() - begin)

        if callers == 1:
            gate = threading.Barrier(1)
            cpu, wall = cpu_ns(), time.perf_counter_ns()
            work(results[0])
        else:
            threads = [threading.Thread(target=work, args=(durations,)) for durations in results]
            for thread in threads:
                thread.start()
            cpu, wall = cpu_ns(), time.perf_counter_ns()
            gate.wait()
            for thread in threads:
                thread.join()
        wall = time.perf_counter_ns() - wall
        return {"ns": [x for durations in results for x in durations], "wall_ns": wall, "cpu_ns": cpu_ns() - cpu}

    def node(self, containers: int, **_: object) -> None:
        """Create this many containers, two in a pod, which all stay."""
        for i in range(containers):
            pod = m.PodSandbox.FromString(self.pod.SerializeToString())
            container = m.Container.FromString(self.container.SerializeToString())
            pod.id, container.id = f"p{i // 2:063d}", f"c{i:063d}"
            container.pod_sandbox_id = pod.id
            self.adaptation.create_container(pod, container).commit()
            self.adaptation.post_create_container(pod, container)

    def usage(self, **_: object) -> dict[str, int]:
        with open("/proc/self/status") as status:
            sizes = {
                k: int(v.split()[0]) for k, _, v in (row.partition(":") for row in status) if k in ("VmRSS", "VmHWM")
            }
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "cpu_ns": int((used.ru_utime + used.ru_stime) * 1e9),
            "rss_kb": sizes["VmRSS"],
            "peak_kb": sizes["VmHWM"],
        }

    def stop(self, **_: object) -> None:
        if self.adaptation is not None:
            self.adaptation.stop()


def main() -> None:
    runtime = Runtime()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply = getattr(runtime, command.pop("cmd"))(**{k: v for k, v in command.items() if k != "id"})
            say({"id": command.get("id"), "ok": True, "reply": reply})
        except Exception as error:  # noqa: BLE001 - the driver gets an answer, whatever happens
            say({"id": command.get("id"), "ok": False, "error": f"{type(error).__name__}: {error}"})
    runtime.stop()


if __name__ == "__main__":
    main()
