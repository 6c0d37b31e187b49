"""`nri config-manager`: turn NRI on in the configuration of containerd or CRI-O."""

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
@click.option("--runtime", type=click.Choice(list(MANAGED)), help="Which runtime (default: the one here).")
@click.option(
    "--nri-plugin-registration-timeout",
    default="",
    metavar="TIME",
    help="How long a plugin may take to register. Both timeouts are given, or none.",
)
@click.option("--nri-plugin-request-timeout", default="", metavar="TIME", help="How long a plugin may take to answer.")
@click.option("--file", "path", default="", metavar="FILE", help="containerd's configuration, if elsewhere.")
@click.option("--release", default="", metavar="VERSION", help="The runtime's release (default: that of its program).")
@click.option("--root", default="/", metavar="DIR", type=click.Path(exists=True, file_okay=False),
              help="Where the node's root is (default /); programs are run there, too.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the difference, and change nothing.")
@click.option("--restart", is_flag=True, help="Restart the runtime if something was changed.")
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - click passes one for each option
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
    """Turn NRI on in the configuration of containerd or CRI-O.

    containerd's file keeps every byte but those of NRI's table; the first time, a copy of the old one is kept next to
    it, with .before-nri at the end of its name. For k3s, rke2 and microk8s the template is changed out of which the
    file is made, for k0s and CRI-O a separate file is written.

    Before anything is written, all files are judged by the rules of the runtime's release. If it would not start, or
    NRI would not run, or a later file overrules the change, that is an error, and nothing is written.

    `nri doctor` shows which settings are in force on this machine.
    """
    from nri.config.runtimes import change as work

    out = Output(settings)
    root = os.path.abspath(root)
    timeouts = work.Timeouts(nri_plugin_registration_timeout, nri_plugin_request_timeout)
    timeouts.check()
    if path and runtime == "crio":
        raise click.UsageError("--file is for containerd; for CRI-O a separate file is written")
    runtime = runtime or ("containerd" if path else work.detect(root))
    change = work.plan(root, runtime, timeouts, path, release)
    is_changed = change.after != change.before
    if is_changed:
        out.lines(work.unified(change).rstrip("\n"))
    work.check_effect(change, timeouts)
    if not is_changed:
        out.text(f"{change.file.path}: NRI is on, nothing to change")
    if dry_run or not is_changed:
        return
    if restart:
        work.check_unit(root, runtime, change.unit)
    copy = work.apply(root, change, timeouts)
    out.text(f"{change.file.path}: written" + (f"; the old content is in {copy}" if copy else ""))
    if restart:
        out.progress(f"restarting {change.unit} ...")
        work.restart(root, change)
        out.text(f"{change.unit}: restarted")
    else:
        out.text(f"takes effect when the runtime is restarted: systemctl restart {change.unit}")
