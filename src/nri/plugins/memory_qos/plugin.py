"""`memory-qos`: set files `memory.*` of cgroup v2, by classes of the configuration and by allowed annotations.

A class sets `memory.high` and `memory.swap.max`; the annotation of a file takes precedence.
"""

from __future__ import annotations

import os
from struct import pack, unpack

import nri
from nri.plugins.annotations import by_prefix, check_names
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from nri.plugins.annotations import Annotation

DOMAIN = "memory-qos.nri.io"
#: Each folder of cgroup v2 has this file.
SECOND_VERSION = "/sys/fs/cgroup/cgroup.controllers"


class QosClass:
    """A class: the share of a container's memory limit that may go to swap.

    Attributes:
        name: the name for annotations.
        swaplimitratio: from 0 to 1. memory.high becomes limit * (1 - swaplimitratio); 0 changes nothing.
    """

    name: str
    swaplimitratio: float = 0.0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("the name of a class must not be empty")
        if not 0 <= self.swaplimitratio <= 1:
            raise ValueError(f"swaplimitratio must be from 0 to 1, not {self.swaplimitratio}")


class MemoryQos(nri.Plugin):
    """Let containers swap before they reach their memory limit, and set memory.* files, by annotations."""

    name = "memory-qos"
    sets = ("linux.resources.unified",)
    annotations: ClassVar[Mapping[str, str]] = {
        f"class.{DOMAIN}": "name of a class of the configuration; empty: no class",
        f"FILE.{DOMAIN}": "value of a file of cgroup v2 in unifiedannotations, such as memory.high",
        f"class.{DOMAIN}/NAME": "the class of one container of the pod; FILE has the same form",
    }

    class Config:
        """Keys of the configuration.

        Attributes:
            unifiedannotations: files of cgroup v2 that annotations may set, such as memory.swap.max.
        """

        classes: tuple[QosClass, ...] = ()
        unifiedannotations: tuple[str, ...] = ()

        def __post_init__(self) -> None:
            check_names([class_.name for class_ in self.classes])
            for file in self.unifiedannotations:
                if "/" in file or "." not in file:
                    raise ValueError(
                        f"unifiedannotations: {quote(file)} is not a file of cgroup v2, such as memory.high"
                    )

    config: Config

    def configure(self) -> None:
        if not self.config.classes and not self.config.unifiedannotations:
            self.log.warning("classes and unifiedannotations are empty: each container with an annotation is refused")
        if not os.path.exists(SECOND_VERSION):
            self.log.warning("this node has cgroup v1, which does not have these files: containers may be refused")

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        annotations = by_prefix(pod, container.name, DOMAIN, "/")
        class_annotation = annotations.pop("class", None)
        values = (
            self._class_values(class_annotation, container)
            if class_annotation is not None and class_annotation.text
            else {}
        )
        adjustment = nri.Adjustment()
        for file, annotation in annotations.items():
            if file not in self.config.unifiedannotations:
                allowed = ", ".join(self.config.unifiedannotations) or "none"
                step = "ask the operator to add it to unifiedannotations"
                raise annotation.refusal("", f"{quote(file[:64])} is not allowed (allowed: {allowed})", step)
            values[file] = annotation.text
            with annotation.at(""):
                adjustment.add_unified(file, annotation.text)
        for file in values.keys() - annotations.keys():
            adjustment.add_unified(file, values[file])
        if not values:
            return None
        self.log.info("%s", plain(", ".join(f"{file}={value}" for file, value in values.items())))
        return adjustment

    def _class_values(self, annotation: Annotation, container: nri.Container) -> dict[str, str]:
        """The values of a class for a container."""
        qos_class = next((class_ for class_ in self.config.classes if class_.name == annotation.text), None)
        if qos_class is None:
            names = ", ".join(class_.name for class_ in self.config.classes) or "none"
            raise annotation.refusal("", f"class {quote(annotation.text[:64])} not found", f"existing classes: {names}")
        if not qos_class.swaplimitratio:
            return {}
        limit = container.linux.resources.memory.limit.value
        if limit <= 0:
            step = "set resources.limits.memory, or remove the class"
            raise annotation.refusal(
                "", f"container {container.name} has no memory limit, which the class requires", step
            )
        return {"memory.high": str(high_bytes(limit, qos_class.swaplimitratio)), "memory.swap.max": "max"}


def high_bytes(limit_bytes: int, swap_ratio: float) -> int:
    """The value of memory.high: the limit without the share for swap, rounded as in the Go plugin."""
    return int(
        _single_precision(_single_precision(limit_bytes) * _single_precision(1.0 - _single_precision(swap_ratio)))
    )


def _single_precision(number: float) -> float:
    """The nearest single-precision number."""
    rounded: float = unpack("f", pack("f", number))[0]
    return rounded


if __name__ == "__main__":
    MemoryQos.main()
