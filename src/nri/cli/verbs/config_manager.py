"""`nri config-manager`: turn NRI on in the configuration of containerd, CRI-O, iSulad or Docker Engine."""

from __future__ import annotations

import os

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb
from nri.config.runtimes.change import MANAGED

EXAMPLES = [
    "nri config-manager --dry-run            # show what would change",
    "sudo nri config-manager --restart       # turn NRI on, and restart the runtime if something changed",
    "sudo nri config-manager --nri-plugin-registration-timeout 10s --nri-plugin-request-timeout 5s",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option("--runtime", type=click.Choice(list(MANAGED)), help="The runtime. Default: the one on this machine.")
@click.option(
    "--nri-plugin-registration-timeout",
    default="",
    metavar="TIME",
    help="How long a plugin may take to register. Requires --nri-plugin-request-timeout.",
)
@click.option("--nri-plugin-request-timeout", default="", metavar="TIME",
              help="How long a plugin may take to answer. Requires --nri-plugin-registration-timeout.")  # fmt: skip
@click.option("--file", "path", default="", metavar="FILE",
              help="The runtime's configuration. Default: its usual file.")  # fmt: skip
@click.option("--release", default="", metavar="VERSION", help="The runtime's release. Default: the installed release.")
@click.option("--root", default="/", metavar="DIR", type=click.Path(exists=True, file_okay=False),
              help="The node's root file system; programs are also run inside it. Default: /.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the difference and change nothing.")
@click.option(
    "--restart",
    is_flag=True,
    help="Restart the runtime if its configuration was changed; Docker Engine is only reloaded.",
)
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - click passes a parameter for each option
    settings: Settings,
    runtime: str | None,
    nri_plugin_registration_timeout: str,
    nri_plugin_request_timeout: str,
    path: str,
    release: str,
    root: str,
    dry_run: bool,
    restart: bool,
) -> None:
    """Turn NRI on in the configuration of containerd, CRI-O, iSulad or Docker Engine.

    In containerd's file only NRI's table is changed; before the first change the file is copied to FILE.before-nri.
    For k0s and CRI-O a separate file is written, and for k3s and rke2 if their file imports it; otherwise the template
    of k3s, rke2 and microk8s is changed. In iSulad's daemon.json, enable-cri-v1 is turned on as well, because NRI does
    not work without it. Docker Engine requires --runtime dockerd. If its daemon.json has no socket for plugins,
    one is added.

    Before anything is written, all files are checked against the rules of the runtime's release. If the runtime would
    not start, NRI would not run, or a later file overrides the change, the command fails and changes nothing.

    nri doctor shows the settings in effect on this machine.
    """
    from nri.config.runtimes import change as work

    out = Output(settings)
    root = os.path.abspath(root)
    timeouts = work.Timeouts(nri_plugin_registration_timeout, nri_plugin_request_timeout)
    timeouts.check()
    runtime = runtime or ("containerd" if path else work.detect(root))
    change = work.plan(root, runtime, timeouts, path, release)
    is_changed = change.after != change.before
    if is_changed:
        out.lines(work.unified(change).rstrip("\n"))
    work.check_effect(change, timeouts)
    if is_changed and change.file.caution:
        out.note(change.file.caution)
    if not is_changed:
        out.text(f"{change.file.path}: NRI is on already, nothing to change")
    if dry_run or not is_changed:
        return
    if restart:
        work.check_unit(root, runtime, change.unit)
    backup = work.apply(root, change, timeouts)
    out.text(f"{change.file.path}: written" + (f"; the previous content is in {backup}" if backup else ""))
    if restart:
        out.progress(f"{change.runtime.apply_command}ing {change.unit} ...")
        work.restart(root, change)
        out.text(f"{change.unit}: {change.runtime.apply_command}ed")
    else:
        word = change.runtime.apply_command
        out.text(f"{word} the runtime to apply the change: systemctl {word} {change.unit}")
