"""The CPUs' frequencies and idle states, and the interrupts' CPUs, written as a policy has them.

One job: :class:`Tuner`. Rules: only what has changed since the last time is written; a machine that lacks a file, or a
root that is read-only, is reported once for each kind of file, and keeps no container from running; an interrupt that
nobody asks for any more comes to the CPUs that it had at first, also after a restart. Next: `plugin`, which calls
it within a second of each decision.
"""

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

__all__ = ["Tuner"]

#: Places that a complaint names.
_MOST_NAMED = 3
#: After so many calls of `apply` interrupts are looked for that have come with a device meanwhile.
_LOOK_TURNS = 30


class Tuner:
    """The settings that are in force.

    Args:
        say: told of what this machine does not take.
        first: the CPUs of interrupts before they were moved, by number, as an earlier life left them.
        keep: called when these are others, before more are moved and after some are back.
    """

    def __init__(
        self, root: Root, say: Callable[[str], None], first: Mapping[str, str], keep: Callable[[], None] = lambda: None
    ) -> None:
        self._root, self._say, self._keep = root, say, keep
        self.first = dict(first)
        self.problems: list[str] = []
        self._limits = cache(partial(limits_of, root))
        self._done: tuple[Any, ...] | None = None
        self._now = Settings({}, {})
        self._interrupts: dict[int, tuple[str, int]] | None = None
        self._turn = 0

    def apply(self, tuning: Tuning, options: Any, machine: Machine) -> None:
        """Write what a policy wants."""
        wanted = tuning, options, machine
        if not self._has_others() and wanted == self._done:
            return
        self._done = wanted
        whole = getattr(options, "turboDomain", "package") == "system"
        new = settings(options.cpuClasses, tuning.classes, machine, self._limits, whole)
        results = list(self._write_cpus(new))
        self._now = new
        results += self._write_interrupts(tuning, options.controllableInterrupts, machine)
        self._complain(results)

    def _write_cpus(self, new: Settings) -> Iterable[Result]:
        for cpu, setting in new.cpus.items():
            if self._now.cpus.get(cpu, Setting()) != setting:
                yield from tune(self._root, cpu, setting)
        for die, between in new.uncore.items():
            if self._now.uncore.get(die) != between:
                yield from tune_uncore(self._root, *die, *between)

    def _write_interrupts(self, tuning: Tuning, controllable: list[str], machine: Machine) -> Iterable[Result]:
        if not tuning.irq_affinities and not self.first:
            return []
        if self._interrupts is None:
            self._interrupts = self._read()
        wanted = affinities(self._interrupts, tuning.irq_affinities, controllable, machine.online)
        there = {str(number) for number in self._interrupts}
        before = {name: cpus for name, cpus in self.first.items() if name in there or not there}
        moves = {number: wanted.get(number, first) for number, (_, first) in self._interrupts.items()}
        away = {
            str(number): masks.text(first) for number, (_, first) in self._interrupts.items() if moves[number] != first
        }
        self._remember(away | before)
        back = set[str]()
        found = []
        for number, cpus in moves.items():
            name = str(number)
            if name in self.first:
                result = set_affinity(self._root, number, masks.text(cpus))
                found.append(result)
                if name not in away if result.in_force else name not in before:
                    back.add(name)
        self._remember({name: cpus for name, cpus in self.first.items() if name not in back})
        return found

    def _remember(self, first: dict[str, str]) -> None:
        """Let these be the first CPUs of interrupts, before a kill could lose them."""
        if first != self.first:
            self.first = first
            self._keep()

    def _has_others(self) -> bool:
        """Whether there are other interrupts than before, if it is time to look."""
        self._turn += 1
        if self._interrupts is None or self._turn % _LOOK_TURNS:
            return False
        before, self._interrupts = self._interrupts, self._read()
        return self._interrupts != before

    def _read(self) -> dict[int, tuple[str, int]]:
        """The description of each interrupt, and the CPUs that it had at first."""
        found, known = {}, self._interrupts or {}
        for number, words in read_interrupts(self._root).items():
            with suppress(ValueError):
                text = self.first.get(str(number)) or affinity_of(self._root, number) or ""
                cpus = known[number][1] if number in known else masks.parse(text)
                if cpus:
                    found[number] = words, cpus
        return found

    def _complain(self, results: Iterable[Result]) -> None:
        """Tell what is not in force, places that lack the same in one sentence, and each sentence once."""
        kinds: dict[tuple[str, str], list[str]] = {}
        for result in results:
            if not result.in_force:
                reason = result.reason.replace(result.target, "*")
                kinds.setdefault((f"{result.name} {result.outcome.value}", reason), []).append(result.target)
        problems = []
        for (what, reason), places in kinds.items():
            more = f" and {count(len(places) - _MOST_NAMED, 'more place')}" if len(places) > _MOST_NAMED else ""
            problems.append(f"{', '.join(places[:_MOST_NAMED])}{more}: {what}: {reason}")
        for problem in problems:
            if problem not in self.problems:
                self._say(problem)
        self.problems = problems or self.problems
