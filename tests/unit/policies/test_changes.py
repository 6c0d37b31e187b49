"""Changes of several hooks in one, and writes of them."""

from nri.policies.changes import NO_CHANGES, Changes, HookError, Mount, Resctrl


def test_of_two_words_on_one_thing_the_later_one_counts_and_the_rest_adds_up() -> None:
    one = Changes({"cpu.cfs_quota": 1000, "cpu.shares": 2}, env={"A": "1"}, mounts=(Mount("/a", "bind", "/a"),))
    other = Changes({"cpu.cfs_quota": -1, "cpuset.cpus": ""}, env={"B": "2"}, mounts=(Mount("/b", "bind", "/b"),))
    both = one | other
    assert both.knobs == {"cpu.cfs_quota": -1, "cpu.shares": 2, "cpuset.cpus": ""}
    assert both.env == {"A": "1", "B": "2"}
    assert [mount.destination for mount in both.mounts] == ["/a", "/b"]


def test_a_clear_is_a_change_and_nothing_is_none() -> None:
    assert Changes({"cpuset.cpus": ""})
    assert not NO_CHANGES
    assert not NO_CHANGES | Changes()


def test_a_part_of_changes_is_had_by_the_names_of_knobs() -> None:
    both = Changes({"cpu.cfs_quota": 1000, "cpuset.cpus": "0"}, Resctrl("g"))
    assert both.only(("cpu.cfs_quota",)) == Changes({"cpu.cfs_quota": 1000})
    assert both.without(("cpu.cfs_quota",)) == Changes({"cpuset.cpus": "0"}, Resctrl("g"))


def test_a_number_is_no_text_and_what_is_not_set_is_neither() -> None:
    changes = Changes({"cpu.cfs_quota": 1000, "cpuset.cpus": "0"})
    assert (changes.number("cpu.cfs_quota"), changes.number("cpuset.cpus"), changes.number("pids.limit")) == (
        1000,
        None,
        None,
    )
    assert (changes.text("cpuset.cpus"), changes.text("cpu.cfs_quota")) == ("0", None)


def test_an_error_names_its_hook_in_one_line() -> None:
    error = HookError("GPUEnvInject", "no ratio")
    assert str(error) == "GPUEnvInject: no ratio"
    assert error.partial is not None
    assert not error.partial
