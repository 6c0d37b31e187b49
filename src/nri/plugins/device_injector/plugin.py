"""`device-injector`: give containers devices, mounts, priorities, sysctls and more that annotations ask for.

One job: go through the kinds of annotations in the reference's order, and build one adjustment of all. What each kind
reads and sets is in `nri.plugins.device_injector.kinds`, how annotations are found and read in `nri.plugins.annotated`.
"""

from __future__ import annotations

import nri
from nri.plugins.annotated import find
from nri.plugins.device_injector.kinds import KINDS
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

__all__ = ["DeviceInjector"]


class DeviceInjector(nri.Plugin):
    """Inject devices and mounts, set priorities, sysctls and memory policy, all by annotations of pods."""

    name = "device-injector"
    annotations: ClassVar[Mapping[str, str]] = {key: kind.help for kind in KINDS for key in kind.keys}

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        adjustment = nri.Adjustment()
        anything = False
        for kind in KINDS:
            found = find(pod, container.name, *kind.keys)
            if found is None:
                continue
            done = kind.inject(found, adjustment)
            for words in found.unknown:
                self.log.warning("%s", words)
            if done:
                anything = True
                self.log.info("%s: %s", kind.name, plain(", ".join(done)))
        return adjustment if anything else None


if __name__ == "__main__":
    DeviceInjector.main()
