"""`nri plugins`: list bundled and registered plugins, and describe a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output, PaintedText
from nri.cli.settings import Settings
from nri.cli.support.completion import complete_name
from nri.cli.support.verb import Verb, VerbGroup
from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

COLUMNS = (Column("NAME", "name"), Column("WHAT IT DOES", "summary"), Column("ANNOTATIONS", "shown"))


@click.group(
    cls=VerbGroup,
    examples=[
        "nri plugins list",
        "nri plugins show template               # annotations, flags and configuration of a plugin",
    ],
)
def command() -> None:
    """Show the plugins that can be used by name in nri run and nri enable.

    They are bundled with this package, or registered by other installed distributions in the entry point group
    nri.plugins.
    """


@command.command("list", cls=Verb, examples=["nri plugins list", "nri plugins list -q     # names only"])
@click.pass_obj
def list_(settings: Settings) -> None:
    """List bundled and registered plugins, with the pod annotations that they read."""
    from nri.plugins.registry import registered

    out = Output(settings)
    rows = [_row(entry) for entry in registered()]
    if not out.human:
        out.document([{key: value for key, value in row.items() if key != "shown"} for row in rows])
        return
    out.fit()
    out.table(COLUMNS, rows)


def _row(entry: EntryPoint) -> dict[str, Any]:
    """Describe a plugin in a row. If the plugin cannot be loaded, the row has the error."""
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
    description = describe(entry)
    out = Output(settings)
    if not out.human:
        out.document(description)
        return
    out.text(PaintedText(description["name"], "bold"))
    out.lines(description["description"])
    start = {
        f"nri run {entry.name} --idx NN": "as a separate process, until it is stopped",
        f"nri enable {entry.name} --idx NN": "by the runtime, at each of its starts",
    }
    if not load(entry)._takes_index():
        start = {f"nri run {entry.name}": "as a separate process, until it is stopped; a runtime cannot launch it"}
    _section(out, "Start it", start)
    _section(out, "Annotations of pods", description["annotations"])
    _section(out, "Flags", description["flags"])
    keys = [Key(**row) for row in description["configuration"]]
    _section(out, "Configuration keys", {key.key: f"{key.shape}: {key.meaning.rstrip('.')}" for key in keys})
    parts = {
        "events": ", ".join(description["events"]),
        "class": description["class"],
        "of": description["distribution"],
    }
    _section(out, "Description", {**parts, "more": description["readme"]})


def _section(out: Output, title: str, rows: Mapping[str, str]) -> None:
    """Print names and texts under a title; prints nothing without rows."""
    shown = {name: text for name, text in rows.items() if text}
    if not shown:
        return
    out.text("")
    out.text(PaintedText(title, "bold"))
    out.pairs(shown, indent="  ")
