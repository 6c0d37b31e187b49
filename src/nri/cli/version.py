"""`nri version`: the versions of everything that matters when something goes wrong."""

from __future__ import annotations

import click

from nri.cli.verb import Settings, Verb


def versions() -> dict[str, str]:
    """This package and whether it is compiled, the NRI it speaks, Python, protobuf and its back end, the kernel."""
    import os
    import platform
    from importlib import metadata

    import google.protobuf
    from google.protobuf.internal import api_implementation

    from nri import wire
    from nri.api.naming import NRI_VERSION

    try:
        own = metadata.version("nri")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        own = "unknown"
    return {
        "nri": own,
        "compiled": "no" if wire.__file__.endswith(".py") else "yes",
        "nri_api": NRI_VERSION,
        "python": platform.python_version(),
        "protobuf": google.protobuf.__version__,
        "protobuf_backend": api_implementation.Type(),
        "kernel": os.uname().release,
        "machine": os.uname().machine,
    }


@click.command(
    cls=Verb, examples=["nri version", "nri version -o json", "nri version -q           # this package's alone"]
)
@click.pass_obj
def command(settings: Settings) -> None:
    """Print the versions of nri, of the NRI API it speaks, of Python, and of protobuf with its back end.

    "compiled" tells whether the hot path is compiled, which makes it faster and changes nothing else.
    """
    out = settings.out
    found = versions()
    if not out.human:
        out.document(found)
    elif out.quiet:
        out.text(found["nri"])
    else:
        width = max(map(len, found))
        for name, value in found.items():
            out.text(f"{name.replace('_', ' '):{width}}  {value}")
