"""What a machine cannot do is taken out of resources, and said."""

from nri.engine.lifecycle.machinery import fit
from nri.engine.spec import Machine


def test_a_whole_machine_takes_all() -> None:
    resources = {"unified": {"memory.high": "1"}, "hugepageLimits": [{"pageSize": "2MB"}], "memory": {"swap": 1}}
    before = {**resources}
    assert fit(resources, Machine()) == [] and resources == before


def test_what_is_missing_is_left_out_and_named() -> None:
    resources = {"unified": {"b": "1", "a": "2"}, "hugepageLimits": [{}], "memory": {"limit": 5, "swap": 9}, "cpu": {}}
    lines = fit(resources, Machine(cgroup_v2=False, hugetlb=False, swap_limit=False))
    assert [line.partition(":")[0] for line in lines] == ["unified (a, b)", "hugepage_limits", "memory.swap"]
    assert resources == {"memory": {"limit": 5}, "cpu": {}}


def test_swap_that_says_no_more_than_the_limit_is_no_loss() -> None:
    resources = {"memory": {"limit": 5, "swap": 5}}
    assert fit(resources, Machine(swap_limit=False)) == [] and resources == {"memory": {"limit": 5}}
