"""Optional values: NRI wraps scalars in messages (`OptionalInt64`), so that "unset" differs from zero.

Only the outer message knows whether a wrapper is present, so the functions take that message and the field's name.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from google.protobuf.message import Message


def get(message: Message, field: str) -> Any:
    """The value of the wrapper `field` of `message`, or None if it is absent. A list for `OptionalRepeatedString`.

    Also works for `LinuxPids` with its one field: `get(resources, "pids")` is the limit.

    Raises:
        ValueError: `message` does not have the field, or the field is not a message.
    """
    if not message.HasField(field):
        return None
    wrapper = getattr(message, field)
    if wrapper.DESCRIPTOR.name == "LinuxPids":
        return wrapper.limit
    value = wrapper.value
    return value if isinstance(value, (int, str)) else list(value)


def put(message: Message, field: str, value: Any) -> None:
    """Set the wrapper `field` of `message`, or clear it if `value` is None. An error changes nothing.

    Raises:
        TypeError: the value has the wrong type.
        ValueError: the value is out of range.
    """
    if value is None:
        message.ClearField(field)
        return
    target = getattr(message, field)
    name = "limit" if target.DESCRIPTOR.name == "LinuxPids" else "value"
    try:
        # Built separately: a wrong value assigned in place would leave an empty wrapper, which means zero.
        wrapper = type(target)(**{name: value})
    except (TypeError, ValueError) as error:
        raise type(error)(f"{field}: {error}") from None
    target.CopyFrom(wrapper)
