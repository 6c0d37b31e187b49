"""Very much of something: updates, joiners, registrations, connections that say nothing."""

from __future__ import annotations

import itertools
import socket
from functools import partial

from nri.api import messages as m
from nri.api.naming import RUNTIME_SERVICE_CONN
from nri.mux.frames import pack
from nri.ttrpc import frames
from nri.ttrpc.envelope import Request
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Gone, Hostile, Target

CROWD = 16
#: Joiners rest for as long as they have held up events: they have half of the time, and without that 0.6 and more.
MOST_SHARE = 0.53


def updates(target: Target) -> None:
    """Ask for updates as fast as the node takes them, a hundred at a time on the way; read the answers."""
    payload = m.UpdateContainersRequest(
        update=[m.ContainerUpdate(container_id=f"standing-{n % 20}") for n in range(500)]
    ).SerializeToString()
    with target.connect(events=1) as plugin:
        plugin.join()
        under_way = 0
        while not target.over:
            while under_way < 100:
                plugin.ask("UpdateContainers", payload)
                under_way += 1
                target.count["asked"] += 1
            entry = plugin.next()
            if isinstance(entry, Request):
                plugin.answer(entry.stream_id, b"")
            else:
                under_way -= 1
                target.count["refused"] += bool(entry.code)


def some_are_refused(outcome: Outcome) -> None:
    """More are under way than wait at a time: what comes on top is refused, and does not wait."""
    assert outcome.count.get("refused"), "of more requests than may wait none was refused"


def joiner(target: Target, number: int) -> None:
    """Join, and leave at once."""
    with target.connect(f"guest{number}", "80") as plugin:
        plugin.join()
        target.count["joined"] += 1


def joiners(target: Target) -> None:
    target.together(*(partial(joiner, target, number) for number in range(CROWD)))


def some_join(outcome: Outcome) -> None:
    """Events pass, but those who wait to join come in, too; and they have half of the time at most."""
    joined, share = outcome.count.get("joined", 0), outcome.rest["share_of_joins"]
    assert joined >= CROWD, f"{joined} joined only"
    assert outcome.log_lines <= 3 * joined + 100, f"{outcome.log_lines} lines for {joined} that joined"
    assert share <= MOST_SHARE, f"joins have {share:.2f} of the time, at most {MOST_SHARE} is allowed"


def registrations(target: Target) -> None:
    """Register under ever new names, on ever new connections, and hang up before Configure."""
    numbers = itertools.count()

    def turn() -> None:
        number = next(numbers)
        with target.connect(f"n{number}", f"{number % 100:02}") as plugin:
            plugin.register()
            plugin.wait_for("Configure")

    target.together(*[turn] * 4)


def registers_again(target: Target) -> None:
    """Register over and over on one connection."""
    with target.connect(events=1) as plugin:
        plugin.join()
        while not target.over:
            plugin.name = f"other{target.count['again']}"
            plugin.register()
            target.count["again"] += 1
            assert plugin.reply().code, "a second registration was taken"


def silent_connections(target: Target) -> None:
    """Three hundred connections that say nothing; each that is closed is made anew."""
    holder: list[Hostile] = []
    while not target.over:
        target.count["connections"] += 1
        try:
            holder.append(target.connect())
        except (Gone, OSError):
            target.sleep(0.05)
        if len(holder) > 300:
            holder.pop(0).close()
    for resource in holder:
        resource.close()


def half_requests(target: Target) -> None:
    """Connections that send nearly all of a request of 4 MiB, and hang up."""
    length = frames.MAX_DATA
    data = length.to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\x01\x00" + bytes(length - 1)
    pieces = pack(RUNTIME_SERVICE_CONN, data)

    def turn() -> None:
        with target.connect() as plugin:
            plugin.send(pieces)
            target.count["sent"] += 1

    target.together(*[turn] * 4)


def slow_letters(target: Target) -> None:
    """Two hundred connections that send a registration byte by byte."""
    holder = []
    for number in range(200):
        plugin = target.connect(f"slow{number}")
        plugin.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024)
        holder.append((plugin, plugin.request_bytes("RegisterPlugin", m.RegisterPluginRequest(plugin_name="x" * 500))))
    for place in itertools.count():
        for plugin, data in holder:
            if target.over or place >= len(data):
                return
            target.count["letters"] += 1
            try:
                plugin.sock.sendall(data[place : place + 1])
            except OSError:
                continue


ROWS = (
    Attack(
        "updates",
        "asks for 500 updates at a time, a hundred requests under way",
        "refused when its queue is full; events go on",
        updates,
        after_mib=16,
        check=some_are_refused,
    ),
    Attack(
        "joiners",
        "sixteen connections join and leave all the time, where a snapshot takes 100 ms",
        "joins have half of the time at most, and events the rest",
        joiners,
        node={"snapshot_s": 0.1},
        check=some_join,
        log_lines=100,
    ),
    Attack(
        "registrations",
        "registers under ever new names and hangs up, on four connections at a time",
        "forgotten again",
        registrations,
        log_lines=200,
    ),
    Attack(
        "registers-again",
        "registers over and over on one connection",
        "refused; its name stays",
        registers_again,
        short=False,
    ),
    Attack(
        "silent-connections",
        "three hundred connections that say nothing",
        "the oldest of more than 64 are closed",
        silent_connections,
        log_lines=50,
    ),
    Attack(
        "half-requests",
        "four connections at a time send nearly all of a request of 4 MiB, and hang up",
        "given back with the connection",
        half_requests,
        after_mib=64,
    ),
    Attack(
        "slow-letters",
        "two hundred connections that register byte by byte",
        "closed when their time is up",
        slow_letters,
        node={"registration_timeout_s": 1.0},
        short=False,
    ),
)
