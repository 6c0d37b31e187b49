"""Read the fenced code blocks of a Markdown page that say how they are to be tried.

The first word of a fence is its language, the rest says what the tests do with it (tests/README.md has the table):

    python                  run by itself, not as `__main__`
    python continue         the same, after the blocks before it
    python file=NAME        saved as NAME beside the page's other files, and run; later blocks can import it
    LANGUAGE file=NAME      saved as NAME beside the page's other files: a manifest, a configuration
    python test             run by pytest, beside the page's files
    python no-run: REASON   only shown
    console run             each line that starts with "$ " is run, and its output compared; "..." stands for any lines

Next: tests/docs/test_examples.py, which runs them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,})(?P<info>[^`]*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: the 1-based line of its fence, its language, what the tests do with it, and its text."""

    line: int
    language: str
    action: str
    text: str


def read_blocks(page: Path) -> list[Block]:
    """All fenced blocks of `page` in order."""
    blocks: list[Block] = []
    directives: list[str] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    position = 0
    while position < len(lines):
        opening = FENCE.match(lines[position])
        position += 1
        if opening is None:
            continue
        if opening["info"].lstrip().startswith("{"):
            # A directive's content may hold blocks of its own.
            directives.append(opening["mark"])
            continue
        if directives and opening["mark"] == directives[-1] and not opening["info"].strip():
            directives.pop()
            continue
        start, indent = position, len(opening["indent"])
        while position < len(lines) and lines[position].strip() != opening["mark"]:
            position += 1
        text = "".join(f"{line[indent:]}\n" for line in lines[start:position])
        language, _, action = opening["info"].strip().partition(" ")
        blocks.append(Block(start, language, action.strip(), text))
        position += 1
    return blocks


def commands(text: str) -> list[tuple[str, str]]:
    """Split a console block into (command, expected output); a command line that ends in a backslash goes on."""
    blocks: list[tuple[str, str]] = []
    open_command = False
    for line in text.splitlines():
        if line.startswith("$ "):
            blocks.append((line[2:], ""))
        elif blocks and open_command:
            blocks[-1] = (f"{blocks[-1][0]}\n{line}", "")
        elif blocks:
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]}{line}\n")
        open_command = line.endswith("\\") and (line.startswith("$ ") or open_command)
    return blocks


def output_matches(expected: str, actual: str) -> bool:
    """Whether `actual` is `expected`; a line "..." stands for any number of lines, "..." in a line for any text.

    Columns may stand further apart or closer: how wide one is depends on the times and sizes in it.
    """
    expected, actual = (re.sub(r"(?<=\S) {2,}", "  ", text) for text in (expected, actual))
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, actual if actual.endswith("\n") or not actual else f"{actual}\n") is not None
