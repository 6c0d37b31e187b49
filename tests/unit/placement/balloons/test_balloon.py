"""The maximum size of a balloon, and its saved state."""

from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.options import BalloonType, Component


def test_a_balloon_grows_to_its_limit_or_to_all_free_cpus() -> None:
    assert Balloon(BalloonType("a", maxCPUs=4), 0, cpus=0b11).max_size_m(8) == 4000
    assert Balloon(BalloonType("a"), 0, cpus=0b11).max_size_m(8) == 10000
    parts = [Balloon(BalloonType("a", maxCPUs=2), n) for n in range(2)]
    balloon = Balloon(BalloonType("b", components=[Component("a")]), 0, components=parts)
    assert balloon.max_size_m(8) == 4000
    assert [str(part) for part in balloon.parts()] == ["b[0]", "a[0]", "a[1]"]


def test_a_balloon_is_restored_from_its_saved_state() -> None:
    balloon = Balloon(BalloonType("a"), 0, cpus=1, pods={"p": ("c",)}, groups={"g": 1})
    saved = balloon.saved()
    balloon.cpus, balloon.pods["p"], balloon.groups["g"] = 3, ("c", "d"), 2
    balloon.restore(saved)
    assert (balloon.cpus, balloon.containers, balloon.groups, balloon.size_m) == (1, ["c"], {"g": 1}, 1000)


def test_a_pod_keeps_its_position_when_a_container_is_removed() -> None:
    """The order in which the original mostly pins them: of a small map of Go, and of a list whose last fills gaps."""
    balloon = Balloon(BalloonType("a"), 0)
    for pod, name in (("p", "a"), ("p", "b"), ("p", "c"), ("q", "d")):
        balloon.add(pod, name)
    balloon.remove("p", "a")
    assert balloon.containers == ["c", "b", "d"]
    assert balloon.turn("p", "b") < balloon.turn("q", "d")
    balloon.remove("p", "b")
    balloon.remove("p", "c")
    assert balloon.containers == ["d"]
