"""How changes are attributed to plugins: bytes are kept while requests run, and merged again on demand.

The table is made by the real code from generated events.
"""

from __future__ import annotations

from nri.adaptation.audit.diff import Change, show
from nri.adaptation.audit.provenance import Provenance
from nri.api import messages as m
from tools.pictures.svg import Picture

ALT = (
    "While requests run, the history of a container gets the request and the reply of each plugin as bytes. nri why "
    "runs the merge again on these bytes, and prints a table of changes."
)
CONTAINER = "1f2e3d"
COLUMNS = ((40, "event"), (210, "plugin"), (350, "field"), (520, "before"), (660, "after"))


def create_reply(env: dict[str, str], cpus: str) -> bytes:
    """A reply to CreateContainer."""
    reply = m.CreateContainerResponse()
    for key, value in env.items():
        reply.adjust.env.add(key=key, value=value)
    if cpus:
        reply.adjust.linux.resources.cpu.cpus = cpus
    encoded: bytes = reply.SerializeToString()
    return encoded


def history() -> list[tuple[str, bytes, list[tuple[str, bytes]]]]:
    """Two events of one container: name, request, replies."""
    container = m.Container(id=CONTAINER, name="web", env=["LOG=info"])
    create = m.CreateContainerRequest(container=container)
    update = m.UpdateContainerRequest(container=container)
    update.linux_resources.memory.limit.value = 256 << 20
    answer = m.UpdateContainerResponse(update=[m.ContainerUpdate(container_id=CONTAINER)])
    answer.update[0].linux.resources.cpu.cpus = "4-5"
    replies = [("10-injector", create_reply({"LOG": "debug"}, "")), ("20-pin", create_reply({}, "4-7"))]
    return [
        ("CreateContainer", create.SerializeToString(), replies),
        ("UpdateContainer", update.SerializeToString(), [("20-pin", answer.SerializeToString())]),
    ]


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 520, ALT)
    picture.words(24, 30, "While requests run: bytes are kept, nothing is worked out", bold=True, size=15)
    provenance = Provenance()
    events = history()
    x = 40.0
    picture.box((24, 150, 812, 82), (), "plain")
    picture.words(820, 172, f"the history of container {CONTAINER}", bold=True, size=12.5, align="end")
    for name, request, replies in events:
        provenance.record(name, CONTAINER, request, replies)
        x = show_event(picture, x, name, [label for label, _ in replies])
    picture.words(820, 206, "bounded: the oldest are forgotten", "soft", size=12.5, align="end")
    picture.words(24, 270, "When a person asks", bold=True, size=15)
    picture.arrow((250, 234), (250, 300), colour="blue")
    picture.box((200, 300, 360, 36), "the same merge, run again on the same bytes", "blue")
    picture.words(24, 318, "`nri why 1f2e3d`", size=13)
    picture.arrow((150, 318), (196, 318))
    picture.arrow((380, 336), (380, 366), colour="blue")
    explanation = provenance.explain(CONTAINER)
    assert explanation is not None
    show_table(picture, [(step.event, step.plugin, step.change) for step in explanation.steps])
    return picture


def show_event(picture: Picture, x: float, name: str, plugins: list[str]) -> float:
    """One event, and what of it is kept; returns where the next one begins."""
    blocks = [("request", "blue"), *((f"reply {plugin}", "green") for plugin in plugins)]
    widths = [78 if text == "request" else 140 if "injector" in text else 104 for text, _ in blocks]
    total = sum(widths) + 4 * (len(widths) - 1)
    picture.box((x, 52, total, 44), [name, "is over: one append"], "plain", bold=True, size=13.5)
    at = x
    for (text, colour), width in zip(blocks, widths, strict=True):
        picture.arrow((at + width / 2, 98), (at + width / 2, 190), colour=colour)
        picture.box((at, 192, width, 28), text, colour, size=12.5)
        at += width + 4
    return x + total + 28


def show_table(picture: Picture, steps: list[tuple[str, str, Change]]) -> None:
    """The changes as a table."""
    top = 368
    picture.box((24, top, 812, 36 + 24 * len(steps)), (), "plain")
    for x, title in COLUMNS:
        picture.words(x, top + 18, title.upper(), "soft", size=12)
    for number, (event, plugin, change) in enumerate(steps):
        y = top + 42 + number * 24
        field = f"{change.field} {change.key}".strip()
        cells = (event, plugin, field, show(change.before), show(change.after))
        for (x, _), cell in zip(COLUMNS, cells, strict=True):
            picture.words(x, y, f"`{cell}`", size=12.5)
