"""Shaper: a plan made real on the machine's network, step by step, and of each step the truth.

Rules: a discipline of another program is left alone, and told. Everything that was made is looked at each time, and
made again if it is missing; all of it once in `refresh_s`. Only objects with our names are removed. Programs
are run by their list of words, never by a shell, until a deadline; what they say is cut.
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

__all__ = ["Ran", "Run", "Shaper", "default_interface", "missing", "run"]

_JUMP: Final = ("POSTROUTING", "-j", CHAIN)
_FIRST_OF_PODS: Final = 0x10
#: As often as that a jump into the chain may be there twice.
_MOST_JUMPS: Final = 8
#: How long a program may run, in seconds.
TIMEOUT_S: Final = 10.0
_MOST_SHOWN: Final = 300


class Ran(NamedTuple):
    """The end of a program: its exit code, 0 is well, and what it wrote."""

    code: int
    out: str = ""
    error: str = ""


#: Runs a list of words with a text as input.
Run = Callable[[Sequence[str], str], Ran]


def missing(*programs: str) -> Unsupported | None:
    """The reason why not all of these can be run; None if they can."""
    absent = [program for program in programs if shutil.which(program) is None]
    return Unsupported(f"{' and '.join(absent)}: not installed") if absent else None


def run(argv: Sequence[str], text: str = "") -> Ran:
    """Run a program to its end. One that cannot be run, or not in time, has ended badly; nothing is raised."""
    try:
        done = subprocess.run(  # noqa: S603  a list of words; texts of pods in it are addresses that were parsed
            list(argv), input=text, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Ran(-1, error=f"{argv[0]} did not end within {TIMEOUT_S:g} s")
    except OSError as error:
        return Ran(-1, error=f"{argv[0]}: {error.strerror or error}")
    return Ran(done.returncode, done.stdout, plain(done.stderr.strip(), _MOST_SHOWN))


def default_interface(root: Root) -> str:
    """The interface of the machine's default route with the least metric; "" if it has none."""
    rows = (line.split() for line in (root.find("/proc/net/route") or "").splitlines()[1:])
    routes = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"]
    return min(routes)[1] if routes else ""


class Shaper:
    """Makes plans real.

    Args:
        run: runs a program.
        missing: the reason why programs cannot be run.
        now: monotonic seconds.
        refresh_s: after how long all is made again, whether it seems to be there or not.
    """

    def __init__(
        self,
        run: Run = run,
        missing: Callable[..., Any] = missing,
        now: Callable[[], float] = time.monotonic,
        refresh_s: float = 60.0,
    ) -> None:
        self._run, self._missing, self._now, self._refresh_s = run, missing, now, refresh_s
        self._made: Plan | None = None
        self._at = 0.0

    @property
    def has_sets(self) -> bool:
        """Whether sets of addresses can be had here."""
        return self._missing("ipset") is None

    def apply(self, plan: Plan) -> list[Result]:
        """Make a plan real; one result for each part."""
        absent = self._missing("tc", "iptables", "iptables-restore")
        if absent is not None:
            return [Result(plan.interface, "tc", "classes", Outcome.UNSUPPORTED, absent.reason)]
        first = self._discipline(plan)
        if not first.in_force:
            self._made = None
            return [first]
        whole = self._made != plan or self._now() - self._at >= self._refresh_s
        results = [first, *self._classes(plan, whole)]
        if whole or first.outcome is Outcome.APPLIED:
            results += [self._by_cgroup(plan), *self._sets(plan), self._chain(plan)]
        results.append(self._jump(plan))
        results += self._stale(plan)
        if whole and all(each.in_force or each.outcome is Outcome.UNSUPPORTED for each in results):
            self._made, self._at = plan, self._now()
        return results

    def clear(self, interface: str) -> list[Result]:
        """Take away what `apply` has made, in this life or an earlier one."""
        self._made = None
        if self._missing("tc", "iptables") is not None:
            return []
        results = []
        if interface and self._root_of(interface) == ("htb", "1:"):
            results.append(self._tc(interface, "tc.qdisc", "none", ["qdisc", "del", "dev", interface, "root"]))
        if self._iptables("-S", CHAIN).code == 0:
            for _ in range(_MOST_JUMPS):
                if self._iptables("-D", *_JUMP).code != 0:
                    break
            done = [self._iptables("-F", CHAIN), self._iptables("-X", CHAIN)]
            results.append(_result(interface, "tc.chain", "none", next((each for each in done if each.code), done[0])))
        if self.has_sets:
            found = [name for name in SETS.values() if self._run(["ipset", "list", "-n", name], "").code == 0]
            results += [_result(interface, "tc.set", name, self._run(["ipset", "destroy", name], "")) for name in found]
        return results

    def _discipline(self, plan: Plan) -> Result:
        found = self._root_of(plan.interface)
        if found is None:
            reason = f"there is no interface {plan.interface!r}, or tc may not look at it"
            return Result(plan.interface, "tc.qdisc", "htb 1:", Outcome.REFUSED, reason)
        if found == ("htb", "1:"):
            return Result(plan.interface, "tc.qdisc", "htb 1:", Outcome.UNCHANGED)
        if found[1] not in ("0:", ""):
            reason = f"it has a queueing discipline of another program: {found[0]} {found[1]}"
            return Result(plan.interface, "tc.qdisc", "htb 1:", Outcome.REFUSED, reason)
        return self._tc(plan.interface, "tc.qdisc", "htb 1:", plan.qdisc())

    def _classes(self, plan: Plan, whole: bool) -> list[Result]:
        present = self._minors(plan.interface)
        return [
            self._tc(plan.interface, "tc.class", f"1:{minor:x}", words)
            for minor, words in plan.class_lines()
            if whole or minor not in present
        ]

    def _by_cgroup(self, plan: Plan) -> Result:
        return self._tc(plan.interface, "tc.filter", "cgroup", plan.by_cgroup())

    def _sets(self, plan: Plan) -> list[Result]:
        if not plan.with_sets:
            return []
        return [_result(plan.interface, "tc.set", "addresses", self._run(["ipset", "restore"], plan.sets()))]

    def _chain(self, plan: Plan) -> Result:
        done = self._run(["iptables-restore", "--noflush", "--wait", "5"], plan.chain())
        return _result(plan.interface, "tc.chain", CHAIN, done)

    def _jump(self, plan: Plan) -> Result:
        if self._iptables("-C", *_JUMP).code == 0:
            return Result(plan.interface, "tc.jump", CHAIN, Outcome.UNCHANGED)
        return _result(plan.interface, "tc.jump", CHAIN, self._iptables("-A", *_JUMP))

    def _stale(self, plan: Plan) -> list[Result]:
        """Remove classes of pods that are gone."""
        wanted = {minor for minor, _ in plan.class_lines()}
        gone = sorted(each for each in self._minors(plan.interface) - wanted if each >= _FIRST_OF_PODS)
        where = ["dev", plan.interface, "classid"]
        return [
            self._tc(plan.interface, "tc.class", "none", ["class", "del", *where, f"1:{minor:x}"]) for minor in gone
        ]

    def _root_of(self, interface: str) -> tuple[str, str] | None:
        """Kind and handle of the discipline of an interface; None if it cannot be asked."""
        done = self._run(["tc", "-j", "qdisc", "show", "dev", interface], "")
        try:
            rows = parse_json(done.out or "[]") if done.code == 0 else None
        except ValueError:
            return None
        if not isinstance(rows, list):
            return None
        found = [row for row in rows if isinstance(row, dict) and row.get("root")]
        return (str(found[0].get("kind", "")), str(found[0].get("handle", ""))) if found else ("", "")

    def _minors(self, interface: str) -> set[int]:
        return minors(self._run(["tc", "class", "show", "dev", interface], "").out)

    def _tc(self, interface: str, name: str, wanted: str, words: Sequence[str]) -> Result:
        return _result(interface, name, wanted, self._run(["tc", *words], ""))

    def _iptables(self, *words: str) -> Ran:
        return self._run(["iptables", "--wait", "5", "-t", "mangle", *words], "")


def _result(target: str, name: str, wanted: str, done: Ran) -> Result:
    """The result of one call. A kernel without a classifier or a match says so, and is unsupported, not refused."""
    if done.code == 0:
        return Result(target, name, wanted, Outcome.APPLIED)
    lacking = ("not found", "No such file or directory", "Operation not permitted", "unknown option", "missing kernel")
    unsupported = any(words in done.error for words in lacking)
    return Result(target, name, wanted, Outcome.UNSUPPORTED if unsupported else Outcome.REFUSED, done.error)
