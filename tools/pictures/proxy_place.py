"""The proxy between a kubelet and a runtime without NRI: the calls that pass, and those that become events."""

from __future__ import annotations

from tools.pictures.svg import Picture

ALT = (
    "The kubelet calls the proxy, which forwards most calls unchanged. Calls that change pods and containers go to "
    "NRI plugins first, and their answers change the request to the runtime."
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(860, 330, ALT)
    picture.box((20, 90, 140, 64), ["kubelet", "CRI client"], bold=True, size=13.5)
    picture.box((230, 40, 400, 164), (), "blue")
    picture.words(246, 60, "`nri proxy`", "blue", bold=True, size=14)
    picture.box((246, 80, 368, 40), "images, statuses, logs: bytes pass", size=13)
    picture.box((246, 144, 190, 44), "pods, containers", "purple", size=13)
    picture.box((464, 144, 150, 44), "changed request", "purple", size=13)
    picture.box((700, 90, 140, 64), ["runtime", "without NRI"], bold=True, size=13.5)
    picture.arrow((160, 110), (200, 110), (200, 100), (244, 100))
    picture.arrow((160, 134), (200, 134), (200, 166), (244, 166))
    picture.arrow((614, 100), (660, 100), (660, 110), (698, 110))
    picture.arrow((614, 166), (660, 166), (660, 134), (698, 134))
    picture.box((326, 256, 208, 56), ["NRI plugins", "asked one after another"], "green", bold=True, size=13.5)
    picture.arrow((360, 188), (360, 254), colour="purple")
    picture.words(350, 228, "event", "soft", size=12, align="end")
    picture.arrow((500, 256), (500, 190), colour="green")
    picture.words(512, 228, "answers, merged", "soft", size=12)
    return picture
