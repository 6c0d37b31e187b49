"""`nri record`: record the events of any runtime in files, through a plugin that changes nothing."""

from __future__ import annotations

from typing import Any

import click

from nri.cli.output import Output
from nri.cli.settings import PATH, Settings
from nri.cli.support.recording import OBSERVER, recorded, redact_options
from nri.cli.support.verb import Verb


@click.command(
    cls=Verb,
    examples=[
        "nri record /var/tmp/traces              # record until Ctrl-C; then: nri trace show /var/tmp/traces",
        "nri record /var/tmp/traces --events container --redact none",
    ],
)
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--events", "event_list", metavar="LIST", help="Record only these events: pod, container, or names.")
@redact_options
@click.pass_obj
def command(settings: Settings, /, folder: str, event_list: str | None, **options: Any) -> int:
    """Record all events of this machine's runtime in files in DIR, until stopped. nri trace reads them.

    The command registers as a plugin with index 99, on any runtime with NRI. It records what a plugin can see; the
    answers of other plugins are recorded only by a runtime that is built on this package (nri engine serve --record).

    The exit code is 3 if no runtime answers. If the runtime stops later, the command waits for it.
    """
    from nri.api.naming import DEFAULT_SOCKET
    from nri.cli.verbs.events import events_of, explicit_events
    from nri.stub.program.process import Program
    from nri.trace.watcher import Follower, observer_options

    out = Output(settings)
    socket, timeout_s = settings.socket_path or DEFAULT_SOCKET, settings.timeout_s or 5.0
    observer = observer_options("nri-record", socket, events_of(event_list), timeout_s, quiet=out.quiet)

    def show(text: str, pod: Any, _: Any) -> None:
        if pod is None:  # the plugin is synchronized
            out.note(f"{text}; recording into {folder}")

    with recorded({**options, "record_folder": folder}, OBSERVER) as reporters:
        return Program(Follower(show, explicit_events(event_list)), observer, reporter=reporters[0]).run()
