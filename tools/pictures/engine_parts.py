"""The engine and the programs around it: its callers, the programs that it calls, and plugins."""

from __future__ import annotations

from tools.pictures.svg import Picture

ALT = (
    "The kubelet, crictl or nri pod call the engine over the CRI. The engine uses skopeo and umoci for images, CNI "
    "plugins for the network, NRI plugins for changes, and runc or crun for the container, which conmon watches."
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 400, ALT)
    picture.box((20, 96, 160, 64), ["kubelet", "`nri pod`, crictl"], bold=True, size=13.5)
    picture.arrow((180, 128), (238, 128))
    picture.words(209, 112, "CRI", "soft", size=12, align="middle")
    picture.box((240, 60, 380, 220), (), "blue")
    picture.words(256, 80, "`nri engine`", "blue", bold=True, size=14)
    for x, y, lines, colour in (
        (256, 100, ["image", "layers, config"], "plain"),
        (256, 176, ["network", "a namespace each"], "plain"),
        (436, 100, ["OCI spec", "`config.json`"], "plain"),
        (436, 176, ["adaptation", "asks and merges"], "purple"),
    ):
        picture.box((x, y, 168, 56), lines, colour, bold=True, size=13.5)
    picture.words(256, 258, "state on disk: the next start finds all again", "soft", size=12)
    for x, lines in ((256, ["skopeo, umoci"]), (384, ["CNI plugins"])):
        picture.box((x, 330, 116, 44), lines, size=13)
        picture.arrow((x + 58, 280), (x + 58, 328))
    picture.box((512, 330, 108, 44), "`nri why`", "purple", size=13)
    picture.arrow((566, 330), (566, 282), colour="purple")
    picture.box((682, 60, 158, 64), ["NRI plugins", "in any language"], "green", bold=True, size=13.5)
    picture.arrow((604, 196), (652, 196), (652, 92), (680, 92), colour="purple")
    picture.box((682, 186, 158, 64), ["runc, crun", "make it"], bold=True, size=13.5)
    picture.arrow((620, 228), (680, 228))
    picture.box((682, 310, 158, 64), ["container", "watched by conmon"], bold=True, size=13.5)
    picture.arrow((761, 250), (761, 308))
    return picture
