"""Find what a handler does and nothing comes of, so that nobody notices.

| mistake | how it is found |
|---|---|
| it changes the message that it was given | the deterministic serialization differs; only then it is looked into |
| it makes an Adjustment and returns nothing | it answered None, and no line of it returns a value |
| it returns one Adjustment for several containers | the same object again, with something else in it |
| it calls `sys.exit` | SystemExit, which would end the plugin without a word |

One job: `watched` wraps a handler for that. Messages stay raw protobuf, for speed, so this is on where plugins are
written: in `nri.testing`, `nri try` and `nri run --reload`. A handler that raises is left to its own error, with a
note. Next: `nri.stub.handler.call`, which calls handlers.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
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


#: How deep messages are looked into for a field that was meant.
_DEEPEST = 4


def watched(handler: Callable[..., Any], method: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """The handler, with an error for what it does in vain.

    Args:
        handler: the plugin's method.
        method: the name of the event's method.
        names: what the arguments are called.

    The wrapper raises:
        NriError: names the field, the handler and what to write instead.
    """
    answers = _Answers(handler, method)

    @wraps(handler)
    def call(*arguments: Any) -> Any:
        given = [(path, message, _bytes(message)) for path, message in _messages(names, arguments)]

        def mistake() -> str:
            for path, message, before in given:
                if _bytes(message) != before:
                    return _explain(handler, method, path, type(message).FromString(before), message)
            return ""

        def raised(error: BaseException) -> None:
            if isinstance(error, SystemExit):
                raise NriError(
                    f"{_who(handler, method)} calls sys.exit({error.code!r}), which ends the plugin"
                ) from error
            _note(error, mistake() or _meant(error, [message for _, message, _ in given]))

        def answered(result: Any) -> Any:
            _refuse(mistake() or answers.mistake(result))
            return result

        try:
            result = handler(*arguments)
        except (Exception, SystemExit) as error:
            raised(error)
            raise
        if hasattr(result, "cr_frame"):  # an `async def`
            return _finish(result, answered, raised)
        return answered(result)

    return call


async def _finish(
    coroutine: Coroutine[Any, Any, Any], answered: Callable[[Any], Any], raised: Callable[[BaseException], None]
) -> Any:
    try:
        result = await coroutine
    except (Exception, SystemExit) as error:
        raised(error)
        raise
    return answered(result)


class _Answers:
    """The answers of a handler until now."""

    def __init__(self, handler: Callable[..., Any], method: str) -> None:
        self._handler, self._method = handler, method
        self._forgets: bool | None = None
        self._last: Adjustment | None = None
        self._bytes = b""

    def mistake(self, result: Any) -> str:
        """Say what is wrong with an answer, "" for nothing."""
        if self._method != "create_container":
            return ""
        if result is None:
            if self._forgets is None:
                self._forgets = _never_returns(self._handler)
            who = _who(self._handler, self._method)
            return f"{who} makes an Adjustment and returns nothing: return it" if self._forgets else ""
        found = result[0] if isinstance(result, tuple) and result else result
        if not isinstance(found, Adjustment):
            return ""
        now, before = _bytes(found.message), self._bytes
        again, self._last, self._bytes = found is self._last, found, now
        if again and now != before:
            who = _who(self._handler, self._method)
            return (
                f"{who} returns the Adjustment of the container before, with more in it: "
                "what it set for that one is set for this one too; make a new nri.Adjustment() for each"
            )
        return ""


def _never_returns(handler: Callable[..., Any]) -> bool:
    """Whether a handler makes an Adjustment, and no line of it returns a value."""
    try:
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(handler)))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return False  # it was not read from a file
    made, waiting = False, [*ast.iter_child_nodes(function)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return False
        called = node.func if isinstance(node, ast.Call) else None
        made = made or getattr(called, "attr", getattr(called, "id", "")) == Adjustment.__name__
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return made


def _meant(error: BaseException, messages: list[Message]) -> str:
    """Which field was meant by one that messages do not have, "" if that is not what is wrong."""
    if not isinstance(error, AttributeError):
        return ""
    names, waiting = set[str](), [(each.DESCRIPTOR, 0) for each in messages]
    while waiting:
        descriptor, depth = waiting.pop()
        for field in descriptor.fields:
            names.add(field.name)
            if field.message_type is not None and depth < _DEEPEST:
                waiting.append((field.message_type, depth + 1))
    near = difflib.get_close_matches(str(error), names, 1, 0.7)
    return f"the message has no field {error}; did you mean {near[0]}?" if near else ""


def _note(error: BaseException, text: str) -> None:
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


def _who(handler: Any, method: str) -> str:
    """A handler's name, and where it is."""
    code = getattr(handler, "__code__", None)
    place = f" ({basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(handler, '__qualname__', method)}{place}"


def _explain(handler: Any, method: str, path: str, before: Message, after: Message) -> str:
    who = _who(handler, method)
    words, key, was, now = _difference(before, after)
    field = ".".join((path, *words))
    if key is not None and was is None and not now:  # an entry of a map that a read has made
        read = f"{field}[{key!r}]"
        return f"{who} reads {read}, which is not there: protobuf puts {now!r} in; write {field}.get({key!r})"
    what = field if key is None else f"{field}[{key!r}]"
    return f"{who} changes {what} of the message that it was given, which has no effect: {_advice(method, words)}"


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
