"""rubik's profile: the services with their cgroup files, and the reader of rubik's configuration file.

Rows are in the order of rounds. A new service is a module in this package and a row in this module.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from nri.agent.model import ExtendedResources, Pod
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.profile import ForeignAgent, Profile, StrategyRow
from nri.agent.rubik import (
    cpi,
    cpu_evict,
    dyn_cache,
    dyn_memory,
    io_cost,
    io_limit,
    memory_evict,
    preemption,
    psi,
    quota_burst,
    quota_turbo,
)
from nri.agent.rubik.machine import Kernel, block_device
from nri.agent.rubik.pods import OFFLINE, ONLINE, PREEMPTIBLE, class_of
from nri.agent.rubik.service import Node, ServiceRow, Services
from nri.agent.rubik.settings import KIND, Reader
from nri.agent.settings.values import AgentSettings
from nri.host import Root
from nri.kube.shapes import Unread
from nri.text import nearest

_POD_AND_CONTAINER: Final = (Level.POD, Level.CONTAINER)
_OFFLINE, _ONLINE = frozenset({OFFLINE}), frozenset({ONLINE})

SERVICES: Final = (
    ServiceRow(
        preemption.Preemption,
        "online pods have priority for CPU, memory and the network",
        block=preemption.Block,
        owns=(
            *(OwnedKnob(Level.POD, knob, _OFFLINE) for knob in ("cpu.qos_level", "cpu.idle", "cpu.shares")),
            *(OwnedKnob(Level.CONTAINER, knob, _OFFLINE) for knob in ("cpu.qos_level", "cpu.shares", "oom_score_adj")),
            *(
                OwnedKnob(level, knob, _OFFLINE)
                for level in _POD_AND_CONTAINER
                for knob in ("memory.qos_level", "net_cls.classid")
            ),
            *(OwnedKnob(level, "memory.low", _ONLINE) for level in _POD_AND_CONTAINER),
            OwnedKnob(Level.KUBE_QOS, "memory.low"),
        ),
        hook=preemption.HOOK,
    ),
    ServiceRow(
        quota_turbo.QuotaTurbo,
        "containers that request it get more than their quota while the node has spare CPU",
        block=quota_turbo.Block,
        owns=tuple(OwnedKnob(level, "cpu.cfs_quota") for level in _POD_AND_CONTAINER),
        annotation=quota_turbo.ANNOTATION,
        is_switch=True,
    ),
    ServiceRow(
        quota_burst.QuotaBurst,
        "containers that request it save CPU time and use it above their quota",
        owns=tuple(OwnedKnob(level, "cpu.cfs_burst") for level in _POD_AND_CONTAINER),
        annotation=quota_burst.ANNOTATION,
        check=quota_burst.parse,
        hook=quota_burst.HOOK,
    ),
    ServiceRow(
        io_limit.IoLimit,
        "block I/O of containers is limited by disk, as the pod requests",
        owns=tuple(OwnedKnob(Level.CONTAINER, knob) for knob in io_limit.KNOBS),
        annotation=io_limit.ANNOTATION,
        check=io_limit.check,
        hook=io_limit.HOOK,
    ),
    ServiceRow(
        dyn_memory.DynMemory,
        "memory.high of offline pods follows the node's free memory",
        block=dyn_memory.Block,
        owns=tuple(OwnedKnob(Level.POD, knob, _OFFLINE) for knob in ("memory.high", "memory.high_async_ratio")),
        hook=dyn_memory.HOOK,
    ),
    ServiceRow(
        dyn_cache.DynCache,
        "offline pods get a share of the last-level cache and of memory bandwidth",
        block=dyn_cache.Block,
        owns=(OwnedKnob(Level.NODE, "resctrl"),),
        annotation=dyn_cache.ANNOTATION,
        check=dyn_cache.check,
    ),
    ServiceRow(
        io_cost.IoCost,
        "disks have a cost model, and pods have weights",
        block=list[io_cost.NodeDevices],
        owns=(
            *(OwnedKnob(Level.NODE, knob) for knob in ("io.cost_model", "io.cost_qos")),
            *(OwnedKnob(Level.POD, knob) for knob in ("io.cost_weight", "io.weight", "memory.wb_blkio_ino")),
        ),
        hook=io_cost.HOOK,
        problems=io_cost.block_problems,
    ),
    ServiceRow(
        cpi.Cpi,
        "offline pods that slow down online pods are limited for a while",
        # This service skips pods that quotaTurbo manages.
        owns=tuple(
            OwnedKnob(level, "cpu.cfs_quota", _OFFLINE, unless=frozenset({"quotaTurbo"}))
            for level in _POD_AND_CONTAINER
        ),
        annotation=cpi.ANNOTATION,
    ),
    ServiceRow(psi.PsiEvict, "an offline pod is evicted when online pods wait", block=psi.Block),
    ServiceRow(cpu_evict.CpuEvict, "an offline pod is evicted when the node is busy", block=cpu_evict.Block),
    ServiceRow(
        memory_evict.MemoryEvict,
        "an offline pod is evicted when the node's memory is full",
        block=memory_evict.Block,
    ),
)

READER: Final = Reader(SERVICES)
_DOMAIN: Final = "volcano.sh/"
_SWITCHES: Final = (PREEMPTIBLE, *(row.annotation for row in SERVICES if row.is_switch))
_ANNOTATIONS: Final = (PREEMPTIBLE, *(row.annotation for row in SERVICES if row.annotation))


def _strategy(row: ServiceRow) -> StrategyRow:
    class_name = f"{row.service.__module__}:{row.service.__qualname__}"
    return StrategyRow(row.name, False, row.what, class_name, row.owns, row.annotation)


def _node(settings: AgentSettings, root: Root) -> Node:
    kernel = Kernel(root)
    return Node(
        missing_reason=kernel.missing_reason,
        cpus=kernel.cpus,
        command_line=kernel.command_line,
        disk=functools.partial(block_device, root),
        switched_on=PROFILE.hooks_on(settings.gates),
        stages_off=frozenset(settings.disabled_stages),
        fail=settings.failure_policy == "Fail",
    )


def unreadable(context: Pod, _node: Node, services: Collection[str]) -> dict[str, str]:
    """Return the errors of a pod's annotations, by the service that reads the annotation."""
    errors: dict[str, str] = {}
    for row in SERVICES:
        if row.check is None or row.name not in services:
            continue
        try:
            row.check(context.annotations)
        except ValueError as error:
            errors[row.name] = str(error)
    return errors


def unread(
    labels: Mapping[str, str], annotations: Mapping[str, str], _extended: Mapping[str, ExtendedResources] | None
) -> list[str]:
    """Return a line for each label or annotation that is misspelt or has an invalid value."""
    lines = []
    for values, keys in ((annotations, _ANNOTATIONS), (labels, (PREEMPTIBLE,))):
        for key, value in values.items():
            is_unknown = key.startswith(_DOMAIN) and key not in keys
            suggestion = nearest(key, keys, may_be_foreign=True) if is_unknown else ""
            if suggestion:
                lines.append(str(Unread.of(key, suggestion)))
            if key in keys and key in _SWITCHES and value not in ("true", "false"):
                lines.append(f"{key}: {value[:40]!r} is neither true nor false, and has no effect")
    return lines


def _origins(service: str, _class: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and key of rubik's file that a service uses."""
    yield KIND, service


PROFILE: Final = Profile(
    name="rubik",
    hooks=tuple(row.hook for row in SERVICES if row.hook is not None),
    strategies=tuple(_strategy(row) for row in SERVICES),
    switches={},
    kinds={KIND: READER.kind()},
    node=_node,
    strategy_rules=lambda: Services(KIND, READER.blocks),
    class_label=PREEMPTIBLE,
    foreign=(
        ForeignAgent(
            "rubik",
            "stop it on this node, or set beside_koordlet = true if it runs none of these services",
        ),
    ),
    unreadable=unreadable,
    unread=unread,
    requested_gates=READER.features,
    origins=_origins,
    class_of=class_of,
    own_file=READER.layer,
    off='"{}" out of agent.enabledFeatures',
    on="agent.enabledFeatures",
)
