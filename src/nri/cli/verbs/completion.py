"""`nri completion`: the script that teaches a shell to complete `nri` and its verbs."""

from __future__ import annotations

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri completion bash > /etc/bash_completion.d/nri",
    'nri completion zsh > "${fpath[1]}/_nri"',
    "nri completion fish > ~/.config/fish/completions/nri.fish",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def command(settings: Settings, shell: str) -> None:
    """Print a completion script for bash, zsh or fish."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click completes {shell}"
    script = kind(click.get_current_context().find_root().command, {}, "nri", "_NRI_COMPLETE")
    Output(settings).text(script.source_template % script.source_vars())
