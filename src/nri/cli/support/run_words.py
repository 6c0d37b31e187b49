"""The words of `nri run` taken apart: what is for the command, and what each plugin has as flags of its own.

Rules: a flag of the plugin's own stands after the plugin. Whether a value follows is asked of its class, which is
loaded for that only if there is a flag that `nri run` does not know. Next: `nri.stub.program.options` parses the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Wanted", "split"]


class Wanted(NamedTuple):
    """A plugin to run, and the words behind it that are its own."""

    target: str
    words: list[str]


def split(
    arguments: Sequence[str], options: Mapping[str, bool], own_of: Callable[[str], Mapping[str, tuple[str, str, str]]]
) -> tuple[list[str], list[Wanted]]:
    """Split words into those for the command, plugins among them, and the plugins with the words that are theirs.

    Args:
        arguments: the words behind `nri run`.
        options: the flags of the command, with their dashes -> whether a value follows.
        own_of: tells the flags of a plugin's own, as its class has them.
    """
    ours: list[str] = []
    wanted: list[Wanted] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if word == "--" and wanted:
            wanted[-1].words.extend(rest)
            break
        if not word.startswith("-") or word == "-":
            ours.append(word)
            wanted.append(Wanted(word, []))
        elif flag in options:
            ours += [word, *_value(rest, options[flag] and not equals)]
        elif not wanted or (flag[:2] in options and not flag.startswith("--") and not _is_own(flag, own_of, wanted)):
            ours.append(word)  # several short flags in one word; or wrong, as click will say
        else:
            row = own_of(wanted[-1].target).get(flag.lstrip("-"))
            wanted[-1].words.extend([word, *_value(rest, row is not None and bool(row[1]) and not equals)])
    return ours, wanted


def _is_own(flag: str, own_of: Callable[[str], Mapping[str, tuple[str, str, str]]], wanted: Sequence[Wanted]) -> bool:
    return flag.lstrip("-") in own_of(wanted[-1].target)


def _value(rest: list[str], follows: bool) -> list[str]:
    return [rest.pop(0)] if follows and rest else []
