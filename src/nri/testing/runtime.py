"""`FakeRuntime`: a runtime for tests. The adaptation and the plugins' connections are real, the containers are not.

It keeps pods and containers as a runtime does (`nri.testing.events`), so a plugin that is added later is given them;
its events are `nri.testing.events`. Plugins run in threads of this process, each on its own socket pair
(`nri.testing.attached`); everything between is bytes. No root, no files, no container engine. Next:
`nri.testing.builders` for pods and containers, `nri.testing.wire` for connections that fail.
"""

from __future__ import annotations

import os
import tempfile
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Self

from nri.adaptation import Adaptation, PluginHealth
from nri.errors import LocalProtocolError
from nri.stub.plugin import Plugin
from nri.testing.attached import PATIENCE_S, Attached
from nri.testing.events import Events

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from nri.api import messages as m
    from nri.testing.wire import Link

__all__ = ["FakeRuntime"]


class FakeRuntime(Events):
    """A runtime for tests.

    Events are methods, as on `nri.adaptation.Adaptation`; pod and container may be left out.

    Args:
        compat: "default" or "reference".
        policy: text of a policy.toml.
        pods, containers: what there is at the start.
        name, version: what plugins get.
        real_time: background work of plugins (`nri.every`) runs as it does in a program, and the first turn has begun
            when `add` returns; False: it runs in `tick` only.
        options: more of what `Adaptation` takes (`builtin`, `observer`, `default_validator`, `request_timeout_s`; with
            `socket_path` it listens, with `plugin_path` it launches; `policy_path` is a file instead of `policy`).

    Attributes:
        pods, containers: what there is now, by id.
        updates: what plugins asked for by themselves, in order.
        evictions: likewise.
        refuse_updates: ids of containers whose updates fail.
        adaptation: the real thing.
        closed: whether the runtime has been closed; nothing can be asked of it then.
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
        #: Where plugins can connect; "" if nowhere.
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
        """Connect a plugin and wait until it takes part, and what it asked for in `synchronize` is done.

        Returns the runtime, for chaining.

        Args:
            plugin: an instance.
            idx: its index, two digits.
            name: its name, if not its own.
            config: what the runtime gives it as configuration.
            link: connect over this link, for faults.
            wait: False: return before it takes part.

        Raises: what kept it from taking part.
        """
        if not isinstance(plugin, Plugin):
            is_class = isinstance(plugin, type) and issubclass(plugin, Plugin)
            step = f": write add({plugin.__name__}())" if is_class else ""
            raise LocalProtocolError(f"add() takes an instance of nri.Plugin, not {plugin!r}{step}")
        _check_texts("add", idx=idx, name=name or "", config=config)
        adaptation = self._live()
        attached = Attached(plugin, idx, name or plugin.name, config, real_time=self._real_time)
        is_second = self._is_connected(attached.label)
        attached.connect(adaptation, link)
        if wait:
            try:
                attached.wait(adaptation)
            except Exception:
                if not is_second:
                    self._cut(attached)  # so that the next plugin of this name is not "connected already"
                raise
        self._attached[attached.label] = attached
        return self

    def connect(self, sock: socket.socket) -> None:
        """Take over a socket with something else at its other end."""
        self._live().connect(sock)

    @property
    def plugins(self) -> list[PluginHealth]:
        """The health of all plugins, present and past."""
        return self.adaptation.plugins

    def health(self, label: str) -> PluginHealth:
        """The health of one plugin, by its ``NN-name``. LookupError if it has never registered."""
        for row in self.plugins:
            if row.plugin == label:
                return row
        raise LookupError(f"no plugin {label} has ever registered: {[row.plugin for row in self.plugins]}")

    def tick(self, label: str = "") -> FakeRuntime:
        """Let a plugin (``NN-name``), or all, take one turn of background work (`nri.every`), now and in this thread.

        A turn that is under way is waited for. Raises what the methods raise; in real time that is only logged.
        """
        self._live()
        for attached in list(self._attached.values()):
            if label in ("", attached.label):
                attached.background.tick()
        return self

    def reload(self, config: str, label: str = "") -> FakeRuntime:
        """Give a plugin (``NN-name``), or all, another configuration, as a file of `--config` that has changed does.

        `plugin.config` is replaced and `configure` called, between two handlers. A text that cannot be used is a
        ConfigError and changes nothing; what `configure` raises is raised. A program logs either, and goes on.
        """
        _check_texts("reload", config=config)
        self._live()
        for attached in list(self._attached.values()):
            if label in ("", attached.label):
                attached.reconfigure(config)
        return self

    # -- making things go wrong ---------------------------------------------------------------------------------------

    def timeout(self, seconds: float) -> FakeRuntime:
        """From now on a plugin has so many seconds to answer a request."""
        self._live().set_request_timeout(seconds)
        return self

    def disconnect(self, label: str = "") -> FakeRuntime:
        """Cut a plugin's connection (``NN-name``), or all; returns when both sides have noticed."""
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
        """End the runtime and start it again, with the same pods and containers; all plugins connect again."""
        self._live()
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
        """End everything, once and for all. A second time does nothing."""
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
        """Remove the file that was written for `policy`."""
        path, self._policy_path = self._policy_path, None
        if path is not None:
            os.unlink(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_texts(method: str, **options: object) -> None:
    """Raise LocalProtocolError for an option that is not text, with what to write instead."""
    for option, given in options.items():
        if not isinstance(given, str):
            step = "json.dumps(...)" if option == "config" else f'"{str(given).zfill(2 if option == "idx" else 0)}"'
            raise LocalProtocolError(f"{method}() takes {option} as text, not {given!r}: write {option}={step}")


def _write(policy: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="nri-policy-", suffix=".toml")
    with os.fdopen(descriptor, "w") as file:
        file.write(policy)
    return path
