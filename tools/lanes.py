"""Run stages of checks in lanes, so that each core has something to do, and tell what each came to.

Rules: stages begin in their order, as soon as a lane is free and what they wait for is done; of those that use the
machine's real parts (containers, networks, cgroups) one at a time. A failed stage does not stop the later ones, so that
one run shows everything. A stage that finds no test has failed. What a stage puts into the temporary folder goes with
it. With more than one lane the output of a stage is printed in one piece, at its end. Next: `tools/check.py`.
"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from tests.support.needs import no_skip
from tools import last_words, unsteady
from tools.passed import Passed
from tools.unsteady import Failure

ROOT = Path(__file__).resolve().parent.parent
# How a stage that builds says that this machine cannot, and pytest that it has run all tests and some have failed.
CANNOT = 77
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One command.

    Attributes:
        tests: it is pytest, whose report is read for the table; this selects the tests, after `argv`.
        environment: added to ours.
        after: the stages that it waits for.
        needs: what one of those makes; without it this one is left out.
        missing: why it cannot be run on this machine, which is no failure.
        since: the smallest run that has it, of `LEVELS` in tools/check.py.
        real: it uses the machine's real parts, or is disturbed by what does.
        measured: it counts for the coverage of files.
    """

    group: str
    name: str
    argv: tuple[str, ...]
    tests: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    needs: Path | None = None
    missing: str = ""
    since: str = "test"
    real: bool = False
    measured: bool = False

    @property
    def command(self) -> str:
        """The command for a person, in the project's folder."""
        more = (f"{name}={value}" for name, value in self.environment.items() if name != "PATH")
        return " ".join((*more, shlex.join(self.argv + (self.tests or ())))).replace(f"{ROOT}/", "")


@dataclass(slots=True)
class Outcome:
    """What a stage came to; `said` is what to print again if it failed."""

    stage: Stage
    code: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    note: str = ""
    said: list[str] = field(default_factory=list)
    unsteady: list[Failure] = field(default_factory=list)


def run(stage: Stage, output: TextIO | None = None) -> Outcome:
    """Run one stage with its output on ours, or on `output`."""
    if stage.missing:
        return Outcome(stage, skips=Counter([stage.missing]))
    if stage.needs is not None and not stage.needs.exists():
        return Outcome(stage, skips=Counter([f"{stage.needs} was not made, see {' and '.join(stage.after)}"]))
    out = output or sys.stdout
    start = time.monotonic()
    outcome, failed = _run_once(stage, out)
    if outcome.code == CANNOT and not no_skip():
        outcome.code, outcome.skips = 0, Counter(["this machine cannot build it, see above"])
    if outcome.code == TESTS_FAILED:
        again = replace(stage, name=f"{stage.name} again, alone")
        outcome.unsteady = unsteady.try_again(
            failed, lambda test: _run_once(replace(again, tests=(test,)), out)[0].code == 0
        )
        _count_unsteady(outcome)
    outcome.seconds = time.monotonic() - start
    if stage.tests is not None and not outcome.code and not outcome.passed and not outcome.skips:
        outcome.code, outcome.note = 5, "no test was run"
    return outcome


def _run_once(stage: Stage, out: TextIO) -> tuple[Outcome, list[Failure]]:
    """Run the stage's command; also returns the tests that failed."""
    print(f"\n=== {stage.name}: {stage.command}", file=out, flush=True)
    outcome = Outcome(stage)
    # A short name: sockets lie below it, and their paths must fit into 107 bytes.
    with tempfile.TemporaryDirectory(prefix="nri-c-") as folder:
        report = Path(folder, "report.xml")
        extra = () if stage.tests is None else (*stage.tests, f"--junit-xml={report}", f"--basetemp={folder}/t")
        environment = {**os.environ, "TMPDIR": folder, **stage.environment}
        ended = last_words.run(stage.argv + extra, cwd=ROOT, environment=environment, output=out)
        outcome.code, outcome.said, outcome.processor_s = ended.code, ended.last_words, ended.processor_s
        if not report.exists():
            return outcome, []
        failed = unsteady.failures(report)
        outcome.failed = len(failed)  # not of cases: a test that cannot clean up either has two
        _read_report(report, outcome)
        return outcome, failed


def _read_report(report: Path, outcome: Outcome) -> None:
    """Count what passed in pytest's XML report, and keep the reason of every skip."""
    for case in ET.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            continue
        if skipped is None:
            outcome.passed += 1
        else:
            outcome.skips[skipped.get("message") or "no reason given"] += 1


def _count_unsteady(outcome: Outcome) -> None:
    """Take failures that were none out of the count, and keep a record of them."""
    if outcome.unsteady:
        outcome.passed += len(outcome.unsteady)
        outcome.failed -= len(outcome.unsteady)
        outcome.code = TESTS_FAILED if outcome.failed else 0
        unsteady.record(outcome.stage.name, outcome.unsteady)


class Lanes:
    """Runs stages, as many at a time as there are lanes, and notes which have passed."""

    def __init__(self, stages: Sequence[Stage], count: int, passed: Passed) -> None:
        self._passed = passed
        self._waiting = list(stages)
        self._running: list[Stage] = []
        self._open = min(count, len(self._waiting))
        self._several = self._open > 1
        self._changed = threading.Condition()
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        """Run them all. A KeyboardInterrupt ends what runs, and is raised again when that has cleaned up."""
        for _ in range(self._open):
            threading.Thread(target=self._lane, daemon=True).start()
        try:
            self._wait()
        except KeyboardInterrupt:
            with self._changed:
                self._waiting.clear()
            last_words.interrupt()
            try:
                self._wait()
            except KeyboardInterrupt:  # again: not even time to clean up
                last_words.interrupt(signal.SIGKILL)
            raise

    def _wait(self) -> None:
        with self._changed:  # not `join`, which takes a thread for ended once it was interrupted (Python 3.11)
            self._changed.wait_for(lambda: not self._open)

    def _lane(self) -> None:
        while (stage := self._next()) is not None:
            output = io.StringIO() if self._several else None
            if output is not None:
                print(f"--- {stage.name} begins", flush=True)
            try:
                outcome = run(stage, output)
            except Exception as error:  # noqa: BLE001 - what ends a thread fails nothing by itself
                outcome = Outcome(stage, code=1, note=repr(error))
            with self._changed:
                if output is not None:
                    print(output.getvalue(), end="", flush=True)
                self._running.remove(stage)
                self._keep(outcome)
                self._changed.notify_all()

    def _keep(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if outcome.code or outcome.unsteady:  # an unsteady one is to run again
            self._passed.forget(outcome.stage.command)
        elif outcome.passed or not outcome.skips:
            self._passed.keep(outcome.stage.command, outcome.passed, outcome.skips)

    def _next(self) -> Stage | None:
        with self._changed:
            while self._waiting:
                held = {each.name for each in (*self._waiting, *self._running)}
                busy = any(each.real for each in self._running)
                for stage in self._waiting:
                    if not held & set(stage.after) and not (stage.real and busy):
                        self._waiting.remove(stage)
                        self._running.append(stage)
                        return stage
                self._changed.wait()
            self._open -= 1
            self._changed.notify_all()
        return None
