"""Parse the plugins of a command line, and assign their indices and configurations."""

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

_INDEXED = re.compile(r"(?P<index>[0-9]{2})=(?P<rest>.+)", re.DOTALL)
_NAMED = re.compile(r"(?P<index>[0-9]{2})-(?P<name>.+)")


@dataclass(frozen=True, slots=True)
class TrialPlugin:
    """A plugin of the trial.

    Attributes:
        index: two digits.
        target: its class or program.
        config: its configuration.
        index_requested: whether the command line has the index.
    """

    index: str
    target: str
    config: Source | None = None
    index_requested: bool = False

    @property
    def is_program(self) -> bool:
        """Whether the plugin is a separate program, and not a Python class to run in this process."""
        return os.path.isfile(self.target) and not self.target.endswith(".py") and os.access(self.target, os.X_OK)

    @property
    def config_text(self) -> str:
        """The configuration text for Configure."""
        return self.config.text if self.config is not None else ""


def trial_plugins(targets: Sequence[str], configs: Sequence[str]) -> list[TrialPlugin]:
    """Parse the plugins of a command line, with indices and configurations.

    Raises ConfigError for invalid arguments.
    """
    pairs = [_split(text) for text in targets]
    indices = _fill_indices([index for index, _ in pairs])
    sources = _sources(configs, indices)
    return [
        TrialPlugin(index, target, sources.get(index), bool(requested))
        for index, (requested, target) in zip(indices, pairs, strict=True)
    ]


def _split(text: str) -> tuple[str, str]:
    """Return index and target of ``NN=TARGET``, or of a file called ``NN-name``. The index is "" otherwise.

    Raises ConfigError for an index that is not two digits.
    """
    match = _INDEXED.fullmatch(text)
    if match:
        return match["index"], match["rest"]
    invalid = re.fullmatch(r"([0-9]+)=(.+)", text, re.DOTALL)
    if invalid and not os.path.exists(text):
        raise ConfigError(text, "", f'invalid plugin index "{invalid[1]}", must be 2 digits: write NN={invalid[2]}')
    name_match = _NAMED.fullmatch(os.path.basename(text))
    return (name_match["index"] if name_match else ""), text


def _fill_indices(indices: list[str]) -> list[str]:
    """Assign an unused index to every plugin without one, in the order of the command line."""
    used_numbers = {int(index) for index in indices if index}
    step = max(1, min(10, 99 // len(indices)))
    filled_indices = []
    for place, requested_index in enumerate(indices, 1):
        index = requested_index
        if not requested_index:
            preferred = min(place * step, 99)
            number = next(
                (one for one in [*range(preferred, 100), *range(preferred, -1, -1)] if one not in used_numbers), None
            )
            if number is None:
                raise ConfigError(
                    f"{len(indices)} plugins", "", "there are only 100 indices. Let plugins share some: NN=PLUGIN"
                )
            used_numbers.add(number)
            index = f"{number:02}"
        filled_indices.append(index)
    return filled_indices


def _sources(configs: Sequence[str], indices: list[str]) -> dict[str, Source]:
    """Read the configuration files by index. Raises ConfigError unless exactly one plugin has the index."""
    source_by_index = {}
    for text in configs:
        match = _INDEXED.fullmatch(text)
        if match is None:
            raise ConfigError(f"--config {text}", "", 'expected an index and a file, for example "20=pin.yaml"')
        index = match["index"]
        if index not in indices:
            raise ConfigError(f"--config {index}=...", "", f"no plugin has this index. Indices: {', '.join(indices)}")
        if indices.count(index) > 1:
            raise ConfigError(
                f"--config {index}=...", "", "more than one plugin has this index. Give each its own: NN=PLUGIN"
            )
        source_by_index[index] = read_file(match["rest"])
    return source_by_index


def shared_indices(plugins: Sequence[TrialPlugin]) -> list[str]:
    """Describe which plugins share an index, a line for each index."""
    lines = []
    for index in dict.fromkeys(plugin.index for plugin in plugins):
        targets = [plugin.target for plugin in plugins if plugin.index == index]
        if len(targets) > 1:
            lines.append(f"{' and '.join(targets)} share index {index}: the order of these plugins is undefined")
    return lines


def name_in(target: str) -> str | None:
    """The name in a file name ``NN-name``. Returns None for other file names."""
    name_match = _NAMED.fullmatch(os.path.basename(target.partition(":")[0]).removesuffix(".py"))
    return name_match["name"] if name_match else None
