"""The JSON schema of a plugin's configuration, from the class that the plugin itself reads it with.

Rules: keys are those of the class, or of the default validator's table; a type that JSON has no word for is any value,
since the plugin checks it again. Next: `chart`, which puts it under `config`.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from nri.cli.support import registered
from nri.config import typed
from nri.policies.default_validator import KEYS, ValidatorConfig

Json = dict[str, Any]
WORDS = {str: "string", bool: "boolean", int: "integer", float: "number"}
LISTS = (list, tuple, set, frozenset)


def config_schema(name: str) -> Json:
    """The schema of a plugin's configuration; it allows no key for a plugin that has none."""
    entry = registered.find(name)
    if entry is None:
        raise LookupError(f"{name} is in deploy/plugins.yaml and not registered; if it is in pyproject.toml: make venv")
    fields = _fields(name, getattr(registered.load(entry), "Config", None))
    if not fields:
        return {"type": "object", "maxProperties": 0}
    properties = {key: _type(annotation) for key, annotation in fields.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _fields(name: str, cls: type | None) -> dict[str, Any]:
    if cls is not None:
        return dict(typed.fields_of(cls))
    if name == "default-validator":
        types = {field.name: str(field.type) for field in dataclasses.fields(ValidatorConfig)}
        words = {"bool": bool, "str": str}
        return {key: words.get(types[attribute], list[str]) for key, attribute in KEYS.items()}
    return {}


def _type(annotation: Any) -> Json:
    kind, items = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in LISTS:
        return {"type": "array", "items": _type(items[0])}
    return {"type": WORDS[kind]} if kind in WORDS else {}
