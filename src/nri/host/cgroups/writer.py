"""Write values into cgroups in batches, and report the result of each write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from nri.host.cgroups import knob_file
from nri.host.cgroups.batch import Write, order
from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.cgroups.knobs import knob
from nri.host.cgroups.support import LocatedFile
from nri.host.cgroups.systemd import BFQ_WEIGHT_FILE, DEFAULT_PERIOD_US, SystemdUnits
from nri.host.cgroups.units import Value
from nri.host.outcome import Outcome, Result, Unsupported
from nri.host.root import Identity


class _CachedResult(NamedTuple):
    """The result of an earlier write, with the file's identity and the time."""

    identity: Identity
    at: float
    result: Result


class Writer:
    """Write knobs of cgroups. Thread-safe; calls wait for each other.

    Args:
        refresh_s: a written value is not checked again for this number of seconds; 0 always checks.
        now: the clock, in seconds.
        units: makes systemd keep values of its cgroups; None if no other program writes cgroups.
    """

    def __init__(
        self,
        hierarchies: Hierarchies,
        *,
        refresh_s: float = 60.0,
        now: Callable[[], float] = time.monotonic,
        units: SystemdUnits | None = None,
    ) -> None:
        self._hierarchies, self._refresh_s, self._clock = hierarchies, refresh_s, now
        # systemd's properties are for cgroup v2.
        self._units = units if hierarchies.mode == "v2" else None
        self._cached_results: dict[str, dict[str, _CachedResult]] = {}  # by the path of the cgroup, and by the knob
        self._sweep_time = now()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of cached results."""
        return sum(map(len, self._cached_results.values()))

    def read(self, cgroup: str, name: str) -> Value | Unsupported:
        """The value of a knob, from its file.

        Raises:
            KeyError: the knob is unknown.
            FileNotFoundError: the cgroup does not exist.
            ValueError: the file is invalid, or the path leads out of the hierarchy.
        """
        return knob_file.read(self._hierarchies, cgroup, name)

    def write(self, write: Write, *, force: bool = False) -> Result:
        """Write a value. Raises KeyError if the knob is unknown."""
        return self.write_all([write], force=force)[0]

    def write_all(self, writes: Sequence[Write], *, force: bool = False) -> list[Result]:
        """Write a batch, level by level. Returns the results in the order of `writes`.

        Args:
            writes: the writes. Of several writes to the same knob of a cgroup, the last is used; the others are
            refused. force: check files even if their result is cached.

        Raises:
            KeyError: a knob is unknown. Then nothing is written.
        """
        for write in writes:
            knob(write.name)
        with self._lock:
            self._drop_old_results()
            results: dict[int, Result] = {}
            located = self._settle_results(writes, force, results)
            self._write(writes, located, results)
            return [results[number] for number in range(len(writes))]

    def forget(self, cgroup: str) -> None:
        """Drop cached results of a removed cgroup and of cgroups below it, and systemd's properties for it."""
        path = cgroup.strip("/")
        if self._units is not None:
            self._units.forget(path)
        with self._lock:
            self._cached_results.pop(path, None)
            for below in [other for other in self._cached_results if other.startswith(f"{path}/")]:
                del self._cached_results[below]

    def _settle_results(
        self, writes: Sequence[Write], force: bool, results: dict[int, Result]
    ) -> dict[int, LocatedFile]:
        """Set the results of writes that are not needed or not possible. Returns the files of the remaining writes."""
        last = {_key(write): number for number, write in enumerate(writes)}
        located: dict[int, LocatedFile] = {}
        for number, write in enumerate(writes):
            if last[_key(write)] != number:
                reason = "a later write of the same batch replaces the value"
                results[number] = Result(write.cgroup, write.name, write.value, Outcome.REFUSED, reason)
                continue
            file = knob_file.find(self._hierarchies, write, knob(write.name))
            if isinstance(file, Result):
                results[number] = file
            elif not force and (earlier := self._cached_result(write, file)) is not None:
                results[number] = earlier
            else:
                located[number] = file
        return located

    def _write(self, writes: Sequence[Write], located: dict[int, LocatedFile], results: dict[int, Result]) -> None:
        """Execute the steps of the writes in `located`."""
        numbers = list(located)
        chosen = [writes[number] for number in numbers]
        first = [knob_file.present(self._hierarchies, located[number]) for number in numbers]
        if self._units is not None:
            self._keep_in_systemd(
                self._units, [(write, located[number]) for write, number in zip(chosen, numbers, strict=True)]
            )
        for step in order(chosen, first):
            write, file = chosen[step.number], located[numbers[step.number]]
            row = knob(write.name)
            result = knob_file.put(self._hierarchies, write, row, file, step.value)
            if result.outcome is Outcome.APPLIED:
                for name in row.resets:
                    self._drop_result(write.cgroup.strip("/"), name)
            if step.final:
                result = _result_since(first[step.number], result)
                results[numbers[step.number]] = result
                self._remember(write, file, result)

    def _keep_in_systemd(self, units: SystemdUnits, writes: Sequence[tuple[Write, LocatedFile]]) -> None:
        """Make systemd keep the new values of its cgroups. systemd then also writes their files."""
        by_cgroup: dict[str, dict[str, Value]] = {}
        for write, file in writes:
            if units.owns(write.cgroup):
                value = knob_file.unit_value(self._hierarchies, knob(write.name), file, write.value)
                if value is not None:
                    is_bfq = write.name == "io.weight" and file.place.file == BFQ_WEIGHT_FILE
                    name = BFQ_WEIGHT_FILE if is_bfq else write.name
                    by_cgroup.setdefault(write.cgroup, {})[name] = value
        for cgroup, values in by_cgroup.items():
            period = self.read(cgroup, "cpu.cfs_period") if "cpu.cfs_quota" in values else None
            units.keep(cgroup, values, period if isinstance(period, int) else DEFAULT_PERIOD_US)

    def _cached_result(self, write: Write, file: LocatedFile) -> Result | None:
        """The result of a recent write of the same value to the same file, or None."""
        cgroup, name = _key(write)
        earlier = self._cached_results.get(cgroup, {}).get(name)
        if earlier is None or earlier.result.wanted != write.value or self._clock() - earlier.at >= self._refresh_s:
            return None
        if self._hierarchies.files.identity(file.path) != earlier.identity:
            return None
        outcome = Outcome.UNCHANGED if earlier.result.in_force else earlier.result.outcome
        return replace(earlier.result, target=write.cgroup, outcome=outcome, before=earlier.result.after)

    def _remember(self, write: Write, file: LocatedFile, result: Result) -> None:
        """Cache a result. A refused write is not cached, so that it is tried again."""
        cgroup, name = _key(write)
        self._drop_result(cgroup, name)
        if self._refresh_s > 0 and (result.in_force or result.outcome is Outcome.CLAMPED):
            identity = self._hierarchies.files.identity(file.path)
            if identity is not None:
                self._cached_results.setdefault(cgroup, {})[name] = _CachedResult(identity, self._clock(), result)

    def _drop_result(self, cgroup: str, name: str) -> None:
        rows = self._cached_results.get(cgroup)
        if rows is not None and rows.pop(name, None) is not None and not rows:
            del self._cached_results[cgroup]

    def _drop_old_results(self) -> None:
        """Drop old results, so that removed cgroups use no memory."""
        now = self._clock()
        if now - self._sweep_time >= self._refresh_s:
            self._sweep_time = now
            for cgroup, rows in list(self._cached_results.items()):
                for name in [name for name, row in rows.items() if now - row.at >= self._refresh_s]:
                    self._drop_result(cgroup, name)


def _key(write: Write) -> tuple[str, str]:
    return write.cgroup.strip("/"), write.name


def _result_since(first: Value | None, result: Result) -> Result:
    """The result of a final step, compared to the value before all steps."""
    if first is None or first == result.before:
        return result
    changed = result.outcome is Outcome.UNCHANGED and result.after != first
    return replace(result, before=first, outcome=Outcome.APPLIED if changed else result.outcome)
