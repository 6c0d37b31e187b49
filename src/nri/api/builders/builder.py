"""The base class of all builders: a thin wrapper of a message, with equality, text and JSON."""

# ruff: noqa: PLC0415 - a plugin's start must not import JSON

from __future__ import annotations

from _contextvars import ContextVar
from _weakref import ref

from nri.text import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol, Self

    from google.protobuf.message import Message

    class NewAnswers(Protocol):
        """A list or a deque that collects new answers."""

        def append(self, entry: tuple[ref[Answer], Any], /) -> object:
            """Add a new answer, by a weak reference, with its message."""


#: The collection for new answers while `nri.stub.support.handler_mistakes` checks a running handler; otherwise None.
_new_answers: ContextVar[NewAnswers | None] = ContextVar("nri_new_answers", default=None)
#: Whether a handler was ever checked. On a node this never happens, and reading the variable would slow every answer.
_is_collecting = False


def collect_new_answers(collection: NewAnswers | None) -> None:
    """Add answers that the current context creates from now on to a collection; None ends it."""
    global _is_collecting  # noqa: PLW0603 - read by every new answer
    _is_collecting = True
    _new_answers.set(collection)


class Builder:
    """The base of the builders. Comparison is by content. A builder can change, so it has no hash.

    Attributes:
        message: the protobuf message that the setters fill.
    """

    __slots__ = ("message",)

    message: Any
    __hash__ = None  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make read-only properties refuse an assignment, with an error that names the setter.

        A `__setattr__` method would slow down every assignment.
        """
        super().__init_subclass__(**kwargs)
        attributes = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        for name, attribute in attributes.items():
            if isinstance(attribute, property) and attribute.fset is None:
                setattr(cls, name, attribute.setter(_refusal(name)))

    if not TYPE_CHECKING:  # a type checker that sees `__getattr__` accepts every attribute

        def __getattr__(self, name: str) -> Any:
            verb = name.partition("_")[0].lower()
            method = _similar_method(type(self), name) if verb.startswith(("set", "add", "remove", "update")) else ""
            class_name = type(self).__name__
            advice = f"did you mean {method}()?" if method else f"help({class_name}) lists its methods"
            # If name and obj are None, Python does not append its own suggestion to the advice.
            raise AttributeError(f"{class_name} has no {name}: {advice}", name=None, obj=None)

    @classmethod
    def of(cls, message: Any) -> Self:
        """Wrap an existing message, which is not copied: setters change the message."""
        expected = cls._message_class()
        if not isinstance(message, expected):
            raise TypeError(f"{cls.__name__}.of() requires a {expected.__name__}, not {message!r}")
        builder = cls.__new__(cls)
        builder.message = message
        return builder

    @classmethod
    def _message_class(cls) -> type[Message]:
        raise TypeError(f"{cls.__name__} has no message")

    def copy(self) -> Self:
        """An independent builder with the same content."""
        message = type(self.message)()
        message.CopyFrom(self.message)
        return self.of(message)

    def is_empty(self) -> bool:
        """Whether nothing is set."""
        return not self.message.ByteSize()

    def to_bytes(self) -> bytes:
        """Encode the message."""
        data: bytes = self.message.SerializeToString()
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Create a builder from `to_bytes()`.

        Raises:
            google.protobuf.message.DecodeError: the bytes are not such a message.
        """
        return cls.of(cls._message_class().FromString(data))

    def to_json(self) -> dict[str, Any]:
        """The message for `json.dumps`, with protobuf's JSON names. 64-bit integers are strings."""
        from google.protobuf.json_format import MessageToDict

        content: dict[str, Any] = MessageToDict(self.message)
        return content

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.message == other.message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(describe(self.message))})"


class Answer(Builder):
    """A builder of what a handler returns."""

    __slots__ = ("__weakref__",)

    def __init__(self, message: Any) -> None:
        self.message = message
        if _is_collecting:
            collection = _new_answers.get()
            if collection is not None:
                collection.append((ref(self), message))


def _refusal(name: str) -> Callable[[Any, Any], None]:
    def refuse(builder: Any, _value: Any) -> None:
        kind, method = type(builder), _similar_method(type(builder), f"set_{name}")
        raise AttributeError(f"{kind.__name__}.{name} is read-only{method and f': write with {method}()'}")

    return refuse


def _similar_method(cls: type, name: str) -> str:
    """The method whose name is most similar, or "". `name` may also be a Go method or a property."""
    import re

    methods = [method for method in dir(cls) if callable(getattr(cls, method)) and not method.startswith("_")]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("linux_", "")
    noun = words.partition("_")[2]
    setters = (f"{verb}_{word}" for word in (noun, noun.removesuffix("s")) for verb in ("set", "add"))
    synonym = {"set_hooks": "add_hook", "set_resources": "set_memory_limit"}.get(words)
    candidates = [method for method in (synonym, words, *setters) if method in methods]
    return candidates[0] if candidates else nearest(words, methods)


def describe(message: Message, prefix: str = "") -> Iterator[str]:
    """Yield each field that is set, as `path=value`.

    For an optional wrapper, the value is its content; for a message, each of its fields is yielded.
    """
    for field, value in message.ListFields():
        path = prefix + field.name
        if field.enum_type is not None:
            names = field.enum_type.values_by_number
            labels = [names[number].name if number in names else str(number) for number in _as_list(value)]
            yield f"{path}=[{', '.join(labels)}]" if _is_list(value) else f"{path}={labels[0]}"
        elif field.message_type is None:
            yield f"{path}={list(value) if _is_list(value) else value!r}"
        elif field.message_type.GetOptions().map_entry:
            shown = ", ".join(f"{entry!r}: {_show(value[entry])}" for entry in sorted(value))
            yield f"{path}={{{shown}}}"
        elif _is_list(value):
            yield f"{path}=[{', '.join(map(_show, value))}]"
        elif field.message_type.name.startswith("Optional"):
            yield f"{path}={_show(value)}"
        else:
            yield from list(describe(value, path + ".")) or [f"{path}={{}}"]


def _is_list(value: Any) -> bool:
    return hasattr(value, "extend")


def _as_list(value: Any) -> list[Any]:
    return list(value) if _is_list(value) else [value]


def _show(value: Any) -> str:
    if not hasattr(value, "ListFields"):
        return repr(value)
    if value.DESCRIPTOR.name.startswith("Optional"):
        return repr(list(value.value) if _is_list(value.value) else value.value)
    return f"{{{', '.join(describe(value))}}}"
