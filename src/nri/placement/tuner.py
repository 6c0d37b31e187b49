"""Apply a policy's CPU frequencies, idle states and interrupt affinities to the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

from nri.host import Result, Root
from nri.host.cpu_tuning import Setting, limits_of, tune, tune_uncore
from nri.host.interrupts import affinity_of, read_interrupts, set_affinity
from nri.placement import masks
from nri.placement.machine import Machine
from nri.placement.tuning import Settings, Tuning, affinities, settings
from nri.text import count

#: Maximum number of files that a warning names.
_MAX_NAMES = 3
#: Calls of `apply` between two searches for interrupts of new devices.
_SEARCH_TURNS = 30


class Tuner:
    """Write settings that have changed, and report settings that the machine does not accept.

    Args:
        warn: called with each new problem.
        first: the original CPUs of moved interrupts by number, from an earlier run of the plugin.
        save: called when `first` has changed: before interrupts are moved, and after they are moved back.
    """

    def __init__(
        self, root: Root, warn: Callable[[str], None], first: Mapping[str, str], save: Callable[[], None] = lambda: None
    ) -> None:
        self._root, self._warn, self._save = root, warn, save
        self.first = dict(first)
        self.problems: list[str] = []
        self._limits = cache(partial(limits_of, root))
        self._last_request: tuple[Any, ...] | None = None
        self._settings = Settings({}, {})
        self._interrupts: dict[int, tuple[str, int]] | None = None
        self._turn = 0

    def apply(self, tuning: Tuning, options: Any, machine: Machine) -> None:
        """Write the settings that have changed since the last call."""
        request = tuning, options, machine
        if not self._has_new_interrupts() and request == self._last_request:
            return
        self._last_request = request
        is_system_wide = getattr(options, "turboDomain", "package") == "system"
        new = settings(options.cpuClasses, tuning.classes, machine, self._limits, is_system_wide)
        results = list(self._write_cpus(new))
        self._settings = new
        results += self._write_interrupts(tuning, options.controllableInterrupts, machine)
        self._report_problems(results)

    def _write_cpus(self, new: Settings) -> Iterable[Result]:
        for cpu, setting in new.cpus.items():
            if self._settings.cpus.get(cpu, Setting()) != setting:
                yield from tune(self._root, cpu, setting)
        for die, between in new.uncore.items():
            if self._settings.uncore.get(die) != between:
                yield from tune_uncore(self._root, *die, *between)

    def _write_interrupts(self, tuning: Tuning, controllable: list[str], machine: Machine) -> Iterable[Result]:
        if not tuning.irq_affinities and not self.first:
            return []
        if self._interrupts is None:
            self._interrupts = self._read()
        requested = affinities(self._interrupts, tuning.irq_affinities, controllable, machine.online)
        existing = {str(number) for number in self._interrupts}
        before = {name: cpus for name, cpus in self.first.items() if name in existing or not existing}
        # An interrupt that nobody claims any more gets its original CPUs.
        targets = {number: requested.get(number, first) for number, (_, first) in self._interrupts.items()}
        moved = {
            str(number): masks.text(first)
            for number, (_, first) in self._interrupts.items()
            if targets[number] != first
        }
        self._set_first(moved | before)
        restored = set[str]()
        results = []
        for number, cpus in targets.items():
            name = str(number)
            if name in self.first:
                result = set_affinity(self._root, number, masks.text(cpus))
                results.append(result)
                if name not in moved if result.in_force else name not in before:
                    restored.add(name)
        self._set_first({name: cpus for name, cpus in self.first.items() if name not in restored})
        return results

    def _set_first(self, first: dict[str, str]) -> None:
        """Set and save the original CPUs of interrupts, before a kill could lose them."""
        if first != self.first:
            self.first = first
            self._save()

    def _has_new_interrupts(self) -> bool:
        """Whether the interrupts have changed; checked only every `_SEARCH_TURNS` calls."""
        self._turn += 1
        if self._interrupts is None or self._turn % _SEARCH_TURNS:
            return False
        before, self._interrupts = self._interrupts, self._read()
        return self._interrupts != before

    def _read(self) -> dict[int, tuple[str, int]]:
        """The description and the original CPUs of each interrupt."""
        interrupts, previous = {}, self._interrupts or {}
        for number, description in read_interrupts(self._root).items():
            with suppress(ValueError):
                text = self.first.get(str(number)) or affinity_of(self._root, number) or ""
                cpus = previous[number][1] if number in previous else masks.parse(text)
                if cpus:
                    interrupts[number] = description, cpus
        return interrupts

    def _report_problems(self, results: Iterable[Result]) -> None:
        """Report settings that are not in force, one message per kind of problem, and each message once."""
        kinds: dict[tuple[str, str], list[str]] = {}
        for result in results:
            if not result.in_force:
                reason = result.reason.replace(result.target, "*")
                kinds.setdefault((f"{result.name} {result.outcome.value}", reason), []).append(result.target)
        problems = []
        for (outcome, reason), files in kinds.items():
            more = f" and {count(len(files) - _MAX_NAMES, 'more file')}" if len(files) > _MAX_NAMES else ""
            problems.append(f"{', '.join(files[:_MAX_NAMES])}{more}: {outcome}: {reason}")
        for problem in problems:
            if problem not in self.problems:
                self._warn(problem)
        self.problems = problems or self.problems
