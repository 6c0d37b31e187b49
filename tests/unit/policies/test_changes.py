"""Changes of several hooks in one, and writes of them."""

from nri.policies.changes import NO_CHANGES, Changes, HookError, Mount


def test_of_two_words_on_one_thing_the_later_one_counts_and_the_rest_adds_up() -> None:
    one = Changes(cfs_quota=1000, cpu_shares=2, env={"A": "1"}, mounts=(Mount("/a", "bind", "/a"),))
    other = Changes(cfs_quota=-1, cpuset="", env={"B": "2"}, mounts=(Mount("/b", "bind", "/b"),))
    both = one | other
    assert (both.cfs_quota, both.cpu_shares, both.cpuset) == (-1, 2, "")
    assert both.env == {"A": "1", "B": "2"}
    assert [mount.destination for mount in both.mounts] == ["/a", "/b"]


def test_a_clear_is_a_change_and_nothing_is_none() -> None:
    assert Changes(cpuset="")
    assert not NO_CHANGES
    assert not NO_CHANGES | Changes()


def test_an_error_names_its_hook_in_one_line() -> None:
    error = HookError("GPUEnvInject", "no ratio")
    assert str(error) == "GPUEnvInject: no ratio"
    assert error.partial is not None
    assert not error.partial
