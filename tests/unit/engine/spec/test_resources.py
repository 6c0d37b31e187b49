from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Machine, container_resources
from nri.engine.spec.resources import cgroups_path, oom_score
from nri.errors import RequestError

V1 = Machine(cgroup_v2=False, hugetlb=False)


WHOLE = Machine()


def resources_of(machine: Machine = WHOLE, **fields: object) -> tuple[dict, list[str]]:
    notes: list[str] = []
    return container_resources(pb.LinuxContainerResources(**fields), machine, notes), notes  # type: ignore[arg-type]


def test_all_resources_are_set() -> None:
    resources, notes = resources_of(
        cpu_shares=512, cpu_quota=-1, cpu_period=100000, cpuset_cpus="0-1,3", cpuset_mems="0",
        memory_limit_in_bytes=64, memory_swap_limit_in_bytes=80, unified={"memory.high": "50"},
        hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=4)],
    )  # fmt: skip
    assert resources == {
        "cpu": {"shares": 512, "quota": -1, "period": 100000, "cpus": "0-1,3", "mems": "0"},
        "memory": {"limit": 64, "swap": 80},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 4}],
        "unified": {"memory.high": "50"},
    }
    assert notes == []


def test_unset_resources_are_omitted() -> None:
    assert resources_of() == ({}, [])


def test_a_memory_limit_alone_leaves_no_swap() -> None:
    assert resources_of(memory_limit_in_bytes=64)[0]["memory"] == {"limit": 64, "swap": 64}
    assert resources_of(Machine(swap_limit=False), memory_limit_in_bytes=64)[0]["memory"] == {"limit": 64}


def test_shares_below_the_kernels_minimum_are_raised() -> None:
    assert resources_of(cpu_shares=1)[0]["cpu"] == {"shares": 2}


def test_unsupported_resources_are_omitted_and_noted() -> None:
    resources, notes = resources_of(
        Machine(cgroup_v2=False, hugetlb=False, swap_limit=False),
        unified={"memory.high": "1"},
        memory_swap_limit_in_bytes=9,
        hugepage_limits=[pb.HugepageLimit(page_size="2MB"), pb.HugepageLimit(page_size="1GB", limit=7)],
    )
    assert resources == {}
    assert notes == [
        "linux.resources.memory_swap_limit_in_bytes: 9 is ignored: this machine cannot limit swap",
        "linux.resources.hugepage_limits: 7 bytes of 1GB is ignored: this machine cannot limit huge pages",
        "linux.resources.unified: memory.high is ignored: this machine has cgroup v1",
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ({"cpu_shares": -1}, r"linux\.resources\.cpu_shares: -1: must not be negative"),
        ({"cpu_period": -5}, r"cpu_period: -5: must not be negative"),
        ({"memory_limit_in_bytes": -2}, r"memory_limit_in_bytes: -2: must not be negative"),
        ({"memory_limit_in_bytes": 9, "memory_swap_limit_in_bytes": 8}, r"swap_limit_in_bytes: 8: .*must include"),
        ({"cpuset_cpus": "a"}, r'cpuset_cpus: "a": must be a list like 0-3,8'),
        ({"cpuset_mems": "0,"}, r"cpuset_mems"),
        ({"cpuset_cpus": "٣"}, r"cpuset_cpus"),
        ({"cpuset_cpus": "0-99999999999"}, r"cpuset_cpus"),
        ({"cpuset_cpus": "0," * 5000 + "0"}, r"cpuset_cpus"),
        ({"cpu_period": 2**63 - 1}, r"cpu_period: 9223372036854775807: must be between 1000 and 1000000 microseconds"),
        ({"cpu_period": 999}, r"cpu_period: 999"),
        ({"cpu_quota": -2}, r"cpu_quota: -2: must not be negative, except for -1"),
        ({"memory_swap_limit_in_bytes": -2}, r"memory_swap_limit_in_bytes: -2: must not be negative"),
        ({"unified": {"../x": "1"}}, r"unified\[../x\]: \"1\": is not a setting of cgroup v2"),
        ({"unified": {"memory/max": "1"}}, r"unified"),
        ({"unified": {"memory.max\n": "1"}}, r"unified"),
        ({"hugepage_limits": [pb.HugepageLimit(page_size="٣MB")]}, r"page_size"),
        ({"hugepage_limits": [pb.HugepageLimit(page_size="9" * 5000 + "MB")]}, r"page_size"),
        ({"hugepage_limits": [pb.HugepageLimit(page_size="2")]}, r'hugepage_limits\[0\]\.page_size: "2"'),
    ],
)
def test_impossible_values_are_errors_with_field_and_value(name: dict, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        resources_of(**name)


def test_an_oom_score_is_raised_to_the_engines_minimum() -> None:
    notes: list[str] = []
    assert oom_score(-999, Machine(), notes) == -999
    assert oom_score(5, Machine(oom_score_floor=0), notes) == 5
    assert notes == []
    assert oom_score(-999, Machine(oom_score_floor=0), notes) == 0
    assert "-999 is raised to 0" in notes[0]
    with pytest.raises(RequestError, match="1001: must be between"):
        oom_score(1001, Machine(), notes)


def test_the_cgroup_path_follows_the_driver() -> None:
    assert cgroups_path("/kubepods/pod1/", "c1", systemd=False) == "/kubepods/pod1/c1"
    assert cgroups_path("", "c1", systemd=False) == "/c1"
    assert cgroups_path("/kubepods.slice/kubepods-pod1.slice", "c1", systemd=True) == "kubepods-pod1.slice:nri:c1"
    with pytest.raises(RequestError, match="must not contain"):
        cgroups_path("/a/../..", "c1", systemd=False)
    with pytest.raises(RequestError, match="must be a slice"):
        cgroups_path("/kubepods", "c1", systemd=True)
    for parent in ("/a\nb", "/a\0", "/" + "a" * 256, "/a" * 2048):
        with pytest.raises(RequestError, match=r"linux\.cgroup_parent"):
            cgroups_path(parent, "c1", systemd=False)


def test_shares_are_within_the_kernels_range() -> None:
    assert [resources_of(cpu_shares=value)[0]["cpu"]["shares"] for value in (1, 1024, 2**63 - 1)] == [2, 1024, 262_144]
