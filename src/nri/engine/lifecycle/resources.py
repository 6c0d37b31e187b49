"""Change the resources of existing containers by the OCI runtime, and write them to spec and record.

This module applies the updates of clients and of plugins. It calls no plugin, so a plugin's update does not cause
another event, and it holds only the container's `record_lock`. Unsupported fields are left out and reported by name.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from nri.adaptation import OrderedUpdates, SequenceNumbers, UpdateResult
from nri.api import messages as m
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, to_json, write_spec
from nri.engine.lifecycle.machinery import fit
from nri.engine.process import Runtime
from nri.engine.spec import Machine
from nri.engine.state.tables import next_container_state
from nri.engine.support.errors import EngineError, NotFound, WrongState
from nri.errors import NriError
from nri.oci import Generator, without_unset

_log = logging.getLogger(__name__)

#: Fields that no OCI runtime changes in an existing container.
_NOT_IN_UPDATES = ("rdt_class",)
#: Fields that runc 1.1 does not change in an existing container.
_NOT_IN_RUNC = (
    "hugepage_limits", "blockio_class", "memory.swappiness", "memory.disable_oom_killer", "memory.use_hierarchy",
    "memory.kernel_tcp", "devices",
)  # fmt: skip


class Resources:
    """Changes resources of containers.

    Args:
        runtime: returns the OCI runtime of a handler.
        generator: returns the Generator for a spec.
    """

    def __init__(
        self,
        inventory: Inventory,
        machine: Machine,
        runtime: Callable[[str], Runtime],
        generator: Callable[[Mapping[str, Any]], Generator],
    ) -> None:
        self._inventory, self._machine = inventory, machine
        self._runtime, self._generator = runtime, generator

    def apply(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates that plugins request, and return a result for each. No error is raised.

        If two plugins set a resource, the value of the later answer is used.
        """
        return [self._apply(update, updates.numbers(update)) for update in updates]

    def _apply(self, update: m.ContainerUpdate, numbers: SequenceNumbers) -> UpdateResult:
        result = UpdateResult(update)
        try:
            container = self._inventory.container(update.container_id)
            with container.record_lock:
                next_container_state(container.id, container.record.state, "update")
                self.change(container, update.linux.resources, result, numbers=numbers)
        except (NotFound, WrongState) as error:
            result.mark_stale(str(error))
        except (NriError, OSError) as error:
            _log.warning("container %s: an update by a plugin failed: %s", update.container_id, error)
            result.mark_refused(str(error))
        return result

    def change(
        self,
        container: ContainerEntry,
        resources: m.LinuxResources,
        result: UpdateResult,
        oci_resources: dict[str, Any] | None = None,
        numbers: SequenceNumbers | None = None,
    ) -> None:
        """Change the resources of a container. If it has no process, only spec and record are changed.

        Raises SpecError or EngineError if that fails; then nothing is changed.

        Args:
            oci_resources: the resources as in an OCI spec, if the caller has them already.
            numbers: the sequence numbers of the plugins' answers that set the resources; None if NRI is off.
        """
        with container.record_lock:
            runtime = self._runtime(container.record.runtime_handler)
            generator = self._generator(container.spec)
            if numbers is not None:
                newest = container.order.newest(resources, numbers, result)
                oci_resources = oci_resources if newest is resources else None
                resources = newest
            update = generator.update(resources)
            update = copy.deepcopy(oci_resources) if oci_resources is not None else _with_swap(update, generator.spec)
            _remove_unsupported(update, self._machine, runtime.program, result, container.spec)
            spec = copy.deepcopy(container.spec)  # the generator's spec also has the fields that no runtime changes
            if update:
                linux = spec.setdefault("linux", {})
                linux["resources"] = merged(linux.get("resources") or {}, update)
            if update and container.record.pid:
                runtime.update(container.id, update)
            self._store_spec(container, spec)
            if numbers is not None:
                container.order.set(_set_fields(resources), numbers)

    def _store_spec(self, container: ContainerEntry, spec: dict[str, Any]) -> None:
        try:
            write_spec(Path(container.record.bundle), spec)
        except OSError as error:
            raise EngineError(f"the new resources of {container.id} cannot be written: {error}") from error
        container.spec = spec
        self._inventory.put(container, resources=in_force(spec, container.record.resources))


def in_force(spec: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources and the OOM score of a spec as in the CRI, merged over the requested resources."""
    base = json_format.ParseDict(dict(requested), pb.LinuxContainerResources(), ignore_unknown_fields=True)
    base.oom_score_adj = (spec.get("process") or {}).get("oomScoreAdj", base.oom_score_adj)
    resources = convert.from_oci((spec.get("linux") or {}).get("resources") or {}).value
    return to_json(convert.to_cri(resources, base).value)


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two ``linux.resources`` by key, and their limits of huge pages by page size. `new` has precedence."""
    result = dict(old)
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = {**result[key], **value}
        elif key == "hugepageLimits":
            rows = {row["pageSize"]: row for row in [*(result.get(key) or ()), *value]}
            result[key] = [*rows.values()]
        else:
            result[key] = value
    return result


def _set_fields(resources: m.LinuxResources) -> list[str]:
    """Return the names of the fields that are set. A zero that means "not set" is not included."""
    return [row.field for row in result_of("", without_unset(resources)).fields]


def _with_swap(update: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Add the container's limit of swap to an update that changes the memory limit."""
    result = copy.deepcopy(update)
    memory = result.get("memory") or {}
    swap = spec["linux"]["resources"].get("memory", {}).get("swap")
    if "limit" in memory and "swap" not in memory and swap is not None:
        memory["swap"] = swap
    return result


def _remove_unsupported(
    update: dict[str, Any], machine: Machine, runtime: str, result: UpdateResult, before: Mapping[str, Any]
) -> None:
    """Remove the fields that the runtime or the machine does not support, and record the reasons in the result."""
    reasons = reasons_of(fit(update, machine))
    for field in _NOT_IN_UPDATES:
        reasons[field] = "no OCI runtime changes it in an existing container"
    if runtime == "runc":
        reasons |= dict.fromkeys(_NOT_IN_RUNC, "runc does not change it in an existing container")
        for key in ("hugepageLimits", "blockIO", "devices"):
            update.pop(key, None)
        for key in ("swappiness", "disableOOMKiller", "useHierarchy", "kernelTCP"):
            update.get("memory", {}).pop(key, None)
    memory = update.get("memory", {})
    if runtime == "crun" and memory.get("disableOOMKiller") is False and _without_oom_killer(before):
        del memory["disableOOMKiller"]
        reasons["memory.disable_oom_killer"] = "crun does not enable it again"
    if update.get("memory") == {}:
        del update["memory"]
    mark_unsupported(result, reasons)


def result_of(container_id: str, resources: m.LinuxResources) -> UpdateResult:
    """Return the result of an update of one container, with every field marked as applied."""
    update = m.ContainerUpdate(container_id=container_id)
    update.linux.resources.CopyFrom(resources)
    return UpdateResult(update)


def reasons_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the reasons by field, from the lines that `machinery.fit` returns."""
    return {line.partition(" ")[0].rstrip(":"): line.rpartition(": ")[2] for line in lines}


def mark_unsupported(result: UpdateResult, reasons: Mapping[str, str]) -> None:
    """Mark the fields of a result that were not applied. The reason for a map applies to each key of the map."""
    for field in [row.field for row in result.fields]:
        if reason := reasons.get(field.partition("[")[0]):
            result.mark_unsupported(field, reason)


def _without_oom_killer(spec: Mapping[str, Any]) -> bool:
    memory = ((spec.get("linux") or {}).get("resources") or {}).get("memory") or {}
    return bool(memory.get("disableOOMKiller"))
