"""Stages of the GPU, RDMA and Resctrl hooks. Next: `tests.hook_cases.core_sched`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nri.agent.hooks import CREATE, REMOVE_POD, RUN_POD
from nri.agent.koordinator import gpu, rdma, resctrl
from nri.agent.koordinator.node import Cache
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Changes, Resctrl
from nri.agent.transports import messages
from tests.hook_cases import inputs
from tests.hook_cases.conversions import shown_message
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import decided

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


class _Host:
    """The machine's RDMA functions and device nodes, as a case has them."""

    def __init__(self, case: Any) -> None:
        actual = inputs.mapping(case)
        self._verbs = inputs.mapping(actual.get("pci_infiniband_verbs"))
        self.empty_asked = False
        self._nodes = inputs.mapping(actual.get("device_nodes_major_minor"))

    def verbs(self, pci_address: str) -> Sequence[str]:
        if pci_address not in self._verbs:
            raise FileNotFoundError(f"no verbs of {pci_address}")
        actual: list[str] = self._verbs[pci_address] or []
        self.empty_asked |= not actual
        return actual

    def numbers(self, path: str) -> tuple[int, int]:
        if path not in self._nodes:
            raise FileNotFoundError(f"no node {path}")
        major, minor = self._nodes[path]
        return major, minor


def _gpu(case: Given) -> Outcome:
    context, config = inputs.container(case), inputs.mapping(case.get("config"))
    library = config.get("hami_library_path") or "/usr/local/vgpu/libvgpu.so"
    monitor = bool(config.get("hami_monitor"))
    changes, error = decided(case, gpu.NAME, CREATE, context, gpu_library=library, gpu_monitor=monitor)
    return {**inputs.shown(changes), "error": error}


def _rdma(case: Given) -> Outcome:
    context, host = inputs.container(case), _Host(case.get("host"))
    changes, error = decided(case, rdma.NAME, CREATE, context, devices=host)
    panic = host.empty_asked and case.quirks == Quirks.REFERENCE
    return {**inputs.shown(changes), "error": error, "panic": panic}


def _cache(case: Input) -> Cache:
    host = inputs.mapping(case.get("host"))
    ids = tuple(host.get("cache_ids") or ())
    return Cache(ids, int(host.get("l3_cbm_mask") or "0", 16), host.get("cpu_vendor") or "")


def _resctrl_pod(case: Given) -> Outcome:
    context = inputs.pod(case.get("pod"))
    changes, error = decided(case, resctrl.NAME, RUN_POD, context, cache=_cache(case))
    return {**inputs.shown(changes), "error": error}


def _resctrl_container(case: Given) -> Outcome:
    context = inputs.container(case)
    changes, error = decided(case, resctrl.NAME, CREATE, context, cache=_cache(case))
    update = messages.update(changes, "", rdt_class=True)
    return {
        **inputs.shown(changes),
        "error": error,
        "nri_adjustment": shown_message(messages.adjustment(changes)),
        "nri_update": {} if update is None else shown_message(update),
    }


def _resctrl_removal(case: Given) -> Outcome:
    context = inputs.pod(case.get("pod"))
    changes, error = decided(case, resctrl.NAME, REMOVE_POD, context, cache=_cache(case))
    return {**inputs.shown(changes), "error": error, "still_registered": False}


def _resctrl_refused(case: Given) -> Outcome:
    """The original's updaters work on pods alone, and fail for a group that is not there."""
    if not case.get("context_is_pod"):
        return {"error": True}
    group = Changes(resctrl=Resctrl(case.get("group") or "", case.get("schemata") or ""))
    return {**inputs.shown(group), "error": False, "group": case.get("group"), "schemata": case.get("schemata")}


def _resctrl_remove(case: Given) -> Outcome:
    if not case.get("context_is_pod"):
        return {"error": True}
    group = Resctrl(resctrl.PREFIX + inputs.pod(case.get("pod")).uid, remove=True)
    return {**inputs.shown(Changes(resctrl=group)), "error": False, "group": group.group}


def _resctrl_remove_folder(case: Given) -> Outcome:
    existing = any(f"/resctrl/{case.get('group')}/" in path for path in case.get("files") or ())
    return {"error": not (existing and case.get("context_is_pod"))}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "gpu/PreCreateContainer": _gpu,
    "rdma/PreCreateContainer": _rdma,
    "resctrl/PreRunPodSandbox": _resctrl_pod,
    "resctrl/PreCreateContainer": _resctrl_container,
    "resctrl/PreRemoveRunPodSandbox": _resctrl_removal,
    "resctrl/helper.create_group": _resctrl_refused,
    "resctrl/helper.remove_group": _resctrl_remove,
    "resctrl/helper.remove_group_direct": _resctrl_remove_folder,
}
