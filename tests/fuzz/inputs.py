"""Strategies for inputs: bytes of the wire that are nearly right, and texts of configuration that are nearly right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from nri.wire import bytes_field, varint, varint_field

#: Pieces of texts at which parsers go wrong.
WORDS = (
    *"{}[]:,-&*!|>'\"%@`?#=.<~\\\n\t \r/+_;()$^", "---\n", "<<: ", "&a ", "*a", "!!python/name:os.system ", "!!binary ",
    "!!int ", "!!float ", "!!timestamp ", "!!set ", "!!omap ", "!!null ", "!x ", "%YAML 9.9\n", "null", "true", "no",
    "1e999", "-1", "0", "1" * 30, "9" * 5000, ".nan", ".inf", "1_0", "0x" + "f" * 40, "0o7", "2026-01-01T00:00:00",
    "12:30", "\x00", "\x1b[2J", "\u2028", "\u202e", "\x85", "\ufeff", "é", "日", "\U0001f600", "[" * 200, "{a: " * 200,
    '{"a":' * 200, "- " * 200, "  ",
)  # fmt: skip
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=6),
    st.sampled_from(["", "500m", "1Gi", "1e99", "-1", "10-a", "*", "!a", "k=v", "0-3", "2s", "\x1b[2J", "9" * 400,
                     "[" * 3000, '{"a":' * 101 + "1" + "}" * 101]),
)  # fmt: skip


def _nested(depth: int) -> Any:
    tree: Any = []
    for number in range(depth):
        tree = {"a": tree} if number % 2 else [tree]
    return tree


#: Trees that are deeper than any reader allows, and not as deep as Python goes by itself.
_DEEP_TREES = st.sampled_from([99, 150, 400]).map(_nested)  # each anew, because what is drawn is changed
_ALIASES = "".join(f"a{number}: &a{number}\n  - *a{number - 1}\n" for number in range(1, 500))
#: Whole texts that are nested deeply, in each way of JSON, YAML and TOML: a bit deeper than is allowed, and far more.
DEEP = tuple(
    text.encode()
    for depth in (101, 900, 20_000)
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "- " * depth + "x", "? " * depth,
                 "a = " + "[" * depth + "]" * depth, "a = " + "{a = " * depth + "1" + "}" * depth,
                 "a." * depth + "a = 1", "[" + "a." * depth + "a]", "a0: &a0 x\n" + _ALIASES)
)  # fmt: skip


def trees(keys: Sequence[str], leaves: int = 12) -> st.SearchStrategy[Any]:
    """Trees of tables and lists with these keys, and now and then a key that is not text."""
    some = st.one_of(st.sampled_from(keys), st.sampled_from(keys), st.text(max_size=4))
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(some, inner, max_size=4),
        max_leaves=leaves,
    )


@st.composite
def replaced(draw: st.DrawFn, samples: Sequence[Any], keys: Sequence[str]) -> Any:
    """One of some trees, in which a few values are replaced by others, left out, doubled or renamed."""
    tree = json.loads(json.dumps(draw(st.sampled_from(samples))))
    for _ in range(draw(st.integers(0, 3))):
        places = list(_places(tree))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        what = draw(st.integers(0, 3))
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, dict):
            holder[draw(st.sampled_from(keys) | st.text(max_size=4))] = holder.pop(key)
        elif what == 1:
            holder.append(holder[key])
        else:
            holder[key] = draw(SCALARS | trees(keys, 4) | _DEEP_TREES)
    return tree


def _places(tree: Any) -> Any:
    """All (holder, key) of a tree."""
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in items:
        yield tree, key
        yield from _places(value)


@st.composite
def spoiled(draw: st.DrawFn, samples: Sequence[bytes], words: Sequence[bytes] = ()) -> bytes:
    """One of some samples with a few edits: bytes cut out, put in, turned over, or a part said twice."""
    data = draw(st.sampled_from(samples))
    pieces = st.binary(max_size=8) | st.sampled_from(words) if words else st.binary(max_size=8)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        what = draw(st.integers(0, 3))
        if what == 0:
            data = data[:start] + data[end:]
        elif what == 1:
            data = data[:start] + draw(pieces) + data[start:]
        elif what == 2:
            data = data[:start] + draw(pieces) + data[end:]
        else:
            data = data[:end] + data[start:end] * draw(st.integers(1, 3)) + data[end:]
    return data


def texts(samples: Sequence[str]) -> st.SearchStrategy[bytes]:
    """Texts that are made of pieces, and spoiled samples."""
    words = [word.encode() for word in WORDS]
    created = st.lists(st.sampled_from(words) | st.text(max_size=4).map(_encoded), max_size=12).map(b"".join)
    return st.one_of(
        spoiled([sample.encode() for sample in samples], words), created, st.binary(max_size=40), st.sampled_from(DEEP)
    )


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def documents(samples: Sequence[Any], keys: Sequence[str]) -> st.SearchStrategy[bytes]:
    """JSON, which YAML takes as well: sample trees with replaced values, and trees of these keys."""
    shown = [json.dumps(sample, indent=1) for sample in samples]
    return st.one_of(
        replaced(samples, keys).map(_json), trees(keys).map(_json), texts(shown), replaced(samples, keys).map(_yaml)
    )


def _json(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def _yaml(tree: Any) -> bytes:
    import yaml

    try:
        return yaml.safe_dump(tree, allow_unicode=True).encode(errors="replace")
    except RecursionError:  # deep trees that were put into each other; YAML takes JSON
        return _json(tree)


#: Anything in protobuf's wire format: fields by number, in each other.
fields: st.SearchStrategy[bytes] = st.recursive(
    st.binary(max_size=6),
    lambda inner: st.lists(
        st.one_of(
            st.builds(bytes_field, st.integers(1, 16), inner),
            st.builds(varint_field, st.integers(1, 16), st.integers(0, 2**64 - 1)),
            st.builds(lambda number, kind, rest: varint(number << 3 | kind) + rest,
                      st.integers(0, 40), st.integers(0, 7), st.binary(max_size=9)),
        ),
        max_size=5,
    ).map(b"".join),
    max_leaves=8,
)  # fmt: skip


@st.composite
def messages(draw: st.DrawFn, kind: Any) -> bytes:
    """Encoded messages of a class with any fields set to any values; sometimes spoiled."""
    message = _fill(draw, kind(), 3)
    data: bytes = message.SerializeToString()
    if draw(st.integers(0, 4)) == 0:
        return draw(spoiled([data]))
    return data


def _fill(draw: st.DrawFn, message: Any, depth: int) -> Any:
    options = list(message.DESCRIPTOR.fields)
    for field in draw(
        st.lists(st.sampled_from(options), max_size=3, unique_by=lambda one: one.number) if options else st.just([])
    ):
        inner = field.message_type
        target = getattr(message, field.name)
        if inner is not None and inner.GetOptions().map_entry:
            key_field, value_field = inner.fields_by_name["key"], inner.fields_by_name["value"]
            for key in draw(st.lists(_scalar(key_field), max_size=2)):
                if value_field.message_type is not None:
                    _fill(draw, target[key], depth - 1)
                else:
                    target[key] = draw(_scalar(value_field))
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 2))):
                if inner is not None:
                    _fill(draw, target.add(), depth - 1) if depth else target.add()
                else:
                    target.append(draw(_scalar(field)))
        elif inner is not None:
            target.SetInParent()
            if depth:
                _fill(draw, target, depth - 1)
        else:
            setattr(message, field.name, draw(_scalar(field)))
    return message


_TEXTS = st.sampled_from(
    ["", "a", "b", "-a", "c0", "c1", "a=b", "10-a", "\x1b[2J\n", "\u202e", "\U0001f600"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values]) | st.integers(-(2**31), 2**31 - 1)
    if field.type == field.TYPE_STRING:
        return _TEXTS
    if field.type == field.TYPE_BYTES:
        return st.binary(max_size=5)
    if field.type == field.TYPE_BOOL:
        return st.booleans()
    low, high = _BOUNDS[field.cpp_type]
    return st.sampled_from([low, high, 0, 1]) | st.integers(low, high)


#: What numbers of each of protobuf's C++ types may be: int32, int64, uint32, uint64.
_BOUNDS = {1: (-(2**31), 2**31 - 1), 2: (-(2**63), 2**63 - 1), 3: (0, 2**32 - 1), 4: (0, 2**64 - 1)}
