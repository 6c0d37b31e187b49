"""`nri new`: create a plugin project that is ready to run."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri new pod-name                        # create the project in the folder pod-name",
    "nri new pod-name --idx 50 --folder src/pod-name",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("name")
@click.option(
    "--idx", "-idx", default="10", metavar="NN", help="Position in the order of plugins, 00 to 99. Default: 10."
)
@click.option("--folder", metavar="DIR", type=click.Path(path_type=Path), help="The folder to create. Default: NAME.")
@click.pass_obj
def command(settings: Settings, name: str, idx: str, folder: Path | None) -> None:
    """Create a plugin project: code, test, Containerfile, DaemonSet, systemd unit, pyproject.toml and README.

    NAME is the plugin's name, in lower case with dashes. The project contains a wheel of this version of nri, and
    installs it by its hash, because nri is not on a package index.
    """
    from nri.plugins.project.scaffold import names_of, scaffold

    paths = scaffold(folder or Path(name), name, idx)
    out = Output(settings)
    if not out.human:
        out.document({"folder": str(folder or name), "files": paths})
        return
    for path in paths:
        out.text(path)
    module = names_of(name, idx)["module"]
    out.note("")
    test = "pytest" if find_spec("pytest") else "pip install pytest && pytest"
    place = shlex.quote(str(folder or name))
    out.note(f"next:  cd {place}  and then  {test}  or, as root,  nri run {module}.py --idx {idx}")
