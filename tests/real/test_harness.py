"""The private containerd of the tests leaves nothing, even if its owner is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nri.cri.pb import api_pb2 as pb
from tests.real.conftest import HERE, Start
from tools.runtimes import Installed, leftovers

ROOT = HERE.parents[1]
# An owner that starts a containerd with a container on a pod network, prints the run directory, and waits.
OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
from tools.runtimes import Containerd, install
daemon = Containerd(install(sys.argv[2], print))
daemon.enable_pod_network()
daemon.start()
daemon.cri.run(daemon.cri.run_pod("left", own_network=True), "main")
if sys.argv[3] == "detach":
    daemon.detach()
print(daemon.run_dir, flush=True)
sys.stdin.read()
"""


def start_owner(key: str, how: str) -> tuple[subprocess.Popen[str], Path]:
    """Another process with a separate containerd, and its run directory."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(ROOT), key, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    return owner, Path(owner.stdout.readline().strip())


def end(owner: subprocess.Popen[str]) -> None:
    """Kill the owner, so that it cannot clean up."""
    owner.kill()
    owner.communicate()


def traces(run_dir: Path) -> list[str]:
    """Everything of that run that is still there."""
    name = run_dir.name
    texts = [str(path) for path in (run_dir, Path("/sys/class/net", name)) if path.exists()]
    texts += leftovers.cgroup_dirs(name)
    texts += map(str, leftovers.cni_results(run_dir))
    return texts + [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line]


def test_a_sweep_removes_leftovers_of_a_killed_owner(key: str, installed: Installed) -> None:
    owner, run_dir = start_owner(key, "own")
    try:
        assert leftovers.is_owned(run_dir)
        assert run_dir not in leftovers.sweep(), "a live owner's runtime must be left alone"
    except BaseException:
        end(owner)
        raise
    with leftovers.alone():  # else tests that run at the same time may sweep it away
        end(owner)
        assert traces(run_dir), "the test shows nothing: there were no traces"
        assert leftovers.cni_results(run_dir), "the test shows nothing of what CNI remembers"
        assert run_dir in leftovers.sweep_alone()
    assert traces(run_dir) == []


def test_closing_a_runtime_removes_the_sockets_of_its_shims(start: Start) -> None:
    daemon = start()
    daemon.cri.run(daemon.cri.run_pod("socketed"), "main")
    sockets = leftovers.shim_sockets(daemon.run_dir)
    assert sockets and all(path.exists() for path in sockets)
    daemon.close()
    assert not [path for path in sockets if path.exists()]


def test_a_sweep_keeps_detached_runtimes(key: str, installed: Installed) -> None:
    owner, run_dir = start_owner(key, "detach")
    end(owner)
    try:
        assert run_dir not in leftovers.sweep()
        assert traces(run_dir)
    finally:
        leftovers.remove(run_dir)
    assert traces(run_dir) == []


def test_a_closed_runtime_leaves_no_trace(start: Start) -> None:
    daemon = start(prepare=lambda new: new.enable_pod_network())
    daemon.cri.run(daemon.cri.run_pod("gone", own_network=True), "main")
    daemon.close()
    assert traces(daemon.run_dir) == []


def test_pods_of_two_runs_have_separate_addresses(start: Start) -> None:
    """The machine has one routing table: with a shared network, packets reached the pod of another run."""
    daemons = [start(prepare=lambda new: new.enable_pod_network()) for _ in range(2)]
    for daemon in daemons:
        pod = daemon.cri.run_pod("reached", own_network=True)
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id)
        address = daemon.cri.call("PodSandboxStatus", request).status.network.ip
        ran = subprocess.run(["ip", "-o", "route", "get", address], capture_output=True, text=True, check=True)
        assert f" dev {daemon.run_dir.name} " in ran.stdout
