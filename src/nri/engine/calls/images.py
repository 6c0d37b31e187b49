"""The ImageService: list, pull and remove images, and report the disk space that they take."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence

from nri.cri.client import ARCHIVE_KEY
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, chunks
from nri.engine.images import Credentials, Image, ImageStore, parse_reference
from nri.engine.images.credentials import canonical_host
from nri.engine.images.pinned import is_pinned
from nri.engine.spec import parse_id
from nri.engine.support.errors import CommandFailed, EngineError, NotFound
from nri.errors import RequestError
from nri.files import Usage

#: The kubelet recognizes an unreachable registry by this prefix (k8s.io/cri-api/pkg/errors).
UNREACHABLE = "RegistryUnavailable"
#: skopeo's messages for an unreachable registry.
_UNREACHABLE = re.compile(r"connection refused|no such host|i/o timeout|no route to host|network is unreachable")


class ImageCalls:
    """Answers the calls of the ImageService for one store. `pinned` returns the patterns for `is_pinned`."""

    def __init__(self, store: ImageStore, pinned: Callable[[], Sequence[str]] = tuple) -> None:
        self._store, self._pinned = store, pinned

    def list_images(self, request: pb.ListImagesRequest, call: Call) -> pb.ListImagesResponse:
        """List all images, or only the filter's image."""
        return pb.ListImagesResponse(images=self._list(request.filter))

    def stream_images(self, request: pb.StreamImagesRequest, call: Call) -> Iterator[pb.StreamImagesResponse]:
        """Stream the list of images."""
        for images in chunks(self._list(request.filter)):
            yield pb.StreamImagesResponse(images=images)

    def image_status(self, request: pb.ImageStatusRequest, call: Call) -> pb.ImageStatusResponse:
        """Report the status of an image. If it does not exist, the reply is empty, as the kubelet expects."""
        try:
            image = self._store.get(_image_name(request.image))
        except NotFound:
            return pb.ImageStatusResponse()
        info = {"info": json.dumps({"imageSpec": {"config": image.config}})} if request.verbose else {}
        return pb.ImageStatusResponse(image=image_message(image, self._pinned()), info=info)

    def pull_image(self, request: pb.PullImageRequest, call: Call) -> pb.PullImageResponse:
        """Pull an image, and return its id, which CreateContainer accepts as a name.

        Instead of pulling, the engine loads the archive that the call's metadata names. A pod cannot set the metadata.
        """
        names = self._store.transport.registries.candidates(_image_name(request.image))
        if archive := call.metadata(ARCHIVE_KEY):
            return pb.PullImageResponse(image_ref=self._store.load(os.fsdecode(archive), names[0]).id)
        if len(names) == 1:
            return pb.PullImageResponse(image_ref=self._pull(names[0], request).id)
        # Texts, not errors: this frame would keep an error, and the error's traceback this frame and the call.
        reasons = []
        for name in names:
            try:
                return pb.PullImageResponse(image_ref=self._pull(name, request).id)
            except EngineError as error:
                reasons.append(str(error))
        text = f"image {request.image.image} cannot be pulled from any registry of short names: {'; '.join(reasons)}"
        is_unreachable = all(reason.startswith(UNREACHABLE) for reason in reasons)
        raise EngineError(f"{UNREACHABLE}: {text}" if is_unreachable else text)

    def _pull(self, name: str, request: pb.PullImageRequest) -> Image:
        """Pull an image by its whole name."""
        domain, requested_domain = parse_reference(name).domain, parse_reference(request.image.image).domain
        credentials = credentials_for(request.auth, domain, requested_domain) if request.HasField("auth") else None
        try:
            return self._store.pull(name, credentials)
        except CommandFailed as error:
            if _UNREACHABLE.search(error.cause):
                raise EngineError(
                    f"{UNREACHABLE}: {error}; without a registry: nri engine load ARCHIVE {name}"
                ) from error
            raise

    def remove_image(self, request: pb.RemoveImageRequest, call: Call) -> pb.RemoveImageResponse:
        """Remove an image with all its names. No error if the image does not exist, as the kubelet expects."""
        self._store.remove(_image_name(request.image))
        return pb.RemoveImageResponse()

    def image_fs_info(self, request: pb.ImageFsInfoRequest, call: Call) -> pb.ImageFsInfoResponse:
        """Report the disk space of images and of writable layers, which are on the same file system."""
        store = self._store
        return pb.ImageFsInfoResponse(
            image_filesystems=[usage_message(store, store.fs_info())],
            container_filesystems=[usage_message(store, store.snapshots.all_usage())],
        )

    def _list(self, filter_: pb.ImageFilter) -> Sequence[pb.Image]:
        if not filter_.image.image:
            return [image_message(image, self._pinned()) for image in self._store.list()]
        try:
            return [image_message(self._store.get(filter_.image.image), self._pinned())]
        except NotFound:
            return []


def image_message(image: Image, pinned: Sequence[str] = ()) -> pb.Image:
    """Return the CRI's message for an image. `pinned` has the patterns for `is_pinned`."""
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
    """Return the CRI's message for disk space on the store's file system."""
    return pb.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint=str(store.root)),
        used_bytes=pb.UInt64Value(value=usage.size_bytes),
        inodes_used=pb.UInt64Value(value=usage.inodes),
    )


def credentials_for(auth: pb.AuthConfig, domain: str, requested_domain: str) -> Credentials | None:
    """Return the login of a request, or None if the login is empty or belongs to another registry than `domain`.

    A login that names no registry belongs to the requested image's registry. This is Docker Hub for a short name,
    because kubelets select logins so, even if the node pulls the image from another registry.

    Raises RequestError for a registry token. skopeo accepts it only on its command line, where every user could read
    the token.
    """
    if auth.registry_token:
        raise RequestError(
            "auth.registry_token", "...", "registry tokens are not supported; use a username and password"
        )
    server = re.sub(r"^https?://", "", auth.server_address).partition("/")[0]
    if canonical_host(server or requested_domain) != canonical_host(domain):
        return None
    credentials = Credentials(auth.username, auth.password, auth.auth, auth.identity_token)
    return credentials if auth.username or auth.auth or auth.identity_token else None


def _image_name(image: pb.ImageSpec) -> str:
    if not image.image:
        raise RequestError("image.image", "", "an image is required")
    return image.image
