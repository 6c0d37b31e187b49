"""The OCI runtime spec: apply adjustments, resolve classes and CDI devices, compare and validate. For runtimes.

A spec is a plain dict, as parsed from JSON. Unknown fields stay in the spec:

    config = Generator(spec, cdi=CdiDevices().inject).adjust(reply.adjust)

This package works without the engine, and needs only NRI's messages. Names are imported on first use.
"""

from __future__ import annotations

from nri.lazy import lazy

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

if not TYPE_CHECKING:  # with __getattr__ a type checker would accept every misspelt name
    __getattr__, __dir__ = lazy(
        globals(),
        {
            "cdi.devices": "CdiDevices",
            "classes.blockio": "BlockIoClasses",
            "classes.rdt": "RdtClasses",
            "comparison": "Change canonical difference",
            "draft": "Spec",
            "generator": "Generator",
            "propagation": "MountPoint MountTable",
            "resources": "without_unset",
            "validation": "Problem validate",
        },
    )
