"""Logs, commands and connections through a real kubelet's HTTP interface, as kubectl requests them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.client import V5, AnswerError, collect
from tests.kubernetes.conftest import RunPod
from tests.kubernetes.kubelet import LOGS
from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.pods import UNTIL_TERM, container, pod
from tests.kubernetes.websocket import ERROR, RESIZE, STDERR, STDIN, STDOUT, RefusedError
from tests.support.waiting import wait_for

SPEAKER = f"echo to stdout; echo to stderr >&2; {UNTIL_TERM}"
LINES = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i of many; done"


@pytest.fixture(scope="module")
def speaker(node: Node) -> Iterator[StaticPod]:
    """A pod that has said something and waits."""
    static = node.run(pod("speaker", container("main", SPEAKER)))
    static.wait_ready()
    wait_said(static, "to stdout", "to stderr")  # ready is what runs
    yield static
    static.remove()


def wait_said(static: StaticPod, *words: str) -> None:
    """Wait until a pod's log has these words."""
    wait_for(lambda: all(word in static.client.logs(static.name, "main") for word in words), f"{words} in the log")


def test_logs_have_the_output_of_a_container(speaker: StaticPod) -> None:
    assert sorted(speaker.client.logs(speaker.name, "main").splitlines()) == ["to stderr", "to stdout"]
    timed = speaker.client.logs(speaker.name, "main", timestamps="true").splitlines()
    assert all(line.split(maxsplit=1)[0].endswith("Z") for line in timed), timed


def test_the_tail_of_a_long_log_is_returned(run: RunPod) -> None:
    static = run(pod("wordy", container("main", f"{LINES}; echo end >&2; {UNTIL_TERM}")))
    static.wait_ready()
    wait_said(static, "end", "line 2000 of many")
    actual = static.client.logs(static.name, "main", tailLines=3)
    assert actual.splitlines()[-1] == "end" or "line 2000 of many" in actual
    assert len(static.client.logs(static.name, "main").splitlines()) == 2001


def test_the_log_before_a_restart_is_kept(run: RunPod) -> None:
    script = f"if test -e /state/again; then echo second; {UNTIL_TERM}; fi; touch /state/again; echo first; exit 1"
    mounts = [{"name": "state", "mountPath": "/state"}]
    static = run(
        pod("twice", container("main", script, volumeMounts=mounts), volumes=[{"name": "state", "emptyDir": {}}])
    )
    static.wait_restarted()
    static.wait_ready()
    wait_said(static, "second")
    assert static.client.logs(static.name, "main") == "second\n"
    assert static.client.logs(static.name, "main", previous="true") == "first\n"


def test_a_rotated_log_continues_without_a_gap(run: RunPod, node: Node) -> None:
    fast = "i=0; trap 'exit 0' TERM; while [ $i -lt 8000 ]; do i=$((i+1)); echo $i; done"
    static = run(pod("rotated", container("main", f"{fast}; while :; do i=$((i+1)); echo $i; sleep 0.1; done")))
    static.wait_ready()
    (folder,) = (node.kubelet.folder / LOGS).glob(f"default_{static.name}_*/main")
    wait_for(lambda: len(list(folder.iterdir())) > 1, "the rotation")
    received = numbers(folder)[-1]
    wait_for(lambda: numbers(folder)[-1] >= received + 5, "more of the log")
    actual = numbers(folder)
    assert actual == list(range(1, len(actual) + 1))
    assert static.client.logs(static.name, "main", tailLines=1).strip() in map(str, range(received, received + 10_000))


def numbers(folder: Path) -> list[int]:
    """What the container has written into all of its log files, the oldest first; 0.log is the present one."""
    files = sorted(folder.iterdir(), key=lambda file: (file.name == "0.log", file.name))
    texts = [gzip.decompress(data) if file.suffix == ".gz" else data for file in files for data in [file.read_bytes()]]
    # Each line is TIME STREAM TAG TEXT; with the tag P its text continues in the next. The last line may be incomplete.
    lines = [line.split(b" ", 3) for line in b"".join(texts).splitlines(keepends=True) if line.endswith(b"\n")]
    output = b"".join(text.rstrip(b"\n") if tag == b"P" else text for _, _, tag, text in lines)
    return [int(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]


def test_exec_without_streams_returns_the_output(speaker: StaticPod) -> None:
    assert speaker.run("/bin/echo", "hello").strip() == "hello"


def test_exec_has_separate_streams_and_the_exit_code(speaker: StaticPod) -> None:
    completed = speaker.client.exec(speaker.name, "main", ["/bin/sh", "-c", "echo out; echo err >&2; exit 5"])
    assert (completed.stdout, completed.stderr, completed.code) == (b"out\n", b"err\n", 5)


def test_exec_returns_its_input_unchanged(speaker: StaticPod) -> None:
    sent = bytes(range(256)) * 4096
    completed = speaker.client.exec(speaker.name, "main", ["/bin/head", "-c", str(len(sent))], stdin=sent)
    assert len(completed.stdout) == len(sent)
    assert (completed.stdout == sent, completed.code) == (True, 0)


def test_the_end_of_stdin_is_passed_on_with_protocol_v5(speaker: StaticPod, runtime_name: str) -> None:
    try:
        completed = speaker.client.exec(speaker.name, "main", ["/bin/cat"], stdin=b"to the end", protocol=V5)
    except RefusedError as error:
        assert (runtime_name != "engine", error.status) == (True, 403), "containerd has v5 over SPDY only"
    else:
        assert (completed.stdout, completed.code) == (b"to the end", 0)


def test_exec_of_a_missing_command_is_an_error_with_its_name(speaker: StaticPod) -> None:
    try:
        completed = speaker.client.exec(speaker.name, "main", ["/no/such/command"])
    except AnswerError as error:
        assert "/no/such/command" in str(error)
    else:
        assert completed.code in (126, 127), completed


def test_a_terminal_has_the_requested_size(speaker: StaticPod) -> None:
    # The size has a separate channel, so it may arrive after the typed text.
    script = "read line; until [ \"$(stty size)\" = '45 123' ]; do sleep 0.1; done; stty size; exit 3"
    with speaker.client.open_exec(speaker.name, "main", ["/bin/sh", "-c", script], stdin=True, tty=True) as stream:
        stream.send(RESIZE, json.dumps({"Width": 123, "Height": 45}).encode())
        stream.send(STDIN, b"typed\n")
        completed = collect(stream)
    assert b"45 123" in completed.stdout
    assert (completed.stderr, completed.code) == (b"", 3)


def test_attach_reaches_the_containers_process(run: RunPod) -> None:
    echo = 'while read line; do echo "heard $line"; done'
    static = run(pod("talker", container("main", echo, stdin=True)))
    static.wait_ready()
    with static.client.open_attach(static.name, "main", stdin=True) as stream:
        stream.send(STDIN, b"this\n")
        heard = b""
        while b"heard this\n" not in heard:
            message = stream.receive()
            assert message is not None, f"it ended after {heard!r}"
            assert message[0] in (STDOUT, STDERR, ERROR)
            heard += message[1]
    wait_said(static, "heard this\n")
    assert static.client.logs(static.name, "main") == "heard this\n"


def test_port_forward_reaches_a_port_of_a_pod(run: RunPod) -> None:
    serve = "while :; do echo forwarded | nc -l -p 7070; done"
    static = run(pod("ported", container("main", serve)))
    static.wait_ready()
    wait_for(lambda: ":1B9E 00000000" in static.run("/bin/cat", "/proc/net/tcp", "/proc/net/tcp6"), "its server")
    with static.client.open_port(static.name, 7070) as stream:
        received: dict[int, bytes] = {0: b"", 1: b""}
        while b"forwarded\n" not in received[0]:
            message = stream.receive()
            assert message is not None, f"it ended after {received}"
            received[message[0]] += message[1]
    # Each channel begins with the number of the port.
    assert received[0] == (7070).to_bytes(2, "little") + b"forwarded\n"
    assert received[1] in (b"", (7070).to_bytes(2, "little"))
