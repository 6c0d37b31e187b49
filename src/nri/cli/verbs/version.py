"""`nri version`: print the versions of everything. Next: `nri.cli.support.versions` knows them."""

from __future__ import annotations

import click

from nri.cli.output import Output, cell
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb


@click.command(
    cls=Verb, examples=["nri version", "nri version -o json", "nri version -q           # only the version of nri"]
)
@click.pass_obj
def command(settings: Settings) -> None:
    """Print the versions of nri, of the NRI API it speaks, of Python, and of protobuf with its back end.

    "compiled" tells whether the hot path is compiled, which makes it faster and changes nothing else.
    """
    from nri.cli.support.versions import versions

    out = Output(settings)
    found = versions()
    if not out.human:
        out.document(found)
    elif out.quiet:
        out.text(str(found["nri"]))
    else:
        out.pairs({name.replace("_", " "): cell(value) for name, value in found.items()})
