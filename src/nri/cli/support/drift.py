"""The parts of a node that `nri drift` and the page of `nri inspect` ask: what was given to containers, and by whom.

Rules: nothing is changed. Values that were given are learned as a plugin, on any runtime, and from an agent that runs
here; a runtime that is built on this package also says which plugin has set one. Next: `nri.trace.drift`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from nri.cli.errors import FAILED, Failure
from nri.cli.settings import Settings
from nri.cli.support.admin_socket import ask_runtime, taken_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.stub.plugin import Plugin
    from nri.trace.drift import Change, DesiredValue

#: The plugin's place: behind all others, to see what they made of a container.
INDEX: Final = "99"
PAST: Final = "not known"


def sources(settings: Settings, agent_socket: str | None, stack: ExitStack) -> Callable[[], Iterator[DesiredValue]]:
    """A function that gives the values that were applied.

    It raises if neither the runtime nor an agent answers, and Failure for an engine that runs nothing.
    """
    from nri.agent.settings import AgentSettings
    from nri.api.messages import ContainerState
    from nri.api.naming import DEFAULT_SOCKET
    from nri.engine.process.dry import FIRST_PID
    from nri.errors import NriError
    from nri.stub.program.session_thread import session_thread
    from nri.trace.drift import desired_values

    usual = AgentSettings().socket
    agent = agent_socket or (usual if os.path.exists(usual) else "")
    plugin = _plugin()
    timeout_s = settings.timeout_s or 5.0
    joins, socket = True, settings.socket_path or DEFAULT_SOCKET
    try:
        stack.enter_context(session_thread(plugin, socket, INDEX, timeout_s))
    except NriError:
        if not agent or settings.socket_path:
            raise
        joins = False  # an agent without a runtime that speaks NRI

    def values() -> Iterator[DesiredValue]:
        if joins:
            if not plugin.runtime.connected:
                raise Failure("the runtime has closed the connection", FAILED)
            state = plugin.state
            for container in list(state.containers.values()):
                if container.state == ContainerState.CONTAINER_STOPPED:
                    continue  # its cgroup has gone with it
                if container.pid >= FIRST_PID:
                    dry = f"the engine at {socket} is dry: it runs nothing, so no cgroup has the values that it gives"
                    raise Failure(f"{dry}. Name a runtime that runs containers with --socket-path")
                yield from desired_values(state.pod_of(container), container, "runtime")
        if agent:
            yield from _agent_values(agent, timeout_s)

    return values


def _plugin() -> Plugin:
    """A plugin that keeps what the runtime tells of containers."""
    from nri.stub.plugin import Plugin

    class StateReader(Plugin):
        name = "nri-drift"
        mirror = True

    return StateReader()


def _agent_values(path: str, timeout_s: float) -> Iterator[DesiredValue]:
    """The values that the agent has written, and those that were there when it did."""
    from nri.cli.support.ask import ask

    status, answer = ask(path, "/explain", timeout_s)
    if status != 200:
        raise Failure(f"{path} answered {status}, and not as an agent does: name its socket with --agent-socket")
    try:
        yield from _written(answer["pods"], path, timeout_s)
    except (AttributeError, LookupError, TypeError) as error:
        reason = f"{path} answered, and not as an agent does ({error!r})"
        raise Failure(f"{reason}: name its socket with --agent-socket") from error


def _written(pods: list[dict[str, Any]], path: str, timeout_s: float) -> Iterator[DesiredValue]:
    """The values that the agent has written for pods, as it has listed them."""
    from nri.cli.support.ask import ask
    from nri.host.cgroups import knob
    from nri.trace.drift import DesiredValue

    for pod in pods:
        if pod["ended"]:
            continue
        status, told = ask(path, "/explain", timeout_s, {"pod": pod["key"]})
        for row in told["writes"] if status == 200 else ():
            if row["outcome"] not in ("applied", "unchanged"):
                continue
            with suppress(KeyError, ValueError):  # a process, a switch, a value by device
                value = knob(row["name"]).parse(row["wanted"])
                names = (pod["namespace"], pod["name"], row["container"])
                subject = "/".join(name for name in names if name) or pod["key"]
                if not isinstance(row["target"], str):
                    raise TypeError(f"the target of {row['name']} is no text")
                yield DesiredValue(subject, row["target"], row["name"], value, "agent")


class Setters:
    """Which plugin has set a value, as a runtime that is built on this package knows it; it is asked once at a time."""

    def __init__(self, settings: Settings, path: str | None) -> None:
        self._settings, self._path = settings, path
        self._there = True

    def of(self, change: Change) -> str:
        """``NN-name``, or the source if no plugin has set it."""
        from nri.trace.drift import field_of

        field, ident = field_of(change.desired.name), change.desired.cgroup.rpartition("/")[2]
        ident = ident.removesuffix(".scope").rpartition("-")[2]
        if not self._there or change.desired.source != "runtime" or not field:
            return change.desired.source
        try:
            chain = ask_runtime(self._settings, self._path, "Why", {"container": ident})
        except Failure as error:
            self._there = error.code == FAILED  # it answers, if only that it knows nothing of this one
            return change.desired.source
        with taken_apart(self._path):
            setters = [step["plugin"] for step in chain["steps"] if step["field"] == field and not step["note"]]
            return setters[-1] if setters and not setters[-1].startswith("(") else change.desired.source


def row_of(change: Change, who: Setters) -> dict[str, Any]:
    """A change as a table of JSON, with who has set the value, who has overwritten it, and when."""
    row = change.to_json()
    row["set_by"] = who.of(change)
    row["by"] = "" if change.found is None else row["by"] or PAST
    row["when"] = _when(change)
    return row


def _when(change: Change) -> str:
    until = datetime.fromtimestamp(change.until_s, UTC).strftime("%H:%M:%S")
    if not change.after_s:
        return f"before {until}"
    return f"{datetime.fromtimestamp(change.after_s, UTC).strftime('%H:%M:%S')} to {until}"
