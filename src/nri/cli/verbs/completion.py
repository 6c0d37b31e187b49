"""`nri completion`: print the script with which a shell completes `nri` and its verbs."""

from __future__ import annotations

import os

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = [
    "nri completion bash > /etc/bash_completion.d/nri",
    'nri completion zsh > "${fpath[1]}/_nri"',
    "nri completion fish > ~/.config/fish/completions/nri.fish",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_obj
def command(settings: Settings, shell: str | None) -> None:
    """Print a completion script for bash, zsh or fish. Default: the shell in $SHELL."""
    from click.shell_completion import get_completion_class

    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise click.UsageError(f"unknown shell: use one of {', '.join(SHELLS)}", click.get_current_context())
    kind = get_completion_class(shell)
    assert kind is not None, f"click completes {shell}"
    script = kind(click.get_current_context().find_root().command, {}, "nri", "_NRI_COMPLETE")
    text = script.source_template % script.source_vars()
    out = Output(settings)
    if out.human:
        out.lines(text)
    else:
        out.document({"shell": shell, "script": text})
