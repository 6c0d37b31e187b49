"""Where a runtime calls NRI when it creates a container; three plugins stand for any number."""

from __future__ import annotations

from tools.pictures.svg import Picture

ALT = (
    "The kubelet asks the runtime to create a container. The runtime prepares image, network and OCI spec, asks the "
    "plugins 10-injector, 20-pin and 90-audit one after another, merges their answers, and calls the OCI runtime."
)
PLUGINS = (
    ("10-injector", '"add this"', "1st"),
    ("20-pin", '"on these CPUs"', "2nd"),
    ("90-audit", '"fine"', "3rd"),
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 372, ALT)
    picture.box((20, 76, 820, 150), (), "blue")
    picture.words(324, 96, "container runtime", "blue", bold=True, size=13)
    picture.words(466, 96, "containerd, CRI-O, nri engine", "soft", size=12)
    picture.box((34, 16, 170, 34), "kubelet", bold=True, size=14)
    picture.arrow((119, 50), (119, 118))
    picture.words(130, 62, "CRI: create this container", "soft", size=12.5)
    for x, width, lines, colour in (
        (34, 220, ["prepares", "image, network, OCI spec"], "plain"),
        (324, 212, ["NRI adaptation", "asks, merges, validates"], "purple"),
        (606, 220, ["OCI runtime", "runc, crun: makes it"], "plain"),
    ):
        picture.box((x, 120, width, 60), lines, colour, bold=True, size=14)
    picture.arrow((254, 150), (322, 150))
    picture.arrow((536, 150), (604, 150))
    for number, (name, action, place) in enumerate(PLUGINS):
        x = 430 + (number - 1) * 240
        picture.box((x - 95, 296, 190, 56), [f"`{name}`", action], "green", bold=True, size=13.5)
        start = 430 + (number - 1) * 56
        picture.arrow((start, 180), (start, 252), (x, 270), (x, 294), colour="purple")
        picture.words(x + 10, 284, place, "purple", size=12)
    picture.words(512, 206, "before the container exists", "soft", size=12)
    picture.words(34, 244, "one unix socket, the plugins are", "soft", size=12)
    picture.words(34, 261, "programs of their own", "soft", size=12)
    return picture
