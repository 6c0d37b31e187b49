"""`nri doctor`: everything that keeps plugins from working, found in one go, each with the next step.

Next: `nri.cli.doctor.examination` looks at the machine and judges; this file prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.output import Output, Painted
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
    "nri doctor --root /host                 # from a container that has the host's root there",
    "nri doctor -o json                      # for programs; exits 1 if there is a problem",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option(
    "--root",
    default="/",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Look below this folder instead of /.",
)
@click.pass_obj
def command(settings: Settings, root: str) -> int:
    """Find out why NRI does not work here.

    Checks the runtimes' configuration and contradictions in it, the socket and its permissions, the plugin folder,
    plugins that failed or that the runtime launched and that are gone, protobuf's back end, and versions. Changes
    nothing.

    The exit code is 0 if nothing keeps plugins from working, else 1. With -q: only the problems.
    """
    import os

    from nri.cli.doctor.examination import examine

    findings = examine(settings, os.path.abspath(root))
    out = Output(settings)
    if out.human:
        _print(out, findings)
    else:
        out.document([{"level": f.level, "what": f.what, "where": f.where, "next": f.next} for f in findings])
    return int(any(finding.level == "problem" for finding in findings))


def _print(out: Output, findings: Sequence[Finding]) -> None:
    """Print findings for a person: bad ones stand out, each with its next step below it."""
    for finding in findings:
        if out.quiet and finding.level != "problem":
            continue
        out.text(Painted(f"{finding.level:7}", _STYLE[finding.level]), f"  {finding.where}: {finding.what}")
        if finding.next:
            out.text(f"{'':7}  ", Painted("->", "dim"), f" {finding.next}")
    problems = sum(finding.level == "problem" for finding in findings)
    if not out.quiet:
        words = count(problems, "problem") if problems else "no problems"
        out.text(Painted(words, "red" if problems else "green"))
