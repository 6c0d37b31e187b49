"""The plugins of a trial, as the command line names them: which index each one gets, and which configuration.

Rules: an index that is given stays; one that is not given is never that of another plugin. Next:
`nri.testing.trial.trial`, which runs them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri.config import read_file
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config import Source

__all__ = ["TrialPlugin", "name_in", "shared_indices", "trial_plugins"]

_INDEXED = re.compile(r"(?P<index>[0-9]{2})=(?P<rest>.+)", re.DOTALL)
_NAMED = re.compile(r"(?P<index>[0-9]{2})-(?P<name>.+)")


@dataclass(frozen=True, slots=True)
class TrialPlugin:
    """One plugin of the trial: its index, what to run, and its configuration."""

    index: str
    target: str
    config: Source | None = None

    @property
    def is_program(self) -> bool:
        """Whether the plugin is a program of its own, and not Python to be run here."""
        return os.path.isfile(self.target) and not self.target.endswith(".py") and os.access(self.target, os.X_OK)

    @property
    def config_text(self) -> str:
        """The text that a runtime would hand over with Configure."""
        return self.config.text if self.config is not None else ""


def trial_plugins(targets: Sequence[str], configs: Sequence[str]) -> list[TrialPlugin]:
    """Read the plugins of a command line, with their indices and configurations. ConfigError for what does not fit."""
    given = [_split(text) for text in targets]
    indices = _filled([index for index, _ in given])
    sources = _sources(configs, indices)
    return [TrialPlugin(index, target, sources.get(index)) for index, (_, target) in zip(indices, given, strict=True)]


def _split(text: str) -> tuple[str, str]:
    """Return index and target of ``NN=TARGET``, or of a file called ``NN-name``; "" where neither gives an index.

    ConfigError for an index that is not two digits.
    """
    match = _INDEXED.fullmatch(text)
    if match:
        return match["index"], match["rest"]
    wrong = re.fullmatch(r"([0-9]+)=(.+)", text, re.DOTALL)
    if wrong and not os.path.exists(text):
        raise ConfigError(text, "", f'invalid plugin index "{wrong[1]}", must be 2 digits: write NN={wrong[2]}')
    named = _NAMED.fullmatch(os.path.basename(text))
    return (named["index"] if named else ""), text


def _filled(given: list[str]) -> list[str]:
    """Give an index to every plugin without one: by its place on the command line, and never that of another."""
    taken = {int(index) for index in given if index}
    step = max(1, min(10, 99 // len(given)))
    found = []
    for place, own in enumerate(given, 1):
        index = own
        if not own:
            wanted = min(place * step, 99)
            number = next((one for one in [*range(wanted, 100), *range(wanted, -1, -1)] if one not in taken), None)
            if number is None:
                raise ConfigError(
                    f"{len(given)} plugins", "", "there are only 100 indices. Give some of them one: NN=PLUGIN"
                )
            taken.add(number)
            index = f"{number:02}"
        found.append(index)
    return found


def _sources(configs: Sequence[str], indices: list[str]) -> dict[str, Source]:
    """Read the configuration files by index. ConfigError for one that no plugin has, or more than one."""
    found = {}
    for text in configs:
        match = _INDEXED.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"--config {text}", "", 'expected the index of a plugin and a file, such as "20=pin.yaml"'
            )
        index = match["index"]
        if index not in indices:
            raise ConfigError(f"--config {index}=...", "", f"no plugin has this index. There are: {', '.join(indices)}")
        if indices.count(index) > 1:
            raise ConfigError(
                f"--config {index}=...", "", "more than one plugin has this index. Give each its own: NN=PLUGIN"
            )
        found[index] = read_file(match["rest"])
    return found


def shared_indices(plugins: Sequence[TrialPlugin]) -> list[str]:
    """Describe, as lines for people, which plugins have an index in common."""
    lines = []
    for index in dict.fromkeys(plugin.index for plugin in plugins):
        same = [plugin.target for plugin in plugins if plugin.index == index]
        if len(same) > 1:
            lines.append(
                f"{' and '.join(same)} have index {index} in common: no runtime says which of them comes first"
            )
    return lines


def name_in(target: str) -> str | None:
    """Return the name in a file called ``NN-name``; None for others."""
    named = _NAMED.fullmatch(os.path.basename(target.partition(":")[0]).removesuffix(".py"))
    return named["name"] if named else None
