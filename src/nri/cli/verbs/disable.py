"""`nri disable`: remove the files that `nri enable` wrote, and never any other.

Next: `nri.plugins.installation`, which knows those files.
"""

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
    "nri disable 10-pod-name --purge         # and its drop-in configuration, now or later",
]


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete what is in the plugin folder."""
    from click.shell_completion import CompletionItem

    from nri.api import naming
    from nri.plugins.installation import launched

    try:
        there = launched(ctx.params.get("plugin_dir") or Path(naming.PLUGIN_DIR))
    except OSError:
        return []
    names = [name for file in there for name in (file[3:], file)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("name", shell_complete=_complete)
@click.option("--purge", is_flag=True, help="Remove its configuration in the folder of configuration, too.")
@PLUGIN_DIR
@CONFIG_DIR
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.pass_obj
def command(
    settings: Settings, name: str, purge: bool, plugin_dir: Path | None, config_dir: Path | None, dry_run: bool
) -> None:
    """Take a plugin that `nri enable` installed out of the plugin folder again.

    NAME is the plugin's name, with or without its index. A running plugin runs on until the runtime restarts. With
    --purge, its configuration is removed as well, even if the plugin was disabled earlier.
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
        hint = f". Its configuration is still there: {drop_in} (--purge removes it)" if drop_in else ""
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
        out.note(f"its configuration stays: {drop_in} (--purge removes it too)")
