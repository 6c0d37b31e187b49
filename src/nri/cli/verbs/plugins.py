"""`nri plugins`: the plugins that have a name, bundled or registered by other distributions, and what each one takes.

Next: `nri.plugins.registry`, which finds and describes them; `nri.cli.verbs.run` runs one, `nri.cli.verbs.enable`
has the runtime start it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output, Painted
from nri.cli.settings import Settings
from nri.cli.support.completion import complete_name
from nri.cli.support.verb import Verb, VerbGroup
from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

COLUMNS = (Column("NAME", "name"), Column("WHAT IT DOES", "summary"), Column("ANNOTATIONS", "shown", extra=True))


@click.group(
    cls=VerbGroup,
    examples=[
        "nri plugins list",
        "nri plugins show template               # its annotations, flags and configuration",
    ],
)
def command() -> None:
    """Show the plugins that can be run by name: nri run NAME, nri enable NAME --idx NN.

    They come from this package, and from other installed distributions with entry points in the group nri.plugins.
    """


@command.command("list", cls=Verb, examples=["nri plugins list", "nri plugins list -q     # names only"])
@click.pass_obj
def list_(settings: Settings) -> None:
    """List all plugins that have a name, with the annotations that direct them."""
    from nri.plugins.registry import registered

    out = Output(settings)
    rows = [_row(entry) for entry in registered()]
    if not out.human:
        out.document([{key: value for key, value in row.items() if key != "shown"} for row in rows])
        return
    out.table(COLUMNS, rows)


def _row(entry: EntryPoint) -> dict[str, Any]:
    """Describe one plugin in a row; one that cannot be loaded says so in its own."""
    from nri.plugins.registry import describe

    try:
        row = describe(entry)
    except NriError as error:
        return {"name": entry.name, "summary": str(error).partition(": ")[2], "error": str(error)}
    keys = list(row["annotations"])
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return {**row, "shown": keys[0] + more if keys else ""}


@command.command(cls=Verb, examples=["nri plugins show template", "nri plugins show template -o json"])
@click.argument("name", shell_complete=complete_name)
@click.pass_obj
def show(settings: Settings, name: str) -> None:
    """Show a plugin's events, annotations, flags and configuration."""
    from nri.config.listing import Key
    from nri.plugins.registry import describe, find, load, not_registered

    entry = find(name)
    if entry is None:
        raise not_registered(name)
    found = describe(entry)
    out = Output(settings)
    if not out.human:
        out.document(found)
        return
    out.text(Painted(found["name"], "bold"))
    out.lines(found["description"])
    start = {
        f"nri run {entry.name} --idx NN": "beside a runtime, until it is stopped",
        f"nri enable {entry.name} --idx NN": "by the runtime itself, from its next start on",
    }
    if not load(entry)._takes_index():
        start = {f"nri run {entry.name}": "beside a runtime, until it is stopped; a runtime cannot start it"}
    _section(out, "Start it", start)
    _section(out, "Annotations of pods", found["annotations"])
    _section(out, "Flags of its own", found["flags"])
    keys = [Key(**row) for row in found["configuration"]]
    _section(out, "Keys of its configuration", {key.key: f"{key.shape}: {key.meaning.rstrip('.')}" for key in keys})
    parts = {"events": ", ".join(found["events"]), "class": found["class"], "of": found["distribution"]}
    _section(out, "Description", {**parts, "more": found["readme"]})


def _section(out: Output, title: str, rows: Mapping[str, str]) -> None:
    """Print names and texts under a title, if there are any."""
    shown = {name: text for name, text in rows.items() if text}
    if not shown:
        return
    out.text("")
    out.text(Painted(title, "bold"))
    out.pairs(shown, indent="  ")
