"""The options of `nri trace` that choose events: --pod, --container, --plugin, --event, --since, --errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nri.trace.history import Event


def parse_time(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Parse a time in the format of `nri trace show` to nanoseconds since 1970; without a time zone it is UTC."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
        seconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() // 1)
    except (ValueError, OverflowError):
        reason = f"{value!r} is not a time; write it as 2026-01-31T08:00:00Z, or 2026-01-31 for its first second"
        raise click.BadParameter(reason) from None
    return max(seconds * 10**9 + time.microsecond * 1000, 0)


def _event_names(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[str] | None:
    """Parse a list of events as `nri events --events` does. Synchronize has a record as well."""
    if value is None:
        return None
    from nri.api.events import EventMask

    words = [word.strip() for word in value.split(",")]
    syncs = {word for word in words if word.lower() == "synchronize"}
    try:
        mask = EventMask.parse(*(word for word in words if word not in syncs)) if len(syncs) < len(words) else ()
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return frozenset(spec.rpc for spec in mask) | {"Synchronize" for _ in syncs}


POD = click.option("--pod", metavar="NAME", help="Only events of this pod or container: name, NAMESPACE/NAME, or id.")
SINCE = click.option(
    "--since",
    callback=parse_time,
    metavar="TIME",
    help="Only events that started at this time (UTC) or later, for example 2025-01-31T12:00:00.",
)
_OPTIONS = (
    POD,
    click.option("--container", metavar="NAME", help="Only events of this container: name or id."),
    click.option("--plugin", metavar="NAME", help="Only events that called this plugin: name or NN-name."),
    click.option(
        "--event",
        "event_names",
        callback=_event_names,
        metavar="LIST",
        help="Only these events: names, or all events of pods (pod) or of containers (container).",
    ),
    SINCE,
    click.option("--errors", is_flag=True, help="Only events that failed, or in which a plugin failed."),
)


def event_filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a verb, which passes their values to `selected`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selected(
    events: Iterable[Event],
    *,
    pod: str | None,
    container: str | None,
    plugin: str | None,
    event_names: frozenset[str] | None,
    since: int | None,
    errors: bool,
) -> Iterator[Event]:
    """Yield the events that all options select; None and False select every event."""
    for event in events:
        if (
            (pod is None or event.names(pod))
            and (container is None or _is_container(event, container))
            and (plugin is None or any(is_plugin(step.plugin, plugin) for step in event.steps))
            and (event_names is None or event.name in event_names)
            and (since is None or event.began_ns >= since)
            and (not errors or _has_error(event))
        ):
            yield event


def _is_container(event: Event, text: str) -> bool:
    container = event.container
    return container is not None and bool(text) and (text == container.name or container.id.startswith(text))


def is_plugin(label: str, text: str) -> bool:
    """Whether a text is a plugin's ``NN-name`` or its name."""
    return text in (label, label.partition("-")[2])


def _has_error(event: Event) -> bool:
    return event.error is not None or any(step.error is not None or step.refused is not None for step in event.steps)
