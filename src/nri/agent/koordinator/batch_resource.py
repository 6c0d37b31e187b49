"""BatchResource: CPU weight, CPU quota and memory limit of batch (BE) pods, from what they ask of batch resources.

Kubernetes does not enforce `kubernetes.io/batch-cpu` (thousandths of a CPU) and `kubernetes.io/batch-memory`, so the
pod's annotation or its spec says them again. A pod without them is left alone. Next:
`nri.agent.koordinator.cpu_normalization`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from nri.agent.koordinator import pod_annotations
from nri.agent.koordinator.names import ANNOTATION_EXTENDED, BATCH_CPU, BATCH_MEMORY, BE, qos_class
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.ratio import scaled
from nri.policies import formulas
from nri.policies.changes import Changes, Decision, HookError
from nri.policies.contexts import ContainerContext, ExtendedResources, PodContext
from nri.policies.formulas import UNLIMITED

__all__ = ["NAME", "BatchRule", "container", "pod"]

NAME: Final = "BatchResource"
_NOTHING: Final = Decision()


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Whether batch pods have a quota, and for how much faster CPUs it is scaled; None is not read yet."""

    has_quota: bool | None = None
    ratio: float | None = None

    def quota(self, milli_cpu: int, quirks: Quirks) -> int:
        """Return the quota for a limit."""
        if self.has_quota is False:
            return UNLIMITED
        return scaled(formulas.quota_us(milli_cpu), -1 if self.ratio is None else self.ratio, quirks)


def pod(context: PodContext, rule: BatchRule, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide for a batch pod: the sum of its containers, unlimited as soon as one of them is.

    Raises HookError for an annotation that cannot be read, where nothing else says what the pod asks for.
    """
    if qos_class(context.labels) != BE:
        return _NOTHING
    spec = _spec(context, quirks)
    if spec is None:
        return _NOTHING
    if quirks.empty_batch_spec_ignored and not spec:
        return _NOTHING
    requested = pod_annotations.batch_request(spec.values())
    changes = Changes(
        {
            "cpu.shares": formulas.shares(requested),
            "cpu.cfs_quota": rule.quota(_limit(spec.values(), BATCH_CPU), quirks),
            "memory.limit": _limit(spec.values(), BATCH_MEMORY),
        }
    )
    if not spec:
        none = f'annotation {ANNOTATION_EXTENDED} names no container, which compat = "reference" takes for 0'
        return Decision(changes, none)
    return Decision(changes, "batch resources of the pod's containers")


def container(context: ContainerContext, rule: BatchRule, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide for a container of a batch pod. Raises HookError as `pod` does."""
    if qos_class(context.pod.labels) != BE:
        return _NOTHING
    spec = context.extended
    if spec is None or not _is_batch(spec):
        spec = (_annotated(context.pod.annotations, quirks) or {}).get(context.name)
    if spec is None:
        return _NOTHING
    memory = formulas.amount(spec.limits, BATCH_MEMORY)
    changes = Changes(
        {
            "cpu.shares": formulas.shares(max(formulas.amount(spec.requests, BATCH_CPU), 0)),
            "cpu.cfs_quota": rule.quota(formulas.amount(spec.limits, BATCH_CPU), quirks),
            "memory.limit": memory if memory > 0 else UNLIMITED,
        }
    )
    return Decision(changes, "batch resources of the container")


def _spec(context: PodContext, quirks: Quirks) -> Mapping[str, ExtendedResources] | None:
    """The batch resources that a pod's containers request: by its spec, else by its annotation; None for nothing."""
    if context.extended is not None:
        batch = {name: each for name, each in context.extended.items() if _is_batch(each)}
        if batch or not context.extended:
            return batch
    return _annotated(context.annotations, quirks)


def _is_batch(asked: ExtendedResources) -> bool:
    """Whether it is about batch resources, and not about others that Kubernetes does not know."""
    return not (asked.requests or asked.limits) or any(
        name in part for name in (BATCH_CPU, BATCH_MEMORY) for part in (asked.requests, asked.limits)
    )


def _annotated(annotations: Mapping[str, str], quirks: Quirks) -> Mapping[str, ExtendedResources] | None:
    try:
        return pod_annotations.extended_resources(annotations)
    except ValueError as error:
        if quirks.bad_batch_spec_told:
            raise HookError(NAME, str(error)) from None
        return None


def _limit(containers: Collection[ExtendedResources], name: str) -> int:
    limits = [formulas.amount(each.limits, name) for each in containers]
    return UNLIMITED if any(limit <= 0 for limit in limits) else sum(limits)
