"""Look for inputs that a parser answers otherwise than it may: with an undocumented exception, or not at all.

A `Target` is a parser with a strategy for its inputs, which are bytes, so that each can be saved and tried again. The
check returns or raises one of the target's documented exceptions for every input there is; all else is a finding.
Hypothesis draws the inputs and makes a finding small. Drawing takes longer than most parsers do, so a long search also
tries variants of each input, made by a few edits (`VARIANTS`), and makes a finding among those small itself. Next:
`tests.fuzz.targets`, the table of targets; `python -m tests.fuzz` runs them for as long as wanted,
`tests/fuzz/test_fuzz.py` for a moment.
"""

from __future__ import annotations

import hashlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from nri.errors import NriError

HERE = Path(__file__).parent
#: Inputs that were findings once, one folder for each target.
CORPUS = HERE / "corpus"
#: How many inputs one round of Hypothesis draws, when there is no end but the clock.
ROUND = 1000
#: How many variants of an input a long search tries as well.
VARIANTS = 20


#: How long one input may take, in seconds, before it counts as a hang; most take less than a millisecond.
PATIENCE_S = 30.0


class Hang(Exception):
    """An input was not answered within `PATIENCE_S`."""


@contextmanager
def _alarm() -> Iterator[None]:
    """Raise Hang in the body when it takes too long; what else wants the alarm (pytest's timeout) gets it back."""

    def ring(*_: object) -> None:
        raise Hang(f"no end within {PATIENCE_S:g} s")

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        left_s = max(0.001, left_s - (time.monotonic() - began)) if left_s else 0.0
        signal.setitimer(signal.ITIMER_REAL, left_s, interval_s)


@dataclass(frozen=True, slots=True)
class Target:
    """One parser.

    Attributes:
        name: as on the command line.
        inputs: the strategy for its inputs.
        check: gives an input to the parser, and asserts what must hold afterwards.
        documented: the exceptions that `check` may raise.
        share: how many of a test's usual examples it draws, as a factor; small where one of them takes long.
    """

    name: str
    inputs: st.SearchStrategy[bytes]
    check: Callable[[bytes], object]
    documented: tuple[type[BaseException], ...] = ()
    share: float = 1.0

    def run(self, data: bytes) -> None:
        """Try one input; raises for a finding."""
        try:
            with _alarm():
                self.check(data)
        except self.documented as error:
            if isinstance(error, NriError):
                assert str(error).isprintable(), "its text is not fit for a terminal"


@dataclass(slots=True)
class Search:
    """The state of one search: what was tried, and the smallest input that was a finding."""

    target: Target
    tried: int = 0
    found: bytes | None = None
    error: Exception | None = None
    until: float = field(default=float("inf"))
    variants: int = 0

    def run(self, seed: int, examples: int) -> bool:
        """Draw so many inputs, or fewer if the time is up; True if one is a finding, which is small then."""
        source = random.Random(seed)

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=examples,
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(self.target.inputs)
        def attempt(data: bytes) -> None:
            if isinstance(self.error, Hang) or (time.monotonic() > self.until and self.found is None):
                return
            try:
                self.tried += 1
                self.target.run(data)
            except Hang as error:  # to make it small would take many times as long
                self.found, self.error = data, error
            except Exception as error:
                self.found, self.error = data, error
                raise
            if self.variants and self.found is None:
                self._try_variants(data, source)

        try:
            attempt()
        except Exception as error:  # the test's own, or what Hypothesis makes of one that comes and goes
            if self.found is None:
                raise
            self.error = self.error or error
        return self.found is not None

    def _try_variants(self, data: bytes, source: random.Random) -> None:
        pool.append(data)
        if len(pool) > _POOL:
            pool.pop(source.randrange(_POOL))
        for _ in range(self.variants):
            variant = _edited(data, source)
            self.tried += 1
            error = self._error_of(variant)
            if error is not None:
                self.found, self.error = self._smaller(variant, error)
                return

    def _error_of(self, data: bytes) -> Exception | None:
        try:
            self.target.run(data)
        except Exception as error:
            return error
        return None

    def _smaller(self, data: bytes, error: Exception) -> tuple[bytes, Exception]:
        """Cut out of a finding what it can do without, in ever smaller pieces."""
        size = 0 if isinstance(error, Hang) else len(data) // 2
        while size:
            start = 0
            while start < len(data):
                remainder = data[:start] + data[start + size :]
                matches = self._error_of(remainder)
                if type(matches) is type(error):
                    data, error = remainder, matches
                else:
                    start += size
            size //= 2
        return data, error


#: Inputs of the search that was last, whose pieces variants are made of as well.
pool: list[bytes] = []
_POOL = 300


def _edited(data: bytes, source: random.Random) -> bytes:
    """An input with one to four edits."""
    for _ in range(source.randint(1, 4)):
        start = source.randint(0, len(data))
        end = min(len(data), start + source.choice((0, 1, 1, 2, 4, 8, 40)))
        what = source.randrange(6)
        if what == 0:
            data = data[:start] + data[end:]
        elif what == 1:
            data = data[:start] + data[start:end] * source.randint(2, 4) + data[end:]
        elif what == 2 and start < len(data):
            data = data[:start] + bytes((data[start] ^ 1 << source.randrange(8),)) + data[start + 1 :]
        elif what == 3:
            data = data[:start] + source.choice((b"\0", b"\xff", b"\x7f\xff", b"-", b"9", b"\n", b" ")) + data[end:]
        else:
            other = source.choice(pool)
            begin = source.randint(0, len(other))
            data = data[:start] + other[begin : begin + source.randint(1, 30)] + data[end:]
    return data[:20_000]


def save(target: Target, data: bytes, folder: Path) -> Path:
    """Keep an input as a file, and return where."""
    place = folder / target.name
    place.mkdir(parents=True, exist_ok=True)
    path = place / hashlib.sha256(data).hexdigest()[:12]
    path.write_bytes(data)
    return path


def kept(target: Target) -> list[Path]:
    """The inputs that were findings once."""
    return sorted(path for path in (CORPUS / target.name).glob("*") if path.is_file())
