"""One socket with two connections, because both sides are client and server."""

from __future__ import annotations

from tools.pictures.svg import Picture

ALT = (
    "Connection 1: the runtime's adaptation calls Configure, Synchronize and the events of the plugin's stub. "
    "Connection 2: the stub calls RegisterPlugin and UpdateContainers of the adaptation. A mux carries both over one "
    "unix socket."
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 270, ALT)
    for x, name, colour in ((20, "the plugin's stub", "green"), (620, "the runtime's adaptation", "blue")):
        picture.box((x, 20, 220, 170), (), colour)
        picture.words(x + 14, 40, name, colour, bold=True, size=13.5)
    for y, plugin, runtime, calls, number in (
        (60, "ttRPC client", "ttRPC server", "`RegisterPlugin`, `UpdateContainers`", 2),
        (126, "ttRPC server", "ttRPC client", "`Configure`, `Synchronize`, events", 1),
    ):
        picture.box((36, y, 188, 48), plugin, size=13)
        picture.box((636, y, 188, 48), runtime, size=13)
        ends = [(226, y + 24), (634, y + 24)]
        picture.arrow(*(ends if number == 2 else ends[::-1]), colour="green" if number == 2 else "blue")
        picture.words(430, y + 10, calls, align="middle", size=13, room=380)
        picture.words(430, y + 40, f"connection {number}", "soft", align="middle", size=12)
    picture.line((130, 190), (130, 232), (252, 232), colour="amber")
    picture.box((252, 212, 356, 40), "mux, over one unix stream socket", "amber", size=13.5)
    picture.line((608, 232), (730, 232), (730, 190), colour="amber")
    return picture
