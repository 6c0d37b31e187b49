"""`rdt`: set class, schemata and monitoring of Intel RDT of single containers, by annotations."""

from __future__ import annotations

import re

import nri
from nri.api.annotations import BOOLEANS
from nri.plugins.annotations import find, pod_scope_warning
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import ClassVar

    from nri.plugins.annotations import Annotation

DOMAIN = "rdt.noderesource.dev"
#: One line of schemata: a resource, and for each of its domains a bit mask or a share.
LINE = re.compile(r"\s*\w+\s*:\s*[0-9]+\s*=\s*[0-9a-fA-F]+\s*(;\s*[0-9]+\s*=\s*[0-9a-fA-F]+\s*)*")
#: Directories of resctrl that are not classes.
RESERVED_NAMES = (".", "..", "info", "mon_data", "mon_groups")


def _class(annotation: Annotation, adjustment: nri.Adjustment) -> None:
    name = annotation.text
    if not name or name in RESERVED_NAMES or "/" in name or not name.isprintable():
        raise annotation.refusal("", f"{quote(name[:64])} cannot be the name of a class", "write, for example, 'gold'")
    adjustment.set_rdt_clos_id(name)


def _schemata(annotation: Annotation, adjustment: nri.Adjustment) -> None:
    lines = annotation.text.split(",")
    for place, line in enumerate(lines):
        if LINE.fullmatch(line) is None:
            shown = quote(line[:64])
            raise annotation.refusal(
                f"[{place}]", f"{shown} is not a line of schemata", "write, for example, 'L3:0=ff;1=ff,MB:0=50'"
            )
    adjustment.set_rdt_schemata(lines)


def _monitoring(annotation: Annotation, adjustment: nri.Adjustment) -> None:
    if annotation.text not in BOOLEANS:
        raise annotation.refusal("", f"{quote(annotation.text[:64])} is neither true nor false", "write true or false")
    adjustment.set_rdt_enable_monitoring(BOOLEANS[annotation.text])


#: By annotation without domain and container: the function that sets its field, and a description of its value.
FIELDS: dict[str, tuple[Callable[[Annotation, nri.Adjustment], None], str]] = {
    "closid": (_class, "name of a class of service, a directory in resctrl"),
    "schemata": (_schemata, "lines of schemata, separated by commas"),
    "enablemonitoring": (_monitoring, "true or false: a monitoring group for the container"),
}


class Rdt(nri.Plugin):
    """Set class, schemata and monitoring of Intel RDT for single containers, by annotations."""

    name = "rdt"
    sets = ("linux.rdt",)
    annotations: ClassVar[Mapping[str, str]] = {
        f"{field}.{DOMAIN}/container.NAME": words for field, (_, words) in FIELDS.items()
    }

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        adjustment = nri.Adjustment()
        fields = []
        for field, (put, _) in FIELDS.items():
            annotation = find(pod, container.name, f"{field}.{DOMAIN}", pod_scope=False)
            if annotation is not None:
                put(annotation, adjustment)
                fields.append(f"{field}={annotation.text}")
        self._warn(pod, container)
        if not fields:
            return None
        self.log.info("%s", plain(", ".join(fields)))
        return adjustment

    def _warn(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Warn of similar annotations without effect."""
        stray = pod_scope_warning(pod, *(f"{field}.{DOMAIN}" for field in FIELDS))
        if stray:
            self.log.warning("%s", stray)
        for key in pod.annotations:
            field, suffix, _ = key.partition(f".{DOMAIN}/container.{container.name}")
            if suffix and field not in FIELDS and key.endswith(suffix):
                self.log.warning("unknown annotation %s; known: %s", quote(key), ", ".join(FIELDS))


if __name__ == "__main__":
    Rdt.main()
