"""CPU normalization: whose quota is scaled."""

import pytest

from nri.agent.koordinator import cpu_normalization, names
from nri.policies.contexts import ContainerContext, PodContext, Resources


def context(qos: str | None, quota: int | None = 100_000, status: str | None = None) -> PodContext:
    labels = {} if qos is None else {names.LABEL_QOS: qos}
    annotations = {} if status is None else {names.ANNOTATION_STATUS: status}
    return PodContext(labels=labels, annotations=annotations, resources=Resources(cfs_quota=quota))


@pytest.mark.parametrize(
    ("pod", "ratio", "quota"),
    [
        (context("LS"), 1.2, 83_334),
        (context(None), 1.2, 83_334),
        (context("other"), 1.2, 83_334),
        (context("LS", 1000), 1.2, 1000),
        (context("LS"), 1.0, 100_000),
        (context("LS"), 0.5, 100_000),
        (context("LS"), -1, None),
        (context("BE"), 1.2, None),
        (context("LSR"), 1.2, None),
        (context("SYSTEM"), 1.2, None),
        (context("LS", -1), 1.2, None),
        (context("LS", None), 1.2, None),
        (context(None, status='{"cpuset":"1"}'), 1.2, None),
        (context("LS", status='{"cpuset":"1"}'), 1.2, 83_334),
        (context(None, status="bad"), 1.2, 83_334),
    ],
)
def test_quotas_of_pods_that_share_cpus_are_scaled(pod: PodContext, ratio: float, quota: int | None) -> None:
    assert cpu_normalization.pod(pod, ratio).changes.knobs.get("cpu.cfs_quota") == quota
    container = ContainerContext(pod, resources=pod.resources)
    assert cpu_normalization.container(container, ratio).changes.knobs.get("cpu.cfs_quota") == quota


def test_without_a_known_quota_nothing_is_scaled() -> None:
    assert not cpu_normalization.pod(PodContext(), 2.0).changes
    assert not cpu_normalization.container(ContainerContext(), 2.0).changes
