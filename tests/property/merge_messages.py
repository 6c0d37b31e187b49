"""Hypothesis strategies for adjustments and updates, from the API's descriptors, so that new fields join by themselves.

Keys come from a small alphabet, so that plugins meet often.
"""

import dataclasses
import functools
from typing import Any

from hypothesis import strategies as st

from nri.api import messages as m
from nri.rules import Rules

TEXTS = ["", "x", "y", "0-1"]
KEYS = ["a", "b", "c", "a=b"]
MARKED = [*KEYS, "-a", "-b", "-c", "--a"]
#: Names of the first field of list elements that have a key.
KEY_FIELDS = {"key", "destination", "path", "type", "page_size", "name"}


def _value(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == field.TYPE_STRING:
        return st.sampled_from(TEXTS)
    if field.type == field.TYPE_BOOL:
        return st.booleans()
    return st.sampled_from([0, 1, 7])


@functools.cache
def _some_fields(descriptor: Any, limit: int) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(list(descriptor.fields)), max_size=limit, unique_by=lambda field: field.number)


def fill(draw: st.DrawFn, message: Any, keys: list[str], limit: int) -> Any:
    """Set at most so many fields of a message, and about as many of each message in it."""
    for field in draw(_some_fields(message.DESCRIPTOR, limit)):
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(draw, getattr(message, field.name), field, keys)
        elif field.is_repeated:
            _fill_list(draw, getattr(message, field.name), field, keys)
        elif field.message_type is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            fill(draw, inner, keys, limit)
        else:
            setattr(message, field.name, draw(_value(field)))
    return message


def _fill_map(draw: st.DrawFn, target: Any, field: Any, keys: list[str]) -> None:
    value = field.message_type.fields_by_name["value"]
    for key in draw(st.lists(st.sampled_from(keys), max_size=3)):
        if value.message_type is not None:
            fill(draw, target[key], keys, 1)
        else:
            target[key] = draw(st.sampled_from(TEXTS))


def _fill_list(draw: st.DrawFn, target: Any, field: Any, keys: list[str]) -> None:
    for _ in range(draw(st.integers(1, 2))):
        if field.message_type is None:
            target.append(draw(_value(field)))
            continue
        element = fill(draw, target.add(), keys, 1)
        first = element.DESCRIPTOR.fields[0]
        if first.name in KEY_FIELDS and first.type == first.TYPE_STRING:
            setattr(element, first.name, draw(st.sampled_from(keys)))


@st.composite
def containers(draw: st.DrawFn) -> m.Container:
    container = fill(draw, m.Container(), KEYS, 4)
    container.id = "ctr"
    container.env[:] = draw(st.lists(st.sampled_from(["a=1", "b=2", "c=", "a", "d=x=y", "=", "a=b=c"]), max_size=4))
    return container


@st.composite
def updates(draw: st.DrawFn, targets: tuple[str, ...] = ("o1", "o2")) -> m.ContainerUpdate:
    update = m.ContainerUpdate(container_id=draw(st.sampled_from(targets)), ignore_failure=draw(st.booleans()))
    if draw(st.integers(0, 5)):
        fill(draw, update.linux.resources, KEYS, 3)
    return update


@st.composite
def create_replies(draw: st.DrawFn, marks: bool = True) -> m.CreateContainerResponse:
    reply = m.CreateContainerResponse(update=draw(st.lists(updates(), max_size=1)))
    if draw(st.integers(0, 7)):
        fill(draw, reply.adjust, MARKED if marks else KEYS, 4)
    return reply


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """Any combination of rules, the two that are used most often."""
    if draw(st.booleans()):
        return draw(st.sampled_from([Rules.DEFAULT, Rules.REFERENCE]))
    names = [field.name for field in dataclasses.fields(Rules)]
    return Rules(**dict.fromkeys(draw(st.lists(st.sampled_from(names), unique=True)), False))
