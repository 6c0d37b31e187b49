"""Messages without what says nothing, for comparisons: an empty message in a message is as good as none.

The merge gives every adjustment its empty hooks and resources, Go plugins send empty adjustments.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

import nri

#: Wrappers of optional values, where being there is what they say.
_SAYS_SOMETHING = ("Optional", "LinuxPids", "LinuxNetDevice")


def pruned(message: Any) -> Any:
    """A copy of a message, or of what an `Adjustment` holds, without empty messages in it, at any depth."""
    if isinstance(message, nri.Adjustment):
        return nri.Adjustment.of(pruned(message.message))
    copy = type(message)()
    copy.CopyFrom(message)
    _prune(copy)
    return copy


def _prune(message: Message) -> None:
    for field, value in message.ListFields():
        if not isinstance(value, Message) or value.DESCRIPTOR.name.startswith(_SAYS_SOMETHING):
            continue
        _prune(value)
        if not value.ListFields():
            message.ClearField(field.name)
