"""`nri doctor`: print everything that keeps plugins from working, with the next steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.output import Output, PaintedText
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.doctor import Finding

_STYLE = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}

EXAMPLES = [
    "nri doctor",
    "nri doctor --socket-path /run/k3s/nri.sock",
    "nri doctor --root /host                 # in a container where the host's root is mounted at /host",
    "nri doctor --root ./copy --release 2.1.9   # a copy of another machine's /etc",
    "nri doctor -o json                      # for programs; exit code 1 if there is a problem",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option(
    "--root",
    default="/",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Examine the file system below this folder instead of /.",
)
@click.option(
    "--release", default="", metavar="VERSION", help="containerd's release. Default: the running daemon's release."
)
@click.option(
    "--file", "path", default="", metavar="FILE", help="containerd's configuration. Default: all known files."
)
@click.pass_obj
def command(settings: Settings, root: str, release: str, path: str) -> int:
    """Find out why NRI does not work on this machine.

    Checks the configuration of runtimes, the socket and its permissions, the plugin folder, plugins that have failed
    or ended, the back end of protobuf, and versions. Changes nothing.

    containerd's files are checked together, against the rules of containerd's release. The release is --release, or the
    release of the running daemon, its program or its package. If the release is not known, the findings of all releases
    are shown, with the releases that differ. The files of k3s, rke2, k0s, microk8s and rootless containerd are found as
    well.

    The exit code is 1 if there is a problem, and 0 otherwise. -q prints only problems.
    """
    import os

    from nri.cli.doctor.examination import examine
    from nri.versions import parse_version

    _check_file(path)
    if release and parse_version(release) is None:
        raise click.UsageError(f'--release: "{release}" is not a version; write it as 2.1.9')
    findings = examine(settings, os.path.abspath(root), release, path and os.path.abspath(path))
    out = Output(settings)
    if out.human:
        _print(out, findings)
    else:
        out.document([{"level": f.level, "what": f.what, "where": f.where, "next": f.next} for f in findings])
    return int(any(finding.level == "problem" for finding in findings))


def _check_file(path: str) -> None:
    """Raise UsageError if a file has the name of a template, or of another runtime's configuration."""
    from nri.config.runtimes import containerd
    from nri.config.runtimes.registry import RUNTIMES

    name = path.rpartition("/")[2]
    if name.endswith((".tmpl", ".tpl", ".j2")):
        raise click.UsageError(f"--file: {name} is a template; specify the file that is generated from it")
    titles = [row.title for row in RUNTIMES if row is not containerd.RUNTIME and row.path.endswith(f"/{name}")]
    if name and titles:
        raise click.UsageError(
            f"--file: {name} is a file of {' or '.join(titles)}, but --file is for containerd; "
            "omit --file, and specify the root folder of a copy with --root"
        )


def _print(out: Output, findings: Sequence[Finding]) -> None:
    """Print findings, coloured by level, each with its next step below it."""
    for finding in findings:
        if out.quiet and finding.level != "problem":
            continue
        out.text(PaintedText(f"{finding.level:7}", _STYLE[finding.level]), f"  {finding.where}: {finding.what}")
        if finding.next:
            out.text(f"{'':7}  ", PaintedText("->", "dim"), f" {finding.next}")
    problems = sum(finding.level == "problem" for finding in findings)
    if not out.quiet:
        summary = count(problems, "problem") if problems else "no problems"
        out.text(PaintedText(summary, "red" if problems else "green"))
