"""The OCI runtime spec: adjustments applied to it, classes and CDI devices resolved, compared, checked. For runtimes.

A spec is a plain dict, as JSON has it, and what is not known here stays in it:

    config = Generator(spec, cdi=CdiDevices().inject).adjust(reply.adjust)

No engine is needed, and nothing of the rest of this package but the messages. The face is lazy: what is not used is
not loaded. Modules: `generator` (an adjustment, step by step: `process`, `linux`, `resources`, `mounts`), `draft` (a
spec being changed), `propagation` (the host's mounts), `fields` (the table of the spec), `validation`
and `comparison`, which walk it. Rooms: `cdi` (device files), `classes` (block I/O and RDT).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.oci.cdi.devices import CdiDevices as CdiDevices
    from nri.oci.classes.blockio import BlockIoClasses as BlockIoClasses
    from nri.oci.classes.rdt import RdtClasses as RdtClasses
    from nri.oci.comparison import Change as Change
    from nri.oci.comparison import canonical as canonical
    from nri.oci.comparison import difference as difference
    from nri.oci.draft import Spec as Spec
    from nri.oci.generator import Generator as Generator
    from nri.oci.propagation import MountPoint as MountPoint
    from nri.oci.propagation import MountTable as MountTable
    from nri.oci.resources import without_unset as without_unset
    from nri.oci.validation import Problem as Problem
    from nri.oci.validation import validate as validate

__all__ = [
    "BlockIoClasses",
    "CdiDevices",
    "Change",
    "Generator",
    "MountPoint",
    "MountTable",
    "Problem",
    "RdtClasses",
    "Spec",
    "canonical",
    "difference",
    "validate",
    "without_unset",
]

_HOME = {
    "BlockIoClasses": "classes.blockio",
    "CdiDevices": "cdi.devices",
    "Change": "comparison",
    "Generator": "generator",
    "MountPoint": "propagation",
    "MountTable": "propagation",
    "Problem": "validation",
    "RdtClasses": "classes.rdt",
    "Spec": "draft",
    "canonical": "comparison",
    "difference": "comparison",
    "validate": "validation",
    "without_unset": "resources",
}


if not TYPE_CHECKING:  # a checker that sees this takes every misspelt name for one that exists

    def __getattr__(name: str) -> object:
        """Import the module that holds a public name when the name is first used."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
