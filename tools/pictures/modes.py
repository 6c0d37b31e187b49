"""The four ways in which the node agent's decisions reach containers, and when a container has its values."""

from __future__ import annotations

from tools.pictures.svg import Picture

ALT = (
    "The agent's modes. Mode nri: a plugin of the runtime. Mode proxy: a CRI proxy between kubelet and runtime. Mode "
    "hooks: a server of Koordinator's runtime proxy. These three set values before the container's first instruction. "
    "Mode standalone writes cgroups soon after the start."
)
ROWS = (
    ("nri", "the runtime asks it, as a plugin", "before its first instruction", "green"),
    ("proxy", "is in front of a runtime without NRI", "before its first instruction", "green"),
    ("hooks", "Koordinator's runtime proxy asks it", "before its first instruction", "green"),
    ("standalone", "looks, and writes cgroups itself", "soon after its start", "amber"),
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 392, ALT)
    picture.box((20, 96, 190, 60), ["rules", "NodeSLO and others"], bold=True, size=13.5)
    picture.box((20, 206, 190, 60), ["pods", "labels, annotations"], bold=True, size=13.5)
    picture.words(20, 300, "from an apiserver, files,", "soft", size=12)
    picture.words(20, 317, "or the kubelet", "soft", size=12)
    picture.box((264, 146, 120, 70), ["hooks", "decide"], "purple", bold=True, size=14)
    picture.arrow((210, 126), (238, 126), (262, 166), colour="purple")
    picture.arrow((210, 236), (238, 236), (262, 196), colour="purple")
    picture.words(436, 28, "mode", "soft", size=12)
    picture.words(690, 28, "a container has its values", "soft", size=12)
    for number, (name, what, when, colour) in enumerate(ROWS):
        y = 46 + number * 84
        picture.box((432, y, 242, 64), [f"`{name}`", what], "blue", bold=True, size=13.5)
        picture.arrow((384, 181), (408, 181), (408, y + 32), (430, y + 32), colour="purple")
        picture.words(690, y + 32, when, colour, size=12, room=164)
    return picture
