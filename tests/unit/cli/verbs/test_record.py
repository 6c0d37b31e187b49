"""`nri record` as a process: what a plugin can see is in files, and a replay says what is not in them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from nri.testing import FakeRuntime, Replay, make_container, make_pod
from nri.trace.history import Trace
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import command, environment


def test_all_events_are_recorded_and_named_as_looked_at_only(folder: Path) -> None:
    socket, traces = str(folder / "nri.sock"), folder / "traces"
    words = ["record", str(traces), "--socket-path", socket, "--redact", "none"]
    with FakeRuntime(socket_path=socket, disable_connections=False) as runtime:
        with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True, env=environment()) as process:
            try:
                wait_for(lambda: any(row.state == "active" for row in runtime.plugins), "the plugin")
                pod = make_pod(name="web", namespace="shop")
                runtime.run_pod_sandbox(pod)
                runtime.create_container(pod, make_container(name="app"))
                process.send_signal(signal.SIGTERM)
                _, said = process.communicate(timeout=20)
            finally:
                process.kill()
    assert process.returncode == 0 and f"recording into {traces}" in said
    names = [event.name for event in Trace(traces).events()]
    assert names[-2:] == ["RunPodSandbox", "CreateContainer"]
    with Replay(traces) as again:
        left_out = {outcome.left_out for outcome in again.outcomes()}
    assert left_out == {"it was only looked at by a plugin, and the answers of others are not in it"}


def test_a_runtime_that_is_not_there_ends_it_with_3(nri, folder: Path) -> None:
    done = nri("record", str(folder / "traces"), "--socket-path", str(folder / "none.sock"))
    assert done.returncode == 3, done.stderr
