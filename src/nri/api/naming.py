"""Names, paths, numbers and limits that both sides of NRI agree on.

One job: constants and the checks of plugin names and indices, with the texts of the reference, which its users know.
Rules: pure and light; nothing here looks at the environment or the file system.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "CONFIG_DIR",
    "DEFAULT_INDEX",
    "DEFAULT_SOCKET",
    "ENV_CHECK_MESSAGES",
    "ENV_IDX",
    "ENV_NAME",
    "ENV_SOCKET",
    "FAILED_DIR",
    "NRI_VERSION",
    "OBSERVERS",
    "OBSERVER_INDEX",
    "PLUGIN_DIR",
    "PLUGIN_SERVICE",
    "PLUGIN_SERVICE_CONN",
    "REGISTRATION_TIMEOUT_S",
    "REQUEST_TIMEOUT_S",
    "RUNTIME_SERVICE",
    "RUNTIME_SERVICE_CONN",
    "WASM_CACHE",
    "check_index",
    "check_name",
    "config_file_names",
    "full_name",
    "is_full_name",
    "observer_names",
    "split_file_name",
]

#: API level that we speak and announce.
NRI_VERSION: Final = "v0.12.5"

#: Where a runtime listens.
DEFAULT_SOCKET: Final = "/var/run/nri/nri.sock"
#: The index of a plugin without one: after those that come first, before those that have the last word.
DEFAULT_INDEX: Final = "50"
#: Where a runtime looks for plugins to launch, and for their configuration.
PLUGIN_DIR: Final = "/opt/nri/plugins"
CONFIG_DIR: Final = "/etc/nri/conf.d"
#: Where a runtime keeps the compiled code of plugins in WebAssembly.
WASM_CACHE: Final = "/var/cache/nri/wasm"
#: Beside the socket: notes on plugins that failed, for `nri doctor`.
FAILED_DIR: Final = "failed-plugins"

#: The environment of a launched plugin, with nothing else in it: its name, index, and the number of its descriptor.
ENV_NAME: Final = "NRI_PLUGIN_NAME"
ENV_IDX: Final = "NRI_PLUGIN_IDX"
ENV_SOCKET: Final = "NRI_PLUGIN_SOCKET"
#: Set to 1: a handler that changes the message it was given fails.
ENV_CHECK_MESSAGES: Final = "NRI_CHECK_MESSAGES"

#: Seconds that a plugin has to register, and to answer one request.
REGISTRATION_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 2.0

#: Full names of the ttRPC services, and the connections of the trunk that carry them.
PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"
PLUGIN_SERVICE_CONN: Final = 1
RUNTIME_SERVICE_CONN: Final = 2

#: Plugins of one kind with which our own commands watch a runtime at the same time.
_MAX_OBSERVERS: Final = 16
#: The index of these plugins: behind all others, to see what they made of a container.
OBSERVER_INDEX: Final = "99"

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")
_DIGITS: Final = frozenset("0123456789")


def check_name(text: str) -> str:
    """The name of a plugin, without its index, if it is one: letters, digits, `_`, `.`, `+` and `-` of ASCII.

    Raises:
        ValueError: empty, or another character.
    """
    if not text:
        raise ValueError("invalid plugin name: name is empty")
    for character in text:
        if character not in _NAME_CHARACTERS:
            raise ValueError(f"invalid plugin name \"{text}\": contains invalid character '{character}'")
    return text


def check_index(text: str) -> str:
    """The index of a plugin, if it is one: two ASCII digits.

    Raises:
        ValueError: anything else.
    """
    if len(text.encode(errors="replace")) != 2:  # the reference counts bytes, which decides between the two texts
        raise ValueError(f'invalid plugin index "{text}", must be 2 digits')
    if not _DIGITS.issuperset(text):
        raise ValueError(f'invalid plugin index "{text}" (not [0-9][0-9])')
    return text


def split_file_name(text: str) -> tuple[str, str]:
    """Index and name of a plugin from its file's name: `10-foo` is `("10", "foo")`.

    Only the index is checked: the reference takes any name from a file, even an empty one.

    Raises:
        ValueError: no `-`, or no index before it.
    """
    index, dash, name = text.partition("-")
    if not dash:
        raise ValueError(f'invalid plugin name "{text}", idx-pluginname expected')
    return check_index(index), name


def full_name(index: str, name: str) -> str:
    """The name of a plugin in owners, errors and logs: `10-foo`."""
    return f"{index}-{name}"


def is_full_name(text: str) -> bool:
    """Whether a text reads as index and name of a plugin, `10-foo`. A plugin's own name can do so, too."""
    return len(text) > 3 and text[2] == "-" and _DIGITS.issuperset(text[:2])


def observer_names(name: str) -> list[str]:
    """The names to try for a plugin of which several may take part at once: `name`, `name-2`, and so on."""
    return [name, *(f"{name}-{number}" for number in range(2, _MAX_OBSERVERS + 1))]


def config_file_names(index: str, name: str) -> tuple[str, str]:
    """Files in `CONFIG_DIR` that may hold a launched plugin's configuration; the first that exists counts, whole."""
    return f"{index}-{name}.conf", f"{name}.conf"


#: The plugins of `nri drift`, `nri events` and `nri record`: they change nothing, and metrics have no series of them.
OBSERVERS: Final = frozenset(
    full_name(OBSERVER_INDEX, name)
    for kind in ("nri-drift", "nri-events", "nri-record")
    for name in observer_names(kind)
)
