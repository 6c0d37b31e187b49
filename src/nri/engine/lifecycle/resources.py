"""Resources of existing containers: put into force by the OCI runtime, and kept in spec and record.

Used for updates of clients and of plugins; plugins are not asked here, so an update by a plugin never comes back to
one. Only the container's `record_lock` is held. What this machine or this runtime cannot do is left out and reported by
the field's name; spec and record change only after the runtime has accepted it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from nri.adaptation import Numbers, OrderedUpdates, UpdateResult
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

#: Fields of an update that no OCI runtime changes in a container that exists; runc 1.1 reads fewer than crun.
_NOT_IN_UPDATES = ("rdt_class",)
_NOT_IN_RUNC = (
    "hugepage_limits", "blockio_class", "memory.swappiness", "memory.disable_oom_killer", "memory.use_hierarchy",
    "memory.kernel_tcp", "devices",
)  # fmt: skip


class Resources:
    """Changes resources. `runtime` gives the OCI runtime of a handler, `generator` a Generator over a spec."""

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
        """Apply plugins' updates of containers; one result for each, never an error. Later answers' values stay."""
        return [self._apply(update, updates.numbers(update)) for update in updates]

    def _apply(self, update: m.ContainerUpdate, numbers: Numbers) -> UpdateResult:
        result = UpdateResult(update)
        try:
            container = self._inventory.container(update.container_id)
            self.change(container, update.linux.resources, result, numbers=numbers)
        except (NotFound, WrongState) as error:
            result.mark_stale(str(error))
        except (NriError, OSError) as error:
            _log.warning("an update by a plugin of container %s failed: %s", update.container_id, error)
            result.mark_refused(str(error))
        return result

    def change(
        self,
        container: ContainerEntry,
        wanted: m.LinuxResources,
        result: UpdateResult,
        told: dict[str, Any] | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        """Put resources into force. Raises WrongState, SpecError, EngineError; nothing is changed then.

        Args:
            told: the resources in the runtime's own words, if they are known already.
            numbers: the places of the resources in the order of plugins' answers; None where no plugin is asked.
        """
        with container.record_lock:
            record = container.record
            next_container_state(container.id, record.state, "update")
            runtime = self._runtime(record.runtime_handler)
            generator = self._generator(container.spec)
            if numbers is not None:
                newest = container.order.newest(wanted, numbers, result)
                told = told if newest is wanted else None
                wanted = newest
            from_plugins = generator.update(wanted)
            told = _with_swap(from_plugins, generator.spec) if told is None else copy.deepcopy(told)
            _leave_out(told, self._machine, runtime.program, result, container.spec)
            spec = copy.deepcopy(generator.spec)
            if container.spec.get("linux", {}).get("resources") is not None:
                spec["linux"]["resources"] = merged(container.spec["linux"]["resources"], told)
            if told:
                runtime.update(container.id, told)
            self._keep(container, spec)
            if numbers is not None:
                container.order.set(_set_by(wanted), numbers)

    def _keep(self, container: ContainerEntry, spec: dict[str, Any]) -> None:
        try:
            write_spec(Path(container.record.bundle), spec)
        except OSError as error:
            raise EngineError(f"the new resources of {container.id} cannot be written: {error}") from error
        container.spec = spec
        self._inventory.put(container, resources=in_force(spec, container.record.resources))


def in_force(spec: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of a spec in the CRI's words, over those that were asked for."""
    base = json_format.ParseDict(dict(asked), pb.LinuxContainerResources(), ignore_unknown_fields=True)
    found = convert.from_oci((spec.get("linux") or {}).get("resources") or {}).value
    return to_json(convert.to_cri(found, base).value)


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Resources with others over them, key by key; lists of huge pages by their size."""
    made = dict(old)
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = {**made[key], **value}
        elif key == "hugepageLimits":
            rows = {row["pageSize"]: row for row in [*(made.get(key) or ()), *value]}
            made[key] = [*rows.values()]
        else:
            made[key] = value
    return made


def _set_by(wanted: m.LinuxResources) -> list[str]:
    """The names of the fields that resources set; a zero that means "not set" sets none."""
    return [row.field for row in result_of("", without_unset(wanted)).fields]


def _with_swap(told: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return an update in which a new memory limit is one for swap as well, if the container has such a limit."""
    made = copy.deepcopy(told)
    memory = made.get("memory") or {}
    swap = spec["linux"]["resources"].get("memory", {}).get("swap")
    if "limit" in memory and "swap" not in memory and swap is not None:
        memory["swap"] = swap
    return made


def _leave_out(
    told: dict[str, Any], machine: Machine, runtime: str, result: UpdateResult, before: Mapping[str, Any]
) -> None:
    """Leave out what the runtime or the machine cannot do, and say so in the result."""
    reasons = reasons_of(fit(told, machine))
    for field in _NOT_IN_UPDATES:
        reasons[field] = "no OCI runtime changes it in a container that exists"
    if runtime == "runc":
        reasons |= dict.fromkeys(_NOT_IN_RUNC, "runc does not change it in a container that exists")
        for key in ("hugepageLimits", "blockIO", "devices"):
            told.pop(key, None)
        for key in ("swappiness", "disableOOMKiller", "useHierarchy", "kernelTCP"):
            told.get("memory", {}).pop(key, None)
    memory = told.get("memory", {})
    if runtime == "crun" and memory.get("disableOOMKiller") is False and _without_oom_killer(before):
        del memory["disableOOMKiller"]
        reasons["memory.disable_oom_killer"] = "crun does not switch it on again"
    if told.get("memory") == {}:
        del told["memory"]
    mark_unsupported(result, reasons)


def result_of(container_id: str, wanted: m.LinuxResources) -> UpdateResult:
    """The result of an update of one container, in which everything still counts as done."""
    update = m.ContainerUpdate(container_id=container_id)
    update.linux.resources.CopyFrom(wanted)
    return UpdateResult(update)


def reasons_of(lines: Iterable[str]) -> dict[str, str]:
    """The reasons by field of what `machinery.fit` has left out."""
    return {line.partition(" ")[0].rstrip(":"): line.rpartition(": ")[2] for line in lines}


def mark_unsupported(result: UpdateResult, reasons: Mapping[str, str]) -> None:
    """Say of the fields that a result has why they are not done; a reason for a map is one for each of its keys."""
    for field in [row.field for row in result.fields]:
        if reason := reasons.get(field.partition("[")[0]):
            result.mark_unsupported(field, reason)


def _without_oom_killer(spec: Mapping[str, Any]) -> bool:
    memory = ((spec.get("linux") or {}).get("resources") or {}).get("memory") or {}
    return bool(memory.get("disableOOMKiller"))
