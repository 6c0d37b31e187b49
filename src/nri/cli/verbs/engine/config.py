"""`nri config`: the engine's settings as they are in force, each with the place that it came from; and all keys.

Next: `nri.engine.config`, which reads them.
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
    examples=["nri config show --effective", "nri config keys", "nri config show --config /etc/containerd/config.toml"],
)
def config() -> None:
    """Show the engine's settings and explain its configuration file.

    The later over the earlier: defaults; the files, /etc/nri/engine.toml unless others are named; the environment
    (NRI_ENGINE_CONFIG, NRI_ENGINE_SOCKET, NRI_ENGINE_LOG_LEVEL, NRI_SOCKET); flags. The file is TOML; unknown keys are
    errors. Of containerd's config.toml and iSulad's daemon.json the settings of NRI are taken as they are there.
    """


@config.command(
    cls=Verb,
    short_help="show the settings in force, and where each was set",
    examples=[
        "nri config show                         # what files, environment and flags say",
        "nri config show --effective             # every setting, and where it came from",
        "nri config show --effective -o json | jq '.[] | select(.from != \"default\")'",
        "nri config show --config /etc/isulad/daemon.json",
    ],
)
@click.option("--effective", is_flag=True, help="Defaults as well: every setting that the engine would have.")
@engine_options
@click.pass_obj
def show(settings: Settings, /, effective: bool, **options: Any) -> None:
    """Show the settings that the engine would start with, and where each was set.

    Exits with 2 if it would not start with them, and says every mistake with its line.
    """
    loaded = load(settings, options)
    from nri.config.listing import DEFAULT, rows

    out = Output(settings)
    found = [
        {"key": row.key, "value": _written(row.value) if out.human else row.value, "from": row.origin}
        for row in rows(loaded.config, loaded.origins)
        if effective or row.origin != DEFAULT
    ]
    for note in loaded.notes:
        out.note(f"note: {note}")
    if not found and out.human:
        out.note("nothing is set: the engine has its defaults; --effective shows them")
        return
    out.table([Column("KEY", "key"), Column("VALUE", "value"), Column("FROM", "from")], found)


@config.command(
    cls=Verb,
    short_help="list every key with its default and meaning",
    examples=["nri config keys", "nri config keys nri.", "nri config keys -o json"],
)
@click.argument("prefix", default="")
@click.pass_obj
def keys(settings: Settings, prefix: str) -> None:
    """List every key of engine.toml, with its default and meaning; with PREFIX those that begin with it.

    A key is written as in TOML: nri.socket_path is socket_path in the table [nri].
    """
    from nri.cli.errors import USAGE, Failure
    from nri.engine.config import config_keys

    found = [key._asdict() for key in config_keys() if key.key.startswith(prefix)]
    if not found:
        raise Failure(f'no key begins with "{prefix}". try: nri config keys', USAGE)
    columns = [Column("KEY", "key"), Column("TYPE", "kind"), Column("DEFAULT", "default"), Column("MEANING", "meaning")]
    Output(settings).table(columns, found)


def _written(value: Any) -> Any:
    """A value for a table, with true and false as the file has them."""
    return str(value).lower() if isinstance(value, bool) else value


command = config
