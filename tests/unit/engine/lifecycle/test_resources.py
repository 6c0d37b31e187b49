"""Resources merged, and told in the CRI's words."""

from nri.engine.lifecycle.resources import _with_swap, in_force, merged


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
