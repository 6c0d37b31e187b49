"""The version of this package, and the user agent of its HTTP and gRPC clients."""

from __future__ import annotations

from importlib import metadata

from nri.api.naming import NRI_VERSION


def package_version() -> str:
    """Return the version of the installed package, or "unknown" in a source tree that is not installed."""
    try:
        return metadata.version("nri")
    except metadata.PackageNotFoundError:
        return "unknown"


def user_agent() -> str:
    """Return the user agent: this package's version and its NRI release, for example `nri/0.1.0 (NRI v0.12.5)`."""
    return f"nri/{package_version()} (NRI {NRI_VERSION})"


def grpc_options() -> list[tuple[str, int | str]]:
    """Return the options of every gRPC channel to a unix socket.

    The socket needs no proxy, also if the environment has one, and its path must not become the authority.
    """
    return [
        ("grpc.enable_http_proxy", 0),
        ("grpc.default_authority", "localhost"),
        ("grpc.primary_user_agent", user_agent()),
    ]
