"""`PluginBase`: the settings of a plugin, the attributes of `self`, and a method for each event."""

from __future__ import annotations

from time import monotonic

from nri.errors import ConfigError
from nri.stub.support import context
from nri.stub.support.checks import check_class, kebab_case, note_if_not_run
from nri.stub.support.default_attributes import DefaultConfig, EmptyState
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


class PluginBase:
    """A plugin without `main()`, as sessions and handlers use it. Subclass `nri.Plugin`, not this class."""

    # These are described in the docstring of `nri.Plugin`.
    name: ClassVar[str] = ""
    failure_policy: ClassVar[FailurePolicy | None] = None
    mirror: ClassVar[bool] = False
    config_format: ClassVar[Literal["auto", "json", "yaml", "toml"]] = "auto"
    log_file: ClassVar[str | None] = None
    Config: ClassVar[type | None] = None
    flags: ClassVar[Mapping[str, tuple[str, str, str]]] = {}
    annotations: ClassVar[Mapping[str, str]] = {}
    sets: ClassVar[Sequence[str] | None] = None

    #: An instance of `Config`, from the runtime's text, `--config FILE` and the defaults. Set before `configure` is
    #: called; until then, for example in a test that calls a handler, it has the defaults.
    config: Any = DefaultConfig()
    #: The file of `--config`, or "the runtime's configuration", for errors that `configure` raises; "" without either.
    config_source: str = ""
    #: The mirror, if `mirror` is true. Empty before the plugin is connected.
    state: Mirror = EmptyState()  # type: ignore[assignment]  # its `__get__` returns a Mirror
    #: The runtime, with `.name`, `.version`, `.nri_version`, `.update(...)`, `.evict(...)`.
    runtime: RuntimeHandle = RuntimeHandle()

    #: ``NN-name`` if several plugins share a process and its log, else "".
    _log_name = ""
    #: The events that the command line lists by name.
    _named_events: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_class(cls, PluginBase)  # a handler with a wrong name would otherwise never be called, without an error
        if not cls.__dict__.get("name"):
            cls.name = kebab_case(cls.__name__)
        if cls.__module__ == "__main__":
            note_if_not_run(cls)

    @classmethod
    def _connections(cls, options: Any) -> list[tuple[PluginBase, Any]]:
        """The plugins that a program of this class runs, each with its options. A class may run several.

        Raises ConfigError for a class whose constructor requires arguments.
        """
        code: Any = getattr(cls.__init__, "__code__", None)
        needed = code.co_argcount - len(getattr(cls.__init__, "__defaults__", None) or ()) if code is not None else 0
        if needed > 1:
            reason = f"requires {', '.join(code.co_varnames[1:needed])}, but plugins are created without arguments"
            raise ConfigError(f"class {cls.__name__}", "__init__", reason, "add default values, or use Config")
        return [(cls(), options)]

    @classmethod
    def _takes_index(cls) -> bool:
        """Whether the plugin connects once, with the given index. A runtime can launch only such a plugin."""
        return cls._connections.__func__ is PluginBase._connections.__func__  # type: ignore[attr-defined]

    @classmethod
    def _check_index(cls, index: str) -> None:
        """Raise ConfigError if an index was requested from a plugin that chooses its indices itself."""
        if not cls._takes_index():
            reason = f"the plugin {cls.name} chooses its indices itself, so the index {index} has no effect"
            raise ConfigError("command line", "", reason, "leave the index out; see the flags of the plugin")

    # -- attributes for handlers --------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When the runtime stops waiting for this request, in `time.monotonic()` seconds. None if it sets no limit."""
        call = context.current.get()
        return None if call is None else call.deadline

    def time_left(self) -> float | None:
        """Seconds until `deadline`, never negative. None outside handlers and if the runtime sets no limit."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - monotonic())

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the pod and container of the current request to each line."""
        from nri.stub.support import logs

        return logs.adapter(self._log_name or self.name)

    # -- connection ---------------------------------------------------------------------------------------------------

    def configure(self) -> EventMask | Awaitable[EventMask | None] | None:
        """The plugin is connected, `self.config` and `self.runtime` are set. Return a mask to receive fewer events.

        Called again when the file of `--config` changes; the mask then has no effect.
        """
        return None

    def synchronize(
        self, pods: list[m.PodSandbox], containers: list[m.Container], /
    ) -> UpdateAnswer | Awaitable[UpdateAnswer]:
        """Receive all existing pods and containers, on every connection. May return updates and evictions."""
        return None

    def shutdown(self) -> Awaitable[None] | None:
        """The runtime is shutting down. Runtimes that use the Go library never call this."""

    def closed(self) -> Awaitable[None] | None:
        """The connection has ended. The plugin connects again unless it is being stopped."""

    def measurements(self) -> str:
        """Additional metrics in Prometheus' text format, which `--metrics` serves with the metrics of the process."""
        return ""

    # -- pods ---------------------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod is starting; it has a network, but no containers yet."""

    def update_pod_sandbox(
        self, pod: m.PodSandbox, overhead: m.LinuxResources, resources: m.LinuxResources, /
    ) -> Awaitable[None] | None:
        """A pod's resources are about to change."""

    def post_update_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod's resources have changed."""

    def stop_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod has stopped; it still has its network."""

    def remove_pod_sandbox(self, pod: m.PodSandbox, /) -> Awaitable[None] | None:
        """A pod is being removed."""

    # -- containers ---------------------------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container, /) -> CreateAnswer | Awaitable[CreateAnswer]:
        """A container is about to be created. Returns an Adjustment, and updates and evictions of other containers."""
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
        """A container's resources are about to change to `resources`. Returns updates and evictions."""
        return None

    def post_update_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container's resources have changed."""

    def stop_container(self, pod: m.PodSandbox, container: m.Container, /) -> UpdateAnswer | Awaitable[UpdateAnswer]:
        """A container has stopped. Returns updates and evictions of other containers."""
        return None

    def remove_container(self, pod: m.PodSandbox, container: m.Container, /) -> Awaitable[None] | None:
        """A container is being removed."""

    def validate_container_adjustment(self, request: ValidationRequest, /) -> Awaitable[None] | None:
        """All plugins have answered: raise `nri.Reject` to refuse their combined adjustment of the container."""
