"""Requests by class of service, amount, namespace and annotations; all rows are in the recorded cases."""

from nri.placement.choices import Choices
from nri.placement.machine import Priority
from nri.placement.topology_aware.requests import CpuKind, Request, request_of
from nri.placement.zones import DRAM
from tests.support.placement import container, topology_aware


def request(choices: Choices = Choices.DEFAULT, cpu_m: int = 0, **more: str) -> Request:
    policy = topology_aware(preferIsolatedCPUs=True, reservedPoolNamespaces=["infra-*"])
    return request_of(container("main", cpu_m, **more), policy.options, choices, policy.zones)


def test_whole_cpus_are_exclusive_and_parts_are_shared() -> None:
    assert [(r.exclusive, r.shared_m) for r in (request(cpu_m=m) for m in (750, 1000, 1500, 2000, 2500))] == [
        (0, 750), (1, 0), (1, 500), (2, 0), (0, 2500)
    ]  # fmt: skip
    mixed = request(cpu_m=2500, prefer_shared_cpus="false")
    assert (mixed.exclusive, mixed.shared_m) == (2, 500)
    assert request(cpu_m=2000, prefer_shared_cpus="true").shared_m == 2000


def test_system_containers_get_reserved_cpus_and_opt_outs_keep_their_cpus() -> None:
    assert request(namespace="kube-system").kind is CpuKind.RESERVED
    assert request(namespace="infra-logs").kind is CpuKind.RESERVED
    assert request(namespace="infra-logs", prefer_reserved_cpus="false").kind is CpuKind.NORMAL
    assert request(prefer_reserved_cpus="true").kind is CpuKind.RESERVED
    assert request(**{"cpu.preserve": "true"}).kind is CpuKind.PRESERVE
    assert request(**{"memory.preserve": "true"}).memory_kinds is None
    assert request().memory_kinds == DRAM


def test_unscoped_isolation_counts() -> None:
    """`unscoped_isolation_counts`: nri-plugins reads the preference only with a scope."""
    assert request(cpu_m=1000).isolated
    assert not request(cpu_m=1000, prefer_isolated_cpus="false").isolated
    assert request(Choices.REFERENCE, cpu_m=1000, prefer_isolated_cpus="false").isolated
    assert not request(Choices.REFERENCE, cpu_m=1000, **{"prefer_isolated_cpus/pod": "false"}).isolated
    assert request(cpu_m=2000, require_isolated_cpus="true").only_isolated
    assert not request(cpu_m=2000).isolated


def test_an_annotation_sets_the_cpu_priority() -> None:
    assert request(cpu_m=1000, prefer_cpu_priority="high").priority is Priority.HIGH
    assert request(cpu_m=1000, prefer_cpu_priority="default").priority is Priority.NONE
    for word in ("top", "HIGH", ""):
        wrong = request(cpu_m=1000, prefer_cpu_priority=word)
        assert wrong.priority is Priority.NONE
        (doubt,) = wrong.container.doubts
        assert f"prefer-cpu-priority.resource-policy.nri.io: {word!r} is not one of high, normal, low, none" in doubt
