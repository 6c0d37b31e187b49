"""`image-policy`: allow, warn about or deny images when containers are created.

The first rule that applies decides. A name comes from the runtime; a digest from the name, the runtime or its CRI.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Literal

import nri
from nri.api.selectors import Pattern, check_pattern, matches
from nri.config import Duration, check_timeouts
from nri.cri.image_names import DIGEST, Reference, parse_reference
from nri.errors import NriError
from nri.plugins.image_policy.signatures import SignaturePolicy, comparable_host
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.cri.client import CriClient

#: What happens to an image, from the mildest to the strictest.
Outcome = Literal["allow", "warn", "deny"]
Action = Literal["allow", "warn", "deny", "signature_policy"]
_STRICTNESS = ("allow", "warn", "deny")
#: The annotation with the image's name. Only the runtime's own key is used: a pod may bring the key of another runtime.
_NAME_KEYS = {"cri-o": "io.kubernetes.cri-o.ImageName"}
_DEFAULT_NAME_KEY = "io.kubernetes.cri.image-name"
#: The id of an image, which the kubelet uses where a name would be ambiguous.
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
#: At most this many names of an image from the CRI are judged; further names make the image unknown.
_MAX_NAMES = 64
#: The longest timeout of a CRI call in seconds.
_MAX_CRI_TIMEOUT_S = 60.0
_MAX_SHOWN = 256


class RegistryPattern(Pattern):
    """A pattern for the registry of an image, for example ``registry.example`` or ``*.example:5000``."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> RegistryPattern:
        """Compile a pattern. Raises ValueError if it can match no registry."""
        body = text.removeprefix("!")
        if not body or "/" in body or body != body.lower():
            raise ValueError(
                f"{quote(plain(text, 64))} is not a registry; write for example docker.io or *.example:5000"
            )
        return cls(text, text != body, re.compile(fnmatch.translate(check_pattern(body))))


class NamePattern(Pattern):
    """A pattern for the full name of an image, with or without its tag: ``docker.io/library/*``."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> NamePattern:
        """Compile a pattern. Raises ValueError if it is not a pattern of full names."""
        body = text.removeprefix("!")
        registry, slash, _ = body.partition("/")
        if (
            not body.startswith("*")
            and not (slash and any(letter in registry for letter in ".:*?["))
            and registry != "localhost"
        ):
            hint = f"write for example docker.io/library/{plain(body, 64) or 'busybox'}"
            raise ValueError(f"{quote(plain(text, 64))} is not a full name; {hint}")
        return cls(text, text != body, re.compile(fnmatch.translate(check_pattern(body))))


class Digest(str):
    """The digest of a manifest."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Check a digest. Raises ValueError if it is invalid."""
        if DIGEST.fullmatch(text) is None:
            raise ValueError(f"{quote(plain(text, 64))} is not a digest; write sha256: and 64 hexadecimal digits")
        return cls(text)


class Rule:
    """A rule applies to an image if all its keys do.

    Attributes:
        action: allow, warn, deny, or signature_policy.
        namespaces: patterns of the pod's namespace.
        registry: patterns of the registry.
        name: patterns of the full name.
        digest: digests of manifests.
    """

    action: Action
    namespaces: tuple[Pattern, ...] = ()
    registry: tuple[RegistryPattern, ...] = ()
    name: tuple[NamePattern, ...] = ()
    digest: tuple[Digest, ...] = ()

    def selects(self, namespace: str, image: Reference) -> bool:
        """Whether the rule applies to an image in a namespace, apart from `digest`."""
        names = {image.repository, f"{image.repository}:{image.tag}" if image.tag else image.repository}
        return (
            matches(self.namespaces, namespace)
            and matches(self.registry, image.domain)
            # A pattern that excludes the name with or without its tag excludes the image.
            and not any(pattern.fits(name) for pattern in self.name if pattern.excluded for name in names)
            and any(matches(self.name, name) for name in names)
        )


class ImagePolicy(nri.Plugin):
    """Allow, warn about or deny images of new containers, by registry, name, digest, signature policy and namespace."""

    name = "image-policy"
    sets = ()

    class Config:
        """Keys of the configuration.

        Attributes:
            rules: the first rule that applies decides.
            default: the action for images to which no rule applies.
            unknown_image: the action for images whose name, or whose digest where a rule has one, is unknown.
            signature_policy: a containers-policy.json, for the action of this name.
            cri_socket: the runtime's CRI socket, which is asked for names and digests that the runtime does not report.
            cri_timeout: the longest time for an answer of the CRI.
        """

        rules: tuple[Rule, ...] = ()
        default: Action = "allow"
        unknown_image: Outcome = "warn"
        signature_policy: str = ""
        cri_socket: str = ""
        cri_timeout: Duration = 1.0

        def __post_init__(self) -> None:
            check_timeouts(self, "cri_timeout")
            if self.cri_timeout > _MAX_CRI_TIMEOUT_S:
                raise ValueError(f"cri_timeout {self.cri_timeout:g} s is too long; write 60s or less")
            actions = [self.default, *(rule.action for rule in self.rules)]
            if "signature_policy" in actions and not self.signature_policy:
                raise ValueError("the action signature_policy requires the key signature_policy, the path of a file")

    config: Config

    def __init__(self) -> None:
        self._signatures: SignaturePolicy | None = None
        self._cri: CriClient | None = None

    def configure(self) -> None:
        config = self.config
        self._signatures = SignaturePolicy.read(config.signature_policy) if config.signature_policy else None
        self._close_cri()
        if self._signatures is not None and self._signatures.unsupported:
            self.log.warning(
                "%s: signatures cannot be verified here, so these requirements reject images: %s",
                config.signature_policy, ", ".join(self._signatures.unsupported),
            )  # fmt: skip
        if config.cri_socket:
            try:
                self._connection()  # now, because importing grpc takes time that a creation does not have
            except NriError as error:
                self.log.warning("%s; connecting again when the CRI is next needed", error)
        self.log.info(
            "%d rules, default: %s, unknown_image: %s", len(config.rules), config.default, config.unknown_image
        )

    def closed(self) -> None:
        self._close_cri()

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        names, digests, problem = self._image(container)
        verdicts = [self._verdict(pod.namespace, name, digests) for name in names]
        if not names:
            verdicts = [(self.config.unknown_image, f"image is unknown: {problem} (unknown_image)")]
        outcome, reason = max(verdicts, key=lambda verdict: _STRICTNESS.index(verdict[0]))
        if outcome == "deny":
            names_ = "/".join(plain(name, _MAX_SHOWN) for name in (pod.namespace, pod.name, container.name))
            raise nri.Reject(f"container {names_}: {reason}")
        if outcome == "warn":
            self.log.warning("%s", reason)

    def _image(self, container: nri.Container) -> tuple[list[str], set[str] | None, str]:
        """The names and digests of the container's image, and the reason if there is no name.

        The digests are None if the CRI may know them; an empty set if nobody does.
        """
        image = container.image
        key = _NAME_KEYS.get(self.runtime.name, _DEFAULT_NAME_KEY)
        name = image.name or container.annotations.get(key, "")
        digests = _digests([image.digest]) - {image.config_digest}
        if not name:
            return [], None, f"the runtime reports neither an image nor the annotation {key}"
        if _ID.fullmatch(name) is None:
            return [name], digests or None, ""
        try:
            status = self._status(name)
        except NriError as error:
            return [], None, f"the runtime reports only its id, and {error}"
        names = [*status.repo_tags, *status.repo_digests]
        if len(names) > _MAX_NAMES:
            return [], None, f"it has more than {_MAX_NAMES} names"
        return names, digests | _digests(status.repo_digests), f"{plain(name, _MAX_SHOWN)} has no name"

    def _verdict(self, namespace: str, name: str, digests: set[str] | None) -> tuple[Outcome, str]:
        """The outcome for an image with these known digests, and the reason."""
        shown = f"image {quote(plain(name, _MAX_SHOWN))}"
        try:
            image = _comparable_image(parse_reference(name))
        except ValueError as error:
            return self.config.unknown_image, f"{shown} is unknown: {error} (unknown_image)"
        if image.digest:
            digests = {image.digest, *(digests or ())}
        shown += f" in namespace {quote(plain(namespace, _MAX_SHOWN))}"
        for number, rule in enumerate(self.config.rules, 1):
            if not rule.selects(namespace, image):
                continue
            if rule.digest:
                problem = "it has none"
                try:
                    if digests is None:
                        digests = _digests(self._status(name).repo_digests)
                except NriError as error:
                    problem = str(error)
                if not digests:
                    reason = f"{shown}: rule {number} requires its digest, but {problem} (unknown_image)"
                    return self.config.unknown_image, reason
                if digests.isdisjoint(rule.digest):
                    continue
            return self._outcome(rule.action, image, shown, f"rule {number}")
        return self._outcome(self.config.default, image, shown, "default")

    def _outcome(self, action: Action, image: Reference, shown: str, origin: str) -> tuple[Outcome, str]:
        if action != "signature_policy":
            return action, f"{shown}: {action} by {origin} of the image policy"
        assert self._signatures is not None  # the configuration requires its path
        refusal = self._signatures.refusal(image)
        if refusal is None:
            return "allow", ""
        return "deny", f"{shown}: denied by {origin} of the image policy: {refusal}"

    def _status(self, name: str) -> Any:
        """The image's status from the CRI. Raises NriError if the CRI has no answer."""
        from nri.cri.pb import api_pb2 as pb  # noqa: PLC0415 - plugins without cri_socket do not need it

        if not self.config.cri_socket:
            raise NriError("cri_socket is not configured")
        try:
            reply = self._connection().call("ImageStatus", pb.ImageStatusRequest(image=pb.ImageSpec(image=name)))
        except NriError:
            self._close_cri()
            raise
        if not reply.HasField("image"):
            raise NriError("the CRI does not have the image")
        return reply.image

    def _connection(self) -> CriClient:
        """The connection to the CRI, opened if necessary. Raises NriError if that fails."""
        from nri.cri.client import CriClient  # noqa: PLC0415 - plugins without cri_socket do not need it

        if self._cri is None:
            self._cri = CriClient(self.config.cri_socket, self.config.cri_timeout, option="cri_socket")
        return self._cri

    def _close_cri(self) -> None:
        if self._cri is not None:
            self._cri.close()
            self._cri = None


def _digests(references: Iterable[str]) -> set[str]:
    """The digests in references such as ``docker.io/library/busybox@sha256:...``, or in digests alone."""
    digests = {reference.rpartition("@")[2] for reference in references}
    return {digest for digest in digests if DIGEST.fullmatch(digest)}


def _comparable_image(image: Reference) -> Reference:
    """The image with its registry in one spelling."""
    return image._replace(domain=comparable_host(image.domain))


if __name__ == "__main__":
    ImagePolicy.main()
