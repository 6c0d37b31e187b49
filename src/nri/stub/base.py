"""A plugin before it is a program: its settings, what a handler finds in `self`, and a method for each event.

A method that is never called is a bug that is never seen. So class creation refuses names that are nearly those of an
event or a setting, and handlers that take the wrong arguments (`nri.stub.support.checks`).
`nri.stub.handler.answers` says what a handler may return. Next: `nri.stub.plugin` adds the start of a program,
`nri.stub.session.session` serves a plugin on one connection.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConfigError
from nri.stub.support import context
from nri.stub.support.checks import check_class, kebab_case, note_if_not_run
from nri.stub.support.initial import DefaultConfig, EmptyState
from nri.stub.support.runtime_handle import RuntimeHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Mapping, Sequence
    from typing import Any, ClassVar, Literal

    from nri.api import messages as m
    from nri.api.builders.answers import CreateAnswer, UpdateAnswer
    from nri.api.builders.failure import FailurePolicy
    from nri.api.events import EventMask
    from nri.api.validation import ValidationRequest
    from nri.stub.support.mirror import Mirror

__all__ = ["PluginBase"]


class PluginBase:
    """A plugin without `main()`: all that sessions and handlers know of it. Subclass `nri.Plugin`, not this."""

    # The docstring of `nri.Plugin` says what these mean, where the people look who set them.
    name: ClassVar[str] = ""
    failure_policy: ClassVar[FailurePolicy | None] = None
    mirror: ClassVar[bool] = False
    config_format: ClassVar[Literal["auto", "json", "yaml", "toml"]] = "auto"
    log_file: ClassVar[str | None] = None
    Config: ClassVar[type | None] = None
    flags: ClassVar[Mapping[str, tuple[str, str, str]]] = {}
    annotations: ClassVar[Mapping[str, str]] = {}
    sets: ClassVar[Sequence[str] | None] = None

    #: An instance of `Config`, from the runtime's text, `--config FILE` and the defaults. Set before `configure`; until
    #: then, as in a test that calls a handler, the defaults alone.
    config: Any = DefaultConfig()
    #: The file of `--config`, or "the runtime's configuration", for errors that only `configure` finds; "" for none.
    config_source: str = ""
    #: The mirror, if `mirror` is true. Empty before there is a runtime.
    state: Mirror = EmptyState()  # type: ignore[assignment]  # what it gives is one
    #: The other side, with `.name`, `.version`, `.nri_version`, `.update(...)`, `.evict(...)`.
    runtime: RuntimeHandle = RuntimeHandle()

    #: ``NN-name`` where several plugins share a process, and its log.
    _log_name = ""
    #: The events that the command line asks for by their names.
    _named_events: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_class(cls, PluginBase)
        if not cls.__dict__.get("name"):
            cls.name = kebab_case(cls.__name__)
        if cls.__module__ == "__main__":
            note_if_not_run(cls)

    @classmethod
    def _connections(cls, options: Any) -> list[tuple[PluginBase, Any]]:
        """The plugins that a program of this class runs, each with its options: one, but for those that compare.

        Raises ConfigError for a class that cannot be made without arguments.
        """
        code: Any = getattr(cls.__init__, "__code__", None)
        needed = code.co_argcount - len(getattr(cls.__init__, "__defaults__", None) or ()) if code is not None else 0
        if needed > 1:
            reason = f"asks for {', '.join(code.co_varnames[1:needed])}, and a plugin is made without arguments"
            raise ConfigError(f"class {cls.__name__}", "__init__", reason, "give each a default, or use Config")
        return [(cls(), options)]

    @classmethod
    def _takes_index(cls) -> bool:
        """Whether it connects once, at the index that it is given, as a runtime that launches it must have it."""
        return cls._connections.__func__ is PluginBase._connections.__func__  # type: ignore[attr-defined]

    # -- what a handler finds in self ---------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """The `time.monotonic()` seconds at which the runtime gives up on this request; None if it does not say."""
        call = context.current.get()
        return None if call is None else call.deadline

    def time_left(self) -> float | None:
        """Seconds until `deadline`, never negative; None outside handlers and if the runtime does not say."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - monotonic())

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the pod and container of the present request."""
        from nri.stub.support import logs

        return logs.adapter(self._log_name or self.name)

    # -- the life of the plugin ---------------------------------------------------------------------------------------

    def configure(self) -> EventMask | Awaitable[EventMask | None] | None:
        """Connected: `self.config` and `self.runtime` are set. Return a mask to take fewer events than the methods say.

        Called again when the file of `--config` changes; the mask then has no effect any more.
        """
        return None

    def synchronize(
        self, pods: list[m.PodSandbox], containers: list[m.Container], /
    ) -> UpdateAnswer | Awaitable[UpdateAnswer]:
        """Take in all that runs already: the full truth, on each connection again. Returns updates and evictions."""
        return None

    def shutdown(self) -> Awaitable[None] | None:
        """The runtime is going away. Runtimes on the Go reference never say so."""

    def closed(self) -> Awaitable[None] | None:
        """The connection is gone; unless this is the end, another one follows."""

    def measurements(self) -> str:
        """Measurements of its own, as text of Prometheus: they are served with those of the process at `--metrics`."""
        return ""

    # -- pods ---------------------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod starts; its network is there, its containers are not."""

    def update_pod_sandbox(
        self, pod: m.PodSandbox, overhead: m.LinuxResources, resources: m.LinuxResources, /
    ) -> Awaitable[None] | None:
        """A pod's resources are about to change."""

    def post_update_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod's resources have changed."""

    def stop_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod has stopped; its network is still there."""

    def remove_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod is removed."""

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container, /) -> CreateAnswer | Awaitable[CreateAnswer]:
        """A container is about to be created: the one place for an Adjustment; updates and evictions of others too."""
        return None

    def post_create_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container has been created."""

    def start_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container is about to start."""

    def post_start_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container has started."""

    def update_container(
        self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, /
    ) -> UpdateAnswer | Awaitable[UpdateAnswer]:
        """A container's resources change to `resources` soon. Returns updates and evictions, of any container."""
        return None

    def post_update_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container's resources have changed."""

    def stop_container(self, pod: m.PodSandbox, container: m.Container, /) -> UpdateAnswer | Awaitable[UpdateAnswer]:
        """A container has stopped. Returns updates and evictions of other containers."""
        return None

    def remove_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container is removed."""

    def validate_container_adjustment(self, request: ValidationRequest, /) -> Awaitable[None] | None:
        """All plugins have spoken: raise `nri.Reject` to refuse what they made of the container."""
