"""The base of all builders: a message inside, equality, text for people, JSON.

One job: the base class of `Adjustment`, `Update` and `Eviction`. A builder is a thin handle on one message; it holds no
state of its own; the message is `.message`.
"""

# ruff: noqa: PLC0415 - JSON is for people; the start of a plugin must not load it

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    from google.protobuf.message import Message

__all__ = ["Builder", "describe"]


class Builder:
    """Base of the builders. Comparison is by content; a builder can change, so it has no hash.

    Attributes:
        message: the protobuf message that the setters fill.
    """

    __slots__ = ("message",)

    message: Any
    __hash__ = None  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make readers refuse an assignment with the setter's name; a `__setattr__` would cost each answer time."""
        super().__init_subclass__(**kwargs)
        readers = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        for name, reader in readers.items():
            if isinstance(reader, property) and reader.fset is None:
                setattr(cls, name, reader.setter(_refusal(name)))

    if not TYPE_CHECKING:  # to a type checker it would mean that there is every attribute

        def __getattr__(self, name: str) -> Any:
            verb = name.partition("_")[0].lower()
            near = _nearest(type(self), name) if verb.startswith(("set", "add", "remove", "update")) else ""
            own = type(self).__name__
            step = f"did you mean {near}()?" if near else f"help({own}) lists its methods"
            raise AttributeError(f"{own} has no {name}: {step}")

    @classmethod
    def of(cls, message: Any) -> Self:
        """A builder on an existing message, which is not copied: setters change it."""
        expected = cls._message_class()
        if not isinstance(message, expected):
            raise TypeError(f"{cls.__name__}.of() takes a {expected.__name__}, not {message!r}")
        made = cls.__new__(cls)
        made.message = message
        return made

    @classmethod
    def _message_class(cls) -> type[Message]:
        raise TypeError(f"{cls.__name__} has no message")

    def copy(self) -> Self:
        """An independent builder with the same content."""
        message = type(self.message)()
        message.CopyFrom(self.message)
        return self.of(message)

    def is_empty(self) -> bool:
        """Whether nothing at all is set."""
        return not self.message.ByteSize()

    def to_bytes(self) -> bytes:
        """The message as it travels."""
        data: bytes = self.message.SerializeToString()
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A builder from `to_bytes()`.

        Raises:
            google.protobuf.message.DecodeError: the bytes are no such message.
        """
        return cls.of(cls._message_class().FromString(data))

    def to_json(self) -> dict[str, Any]:
        """The message for `json.dumps`, under its protobuf JSON names; 64-bit integers are texts, as in protobuf."""
        from google.protobuf.json_format import MessageToDict

        content: dict[str, Any] = MessageToDict(self.message)
        return content

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.message == other.message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(describe(self.message))})"


def _refusal(name: str) -> Callable[[Any, Any], None]:
    def refuse(builder: Any, _value: Any) -> None:
        kind, near = type(builder), _nearest(type(builder), f"set_{name}")
        raise AttributeError(f"{kind.__name__}.{name} only shows what is set{near and f': write with {near}()'}")

    return refuse


def _nearest(cls: type, name: str) -> str:
    """Return the method that was meant by a name, also one of the Go API, or the setter of a reader; "" for none."""
    import difflib
    import re

    known = [each for each in dir(cls) if callable(getattr(cls, each)) and not each.startswith("_")]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("linux_", "")
    rest = words.partition("_")[2]
    exact = (f"{verb}_{word}" for word in (rest, rest.removesuffix("s")) for verb in ("set", "add"))
    also = {"set_hooks": "add_hook", "set_resources": "set_memory_limit"}.get(words)
    near = [each for each in (also, words, *exact) if each in known]
    return next(iter(near or difflib.get_close_matches(words, known, 1, 0.8)), "")


def describe(message: Message, prefix: str = "") -> Iterator[str]:
    """Each field that is set as `path=value`; optional wrappers show their value, messages their fields."""
    for field, value in message.ListFields():
        path = prefix + field.name
        if field.enum_type is not None:
            names = field.enum_type.values_by_number
            words = [names[number].name if number in names else str(number) for number in _as_list(value)]
            yield f"{path}=[{', '.join(words)}]" if _is_list(value) else f"{path}={words[0]}"
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
