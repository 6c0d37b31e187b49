"""Exec, attach and port forward of real containers, by client-go over SPDY and WebSockets."""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.network import NetworkNamespaces
from nri.engine.process import Attachment, Execution
from nri.engine.process.execution import exec_process
from nri.engine.streaming import StreamingServer, connect_port
from nri.engine.support.errors import EngineError, NotFound
from nri.engine.support.kernel import CLONE_NEWNET, setns
from tests.engine.live import Live
from tests.engine.machine import Machine
from tests.peers.build import peer
from tests.peers.drivers import Line, LineProcess
from tests.support.stream_world import is_running

OVER = ("spdy", "websocket")


class Client(LineProcess):
    """client-go as a process."""

    def __init__(self, **environment: str) -> None:
        super().__init__([peer("streamclient")], env={"PATH": os.environ["PATH"], "HOME": "/", **environment})
        self._names = (f"s{number}" for number in itertools.count(1))
        self._numbers = itertools.count(1000)

    def begin(self, cmd: str, url: str, over: str, **options: Any) -> Session:
        name, number = next(self._names), next(self._numbers)
        self.send({"id": number, "cmd": cmd, "of": name, "url": url, "over": over, **options})
        return Session(self, name, number)


class Session:
    """One exec, attach or port forward of the client."""

    def __init__(self, client: Client, name: str, number: int) -> None:
        self.client, self.name, self._number = client, name, number

    def tell(self, cmd: str, **arguments: Any) -> None:
        assert self.client.ask({"cmd": cmd, "of": self.name, **arguments})["ok"]

    def output(self, stream: str = "stdout") -> str:
        rows = [row for row in self.client.events("output") if row["of"] == self.name and row["stream"] == stream]
        return "".join(row["text"] for row in rows)

    def wait_output(self, text: str, stream: str = "stdout") -> None:
        self.client.wait_for(lambda _: text in self.output(stream), what=f"{text!r} on {stream}")

    def end(self) -> Line:
        """How it ended."""
        return self.client.wait_for(lambda line: line.get("id") == self._number, what="its end")

    def ports(self) -> list[int]:
        """Where a port forward listens."""
        line = self.client.wait_for(
            lambda line: line.get("event") == "forwarding" and line["of"] == self.name, what="its listeners"
        )
        return [int(port) for port in line["local"]]


class World:
    """One container, a server of streams for it, and the client."""

    def __init__(self, machine: Machine, client: Client) -> None:
        self.machine, self.client = machine, client
        self.runtime, self.id = machine.runtime("runc"), machine.container_id("a")
        self.bundle = Path()
        self.namespaces = NetworkNamespaces(machine.folder / "netns")
        self.namespace: Path | None = None
        self.executions: list[Execution] = []
        self.server = StreamingServer("127.0.0.1", 0, self)
        self.server.start()

    def container(self, script: str = "sleep 300", **options: bool) -> None:
        self.bundle = self.machine.bundle("a", "sh", "-c", script, terminal=options.get("tty", False))
        self.machine.conmon().create(self.runtime, self.id, self.bundle, **options)  # type: ignore[arg-type]
        self.runtime.start(self.id)

    def exec(self, container_id: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution:
        if container_id != self.id:
            raise NotFound("container", container_id)
        process = exec_process(self.machine.process_of(self.bundle), argv, tty=tty)
        self.executions.append(Execution(self.runtime, container_id, process, stdin=stdin))
        return self.executions[-1]

    def attach(self, container_id: str) -> Attachment:
        return Attachment(self.bundle)

    def resize(self, container_id: str, width: int, height: int) -> None:
        self.machine.conmon().resize(self.bundle, width, height)

    def open_port(self, pod_id: str, port: int) -> socket.socket:
        return connect_port(self.namespace, port)

    def run(self, over: str, *argv: str, **options: Any) -> Session:
        fields: dict[str, Any] = {"stdout": True, "stderr": not options.get("tty", False), **options}
        more = {"protocols": fields.pop("protocols")} if "protocols" in fields else {}
        return self.client.begin("run", self.server.exec_url(self.id, argv, **fields), over, **fields, **more)

    def attached(self, over: str, **options: Any) -> Session:
        fields: dict[str, Any] = {"stdout": True, "stderr": not options.get("tty", False), **options}
        return self.client.begin("run", self.server.attach_url(self.id, **fields), over, **fields)

    def forward(self, over: str, *ports: int) -> Session:
        url = self.server.port_forward_url("pod", ports)
        return self.client.begin("forward", url, over, ports=[f"0:{port}" for port in ports])

    def close(self) -> None:
        self.server.stop()
        if self.bundle != Path():
            self.runtime.delete(self.id)
        for name in self.namespaces.names():
            self.namespaces.remove(name)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client() as client_:
        yield client_


@pytest.fixture
def world(client: Client, machine: Machine) -> Iterator[World]:
    world_ = World(machine, client)
    try:
        yield world_
    finally:
        world_.close()


# --- exec ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", OVER)
def test_exec_passes_input_both_outputs_and_the_exit_code(world: World, over: str) -> None:
    world.container()
    session = world.run(over, "sh", "-c", "echo bad >&2; cat; exit 7", stdin=True)
    session.tell("type", text="hello\n")
    session.wait_output("hello\n")
    session.tell("end_input")
    ended = session.end()
    assert (ended["ok"], ended["code"]) == (False, 7)
    assert (session.output(), session.output("stderr")) == ("hello\n", "bad\n")
    good = world.run(over, "true").end()
    assert good["ok"] and good["code"] == 0, good


@pytest.mark.parametrize("over", OVER)
def test_exec_has_a_terminal_that_the_client_resizes(world: World, over: str) -> None:
    world.container()
    session = world.run(over, "sh", tty=True, stdin=True)
    session.tell("resize", width=101, height=42)
    deadline = time.monotonic() + 20
    while "42 101" not in session.output():
        assert time.monotonic() < deadline, session.output()
        session.tell("type", text="stty size\n")
        time.sleep(0.1)
    session.tell("resize", width=33, height=12)
    while "12 33" not in session.output():
        assert time.monotonic() < deadline, session.output()
        session.tell("type", text="stty size\n")
        time.sleep(0.1)
    session.tell("type", text="exit 6\n")
    assert session.end()["code"] == 6


@pytest.mark.parametrize("over", OVER)
def test_exec_of_a_missing_program_is_an_error_with_its_name(world: World, over: str) -> None:
    world.container()
    ended = world.run(over, "no-such-program").end()
    assert not ended["ok"] and "no-such-program" in ended["error"] and ended["code"] == 0
    url = world.server.exec_url("other", ["true"], stdout=True)
    ended = world.client.begin("run", url, over, stdout=True).end()
    assert "no container 'other'" in ended["error"]


@pytest.mark.parametrize("over", OVER)
def test_exec_passes_many_megabytes_unchanged(world: World, over: str) -> None:
    world.container()
    session = world.run(over, "cat", stdin=True)
    text = "0123456789abcdef" * 4096
    session.tell("type", text=text, repeat=160)
    session.tell("end_input")
    ended = session.end()
    assert ended["ok"], ended
    assert ended["stdout"]["size"] == 160 * 65536
    assert ended["stdout"]["sha256"] == hashlib.sha256(text.encode() * 160).hexdigest()


@pytest.mark.parametrize("over", OVER)
def test_a_program_is_killed_when_its_client_disconnects(world: World, over: str) -> None:
    world.container()
    session = world.run(over, "sh", "-c", "echo here; sleep 4321", stdin=True)
    session.wait_output("here\n")
    world.machine.wait_for(lambda: _running(world, "sleep 4321"), "the program's start")
    (pid,) = _running(world, "sleep 4321")
    session.tell("leave")
    world.machine.wait_for(lambda: _line(Path(f"/proc/{pid}/cmdline")) == "", "the program's end")


def _running(world: World, line: str) -> list[int]:
    """The processes of this command line in the cgroups of the test's own containers."""
    return [pid for pid, command in world.machine.processes() if command.strip() == line]


def _line(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("over", OVER)
def test_exec_ends_although_a_child_process_keeps_the_output_open(world: World, over: str) -> None:
    world.runtime = world.machine.runtime("crun")  # runc itself waits for such children
    world.container()
    session = world.run(over, "sh", "-c", "sleep 300 & echo out; echo err >&2; exit 3")
    ended = session.end()
    assert (ended["code"], session.output(), session.output("stderr")) == (3, "out\n", "err\n")


def test_a_program_that_reads_no_input_does_not_block_its_client(world: World) -> None:
    world.runtime = world.machine.runtime("crun")  # runc 1.1 passes its own SIGPIPE on to the program
    world.container()
    for over in OVER:
        session = world.run(over, "sh", "-c", "exec 0<&-; echo closed; sleep 0.5; echo done", stdin=True)
        session.wait_output("closed\n")
        session.tell("type", text="x" * 65536, repeat=40)
        ended = session.end()
        assert ended["ok"] and session.output() == "closed\ndone\n", ended
        session.tell("type", text="nobody reads this")  # and it is not waited for


@pytest.mark.parametrize(
    ("over", "protocol", "error"),
    [
        ("spdy", "v3.channel.k8s.io", "non-zero exit code: exit status 5"),
        ("spdy", "v2.channel.k8s.io", "non-zero exit code: exit status 5"),
        ("spdy", "channel.k8s.io", ""),  # its client may end before it has read the output, or how the program ended
        ("websocket", "v4.channel.k8s.io", "exit code 5"),
    ],
)
def test_older_stream_protocols_are_supported(world: World, over: str, protocol: str, error: str) -> None:
    world.container()
    session = world.run(over, "sh", "-c", "echo out; exit 5", protocols=[protocol])
    ended = session.end()
    assert error in ended.get("error", "")
    assert session.output() in (("out\n",) if error else ("out\n", ""))
    assert world.run(over, "true", protocols=[protocol]).end()["ok"]


def test_a_token_is_valid_for_one_client(world: World) -> None:
    world.container()
    url = world.server.exec_url(world.id, ["true"], stdout=True)
    assert world.client.begin("run", url, "spdy", stdout=True).end()["ok"]
    for over in OVER:
        ended = world.client.begin("run", url, over, stdout=True).end()
        assert not ended["ok"] and "expired" in ended["error"]


def test_many_clients_are_served_concurrently(world: World) -> None:
    world.container()
    sessions = [world.run(OVER[n % 2], "sh", "-c", f"echo {n}; exit {n}") for n in range(1, 13)]
    assert [session.end()["code"] for session in sessions] == [*range(1, 13)]


def test_stopping_the_server_ends_programs_and_keeps_the_container(world: World) -> None:
    world.container()
    session = world.run("spdy", "sh", "-c", "echo here; sleep 300", stdin=True)
    session.wait_output("here\n")
    world.server.stop()
    session.end()
    assert not is_running(world.executions[0])
    assert world.runtime.state(world.id).status == "running"


# --- attach -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", OVER)
def test_attach_lasts_until_the_container_exits(world: World, over: str) -> None:
    world.container("while read line; do echo got $line; echo err >&2; done; exit 4", stdin=True, stdin_once=True)
    session = world.attached(over, stdin=True)
    session.tell("type", text="one\n")
    session.wait_output("got one\n")
    session.wait_output("err\n", "stderr")
    session.tell("end_input")
    assert session.end()["ok"], "the container's exit code is reported elsewhere"


@pytest.mark.parametrize("over", OVER)
def test_a_container_survives_a_disconnected_client_and_accepts_another(world: World, over: str) -> None:
    world.container("while read line; do echo got $line; done", stdin=True)
    first = world.attached(over, stdin=True)
    first.tell("type", text="one\n")
    first.wait_output("got one\n")
    first.tell("leave")
    second = world.attached(over, stdin=True)
    second.tell("type", text="two\n")
    second.wait_output("got two\n")
    assert world.runtime.state(world.id).status == "running"
    second.tell("leave")


@pytest.mark.parametrize("over", OVER)
def test_attach_resizes_the_containers_terminal(world: World, over: str) -> None:
    world.container("while true; do stty size; sleep 0.05; done", tty=True, stdin=True)
    session = world.attached(over, tty=True, stdin=True)
    session.tell("resize", width=99, height=33)
    session.wait_output("33 99")
    session.tell("leave")


def test_attaching_to_an_exited_container_is_an_error(world: World) -> None:
    world.container("true")
    world.machine.watcher().watch(world.id, world.bundle, world.runtime)
    world.machine.wait_for(lambda: world.machine.exits, "the end of its conmon, which listens until then")
    assert "does not listen" in world.attached("spdy").end()["error"]


# --- port forward -------------------------------------------------------------------------------------------------


class Listener:
    """A server of a pod: each connection is given to `answer`, in a thread."""

    def __init__(self, namespace: Path | None, address: str, answer: Callable[[socket.socket], None]) -> None:
        self._namespace, self._address, self._answer = namespace, address, answer
        self._socket: socket.socket
        maker = threading.Thread(target=self._make)
        maker.start()
        maker.join()
        self.port = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _make(self) -> None:
        if self._namespace is not None:
            with self._namespace.open() as connection_:
                setns(connection_.fileno(), CLONE_NEWNET)
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        self._socket = socket.create_server((self._address, 0), family=family)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._one, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            self._answer(connection)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), "a connection of the pod was never ended"


def echo_all(connection: socket.socket) -> None:
    """Read to the end, then say it all back: needs the end of the client's half alone."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    connection.sendall(data)


def talk(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_port_forward_serves_many_connections_concurrently(world: World, over: str, address: str) -> None:
    world.namespace = world.namespaces.create("pod")
    listener = Listener(world.namespace, address, echo_all)
    other = Listener(world.namespace, address, lambda connection: connection.sendall(b"other"))
    session = world.forward(over, listener.port, other.port)
    first, second = session.ports()
    received: dict[int, bytes] = {}

    def one(number: int) -> None:
        received[number] = talk(first, bytes([number]) * (number * 100_000 + 1))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    assert talk(second, b"") == b"other"
    for thread in threads:
        thread.join(60)
    assert {number: len(data) for number, data in received.items()} == {n: n * 100_000 + 1 for n in range(8)}
    assert all(data == bytes([number]) * len(data) for number, data in received.items())
    session.tell("leave")
    session.end()
    listener.close()
    other.close()


@pytest.mark.parametrize("over", OVER)
def test_a_closed_connection_of_the_pod_closes_only_its_client_connection(world: World, over: str) -> None:
    world.namespace = world.namespaces.create("pod")
    begun = threading.Event()

    def hold(connection: socket.socket) -> None:
        word = connection.recv(4)
        if word == b"hold":
            begun.set()
            connection.sendall(connection.recv(100))

    listener = Listener(world.namespace, "127.0.0.1", hold)
    session = world.forward(over, listener.port)
    (port,) = session.ports()
    with socket.create_connection(("127.0.0.1", port), 20) as connection_:
        connection_.sendall(b"hold")
        assert begun.wait(20)
        with socket.create_connection(("127.0.0.1", port), 20) as short:
            short.sendall(b"away")
            assert short.recv(10) == b""
        connection_.sendall(b"still here")
        assert connection_.recv(100) == b"still here"
    session.tell("leave")
    session.end()
    listener.close()


@pytest.mark.parametrize("over", OVER)
def test_forwarding_to_a_closed_port_is_an_error_of_that_connection(world: World, over: str) -> None:
    world.namespace = world.namespaces.create("pod")
    session = world.forward(over, 9)
    assert talk(session.ports()[0], b"") == b""
    assert "port 9: Connection refused" in world.client.tail() or session.end()
    world.client.wait_for(lambda _: "port 9: Connection refused" in world.client.tail(), what="the error on its stderr")


def test_connecting_to_a_missing_namespace_is_an_error(world: World) -> None:
    with pytest.raises(EngineError, match="cannot connect to port 80: No such file"):
        connect_port(world.machine.folder / "gone", 80)
    with pytest.raises(EngineError, match="cannot connect to port 80: Invalid argument"):
        connect_port(Path("/proc/self/ns/mnt"), 80)


# --- through the CRI ----------------------------------------------------------------------------------------------


def test_urls_of_the_cri_lead_to_programs_streams_and_ports(client: Client, machine: Machine) -> None:
    with Live(machine) as live:
        pod = live.pod("p", network=pb.POD)
        script = "while true; do echo hello | busybox nc -l -p 8080; done & read line; echo got $line; sleep 1000"
        container = live.run(pod, "c", ["sh", "-c", script], stdin=True)
        url = live.cri.call("Exec", container_id=container, cmd=["cat"], stdin=True, stdout=True).url
        session = client.begin("run", url, "websocket", stdin=True, stdout=True)
        session.tell("type", text="typed")
        session.tell("end_input")
        assert session.end()["ok"] and session.output() == "typed"
        url = live.cri.call("Attach", container_id=container, stdin=True, stdout=True).url
        attached = client.begin("run", url, "spdy", stdin=True, stdout=True)
        attached.tell("type", text="line\n")
        attached.wait_output("got line\n")
        attached.tell("leave")
        for over in OVER:
            live.machine.wait_for(lambda: _listens(live, container, 8080), "its server, which serves once")
            url = live.cri.call("PortForward", pod_sandbox_id=pod).url
            forward = client.begin("forward", url, over, ports=["0:8080"])
            assert talk(forward.ports()[0], b"") == b"hello\n"
            forward.tell("leave")
            forward.end()


def _listens(live: Live, container: str, port: int) -> bool:
    """Whether something listens on this port in a container's network."""
    response = live.cri.call("ExecSync", container_id=container, cmd=["cat", "/proc/net/tcp", "/proc/net/tcp6"])
    rows = [line.split() for line in response.stdout.decode().splitlines()]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)
