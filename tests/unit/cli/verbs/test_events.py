"""`nri events` as a process, with a scripted runtime."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time

import pytest

from nri.api import messages as m
from tests.support.scripted_runtime import ScriptedRuntime
from tests.unit.cli.conftest import command, environment

POD = m.PodSandbox(id="pod0123456789abcdef", name="web", namespace="shop")
EMPTY_POD = m.PodSandbox(id="pod9", name="idle", namespace="shop")
CONTAINER = m.Container(
    id="ctr0123456789abcdef", pod_sandbox_id=POD.id, name="nginx", state=m.ContainerState.CONTAINER_RUNNING, pid=42
)


def begin(runtime: ScriptedRuntime) -> m.RegisterPluginRequest:
    registered = runtime.register()
    runtime.configure(name="containerd", version="2.1.9")
    runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD, EMPTY_POD], containers=[CONTAINER]))
    return registered


def snapshot_script(runtime: ScriptedRuntime) -> None:
    begin(runtime)
    runtime.closed_by_plugin()


def test_without_follow_the_state_is_printed_once(nri, listen) -> None:
    requests: list[m.RegisterPluginRequest] = []
    event = threading.Event()

    def script(runtime: ScriptedRuntime) -> None:
        requests.append(begin(runtime))
        if runtime.closed_by_plugin():
            event.set()

    result = nri("events", "--socket-path", listen(script))
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        "CONTAINER      POD        NAME   STATE    PID\n"
        "-              shop/idle  -      -        -\n"
        "ctr0123456789  shop/web   nginx  running  42\n"
    )
    assert (requests[0].plugin_idx, requests[0].plugin_name) == ("99", "nri-events")
    assert event.wait(5), "the connection must be closed in order"


def test_json_is_one_document_with_protobufs_names_and_complete_ids(nri, listen) -> None:
    document = json.loads(nri("events", "-o", "json", "--socket-path", listen(snapshot_script)).stdout)
    assert document["containers"][0]["podSandboxId"] == POD.id
    assert [pod["name"] for pod in document["pods"]] == ["web", "idle"]


def test_quiet_prints_only_complete_container_ids(nri, listen) -> None:
    assert nri("events", "-q", "--socket-path", listen(snapshot_script)).stdout == f"{CONTAINER.id}\n"


def test_a_missing_socket_exits_with_3(nri, folder) -> None:
    for follow in ((), ("-f",)):
        result = nri("events", *follow, "--socket-path", str(folder / "gone.sock"))
        assert result.returncode == 3
        assert "cannot connect" in result.stderr
        assert "nri doctor" in result.stderr


def test_a_runtime_that_never_synchronizes_exits_with_3_after_the_timeout(nri, listen) -> None:
    def script(runtime: ScriptedRuntime) -> None:
        runtime.register()
        runtime.configure()
        runtime.closed_by_plugin()

    result = nri("events", "--timeout", "1s", "--socket-path", listen(script))
    assert result.returncode == 3
    assert "deadline exceeded while waiting for the state at" in result.stderr


def hang_up(runtime: ScriptedRuntime) -> None:
    runtime.request()
    runtime.close()


@pytest.mark.parametrize(
    ("script", "output"),
    [
        (lambda runtime: runtime.closed_by_plugin(), "deadline exceeded while waiting for "),
        (hang_up, "closed before an answer to RegisterPlugin: it may not be an NRI socket"),
    ],
)
def test_a_socket_without_nri_exits_with_3_and_the_reason(nri, listen, script, output: str) -> None:
    result = nri("events", "--timeout", "1s", "--socket-path", listen(script))
    assert result.returncode == 3
    assert output in result.stderr


def test_a_refusal_exits_with_1_and_the_runtimes_message(nri, listen) -> None:
    def script(runtime: ScriptedRuntime) -> None:
        runtime.answer(runtime.request(), code=2, text="invalid plugin name")
        runtime.closed_by_plugin()

    result = nri("events", "--socket-path", listen(script))
    assert result.returncode == 1
    assert "invalid plugin name" in result.stderr


class Following:
    """`nri events -f` and the runtime that it follows."""

    def __init__(self, listen, *arguments: str, version: str = "2.1.9", **text: str) -> None:
        self.configuration = {"name": "containerd", "version": version, **text}
        self.ready = threading.Event()
        self.mask = 0
        self.runtime: ScriptedRuntime | None = None
        self.over = threading.Event()
        self.again = threading.Semaphore(0)
        path = listen(self._script)
        self.process = subprocess.Popen(
            command("events", "-f", "--socket-path", path, *arguments),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip

    def _script(self, runtime: ScriptedRuntime) -> None:
        runtime.register()
        reply = runtime.configure(**self.configuration)
        self.mask = m.ConfigureResponse.FromString(reply.payload).events
        runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
        self.runtime = runtime
        self.ready.set()
        self.again.release()
        self.over.wait(30)

    def call(self, method: str, message: object) -> None:
        assert self.ready.wait(20), "nri events has not registered"
        assert self.runtime is not None
        assert self.runtime.call(method, message).code == 0

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        try:
            _, errors = self.process.communicate(timeout=20)
        finally:
            self.process.kill()
            self.over.set()
        return self.process.returncode, errors


def test_following_prints_every_event_at_once(listen) -> None:
    following = Following(listen)
    following.call("CreateContainer", m.CreateContainerRequest(pod=POD, container=CONTAINER))
    assert following.line().split() == ["TIME", "EVENT", "CONTAINER", "POD", "NAME"]
    assert following.line().split()[1:] == ["CreateContainer", "ctr0123456789", "shop/web", "nginx"]
    following.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
    assert following.line().split()[1:] == ["RunPodSandbox", "-", "shop/web", "-"]
    code, errors = following.end()
    assert code == 130
    assert errors == "following containerd 2.1.9: 1 pod, 1 container now\n"


def test_following_in_json_is_one_object_a_line_with_its_time(listen) -> None:
    following = Following(listen, "-o", "json")
    following.call("StopContainer", m.StopContainerRequest(pod=POD, container=CONTAINER))
    document = json.loads(following.line())
    assert (document["event"], document["pod"]["name"], document["container"]["id"]) == (
        "StopContainer",
        "web",
        CONTAINER.id,
    )
    assert document["time"].endswith("Z")
    assert following.end(signal.SIGTERM)[0] == 0


def test_events_of_old_runtimes_are_printed(listen) -> None:
    following = Following(listen, "-q")
    following.call("StateChange", m.StateChangeEvent(event=m.Event.POST_START_CONTAINER, pod=POD, container=CONTAINER))
    assert following.line() == f"{CONTAINER.id}\n"
    following.end()


@pytest.mark.parametrize(
    ("arguments", "mask"),
    [((), 0x1FFF), (("--events", "pod"), 0x1807), (("--events", "CreateContainer,StopContainer"), 0x208)],
)
def test_the_subscription_has_only_shown_events(listen, arguments, mask: int) -> None:
    following = Following(listen, *arguments)
    assert following.ready.wait(20)
    assert following.mask == mask
    following.end()


def test_an_unknown_event_is_an_error(nri) -> None:
    result = nri("events", "--events", "CreateContaner")
    assert result.returncode == 2
    assert 'unknown event "CreateContaner"' in result.stderr


def test_following_survives_a_restart_of_the_runtime(listen) -> None:
    following = Following(listen)
    for turn in range(2):
        assert following.again.acquire(timeout=30), "it has not come back"
        following.call("RunPodSandbox", m.RunPodSandboxRequest(pod=POD))
        if turn == 0:
            assert following.line().split()[0] == "TIME"
        assert following.line().split()[1] == "RunPodSandbox", "the heading comes once"
        if turn == 0:
            over, following.over = following.over, threading.Event()
            over.set()
    code, errors = following.end()
    assert code == 130
    assert errors.count("following containerd 2.1.9") == 2
    assert "connection lost" in errors


@pytest.mark.parametrize(
    ("arguments", "mask", "warned"),
    [((), 0x7FF, False), (("--events", "pod"), 0x7, False), (("--events", "pod,UpdatePodSandbox"), 0x7, True)],
)
def test_an_old_runtime_gets_only_events_that_it_supports(
    listen, arguments: tuple[str, ...], mask: int, warned: bool
) -> None:
    following = Following(listen, *arguments, version="1.7.24", nri="")
    assert following.ready.wait(20)
    assert following.mask == mask
    assert ("does not know UpdatePodSandbox: not subscribed" in following.end()[1]) is warned


def test_an_unread_pipe_does_not_block_the_runtime(listen) -> None:
    following = Following(listen, "-o", "json")
    big = m.Container(id="c", name="n", env=["x" * 10_000])
    for _ in range(50):  # far more than a pipe holds; nobody reads standard output meanwhile
        following.call("PostStartContainer", m.PostStartContainerRequest(pod=POD, container=big))
    assert following.process.poll() is None, "it has ended"
    following.end()


def test_a_closed_pipe_ends_the_command(listen) -> None:
    following = Following(listen, "-q")
    following.call("PostStartContainer", m.PostStartContainerRequest(pod=POD, container=CONTAINER))
    following.line()
    assert following.process.stdout is not None
    following.process.stdout.close()
    assert following.runtime is not None
    until = time.monotonic() + 20
    while following.process.poll() is None and time.monotonic() < until:
        try:
            following.runtime.call("PostStartContainer", m.PostStartContainerRequest(pod=POD, container=CONTAINER))
        except (EOFError, OSError):
            break
    assert following.process.wait(20) == 0
    assert following.process.stderr is not None
    following.process.stderr.close()
    following.over.set()
