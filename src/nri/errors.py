"""Every exception that `nri` raises, in one tree.

    NriError
        ├── ProtocolError                  one side violated the protocol
    │   ├── LocalProtocolError         ... this side (a programming error)
    │   └── RemoteProtocolError        ... the peer (garbage, oversized, wrong order)
    ├── RpcError                       the peer answered with a status other than OK
    │   └── OversizedMessage           a message over 4 MiB, refused before anything was written
    ├── ConnectionClosed               the connection has ended; every pending and later call fails with this error
    ├── DeadlineExceeded               our own deadline passed while we waited
    ├── RuntimeUnavailable             no runtime answers at the socket (exit code 3)
    │   └── ProgramUnreachable         ... or another program does not answer at its socket, or not as expected
    ├── RegistrationError              the runtime, or our own rules, refused this plugin before it was configured
    ├── ConfigError                    a configuration source has an invalid value (exit code 2)
    ├── Reject                         raised by a handler to refuse the request, with a reason for users
    ├── PluginError                    runtime side: a plugin failed; has its name, a status code and its message
    │   ├── PluginRejected             ... it refused on purpose: it raised `Reject`
    │   ├── PluginTimeout              ... it did not answer in time
    │   ├── PluginClosed               ... its connection has ended
    │   └── PluginUnavailable          ... it is required, and absent, late or broken
    ├── ConflictError                  two plugins set the same field; has the `Conflict`
    ├── ValidationRejected             a validator refused the merged adjustment
    ├── UpdateError                    an update that cannot be applied; has plugin and container
    ├── SpecError                      an adjustment that cannot be applied to an OCI spec, or an invalid spec
    └── RequestError                   a field of a request to a runtime has an invalid value

The message of an error is one line: the base class escapes and shortens it (`nri.text`). The attributes and
`whole_text` are unchanged. `nri.stub.session.service` maps exceptions of handlers to statuses, and `nri.cli.errors`
maps errors of commands to exit codes.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.text import cut as _cut
from nri.text import plain as _plain
from nri.text import quote as _quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CODE_NAMES",
    "LATE",
    "ConfigError",
    "Conflict",
    "ConflictError",
    "ConnectionClosed",
    "DeadlineExceeded",
    "LocalProtocolError",
    "NriError",
    "OversizedMessage",
    "PluginClosed",
    "PluginError",
    "PluginRejected",
    "PluginTimeout",
    "PluginUnavailable",
    "ProgramUnreachable",
    "ProtocolError",
    "RegistrationError",
    "Reject",
    "RemoteProtocolError",
    "RequestError",
    "RpcError",
    "RuntimeUnavailable",
    "SpecError",
    "UpdateError",
    "ValidationRejected",
    "failure_text",
]

#: Names of the status codes, as Go prints them in ``rpc error: code = <name> desc = <text>``.
CODE_NAMES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
    "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable",
    "DataLoss", "Unauthenticated",
)  # fmt: skip


#: Maximum length of an error's line.
TEXT_LENGTH = 4096


def describe(error: BaseException) -> str:
    """Format an exception as one line: the message of an NriError, else type and message: `KeyError: 'zone'`."""
    text, name = str(error), type(error).__name__
    return _plain(text or name if isinstance(error, NriError) or not text else f"{name}: {text}", TEXT_LENGTH)


class NriError(Exception):
    """The base class of every error of this package. Its message is a printable line of at most 4096 characters."""

    def __str__(self) -> str:
        return _plain(self.whole_text, TEXT_LENGTH)

    @property
    def whole_text(self) -> str:
        """The original message, of any length, possibly with several lines and unprintable characters."""
        return super().__str__()


class ProtocolError(NriError):
    """One side violated the protocol. Abstract: raise the subclass of the side that violated it."""

    def __init__(self, reason: str) -> None:
        if type(self) is ProtocolError:
            raise TypeError("ProtocolError is abstract: raise LocalProtocolError or RemoteProtocolError")
        super().__init__(reason)
        self.reason = reason


class LocalProtocolError(ProtocolError):
    """This side requested something that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol does not allow. The connection cannot be used any more."""


class RpcError(NriError):
    """The peer answered with a status other than OK.

    Attributes:
        code: a gRPC status code, 1 to 16 (`nri.ttrpc.codes.Code`); a value of another type becomes 2, Unknown.
        message: the peer's message.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        # Handlers raise these, and their mistakes must not prevent an answer to the caller.
        self.code = code if isinstance(code, int) else 2
        self.message = message if isinstance(message, str) else str(message or "")

    @property
    def whole_text(self) -> str:
        """The message in Go's format, which the kubelet shows to users."""
        return f"rpc error: code = {self.code_name} desc = {self.message}"

    @property
    def code_name(self) -> str:
        """The name of the status code in Go."""
        return CODE_NAMES[self.code] if 0 <= self.code < len(CODE_NAMES) else f"Code({self.code})"


class OversizedMessage(RpcError):
    """A message over the limit was refused locally, before anything was written. The connection stays usable.

    Attributes:
        length_bytes: the refused length.
        maximum_bytes: the longest allowed message (4194304).
    """

    def __init__(self, length_bytes: int, maximum_bytes: int) -> None:
        super().__init__(8, f"message length {length_bytes} exceed maximum message size of {maximum_bytes}")
        self.length_bytes = length_bytes
        self.maximum_bytes = maximum_bytes


class ConnectionClosed(NriError):
    """The connection has ended. `reason` is the cause, if it is known."""

    def __init__(self, reason: str = "closed") -> None:
        super().__init__(f"ttrpc: {reason}")
        self.reason = reason


class DeadlineExceeded(NriError):
    """Our own deadline passed while waiting for `what`. The peer may still be working."""

    def __init__(self, what: str = "the peer") -> None:
        super().__init__(f"deadline exceeded while waiting for {what}")
        self.what = what


class RuntimeUnavailable(NriError):
    """No runtime answers at the socket.

    Attributes:
        socket: the path of the socket.
        reason: a short reason.
    """

    def __init__(self, socket: str, reason: str, hint: str = "") -> None:
        """`hint` is the next step if the socket is not a runtime's NRI socket."""
        step = "Run this program as root, or try" if "permission denied" in reason else "Is NRI enabled? try"
        super().__init__(f"cannot connect to {socket}: {reason}. {hint or f'{step}: nri doctor'}")
        self.socket = socket
        self.reason = reason


class ProgramUnreachable(RuntimeUnavailable):
    """A program does not answer at its socket, or not as expected. `reason` is the entire message."""

    def __init__(self, socket: str, text: str) -> None:
        super().__init__(socket, text)
        self.args = (text,)


class RegistrationError(NriError):
    """This plugin was refused before it was configured. Another attempt without changes would fail again.

    Attributes:
        code: the runtime's status, or 0 if this side refused the plugin.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class ConfigError(NriError):
    """A configuration source has an invalid value.

    Attributes:
        source: the path of the file, or the name of the source ("the runtime's configuration", "--idx").
        key: the dotted path of the key, or "" for the entire source.
        reason: the reason, with the value.
        suggestion: the next step, or "".
        others: further errors of the same source.
    """

    def __init__(
        self, source: str, key: str, reason: str, suggestion: str = "", others: Sequence[ConfigError] = ()
    ) -> None:
        where = f"{_cut(source)}: {_cut(key)}" if key else _cut(source)
        text = f"{where}: {_cut(reason)}" + (f" ({_cut(suggestion)})" if suggestion else "")
        super().__init__("; ".join([text, *map(str, others)]))
        self.source = source
        self.key = key
        self.reason = reason
        self.suggestion = suggestion
        self.others = tuple(others)


class Reject(NriError):
    """Raise this in a handler to refuse the request. The message reaches the runtime and, through it, the user."""


class PluginError(NriError):
    """A plugin failed an event.

    Attributes:
        plugin: ``NN-name`` of the plugin.
        reason: what happened.
        code: the gRPC status code (`nri.ttrpc.Code`) of the plugin's error; without a code, 4 if the plugin is late, 14
            if it is gone, else 2.
        message: the message of the plugin's error without the code, else `reason`.
    """

    #: The status code of an error that is not an answer.
    CODE = 2

    def __init__(self, plugin: str, reason: str, *, code: int | None = None, message: str | None = None) -> None:
        super().__init__(f"plugin {plugin}: {reason}")
        self.plugin = plugin
        self.reason = reason
        self.code = self.CODE if code is None else code
        self.message = reason if message is None else message


def failure_text(error: BaseException, plugin: str = "") -> str:
    """Describe the error of a plugin by the plugin's own text, without its name and without `rpc error: ...`.

    Returns for example `ValueError: cpus must not be empty`, `refused: not here`, or, for a status other than Unknown,
    `NotFound: no such zone`. Errors that are not a plugin's answer have their own text.
    """
    if not isinstance(error, RpcError):
        return str(error)
    message = error.message
    for beginning in (f"plugin {plugin}: ", f"plugin {plugin} refused: ") if plugin else ():
        message = message.removeprefix(beginning)
    if error.code == PluginRejected.CODE:
        return _plain(f"refused: {message}" if plugin else message, TEXT_LENGTH)
    has_no_status = error.code == PluginError.CODE and message
    return _plain(message if has_no_status else f"{error.code_name}: {message}", TEXT_LENGTH)


class PluginRejected(PluginError):
    """The plugin refused the request on purpose. `reason` is the plugin's message."""

    CODE = 7

    def __init__(self, plugin: str, reason: str, *, code: int | None = None, message: str | None = None) -> None:
        super().__init__(plugin, reason, code=code, message=message)
        self.args = (f"plugin {plugin} refused: {reason}",)


class PluginTimeout(PluginError):
    """The plugin did not answer within its request timeout."""

    CODE = 4


#: The errors of late answers: observers get DeadlineExceeded, and an event raises PluginTimeout.
LATE = (DeadlineExceeded, PluginTimeout)


class PluginClosed(PluginError):
    """The plugin's connection is gone."""

    CODE = 14


class PluginUnavailable(PluginError):
    """The plugin is required for this event, and absent, late or broken."""

    CODE = 14


class Conflict(NamedTuple):
    """Two plugins (or one plugin, twice) set the same field of a container.

    Attributes:
        container: the id of the container.
        field: the field's number in the API's `Field` enum.
        field_name: the field's name in the API's `Field` enum, for example ``CPUShares``.
        key: the entry in a compound field, or "" for a simple field.
        holder: ``NN-name`` of the plugin that owns the field.
        claimant: ``NN-name`` of the plugin that came second.
        exact: whether the message has the unchanged key, as in Go, instead of a short printable key
            (`nri.text.plain`).
    """

    container: str
    field: int
    field_name: str
    key: str
    holder: str
    claimant: str
    exact: bool = False

    def __str__(self) -> str:
        # A simple field has no key: the message then ends with a blank, as in Go.
        who = f"plugins {_quote(self.claimant)} and {_quote(self.holder)}"
        return f"{who} both tried to set {self.field_name} {self.key if self.exact else _plain(self.key)}"


class ConflictError(NriError):
    """Two plugins set the same field. `conflict` has container, field, key, holder and claimant."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(str(conflict))
        self.conflict = conflict


class ValidationRejected(NriError):
    """A validator refused the merged adjustment.

    Attributes:
        plugin: ``NN-name`` of the validator.
        reason: the validator's reason.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f'validator "{plugin}" rejected container adjustment, reason: {reason}')
        self.plugin = plugin
        self.reason = reason


class UpdateError(NriError):
    """An update that cannot be applied.

    Attributes:
        plugin: ``NN-name`` of the plugin that requested it.
        container_id: the id of the named container, or "".
        reason: the reason.
    """

    def __init__(self, plugin: str, container_id: str, reason: str, text: str = "") -> None:
        """`text` replaces the entire message, for messages in Go's format."""
        super().__init__(text or f'plugin "{plugin}": update of container "{_cut(container_id)}": {reason}')
        self.plugin = plugin
        self.container_id = container_id
        self.reason = reason


class SpecError(NriError):
    """An adjustment cannot be applied to an OCI spec, or the spec is invalid.

    Attributes:
        path: the path in the spec, such as ``linux.devices[2]``, or "" if the adjustment cannot be applied.
        reason: the reason.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the spec's {path} {reason}" if path else reason)
        self.path = path
        self.reason = reason


class RequestError(NriError):
    """A field of a request to a container runtime has an invalid value.

    Attributes:
        field: the path in the request, such as ``mounts[2].host_path``.
        value: the field's value.
        reason: why it is invalid.
    """

    def __init__(self, field: str, value: object, reason: str) -> None:
        shown = _quote(_cut(value)) if isinstance(value, str) else str(value)
        super().__init__(f"{_cut(field)}: {_cut(shown)}: {_cut(reason)}")
        self.field = field
        self.value = value
        self.reason = reason


def __dir__() -> list[str]:
    return __all__
