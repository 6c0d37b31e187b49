"""Render a template of a CNI configuration from the node's address ranges, as containerd renders its `conf_template`.

Templates have the syntax of Go's text/template. Supported are the fields of containerd, loops (`range`, with variables
for index and item), conditions (`if`, `else if`, `else`), the functions `index`, `len`, `not`, `eq` and `ne`, comments,
and the removal of blanks (`{{-`, `-}}`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_interface
from pathlib import Path
from typing import Any, NamedTuple

from nri.engine.network.configuration import parse_network
from nri.errors import ConfigError
from nri.files import read_regular, write_whole

#: The name of the written file. containerd's is 10-containerd-net.conflist.
FILE_NAME = "10-nri-engine-net.conflist"
#: The maximum size of a template, in bytes, and of its result, in characters.
_MAX_SIZE = 1 << 20
#: The maximum number of steps of a rendering. A template of the usual form takes less than 100.
_MAX_STEPS = 10_000
_MAX_CIDRS = 16
# At each place only one alternative can match, so that a search takes linear time.
_ACTION = re.compile(r"\{\{(-\s)?(/\*.*?\*/|(?!/\*)(?:\"[^\"]*\"|`[^`]*`|[^\"`])*?)(\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'\s*("[^"]*"|`[^`]*`|:=|,|(?:\$\.)?\w+|\$\w*|\.\w*|\S)')
_OPERAND = re.compile(r'"[^"\\]*"|`[^`]*`|\$\w*|\$?\.\w*|\d+|true|false')
_CIDR = re.compile(r"[0-9a-fA-F:.]+/[0-9]{1,3}")
#: The functions, with the number of their operands.
_FUNCTIONS = {"index": 2, "len": 1, "not": 1, "eq": 2, "ne": 2}


def values_of(pod_cidrs: str) -> dict[str, Any]:
    """Return the fields of a template for the node's address ranges, separated by commas. Raises ValueError."""
    cidrs = [cidr.strip() for cidr in pod_cidrs.split(",", _MAX_CIDRS)]
    versions = set()
    for cidr in cidrs:
        try:
            if not _CIDR.fullmatch(cidr):
                raise ValueError
            versions.add(ip_interface(cidr).version)
        except ValueError:
            raise ValueError(f"{cidr!r:.80} is not an address range such as 10.1.0.0/24") from None
    routes = [route for version, route in ((4, "0.0.0.0/0"), (6, "::/0")) if version in versions]
    return {"PodCIDR": cidrs[0], "PodCIDRRanges": cidrs, "Routes": routes}


def read_template(path: str) -> Template:
    """Read the template of `network.conf_template`, and render it for trial.

    Raises ConfigError if it cannot be used.
    """
    try:
        template = Template(read_regular(Path(path), _MAX_SIZE).decode())
        template.network_text("10.1.0.0/24,fd00::/64")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(path, "", f"cannot be used as a template: {reason}", "see network.conf_template") from None
    return template


def write_network(template: Template, folder: Path, pod_cidrs: str) -> Path:
    """Write the configuration of the network for the node's address ranges. Returns its path.

    Raises ValueError if the result is not a network, and OSError if the file cannot be written.
    """
    text = template.network_text(pod_cidrs)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = folder / FILE_NAME
    write_whole(path, text.encode(), 0o644)
    return path


class _Step(NamedTuple):
    """A text, an output, or a step of a block; `kind` is text, out, if, jump, range, next or end.

    Attributes:
        operands: the words of an expression, or the text.
        names: the variables of a loop: index and item.
    """

    kind: str
    operands: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class _Block:
    """A block that is being parsed: the step that begins it, the steps that jump to its end, and the last condition."""

    start: int
    jumps: list[int] = field(default_factory=list)
    condition: int | None = None
    has_else: bool = False


@dataclass(slots=True)
class _Frame:
    """A block that is being rendered."""

    dot: Any
    names: Mapping[str, Any] = field(default_factory=dict)
    items: Sequence[Any] = ()
    position: int = -1


class Template:
    """A parsed template. Raises ValueError, with the line, if it is invalid or has an unsupported action."""

    def __init__(self, text: str) -> None:
        self._steps: list[_Step] = []
        self._targets: dict[int, int] = {}
        self._open: list[_Block] = []
        place, is_trimmed = 0, False
        while (start := text.find("{{", place)) >= 0:
            match = _ACTION.match(text, start)
            try:
                if match is None:
                    raise ValueError("an action has no }}")
                self._text(text[place:start], is_trimmed, is_end_trimmed=bool(match[1]))
                self._action(match[2])
            except ValueError as error:
                raise ValueError(f"line {text.count(chr(10), 0, start) + 1}: {error}") from None
            place, is_trimmed = match.end(), bool(match[3])
        self._text(text[place:], is_trimmed)
        if self._open:
            raise ValueError("a block has no {{end}}")

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text for the fields. Raises ValueError if an expression has no value."""
        output: list[str] = []
        size = 0
        frames = [_Frame(values, {"$": values})]
        place = 0
        for _ in range(_MAX_STEPS):
            if place == len(self._steps):
                return "".join(output)
            step = self._steps[place]
            if step.kind in ("text", "out"):
                part = step.operands[0] if step.kind == "text" else _text_of(_value(step.operands, frames))
                size += len(part)
                if size > _MAX_SIZE:
                    raise ValueError(f"the result has more than {_MAX_SIZE} characters")
                output.append(part)
            elif step.kind == "end":
                frames.pop()
            elif not self._falls_through(step, frames):
                place = self._targets[place]
                continue
            place += 1
        raise ValueError(f"the template takes more than {_MAX_STEPS} steps")

    def network_text(self, pod_cidrs: str) -> str:
        """Return the network for the node's address ranges. Raises ValueError if the result is not a network."""
        text = self.render(values_of(pod_cidrs))
        try:
            parse_network(text)
        except ValueError as error:
            raise ValueError(f"the result is not a network: {error}") from None
        return text

    @staticmethod
    def _falls_through(step: _Step, frames: list[_Frame]) -> bool:
        """Take a step of a block, and return whether the next step follows instead of the step's target."""
        if step.kind == "block":
            frames.append(_Frame(frames[-1].dot))
            return True
        if step.kind == "if":
            return bool(_value(step.operands, frames))
        if step.kind == "jump":
            return False
        if step.kind == "range":
            items = _value(step.operands, frames)
            if not isinstance(items, list):
                raise ValueError(f"{' '.join(step.operands)} is not a list")
            frames.append(_Frame(frames[-1].dot, items=items))
        frame = frames[-1]
        frame.position += 1
        if frame.position >= len(frame.items):
            return step.kind == "next"
        item = frame.items[frame.position]
        frame.dot = item
        frame.names = dict(zip(step.names[::-1], (item, frame.position), strict=False))
        return step.kind == "range"

    # -- parsing ------------------------------------------------------------------------------------------------------

    def _text(self, text: str, is_start_trimmed: bool, is_end_trimmed: bool = False) -> None:
        text = text.lstrip() if is_start_trimmed else text
        text = text.rstrip() if is_end_trimmed else text
        if text:
            self._steps.append(_Step("text", (text,)))

    def _action(self, text: str) -> None:
        if text.startswith("/*"):
            return
        words = tuple(_TOKEN.findall(text))
        keyword = words[0] if words else ""
        if keyword == "if":
            self._open.append(_Block(len(self._steps)))
            self._steps.append(_Step("block"))
            self._condition(words[1:])
        elif keyword == "range":
            names, operands = _loop(words[1:])
            self._open.append(_Block(len(self._steps)))
            self._steps.append(_Step("range", _checked_expression(operands), names))
        elif keyword in ("else", "end"):
            if not self._open or (keyword == "end" and len(words) > 1):
                raise ValueError(f"unexpected {{{{{text}}}}}")
            self._begin_else(words[1:]) if keyword == "else" else self._end_block()
        else:
            self._steps.append(_Step("out", _checked_expression(words)))

    def _condition(self, operands: tuple[str, ...]) -> None:
        self._open[-1].condition = len(self._steps)
        self._steps.append(_Step("if", _checked_expression(operands)))

    def _begin_else(self, words: tuple[str, ...]) -> None:
        block = self._open[-1]
        start = self._steps[block.start]
        if block.has_else or (words and (words[0] != "if" or start.kind == "range")):
            raise ValueError("unexpected {{else}}")
        block.has_else = not words
        self._leave_branch(block, start)
        if start.kind == "range":
            self._targets[block.start] = len(self._steps)
        elif block.condition is not None:
            self._targets[block.condition] = len(self._steps)
            block.condition = None
        if words:
            self._condition(words[1:])

    def _end_block(self) -> None:
        block = self._open.pop()
        start = self._steps[block.start]
        if start.kind == "range" and not block.has_else:
            self._leave_branch(block, start)
            self._targets[block.start] = len(self._steps)
        if block.condition is not None:
            self._targets[block.condition] = len(self._steps)
        for jump in block.jumps:
            self._targets[jump] = len(self._steps)
        self._steps.append(_Step("end"))

    def _leave_branch(self, block: _Block, start: _Step) -> None:
        """End a branch: the body of a loop starts again, and a branch jumps to the end of its block."""
        if start.kind == "range":
            self._targets[len(self._steps)] = block.start + 1
            self._steps.append(_Step("next", names=start.names))
        block.jumps.append(len(self._steps))
        self._steps.append(_Step("jump"))


def _loop(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the words of a loop into its variables and the list."""
    if ":=" not in words:
        return (), words
    place = words.index(":=")
    names = words[:place:2]
    is_pair = len(names) == 2 and words[1] == "," and place == 3
    if not (is_pair or place == 1) or not all(re.fullmatch(r"\$\w+", name) for name in names):
        raise ValueError("the variables of a loop must be $item, or $index, $item")
    return names, words[place + 1 :]


def _checked_expression(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of an expression. Raises ValueError if they are not a supported expression."""
    operands = words[1:] if words and words[0] in _FUNCTIONS else words
    expected = _FUNCTIONS[words[0]] if operands is not words else 1
    if len(operands) != expected or not all(_OPERAND.fullmatch(word) for word in operands):
        raise ValueError(f"{{{{{' '.join(words)}}}}} is not supported")
    return words


def _value(words: tuple[str, ...], frames: Sequence[_Frame]) -> Any:
    """Evaluate an expression. Raises ValueError if it has no value."""
    name, values = words[0], [_operand(word, frames) for word in words if word not in _FUNCTIONS]
    try:
        if name == "index":
            return values[0][values[1]]
        if name == "len":
            return len(values[0])
    except (IndexError, KeyError, TypeError):
        raise ValueError(f"{' '.join(words)} has no value") from None
    if name == "not":
        return not values[0]
    if name in ("eq", "ne"):
        if type(values[0]) is not type(values[1]):
            raise ValueError(f"{' '.join(words)} compares values of different types")
        return (values[0] == values[1]) == (name == "eq")
    return values[0]


def _operand(word: str, frames: Sequence[_Frame]) -> Any:
    if word.startswith(("$", ".")):
        if word == ".":
            return frames[-1].dot
        names: Mapping[str, Any] = frames[-1].dot if word.startswith(".") else _names(frames)
        if word.startswith("$."):
            names = names["$"]
        name = word.removeprefix("$.").removeprefix(".")
        if not isinstance(names, Mapping) or name not in names:
            raise ValueError(f"{word} has no value")
        return names[name]
    if word in ("true", "false"):
        return word == "true"
    if word.isdecimal():
        return int(word)
    return word[1:-1]


def _names(frames: Sequence[_Frame]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for frame in frames:
        names.update(frame.names)
    return names


def _text_of(value: Any) -> str:
    """The text of a value, as Go prints it."""
    if isinstance(value, Mapping):
        raise ValueError("all fields together have no text")  # noqa: TRY004 - an error of the template
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{' '.join(value)}]" if isinstance(value, list) else str(value)
