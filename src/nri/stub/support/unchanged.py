"""Find a handler that changes the message it was given: nothing comes of that, and nobody notices.

One job: `watched` wraps a handler, and compares what it was given before and after. Messages stay raw protobuf, for
speed, so this is on where plugins are written: in `nri.testing`, `nri try` and `nri run --reload`. Rules: what is
compared is the deterministic serialization; only a difference is looked into. A handler that raises is left to its own
error, with a note. Next: `nri.stub.handler.call`, which calls handlers.
"""

from __future__ import annotations

from functools import wraps
from os.path import basename
from typing import TYPE_CHECKING, Any

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from google.protobuf.message import Message

__all__ = ["watched"]

#: The answers that a handler can give, for the advice; elsewhere there is nothing to return.
_ANSWERS: dict[str, type[Adjustment | Update]] = {
    "create_container": Adjustment,
    "update_container": Update,
    "stop_container": Update,
    "synchronize": Update,
}


def watched(handler: Callable[..., Any], method: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """The handler, with an error for a message that it has changed.

    Args:
        handler: the plugin's method.
        method: the name of the event's method.
        names: what the arguments are called.

    The wrapper raises:
        NriError: names the field, the handler and what to write instead.
    """

    @wraps(handler)
    def call(*arguments: Any) -> Any:
        given = [(path, message, _bytes(message)) for path, message in _messages(names, arguments)]

        def mistake() -> str:
            for path, message, before in given:
                if _bytes(message) != before:
                    return _explain(handler, method, path, type(message).FromString(before), message)
            return ""

        try:
            result = handler(*arguments)
        except Exception as error:
            _note(error, mistake())
            raise
        if hasattr(result, "cr_frame"):  # an `async def`
            return _finish(result, mistake)
        _refuse(mistake())
        return result

    return call


async def _finish(coroutine: Coroutine[Any, Any, Any], mistake: Callable[[], str]) -> Any:
    try:
        result = await coroutine
    except Exception as error:
        _note(error, mistake())
        raise
    _refuse(mistake())
    return result


def _note(error: Exception, text: str) -> None:
    if text:
        error.add_note(text)


def _refuse(text: str) -> None:
    if text:
        raise NriError(text)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _messages(names: tuple[str, ...], arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Each message of the arguments with its name; of a list each entry, of a validator's request the message."""
    for name, argument in zip(names, arguments, strict=True):
        if isinstance(argument, list):
            yield from ((f"{name}[{position}]", message) for position, message in enumerate(argument))
        else:
            yield name, getattr(argument, "message", argument)


def _explain(handler: Any, method: str, path: str, before: Message, after: Message) -> str:
    code = getattr(handler, "__code__", None)
    place = f" ({basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
    who = f"{getattr(handler, '__qualname__', method)}{place}"
    words, key, was, now = _difference(before, after)
    field = ".".join((path, *words))
    if key is not None and was is None and not now:  # an entry of a map that a read has made
        read = f"{field}[{key!r}]"
        return f"{who} reads {read}, which is not there: protobuf puts {now!r} in; write {field}.get({key!r})"
    what = field if key is None else f"{field}[{key!r}]"
    return f"{who} changes {what} of the message that it was given, and nothing comes of it: {_advice(method, words)}"


def _difference(before: Any, after: Any) -> tuple[list[str], Any, Any, Any]:
    """The names on the way to the first field that differs, the key if that is a map's, the value before and after."""
    words: list[str] = []
    while True:
        field = next(
            field
            for field in after.DESCRIPTOR.fields
            if _held(before, field) != _held(after, field) or getattr(before, field.name) != getattr(after, field.name)
        )
        words.append(field.name)
        before, after = getattr(before, field.name), getattr(after, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            keys = [
                key for key in {**before, **after} if (key in before, before.get(key)) != (key in after, after.get(key))
            ]
            return words, keys[0], before.get(keys[0]), after.get(keys[0])
        if field.message_type is None or hasattr(after, "extend") or before == after:
            return words, None, before, after


def _held(message: Any, field: Any) -> bool:
    return bool(message.HasField(field.name)) if field.has_presence else False


def _advice(method: str, words: list[str]) -> str:
    """The setter of what was written, in what the handler returns."""
    answer = _ANSWERS.get(method)
    if answer is None:
        return "containers are changed by what create_container returns, or later with self.runtime.update()"
    *_, parent, last = ["", *(word for word in words if word != "value")]
    for name in (last, f"{parent}_{last}", f"cpuset_{last}", last.removesuffix("s"), f"{last.removesuffix('s')}_rule"):
        for verb in ("set", "add"):
            if name and hasattr(answer, f"{verb}_{name}"):
                return f"return an nri.{answer.__name__} with {verb}_{name}()"
    return f"return an nri.{answer.__name__} with what is to change"
