"""Logins for registries: read them from a file of the node, and write them for skopeo."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from nri.config.syntax import parse_json
from nri.engine.images.registry_rules import without_tag
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.files import read_regular

_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Credentials:
    """A login for a registry. `auth` is ``USER:PASSWORD`` in base64. `repr` shows no secrets."""

    username: str = ""
    password: str = ""
    auth: str = ""
    identity_token: str = ""
    server_address: str = ""

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r}, server_address={self.server_address!r})"


def auth_file(logins: Mapping[str, Credentials]) -> str:
    """Return an auth.json with logins by registry or repository. Raises InvalidRequest if credentials are invalid."""
    auths: dict[str, dict[str, str]] = {}
    for host, credentials in logins.items():
        server = re.sub(r"^https?://", "", credentials.server_address).split("/", 1)[0]
        auths |= dict.fromkeys(filter(None, (host, server)), _auth_entry(host, credentials))
    return json.dumps({"auths": auths})


def _auth_entry(host: str, credentials: Credentials) -> dict[str, str]:
    entry: dict[str, str] = {}
    if credentials.username:
        entry["auth"] = base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()
    elif credentials.auth:
        try:
            base64.b64decode(credentials.auth, validate=True)
        except ValueError:
            raise InvalidRequest(f"the credentials for {host} are not valid base64") from None
        entry["auth"] = credentials.auth
    if credentials.identity_token:
        entry["identitytoken"] = credentials.identity_token
        entry.setdefault("auth", base64.b64encode(b"<token>:").decode())
    return entry


def node_credentials(path: str, image: str) -> Credentials | None:
    """The login for an image in a file of the node; None if the file has no such login.

    The longest key that is the image's registry, or a path in it, counts, as for podman. EngineError for an unreadable
    or invalid file; the error contains nothing of the file.
    """
    try:
        document = parse_json(read_regular(path, _MAX_FILE_BYTES))
    except OSError as error:
        raise EngineError(f"images.credentials_file {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise EngineError(f"images.credentials_file {path} is not a JSON document") from None
    auths = document.get("auths", {}) if isinstance(document, dict) else None
    if not isinstance(auths, dict) or not all(isinstance(entry, dict) for entry in auths.values()):
        raise EngineError(f"images.credentials_file {path}: auths must be an object with an object for each registry")
    entries = {_registry_key(key): entry for key, entry in auths.items()}
    key = without_tag(image)
    while key and key not in entries:
        key = key.rpartition("/")[0]
    entry = entries.get(key, {})
    auth, token = entry.get("auth", ""), entry.get("identitytoken", "")
    if not isinstance(auth, str) or not isinstance(token, str):
        raise EngineError(f"images.credentials_file {path}: auth and identitytoken of {key} must be strings")
    return Credentials(auth=auth, identity_token=token) if auth or token else None


def _registry_key(key: str) -> str:
    """A key of auths in podman's form: Docker writes an address, and has other names for Docker Hub."""
    plain = re.sub(r"^https?://", "", key)
    host, slash, path = (plain if plain == key else plain.partition("/")[0]).strip("/").partition("/")
    return canonical_host(host) + slash + path


def canonical_host(host: str) -> str:
    """A registry's canonical name; Docker Hub has several names."""
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host
