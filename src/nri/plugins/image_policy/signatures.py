"""The node's signature policy, a subset of containers-policy.json(5): what it accepts, rejects, and cannot verify here.

Only scopes of the transport `docker` apply, because runtimes pull images from registries. Nothing here verifies a
signature, so a requirement other than `insecureAcceptAnything` counts as `reject`.
"""

from __future__ import annotations

from nri.config import Source, parse_text, read_file
from nri.errors import ConfigError
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nri.cri.image_names import Reference

#: The requirements that are decided without a signature.
ACCEPT, REJECT = "insecureAcceptAnything", "reject"
#: The longest scope or type in a message.
_MAX_SHOWN = 128
#: At most this many unsupported requirements are named in the log.
_MAX_NAMED = 8


class SignaturePolicy:
    """The requirements of a signature policy.

    Args:
        source: the file.

    Attributes:
        unsupported: the scopes with a requirement that this plugin cannot verify, for the log.

    Raises ConfigError if the file is invalid.
    """

    def __init__(self, source: Source) -> None:
        tree = parse_text(source)
        self._source = source
        self._default = self._types(_mapping(source, tree, "").get("default"), "default")
        transports = _mapping(source, tree.get("transports", {}), "transports")
        scopes = _mapping(source, transports.get("docker", {}), "transports.docker")
        self._scopes = {
            _comparable_scope(scope): self._types(rows, f"transports.docker.{scope}") for scope, rows in scopes.items()
        }
        lists = {"default": self._default, **{scope or '""': types for scope, types in self._scopes.items()}}
        self.unsupported = [
            f"{type_} of {plain(scope, _MAX_SHOWN)}"
            for scope, types in lists.items()
            for type_ in types
            if type_ not in (ACCEPT, REJECT)
        ][:_MAX_NAMED]

    @classmethod
    def read(cls, path: str) -> SignaturePolicy:
        """Read a file. Raises ConfigError if the file is missing or invalid."""
        return cls(read_file(path, "json"))

    def _types(self, rows: Any, key: str) -> tuple[str, ...]:
        """The types of a scope's requirements. All requirements must hold."""
        if not isinstance(rows, list) or not rows:
            raise ConfigError(
                self._source.name, key, "expected a list of requirements", f'for example [{{"type": "{REJECT}"}}]'
            )
        types = [row.get("type") if isinstance(row, dict) else None for row in rows]
        if not all(isinstance(type_, str) for type_ in types):
            raise ConfigError(
                self._source.name, key, "a requirement has no type", f'for example {{"type": "{REJECT}"}}'
            )
        return tuple(plain(str(type_), _MAX_SHOWN) for type_ in types)

    def refusal(self, image: Reference) -> str | None:
        """The reason why the policy rejects an image. Returns None if it accepts the image."""
        scope = next((scope for scope in _scopes(image) if scope in self._scopes), None)
        types = self._default if scope is None else self._scopes[scope]
        where = f"{self._source.name}: {'default' if scope is None else f'scope {quote(plain(scope, _MAX_SHOWN))}'}"
        for type_ in types:
            if type_ == REJECT:
                return f"{where} rejects it"
            if type_ != ACCEPT:
                return f"{where} requires {type_}, which image-policy cannot verify"
        return None


def comparable_host(host: str) -> str:
    """A registry in one spelling: names of hosts ignore case, and 443 is the default port."""
    return host.lower().removesuffix(":443")


def _comparable_scope(scope: str) -> str:
    host, slash, path = scope.partition("/")
    return f"{comparable_host(host)}{slash}{path}"


def _mapping(source: Source, value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(source.name, key, "expected an object", "see containers-policy.json(5)")
    return value


def _scopes(image: Reference) -> Iterator[str]:
    """The scopes that apply to an image, the most specific first: the image, its parents, wildcards, all images."""
    yield f"{image.repository}@{image.digest}" if image.digest else str(image)
    scope = image.repository
    while scope:
        yield scope
        scope = scope.rpartition("/")[0]
    host = image.domain.partition(":")[0]
    while "." in host:
        host = host.partition(".")[2]
        yield f"*.{host}"
    yield ""
