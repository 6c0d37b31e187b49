"""Churn of both profiles in one process: `python -m tests.agent.churn --minutes 60 [--seed N]`, as root.

Pods come, change and go in random order, on a real containerd; rubik's file changes, also to one with a mistake; values
are overwritten by another program; agent and runtime are killed. After each step a model has the expected values:
quotas of batch pods by Koordinator's rules, limits of block I/O and bursts by rubik's. At the end nothing may be left,
and memory must have stayed flat. The first line names the seed, which gives the same steps again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from nri import host
from tests.agent.node import REQUEST_S, AgentProgram, Node, machine
from tests.agent.pods import BE, EXTENDED, containerd
from tests.support.waiting import wait_for
from tools.runtimes.config import DaemonSettings
from tools.runtimes.cri import Pod

SERVICES: Final = ("ioLimit", "quotaBurst")
BURN: Final = ("sh", "-c", "while :; do :; done")
PERIOD: Final = 100_000
#: Steps of a life of the agent that say whether its memory is flat; the first ones fill what it keeps.
ENOUGH, WARM = 80, 20
#: By so much the memory of the last quarter of a life may be above that of its second one.
MORE: Final = 1.15
_SHORTEST: Final = 12


class Made(NamedTuple):
    """A pod with one container, and what it asks for: quotas as the kubelet gives them, limits as annotations say."""

    pod: Pod
    container: str
    folder: str
    quota: int
    batch: bool
    iops: int
    burst: int

    def wanted(self, disk: str, services: Sequence[str]) -> dict[str, Any]:
        """The model: what is in force when these services are on."""
        return {
            "cpu.cfs_quota": self.quota,
            "cpu.cfs_burst": self.burst if "quotaBurst" in services else 0,
            f"io.write_iops of {disk}": self.iops if self.iops and "ioLimit" in services else -1,
        }


class Churn:
    """Pods on a node whose agent has both profiles.

    Args:
        node: without pods.
        seed: of all that is random.
    """

    def __init__(self, node: Node, seed: int) -> None:
        self.node, self.random = node, random.Random(seed)
        self.disk = min(Path("/sys/block").glob("*/dev")).read_text().strip()
        self.pods: list[Made] = []
        self.services: tuple[str, ...] = SERVICES
        self.rules = node.folder / "rubik"
        self.rules.mkdir()
        self._text = ""
        self.agent = AgentProgram(node, "nri,standalone", pods="nri")
        self._settings()
        self.configure(SERVICES)
        self._made = 0
        #: Megabytes after each step, by life of the agent.
        self.memory: list[list[float]] = []
        self.steps: dict[str, int] = {}

    def _settings(self) -> None:
        own_part, foreign_file = (self.node.folder / f"{name}.toml" for name in ("koordinator", "own"))
        own_part.write_text('profile = "koordinator"\n[gates]\nCPUBurst = false\n')
        gates = "".join(f"{name} = true\n" for name in SERVICES)
        foreign_file.write_text(
            f'profile = "rubik"\n[rules]\nsource = "files"\npath = "{self.rules}"\n[gates]\n{gates}'
        )
        profiles = ("--profile", "koordinator", "--profile", "rubik")
        self.agent.more = (*profiles, "--config", str(own_part), "--config", str(foreign_file))

    def configure(self, services: Sequence[str]) -> None:
        """Give rubik's profile a file that switches these on."""
        self.services = tuple(services)
        self._file(json.dumps({"agent": {"informerType": "nri", "enabledFeatures": list(services)}}))

    def _taken(self) -> int:
        """How often the agent has said what has become of rubik's file."""
        return self.agent.log.read_text().count("RubikConfiguration of ")

    def _file(self, text: str) -> None:
        self._text = text
        (self.rules / "new").write_text(text)
        (self.rules / "new").rename(self.rules / "config.json")

    # -- steps --------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """A pod comes: of batch, with limits, or with neither."""
        choose = self.random
        self._made += 1
        batch, quota = choose.random() < 0.4, 1000 * choose.randint(2, 9)
        words: dict[str, str] = {}
        iops = choose.choice([0, choose.randint(1, 5000)])
        if iops:
            limits = {"device_write_iops": [{"device": self.disk, "value": str(iops)}]}
            words["volcano.sh/blkio-limit"] = json.dumps(limits)
        burst = 0 if batch else choose.choice([0, 100 * choose.randint(1, quota // 100)])
        if burst:
            words["volcano.sh/quota-burst-time"] = str(burst)
        if batch:
            spec = {"containers": {"app": {"limits": {"kubernetes.io/batch-cpu": str(quota // 100)}}}}
            words[EXTENDED] = json.dumps(spec)
        kind = "BestEffort" if batch else "Burstable"
        labels: Mapping[str, str] = BE if batch else {}
        pod = self.node.run_pod(f"churn-{self._made}", kind, annotations=words, labels=labels)
        options = {} if batch else {"cpu_quota": quota, "cpu_period": PERIOD}
        command = BURN if choose.random() < 0.3 else ("sleep", "100000")
        number = self.node.daemon.cri.run(pod, "app", command, **options)
        folder = f"{pod.config.linux.cgroup_parent.strip('/')}/{number}"
        self.pods.append(Made(pod, number, folder, quota, batch, iops, burst))

    def remove(self) -> None:
        """A pod goes."""
        self.node.remove_pod(self.pods.pop(self.random.randrange(len(self.pods))).pod)

    def resize(self) -> None:
        """The kubelet asks for another quota: a batch pod's stays as it is."""
        place = self.random.randrange(len(self.pods))
        created = self.pods[place]
        quota = max(created.burst, 1000 * self.random.randint(2, 9))
        self.node.daemon.cri.update(created.container, cpu_quota=quota, cpu_period=PERIOD)
        if not created.batch:
            self.pods[place] = created._replace(quota=quota)

    def overwrite(self) -> None:
        """Somebody else writes a batch pod's quota."""
        for created in self.pods:
            if created.batch:
                self.node.overwrite(created.pod, "cpu.cfs_quota_us", "-1")
                return

    def reload(self) -> None:
        """Rubik's file changes: other services, or a mistake, with which the last good one stays.

        The agent looks once a second: a file that another one takes the place of before that was never in force.
        """
        before, accepted = self._text, self._taken()
        if self.random.random() < 0.3:
            self._file('{"agent": {"enabledFeatures": ["ioLimits"]}}')
        else:
            self.configure(sorted(self.random.sample(SERVICES, self.random.randint(0, len(SERVICES)))))
        if self._text != before:
            wait_for(lambda: self._taken() > accepted, lambda: f"the file is not taken in\n{self.agent.story()}")

    def kill_agent(self) -> None:
        """The agent is killed, and comes back."""
        self.configure(self.services)  # the last good file is what an agent remembers, and a new one does not
        self.agent.kill()
        self.start()

    def restart_agent(self) -> None:
        """The agent is stopped, and comes back."""
        self.configure(self.services)
        assert self.agent.stop() == 0, self.agent.story()
        self.start()

    def kill_runtime(self) -> None:
        """The runtime is killed, and comes back; containers run on."""
        self.node.daemon.kill()
        self.node.daemon.start()
        self.agent.wait_ready()

    # -- a run --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the agent, for a new life of it."""
        self.agent.start()
        self.memory.append([])

    def step(self, maximum: int, kills: bool) -> str:
        """One random step, and the wait until the model's values are in force; returns the step's name."""
        often = [self.create] * 4 + [self.resize, self.overwrite, self.reload]
        often += [self.remove] * (4 if len(self.pods) < maximum else 12)
        seldom: list[Callable[[], None]] = [self.kill_agent, self.restart_agent, self.kill_runtime]
        chosen = self.random.choice(seldom if kills else often) if self.pods else self.create
        chosen()
        name = chosen.__name__
        self.steps[name] = self.steps.get(name, 0) + 1
        wait_for(lambda: not self.wrong(), lambda: f"{name}: {self.wrong()}\n{self.agent.story()}")
        self.memory[-1].append(_megabytes(self.agent.pid))
        return name

    def wrong(self) -> list[str]:
        """What is not in force that should be."""
        writer = host.Writer(host.detect(host.Root("/")), refresh_s=0)
        collected = []
        for created in self.pods:
            devices = writer.read(created.folder, "io.write_iops")
            number = devices.get(self.disk, -1) if isinstance(devices, Mapping) else -1
            has = {knob: writer.read(created.folder, knob) for knob in ("cpu.cfs_quota", "cpu.cfs_burst")}
            has[f"io.write_iops of {self.disk}"] = number
            expected = created.wanted(self.disk, self.services)
            name = created.pod.config.metadata.name
            collected += [
                f"{name}: {knob} is {has[knob]}, not {expected[knob]}" for knob in has if has[knob] != expected[knob]
            ]
        return collected

    def end(self) -> None:
        """Have all pods go, and the agent; nothing may be left."""
        while self.pods:
            self.remove()
        self.kill_runtime()  # containerd does not report pods that are older than its restart, until the next restart
        folders = [
            path for path in Path(f"/proc/{self.agent.pid}/fd").iterdir() if _target(path).startswith("/sys/fs/cgroup/")
        ]
        assert folders == [], "files of cgroups that are gone are open"
        for name in (self.agent.socket, self.agent.socket.replace("agent.sock", "agent-rubik.sock")):
            self.agent.socket = name
            for what in ("nri pods", "nri containers", "waiting writes"):
                self.agent.wait_held(what, 0)
        assert self.agent.stop() == 0
        remaining = [path.name for path in self.node.folder.glob("*.sock")]
        assert remaining == [], "sockets are left"

    def grown(self) -> list[str]:
        """The lives of the agent in which its memory has grown."""
        collected = []
        for life in self.memory:
            if len(life) < ENOUGH:
                continue
            part = (len(life) - WARM) // 4
            early, late = (statistics.median(entry) for entry in (life[WARM + part : WARM + 2 * part], life[-part:]))
            if late > MORE * early:
                collected.append(f"{early:.0f} MiB became {late:.0f} in {len(life)} steps")
        return collected


def _megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def churn(node: Node, seed: int, seconds: float, maximum: int, say: Callable[[str], None]) -> Churn:
    """Run one; a kill comes about every thirtieth step, and once of each kind in any case."""
    churn = Churn(node, seed)
    end, count = time.monotonic() + seconds, 0
    with churn.agent:
        churn.memory.append([])
        while time.monotonic() < end or count < _SHORTEST:
            count += 1
            name = churn.step(maximum, kills=churn.random.random() < 1 / 30)
            say(f"{count}: {name}, {len(churn.pods)} pods, {churn.memory[-1][-1]:.0f} MiB")
        for step in (churn.kill_agent, churn.kill_runtime, churn.restart_agent):
            step()
            wait_for(lambda: not churn.wrong(), lambda: f"{churn.wrong()}\n{churn.agent.story()}")
        churn.end()
    assert churn.grown() == []
    return churn


def main(arguments: Sequence[str]) -> int:
    """Run it for the given time."""
    parser = argparse.ArgumentParser(prog="python -m tests.agent.churn", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--pods", type=int, default=30, help="about as many at once")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    with ExitStack() as stack:
        daemon = stack.enter_context(containerd("2.4", settings=DaemonSettings(request_timeout_s=REQUEST_S)))
        root = stack.enter_context(machine(daemon.run_dir / "host", daemon.run_dir.name))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-churn-")))
        stack.callback(lambda: daemon.cri.remove_all())  # noqa: PLW0108  a runtime that starts again has a new client
        created = churn(Node(daemon, root, folder / "agent"), chosen.seed, 60 * chosen.minutes, chosen.pods, print)
    lives = ", ".join(f"{len(life)} steps to {life[-1]:.0f} MiB" for life in created.memory if life)
    print(f"{created.steps}; lives of the agent: {lives}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
