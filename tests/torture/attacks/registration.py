"""Plugins that claim to be what they are not, and answers to Configure that nothing good follows from."""

from __future__ import annotations

from functools import partial

from nri.api import messages as m
from nri.ttrpc import Code
from nri.ttrpc.envelope import Request
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Answer, Raw, Target


def as_another(target: Target) -> None:
    """Register as a plugin that is there."""
    with target.connect("steady", "25") as plugin:
        plugin.register()
        reply = plugin.reply()
        assert reply.code == Code.ALREADY_EXISTS, reply
        target.count["refused"] += 1


def duplicates(target: Target) -> None:
    target.together(*[partial(as_another, target)] * 8)


def all_are_refused(outcome: Outcome) -> None:
    assert outcome.count.get("refused", 0) >= 8, outcome.count


def impostor(target: Target) -> None:
    """It joins and answers everything, so that it would have taken part."""
    with target.connect("10-guard", "99") as plugin:
        plugin.join()
        target.count["joined"] += 1
        plugin.serve(target, lambda request: b"")


def no_creation_passes(outcome: Outcome) -> None:
    created = [row for thread in outcome.events for row in thread if row[0] == "CreateContainer"]
    passed = [row for row in created if not row[3]]
    assert created and not passed, f"{len(passed)} of {len(created)} containers were created without 10-guard"


def bad_masks(target: Target) -> None:
    """Answer Configure with events that do not exist, or with something that cannot be read."""

    def turn() -> None:
        with target.connect() as plugin:
            plugin.register()
            request = plugin.wait_for("Configure")
            turns = target.count["turns"]
            wrong = m.ConfigureResponse(events=1 << 30).SerializeToString()
            plugin.answer(request.stream_id, wrong if turns % 2 else Raw(b"\x12\x05\xff\xff\xff\xff\xff"))
            plugin.next(1.0)

    target.again(turn)


def guard(target: Target) -> None:
    """Register as 10-guard, which only another user may be called."""
    with target.connect("guard", "10") as plugin:
        plugin.register()
        assert plugin.reply().code, "the name was given to the wrong user"
        target.count["refused"] += 1


def is_refused_and_missed(outcome: Outcome) -> None:
    assert outcome.count.get("refused"), "nothing was refused"
    passed = [row for thread in outcome.events for row in thread if row[0] == "RunPodSandbox" and not row[3]]
    assert not passed, f"{len(passed)} pods were started without 10-guard, which is required"


def touches_everything(target: Target) -> None:
    """It may set variables; tries an empty object, a field of the future, updates with and without resources."""
    empty = m.ContainerAdjustment()
    empty.linux.rdt.SetInParent()
    update = m.ContainerUpdate(container_id="standing-3")
    full = m.ContainerUpdate(container_id="standing-3")
    full.linux.resources.cpu.shares.value = 2
    replies = [
        m.CreateContainerResponse(adjust=empty).SerializeToString(),
        m.CreateContainerResponse(adjust=m.ContainerAdjustment(mounts=[m.Mount(destination="/x")])).SerializeToString(),
        m.CreateContainerResponse(update=[update]).SerializeToString(),
        m.CreateContainerResponse(update=[full]).SerializeToString(),
        b"\x0a\x06\xfa\x3f\x03new",
    ]

    def turn() -> None:
        with target.connect() as plugin:
            plugin.join(m.SynchronizeResponse(update=[full, update]).SerializeToString())

            def answer(request: Request) -> Answer:
                if request.method != "CreateContainer":
                    return b""
                plugin.ask("UpdateContainers", m.UpdateContainersRequest(update=[full]))
                target.count["creations"] += 1
                return replies[target.count["creations"] % len(replies)]

            plugin.serve(target, answer)

    target.again(turn)


def nothing_came_through(outcome: Outcome) -> None:
    assert outcome.count.get("creations"), "it was never asked"
    assert not outcome.rest["updated"], f"{outcome.rest['updated']} updates that are not allowed were applied"
    passed = [row for thread in outcome.events for row in thread if row[0] == "CreateContainer" and not row[3]]
    during = outcome.count["creations"] - outcome.refused
    assert during <= 1, f"{during} of {outcome.count['creations']} answers were taken, of {len(passed)} creations"


ROWS = (
    Attack(
        "duplicates",
        "eight connections register as a plugin that is there",
        "refused by name; that one stays",
        duplicates,
        check=all_are_refused,
        log_lines=100,
    ),
    Attack(
        "guard-by-name",
        "joins as 99-`10-guard`, where 10-guard is required",
        "counts as what it is: creations are refused",
        lambda target: target.again(partial(impostor, target)),
        ("10-guard",),
        node={"validator": {"enable": True, "required_plugins": ["10-guard"]}},
        check=no_creation_passes,
    ),
    Attack(
        "wrong-bearer",
        "root registers as 10-guard, which only user 12345 may be called, and which is required",
        "refused at registration; creations are refused",
        lambda target: target.again(partial(guard, target)),
        ("10-guard",),
        node={"policy": '["10-guard"]\nuid = 12345\nrequired = true\n'},
        check=is_refused_and_missed,
        log_lines=200,
        short=False,
    ),
    Attack(
        "not-allowed",
        "may set variables; tries mounts, an empty object, an unknown field, updates on three ways",
        "each is refused by name; nothing comes through",
        touches_everything,
        ("20-hostile",),
        node={"policy": '["20-hostile"]\nallow = { fields = ["Env"] }\n'},
        check=nothing_came_through,
        log_lines=200,
    ),
    Attack(
        "bad-masks",
        "answers Configure with events that do not exist, or garbage",
        "the former joins and gets no event, the latter does not join",
        bad_masks,
        log_lines=200,
        short=False,
    ),
)
