"""Adjustments from their JSON, applied to specs: what these tests have in common."""

import copy
from dataclasses import replace
from typing import Any

from google.protobuf import json_format

from nri.api import messages as m
from nri.oci import Generator, MountPoint, MountTable
from nri.rules import Rules

#: A host on which everything is private, but for what the names say.
HOST = MountTable(
    [
        MountPoint("/"),
        MountPoint("/shared", "shared:1"),
        MountPoint("/slave", "master:1"),
        MountPoint("/both", "shared:2 master:1"),
    ]
)


def adjustment(**data: Any) -> Any:
    return json_format.ParseDict(data, m.ContainerAdjustment())


def adjust(spec: dict[str, Any], rules: Rules | None = None, /, **data: Any) -> dict[str, Any]:
    """The spec after an adjustment; the one given is as before."""
    before = copy.deepcopy(spec)
    generator = Generator(spec, mounts=HOST)
    if rules is not None:
        generator.rules = rules
    new_spec = generator.adjust(adjustment(**data))
    assert spec == before, "the spec that was given was changed"
    return new_spec


def both_modes(rule: str, spec: dict[str, Any], /, **data: Any) -> tuple[Any, Any]:
    """What the reference does, and what one rule alone makes of it."""
    one = replace(Rules.REFERENCE, **{rule: True})
    return adjust(spec, Rules.REFERENCE, **data), adjust(spec, one, **data)
