"""The ImageService: list, pull and remove images, and report the disk space that they take."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence

from nri.cri.client import ARCHIVE_KEY
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, chunks
from nri.engine.images import Credentials, Image, ImageStore, parse_reference
from nri.engine.images.pinned import is_pinned
from nri.engine.spec import parse_id
from nri.engine.support.errors import CommandFailed, EngineError, NotFound
from nri.errors import RequestError
from nri.files import Usage

#: How the kubelet recognizes an error of the registry (k8s.io/cri-api/pkg/errors), and skopeo's texts for it.
UNREACHABLE = "RegistryUnavailable"
_UNREACHABLE = re.compile(r"connection refused|no such host|i/o timeout|no route to host|network is unreachable")


class ImageCalls:
    """The calls on the images of one store. `pinned` are the patterns of `is_pinned`."""

    def __init__(self, store: ImageStore, pinned: Sequence[str] = ()) -> None:
        self._store, self._pinned = store, pinned

    def list_images(self, request: pb.ListImagesRequest, call: Call) -> pb.ListImagesResponse:
        """All images, or the filter's image."""
        return pb.ListImagesResponse(images=self._list(request.filter))

    def stream_images(self, request: pb.StreamImagesRequest, call: Call) -> Iterator[pb.StreamImagesResponse]:
        """Stream the list of images."""
        for images in chunks(self._list(request.filter)):
            yield pb.StreamImagesResponse(images=images)

    def image_status(self, request: pb.ImageStatusRequest, call: Call) -> pb.ImageStatusResponse:
        """The status of an image; an empty answer if it does not exist, as the kubelet expects."""
        try:
            image = self._store.get(_image_name(request.image))
        except NotFound:
            return pb.ImageStatusResponse()
        info = {"info": json.dumps({"imageSpec": {"config": image.config}})} if request.verbose else {}
        return pb.ImageStatusResponse(image=image_message(image, self._pinned), info=info)

    def pull_image(self, request: pb.PullImageRequest, call: Call) -> pb.PullImageResponse:
        """Pull an image; the answer is its id, by which CreateContainer may name it.

        The client may name an archive of this machine instead, in the call's metadata, which no pod can set.
        """
        name, archive = _image_name(request.image), call.metadata(ARCHIVE_KEY)
        if archive:
            return pb.PullImageResponse(image_ref=self._store.load(os.fsdecode(archive), name).id)
        credentials = credentials_for(request.auth, parse_reference(name).domain) if request.HasField("auth") else None
        try:
            return pb.PullImageResponse(image_ref=self._store.pull(name, credentials).id)
        except CommandFailed as error:
            if _UNREACHABLE.search(error.cause):
                raise EngineError(
                    f"{UNREACHABLE}: {error}; without a registry: nri engine load ARCHIVE {name}"
                ) from error
            raise

    def remove_image(self, request: pb.RemoveImageRequest, call: Call) -> pb.RemoveImageResponse:
        """Remove an image with all its names; a missing image is no error, as the kubelet expects."""
        self._store.remove(_image_name(request.image))
        return pb.RemoveImageResponse()

    def image_fs_info(self, request: pb.ImageFsInfoRequest, call: Call) -> pb.ImageFsInfoResponse:
        """The disk space of images, and that of containers' writable layers; both are on one file system."""
        store = self._store
        return pb.ImageFsInfoResponse(
            image_filesystems=[usage_message(store, store.fs_info())],
            container_filesystems=[usage_message(store, store.snapshots.all_usage())],
        )

    def _list(self, filter_: pb.ImageFilter) -> Sequence[pb.Image]:
        if not filter_.image.image:
            return [image_message(image, self._pinned) for image in self._store.list()]
        try:
            return [image_message(self._store.get(filter_.image.image), self._pinned)]
        except NotFound:
            return []


def image_message(image: Image, pinned: Sequence[str] = ()) -> pb.Image:
    """The CRI's message for an image; `pinned` are the patterns of `is_pinned`."""
    name = image.user.partition(":")[0]
    number = parse_id(name)  # parsed like the container's user, because the kubelet relies on it for runAsNonRoot
    return pb.Image(
        id=image.id,
        repo_tags=image.repo_tags,
        repo_digests=image.repo_digests,
        size=image.size_bytes,
        uid=None if number is None else pb.Int64Value(value=number),
        username=name if number is None else "",
        pinned=is_pinned(image, pinned),
    )


def usage_message(store: ImageStore, usage: Usage) -> pb.FilesystemUsage:
    """A usage of the store's file system, as of now."""
    return pb.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint=str(store.root)),
        used_bytes=pb.UInt64Value(value=usage.size_bytes),
        inodes_used=pb.UInt64Value(value=usage.inodes),
    )


def credentials_for(auth: pb.AuthConfig, domain: str) -> Credentials | None:
    """A request's login for a registry; None if it is empty or for another registry, which must not receive it.

    RequestError for a registry token: skopeo only takes it on its command line, where every user can read it.
    """
    if auth.registry_token:
        raise RequestError(
            "auth.registry_token", "...", "registry tokens are not supported; use a username and password"
        )
    server = re.sub(r"^https?://", "", auth.server_address).partition("/")[0]
    if server and _hub(server) != _hub(domain):
        return None
    credentials = Credentials(auth.username, auth.password, auth.auth, auth.identity_token)
    return credentials if auth.username or auth.auth or auth.identity_token else None


def _hub(host: str) -> str:
    """A registry's canonical name; Docker Hub has several names."""
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host


def _image_name(image: pb.ImageSpec) -> str:
    if not image.image:
        raise RequestError("image.image", "", "an image is required")
    return image.image
