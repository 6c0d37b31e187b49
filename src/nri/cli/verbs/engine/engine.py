"""`nri engine`: the container engine with NRI in it, in the foreground; and whether this machine has what it needs.

Next: `nri.cli.support.engine.process` runs it, `nri.engine.check` looks at the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.engine.options import engine_options, load
from nri.cli.support.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from typing import Any


@click.group(
    cls=VerbGroup,
    examples=["nri engine check", "sudo nri engine serve", "nri engine unit > nri-engine.service"],
)
def engine() -> None:
    """Run a CRI container engine with NRI in it, over runc or crun; a kubelet can drive it.

    Its settings are explained by nri config keys.
    """


@engine.command(
    cls=Verb,
    short_help="run it in the foreground, until it is told to stop",
    examples=[
        "sudo nri engine serve                   # with /etc/nri/engine.toml, if it is there",
        "sudo nri engine serve --config engine.toml --socket /run/my.sock -v",
        "kubelet --container-runtime-endpoint=unix:///run/nri-engine/engine.sock ...",
    ],
)
@engine_options
@click.pass_obj
def serve(settings: Settings, /, **options: Any) -> int:
    """Run the engine in the foreground until SIGTERM or Ctrl-C; containers run on, and the next start finds them.

    Its log goes to standard error: -v says more, --log-format json writes objects. When it is ready it says so in one
    line, and to systemd if that started it. --socket-path is where plugins connect.

    Exits with 0 after SIGTERM, with 130 after Ctrl-C, with 1 if it cannot start, with 2 for mistakes in its settings.
    """
    from nri.cli.support.engine.process import serve as run

    return run(settings, load(settings, options))


@engine.command(
    cls=Verb,
    short_help="see what it needs here, and what to do about it",
    examples=[
        "sudo nri engine check",
        "sudo nri engine check -q                # what is missing, and nothing else",
        "sudo nri engine check -o json | jq '.[] | select(.state == \"missing\")'",
    ],
)
@engine_options
@click.pass_obj
def check(settings: Settings, /, **options: Any) -> int:
    """Look for everything that the engine needs here, and say what to do about what is missing.

    OCI runtimes, conmon, skopeo, umoci, networks of pods, overlayfs, cgroups, namespaces, capabilities, sockets; each
    where the engine's settings have it. Changes nothing. Exits with 1 if something is missing.
    """
    loaded = load(settings, options)
    from nri.engine.check import examine

    rows = examine(loaded.config)
    gone = [row for row in rows if row.state == "missing"]
    out = Output(settings)
    for note in loaded.notes:
        out.note(f"note: {note}")
    if not out.human:
        out.document([row._asdict() for row in rows])
    elif out.quiet:
        out.names(f"{row.what}: {row.found}; {row.next}" for row in gone)
    else:
        columns = [Column("WHAT", "what"), Column("STATE", "state"), Column("FOUND", "found")]
        out.table(columns, [row._asdict() for row in rows])
        _next_steps(out, rows)
        words = {0: "nothing is missing", 1: "1 thing is missing"}
        out.text("", *([words.get(len(gone), f"{len(gone)} things are missing")]))
    return int(bool(gone))


@engine.command(
    cls=Verb,
    short_help="print a systemd unit that runs it",
    examples=[
        "nri engine unit | sudo tee /etc/systemd/system/nri-engine.service",
        "sudo systemctl daemon-reload && sudo systemctl enable --now nri-engine",
    ],
)
@click.pass_obj
def unit(settings: Settings) -> None:
    """Print a systemd unit that runs the engine of this installation.

    systemd is told when it is ready, and containers run on when it is restarted.
    """
    from nri.cli.support.engine.unit import unit_text

    out, text = Output(settings), unit_text()
    if out.human:
        out.lines(text.rstrip("\n"))
    else:
        out.document({"unit": text})


def _next_steps(out: Output, rows: Any) -> None:
    """Print what to do, the worst first."""
    steps = [row for state in ("missing", "limited") for row in rows if row.state == state and row.next]
    if steps:
        out.text("")
        out.text("Next steps:")
    for row in steps:
        out.text(f"  {row.what} ({row.state}): {row.next}")
    out.text("")


command = engine
