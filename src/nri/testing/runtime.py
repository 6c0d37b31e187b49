"""`FakeRuntime`: a runtime for tests, with a real adaptation and real connections, but without containers."""

from __future__ import annotations

import os
import tempfile
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Self

from nri.adaptation import Adaptation, PluginHealth
from nri.errors import LocalProtocolError
from nri.stub.plugin import Plugin
from nri.testing.events import Events
from nri.testing.plugin_connection import PATIENCE_S, Attached

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from nri.api import messages as m
    from nri.testing.wire import Link


class FakeRuntime(Events):
    """A runtime for tests.

    Events are methods, as on `nri.adaptation.Adaptation`; pod and container are optional.

    Args:
        compat: "default" or "reference".
        policy: the text of a policy.toml.
        pods, containers: the existing pods and containers at the start.
        name, version: the runtime's name and version, for plugins.
        real_time: background work of plugins (`nri.every`) runs as in a program, and has started when `add` returns.
            With False, it runs only in `tick`.
        options: further options of `Adaptation` (`builtin`, `observer`, `default_validator`, `request_timeout_s`; with
            `socket_path` it listens, with `plugin_path` it launches; `policy_path` is a file instead of `policy`).

    Attributes:
        pods, containers: the existing pods and containers, by id.
        updates: the updates that plugins requested, in order.
        evictions: the evictions that plugins requested, in order.
        refuse_updates: the ids of containers whose updates fail.
        adaptation: the runtime's adaptation.
        closed: whether the runtime has been closed; then all methods fail.
    """

    def __init__(
        self,
        *,
        compat: Literal["default", "reference"] = "default",
        policy: str | None = None,
        pods: Iterable[m.PodSandbox] = (),
        containers: Iterable[m.Container] = (),
        name: str = "fake",
        version: str = "v1.0.0",
        real_time: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(pods, containers)
        self._real_time = real_time
        self._attached: dict[str, Attached] = {}
        self._policy_path = _write(policy) if policy is not None else None
        options.setdefault("disable_connections", "socket_path" not in options)
        options.setdefault("plugin_path", "/nonexistent")
        options.setdefault("wasm_cache", None)
        #: The socket on which the runtime listens, or "".
        self.socket_path: str = options.get("socket_path", "")
        options.setdefault("policy_path", self._policy_path)
        self._options = {"name": name, "version": version, "compat": compat, **options}
        try:
            self.adaptation = self._start()
        except BaseException:
            self._forget_policy()
            raise

    def _start(self) -> Adaptation:
        adaptation = Adaptation(
            synchronize=self._snapshot,
            update=self._update,
            evict=self._evict,
            **self._options,
        )
        adaptation.start()
        return adaptation

    # -- plugins ------------------------------------------------------------------------------------------------------

    def add(
        self,
        plugin: Plugin,
        idx: str = "10",
        name: str | None = None,
        *,
        config: str = "",
        link: Link | None = None,
        wait: bool = True,
    ) -> FakeRuntime:
        """Connect a plugin, and wait until it is active and its updates of `synchronize` are applied.

        Returns the runtime, for chaining.

        Args:
            plugin: an instance.
            idx: the plugin's index, two digits.
            name: the plugin's name; default: the name of the class.
            config: the plugin's configuration text from the runtime.
            link: connect over this link, which can have faults.
            wait: with False, return before the plugin is active.

        Raises the error that keeps the plugin from becoming active.
        """
        if not isinstance(plugin, Plugin):
            is_class = isinstance(plugin, type) and issubclass(plugin, Plugin)
            step = f": write add({plugin.__name__}())" if is_class else ""
            raise LocalProtocolError(f"add() takes an instance of nri.Plugin, not {plugin!r}{step}")
        _check_texts("add", idx=idx, name=name or "", config=config)
        adaptation = self._live_adaptation()
        attached = Attached(plugin, idx, name or plugin.name, config, real_time=self._real_time)
        is_second = self._is_connected(attached.label)
        attached.connect(adaptation, link)
        if wait:
            try:
                attached.wait(adaptation)
            except Exception:
                if not is_second:
                    self._cut(attached)  # so that another plugin of this name can connect
                raise
        self._attached[attached.label] = attached
        return self

    def connect(self, sock: socket.socket) -> None:
        """Take over a socket that is connected to another plugin."""
        self._live_adaptation().connect(sock)

    @property
    def plugins(self) -> list[PluginHealth]:
        """The health of all plugins, present and past."""
        return self.adaptation.plugins

    def health(self, label: str) -> PluginHealth:
        """The health of a plugin, by its ``NN-name``. Raises LookupError if it has never registered."""
        for row in self.plugins:
            if row.plugin == label:
                return row
        raise LookupError(f"plugin {label} has never registered; others: {[row.plugin for row in self.plugins]}")

    def tick(self, label: str = "") -> FakeRuntime:
        """Call the background work (`nri.every`) of a plugin (``NN-name``) or of all plugins once in this thread.

        Waits for running calls. Raises the exceptions of the methods, which are only logged in real time.
        """
        self._live_adaptation()
        for attached in list(self._attached.values()):
            if label in ("", attached.label):
                attached.background.tick()
        return self

    def reload(self, config: str, label: str = "") -> FakeRuntime:
        """Change the configuration of a plugin (``NN-name``) or of all plugins, as if the file of `--config` changed.

        `plugin.config` is replaced and `configure` called, between two handlers. An invalid text raises ConfigError and
        changes nothing; exceptions of `configure` are raised. A program would only log these errors.
        """
        _check_texts("reload", config=config)
        self._live_adaptation()
        for attached in list(self._attached.values()):
            if label in ("", attached.label):
                attached.reconfigure(config)
        return self

    # -- faults -------------------------------------------------------------------------------------------------------

    def timeout(self, seconds: float) -> FakeRuntime:
        """Set how many seconds a plugin may take to answer a request."""
        self._live_adaptation().set_request_timeout(seconds)
        return self

    def disconnect(self, label: str = "") -> FakeRuntime:
        """Close the connection of a plugin (``NN-name``) or of all plugins, and wait until both sides have noticed."""
        for attached in list(self._attached.values()):
            if label in ("", attached.label):
                self._cut(attached)
        return self

    def _cut(self, attached: Attached) -> None:
        attached.stop()
        deadline = monotonic() + PATIENCE_S
        while self._is_connected(attached.label) and monotonic() < deadline:
            sleep(0.002)

    def _is_connected(self, label: str) -> bool:
        return any(
            row.plugin == label and row.state not in ("gone", "crash loop", "not launched") for row in self.plugins
        )

    def restart(self) -> FakeRuntime:
        """Restart the runtime with the same pods and containers. All plugins connect again."""
        self._live_adaptation()
        self._end()
        self.adaptation = self._start()
        for attached in self._attached.values():
            attached.connect(self.adaptation)
            attached.wait(self.adaptation)
        return self

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self.adaptation.stop()
        for attached in self._attached.values():
            attached.join()

    def close(self) -> None:
        """Stop the runtime and all plugins. Calling it again has no effect."""
        if self.closed:
            return
        self.closed = True
        try:
            self._end()
        finally:
            for attached in self._attached.values():
                attached.background.stop()
            self._forget_policy()

    def _forget_policy(self) -> None:
        """Remove the temporary file of `policy`."""
        path, self._policy_path = self._policy_path, None
        if path is not None:
            os.unlink(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_texts(method: str, **options: object) -> None:
    """Raise LocalProtocolError, with the fix, for an option that is not a string."""
    for option, value in options.items():
        if not isinstance(value, str):
            step = "json.dumps(...)" if option == "config" else f'"{str(value).zfill(2 if option == "idx" else 0)}"'
            raise LocalProtocolError(f"{method}() takes {option} as text, not {value!r}: write {option}={step}")


def _write(policy: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="nri-policy-", suffix=".toml")
    with os.fdopen(descriptor, "w") as file:
        file.write(policy)
    return path
