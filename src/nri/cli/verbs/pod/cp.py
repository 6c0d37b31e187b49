"""`nri pod cp`: copy files to and from a container."""

from __future__ import annotations

from typing import NamedTuple

import click

from nri.cli.errors import Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb
from nri.cli.verbs.pod.streams import stream_client
from nri.text import count


class _Location(NamedTuple):
    """SOURCE or TARGET: a path in the container that `container` names, or a local path if `container` is ""."""

    container: str
    path: str


def _parse_location(text: str) -> _Location:
    """Parse SOURCE or TARGET. As in kubectl, a text that begins with "." or "/" is a local path."""
    name, colon, path = text.partition(":")
    if not colon or text.startswith((".", "/")):
        return _Location("", text)
    if not name or not path:
        raise click.UsageError(f"{text}: write POD:PATH, or ./{text} for a local file")
    return _Location(name, path)


@click.command(
    cls=Verb,
    short_help="copy files to and from a container",
    examples=[
        "nri pod cp web:/etc/nginx ./nginx       # from the container",
        "nri pod cp index.html web:/srv/ -c app  # into it",
        "nri pod cp shop/web/app:/var/log/app.log .",
    ],
)
@click.argument("source")
@click.argument("target_path", metavar="TARGET")
@click.option(
    "--max-size",
    type=click.IntRange(min=1),
    default=4096,
    metavar="MIB",
    help="The maximum number of MiB to copy from a container. Default: 4096.",
)
@support.target_options(support.container_option)
@click.pass_obj
def cp(settings: Settings, source: str, target_path: str, max_size: int, container_name: str, target: Target) -> None:
    """Copy a file or a folder from a container to this machine, or into a container, like kubectl cp and cp -r.

    One of SOURCE and TARGET is CONTAINER:PATH; CONTAINER has the same forms as in nri pod exec. If TARGET is an
    existing folder, the copy is created in it. The image must contain tar. From a container, only files and folders
    below TARGET are written; symbolic links and special files are skipped, and modes are kept without setuid and
    setgid.
    """
    origin, destination = _parse_location(source), _parse_location(target_path)
    if bool(origin.container) == bool(destination.container):
        raise click.UsageError("one of SOURCE and TARGET must be in a container: POD:PATH")
    stream_client()
    from nri.pods.copying import copy_from, copy_to

    out = Output(settings)
    with target.connect(settings) as runtime:
        container = runtime.running_container(origin.container or destination.container, container_name)
        if destination.container:
            copy_to(runtime.cri, container.id, origin.path, destination.path, out.note)
            return
        files = copy_from(runtime.cri, container.id, origin.path, destination.path, max_size << 20, out.note)
    if not files:
        raise Failure(f"{source}: nothing was copied: it has no regular files")
    out.note(count(files, "file") + " copied")
