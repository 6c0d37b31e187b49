"""`nri enable`: have the runtime launch a plugin at its next start. Next: `nri.cli.support.plugin_folder` writes."""

from __future__ import annotations

import re
from pathlib import Path

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri enable pod_name.py --idx 10",
    "nri enable pin.py --idx 20 --config pin.yaml    # becomes /etc/nri/conf.d/20-pin.conf",
    "nri enable pod_name.py --idx 10 --dry-run       # only say what would be written",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--idx", "-idx", required=True, metavar="NN", help="Place in the order of plugins, 00 to 99.")
@click.option("--name", "-name", metavar="NAME", help="The plugin's name; default: the file's, with dashes.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Its configuration, copied word for word.",
)
@click.option("--plugin-dir", type=click.Path(path_type=Path), metavar="DIR", help="Default: /opt/nri/plugins.")
@click.option("--config-dir", type=click.Path(path_type=Path), metavar="DIR", help="Default: /etc/nri/conf.d.")
@click.option("--dry-run", is_flag=True, help="Check everything and show what would be written.")
@click.pass_obj
def command(
    settings: Settings, file: Path, idx: str, name: str | None, config: Path | None, plugin_dir: Path | None,
    config_dir: Path | None, dry_run: bool,
) -> None:  # fmt: skip
    """Let the runtime launch a plugin from its next start on.

    FILE is a Python file that ends with MyPlugin.main(), or any other program. A small launcher for it, with this
    Python's absolute path, is put into the plugin folder; FILE itself stays where it is.
    """
    from nri.api.naming import CONFIG_DIR, PLUGIN_DIR
    from nri.cli.support import plugin_folder

    folder, drop_ins = plugin_dir or Path(PLUGIN_DIR), config_dir or Path(CONFIG_DIR)
    file_name = plugin_folder.file_name_of(idx, name or re.sub(r"[_ ]+", "-", file.stem).lower())
    file = file.resolve()
    start = plugin_folder.command_of(file)
    plugin_folder.refuse_untrusted(file)
    plugin_folder.refuse_clash(folder, file_name)
    writes = [(folder, file_name, plugin_folder.launcher(start, file_name).encode(), 0o755)]
    if config:
        writes.insert(0, (drop_ins, f"{file_name}.conf", config.read_bytes(), 0o644))
    if not dry_run:
        for place, target, content, mode in writes:
            plugin_folder.put(place, target, content, mode)
    _tell(settings, writes, dry_run)


def _tell(settings: Settings, writes: list[tuple[Path, str, bytes, int]], dry_run: bool) -> None:
    out = Output(settings)
    if not out.human:
        files = [
            {"path": str(place / target), "mode": f"{mode:04o}", "content": content.decode(errors="replace")}
            for place, target, content, mode in writes
        ]
        out.document({"dry_run": dry_run, "files": files})
        return
    for place, target, content, _ in writes:
        out.text(f"{'would write' if dry_run else 'wrote'} {place / target}")
        if dry_run:
            out.text("".join(f"    {line}\n" for line in content.decode(errors="replace").splitlines()).rstrip("\n"))
    if not dry_run:
        out.note("runtimes look into this folder when they start: restart yours to launch the plugin")
