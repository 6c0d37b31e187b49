"""`nri record`: what happens on any runtime, into files, by a plugin that changes nothing.

Rules: the plugin answers at once and with nothing; the recorder writes beside it. A recording by a plugin holds what a
plugin sees, which is less than what a runtime knows, and says so. Next: `nri.cli.support.recording`.
"""

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
        "nri record /var/tmp/traces              # until Ctrl-C; then: nri trace show /var/tmp/traces",
        "nri record /var/tmp/traces --events container --redact none",
    ],
)
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--events", "wanted", metavar="LIST", help="Only these events: pod, container, or names.")
@redact_options
@click.pass_obj
def command(settings: Settings, /, folder: str, wanted: str | None, **options: Any) -> int:
    """Record every event of the runtime on this machine in files in DIR, until stopped; nri trace reads them.

    It registers as a plugin with index 99, after all others, on any runtime with NRI: so it sees containers as others
    left them where the runtime shows that, and never what another plugin has answered. A runtime that is built on this
    package records all of it: nri engine serve --record. If the runtime goes away, it waits until it is back; if
    there is none at the start, the exit code is 3.
    """
    from nri.api.naming import DEFAULT_SOCKET
    from nri.cli.verbs.events import events_of, named_in
    from nri.stub.program.process import Program
    from nri.trace.watcher import Follower, observer_options

    out = Output(settings)
    socket, timeout_s = settings.socket_path or DEFAULT_SOCKET, settings.timeout_s or 5.0
    watching = observer_options("nri-record", socket, events_of(wanted), timeout_s, quiet=out.quiet)

    def show(text: str, pod: Any, _: Any) -> None:
        if pod is None:  # it takes part
            out.note(f"{text}; recording into {folder}")

    with recorded({**options, "record_folder": folder}, OBSERVER) as reporters:
        return Program(Follower(show, named_in(wanted)), watching, reporter=reporters[0]).run()
