"""Every class of error of the package, and one of each with a given text wherever it takes one."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import grpc

import nri
from nri.agent.ownership import Level, OwnedKnob, Owner
from nri.agent.profile import ForeignAgent
from nri.errors import ConfigError, Conflict, NriError, ProtocolError

_ROOT = Path(nri.__file__).parent


@cache
def kinds() -> tuple[type[NriError], ...]:
    """All that derive from `NriError`: the source is searched, and each module that has one is imported."""
    classes: dict[tuple[str, str], set[str]] = {}
    for path in _ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "Error" in text or "Unreadable" in text else ():
            if isinstance(node, ast.ClassDef):
                module = ".".join(path.relative_to(_ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
                classes[module, node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    names = {"NriError"}
    while more := {name for (_, name), bases in classes.items() if bases & names} - names:
        names |= more
    results = (getattr(importlib.import_module(module), name) for module, name in classes if name in names)
    return tuple(entry for entry in results if issubclass(entry, NriError) and entry is not ProtocolError)


def every(text: str) -> Iterator[NriError]:
    """One error of each class, in which each text is this one. A new type of a parameter needs a line in `_value`."""
    for kind in kinds():
        _, *parameters = inspect.signature(kind.__init__).parameters.values()
        argument = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        texts = [text for parameter in argument if parameter.kind is parameter.VAR_POSITIONAL]
        named = {
            parameter.name: _value(parameter.annotation, text)
            for parameter in argument
            if parameter.kind is not parameter.VAR_POSITIONAL
        }
        yield kind(*texts, **named)


def _value(annotation: str, text: str) -> Any:
    """A value for a parameter."""
    if annotation in ("str", "str | None", "object"):
        return text
    texts = frozenset((text,))
    created: dict[str, Any] = {
        "int": 3,
        "int | None": 17,
        "float": 1.5,
        "bool": True,
        "list[int]": [1, 2],
        "Any": (),
        "Changes": None,
        "Sequence[ConfigError]": [ConfigError(text, text, text, text)] * 3,
        "Conflict": Conflict(text, 1, "Env", text, text, text, exact=True),
        "grpc.StatusCode": grpc.StatusCode.INTERNAL,
        "ForeignAgent": ForeignAgent(text, text),
        "Owner": Owner(text, OwnedKnob(Level.POD, text, texts), text),
    }
    return created[annotation]
