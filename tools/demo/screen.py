"""Output of the demo: steps with their time, a table, a file; in colour on a terminal.

`NO_COLOR` and a pipe mean plain text; an ASCII locale means ASCII signs. The outcome of a step is one line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

Row = Sequence[str]


class Screen:
    """Prints to `out`; knows whether that can show colours, overwriting and line-drawing signs."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._colour = self._terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        unicode = (out.encoding or "").lower().replace("-", "").startswith("utf")
        self._done, self._failed, self._doing = ("✓", "✗", "…") if unicode else ("ok", "--", "..")
        self._line, self._cross, self._bar = ("─", "┼", "│") if unicode else ("-", "+", "|")
        self._pending = ""

    def say(self, text: str = "") -> None:
        """Print a line as it is."""
        self._print(f"{text}\n")

    def heading(self, text: str) -> None:
        """Print a line in bold between empty ones."""
        self.say(f"\n{self._style('1', text)}\n")

    def note(self, text: str) -> None:
        """Print a line of detail below the step that runs."""
        self._erase()
        self.say(f"    {self._style('2', text)}")

    @contextmanager
    def step(self, text: str) -> Iterator[list[str]]:
        """Show a step while it runs and its time when it is done.

        The list that the body gets may be filled with words that replace the step's text.
        """
        begin = time.monotonic()
        outcome: list[str] = []
        self._show(f"  {self._style('33', self._doing)} {text}")
        try:
            yield outcome
        except BaseException:
            self._erase()
            self.say(f"  {self._style('31', self._failed)} {text}")
            raise
        took = f"{time.monotonic() - begin:.1f} s"
        self._erase()
        self.say(f"  {self._style('32', self._done)} {(outcome or [text])[-1]}  {self._style('2', took)}")

    def listing(self, lines: Sequence[str]) -> None:
        """Show a file's text."""
        for line in lines:
            self.say(f"    {self._style('2', self._bar)} {self._style('36', line)}")

    def table(self, head: Row, rows: Sequence[Row]) -> None:
        """Show rows under a head; rows whose last two cells differ stand out."""
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        self.say(self._row(head, widths, style="1"))
        self.say("  " + f"{self._line}{self._cross}{self._line}".join(self._line * width for width in widths))
        for row in rows:
            self.say(self._row(row, widths, style="1;32" if row[-1] != row[-2] else ""))

    def _row(self, row: Row, widths: Sequence[int], style: str) -> str:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = self._style(style, cells[-1].rstrip())
        return "  " + f" {self._bar} ".join(cells)

    def _show(self, text: str) -> None:
        """Print a line that `_erase` can take back; nothing where lines cannot be taken back."""
        if self._terminal:
            self._print(text)
            self._pending = text

    def _erase(self) -> None:
        if self._pending:
            self._print("\r\033[K")
            self._pending = ""

    def _print(self, text: str) -> None:
        """Print; nothing any more once the reader has had enough, as in `make demo | head`: all is still cleaned up."""
        try:
            print(text, end="", file=self._out, flush=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())  # for what Python still wants to print

    def _style(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour and code else text
