"""Profile rubik on real containers of containerd 2.4 and our engine, with pods from NRI alone.

What a machine does is read from the kernel. Its processors are those of this machine; how busy they are is a file of
the test's, because nobody knows what else runs here.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri import host
from tests.agent.node import AgentProgram, Node, machine
from tests.agent.test_nri import engine, running  # noqa: F401  (a fixture)
from tests.support.waiting import wait_for
from tools.runtimes.cri import Pod
from tools.runtimes.mounts import unmount

BURN = ("sh", "-c", "while :; do :; done")
#: Two hundredths of a CPU: used up also where many others want to run.
QUOTA, PERIOD = 2000, 100_000


@pytest.fixture(params=["containerd", "engine"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """A node of either runtime without pods."""
    if request.param == "containerd":
        daemon: Any = request.getfixturevalue("daemon")
        running(daemon)
        yield Node(daemon, request.getfixturevalue("root"), tmp_path / "agent")
        daemon.cri.remove_all()
        return
    own_part = request.getfixturevalue("engine")
    running(own_part)
    with machine(own_part.run_dir / "host", own_part.run_dir.name) as root:
        yield Node(own_part, root, tmp_path / "agent")
        own_part.cri.remove_all()


def agent_of(node: Node, more: str = "", **blocks: Any) -> AgentProgram:
    """An agent with these services of rubik's."""
    configure(node, **blocks)
    gates = "".join(f"{name} = true\n" for name in blocks)
    agent_program = AgentProgram(node, "nri,standalone", f"\n[gates]\n{gates}", pods="nri")
    file = node.folder / "agent.toml"
    text = file.read_text().replace("/nowhere", str(node.daemon.cri_socket))
    file.write_text(f'profile = "rubik"\n{more}{text}')
    return agent_program


def configure(node: Node, **blocks: Any) -> None:
    """Give the agent rubik's configuration file."""
    text = json.dumps({"agent": {"informerType": "nri", "enabledFeatures": list(blocks)}, **blocks})
    (node.rules / "config.json.new").write_text(text)
    (node.rules / "config.json.new").rename(node.rules / "config.json")


def run(node: Node, name: str, **annotations: str) -> tuple[Pod, str]:
    """Run a pod that burns CPU under a small CPU quota."""
    words = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    pod = node.run_pod(name, "Burstable", annotations=words)
    number = node.daemon.cri.run(pod, "app", BURN, cpu_quota=QUOTA, cpu_period=PERIOD)
    return pod, f"{pod.config.linux.cgroup_parent.strip('/')}/{number}"


def value(folder: str, knob: str) -> Any:
    """A knob of a cgroup, as the kernel has it."""
    return host.Writer(host.detect(host.Root("/")), refresh_s=0).read(folder, knob)


@contextlib.contextmanager
def idle(node: Node) -> Iterator[None]:
    """A machine whose processors have nothing to do, as the agent sees it."""
    file, stop = node.folder / "stat", threading.Event()

    def pass_by() -> None:
        ticks = 1000
        while not stop.wait(0.02):
            ticks += 4
            (node.folder / "stat.new").write_text(f"cpu 1000 0 0 {ticks} 0 0 0 0 0 0\n")
            file.write_text((node.folder / "stat.new").read_text())

    file.write_text("cpu 1000 0 0 1000 0 0 0 0 0 0\n")
    target = node.root / "proc/stat"
    subprocess.run(["mount", "--bind", str(file), str(target)], check=True, timeout=10)
    thread = threading.Thread(target=pass_by, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        unmount(target)


def test_a_throttled_container_gets_more_quota_on_an_idle_node_until_the_agent_ends(place: Node) -> None:
    with idle(place), agent_of(place, quotaTurbo={"syncInterval": 100}) as agent:
        _, turbo = run(place, "turbo", quota_turbo="true")
        _, plain = run(place, "plain")
        wait_for(lambda: value(turbo, "cpu.cfs_quota") > QUOTA, agent.story)
        message = [row for row in agent.explain("turbo")["values"] if row["container"]]
        assert [(row["hook"], row["field"]) for row in message] == [("quotaTurbo", "cpu.cfs_quota")]
        assert "the limit is 0.02 CPUs" in message[0]["reason"]
        assert value(plain, "cpu.cfs_quota") == QUOTA
        agent.stop()
        assert value(turbo, "cpu.cfs_quota") == QUOTA


def test_an_offline_pod_has_low_priority_from_its_creation(place: Node) -> None:
    with agent_of(place, preemption={"resource": ["cpu", "memory"]}) as agent:
        batch, work = run(place, "batch", preemptable="true")
        _, web = run(place, "web")
        pod = batch.config.linux.cgroup_parent.strip("/")
        wait_for(lambda: value(pod, "cpu.idle") == 1, agent.story)
        assert (value(work, "cpu.shares"), value(web, "cpu.shares") > 2, value(web, "cpu.idle")) == (2, True, 0)
        scores = [
            Path(f"/proc/{place.pid(folder.rpartition('/')[2])}/oom_score_adj").read_text() for folder in (work, web)
        ]
        assert scores[0] == "1000\n" != scores[1]


def test_a_burst_follows_the_annotation_and_ends_with_the_service(place: Node) -> None:
    with agent_of(place, quotaBurst=None) as agent:
        pod, burst = run(place, "burst", quota_burst_time="1000")
        _, bad = run(place, "bad", quota_burst_time="soon")
        wait_for(lambda: value(burst, "cpu.cfs_burst") == 1000, agent.story)
        wait_for(lambda: value(pod.config.linux.cgroup_parent.strip("/"), "cpu.cfs_burst") in (0, 1000), agent.story)
        wait_for(lambda: "'soon' is not a number of microseconds" in agent.story(), agent.story)
        assert value(bad, "cpu.cfs_burst") == 0
        configure(place)
        wait_for(lambda: value(burst, "cpu.cfs_burst") == 0, agent.story)


def test_block_io_limits_hold_per_disk_until_the_service_is_removed(place: Node) -> None:
    disk = next(iter(sorted(Path("/sys/block").glob("*/dev")))).read_text().strip()
    requested = json.dumps({"device_write_iops": [{"device": disk, "value": "7"}]})
    with agent_of(place, ioLimit=None) as agent:
        _, limited = run(place, "limited", blkio_limit=requested)
        wait_for(lambda: value(limited, "io.write_iops") == {disk: 7}, agent.story)
        configure(place)
        wait_for(lambda: value(limited, "io.write_iops").get(disk, -1) == -1, agent.story)


@pytest.mark.parametrize("preview", [True, False], ids=["preview", "for real"])
def test_only_offline_pods_are_evicted_when_memory_is_full(place: Node, preview: bool) -> None:
    more = 'preview = ["memoryevict"]\n' if preview else ""
    service = {"threshold": 1, "interval": 1}
    agent = agent_of(place, more, memoryevict=service)
    configure(place)
    with agent:
        _, offline = run(place, "offline", preemptable="true")
        _, online = run(place, "online")
        pids = [place.pid(folder.rpartition("/")[2]) for folder in (offline, online)]
        configure(place, memoryevict=service)

        def recorded_evictions() -> list[tuple[str, str]]:
            known_entry = any(row["name"] == "offline" for row in agent.ask("/explain")["pods"])
            rows = agent.explain("offline")["values"] if known_entry else []
            return [(row["hook"], row["value"]) for row in rows if row["field"] == "eviction"]

        if preview:
            wait_for(lambda: recorded_evictions() == [("memoryevict", "would be")], agent.story)
        else:
            wait_for(lambda: not Path(f"/proc/{pids[0]}").exists(), agent.story)
            wait_for(lambda: recorded_evictions() == [("memoryevict", "asked")], agent.story)
        assert [Path(f"/proc/{pid}").exists() for pid in pids] == [preview, True]


def test_both_profiles_run_in_one_process_and_explain_names_the_profile_of_each_value(place: Node) -> None:
    disk = next(iter(sorted(Path("/sys/block").glob("*/dev")))).read_text().strip()
    limits = json.dumps({"device_write_iops": [{"device": disk, "value": "7"}]})
    spec = json.dumps({"containers": {"app": {"limits": {"kubernetes.io/batch-cpu": "500"}}}})
    agent = AgentProgram(place, "nri,standalone", pods="nri")
    config = place.folder / "config.json"
    config.write_text(json.dumps({"agent": {"informerType": "nri", "enabledFeatures": ["ioLimit"]}}))
    agent.more = ("--profile", "koordinator", "--profile", "rubik", "--config", str(config))
    with agent:
        labels = {"koordinator.sh/qosClass": "BE"}
        words = {"volcano.sh/blkio-limit": limits, "node.koordinator.sh/extended-resource-spec": spec}
        pod = place.run_pod("both", "BestEffort", annotations=words, labels=labels)
        number = place.daemon.cri.run(pod, "app", BURN)
        folder = f"{pod.config.linux.cgroup_parent.strip('/')}/{number}"
        assert value(folder, "cpu.cfs_quota") == 50_000
        wait_for(lambda: value(folder, "io.write_iops") == {disk: 7}, agent.story)
        message = {row["hook"] for row in agent.explain("both")["values"]}
        agent.socket = agent.socket.replace("agent.sock", "agent-rubik.sock")
        assert (message, {row["hook"] for row in agent.explain("both")["values"]}) == ({"BatchResource"}, {"ioLimit"})
