"""rubik's profile as one value: its services with the knobs that they own, and how its file is read.

Order: services as they have their rounds. A new one is a module in `services` and a row here. Next:
`nri.agent.profile`, which says what each field is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from nri.agent.profile import ForeignAgent, Profile, StrategyRow
from nri.agent.rubik.configuration import KIND, RUBIK_FILE, Node, Services, asked, read_settings
from nri.agent.rubik.decisions.cpi import ANNOTATION as CPI
from nri.agent.rubik.decisions.dyn_cache import ANNOTATION as CACHE_LIMIT
from nri.agent.rubik.decisions.io_limit import ANNOTATION as IO_LIMIT
from nri.agent.rubik.decisions.io_limit import KNOBS as IO_KNOBS
from nri.agent.rubik.decisions.pods import PREEMPTIBLE
from nri.agent.rubik.decisions.quota_burst import ANNOTATION as BURST
from nri.agent.rubik.decisions.quota_turbo import ANNOTATION as TURBO
from nri.agent.rubik.hooks import HOOKS, Kernel
from nri.agent.rubik.pods import OFFLINE, ONLINE, block_device, class_of, unread, unreadable
from nri.agent.settings.values import AgentSettings
from nri.host import Root
from nri.policies.ownership import Level, Owns

__all__ = ["PROFILE"]

_HERE: Final = "nri.agent.rubik.services"
_POD_AND_CONTAINER: Final = (Level.POD, Level.CONTAINER)
_OFFLINE, _ONLINE = frozenset({OFFLINE}), frozenset({ONLINE})

SERVICES: Final = (
    StrategyRow(
        "preemption",
        False,
        "online pods come first: for CPU, memory and the network",
        f"{_HERE}.preemption:Preemption",
        (
            *(Owns(Level.POD, knob, _OFFLINE) for knob in ("cpu.qos_level", "cpu.idle", "cpu.shares")),
            *(Owns(Level.CONTAINER, knob, _OFFLINE) for knob in ("cpu.qos_level", "cpu.shares", "oom_score_adj")),
            *(
                Owns(level, knob, _OFFLINE)
                for level in _POD_AND_CONTAINER
                for knob in ("memory.qos_level", "net_cls.classid")
            ),
            *(Owns(level, "memory.low", _ONLINE) for level in _POD_AND_CONTAINER),
            Owns(Level.KUBE_QOS, "memory.low"),
        ),
    ),
    StrategyRow(
        "quotaTurbo",
        False,
        "containers that ask for it get more than their quota while the node has CPU to spare",
        f"{_HERE}.quota_turbo:QuotaTurbo",
        tuple(Owns(level, "cpu.cfs_quota") for level in _POD_AND_CONTAINER),
        TURBO,
    ),
    StrategyRow(
        "quotaBurst",
        False,
        "containers that ask for it save up CPU time to use above their quota",
        f"{_HERE}.quota_burst:QuotaBurst",
        tuple(Owns(level, "cpu.cfs_burst") for level in _POD_AND_CONTAINER),
        BURST,
    ),
    StrategyRow(
        "ioLimit",
        False,
        "block I/O of containers is limited, by disk, as their pod asks for",
        f"{_HERE}.io_limit:IoLimit",
        tuple(Owns(Level.CONTAINER, knob) for knob in IO_KNOBS),
        IO_LIMIT,
    ),
    StrategyRow(
        "dynMemory",
        False,
        "memory.high of offline pods follows the node's free memory",
        f"{_HERE}.dyn_memory:DynMemory",
        tuple(Owns(Level.POD, knob, _OFFLINE) for knob in ("memory.high", "memory.high_async_ratio")),
    ),
    StrategyRow(
        "dynCache",
        False,
        "offline pods have a part of the last-level cache and of memory bandwidth",
        f"{_HERE}.dyn_cache:DynCache",
        (Owns(Level.NODE, "resctrl"),),
        CACHE_LIMIT,
    ),
    StrategyRow(
        "ioCost",
        False,
        "disks have a cost model, and pods a weight by it",
        f"{_HERE}.io_cost:IoCost",
        (
            *(Owns(Level.NODE, knob) for knob in ("io.cost_model", "io.cost_qos")),
            *(Owns(Level.POD, knob) for knob in ("io.cost_weight", "io.weight", "memory.wb_blkio_ino")),
        ),
    ),
    StrategyRow(
        "cpi",
        False,
        "offline pods that slow online ones down are limited for a while",
        f"{_HERE}.cpi:Cpi",
        # It leaves pods alone whose quotas quotaTurbo moves.
        tuple(Owns(level, "cpu.cfs_quota", _OFFLINE, unless=frozenset({"quotaTurbo"})) for level in _POD_AND_CONTAINER),
        CPI,
    ),
    StrategyRow("psi", False, "an offline pod is evicted when online pods wait", f"{_HERE}.evict:PsiEvict"),
    StrategyRow("cpuevict", False, "an offline pod is evicted when the node is busy", f"{_HERE}.evict:CpuEvict"),
    StrategyRow(
        "memoryevict", False, "an offline pod is evicted when the node's memory is full", f"{_HERE}.evict:MemoryEvict"
    ),
)


def _node(settings: AgentSettings, root: Root) -> Node:
    kernel = Kernel(root)
    return Node(
        lacks=kernel.lacks,
        cpus=kernel.cpus,
        writeback=kernel.writeback,
        disk=functools.partial(block_device, root),
        switched_on=PROFILE.hooks_on(settings.gates),
        stages_off=frozenset(settings.disabled_stages),
        fail=settings.failure_policy == "Fail",
    )


def _origins(service: str, _class: str) -> Iterator[tuple[str, str]]:
    """The keys of the file by which a service decides."""
    yield KIND, service


PROFILE: Final = Profile(
    name="rubik",
    hooks=HOOKS,
    strategies=SERVICES,
    switches={},
    kinds={KIND: RUBIK_FILE},
    node=_node,
    strategy_rules=Services,
    class_label=PREEMPTIBLE,
    foreign=(
        ForeignAgent(
            "rubik",
            "stop it on this node, or set beside_koordlet = true if none of its services is one of these",
        ),
    ),
    unreadable=unreadable,
    unread=unread,
    asked=asked,
    origins=_origins,
    class_of=class_of,
    own_file=read_settings,
    off='"{}" out of agent.enabledFeatures',
    on="agent.enabledFeatures",
)
