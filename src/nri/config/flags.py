"""Flags of a command line as configuration: each flag is a layer with one key, parsed as the type of the key.

A string is not parsed. The items of a list are separated by commas, or the flag is repeated. All other types are parsed
as YAML, so that `10`, `true` and `5s` have their usual meaning.
"""

from __future__ import annotations

import re
import typing
from typing import Any

from nri.config import syntax, typed
from nri.config.complaint import combined_error
from nri.config.key_path import path_text
from nri.config.layers import Layer
from nri.config.source import Source
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.complaint import Problem


def flag_layer(cls: type, flag: str, field: str, arguments: list[str] | bool) -> Layer:
    """The layer of a flag.

    Args:
        cls: the class of the configuration.
        flag: the flag's name, without dashes.
        field: the key that the flag sets.
        arguments: the flag's values in order, or whether a switch is on.
    """
    annotation = typed.fields_of(cls).get(field, str)
    return Layer(
        {field: arguments if isinstance(arguments, bool) else _value(annotation, flag, arguments)},
        lambda _: f"--{flag}",
    )


def check(cls: type, layers: Sequence[Layer]) -> None:
    """Check flags without other sources. Raises ConfigError for the first problem, with all others in `others`."""
    errors = []
    for layer in layers:
        problems: list[Problem] = []
        typed.check(cls, layer.tree, (), problems)
        errors += [
            ConfigError(layer.place(problem.path), path_text(problem.path), problem.reason, problem.suggestion)
            for problem in problems
        ]
    if errors:
        raise combined_error(errors)


def _value(annotation: Any, flag: str, arguments: list[str]) -> Any:
    kinds = {typing.get_origin(kind) or kind for kind in (annotation, *typing.get_args(annotation))}
    if kinds & {list, tuple, set, frozenset}:
        items = typing.get_args(annotation)
        inner = next((kind for kind in items if kind is not Ellipsis), str)
        return [
            _scalar(inner, flag, text.strip()) for argument in arguments for text in argument.split(",") if text.strip()
        ]
    return _scalar(annotation, flag, arguments[-1])


def _scalar(annotation: Any, flag: str, text: str) -> Any:
    if annotation is str or str in typing.get_args(annotation):
        return text
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)  # also 08, which is not a number in YAML
    try:
        return syntax.parse_text(Source(f"--{flag}", text, "yaml"))
    except ConfigError:
        return text  # the check of its type reports the expected type
