"""`FailurePolicy`: how the runtime should react if a plugin fails to answer.

An immutable value, which the runtime gets when the plugin subscribes. Runtimes use it since 0.12.4. The operator may
override it.
"""

from __future__ import annotations

from nri.api.builders.checks import flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api import messages


class FailurePolicy:
    """How the runtime should continue if this plugin answers late or is lost.

    Args:
        fail_request: fail the request instead of continuing without this plugin.
        keep_connected: keep the connection after a late answer instead of closing it.

    Raises:
        TypeError: an argument is not a bool.
    """

    __slots__ = ("fail_request", "keep_connected")

    fail_request: bool
    keep_connected: bool

    def __init__(self, *, fail_request: bool = False, keep_connected: bool = False) -> None:
        object.__setattr__(self, "fail_request", flag("fail_request", fail_request))
        object.__setattr__(self, "keep_connected", flag("keep_connected", keep_connected))

    @classmethod
    def of(cls, message: messages.FailurePolicy) -> FailurePolicy:
        """Create the policy from a message."""
        return cls(fail_request=message.fail_request, keep_connected=message.keep_connected)

    @property
    def message(self) -> messages.FailurePolicy:
        """This policy as a new message."""
        from nri.api.messages import FailurePolicy as Message  # noqa: PLC0415 - a class attribute must cost no protobuf

        return Message(fail_request=self.fail_request, keep_connected=self.keep_connected)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"FailurePolicy cannot be changed; create a new one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"FailurePolicy cannot be changed; {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FailurePolicy):
            return NotImplemented
        return self._as_pair() == other._as_pair()

    def __hash__(self) -> int:
        return hash(self._as_pair())

    def __repr__(self) -> str:
        return f"FailurePolicy(fail_request={self.fail_request}, keep_connected={self.keep_connected})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, self._as_pair()

    def _as_pair(self) -> tuple[bool, bool]:
        return self.fail_request, self.keep_connected


def _restore(fail_request: bool, keep_connected: bool) -> FailurePolicy:
    return FailurePolicy(fail_request=fail_request, keep_connected=keep_connected)
