"""Resources merged, and told in the CRI's words."""

import pytest

from nri.api import messages as m
from nri.engine.lifecycle.resources import _with_swap, _without, in_force, merged
from tests.unit.engine.lifecycle.conftest import Dry


def test_others_go_over_them_key_by_key() -> None:
    old = {"cpu": {"shares": 2, "cpus": "0"}, "hugepageLimits": [{"pageSize": "2MB", "limit": 1}], "devices": [1]}
    new = {"cpu": {"shares": 9}, "pids": {"limit": 5}, "hugepageLimits": [{"pageSize": "1GB", "limit": 3}]}
    assert merged(old, new) == {
        "cpu": {"shares": 9, "cpus": "0"},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 3}],
        "devices": [1],
        "pids": {"limit": 5},
    }
    assert old["cpu"] == {"shares": 2, "cpus": "0"}


def test_what_the_spec_says_counts_and_what_only_the_request_knows_stays() -> None:
    spec = {"linux": {"resources": {"cpu": {"shares": 300}, "memory": {"limit": 1 << 20}}}}
    asked = {"cpu_shares": "100", "oom_score_adj": "5"}
    assert in_force(spec, asked) == {"cpu_shares": "300", "memory_limit_in_bytes": str(1 << 20), "oom_score_adj": "5"}
    assert in_force({}, asked) == asked


def test_a_limit_of_memory_is_one_of_swap_where_swap_is_limited() -> None:
    told = {"memory": {"limit": 7}}
    assert _with_swap(told, {"linux": {"resources": {"memory": {"limit": 7, "swap": 9}}}}) == {
        "memory": {"limit": 7, "swap": 9}
    }
    assert _with_swap(told, {"linux": {"resources": {"memory": {"limit": 7}}}}) == told
    assert told == {"memory": {"limit": 7}}


def _update(container: str, **fields: int) -> m.ContainerUpdate:
    made = m.ContainerUpdate(container_id=container)
    for name, value in fields.items():
        part = made.linux.resources.cpu if name == "shares" else made.linux.resources.memory
        getattr(part, name).value = value
    return made


def test_an_answer_that_arrives_late_leaves_what_a_later_one_has_changed(dry: Dry) -> None:
    made = dry.create(dry.pod())
    update = dry.engine.nri.update
    late = 10**9
    assert not update([_update(made, shares=700)], late + 2)[0].failed
    (result,) = update([_update(made, shares=600, limit=64 << 20)], late + 1)
    rows = {row.field: row.outcome for row in result.fields}
    assert rows == {"cpu.shares": "unsupported", "memory.limit": "applied"}
    resources = dry.engine.containers.get(made).resources
    assert (resources["cpu_shares"], resources["memory_limit_in_bytes"]) == ("700", str(64 << 20))
    update([_update(made, shares=800)], late + 3)
    assert dry.engine.containers.get(made).resources["cpu_shares"] == "800"


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("cpu.shares", {"cpu.cpus", "unified", "hugepage_limits", "rdt_class"}),
        ("unified[memory.high]", {"cpu.cpus", "cpu.shares", "hugepage_limits", "rdt_class"}),
        ("hugepage_limits[2MB]", {"cpu.cpus", "cpu.shares", "unified", "rdt_class"}),
        ("rdt_class", {"cpu.cpus", "cpu.shares", "unified", "hugepage_limits"}),
    ],
)
def test_a_field_is_taken_out_by_its_name(field: str, left: set[str]) -> None:
    whole = m.LinuxResources(unified={"memory.high": "1"}, hugepage_limits=[m.HugepageLimit(page_size="2MB", limit=1)])
    whole.cpu.cpus = "0"
    whole.cpu.shares.value = 5
    whole.rdt_class.value = "gold"
    made = _without(whole, [field])
    found = {each.name for each, _ in made.ListFields()} - {"cpu"} | {
        f"cpu.{each.name}" for each, _ in made.cpu.ListFields()
    }
    assert found == left and whole.cpu.shares.value == 5
