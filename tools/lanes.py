"""Run stages of checks in lanes, one for each core, and collect the outcome of each.

A stage starts when a lane is free and the stages that it waits for have ended. Stages that use real parts of the
machine (containers, networks, cgroups) run one at a time. A failed stage does not stop later ones, so that one run
shows all failures.
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
from tools import command, unsteady
from tools.passed import Passed
from tools.unsteady import Failure

ROOT = Path(__file__).resolve().parent.parent
# Exit codes: of a build that this machine cannot do, and of a pytest that ran all tests, of which some failed.
CANNOT_BUILD = 77
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One command.

    Attributes:
        tests: the arguments that select tests, after `argv`, if the command is pytest; its report is read for the
        table. environment: variables in addition to those of this process. after: names of the stages that it waits
        for. needs: a file that one of these stages creates; the stage is skipped if it does not exist. missing: why
        this machine cannot run the stage, which then is skipped. since: the smallest run with this stage, one of
        `LEVELS` in tools/check.py. real: it uses real parts of the machine, or is disturbed by stages that do.
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
    def command_line(self) -> str:
        """The command line to repeat the stage in the project's folder."""
        variables = (f"{name}={value}" for name, value in self.environment.items() if name != "PATH")
        return " ".join((*variables, shlex.join(self.argv + (self.tests or ())))).replace(f"{ROOT}/", "")


@dataclass(slots=True)
class Outcome:
    """The outcome of a stage; `last_lines` are printed again if it failed."""

    stage: Stage
    code: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    note: str = ""
    last_lines: list[str] = field(default_factory=list)
    unsteady: list[Failure] = field(default_factory=list)


def run(stage: Stage, output: TextIO | None = None) -> Outcome:
    """Run one stage; write its output to `output`, by default to standard output."""
    if stage.missing:
        return Outcome(stage, skips=Counter([stage.missing]))
    if stage.needs is not None and not stage.needs.exists():
        return Outcome(stage, skips=Counter([f"{stage.needs} does not exist; see {' and '.join(stage.after)}"]))
    out = output or sys.stdout
    start = time.monotonic()
    outcome, failed = _run_once(stage, out)
    if outcome.code == CANNOT_BUILD and not no_skip():
        outcome.code, outcome.skips = 0, Counter(["this machine cannot build it; see above"])
    if outcome.code == TESTS_FAILED:
        rerun = replace(stage, name=f"{stage.name} again, alone")
        outcome.unsteady = unsteady.run_again(
            failed, lambda test: _run_once(replace(rerun, tests=(test,)), out)[0].code == 0
        )
        _count_unsteady(outcome)
    outcome.seconds = time.monotonic() - start
    if stage.tests is not None and not outcome.code and not outcome.passed and not outcome.skips:
        outcome.code, outcome.note = 5, "no test ran"
    return outcome


def _run_once(stage: Stage, out: TextIO) -> tuple[Outcome, list[Failure]]:
    """Run the stage's command; also returns the tests that failed."""
    print(f"\n=== {stage.name}: {stage.command_line}", file=out, flush=True)
    outcome = Outcome(stage)
    # A short name: paths of sockets below it must fit into 107 bytes.
    with tempfile.TemporaryDirectory(prefix="nri-c-") as folder:
        report = Path(folder, "report.xml")
        extra = () if stage.tests is None else (*stage.tests, f"--junit-xml={report}", f"--basetemp={folder}/t")
        environment = {**os.environ, "TMPDIR": folder, **stage.environment}
        result = command.run(stage.argv + extra, cwd=ROOT, environment=environment, output=out)
        outcome.code, outcome.last_lines, outcome.processor_s = result.code, result.last_lines, result.processor_s
        if not report.exists():
            return outcome, []
        failed = unsteady.failures(report)
        outcome.failed = len(failed)  # tests, not cases: a test whose teardown fails too has two cases
        _read_report(report, outcome)
        return outcome, failed


def _read_report(report: Path, outcome: Outcome) -> None:
    """Count the passed tests in pytest's XML report, and keep the reason of every skip."""
    for case in ET.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            continue
        if skipped is None:
            outcome.passed += 1
        else:
            outcome.skips[skipped.get("message") or "no reason given"] += 1


def _count_unsteady(outcome: Outcome) -> None:
    """Count unsteady tests as passed, and record them."""
    if outcome.unsteady:
        outcome.passed += len(outcome.unsteady)
        outcome.failed -= len(outcome.unsteady)
        outcome.code = TESTS_FAILED if outcome.failed else 0
        unsteady.record(outcome.stage.name, outcome.unsteady)


class Lanes:
    """Runs stages, one in each lane at a time, and records which passed."""

    def __init__(self, stages: Sequence[Stage], count: int, passed: Passed) -> None:
        self._passed = passed
        self._waiting = list(stages)
        self._running: list[Stage] = []
        self._open = min(count, len(self._waiting))
        self._several = self._open > 1
        self._changed = threading.Condition()
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        """Run all stages. A KeyboardInterrupt interrupts the running ones, and is raised again when they have ended."""
        for _ in range(self._open):
            threading.Thread(target=self._lane, daemon=True).start()
        try:
            self._wait()
        except KeyboardInterrupt:
            with self._changed:
                self._waiting.clear()
            command.interrupt()
            try:
                self._wait()
            except KeyboardInterrupt:  # a second one leaves no time to clean up
                command.interrupt(signal.SIGKILL)
            raise

    def _wait(self) -> None:
        with self._changed:  # not `join`: after an interrupt it takes a running thread for an ended one (Python 3.11)
            self._changed.wait_for(lambda: not self._open)

    def _lane(self) -> None:
        while (stage := self._next()) is not None:
            output = io.StringIO() if self._several else None
            if output is not None:
                print(f"--- {stage.name} begins", flush=True)
            try:
                outcome = run(stage, output)
            except Exception as error:  # noqa: BLE001 - an exception of a thread would be lost
                outcome = Outcome(stage, code=1, note=repr(error))
            with self._changed:
                if output is not None:
                    print(output.getvalue(), end="", flush=True)
                self._running.remove(stage)
                self._keep(outcome)
                self._changed.notify_all()

    def _keep(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if outcome.code or outcome.unsteady:  # an unsteady stage runs again
            self._passed.forget(outcome.stage.command_line)
        elif outcome.passed or not outcome.skips:
            self._passed.keep(outcome.stage.command_line, outcome.passed, outcome.skips)

    def _next(self) -> Stage | None:
        with self._changed:
            while self._waiting:
                unfinished = {stage.name for stage in (*self._waiting, *self._running)}
                is_real_running = any(stage.real for stage in self._running)
                for stage in self._waiting:
                    if not unfinished & set(stage.after) and not (stage.real and is_real_running):
                        self._waiting.remove(stage)
                        self._running.append(stage)
                        return stage
                self._changed.wait()
            self._open -= 1
            self._changed.notify_all()
        return None
