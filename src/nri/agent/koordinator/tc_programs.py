"""Apply a traffic control plan with tc, iptables and ipset, and report the outcome of each step.

A discipline of another program is kept and reported. Existing objects are compared in each round, and missing objects
are created again. All objects are created again once per `refresh_s`. Only objects with this agent's names are removed.
Programs run without a shell and with a deadline.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.tc import CHAIN, SETS, Plan, minors
from nri.config.syntax import parse_json
from nri.host import Outcome, Result, Root, Unsupported
from nri.text import plain

_JUMP: Final = ("POSTROUTING", "-j", CHAIN)
_FIRST_OF_PODS: Final = 0x10
#: The maximum number of duplicate jumps into the chain that are removed.
_MAX_JUMPS: Final = 8
#: The time in seconds after which a program is killed.
TIMEOUT_S: Final = 10.0
#: The maximum number of characters of a program's error.
_MAX_SHOWN: Final = 300


class ProgramResult(NamedTuple):
    """The result of a program: exit code, standard output and standard error."""

    code: int
    out: str = ""
    error: str = ""


#: Runs a command with a string as standard input.
Run = Callable[[Sequence[str], str], ProgramResult]


def missing(*programs: str) -> Unsupported | None:
    """Return why programs cannot be run, or None if all are installed."""
    absent = [program for program in programs if shutil.which(program) is None]
    return Unsupported(f"{' and '.join(absent)}: not installed") if absent else None


def run(argv: Sequence[str], text: str = "") -> ProgramResult:
    """Run a program and return its result. If it cannot run or times out, the exit code is -1; no error is raised."""
    try:
        process = subprocess.run(  # noqa: S603  no shell; the only strings of pods are parsed addresses
            list(argv), input=text, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return ProgramResult(-1, error=f"{argv[0]} did not end within {TIMEOUT_S:g} s")
    except OSError as error:
        return ProgramResult(-1, error=f"{argv[0]}: {error.strerror or error}")
    return ProgramResult(process.returncode, process.stdout, plain(process.stderr.strip(), _MAX_SHOWN))


def default_interface(root: Root) -> str:
    """Return the interface of the default route with the lowest metric, or "" without a default route."""
    rows = (line.split() for line in (root.find("/proc/net/route") or "").splitlines()[1:])
    routes = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"]
    return min(routes)[1] if routes else ""


class Shaper:
    """Applies plans of traffic control.

    Args:
        run: the function that runs a program.
        missing: returns the reason why programs cannot be run.
        now: returns monotonic seconds.
        refresh_s: seconds after which all objects are created again.
    """

    def __init__(
        self,
        run: Run = run,
        missing: Callable[..., Any] = missing,
        now: Callable[[], float] = time.monotonic,
        refresh_s: float = 60.0,
    ) -> None:
        self._run, self._missing, self._clock, self._refresh_s = run, missing, now, refresh_s
        self._applied_plan: Plan | None = None
        self._at = 0.0

    @property
    def has_sets(self) -> bool:
        """Whether this machine supports sets of addresses."""
        return self._missing("ipset") is None

    def apply(self, plan: Plan) -> list[Result]:
        """Apply a plan, and return a result for each step."""
        absent = self._missing("tc", "iptables", "iptables-restore")
        if absent is not None:
            return [Result(plan.interface, "tc", "classes", Outcome.UNSUPPORTED, absent.reason)]
        first = self._discipline(plan)
        if not first.in_force:
            self._applied_plan = None
            return [first]
        is_full = self._applied_plan != plan or self._clock() - self._at >= self._refresh_s
        results = [first, *self._classes(plan, is_full)]
        if is_full or first.outcome is Outcome.APPLIED:
            results += [self._by_cgroup(plan), *self._sets(plan), self._chain(plan)]
        results.append(self._ensure_jump(plan))
        results += self._remove_stale_classes(plan)
        if is_full and all(result.in_force or result.outcome is Outcome.UNSUPPORTED for result in results):
            self._applied_plan, self._at = plan, self._clock()
        return results

    def clear(self, interface: str) -> list[Result]:
        """Remove the objects that `apply` created, including objects of an earlier run of the agent."""
        self._applied_plan = None
        if self._missing("tc", "iptables") is not None:
            return []
        results = []
        if interface and self._root_of(interface) == ("htb", "1:"):
            results.append(self._tc(interface, "tc.qdisc", "none", ["qdisc", "del", "dev", interface, "root"]))
        if self._iptables("-S", CHAIN).code == 0:
            for _ in range(_MAX_JUMPS):
                if self._iptables("-D", *_JUMP).code != 0:
                    break
            outcomes = [self._iptables("-F", CHAIN), self._iptables("-X", CHAIN)]
            results.append(
                _result(
                    interface, "tc.chain", "none", next((outcome for outcome in outcomes if outcome.code), outcomes[0])
                )
            )
        if self.has_sets:
            names = [name for name in SETS.values() if self._run(["ipset", "list", "-n", name], "").code == 0]
            results += [_result(interface, "tc.set", name, self._run(["ipset", "destroy", name], "")) for name in names]
        return results

    def _discipline(self, plan: Plan) -> Result:
        root = self._root_of(plan.interface)
        if root is None:
            reason = f"interface {plan.interface!r} not found, or tc cannot read it"
            return Result(plan.interface, "tc.qdisc", "htb 1:", Outcome.REFUSED, reason)
        if root == ("htb", "1:"):
            return Result(plan.interface, "tc.qdisc", "htb 1:", Outcome.UNCHANGED)
        if root[1] not in ("0:", ""):
            reason = f"the interface has a queueing discipline of another program: {root[0]} {root[1]}"
            return Result(plan.interface, "tc.qdisc", "htb 1:", Outcome.REFUSED, reason)
        return self._tc(plan.interface, "tc.qdisc", "htb 1:", plan.qdisc())

    def _classes(self, plan: Plan, is_full: bool) -> list[Result]:
        present = self._minors(plan.interface)
        return [
            self._tc(plan.interface, "tc.class", f"1:{minor:x}", words)
            for minor, words in plan.class_lines()
            if is_full or minor not in present
        ]

    def _by_cgroup(self, plan: Plan) -> Result:
        return self._tc(plan.interface, "tc.filter", "cgroup", plan.by_cgroup())

    def _sets(self, plan: Plan) -> list[Result]:
        if not plan.with_sets:
            return []
        return [_result(plan.interface, "tc.set", "addresses", self._run(["ipset", "restore"], plan.sets()))]

    def _chain(self, plan: Plan) -> Result:
        outcome = self._run(["iptables-restore", "--noflush", "--wait", "5"], plan.chain())
        return _result(plan.interface, "tc.chain", CHAIN, outcome)

    def _ensure_jump(self, plan: Plan) -> Result:
        if self._iptables("-C", *_JUMP).code == 0:
            return Result(plan.interface, "tc.jump", CHAIN, Outcome.UNCHANGED)
        return _result(plan.interface, "tc.jump", CHAIN, self._iptables("-A", *_JUMP))

    def _remove_stale_classes(self, plan: Plan) -> list[Result]:
        """Remove the classes of ended pods."""
        planned = {minor for minor, _ in plan.class_lines()}
        stale = sorted(minor for minor in self._minors(plan.interface) - planned if minor >= _FIRST_OF_PODS)
        where = ["dev", plan.interface, "classid"]
        return [
            self._tc(plan.interface, "tc.class", "none", ["class", "del", *where, f"1:{minor:x}"]) for minor in stale
        ]

    def _root_of(self, interface: str) -> tuple[str, str] | None:
        """Return kind and handle of an interface's root discipline, or None if they are unknown."""
        outcome = self._run(["tc", "-j", "qdisc", "show", "dev", interface], "")
        try:
            rows = parse_json(outcome.out or "[]") if outcome.code == 0 else None
        except ValueError:
            return None
        if not isinstance(rows, list):
            return None
        roots = [row for row in rows if isinstance(row, dict) and row.get("root")]
        return (str(roots[0].get("kind", "")), str(roots[0].get("handle", ""))) if roots else ("", "")

    def _minors(self, interface: str) -> set[int]:
        return minors(self._run(["tc", "class", "show", "dev", interface], "").out)

    def _tc(self, interface: str, name: str, value: str, words: Sequence[str]) -> Result:
        return _result(interface, name, value, self._run(["tc", *words], ""))

    def _iptables(self, *words: str) -> ProgramResult:
        return self._run(["iptables", "--wait", "5", "-t", "mangle", *words], "")


def _result(target: str, name: str, value: str, outcome: ProgramResult) -> Result:
    """Return the result of a call. The outcome is "unsupported" if the kernel lacks a classifier or a match."""
    if outcome.code == 0:
        return Result(target, name, value, Outcome.APPLIED)
    unsupported_texts = (
        "not found",
        "No such file or directory",
        "Operation not permitted",
        "unknown option",
        "missing kernel",
    )
    unsupported = any(words in outcome.error for words in unsupported_texts)
    return Result(target, name, value, Outcome.UNSUPPORTED if unsupported else Outcome.REFUSED, outcome.error)
