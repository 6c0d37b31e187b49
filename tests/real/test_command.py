"""The commands of `nri --help`, one after the other, as a new user tries them on a real containerd."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from nri.api import naming
from tests.real.conftest import Start
from tools.runtimes import Containerd

PATIENCE_S = 30.0
#: The events that every runtime reports for a container's life, in order.
LIFE = ["RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox"]


class Command:
    """The command `nri`, with a containerd's socket, in a folder of the test's own."""

    def __init__(self, daemon: Containerd, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "nri", "--socket-path", str(self.daemon.nri_socket), *words]

    def __call__(self, *words: str, code: int = 0) -> str:
        """Run it to its end; returns what it printed as data, or, where it fails, as words."""
        result = subprocess.run(
            self.argv(*words), cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )
        assert result.returncode == code, f"nri {' '.join(words)} ended with {result.returncode}: {result.stderr}"
        return result.stderr if code == 3 else result.stdout

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[Path]:
        """Run it until the block ends, and Ctrl-C then; gives the file that it writes to."""
        out = self.folder / f"{words[0]}-{time.monotonic_ns()}.out"
        with out.open("wb") as sink:
            process = subprocess.Popen(self.argv(*words), cwd=self.folder, stdout=sink, stderr=subprocess.STDOUT)
        try:
            yield out
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(PATIENCE_S)
        assert code in (0, 130), f"nri {' '.join(words)} ended with {code}: {out.read_text()}"


def wait_for_text(out: Path, pattern: str) -> str:
    """Wait until a command has printed something like this; returns all that it printed."""
    deadline = time.monotonic() + PATIENCE_S
    while not re.search(pattern, lines := whole_lines(out.read_text())):
        assert time.monotonic() < deadline, f"no {pattern!r} in:\n{lines}"
        time.sleep(0.05)
    return lines


def whole_lines(text: str) -> str:
    """A text without a last line that is still being written."""
    return text[: text.rfind("\n") + 1]


@pytest.fixture
def nri(start: Start, tmp_path: Path) -> Command:
    return Command(start(), tmp_path)


@pytest.fixture
def plugin(nri: Command) -> Path:
    """The plugin that `nri new` makes, as it is."""
    nri("new", "pod-name")
    return nri.folder / "pod-name/pod_name.py"


def test_new_and_run_change_a_real_container(nri: Command, plugin: Path) -> None:
    with nri.running("run", str(plugin), "--idx", "10") as out:
        wait_for_text(out, "registered with containerd .* as 10-pod-name")
        nri.daemon.wait_connected("10-pod-name")
        pod = nri.daemon.cri.run_pod("walk")
        assert "POD_NAME=walk" in nri.daemon.cri.exec(nri.daemon.cri.run(pod, "main"), "/bin/env")
        wait_for_text(out, r"adding POD_NAME to main \[pod default/walk, container main\]")


def test_events_shows_existing_pods_and_containers(nri: Command) -> None:
    cri = nri.daemon.cri
    cri.run_pod("empty")
    container = cri.run(cri.run_pod("full"), "main")
    rows = [line.split() for line in nri("events").splitlines()]
    assert rows[0] == ["CONTAINER", "POD", "NAME", "STATE", "PID"]
    assert ["-", "default/empty", "-", "-", "-"] in rows, "a pod without containers"
    assert [container[:13], "default/full", "main", "running"] in [row[:4] for row in rows]
    assert nri("events", "-q").split() == [container]
    state = json.loads(nri("events", "-o", "json"))
    assert {pod["name"] for pod in state["pods"]} == {"empty", "full"}


@pytest.mark.parametrize(("words", "event_of"), [
    ((), lambda line: line.split()[1]),
    # A line that is not an entry is a warning, for example about a slow event.
    (("-o", "json"), lambda line: json.loads(line)["event"] if line.startswith("{") else ""),
], ids=["table", "json"])  # fmt: skip
def test_events_follows_the_life_of_a_container_in_order(
    nri: Command, words: tuple[str, ...], event_of: Callable[[str], str]
) -> None:
    cri = nri.daemon.cri
    with nri.running("events", "-f", *words) as out:
        wait_for_text(out, "following containerd")
        nri.daemon.wait_connected("nri-events")
        pod = cri.run_pod("walk")
        cri.stop(cri.run(pod, "main"))
        cri.remove_all()
        text = wait_for_text(out, "RemovePodSandbox")
    lines = [line for line in text.splitlines() if not line.startswith(("following", "TIME"))]
    assert [event for event in map(event_of, lines) if event in LIFE] == LIFE


def test_enable_launches_a_plugin_at_the_next_start_and_disable_removes_it(nri: Command, plugin: Path) -> None:
    daemon = nri.daemon
    folders = ("--plugin-dir", str(daemon.plugin_dir), "--config-dir", str(daemon.plugin_config_dir))
    drop_in = nri.folder / "config.yaml"
    drop_in.write_text("variable: WALKED\n")

    def variables() -> str:
        daemon.stop()
        daemon.start()
        output = daemon.cri.exec(daemon.cri.run(daemon.cri.run_pod("walk"), "main"), "/bin/env")
        daemon.cri.remove_all()
        return output

    nri("enable", str(plugin), "--idx", "10", "--config", str(drop_in), *folders)
    assert "WALKED=walk" in variables()
    nri("disable", "pod-name", "--purge", *folders)
    assert [*daemon.plugin_dir.iterdir(), *daemon.plugin_config_dir.iterdir()] == []
    assert "WALKED" not in variables()


def test_enable_refuses_a_plugin_that_would_block_the_runtimes_start(nri: Command) -> None:
    broken = nri.folder / "broken.py"
    broken.write_text(
        "import nri\n\n\nclass P(nri.Plugin):\n    def start_container(self, pod, container): ...\n\n\n"
        "import nothing_of_that_name\n\nP.main()\n"
    )
    nri("enable", str(broken), "--idx", "10", "--plugin-dir", str(nri.daemon.plugin_dir), code=1)
    assert list(nri.daemon.plugin_dir.iterdir()) == []


def test_call_registers_a_plugin_by_hand(nri: Command) -> None:
    request = json.dumps({"pluginName": "by-hand", "pluginIdx": "10"})
    assert json.loads(nri("call", str(nri.daemon.nri_socket), "Runtime/RegisterPlugin", "-d", request)) == {}
    nri("call", str(nri.daemon.nri_socket), "Runtime/Register", code=2)


def test_doctor_finds_a_listening_and_a_stopped_runtime(nri: Command) -> None:
    notes = Path("/var/run/nri", naming.FAILED_DIR)  # notes of failed plugins are reported as problems
    result = nri("doctor", code=int(any(notes.glob("*"))))
    assert re.search(rf"{nri.daemon.nri_socket}: (containerd|crio) \(process \d+\) listens", result)
    nri.daemon.stop()
    assert str(nri.daemon.nri_socket) in nri("doctor", code=1)


def test_why_reports_that_this_runtime_has_no_history(nri: Command) -> None:
    result = nri("why", "1f2e3d", code=3)
    assert "an admin socket exists only in a runtime that is built on nri and sets admin_socket" in result
    assert len(result.splitlines()) == 1, result


def test_a_stopped_runtime_exits_with_3(nri: Command) -> None:
    nri.daemon.stop()
    result = nri("events", code=3)
    assert f"cannot connect to {nri.daemon.nri_socket}" in result
    assert "nri doctor shows whether NRI is on" in result


#: Answers from what it knows: with another state, or without an event, it answers otherwise.
KNOWS = """
import nri

class Knows(nri.Plugin):
    mirror = True

    def _known(self):
        return f"{len(self.state.pods)}.{len(self.state.containers)}"

    def create_container(self, pod, container):
        if container.name == "refused":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("KNOWN", self._known()).set_cpu_shares(512)

    def update_container(self, pod, container, resources):
        return nri.Update(container).set_cpu_shares(100 + len(self.state.containers))

    def stop_container(self, pod, container):
        self.log.info("known: %s", self._known())

    def remove_pod_sandbox(self, pod):
        pass
"""


def test_a_recording_of_nri_run_replays_to_the_same_answers(nri: Command) -> None:
    cri, plugin = nri.daemon.cri, nri.folder / "knows.py"
    plugin.write_text(KNOWS)
    before = cri.run_pod("before")
    cri.run(before, "old")
    with nri.running("run", str(plugin), "--idx", "10", "--record", "traces", "--redact", "none") as out:
        wait_for_text(out, "registered with containerd .* as 10-knows")
        nri.daemon.wait_connected("10-knows")
        pod = cri.run_pod("walk")
        first = cri.run(pod, "first")
        assert "KNOWN=2.1" in cri.exec(first, "/bin/env"), "the plugin knows what was there before it"
        with pytest.raises(grpc.RpcError, match="not this one"):
            cri.create(pod, "refused")
        cri.update(first, cpu_shares=300)
        cri.stop(first)
        cri.remove(first)
        cri.run(before, "second")
        cri.remove_all()
    events = [json.loads(line)["event"] for line in nri("trace", "show", "traces", "-o", "json").splitlines()]
    assert "StateChange" not in events
    assert {"RunPodSandbox", "UpdateContainer", "StopContainer", "RemovePodSandbox"} <= set(events)
    same = nri("replay", "traces", "--plugin", f"10={plugin}")
    run_again = len([event for event in events if event not in ("Configure", "Synchronize", "Shutdown")])
    assert f"{run_again} events run again: {run_again} the same, 0 different" in same
    plugin.write_text(KNOWS.replace("set_cpu_shares(512)", "set_cpu_shares(256)"))
    changed = nri("replay", "traces", "--plugin", f"10={plugin}", code=5)
    assert "CPUShares: recorded 512; now 256" in changed
