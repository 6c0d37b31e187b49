"""The events of a pod and of its containers in their order, before and after each step of the runtime."""

from __future__ import annotations

from tools.pictures.svg import Picture

ALT = (
    "The events of a pod: RunPodSandbox, the events of its containers, StopPodSandbox, RemovePodSandbox. A container "
    "has CreateContainer with validation, StartContainer, any number of UpdateContainer, StopContainer and "
    "RemoveContainer; some are followed by a Post event."
)
COLUMNS = (
    ("CreateContainer", "PostCreateContainer"),
    ("StartContainer", "PostStartContainer"),
    ("UpdateContainer", "PostUpdateContainer"),
    ("StopContainer", ""),
    ("RemoveContainer", ""),
)


def draw() -> Picture:
    """The picture."""
    picture = Picture(900, 300, ALT)
    picture.words(20, 28, "pod", "blue", bold=True, size=14)
    for x, name in ((20, "RunPodSandbox"), (548, "StopPodSandbox"), (724, "RemovePodSandbox")):
        picture.box((x, 44, 156, 40), name, "blue", size=13)
    picture.arrow((176, 64), (546, 64), colour="blue")
    picture.arrow((704, 64), (722, 64), colour="blue")
    picture.words(20, 130, "container", "green", bold=True, size=14)
    for number, (before, after) in enumerate(COLUMNS):
        x = 20 + number * 176
        dim = "plain" if before == "RemoveContainer" else "green"
        picture.box((x, 148, 156, 40), before, dim, size=13)
        if after:
            picture.box((x, 218, 156, 36), after, "plain", size=12.5)
            picture.arrow((x + 78, 188), (x + 78, 216))
        if number:
            picture.arrow((x - 20, 168), (x - 2, 168), colour="green")
    picture.arrow((140, 84), (140, 146), colour="blue")
    picture.arrow((626, 146), (626, 86), colour="blue")
    picture.words(20, 278, "coloured: before the step, it counts", "soft", size=12)
    picture.words(270, 278, "grey: for information", "soft", size=12)
    picture.words(424, 278, "UpdateContainer: any number of times", "soft", size=12)
    return picture
