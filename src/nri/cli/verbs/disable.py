"""`nri disable`: remove the files that `nri enable` wrote, and no others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri.cli.output import Output
from nri.cli.settings import CONFIG_DIR, PLUGIN_DIR, Settings
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXAMPLES = [
    "nri disable pod-name",
    "nri disable 10-pod-name --purge         # also remove its drop-in configuration",
]


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of installed plugins."""
    from click.shell_completion import CompletionItem

    from nri.api import naming
    from nri.plugins.installation import launched

    try:
        file_names = launched(ctx.params.get("plugin_dir") or Path(naming.PLUGIN_DIR))
    except OSError:
        return []
    names = [name for file in file_names for name in (file[3:], file)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("name", shell_complete=_complete)
@click.option("--purge", is_flag=True, help="Also remove the plugin's configuration.")
@PLUGIN_DIR
@CONFIG_DIR
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.pass_obj
def command(
    settings: Settings, name: str, purge: bool, plugin_dir: Path | None, config_dir: Path | None, dry_run: bool
) -> None:
    """Remove from the plugin folder a plugin that nri enable installed.

    NAME is the plugin's name, with or without its index. A running plugin keeps running until the runtime restarts.
    --purge also removes its configuration, even if the plugin was disabled earlier.
    """
    from nri.api import naming
    from nri.errors import NriError
    from nri.plugins.installation import find, find_left_over, not_there

    folder, drop_ins = plugin_dir or Path(naming.PLUGIN_DIR), config_dir or Path(naming.CONFIG_DIR)
    launcher = find(folder, name)
    drop_in = drop_ins / f"{launcher.name}.conf" if launcher else find_left_over(folder, drop_ins, name)
    removed = [path for path in (launcher, drop_in if purge else None) if path is not None and os.path.lexists(path)]
    if not removed:
        error = not_there(folder, name)
        hint = f". Its configuration still exists: {drop_in} (--purge removes it)" if drop_in else ""
        raise NriError(f"{error}{hint}")
    if not dry_run:
        for path in removed:
            path.unlink()
    out = Output(settings)
    if not out.human:
        out.document({"dry_run": dry_run, "removed": [str(path) for path in removed]})
        return
    if out.quiet:
        out.names(map(str, removed))
        return
    for path in removed:
        out.text(f"{'would remove' if dry_run else 'removed'} {path}")
    if drop_in is not None and drop_in.exists() and not purge:
        out.note(f"the configuration of plugin {name} was kept: {drop_in} (--purge removes it)")
