"""Collect the values that were applied to containers, and their sources.

The runtime reports its values to a plugin, the agent reports the values that it wrote, and the admin socket of a
runtime that is built on this package reports which plugin set a value.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from nri.api.messages import ContainerState
from nri.api.naming import DEFAULT_SOCKET, OBSERVER_INDEX
from nri.errors import NriError, ProgramUnreachable
from nri.host.cgroups import knob
from nri.service.client import ask
from nri.stub.plugin import Plugin
from nri.stub.program.session_thread import session_thread
from nri.trace.drift import DesiredValue, desired_values, field_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.adaptation.admin_client import AdminClient
    from nri.trace.drift import Change

PAST: Final = "not known"
_ANSWER_S: Final = 5.0
#: The largest process id of Linux. An engine without containers (`--dry`) reports larger ids.
_MAX_PID: Final = 1 << 22


class StateReader(Plugin):
    """A plugin that mirrors the runtime's containers."""

    name = "nri-drift"
    mirror = True


def sources(
    stack: ExitStack, socket: str | None, agent: str = "", timeout_s: float | None = None
) -> Callable[[], Iterator[DesiredValue]]:
    """Return a function that lists the values that were applied.

    Args:
        stack: ends the plugin's connection.
        socket: the runtime's NRI socket; None for the default socket, which need not answer if there is an agent.
        agent: the agent's socket; "" without an agent.
        timeout_s: the timeout of each answer in seconds; None for 5 s.

    Raises:
        NriError: neither the runtime nor an agent answers. The returned function also raises it.
    """
    reader, path, timeout_s = StateReader(), socket or DEFAULT_SOCKET, timeout_s or _ANSWER_S
    connected = True
    try:
        stack.enter_context(session_thread(reader, path, OBSERVER_INDEX, timeout_s))
    except NriError:
        if not agent or socket:
            raise
        connected = False  # the runtime has no NRI, but an agent may run

    def values() -> Iterator[DesiredValue]:
        if connected:
            yield from _runtime_values(reader, path)
        if agent:
            yield from _agent_values(agent, timeout_s)

    return values


def _runtime_values(reader: StateReader, socket: str) -> Iterator[DesiredValue]:
    """The values that the runtime applied to containers, including the changes of plugins."""
    if not reader.runtime.connected:
        raise NriError("the runtime has closed the connection")
    state = reader.state
    for container in list(state.containers.values()):
        if container.state == ContainerState.CONTAINER_STOPPED:
            continue  # its cgroup no longer exists
        if container.pid > _MAX_PID:
            dry = f"the engine at {socket} runs with --dry, without containers, so there are no cgroups to compare"
            raise NriError(f"{dry}. Choose a runtime that runs containers with --socket-path")
        yield from desired_values(state.pod_of(container), container, "runtime")


def _agent_values(path: str, timeout_s: float) -> Iterator[DesiredValue]:
    """The values that the agent has written."""
    status, answer = ask(path, "/explain", timeout_s)
    if status != 200:
        raise NriError(f"{path} is not an agent's socket (status {status}): specify the socket with --agent-socket")
    try:
        yield from _pod_values(answer["pods"], path, timeout_s)
    except (AttributeError, LookupError, TypeError) as error:
        reason = f"{path} is not an agent's socket ({error!r})"
        raise NriError(f"{reason}: specify the socket with --agent-socket") from error


def _pod_values(pods: list[dict[str, Any]], path: str, timeout_s: float) -> Iterator[DesiredValue]:
    """The values that the agent has written for these pods."""
    for pod in pods:
        if pod["ended"]:
            continue
        status, account = ask(path, "/explain", timeout_s, {"pod": pod["key"]})
        for row in account["writes"] if status == 200 else ():
            if row["outcome"] not in ("applied", "unchanged"):
                continue
            with suppress(KeyError, ValueError):  # rows for a process, a switch, or a value by device
                value = knob(row["name"]).parse(row["wanted"])
                names = (pod["namespace"], pod["name"], row["container"])
                subject = "/".join(name for name in names if name) or pod["key"]
                if not isinstance(row["target"], str):
                    raise TypeError(f"the target of {row['name']} is not text")
                yield DesiredValue(subject, row["target"], row["name"], value, "agent")


class Setters:
    """Finds the plugin that has set a value, over the admin socket of a runtime that is built on this package."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self._answers = True

    def of(self, change: Change) -> str:
        """Return ``NN-name``, or the source if no plugin has set the value."""
        field, ident = field_of(change.desired.name), change.desired.cgroup.rpartition("/")[2]
        ident = ident.removesuffix(".scope").rpartition("-")[2]
        if not self._answers or change.desired.source != "runtime" or not field:
            return change.desired.source
        try:
            chain = self._client.ask("Why", {"container": ident})
        except NriError as error:
            self._answers = not isinstance(error, ProgramUnreachable)  # any other error is an answer
            return change.desired.source
        with self._client.parsing():
            setters = [step["plugin"] for step in chain["steps"] if step["field"] == field and not step["note"]]
            return setters[-1] if setters and not setters[-1].startswith("(") else change.desired.source


def row_of(change: Change, who: Setters) -> dict[str, Any]:
    """A change as a JSON object, with the plugin that set the value, the plugin that overwrote it, and the time."""
    row = change.to_json()
    row["set_by"] = who.of(change)
    row["by"] = "" if change.found is None else row["by"] or PAST
    row["when"] = _time_text(change)
    return row


def _time_text(change: Change) -> str:
    until = datetime.fromtimestamp(change.until_s, UTC).strftime("%H:%M:%S")
    if not change.after_s:
        return f"before {until}"
    return f"{datetime.fromtimestamp(change.after_s, UTC).strftime('%H:%M:%S')} to {until}"
