"""Report mistakes of handlers that otherwise have no visible effect, in `nri.testing`, `nri try`, `nri run --reload`.

| mistake | detection |
|---|---|
| the handler changes the message of its request | the deterministic serialization differs |
| the handler creates an answer and does not return it | no object holds the answer after the call; not requested |
| the handler returns the same Adjustment for several containers | the same object is returned with other content |
| the handler calls `sys.exit` | SystemExit, which would end the plugin without an error |
"""

from __future__ import annotations

from collections import deque
from functools import wraps
from os.path import basename
from typing import TYPE_CHECKING, Any

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.builder import collect_new_answers
from nri.api.builders.update import Update
from nri.errors import NriError
from nri.stub.support import context
from nri.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from weakref import ref

    from google.protobuf.message import Message

    from nri.api.builders.builder import Answer

    #: The answers that a call has created, with their messages.
    _Created = deque[tuple[ref[Answer], Any]]

#: The class that a handler returns, for the advice; other handlers return nothing.
_ANSWERS: dict[str, type[Adjustment | Update]] = {
    "create_container": Adjustment,
    "update_container": Update,
    "stop_container": Update,
    "synchronize": Update,
}


#: How deep nested messages are searched for a field to suggest.
_MAX_DEPTH = 4
#: The most answers of one call that are watched.
_MAX_ANSWERS = 10_000


def checked_handler(handler: Callable[..., Any], method: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """Wrap a handler so that its mistakes raise an error.

    Args:
        handler: the plugin's method.
        method: the name of the event's method.
        names: the names of its arguments.

    The wrapper raises:
        NriError: with the field, the handler and the fix. An exception of the handler is raised unchanged, with a note.
    """
    answers = _Answers(handler, method)

    @wraps(handler)
    def call(*arguments: Any) -> Any:
        originals = [(path, message, _bytes(message)) for path, message in _messages(names, arguments)]

        def mistake() -> str:
            for path, message, before in originals:
                if _bytes(message) != before:
                    return _explain(handler, method, path, type(message).FromString(before), message)
            return ""

        def raised(error: BaseException) -> None:
            if isinstance(error, SystemExit):
                raise NriError(
                    f"{_handler_text(handler, method)} calls sys.exit({error.code!r}), which ends the plugin"
                ) from error
            _add_note(error, mistake() or _suggestion(error, [message for _, message, _ in originals]))

        def answered(result: Any, created: _Created) -> Any:
            _refuse(mistake() or answers.mistake(result) or _forgotten_answers(handler, method, result, created))
            return result

        created: _Created = deque(maxlen=_MAX_ANSWERS)
        collect_new_answers(created)
        try:
            result = handler(*arguments)
        except (Exception, SystemExit) as error:
            raised(error)
            raise
        finally:
            collect_new_answers(None)
        if hasattr(result, "cr_frame"):  # an `async def`
            return _finish(result, answered, raised)
        return answered(result, created)

    return call


async def _finish(
    coroutine: Coroutine[Any, Any, Any],
    answered: Callable[[Any, _Created], Any],
    raised: Callable[[BaseException], None],
) -> Any:
    created: _Created = deque(maxlen=_MAX_ANSWERS)
    collect_new_answers(created)
    try:
        result = await coroutine
    except (Exception, SystemExit) as error:
        raised(error)
        raise
    finally:
        collect_new_answers(None)
    del coroutine  # its frame holds the handler's variables
    return answered(result, created)


class _Answers:
    """The previous answers of a handler."""

    def __init__(self, handler: Callable[..., Any], method: str) -> None:
        self._handler, self._method = handler, method
        self._last_adjustment: Adjustment | None = None
        self._bytes = b""

    def mistake(self, result: Any) -> str:
        """Describe the mistake in an answer. Returns "" without a mistake."""
        if self._method != "create_container":
            return ""
        adjustment = result[0] if isinstance(result, tuple) and result else result
        if not isinstance(adjustment, Adjustment):
            return ""
        now, before = _bytes(adjustment.message), self._bytes
        is_repeated, self._last_adjustment, self._bytes = adjustment is self._last_adjustment, adjustment, now
        if is_repeated and now != before:
            caller = _handler_text(self._handler, self._method)
            return (
                f"{caller} returns the Adjustment of the previous container again, so that its settings also apply to "
                "this container: create a new nri.Adjustment() for each container"
            )
        return ""


def _forgotten_answers(handler: Callable[..., Any], method: str, result: Any, created: _Created) -> str:
    """Describe the answers that a call has created and neither returned, requested nor stored; "" if there are none."""
    dropped = [message for answer, message in created if answer() is None and _has_effect(message)]
    if not dropped:
        return ""
    call = context.current.get()
    requests = [m.UpdateContainersRequest.FromString(payload) for _, payload in (call and call.queued) or ()]
    used = [*_returned_messages(result), *(update for request in requests for update in request.update)]
    # A handler may merge several answers into the one that it returns, or choose some of them.
    used_types = {type(message) for message in used}
    dropped = [message for message in dropped if type(message) not in used_types]
    if not dropped:
        return ""
    kind = type(dropped[0]).__name__.removeprefix("Container")
    what = f"{len(dropped)} answers, the first an {kind}," if len(dropped) > 1 else f"an {kind},"
    caller = _handler_text(handler, method)
    if method in _ANSWERS and not (kind == "Adjustment" and method != "create_container"):
        step = "return it" if len(dropped) == 1 else "return them in one list"
        returned = "returns nothing" if result is None else "returns another answer"
        return f"{caller} creates {what} but {returned}: {step}"
    step = "containers are adjusted in create_container" if kind == "Adjustment" else "request it with self.runtime"
    return f"{caller} creates {what} which has no effect: {step}"


def _has_effect(message: Any) -> bool:
    if isinstance(message, m.ContainerUpdate):
        return bool(message.linux.resources.ByteSize())
    return bool(message.ByteSize())


def _returned_messages(result: Any) -> Iterator[Any]:
    """The messages in a handler's answer, which may be copies."""
    for item in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(item, (list, tuple)):
            yield from _returned_messages(item)
        else:
            yield getattr(item, "message", item)


def _suggestion(error: BaseException, messages: list[Message]) -> str:
    """A suggestion for a field that the messages do not have. Returns "" for other errors."""
    if not isinstance(error, AttributeError):
        return ""
    names, queue = set[str](), [(message.DESCRIPTOR, 0) for message in messages]
    while queue:
        descriptor, depth = queue.pop()
        for field in descriptor.fields:
            names.add(field.name)
            if field.message_type is not None and depth < _MAX_DEPTH:
                queue.append((field.message_type, depth + 1))
    suggestion = nearest(str(error), names)
    return f"the message has no field {error}; did you mean {suggestion}?" if suggestion else ""


def _add_note(error: BaseException, text: str) -> None:
    if text:
        error.add_note(text)


def _refuse(text: str) -> None:
    if text:
        raise NriError(text)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _messages(names: tuple[str, ...], arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """The messages in the arguments with their names, including entries of lists and a validator's request."""
    for name, argument in zip(names, arguments, strict=True):
        if isinstance(argument, list):
            yield from ((f"{name}[{position}]", message) for position, message in enumerate(argument))
        else:
            yield name, getattr(argument, "message", argument)


def _handler_text(handler: Any, method: str) -> str:
    """A handler's name and location."""
    code = getattr(handler, "__code__", None)
    place = f" ({basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
    return f"{getattr(handler, '__qualname__', method)}{place}"


def _explain(handler: Any, method: str, path: str, before: Message, after: Message) -> str:
    caller = _handler_text(handler, method)
    path_names, key, was, now = _difference(before, after)
    field = ".".join((path, *path_names))
    if key is not None and was is None and not now:  # an entry of a map that reading has created
        read = f"{field}[{key!r}]"
        return f"{caller} reads {read}, which does not exist: protobuf then inserts {now!r}; write {field}.get({key!r})"
    what = field if key is None else f"{field}[{key!r}]"
    return f"{caller} changes {what} of the request's message, which has no effect: {_advice(method, path_names)}"


def _difference(before: Any, after: Any) -> tuple[list[str], Any, Any, Any]:
    """The path to the first field that differs, the key if the field is a map, and the values before and after."""
    path_names: list[str] = []
    while True:
        field = next(
            field
            for field in after.DESCRIPTOR.fields
            if _is_set(before, field) != _is_set(after, field)
            or getattr(before, field.name) != getattr(after, field.name)
        )
        path_names.append(field.name)
        before, after = getattr(before, field.name), getattr(after, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            keys = [
                key for key in {**before, **after} if (key in before, before.get(key)) != (key in after, after.get(key))
            ]
            return path_names, keys[0], before.get(keys[0]), after.get(keys[0])
        if field.message_type is None or hasattr(after, "extend") or before == after:
            return path_names, None, before, after


def _is_set(message: Any, field: Any) -> bool:
    return bool(message.HasField(field.name)) if field.has_presence else False


def _advice(method: str, path_names: list[str]) -> str:
    """Suggest the setter with which the handler can change the field."""
    answer = _ANSWERS.get(method)
    if answer is None:
        return (
            "change containers with the Adjustment that create_container returns, or later with self.runtime.update()"
        )
    *_, parent, last = ["", *(word for word in path_names if word != "value")]
    for name in (last, f"{parent}_{last}", f"cpuset_{last}", last.removesuffix("s"), f"{last.removesuffix('s')}_rule"):
        for verb in ("set", "add"):
            if name and hasattr(answer, f"{verb}_{name}"):
                return f"return an nri.{answer.__name__} with {verb}_{name}()"
    return f"return an nri.{answer.__name__} with the change"
