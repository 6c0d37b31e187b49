"""`nri disable`: take away what `nri enable` wrote. Never removes anything else."""

from __future__ import annotations

import re
from pathlib import Path

import click

from nri.cli.errors import Failure
from nri.cli.verb import Settings, Verb

EXAMPLES = [
    "nri disable pod-name",
    "nri disable 10-pod-name --purge         # and its drop-in configuration",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("name")
@click.option("--purge", is_flag=True, help="Remove its drop-in configuration too.")
@click.option("--plugin-dir", type=click.Path(path_type=Path), metavar="DIR", help="Default: /opt/nri/plugins.")
@click.option("--config-dir", type=click.Path(path_type=Path), metavar="DIR", help="Default: /etc/nri/conf.d.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.pass_obj
def command(
    settings: Settings, name: str, purge: bool, plugin_dir: Path | None, config_dir: Path | None, dry_run: bool
) -> None:
    """Take a plugin that `nri enable` put there out of the plugin folder again.

    NAME is the plugin's name, with or without its index. A running plugin goes on until the runtime restarts.
    """
    from nri.api.naming import CONFIG_DIR, PLUGIN_DIR

    folder, drop_ins = plugin_dir or Path(PLUGIN_DIR), config_dir or Path(CONFIG_DIR)
    launcher = find(folder, name)
    drop_in = drop_ins / f"{launcher.name}.conf"
    removed = [launcher, *([drop_in] if purge and drop_in.exists() else [])]
    if not dry_run:
        for path in removed:
            path.unlink()
    out = settings.out
    if not out.human:
        out.document({"dry_run": dry_run, "removed": [str(path) for path in removed]})
        return
    for path in removed:
        out.text(f"{'would remove' if dry_run else 'removed'} {path}")
    if drop_in.exists() and not purge:
        out.note(f"its configuration stays: {drop_in} (--purge removes it too)")


def find(folder: Path, name: str) -> Path:
    """The launcher of that name. Failure if there is none, several, or one that is not ours."""
    from nri.cli.plugin_folder import is_ours

    with_index = re.fullmatch(r"\d\d-.+", name) is not None
    present = sorted(path for path in folder.glob("[0-9][0-9]-*") if not path.is_dir()) if folder.is_dir() else []
    found = [path for path in present if (path.name if with_index else path.name[3:]) == name]
    if not found:
        there = ", ".join(path.name for path in present)
        raise Failure(f"{folder}: no plugin {name} there. {f'There are: {there}' if there else 'The folder is empty'}")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise Failure(f"{folder}: several plugins are called {name}: {names}. Say which, with its index")
    if not is_ours(found[0]):
        raise Failure(f"{found[0]}: not written by `nri enable`, so it is not removed. If you are sure: rm {found[0]}")
    return found[0]
