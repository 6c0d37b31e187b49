"""`template`: a plugin to copy, with a handler for every pod and container event that logs a line.

Comments describe the return values of handlers. `nri new` creates a complete project.
"""

from __future__ import annotations

import nri
from nri.stub.program.options import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar


class Template(nri.Plugin):
    """Log a line for each event, without changes: a plugin to copy."""

    name = "template"
    flags: ClassVar[Mapping[str, Flag]] = {"cfg-param1": Flag("cfgParam1", "TEXT", "a parameter; it is logged")}

    class Config:
        """Keys of the configuration, from the runtime or `--config FILE`."""

        cfgParam1: str = ""

    config: Config

    def configure(self) -> None:
        self.log.info(
            'connected to %s %s, cfgParam1 "%s"', self.runtime.name, self.runtime.version, self.config.cfgParam1
        )

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        # Updates of these containers may be returned: a list of nri.Update.
        self.log.info("synchronized with %d pods and %d containers", len(pods), len(containers))

    def shutdown(self) -> None:
        self.log.info("the runtime shuts down")

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.log.info("pod started")

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.log.info("pod stopped")

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self.log.info("pod removed")

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        # May return an nri.Adjustment, a list of nri.Update for other containers, or both as a pair.
        self.log.info("creating container")

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.log.info("container created")

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.log.info("starting container")

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.log.info("container started")

    def update_container(self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources) -> None:
        # A list of nri.Update may be returned, of this container or of others.
        self.log.info("updating container")

    def post_update_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.log.info("container updated")

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        # A list of nri.Update of other containers may be returned.
        self.log.info("container stopped")

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.log.info("container removed")


if __name__ == "__main__":
    Template.main()
