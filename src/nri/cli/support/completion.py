"""Shell completion of the names of registered plugins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


def complete_name(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a plugin, with or without an index before it."""
    from click.shell_completion import CompletionItem

    from nri.plugins.registry import names

    index = incomplete[:3] if re.match(r"\d\d-", incomplete) else ""
    return [CompletionItem(index + name) for name in names() if name.startswith(incomplete.removeprefix(index))]


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a plugin, or a file."""
    from click.shell_completion import CompletionItem

    return [*complete_name(ctx, param, incomplete), CompletionItem(incomplete, type="file")]
