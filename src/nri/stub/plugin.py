"""The base class of every plugin. Overriding a method subscribes to its event.

Because a method that nobody calls is a bug that nobody sees, class creation refuses names that are nearly those of an
event, and handlers that take the wrong arguments. What a handler may return is in `nri.stub.handlers`; how a plugin
starts is in `nri.stub.main`.
"""

from __future__ import annotations

from time import monotonic

from nri.stub import context
from nri.stub.checks import check_class, kebab_case
from nri.stub.runtime import RuntimeHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence
    from typing import Any, ClassVar, Literal, TypeAlias

    from nri.api import messages as m
    from nri.api.builders.adjustment import Adjustment
    from nri.api.builders.failure import FailurePolicy
    from nri.api.builders.update import Update
    from nri.api.events import EventMask
    from nri.stub.mirror import Mirror

    Updates: TypeAlias = Update | Sequence[Update] | None
    Created: TypeAlias = Adjustment | Update | Sequence[Update] | tuple[Adjustment | None, Sequence[Update]] | None

__all__ = ["Plugin"]


class Plugin:
    """A plugin: override the methods of the events that it wants.

    Run it with `main()`, with `nri run FILE`, or pre-installed.

    Class attributes:
        name: its name; default: the class name in kebab-case. The command line and the environment come first.
        failure_policy: what the runtime should do when this plugin is late or gone (`nri.FailurePolicy`), or None.
        mirror: keep `self.state` true: all pods and containers. Subscribes to what that needs.
        config_format: "auto", "json", "yaml" or "toml": how the runtime's and the file's configuration is written.
        log_file: where to log instead of stderr (or, pre-installed, syslog).
        Config: a plain class with annotations; it is read and checked before `configure`, and then is `self.config`.

    Handlers run one at a time, in the order of the events, in the plugin's one loop. They may be `async def`.
    """

    name: ClassVar[str] = ""
    failure_policy: ClassVar[FailurePolicy | None] = None
    mirror: ClassVar[bool] = False
    config_format: ClassVar[Literal["auto", "json", "yaml", "toml"]] = "auto"
    log_file: ClassVar[str | None] = None
    Config: ClassVar[type | None] = None

    #: An instance of `Config`, from the runtime's text, `--config FILE` and the defaults. Set before `configure`.
    config: Any = None
    #: The mirror, if `mirror` is true.
    state: Mirror
    #: The other side, with `.name`, `.version`, `.nri_version`, `.update(...)`, `.evict(...)`.
    runtime: RuntimeHandle = RuntimeHandle()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_class(cls, Plugin)
        if not cls.__dict__.get("name"):
            cls.name = kebab_case(cls.__name__)

    # -- what a handler finds in self ---------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When the runtime gives up on the present request, in `time.monotonic()` seconds; None if it does not say."""
        call = context.current.get()
        return None if call is None else call.deadline

    def time_left(self) -> float | None:
        """Seconds until `deadline`, never negative; None outside handlers and if the runtime does not say."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - monotonic())

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the pod and container of the present request."""
        from nri.stub import logs

        return logs.adapter(self.name)

    # -- the life of the plugin ---------------------------------------------------------------------------------------

    def configure(self) -> EventMask | None:
        """Connected: `self.config` and `self.runtime` are set. Return a mask to take fewer events than the methods say.

        Called again when the file of `--config` changes; the mask then has no effect any more.
        """
        return None

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> Updates:
        """Take in everything that runs already: the full truth, on each connection anew. Returns updates to make."""
        return None

    def shutdown(self) -> None:
        """The runtime is going away. Runtimes on the Go reference never say so."""

    def closed(self) -> None:
        """The connection is gone; unless this is the end, another one follows."""

    # -- pods ---------------------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """A pod starts; its network is there, its containers are not."""

    def update_pod_sandbox(self, pod: m.PodSandbox, overhead: m.LinuxResources, resources: m.LinuxResources) -> None:
        """A pod's resources are about to change."""

    def post_update_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """A pod's resources have changed."""

    def stop_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """A pod has stopped; its network is still there."""

    def remove_pod_sandbox(self, pod: m.PodSandbox) -> None:
        """A pod is removed."""

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> Created:
        """A container is about to be created: the one place for an Adjustment; updates of other containers too."""
        return None

    def post_create_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """A container has been created."""

    def start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """A container is about to start."""

    def post_start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """A container has started."""

    def update_container(self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources) -> Updates:
        """A container's resources are about to change to `resources`. Returns updates, of this or other containers."""
        return None

    def post_update_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """A container's resources have changed."""

    def stop_container(self, pod: m.PodSandbox, container: m.Container) -> Updates:
        """A container has stopped. Returns updates of other containers."""
        return None

    def remove_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """A container is removed."""

    def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
        """All plugins have spoken: raise `nri.Reject` to refuse what they made of the container."""

    # -- start --------------------------------------------------------------------------------------------------------

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> None:
        """Run this plugin as a program: read the flags, serve until stopped, exit with a documented code."""
        import sys

        from nri.stub.main import main

        sys.exit(main(cls, sys.argv[1:] if argv is None else list(argv)))
