"""Names, paths, numbers and limits that both sides of NRI share, and checks of plugin names and indices.

The error texts are those of the Go library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The NRI version that we implement and declare.
NRI_VERSION: Final = "v0.12.5"

#: The socket on which a runtime listens.
DEFAULT_SOCKET: Final = "/var/run/nri/nri.sock"
#: The default index of a plugin, in the middle of the order.
DEFAULT_INDEX: Final = "50"
#: The folder of plugins that a runtime launches.
PLUGIN_DIR: Final = "/opt/nri/plugins"
#: The folder of their configuration.
CONFIG_DIR: Final = "/etc/nri/conf.d"
#: The folder of compiled code of WebAssembly plugins.
WASM_CACHE: Final = "/var/cache/nri/wasm"
#: A folder next to the socket, with notes on failed plugins for `nri doctor`.
FAILED_DIR: Final = "failed-plugins"

#: The environment of a launched plugin: its name, its index, and the number of its descriptor.
ENV_NAME: Final = "NRI_PLUGIN_NAME"
ENV_IDX: Final = "NRI_PLUGIN_IDX"
ENV_SOCKET: Final = "NRI_PLUGIN_SOCKET"
#: Set to 1: a handler that changes its argument fails.
ENV_CHECK_MESSAGES: Final = "NRI_CHECK_MESSAGES"

#: A plugin may take this long to register, in seconds.
REGISTRATION_TIMEOUT_S: Final = 5.0
#: A plugin may take this long to answer a request, in seconds.
REQUEST_TIMEOUT_S: Final = 2.0

#: Full names of the ttRPC services, and the connections of the trunk that carry them.
PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"
PLUGIN_SERVICE_CONN: Final = 1
RUNTIME_SERVICE_CONN: Final = 2

#: Our own commands may watch a runtime with at most this many plugins of a kind at the same time.
_MAX_OBSERVERS: Final = 16
#: The index of these plugins: the last index, so that they see the changes of all other plugins.
OBSERVER_INDEX: Final = "99"

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")
_DIGITS: Final = frozenset("0123456789")


def check_name(text: str) -> str:
    """Check the name of a plugin, without its index: ASCII letters, digits, `_`, `.`, `+` and `-`. Returns it.

    Raises:
        ValueError: the name is empty, or has another character.
    """
    if not text:
        raise ValueError("invalid plugin name: name is empty")
    for character in text:
        if character not in _NAME_CHARACTERS:
            raise ValueError(f"invalid plugin name \"{text}\": contains invalid character '{character}'")
    return text


def check_index(text: str) -> str:
    """Check the index of a plugin: two ASCII digits. Returns it.

    Raises:
        ValueError: the index is not two digits.
    """
    if len(text.encode(errors="replace")) != 2:  # the Go library counts bytes, which selects one of the two texts
        raise ValueError(f'invalid plugin index "{text}", must be 2 digits')
    if not _DIGITS.issuperset(text):
        raise ValueError(f'invalid plugin index "{text}" (not [0-9][0-9])')
    return text


def split_file_name(text: str) -> tuple[str, str]:
    """Index and name of a plugin from its file's name: `10-foo` is `("10", "foo")`.

    Only the index is checked, because the Go library accepts any name from a file, even an empty name.

    Raises:
        ValueError: the name has no `-`, or no index before the `-`.
    """
    index, dash, name = text.partition("-")
    if not dash:
        raise ValueError(f'invalid plugin name "{text}", idx-pluginname expected')
    return check_index(index), name


def full_name(index: str, name: str) -> str:
    """The name of a plugin in owners, errors and logs: `10-foo`."""
    return f"{index}-{name}"


def is_full_name(text: str) -> bool:
    """Whether a text has the form `10-foo`. A plugin's name without index may have it, too."""
    return len(text) > 3 and text[2] == "-" and _DIGITS.issuperset(text[:2])


def observer_names(name: str) -> list[str]:
    """The possible names of a plugin that may run several times at once: `name`, `name-2`, and so on."""
    return [name, *(f"{name}-{number}" for number in range(2, _MAX_OBSERVERS + 1))]


def config_file_names(index: str, name: str) -> tuple[str, str]:
    """Names of a launched plugin's configuration in `CONFIG_DIR`; only the first existing file is read."""
    return f"{index}-{name}.conf", f"{name}.conf"


#: The plugins of `nri drift`, `nri events` and `nri record`: they only watch, and metrics ignore them.
OBSERVERS: Final = frozenset(
    full_name(OBSERVER_INDEX, name)
    for kind in ("nri-drift", "nri-events", "nri-record")
    for name in observer_names(kind)
)
