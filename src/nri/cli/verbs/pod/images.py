"""`nri pod images`, `pull` and `rmi`: list, pull and remove the images of a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb
from nri.text import plain, size

if TYPE_CHECKING:
    from nri.cri.client import CriClient

#: Timeout of a call that waits for a registry, without --timeout.
_PULL_TIMEOUT_S = 1800.0
_COLUMNS = [
    Column("IMAGE", "image"),
    Column("TAG", "tag", 40),
    Column("IMAGE ID", "id", 13, mark=False),
    Column("SIZE", "size"),
    Column("PINNED", "pinned", extra=True),
]


@click.command(
    cls=Verb,
    short_help="list images",
    examples=["nri pod images", "nri pod images busybox -q", "nri pod images -o json | jq '.[].repoTags'"],
)
@click.argument("name", required=False, metavar="[IMAGE]")
@cri_option
@click.pass_obj
def images(settings: Settings, name: str | None, cri_socket: str | None) -> None:
    """List the images of the runtime, or one image by its name, tag, digest or id.

    -q prints only ids; -o json prints everything that the runtime reports.
    """
    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        selected = [_find(cri, name)[1]] if name else _list(cri)
    if not out.human:
        out.document([*map(support.to_document, selected)])
    elif out.quiet:
        out.names(dict.fromkeys(image.id for image in selected))
    else:
        out.table(_COLUMNS, sorted(_rows(selected), key=lambda row: (row["image"], row["tag"])))


@click.command(
    cls=Verb,
    short_help="pull images",
    examples=[
        "nri pod pull docker.io/library/busybox:1.36",
        "nri pod pull registry.example.org/app:1 --creds robot < password",
    ],
)
@click.argument("names", nargs=-1, required=True, metavar="IMAGE...")
@click.option(
    "--creds", metavar="USER[:PASSWORD]", help="The registry's user; without PASSWORD it is read from standard input."
)
@cri_option
@click.pass_obj
def pull(settings: Settings, names: tuple[str, ...], creds: str | None, cri_socket: str | None) -> None:
    """Pull images into the runtime, and print their references.

    Every image is pulled, even if it exists. --timeout limits each pull, 30 minutes by default. Do not write a password
    on the command line of a machine with other users, because they can read it there.
    """
    from nri.cri.pb import api_pb2 as pb
    from nri.errors import RpcError

    out, auth = Output(settings), None
    if creds is not None:
        user, colon, password = creds.partition(":")
        auth = pb.AuthConfig(username=user, password=password if colon else _password())
    with support.connect(settings, cri_socket) as cri:
        for name in names:
            out.progress(f"pulling {name}")
            request = pb.PullImageRequest(image=pb.ImageSpec(image=name), auth=auth)
            try:
                image_ref = cri.call("PullImage", request, settings.timeout_s or _PULL_TIMEOUT_S).image_ref
            except RpcError as error:
                raise Failure(f"image {plain(name)}: {error}", FAILED) from None
            out.progress("")
            _print(out, name, image_ref)


@click.command(
    cls=Verb,
    short_help="remove images",
    examples=["nri pod rmi busybox:1.36", "nri pod rmi --prune              # all images that no container uses"],
)
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option("--prune", is_flag=True, help="Remove all images that no container uses, except pinned images.")
@cri_option
@click.pass_obj
def rmi(settings: Settings, names: tuple[str, ...], prune: bool, cri_socket: str | None) -> None:
    """Remove images by name, tag, digest or id.

    The layers are removed too if an image is removed by id or by its last name. An image that a container uses is not
    removed, because the container could not be started again.
    """
    from nri.cri.pb import api_pb2 as pb

    if bool(names) == prune:
        raise click.UsageError("give either images or --prune")
    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        users = _users(cri)
        if prune:
            selected = {image.id: image for image in _list(cri) if not image.pinned and image.id not in users}
        else:
            selected = dict(_find(cri, name) for name in names)
        for name, image in selected.items():
            if image.id in users:
                raise Failure(f"image {plain(name)} is used by container {users[image.id]}. Remove its pod first")
        for name, image in selected.items():
            cri.call("RemoveImage", pb.RemoveImageRequest(image=pb.ImageSpec(image=name)), _PULL_TIMEOUT_S)
            _print(out, image.repo_tags[0] if prune and image.repo_tags else name, image.id)


def _print(out: Output, name: str, image_id: str) -> None:
    """Print an image that was pulled or removed."""
    if not out.human:
        out.stream({"image": name, "id": image_id})
    elif out.quiet:
        out.names([image_id])
    else:
        out.text(f"{name}: {image_id}")


def _password() -> str:
    """The password from standard input: hidden on a terminal, otherwise the first line."""
    import sys

    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, err=True))
    return sys.stdin.readline(4096).rstrip("\n")


def _list(cri: CriClient) -> list[Any]:
    from nri.cri.pb import api_pb2 as pb

    return list(cri.call("ListImages", pb.ListImagesRequest()).images)


def _find(cri: CriClient, name: str) -> tuple[str, Any]:
    """The image of a name, and the name that the runtime knows. Raises Failure if there is no such image."""
    from nri.cri.pb import api_pb2 as pb

    image = cri.call("ImageStatus", pb.ImageStatusRequest(image=pb.ImageSpec(image=name))).image
    if image.id:
        return name, image
    prefix = name.removeprefix("sha256:")
    matches = {one.id: one for one in _list(cri) if one.id.removeprefix("sha256:").startswith(prefix)}
    if len(matches) != 1:
        reason = f'"{name}" matches several images' if matches else f'no image "{name}"'
        raise Failure(f"{reason}. try: nri pod images", FAILED)
    return next(iter(matches.items()))


def _users(cri: CriClient) -> dict[str, str]:
    """The beginning of the id of a container that uses an image, by the image's id."""
    return {
        container.image_id or container.image_ref or container.image.image: container.id[:13]
        for container in support.list_containers(cri)
    }


def _rows(images_: list[Any]) -> list[dict[str, str]]:
    """A row for each name of an image, as in crictl."""
    rows = []
    for image in images_:
        tags = [tag.rpartition(":")[::2] for tag in image.repo_tags]
        names = tags or [(digest.partition("@")[0], "<none>") for digest in image.repo_digests[:1]] or [("<none>",) * 2]
        common = {"id": image.id.removeprefix("sha256:"), "size": size(image.size).replace(" ", ""),
                  "pinned": image.pinned}  # fmt: skip
        rows += [{"image": repository, "tag": tag, **common} for repository, tag in names]
    return rows
