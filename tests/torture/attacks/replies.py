"""Answers to events that cost whoever takes them: very many entries, very long texts, very much for the next one."""

from __future__ import annotations

from functools import partial

from nri.api import messages as m
from nri.ttrpc.envelope import Request
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Answer, Refusal, Target

#: What the node's error may name as the reason: the plugin that did it.
OURS = ("20-hostile",)
#: A field of a reply that has nothing in it: tag 2 (`update`), length 0.
EMPTY_UPDATE = b"\x12\x00"
SYNC_UPDATE = b"\x0a\x00"


def updates(number: int, name: str = "nobody-{}", event: type = m.CreateContainerResponse) -> bytes:
    """A reply with so many updates."""
    rows = []
    for n in range(number):
        row = m.ContainerUpdate(container_id=name.format(n))
        row.linux.resources.cpu.shares.value = 2 + n
        rows.append(row)
    return bytes(event(update=rows).SerializeToString())


def variables(number: int, begin: str = "V", size: int = 1) -> bytes:
    """A reply to CreateContainer with so many environment variables."""
    adjust = m.ContainerAdjustment(env=[m.KeyValue(key=f"{begin}{n}", value="x" * size) for n in range(number)])
    return m.CreateContainerResponse(adjust=adjust).SerializeToString()


def to_create(reply: bytes, target: Target, name: str = "hostile", idx: str = "20") -> None:
    """Answer each creation with this, and everything else with nothing."""
    with target.connect(name, idx) as plugin:
        plugin.join().serve(target, lambda request: reply if request.method == "CreateContainer" else b"")


def many_updates(target: Target) -> None:
    reply = updates(12_000)
    target.again(partial(to_create, reply, target))


def many_variables_twice(target: Target) -> None:
    own_entry, other_entries = variables(40_000, "A"), variables(40_000, "B")
    target.together(partial(to_create, own_entry, target), partial(to_create, other_entries, target, "hostile", "30"))


def empty_entries(target: Target) -> None:
    reply = EMPTY_UPDATE * 2_000_000
    target.again(partial(to_create, reply, target))


def empty_entries_to_all(target: Target) -> None:
    """UpdateContainer and StopContainer have updates as field 1."""
    create, other = EMPTY_UPDATE * 1_000_000, SYNC_UPDATE * 1_000_000
    with target.connect() as plugin:
        plugin.join().serve(target, lambda request: create if request.method == "CreateContainer" else other)


def empty_nested(target: Target) -> None:
    """Empty entries deep inside: mounts (tag 3) of the adjustment, each with one empty option."""
    mount = b"\x1a\x02\x22\x00"
    body = mount * 500_000
    length = bytearray()
    size = len(body)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    reply = b"\x0a" + bytes(length) + bytes([size]) + body
    target.again(partial(to_create, reply, target))


def rebalance(target: Target) -> None:
    """What a policy that knows its node may ask for: it must pass."""
    reply = updates(1000, "standing-{}")
    target.again(partial(to_create, reply, target))


def long_errors(target: Target) -> None:
    """Only creations: each is recorded for its container, with the text."""
    refusal = Refusal(2, "no " * 1_390_000)
    with target.connect() as plugin:
        plugin.join().serve(target, lambda request: refusal if request.method == "CreateContainer" else b"")


def bogus_ids(target: Target) -> None:
    target.again(partial(to_create, updates(2001, "bogus-{}"), target))


def bogus_ids_refused(target: Target) -> None:
    """The container in the making is among them, which is refused; so nothing of the reply counts."""
    reply = updates(2001, "bogus-{}")

    def answer(request: Request) -> Answer:
        if request.method != "CreateContainer":
            return b""
        id_ = m.CreateContainerRequest.FromString(request.payload).container.id
        return reply + m.CreateContainerResponse(update=[m.ContainerUpdate(container_id=id_)]).SerializeToString()

    with target.connect() as plugin:
        plugin.join().serve(target, answer)


def histories_are_kept(outcome: Outcome) -> None:
    assert not outcome.rest["forgotten"], f"{outcome.rest['forgotten']} containers' histories are gone"


def too_large_for_the_next(target: Target) -> None:
    """Three plugins add 1.9 MiB each, as each alone may; together the next plugin cannot be asked any more.

    The time begins when all three have joined: beside others that join that can take longer than all of it.
    """
    indices = ("20", "21", "22")
    joined: set[str] = set()

    def turn(idx: str, reply: bytes) -> None:
        with target.connect(idx=idx) as plugin:
            plugin.join()
            if idx not in joined:
                joined.add(idx)
                if len(joined) == len(indices):
                    target.begin()
            plugin.serve(target, lambda request: reply if request.method == "CreateContainer" else b"")

    target.wait()
    target.together(*(partial(turn, idx, variables(19, f"BIG{idx}_", 100_000)) for idx in indices))


def large_synchronize(target: Target) -> None:
    """Join over and over, each time with two million empty entries in the reply to Synchronize."""
    reply = SYNC_UPDATE * 2_000_000

    def turn() -> None:
        with target.connect() as plugin:
            plugin.join(reply)
            plugin.next(1.0)

    target.again(turn)


ROWS = (
    Attack(
        "many-updates",
        "answers each creation with 12,000 updates",
        "refused by name: more than 16,000 entries",
        many_updates,
        OURS,
    ),
    Attack(
        "many-variables",
        "two plugins answer each creation with 40,000 variables each",
        "refused by name before the second is asked",
        many_variables_twice,
        ("20-hostile", "30-hostile"),
    ),
    Attack(
        "empty-entries",
        "answers each creation with 2,000,000 empty entries (4 MB)",
        "refused by name, by its size",
        empty_entries,
        OURS,
    ),
    Attack(
        "empty-entries-all",
        "answers each event with 1,000,000 empty entries (2 MB)",
        "refused by name, by their number",
        empty_entries_to_all,
        OURS,
        short=False,
    ),
    Attack(
        "empty-nested",
        "answers each creation with 500,000 mounts of one empty option",
        "refused by name, by their number",
        empty_nested,
        OURS,
        short=False,
    ),
    Attack(
        "rebalance",
        "answers each creation with 1,000 updates, which is allowed",
        "taken: nothing fails",
        rebalance,
        node={"standing": 1000},
        memory_mib=256,
    ),
    Attack(
        "long-errors",
        "refuses every creation with a text of 4 MiB",
        "the text is cut where it comes in",
        long_errors,
        OURS,
    ),
    Attack(
        "bogus-ids",
        "updates 2,001 containers that do not exist",
        "left out and reported; the histories of 50 real ones stay",
        bogus_ids,
        node={"histories": 50},
        check=histories_are_kept,
    ),
    Attack(
        "bogus-ids-refused",
        "the same in replies that are refused, in reference mode",
        "refused by name; the histories of 50 real ones stay",
        bogus_ids_refused,
        OURS,
        node={"histories": 50, "compat": "reference"},
        check=histories_are_kept,
        short=False,
    ),
    Attack(
        "too-large-for-the-next",
        "three plugins add 1.9 MiB of variables each",
        "refused by the name of who added the last",
        too_large_for_the_next,
        ("20-hostile", "21-hostile", "22-hostile"),
        memory_mib=192,
        after_mib=96,  # 32 MiB of it are the records of what was refused
    ),
    Attack(
        "large-synchronize",
        "joins over and over, with 2,000,000 empty entries in its reply to Synchronize",
        "refused by name; it does not join",
        large_synchronize,
    ),
)
