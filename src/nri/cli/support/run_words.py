"""The words of `nri run` taken apart: what is for the command, and what each plugin has behind it.

Rules: what stands behind a plugin and is of one plugin only (its index, name, configuration, events, and flags of its
own) is that plugin's; all else holds for the process, wherever it stands. Whether a value follows a flag that `nri run`
does not know is asked of the plugin's class, which is loaded for that and for nothing else. Next:
`nri.stub.program.options` parses the words of a plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["OF_ONE", "Wanted", "split"]

#: The flags of one plugin, in the words of `nri.stub.program.options`.
OF_ONE = ("--idx", "-idx", "-i", "--name", "-name", "--config", "-config", "--events", "-events")


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
            place = wanted[-1].words if wanted and flag in OF_ONE else ours
            place += [word, *_value(rest, options[flag] and not equals)]
        elif not wanted or (_is_cluster(flag, options) and flag.lstrip("-") not in own_of(wanted[-1].target)):
            ours.append(word)
        else:
            row = own_of(wanted[-1].target).get(flag.lstrip("-"))
            wanted[-1].words.extend([word, *_value(rest, row is not None and bool(row[1]) and not equals)])
    return ours, wanted


def _is_cluster(flag: str, options: Mapping[str, bool]) -> bool:
    """Whether this may be several short flags in one word, such as -vv."""
    return not flag.startswith("--") and flag[:2] in options


def _value(rest: list[str], follows: bool) -> list[str]:
    return [rest.pop(0)] if follows and rest else []
