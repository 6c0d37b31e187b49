"""The defaults of a container: values of an OCI spec that image and request can override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nri.oci import validate

#: Hooks of a spec, by stage.
Hooks = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Base:
    """The defaults of a container, in the form of a spec.

    Attributes:
        env: environment variables as ``NAME=VALUE``.
        capabilities: the full names of the default capabilities; None for the engine's.
        rlimits: limits of processes.
        mounts: mounts that replace those of the engine at the same path.
        annotations: annotations of the spec.
        hooks: hooks of the OCI runtime.
    """

    env: Sequence[str] = ()
    capabilities: Sequence[str] | None = None
    rlimits: Sequence[Mapping[str, Any]] = ()
    mounts: Sequence[Mapping[str, Any]] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=dict)


def base_problems(spec: Mapping[str, Any]) -> list[str]:
    """Return the problems of a spec with defaults. It need not have the keys that a container's spec requires."""
    process = spec.get("process") or {}
    complete = {"args": ["program"], "cwd": "/", **process} if isinstance(process, dict) else process
    return [str(problem) for problem in validate({"ociVersion": "1.0.2", **spec, "process": complete})]


def base_of(spec: Mapping[str, Any]) -> Base:
    """Return the defaults in a spec without problems. Other keys of the spec are ignored."""
    process = spec.get("process") or {}
    capabilities = process.get("capabilities")
    return Base(
        env=process.get("env") or (),
        capabilities=None if capabilities is None else capabilities.get("bounding") or (),
        rlimits=process.get("rlimits") or (),
        mounts=spec.get("mounts") or (),
        annotations=spec.get("annotations") or {},
        hooks={stage: hooks for stage, hooks in (spec.get("hooks") or {}).items() if hooks},
    )


def joined_bases(first: Base, second: Base) -> Base:
    """Both defaults together; `second` wins, and hooks of `first` run first."""
    return Base(
        env=[*first.env, *second.env],
        capabilities=first.capabilities if second.capabilities is None else second.capabilities,
        rlimits=[*{row["type"]: row for row in (*first.rlimits, *second.rlimits)}.values()],
        mounts=[*{row["destination"]: row for row in (*first.mounts, *second.mounts)}.values()],
        annotations={**first.annotations, **second.annotations},
        hooks=joined_hooks(first.hooks, second.hooks),
    )


def joined_hooks(first: Hooks, second: Hooks) -> dict[str, list[Mapping[str, Any]]]:
    """The hooks of both, by stage."""
    return {stage: [*first.get(stage, ()), *second.get(stage, ())] for stage in dict.fromkeys([*first, *second])}
