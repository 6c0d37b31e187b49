"""`nri version`: print the versions of this package and of what it runs on."""

from __future__ import annotations

import click

from nri.cli.output import Output, cell
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

#: Labels that are not the names of the JSON document.
_LABELS = {"nri_api": "NRI release"}


@click.command(
    cls=Verb, examples=["nri version", "nri version -o json", "nri version -q           # only the version of nri"]
)
@click.pass_obj
def command(settings: Settings) -> None:
    """Print the versions of nri, Python, protobuf and the kernel, and the NRI release that nri implements.

    "compiled" shows whether the time-critical modules are compiled, which makes them faster and changes nothing else.
    """
    from nri.cli.support.versions import versions

    out = Output(settings)
    version_by_name = versions()
    if not out.human:
        out.document(version_by_name)
    elif out.quiet:
        out.text(str(version_by_name["nri"]))
    else:
        out.pairs({_LABELS.get(name, name.replace("_", " ")): cell(value) for name, value in version_by_name.items()})
