"""Types of balloons that contradict themselves or each other; the recorded cases have more."""

import pytest

from tests.support.placement import balloons


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ({"name": "a", "minCPUs": 4, "maxCPUs": 2}, r"minCPUs: 4 is above maxCPUs \(2\)"),
        ({"name": "a", "minBalloons": -1}, "minBalloons: -1 is out of range"),
        ({"name": "a", "minBalloons": 100_000}, "minBalloons: 100000 balloons, .* exceed 4096"),
        ({"name": "reserved", "maxBalloons": 2}, "the balloon type 'reserved' has exactly one balloon"),
        ({"name": "a", "components": [{"balloonType": "a"}]}, "component of itself"),
        ({"name": "a", "components": [{"balloonType": "b"}]}, "'b' is not in balloonTypes"),
        ({"name": "a", "shareIdleCPUsInSame": "socket"}, "expected one of"),
    ],
)
def test_a_contradictory_type_is_refused(kind: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        balloons(kind)


def test_names_of_types_are_unique_and_components_have_no_cycle() -> None:
    with pytest.raises(ValueError, match="duplicate name 'a'"):
        balloons({"name": "a"}, {"name": "a"})
    chain = [{"name": f"t{n}", "components": [{"balloonType": f"t{n + 1}"}]} for n in range(20)]
    with pytest.raises(ValueError, match="too deep"):
        balloons(*chain, {"name": "t20"})


def test_a_composite_of_more_balloons_than_any_machine_has_cpus_is_refused() -> None:
    levels = [{"name": f"t{n}", "components": [{"balloonType": f"t{n + 1}"}] * 9} for n in range(4)]
    with pytest.raises(ValueError, match=r"balloonTypes\[0\].components: 't0' has more than 4096 components"):
        balloons(*levels, {"name": "t4"})
    assert balloons(*levels[1:], {"name": "t4"}).balloons


def test_loads_must_name_a_class() -> None:
    with pytest.raises(ValueError, match=r"balloonTypes\[0\].loads\[0\]: 'net' is not in loadClasses"):
        balloons({"name": "a", "loads": ["net"]}, loadClasses=[{"name": "disk", "level": "core"}])
