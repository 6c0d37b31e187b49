"""`nri enable`: install a plugin into the runtime's plugin folder, after a test start."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from nri.cli.output import Output
from nri.cli.settings import CONFIG_DIR, FILE, PLUGIN_DIR, Settings
from nri.cli.support.completion import complete_target
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri enable pod_name.py --idx 10",
    "nri enable template --idx 10                    # a bundled plugin: nri plugins list",
    "nri enable pin.py --idx 20 --config pin.yaml    # becomes /etc/nri/conf.d/20-pin.conf",
    "nri enable pod_name.py --idx 10 --dry-run       # only check it, and show what would be written",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("target", metavar="NAME|FILE", shell_complete=complete_target)
@click.option("--idx", "-idx", required=True, metavar="NN", help="Position in the order of plugins, 00 to 99.")
@click.option(
    "--name",
    "-name",
    metavar="NAME",
    help="The plugin's name. Default: the first argument, or the name of FILE without the suffix, with dashes in place "
    "of underscores.",
)
@click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help="The plugin's configuration; the file is copied.",
)
@PLUGIN_DIR
@CONFIG_DIR
@click.option("--dry-run", is_flag=True, help="Check everything, and only show what would be written.")
@click.option(
    "--no-check", is_flag=True, help="Skip the test start, for a plugin that can start only on another machine."
)
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - click gives them by name
    settings: Settings, target: str, idx: str, name: str | None, config: Path | None, plugin_dir: Path | None,
    config_dir: Path | None, dry_run: bool, no_check: bool,
) -> None:  # fmt: skip
    """Install a plugin into the runtime's plugin folder. The runtime launches it at its next start.

    NAME is a bundled plugin, or one that another Python package has registered (nri plugins list). FILE is a Python
    file that ends with MyPlugin.main(), or any other program. nri enable writes a small launcher into the plugin
    folder; the plugin itself is not copied.

    The plugin is first started once for a test, the way a runtime starts it: without PATH, with its configuration. It
    is refused if it does not register within 5 s (--timeout), or cannot use its configuration, because containerd 1.7
    does not start with such a plugin.

    iSulad launches only plugins that have a configuration file, so without --config an empty one is written for it.

    If the runtime here would not launch it, because NRI is off or another folder is configured, the reason is shown.
    """
    from nri.api import naming
    from nri.config.runtimes.plugin_folder import launch_obstacles, requires_config
    from nri.config.source import MAX_BYTES
    from nri.files import read_regular
    from nri.plugins import installation

    folder, drop_ins = plugin_dir or Path(naming.PLUGIN_DIR), config_dir or Path(naming.CONFIG_DIR)
    start, file, own_name = _resolve_target(target)
    file_name = installation.file_name_of(idx, name or own_name)
    installation.refuse_untrusted(file)
    installation.refuse_clash(folder, file_name)
    writes = [(folder, file_name, installation.launcher(start, file_name).encode(), 0o755)]
    if not no_check:
        _check(settings, start, file, writes[0][2], file_name, config, drop_ins)
    if config:
        writes.insert(0, (drop_ins, f"{file_name}.conf", read_regular(config, MAX_BYTES), 0o644))
    elif requires_config("/") and not (drop_ins / f"{file_name}.conf").exists():
        writes.insert(0, (drop_ins, f"{file_name}.conf", b"", 0o644))
    if not dry_run:
        for place, written, content, mode in writes:
            installation.put(place, written, content, mode)
    _print_writes(settings, writes, dry_run)
    if plugin_dir is None:
        for obstacle in launch_obstacles("/", naming.PLUGIN_DIR):
            Output(settings).note(obstacle)


def _resolve_target(target: str) -> tuple[list[str], Path, str]:
    """Return the command that starts the plugin, its file, and its default name."""
    from nri.errors import ConfigError
    from nri.plugins import installation, registry
    from nri.plugins.loader import is_path

    if is_path(target):
        ctx = click.get_current_context()
        file = FILE.convert(target, next(param for param in ctx.command.params if param.name == "target"), ctx)
        return installation.command_of(file.resolve()), file.resolve(), re.sub(r"[_ ]+", "-", file.stem).lower()
    entry = registry.find(target)
    if entry is None:
        raise registry.not_registered(target, or_file=True)
    if not registry.load(entry)._takes_index():
        reason = "a runtime cannot launch this plugin, because it chooses its indices itself"
        raise ConfigError(entry.name, "", f"{reason}. Run it as a service, or in a DaemonSet")
    return *installation.command_of_module(entry.module), entry.name


def _check(
    settings: Settings, start: list[str], file: Path, launcher: bytes, file_name: str, config: Path | None,
    drop_ins: Path,
) -> None:  # fmt: skip
    """Start the plugin once for a test. Failure, with the next step, if it must not be enabled."""
    import logging

    from nri.cli.errors import Failure
    from nri.errors import NriError
    from nri.testing.rehearsal import rehearse

    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if settings.verbose else logging.CRITICAL)
    try:
        rehearse(launcher, file_name, file, config, drop_ins, settings.timeout_s)
    except NriError as error:
        by_hand = shlex.join([*start, "--idx", file_name[:2], *(["--config", str(config)] if config else [])])
        raise Failure(
            f"{error}\nnothing was written: runtimes drop a plugin that fails to start, and containerd 1.7 then "
            f"refuses to start. Try it by hand: {by_hand}. If it can start only on another machine, use --no-check"
        ) from None


def _print_writes(settings: Settings, writes: list[tuple[Path, str, bytes, int]], dry_run: bool) -> None:
    out = Output(settings)
    if not out.human:
        files = [
            {"path": str(place / target), "mode": f"{mode:04o}", "content": content.decode(errors="replace")}
            for place, target, content, mode in writes
        ]
        out.document({"dry_run": dry_run, "files": files})
        return
    if out.quiet:
        out.names(str(place / target) for place, target, _, _ in writes)
        return
    for place, target, content, _ in writes:
        out.text(f"{'would write' if dry_run else 'wrote'} {place / target}")
        if dry_run:
            for line in content.decode(errors="replace").rstrip("\n").split("\n"):
                out.text(f"    {line}")
    from nri.plugins.installation import others_of_index

    folder, file_name = writes[-1][:2]
    same_index = others_of_index(folder, file_name)
    if same_index:
        out.note(
            f"{file_name[:2]} is also the index of {', '.join(same_index)}: the order of these plugins is undefined"
        )
    if not dry_run:
        out.note("restart the runtime to launch the plugin")
