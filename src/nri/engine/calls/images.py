"""The ImageService: images listed, pulled and removed, and the disk space that they take.

As the kubelet expects, a missing image is an empty answer to ImageStatus and no error to RemoveImage, and the error for
an unreachable registry contains the word that the kubelet knows. Credentials go to the registry that they belong to and
to no other.
"""

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
from nri.engine.spec import parse_id
from nri.engine.support.errors import CommandFailed, EngineError, NotFound
from nri.errors import RequestError
from nri.files import Usage

#: How the kubelet knows an error that is not the image's (k8s.io/cri-api/pkg/errors), and skopeo's words for it.
UNREACHABLE = "RegistryUnavailable"
_UNREACHABLE = re.compile(r"connection refused|no such host|i/o timeout|no route to host|network is unreachable")


class ImageCalls:
    """The calls on the images of one store."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store

    def list_images(self, request: pb.ListImagesRequest, call: Call) -> pb.ListImagesResponse:
        """All images, or the one of the filter."""
        return pb.ListImagesResponse(images=self._list(request.filter))

    def stream_images(self, request: pb.StreamImagesRequest, call: Call) -> Iterator[pb.StreamImagesResponse]:
        """The same in portions."""
        for images in chunks(self._list(request.filter)):
            yield pb.StreamImagesResponse(images=images)

    def image_status(self, request: pb.ImageStatusRequest, call: Call) -> pb.ImageStatusResponse:
        """One image; an empty answer if it is not there."""
        try:
            image = self._store.get(_named(request.image))
        except NotFound:
            return pb.ImageStatusResponse()
        info = {"info": json.dumps({"imageSpec": {"config": image.config}})} if request.verbose else {}
        return pb.ImageStatusResponse(image=image_message(image), info=info)

    def pull_image(self, request: pb.PullImageRequest, call: Call) -> pb.PullImageResponse:
        """Bring an image here; the answer is its id, by which CreateContainer may name it.

        From an archive of this machine if the client names one beside the request: requests have texts of pods in them.
        """
        name, archive = _named(request.image), call.metadata(ARCHIVE_KEY)
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
        """Remove an image with all its names; one that is not there is no error."""
        self._store.remove(_named(request.image))
        return pb.RemoveImageResponse()

    def image_fs_info(self, request: pb.ImageFsInfoRequest, call: Call) -> pb.ImageFsInfoResponse:
        """The room that images take, and that what containers have written takes; both on one file system."""
        store = self._store
        return pb.ImageFsInfoResponse(
            image_filesystems=[usage_message(store, store.fs_info())],
            container_filesystems=[usage_message(store, store.snapshots.all_usage())],
        )

    def _list(self, wanted: pb.ImageFilter) -> Sequence[pb.Image]:
        if not wanted.image.image:
            return [image_message(image) for image in self._store.list()]
        try:
            return [image_message(self._store.get(wanted.image.image))]
        except NotFound:
            return []


def image_message(image: Image) -> pb.Image:
    """An image as the CRI says it."""
    name = image.user.partition(":")[0]
    number = parse_id(name)  # as the container's user is read, because the kubelet trusts this for runAsNonRoot
    return pb.Image(
        id=image.id,
        repo_tags=image.repo_tags,
        repo_digests=image.repo_digests,
        size=image.size_bytes,
        uid=None if number is None else pb.Int64Value(value=number),
        username=name if number is None else "",
    )


def usage_message(store: ImageStore, usage: Usage) -> pb.FilesystemUsage:
    """Used room on the store's file system, now."""
    return pb.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint=str(store.root)),
        used_bytes=pb.UInt64Value(value=usage.size_bytes),
        inodes_used=pb.UInt64Value(value=usage.inodes),
    )


def credentials_for(auth: pb.AuthConfig, domain: str) -> Credentials | None:
    """A request's login for a registry; None if it was given for another one, or is empty.

    Raises RequestError for a registry token, which skopeo takes on its command line only, where everyone can read it.
    """
    if auth.registry_token:
        raise RequestError("auth.registry_token", "...", "registry tokens are not supported: give a login")
    server = re.sub(r"^https?://", "", auth.server_address).partition("/")[0]
    if server and _hub(server) != _hub(domain):
        return None
    credentials = Credentials(auth.username, auth.password, auth.auth, auth.identity_token)
    return credentials if auth.username or auth.auth or auth.identity_token else None


def _hub(host: str) -> str:
    """A registry's name; Docker Hub has several."""
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host


def _named(image: pb.ImageSpec) -> str:
    if not image.image:
        raise RequestError("image.image", "", "an image has to be named")
    return image.image
