"""Parse a hooks.d file into a `Hook`: schema 1.0.0, and the old schema, which is 0.1.0 or has no version.

As in Go, keys match in any case, and null counts as missing. Unknown keys are warnings, because podman and CRI-O, which
read the same files, ignore them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from nri.config import typed
from nri.config.complaint import Problem, combined_error, shorten, suggest
from nri.config.hooks.conditions import When
from nri.config.hooks.pattern import Pattern
from nri.config.layers import located_errors
from nri.config.source import Source
from nri.config.syntax import parse_text
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.key_path import Path

STAGES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")

#: The protocol has 64 bits for a timeout.
MAX_TIMEOUT_S = 2**63 - 1


class InvalidHook(ConfigError):
    """A file has invalid values that podman and CRI-O check only if the hook's program exists.

    Attributes:
        program: the path of the program.
    """

    program = ""


class Hook(NamedTuple):
    """A hook and its conditions.

    Attributes:
        name: the name of its file.
        path: the absolute path of its program.
        args: its command line, the program's name first.
        env: its environment, `NAME=value`.
        timeout_s: its timeout in seconds, or None without a limit.
        stages: the stages of a container's life at which it runs.
        when: the containers that it is for.
    """

    name: str
    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]
    timeout_s: int | None
    stages: tuple[str, ...]
    when: When


class _Program:
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class _Conditions:
    always: bool | None = None
    annotations: dict[str, str] | None = None
    commands: tuple[str, ...] = ()
    hasBindMounts: bool | None = None


class _Version100:
    version: str
    hook: _Program
    when: _Conditions
    stages: list[str] | None = None


class _Version010:
    version: str = ""
    hook: str
    arguments: list[str] | None = None
    stages: list[str] | None = None
    stage: list[str] | None = None
    cmds: list[str] | None = None
    cmd: list[str] | None = None
    annotations: list[str] | None = None
    annotation: list[str] | None = None
    hasbindmounts: bool | None = None


def parse_hook(name: str, source: Source) -> tuple[Hook, list[ConfigError]]:
    """Parse the text of a file. Returns the hook and warnings.

    Args:
        name: the name of the file, without its directory.
        source: the text, with the name that errors show.

    Raises:
        InvalidHook: values are invalid that do not matter if the hook's program does not exist.
        ConfigError: the text is not a valid hook. In both cases further errors are in `others`.
    """
    tree = parse_text(Source(source.name, source.text, "json"))
    if not isinstance(tree, dict):
        raise ConfigError(source.name, "", f"expected a mapping of keys to values, not {shorten(tree)}")
    version = next((value for key, value in tree.items() if key.lower() == "version" and value is not None), "")
    if version not in ("1.0.0", "0.1.0", ""):
        _refuse(source, [Problem(("version",), f"unrecognized hook version: {shorten(version)}", 'write "1.0.0"')])
    return _Reader(name, source, tree, _Version100 if version == "1.0.0" else _Version010).hook()


class _Reader:
    """The parser of one file."""

    def __init__(self, name: str, source: Source, tree: dict[str, Any], schema: type) -> None:
        self._name = name
        self._source = source
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []
        self._needs_program = True  # whether podman finds the problems only if the program exists
        self._document = self._instance(schema, tree)

    def hook(self) -> tuple[Hook, list[ConfigError]]:
        document = self._document
        hook = (
            self._hook_of_current_schema(document)
            if isinstance(document, _Version100)
            else self._hook_of_old_schema(document)
        )
        if self._problems:
            _refuse(self._source, self._problems, hook.path if self._needs_program else "")
        if not hook.when.commands and not self._may_match(hook.when):
            self._warnings.append(Problem(("when",), "is never true, so the hook does not apply to any container"))
        return hook, located_errors(self._source, self._warnings)

    @staticmethod
    def _may_match(when: When) -> bool:
        """Whether a container can meet the conditions except `commands`; `always: false` counts as intended."""
        if when.always is False:
            return True
        return when.has_bind_mounts is True or bool(when.annotations) or bool(when.always)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _instance(self, schema: type, tree: dict[str, Any]) -> Any:
        tree = self._in_schema(schema, tree, ())
        document = typed.build(typed.check(schema, tree, (), self._problems), (), self._problems)
        if self._problems:
            _refuse(self._source, self._problems)
        return document

    def _in_schema(self, schema: type, tree: dict[str, Any], path: Path) -> dict[str, Any]:
        """The mapping with the schema's spelling of keys, without nulls and unknown keys."""
        types = typed.fields_of(schema)
        names = {name.lower(): name for name in types}
        declared: dict[str, Any] = {}
        for key, value in tree.items():
            name = names.get(key.lower())
            if name is None:
                self._warnings.append(Problem((*path, key), "unknown key, ignored", suggest(key, types)))
            elif name in declared:
                self._problems.append(Problem((*path, key), "duplicate key", "remove one of the two"))
            elif value is not None:
                inner = types[name]
                nested = isinstance(value, dict) and typed.is_plain(inner)
                declared[name] = self._in_schema(inner, value, (*path, name)) if nested else value
        return declared

    # -- schemas ------------------------------------------------------------------------------------------------------

    def _hook_of_current_schema(self, document: _Version100) -> Hook:
        program, conditions = document.hook, document.when
        self._check_program(program.path, ("hook", "path"))
        self._check_strings(program.args, ("hook", "args"))
        self._check_strings(program.env, ("hook", "env"))
        if program.timeout is not None and not 0 < program.timeout <= MAX_TIMEOUT_S:
            self._problems.append(
                Problem(("hook", "timeout"), f"{program.timeout} must be a positive number of seconds")
            )
        annotations = [
            (
                self._pattern(key, ("when", "annotations", key), "the key"),
                self._pattern(value, ("when", "annotations", key), "the value"),
            )
            for key, value in (conditions.annotations or {}).items()
        ]
        commands = [self._pattern(text, ("when", "commands", place)) for place, text in enumerate(conditions.commands)]
        when = When(conditions.always, conditions.hasBindMounts, tuple(annotations), tuple(commands))
        if document.stages is None:
            self._problems.append(Problem(("stages",), "missing, and the key has no default", "add the key"))
        stages = self._stages("stages", document.stages)
        return Hook(self._name, program.path, program.args, program.env, program.timeout, stages, when)

    def _hook_of_old_schema(self, document: _Version010) -> Hook:
        stages = self._single_spelling("stages", document.stages, "stage", document.stage)
        if stages is None:
            self._problems.append(Problem(("stages",), "is required", "add the key stages"))
        commands = self._single_spelling("cmds", document.cmds, "cmd", document.cmd) or []
        values = self._single_spelling("annotations", document.annotations, "annotation", document.annotation)
        self._needs_program = not self._problems
        self._check_program(document.hook, ("hook",))
        self._check_strings(document.arguments or (), ("arguments",))
        key = "annotations" if document.annotations is not None else "annotation"
        pairs = () if values is None else ((Pattern(".*"), self._pattern("|".join(values), (key,))),)
        patterns = [self._pattern(text, ("cmds", place)) for place, text in enumerate(commands)]
        when = When(None, document.hasbindmounts, pairs, tuple(patterns), any_of=True)
        args = () if document.arguments is None else (document.hook, *document.arguments)
        checked = self._stages("stages" if document.stages is not None else "stage", stages)
        return Hook(self._name, document.hook, args, (), None, checked, when)

    def _single_spelling(
        self, name: str, values: list[Any] | None, other_name: str, other_values: list[Any] | None
    ) -> list[Any] | None:
        """The value of a key that has two spellings."""
        if values is not None and other_values is not None:
            self._problems.append(Problem((other_name,), f'means the same as "{name}"', "keep one of the two keys"))
        return other_values if values is None else values

    # -- values -------------------------------------------------------------------------------------------------------

    def _check_program(self, path: str, place: Path) -> None:
        if not path:
            problem = Problem(place, "is empty", "write the path of the hook's program")
        elif not path.startswith("/"):
            problem = Problem(place, f"{shorten(path)} must be an absolute path")
        elif "\0" in path:
            problem = Problem(place, "contains NUL")
        else:
            return
        self._problems.append(problem)
        self._needs_program = False

    def _stages(self, key: str, stages: Sequence[str] | None) -> tuple[str, ...]:
        for place, stage in enumerate(stages or ()):
            if stage not in STAGES:
                reason = f"expected one of {', '.join(STAGES)}, not {shorten(stage)}"
                self._problems.append(Problem((key, place), reason, suggest(stage, STAGES)))
        return tuple(stages or ())

    def _check_strings(self, strings: Sequence[str], place: Path) -> None:
        """Refuse strings that cannot be passed to a program, now rather than at each container."""
        self._problems += [Problem((*place, at), "contains NUL") for at, string in enumerate(strings) if "\0" in string]

    def _pattern(self, text: str, place: Path, what: str = "") -> Pattern:
        try:
            return Pattern(text)
        except ValueError as error:
            reason = f"{what} {shorten(text)} is not a regular expression: {error}".lstrip()
            self._problems.append(Problem(place, reason))
            return Pattern("")


def _refuse(source: Source, problems: list[Problem], program: str = "") -> NoReturn:
    """Raise the problems: as InvalidHook with a program."""
    error = combined_error(located_errors(source, problems))
    if not program:
        raise error
    invalid = InvalidHook(error.source, error.key, error.reason, error.suggestion, error.others)
    invalid.program = program
    raise invalid
