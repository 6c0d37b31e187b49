"""A merge with a conflict: three answers, the ledger's owners, and the claim that fails the event.

It shows that an answer is taken completely or not at all. The answers go through the real merge, so owners and the
error's text are real.
"""

from __future__ import annotations

from nri.adaptation.merge import CreateMerge
from nri.api import messages as m
from nri.errors import ConflictError
from tools.pictures.svg import Picture

ALT = (
    "10-numa sets the variable ZONE and the CPUs. 15-log sets another variable. 20-pin sets a third variable and the "
    "CPUs: its answer is refused, the container is not created, and the error names 20-pin and 10-numa."
)
CONTAINER = "web"
#: Plugin -> the fields of its answer: name in the API's enum, key, value.
ANSWERS = {
    "10-numa": [("Env", "ZONE", "a"), ("CPUSetCPUs", "", "0-3")],
    "15-log": [("Env", "LOG", "info")],
    "20-pin": [("Env", "DEBUG", "1"), ("CPUSetCPUs", "", "4-7")],
}
LEFT, MIDDLE, RIGHT, ROW = 24, 292, 604, 30


def reply_of(fields: list[tuple[str, str, str]]) -> m.CreateContainerResponse:
    """The reply that sets these fields."""
    reply = m.CreateContainerResponse()
    for name, key, value in fields:
        if name == "Env":
            reply.adjust.env.add(key=key, value=value)
        else:
            reply.adjust.linux.resources.cpu.cpus = value
    return reply


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 470, ALT)
    for x, words in ((LEFT, "the answers, in order"), (MIDDLE, "the ledger: who owns what"), (RIGHT, "what follows")):
        picture.words(x, 30, words, bold=True, size=14.5)
    merge = CreateMerge(m.CreateContainerRequest(container=m.Container(id=CONTAINER)))
    y = 52.0
    text = ""
    for plugin, fields in ANSWERS.items():
        try:
            merge.apply(plugin, reply_of(fields))
        except ConflictError as error:
            text = str(error)
        y = show(picture, y, plugin, fields, merge)
    picture.box((LEFT, y + 6, 812, 46), ["the container is not created", text.strip()], "red", bold=True, size=14)
    picture.words(
        LEFT,
        y + 78,
        "Both may add to one list, not the same entry of it. To take an entry over on purpose, a plugin",
        size=12.5,
    )
    picture.words(
        LEFT, y + 97, "removes it and sets it in one answer. When the event is over, nobody owns anything.", size=12.5
    )
    return picture


def show(picture: Picture, y: float, plugin: str, fields: list[tuple[str, str, str]], merge: CreateMerge) -> float:
    """Draw one answer, the ledger's entries for its fields, and the result; returns the top of the next one."""
    height = len(fields) * ROW + 34
    owners = [merge.ledger.owner(CONTAINER, int(m.Field.Value(name)), key) for name, key, _ in fields]
    accepted = all(owner == plugin for owner in owners)
    picture.box((LEFT, y, 216, height), (), "plain")
    picture.words(LEFT + 12, y + 18, plugin, bold=True, size=14)
    for number, ((name, key, value), owner) in enumerate(zip(fields, owners, strict=True)):
        at = y + 34 + number * ROW
        what = f"{name} {key}".strip()
        picture.words(LEFT + 12, at + 12, f"`{what} = {value}`", size=12.5, room=196)
        refused = owner not in ("", plugin)
        colour = "green" if accepted else "red" if refused else "plain"
        picture.arrow((LEFT + 218, at + 12), (MIDDLE - 4, at + 12), colour=colour, dashed=not accepted)
        says = f"owned by {owner}" if owner else "claimed, and taken back"
        picture.box((MIDDLE, at, 264, 25), f"`{what}`: {says}", colour, dashed=not accepted, size=12.5)
        if number == len(fields) - 1:
            words = ["taken", "the next plugin sees it"] if accepted else ["`ConflictError`", "nothing of it is taken"]
            top = y + height / 2 - 4
            picture.arrow((MIDDLE + 268, top + 8), (RIGHT - 4, top + 8), colour="green" if accepted else "red")
            picture.box((RIGHT, top - 15, 232, 46), words, "green" if accepted else "red", bold=True, size=13.5)
    return y + height + 12
