"""Logs, commands and connections through a real kubelet's HTTP interface, as kubectl asks for them."""

from __future__ import annotations

import json

import pytest

from tests.kubernetes.client import V4, AnswerError, collect
from tests.kubernetes.conftest import RunPod
from tests.kubernetes.node import StaticPod
from tests.kubernetes.pods import UNTIL_TERM, container, pod
from tests.kubernetes.websocket import ERROR, RESIZE, STDERR, STDIN, STDOUT

SPEAKER = f"echo to stdout; echo to stderr >&2; {UNTIL_TERM}"
LINES = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i of many; done"


@pytest.fixture
def speaker(run: RunPod) -> StaticPod:
    """A pod that has said something and waits."""
    static = run(pod("speaker", container("main", SPEAKER)))
    static.wait_ready()
    return static


def test_logs_have_what_a_container_writes(speaker: StaticPod) -> None:
    assert sorted(speaker.client.logs(speaker.name, "main").splitlines()) == ["to stderr", "to stdout"]
    timed = speaker.client.logs(speaker.name, "main", timestamps="true").splitlines()
    assert all(line.split(maxsplit=1)[0].endswith("Z") for line in timed), timed


def test_the_end_of_a_long_log_is_told_alone(run: RunPod) -> None:
    static = run(pod("wordy", container("main", f"{LINES}; echo end >&2; {UNTIL_TERM}")))
    static.wait_ready()
    found = static.client.logs(static.name, "main", tailLines=3)
    assert found.splitlines()[-1] == "end" or "line 2000 of many" in found
    assert len(static.client.logs(static.name, "main").splitlines()) == 2001


def test_the_log_of_the_container_before_a_restart_is_still_there(run: RunPod) -> None:
    script = f"if test -e /state/again; then echo second; {UNTIL_TERM}; fi; touch /state/again; echo first; exit 1"
    mounts = [{"name": "state", "mountPath": "/state"}]
    static = run(
        pod("twice", container("main", script, volumeMounts=mounts), volumes=[{"name": "state", "emptyDir": {}}])
    )
    static.wait_restarted()
    static.wait_ready()
    assert static.client.logs(static.name, "main") == "second\n"
    assert static.client.logs(static.name, "main", previous="true") == "first\n"


def test_a_command_without_streams_tells_what_it_prints(speaker: StaticPod) -> None:
    assert speaker.run("/bin/echo", "hello").strip() == "hello"


def test_a_command_has_its_streams_apart_and_its_exit_code(speaker: StaticPod) -> None:
    done = speaker.client.exec(speaker.name, "main", ["/bin/sh", "-c", "echo out; echo err >&2; exit 5"])
    assert (done.stdout, done.stderr, done.code) == (b"out\n", b"err\n", 5)


def test_the_older_protocol_works_as_well(speaker: StaticPod) -> None:
    done = speaker.client.exec(speaker.name, "main", ["/bin/echo", "old"], protocol=V4)
    assert (done.stdout, done.code) == (b"old\n", 0)


def test_a_command_reads_its_stdin_to_the_end(speaker: StaticPod) -> None:
    sent = bytes(range(256)) * 4096
    done = speaker.client.exec(speaker.name, "main", ["/bin/cat"], stdin=sent)
    assert len(done.stdout) == len(sent)
    assert done.stdout == sent
    assert done.code == 0


def test_a_command_that_is_not_there_is_an_error_that_names_it(speaker: StaticPod) -> None:
    try:
        done = speaker.client.exec(speaker.name, "main", ["/no/such/command"])
    except AnswerError as error:
        assert "/no/such/command" in str(error)
    else:
        assert done.code in (126, 127), done


def test_a_terminal_has_the_size_that_it_is_given(speaker: StaticPod) -> None:
    with speaker.client.open_exec(speaker.name, "main", ["/bin/sh"], stdin=True, tty=True) as stream:
        stream.send(RESIZE, json.dumps({"Width": 123, "Height": 45}).encode())
        stream.send(STDIN, b"sleep 0.5; stty size; exit 3\n")
        done = collect(stream)
    assert b"45 123" in done.stdout
    assert (done.stderr, done.code) == (b"", 3)


def test_an_attached_client_talks_to_the_containers_own_process(run: RunPod) -> None:
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
    assert static.client.logs(static.name, "main") == "heard this\n"


def test_a_port_of_a_pod_can_be_reached_through_kubelet(run: RunPod) -> None:
    serve = "while :; do echo forwarded | nc -l -p 7070; done"
    static = run(pod("ported", container("main", serve)))
    static.wait_ready()
    with static.client.open_port(static.name, 7070) as stream:
        received: dict[int, bytes] = {0: b"", 1: b""}
        while b"forwarded\n" not in received[0]:
            message = stream.receive()
            assert message is not None, f"it ended after {received}"
            received[message[0]] += message[1]
    # Each channel begins with the number of the port.
    assert received[0] == (7070).to_bytes(2, "little") + b"forwarded\n"
    assert received[1] in (b"", (7070).to_bytes(2, "little"))
