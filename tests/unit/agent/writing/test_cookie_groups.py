"""Core-scheduling cookies, one per group, tested with random processes that start and end."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from nri.agent.writing.cookie_groups import CookieGroups


class Processes:
    """Processes with their cookies; what is not in there is gone."""

    def __init__(self, *pids: int) -> None:
        self.cookies = dict.fromkeys(pids, 0)
        self.made = 0

    def get(self, pid: int) -> int:
        if pid not in self.cookies:
            raise ProcessLookupError(pid)
        return self.cookies[pid]

    def create(self, pid: int) -> None:
        self.get(pid)
        self.made += 1
        self.cookies[pid] = self.made

    def assign(self, source: int, targets: Sequence[int]) -> list[int]:
        cookie = self.get(source)
        self.cookies.update({pid: cookie for pid in targets if pid in self.cookies})
        return [pid for pid in targets if pid not in self.cookies]

    def clear(self, pids: Sequence[int]) -> list[int]:
        self.cookies.update({pid: 0 for pid in pids if pid in self.cookies})
        return [pid for pid in pids if pid not in self.cookies]


def test_containers_of_a_group_share_a_cookie_and_groups_have_different_ones() -> None:
    processes = Processes(1, 2, 3, 4)
    groups = CookieGroups(processes)
    assert groups.enable("a", "pod/1", [1, 2])
    assert groups.enable("a", "pod/2", [3])
    assert groups.enable("b", "pod/3", [4])
    assert processes.cookies == {1: 1, 2: 1, 3: 1, 4: 2}
    groups.disable("pod/2", [3])
    assert processes.cookies[3] == 0
    groups.disable("pod/never", [4])
    assert processes.cookies[4] == 2


def test_a_group_whose_processes_have_ended_gets_a_new_cookie() -> None:
    processes = Processes(1)
    groups = CookieGroups(processes)
    groups.enable("a", "pod/1", [1])
    del processes.cookies[1]
    processes.cookies[2] = 0
    assert groups.enable("a", "pod/2", [2])
    assert processes.cookies == {2: 2}
    assert groups.entries["a"].pids == {2}


def test_ended_processes_are_not_an_error() -> None:
    groups = CookieGroups(Processes())
    assert not groups.enable("a", "pod/1", [7, 8])
    assert groups.enable("a", "pod/1", [])
    assert groups.entries == {}


def test_groups_unseen_for_five_minutes_are_forgotten() -> None:
    processes = Processes(1, 2)
    groups = CookieGroups(processes)
    groups.enable("a", "pod/1", [1], now=0)
    groups.enable("b", "pod/2", [2], now=200)
    groups.enable("b", "pod/2", [2], now=301)
    assert set(groups.entries) == {"b"}
    assert set(groups.members) == {"pod/2"}


def test_after_a_restart_cookies_are_read_from_the_processes() -> None:
    processes = Processes(1, 2, 3)
    CookieGroups(processes).enable("a", "pod/1", [1, 2])
    groups = CookieGroups(processes)
    assert groups.load("a", "pod/1", [1, 2])
    assert not groups.load("a", "pod/2", [])
    assert groups.enable("a", "pod/2", [3])
    assert set(processes.cookies.values()) == {1}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6), st.booleans()), max_size=30))
def test_two_groups_never_share_a_cookie(steps: list[tuple[str, int, bool]]) -> None:
    processes = Processes(*range(1, 7))
    groups = CookieGroups(processes)
    for group, pid, on in steps:
        if on:
            groups.enable(group, f"pod/{pid}", [pid])
        else:
            groups.disable(f"pod/{pid}", [pid])
    by_group: dict[str, set[int]] = {}
    for pid, cookie in processes.cookies.items():
        if cookie:
            by_group.setdefault(groups.members[f"pod/{pid}"], set()).add(cookie)
    assert not by_group.get("a", set()) & by_group.get("b", set())
    assert all(len(cookies) == 1 for cookies in by_group.values())


def test_a_process_that_moves_away_and_back_gets_its_groups_cookie() -> None:
    """The option `moved_processes_forgotten`."""
    collected = {}
    for forget in (True, False):
        processes = Processes(1, 2, 3)
        groups = CookieGroups(processes)
        for group, pids in (("a", [1]), ("a", [2]), ("b", [3]), ("b", [2]), ("a", [2])):
            groups.enable(group, f"pod/{pids}", pids, forget_moved=forget)
        collected[forget] = processes.cookies[2] == processes.cookies[1]
    assert collected == {True: True, False: False}


def test_after_a_restart_a_container_without_a_cookie_adds_no_group() -> None:
    groups = CookieGroups(Processes(1))
    assert groups.load("a", "pod/1", [1])
    assert groups.entries == {}
    assert groups.members == {}


def test_after_a_restart_containers_with_the_same_cookie_form_one_group() -> None:
    processes = Processes(1, 2)
    processes.cookies = {1: 5, 2: 5}
    groups = CookieGroups(processes)
    assert groups.load("a", "pod/1", [1])
    assert groups.load("a", "pod/2", [2])
    assert (groups.entries["a"].cookie, groups.entries["a"].pids) == (5, {1, 2})
    assert groups.members == {"pod/1": "a", "pod/2": "a"}


def test_after_a_restart_the_first_cookie_of_a_group_counts_and_enabling_repairs_the_other() -> None:
    processes = Processes(1, 2)
    processes.cookies = {1: 5, 2: 6}
    groups = CookieGroups(processes)
    assert groups.load("a", "pod/1", [1])
    assert groups.load("a", "pod/2", [2])
    assert (groups.entries["a"].cookie, groups.entries["a"].pids) == (5, {1})
    assert "pod/2" not in groups.members
    assert groups.enable("a", "pod/2", [2])
    assert processes.cookies == {1: 5, 2: 5}


def test_the_current_cookie_is_the_first_one_with_its_processes() -> None:
    processes = Processes(1, 2, 3, 4)
    processes.cookies = {1: 0, 2: 5, 3: 6, 4: 5}
    assert CookieGroups(processes).current([1, 2, 3, 4, 99]) == (5, [2, 4])


def test_a_process_that_inherited_the_groups_cookie_is_recorded_without_a_new_cookie() -> None:
    processes = Processes(1)
    groups = CookieGroups(processes)
    groups.enable("a", "pod/1", [1])
    processes.cookies[2] = processes.cookies[1]
    assert groups.enable("a", "pod/1", [1, 2])
    assert groups.entries["a"].pids == {1, 2}
    assert processes.made == 1


def test_a_container_whose_processes_have_ended_does_not_join_its_group() -> None:
    groups = CookieGroups(Processes(1))
    groups.enable("a", "pod/1", [1])
    assert not groups.enable("a", "pod/2", [7])
    assert groups.members == {"pod/1": "a"}
    assert groups.entries["a"].pids == {1}


def test_a_container_does_not_join_if_no_sibling_can_share_its_cookie() -> None:
    class Unshared(Processes):
        def assign(self, source: int, targets: Sequence[int]) -> list[int]:
            raise ProcessLookupError(source)

    processes = Unshared(1, 2)
    groups = CookieGroups(processes)
    groups.enable("a", "pod/1", [1])
    assert not groups.enable("a", "pod/2", [2])
    assert processes.cookies == {1: 1, 2: 0}
    assert groups.members == {"pod/1": "a"}


def test_a_kernel_without_cookies_enables_no_group() -> None:
    class Unsupported(Processes):
        def create(self, pid: int) -> None:
            self.get(pid)

    groups = CookieGroups(Unsupported(1))
    assert not groups.enable("a", "pod/1", [1])
    assert groups.entries == {}
    assert groups.members == {}


def test_an_empty_list_of_processes_needs_no_cookie() -> None:
    processes = Processes(1)
    assert CookieGroups(processes).add([]) == (0, [])
    assert processes.made == 0
