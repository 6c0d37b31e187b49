"""The mounts of a spec. Tests of deviations are named like the attributes of `Rules`, and show both modes."""

from typing import Any

import pytest

from nri.errors import SpecError
from nri.rules import Rules
from tests.unit.oci.build import adjust


def bind(destination: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": "bind", "source": source, "options": list(options)}


def destinations(spec: dict[str, Any]) -> list[str]:
    return [mount["destination"] for mount in spec["mounts"]]


def test_mounts_are_removed_replaced_added_and_sorted_by_depth() -> None:
    spec = {"mounts": [{"destination": path} for path in ("/sys/fs/cgroup", "/proc", "/dev", "/old")]}
    added = [{"destination": "-/old"}, {"destination": "/data"}, bind("/dev", "/x", "rw"), {"destination": "/"}]
    new_spec = adjust(spec, mounts=added)
    # The root has one slash too, and sorts before the others of one.
    assert destinations(new_spec) == ["/", "/data", "/dev", "/proc", "/sys/fs/cgroup"]
    assert new_spec["mounts"][2] == bind("/dev", "/x", "rw")


def test_without_mounts_nothing_is_sorted() -> None:
    spec = {"mounts": [{"destination": "/b/c"}, {"destination": "/a"}]}
    assert adjust(spec, args=["x"])["mounts"] == spec["mounts"]
    assert destinations(adjust(spec, mounts=[{"destination": "-/none"}])) == ["/a", "/b/c"]


def test_removing_a_mount_of_a_spec_without_mounts_changes_nothing() -> None:
    assert adjust({}, mounts=[{"destination": "-/a"}]) == {}


@pytest.mark.parametrize(
    ("option", "source", "before", "after"),
    [
        ("rshared", "/shared/x", None, "rshared"),
        ("rshared", "/both", "rslave", "rshared"),
        ("rslave", "/slave", None, "rslave"),
        ("rslave", "/shared", "rprivate", "rslave"),
        ("rslave", "/shared", "rshared", "rshared"),
        ("rprivate", "/x", None, None),
    ],
)
def test_the_root_gets_the_propagation_of_a_mount(
    option: str, source: str, before: str | None, after: str | None
) -> None:
    spec = {"linux": {"rootfsPropagation": before}} if before else {}
    for rules in (Rules.DEFAULT, Rules.REFERENCE):
        new_spec = adjust(spec, rules, mounts=[bind("/a", source, "rbind", option)])
        assert new_spec.get("linux", {}).get("rootfsPropagation") == after


@pytest.mark.parametrize(
    ("option", "source", "reason"),
    [
        ("rshared", "/x", 'path "/x" mount propagation is "", not "rshared"'),
        ("rshared", "/slave", 'path "/slave" mount propagation is "rslave", not "rshared"'),
        ("rslave", "/x", 'path "/x" mount propagation is "", not "rshared or rslave"'),
        ("rslave", "x", 'failed to get mount info for "x"'),
    ],
)
def test_a_source_that_does_not_propagate_is_refused(option: str, source: str, reason: str) -> None:
    for rules in (Rules.DEFAULT, Rules.REFERENCE):
        with pytest.raises(SpecError) as caught:
            adjust({}, rules, mounts=[bind("/a", source, "rbind", option)])
        assert str(caught.value) == f"failed to adjust mounts in OCI Spec: {reason}"


def test_propagation_per_mount() -> None:
    tmpfs = {"destination": "/t", "type": "tmpfs", "source": "tmpfs", "options": ["rslave"]}
    one_by_one = [bind("/a", "/shared", "rbind", "rshared"), bind("/b", "/x", "rbind")]
    for mounts in ([tmpfs], one_by_one):
        with pytest.raises(SpecError, match="failed to adjust mounts in OCI Spec"):
            adjust({}, Rules.REFERENCE, mounts=mounts)
        adjust({}, mounts=mounts)
    assert adjust({}, mounts=[tmpfs]) == {"mounts": [tmpfs]}
    assert adjust({}, mounts=one_by_one)["linux"] == {"rootfsPropagation": "rshared"}
