"""Plugins that claim to be what they are not, and answers to Configure that nothing good follows from."""

from __future__ import annotations

from functools import partial

from nri.api import messages as m
from nri.ttrpc import Code
from tests.torture.attack import Attack
from tests.torture.course import Outcome
from tests.torture.hostile import Raw, Target


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
            wrong = m.ConfigureResponse(events=-1).SerializeToString()
            plugin.answer(request.stream_id, wrong if turns % 2 else Raw(b"\x12\x05\xff\xff\xff\xff\xff"))
            plugin.next(1.0)

    target.again(turn)


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
        "bad-masks",
        "answers Configure with events that do not exist, or garbage",
        "it does not join",
        bad_masks,
        log_lines=200,
    ),
)
