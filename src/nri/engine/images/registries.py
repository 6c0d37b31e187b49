"""Generate skopeo's configuration: mirrors in registries.conf, and credentials in auth.json."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from nri.engine.config import Registry
from nri.engine.support.errors import InvalidRequest

__all__ = ["Credentials", "Registry", "auth_file", "registries_conf"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """A login for a registry. `auth` is user:password in base64; `repr` hides all secrets."""

    username: str = ""
    password: str = ""
    auth: str = ""
    identity_token: str = ""
    server_address: str = ""

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r}, server_address={self.server_address!r})"


def auth_file(host: str, credentials: Credentials) -> str:
    """The text of an auth.json for one registry. Raises InvalidRequest if the credentials are invalid."""
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
    server = re.sub(r"^https?://", "", credentials.server_address).split("/", 1)[0]
    return json.dumps({"auths": dict.fromkeys(filter(None, (host, server)), entry)})


def registries_conf(registries: Iterable[Registry]) -> str:
    """The text of a registries.conf: short names are not searched, and each registry has its mirrors."""
    lines = ["unqualified-search-registries = []", 'short-name-mode = "disabled"']
    for registry in registries:
        lines += [
            "",
            "[[registry]]",
            f"prefix = {json.dumps(registry.host)}",
            f"location = {json.dumps(registry.host)}",
        ]
        lines += [f"insecure = {json.dumps(registry.insecure)}"]
        for mirror in registry.mirrors:
            plain = mirror.startswith("http://")
            host = re.sub(r"^https?://", "", mirror)
            lines += ["[[registry.mirror]]", f"location = {json.dumps(host)}", f"insecure = {json.dumps(plain)}"]
    return "\n".join(lines) + "\n"
