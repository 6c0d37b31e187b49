"""Check a plugin's class when it is created: misspelt handlers and settings, wrong arguments.

`inspect` is not used, because importing it is slow.
"""

from __future__ import annotations

import atexit
import sys

from nri.api import naming
from nri.api.events import EVENTS, EventMask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any

#: The arguments of each handler.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "configure": (),
    "synchronize": ("pods", "containers"),
    "shutdown": (),
    "closed": (),
    **{spec.method: ("pod",) if spec.kind == "pod" else ("pod", "container") for spec in EVENTS},
    "update_container": ("pod", "container", "resources"),
    "update_pod_sandbox": ("pod", "overhead", "resources"),
    "validate_container_adjustment": ("request",),
}

#: The handlers that are called for a pod or for pods, so that `nri.when` can filter them.
_POD_HANDLERS = frozenset((*(spec.method for spec in EVENTS), "synchronize"))

#: Modules that are imported only to run or test plugins.
_RUNNER_MODULES = ("nri.stub.program", "nri.stub.session", "nri.testing")

#: The formats of a configuration text.
FORMATS = ("auto", "json", "yaml", "toml")
#: For each setting of a class: the names of the permitted types, and a description for error texts.
_ATTRIBUTES: dict[str, tuple[tuple[str, ...], str]] = {
    "mirror": (("bool",), "True or False"),
    "config_format": (("str",), "one of " + ", ".join(FORMATS)),
    "name": (("str",), "a str"),
    "failure_policy": (("FailurePolicy", "NoneType"), "an nri.FailurePolicy or None"),
    "log_file": (("str", "NoneType"), "the path of a file or None"),
    "Config": (("class", "NoneType"), "a class with annotations or None"),
    "flags": (
        ("dict", "mappingproxy"),
        "a dict of flags by name, each a Flag(field, value_name, help)",
    ),
    "annotations": (("dict", "mappingproxy"), "a dict of strings by annotation"),
    "sets": (("tuple", "list", "NoneType"), "a tuple of names of fields or None"),
}

#: All class attributes that nri reads.
_SETTINGS = tuple(_ATTRIBUTES)
#: The setting for each wrong name of a setting.
_SETTING_BY_SYNONYM = {
    "plugin_name": "name",
    "policy": "failure_policy",
    "log_path": "log_file",
    "configuration": "Config",
    "config_class": "Config",
    "config_type": "Config",
    "config_schema": "Config",
    "settings": "Config",
}
#: Settings of other libraries that do not exist here, and what to do instead.
_UNSUPPORTED_SETTINGS = {
    "events": "a plugin receives the events whose methods it defines",
    "index": "start it with --idx NN",
    "idx": "start it with --idx NN",
    "timeout": "the runtime sets it; see self.deadline, and timeout in policy.toml",
}
_EVENT_NAMES = frozenset((*(spec.rpc for spec in EVENTS), "Configure", "Synchronize", *ARGUMENTS))
#: Prefixes and suffixes of event names in this and other libraries.
_PREFIXES = ("on_", "handle_", "do_", "before_", "after_", "pre_", "post_")
_SUFFIXES = ("_handler", "_hook", "_event")
#: The handler for synonyms of event names, without prefix and suffix.
_HANDLER_BY_SYNONYM = {
    **{spec.method.removesuffix("_sandbox"): spec.method for spec in EVENTS if spec.method.endswith("_sandbox")},
    "create_pod": "run_pod_sandbox",
    "create_pod_sandbox": "run_pod_sandbox",
    "start_pod": "run_pod_sandbox",
    "start_pod_sandbox": "run_pod_sandbox",
    "delete_pod": "remove_pod_sandbox",
    "delete_pod_sandbox": "remove_pod_sandbox",
    "delete_container": "remove_container",
    "validate_adjustment": "validate_container_adjustment",
    "validate_container": "validate_container_adjustment",
}
#: The handler for names that mean a handler only with a prefix or suffix.
_HANDLER_BY_STEM = {
    "close": "closed",
    "closed": "closed",
    "config": "configure",
    "sync": "synchronize",
    "validate": "validate_container_adjustment",
    **{
        words: method
        for verb, past, method, later in (
            ("create", "created", "create_container", "post_create_container"),
            ("start", "started", "start_container", "post_start_container"),
            ("update", "updated", "update_container", "post_update_container"),
            ("stop", "stopped", "stop_container", "stop_container"),
            ("remove", "removed", "remove_container", "remove_container"),
            ("delete", "deleted", "remove_container", "remove_container"),
        )
        for words, method in (
            (verb, method), (f"container_{verb}", method), (past, later), (f"container_{past}", later)
        )
    },
}  # fmt: skip
#: Methods that a plugin may override and that do not handle an event.
_OTHER_METHODS = ("measurements",)
#: Attributes of `self` that an attribute of the class would hide, with the handler to suggest for a method, or "".
_INSTANCE_ATTRIBUTES = {
    "config": "configure",
    "config_source": "",
    "deadline": "",
    "log": "",
    "runtime": "",
    "state": "",
    "time_left": "",
}
#: The attributes of functions and descriptors that contain their code.
_CODE_PARTS = ("__code__", "__func__", "__wrapped__", "fget", "func")
#: Instructions that read an attribute, by its name or by `getattr` with a text.
_READ_INSTRUCTIONS = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_CONST"))
_VARARGS = 0x04
#: The code flags of a generator function, and of an async one.
_GENERATOR_FLAGS = 0x20 | 0x200
#: The types of a default value by type name in `Config`. `nri.config` checks all other annotations.
_DEFAULTS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (float, int), "bool": (bool,), "bytes": (bytes,), "list": (list,),
    "dict": (dict,), "set": (set,), "tuple": (tuple,), "None": (type(None),),
}  # fmt: skip
_CHECKED_TYPES = frozenset(kind for kinds in _DEFAULTS.values() for kind in kinds)


def kebab_case(name: str) -> str:
    """`PodName` -> `pod-name`, `HTTPInjector` -> `http-injector`."""
    out = []
    for i, letter in enumerate(name):
        if letter.isupper() and i and (not name[i - 1].isupper() or name[i + 1 : i + 2].islower()):
            out.append("-")
        out.append(letter.lower())
    return "".join(out).replace("_", "-").replace("--", "-").strip("-")


def check_class(cls: type, base: type) -> None:
    """Raise TypeError for a method of `cls` that resembles a handler without being one, or has wrong arguments."""
    for name, value in cls.__dict__.items():
        function = getattr(value, "__func__", value)
        _check_marks(cls, name, value, function)
        if name.startswith("_"):
            continue
        _check_setting(cls, name, value)
        code = getattr(function, "__code__", None)
        if name in _INSTANCE_ATTRIBUTES or (code is not None and name in _ATTRIBUTES):
            _check_hidden(cls, name, value, is_method=code is not None)
        if name in ARGUMENTS:
            if code is None and not callable(value):
                raise TypeError(f"{cls.__name__}.{name} must be a method: it handles an NRI event")
            if code is not None and code.co_flags & _GENERATOR_FLAGS:
                raise TypeError(
                    f"{cls.__name__}.{name} contains yield, so that a call does not run it and its answer is lost: "
                    "return the answer instead"
                )
            if code is not None and not isinstance(value, (staticmethod, classmethod)):
                _check_arguments(cls, name, code, getattr(function, "__defaults__", None) or ())
        elif hasattr(base, name) or hasattr(function, "_nri_every_s"):
            continue
        elif code is not None:
            handler = _nearest_handler(name)
            if handler is not None:
                raise TypeError(
                    f"{cls.__name__}.{name} is not an NRI event; did you mean {handler}? "
                    f"(if it is a helper, begin its name with an underscore)"
                )
        else:
            _check_own_attribute(cls, name)
    _check_defaults(f"{cls.__name__}.Config", cls.__dict__.get("Config"))
    _check_tables(cls)


def _check_hidden(cls: type, name: str, value: Any, *, is_method: bool) -> None:
    """Raise TypeError for an attribute of the class that hides an attribute of `self`, or that is overwritten."""
    if is_method:
        handler = _INSTANCE_ATTRIBUTES.get(name)
        hint = f"did you mean {handler}?" if handler else "rename it"
        raise TypeError(f"{cls.__name__}.{name} is a method, which hides the plugin's attribute self.{name}; {hint}")
    if name == "config":
        kind = getattr(cls, "Config", None) or str
        if not isinstance(value, dict if hasattr(kind, "__total__") else kind):  # a TypedDict's values are dicts
            reason = f"is {value!r}, but each connection overwrites it"
            raise TypeError(f"{cls.__name__}.config {reason}: rename it, or describe the keys in a class Config")
        return
    raise TypeError(f"{cls.__name__}.{name} is {value!r}, which hides the plugin's attribute self.{name}: rename it")


def _check_marks(cls: type, name: str, value: Any, function: Any) -> None:
    """Raise TypeError for a mark without a pod, and for background work that cannot be called without arguments."""
    if hasattr(function, "_nri_when") and name not in _POD_HANDLERS:
        raise TypeError(f"{cls.__name__}.{name} is marked with nri.when, which filters pods, but it handles no pod")
    if not (hasattr(function, "_nri_every_s") or hasattr(value, "_nri_every_s")):
        return
    marked_text = f"{cls.__name__}.{name} is marked with nri.every, which calls it without arguments"
    if name in ARGUMENTS:
        raise TypeError(f"{marked_text}, but it handles an event: mark another method")
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return
    if code.co_flags & _GENERATOR_FLAGS:
        raise TypeError(f"{marked_text}, but it contains yield, so that a call does not run it")
    first = 0 if isinstance(value, staticmethod) else 1
    required = code.co_varnames[first : code.co_argcount - len(getattr(function, "__defaults__", None) or ())]
    if required or _required_keywords(code, cls, name):
        names = ", ".join(required) or "keywords"
        raise TypeError(
            f"{marked_text}, but it requires {names}; self.state has the pods and containers if mirror = True"
        )


def _check_tables(cls: type) -> None:
    """Raise TypeError or ValueError for flags and declarations of fields that do not exist."""
    if cls.__dict__.get("flags"):
        _check_flags(cls)
    if cls.__dict__.get("sets"):
        from nri.stub.support.sets_check import check_sets

        check_sets(cls)


def _check_setting(cls: type, name: str, value: Any) -> None:
    """Raise TypeError or ValueError for an invalid value of a setting."""
    if name in _UNSUPPORTED_SETTINGS:
        _check_unsupported(cls, name, value)
    if name == "config" and isinstance(value, type):
        raise TypeError(f"{cls.__name__}.config is a class, but each connection overwrites it; did you mean Config?")
    if name not in _ATTRIBUTES:
        return
    if hasattr(type(value), "__get__"):
        return  # a descriptor, whose value is computed later
    kinds, expected = _ATTRIBUTES[name]
    if type(value).__name__ not in kinds and not ("class" in kinds and isinstance(value, type)):
        raise TypeError(f"{cls.__name__}.{name} must be {expected}, not {value!r}")
    if (name == "config_format" and value not in FORMATS) or (name == "log_file" and value == ""):
        raise ValueError(f"{cls.__name__}.{name} must be {expected}, not {value!r}")
    if name == "name":
        _check_name(cls, value)
    if name == "annotations":
        _check_annotations(cls, value)
    if name == "Config" and value is not None:
        _check_fields(cls, value)


def _check_name(cls: type, name: str) -> None:
    """Raise ValueError for a name that registration would refuse, or that contains an index."""
    if not name:
        raise ValueError(
            f"{cls.__name__}.name must not be empty: leave it out for the default, {kebab_case(cls.__name__)}"
        )
    try:
        naming.check_name(name)
    except ValueError as error:
        raise ValueError(f"{cls.__name__}.name: {error}; write letters, digits, '_', '.', '+' and '-'") from None
    if naming.is_full_name(name):
        index, _, short_name = name.partition("-")
        advice = f"write name = {short_name!r} and start the plugin with --idx {index}"
        raise ValueError(f"{cls.__name__}.name {name!r} begins with an index: {advice}")


def _check_annotations(cls: type, annotations: Any) -> None:
    for key, meaning in annotations.items():
        if not (isinstance(key, str) and isinstance(meaning, str) and key):
            reason = "an annotation and the meaning of its value, both strings, are expected"
            raise TypeError(f"{cls.__name__}.annotations has {key!r}: {meaning!r}, but {reason}")


def _check_fields(cls: type, config: type) -> None:
    """Raise TypeError for attributes of `Config` without an annotation, which no configuration can set."""
    fields = {name for base in config.__mro__ for name in getattr(base, "__annotations__", ())}
    if not fields:
        advice = "write for example level: int = 1, or leave Config out"
        raise TypeError(f"{cls.__name__}.Config has no annotations, so no configuration can set a field: {advice}")
    for name, value in config.__dict__.items():
        if not name.startswith("_") and not name.isupper() and name not in fields and type(value) in _CHECKED_TYPES:
            advice = f"write {name}: {type(value).__name__} = {value!r}, or begin its name with an underscore"
            raise TypeError(f"{cls.__name__}.Config.{name} has no annotation, so no configuration can set it: {advice}")


def _check_own_attribute(cls: type, name: str) -> None:
    """Raise TypeError for an attribute without effect whose name resembles a setting or handler.

    Attributes that a method of the class reads are permitted, and those of base classes, which were checked there.
    """
    nearest = _nearest_setting(name) or _nearest_handler(name)
    if nearest is None or any(name in base.__dict__ for base in cls.__mro__[1:]) or reads_attribute(cls, name):
        return
    raise TypeError(
        f"{cls.__name__}.{name} has no effect: nothing reads it; did you mean {nearest}? "
        f"(if other code reads it, begin its name with an underscore)"
    )


def reads_attribute(cls: type, name: str) -> bool:
    """Whether code of the class or of its bases reads an attribute of this name, of any object."""
    from dis import get_instructions  # imported only for the few classes that have such an attribute

    return any(
        step.argval == name and step.opname in _READ_INSTRUCTIONS
        for base in cls.__mro__
        for value in base.__dict__.values()
        for code in _code_objects(value)
        for step in get_instructions(code)
    )


def _code_objects(value: Any, depth: int = 4) -> Iterator[CodeType]:
    """The code of a function or descriptor, including nested functions; `depth` limits the number of wrappers."""
    if hasattr(value, "co_consts"):
        yield value
        for constant in value.co_consts:
            yield from _code_objects(constant, 0)
    elif depth:
        for part in _CODE_PARTS:
            yield from _code_objects(getattr(value, part, None), depth - 1)


def _check_unsupported(cls: type, name: str, value: Any) -> None:
    """Raise TypeError for events, an index or a timeout, which a class cannot set. Other values are permitted."""
    if name == "timeout":
        has_no_effect = type(value) in (int, float) and not reads_attribute(cls, name)
    elif name == "events":
        items = value.split(",") if isinstance(value, str) else value
        items = items if isinstance(items, (list, tuple, set, frozenset)) else ()
        has_no_effect = isinstance(value, EventMask) or any(
            item.strip() in _EVENT_NAMES for item in items if isinstance(item, str)
        )
    else:
        has_no_effect = type(value) in (int, str) and not reads_attribute(cls, name)
    if has_no_effect:
        raise TypeError(f"{cls.__name__}.{name} is {value!r}, which nothing reads: {_UNSUPPORTED_SETTINGS[name]}")


def _check_defaults(place: str, config: Any, above: tuple[Any, ...] = ()) -> None:
    """Raise TypeError for a default whose type does not match its annotation. No later check would report it.

    `above` are the enclosing classes, because a class may have a field of its own type.
    """
    for base in getattr(config, "__mro__", ()):
        for name, annotation in base.__dict__.get("__annotations__", {}).items():
            if name.startswith("_"):
                continue
            inside = (*above, config)
            if isinstance(annotation, type) and "__annotations__" in annotation.__dict__ and annotation not in inside:
                _check_defaults(f"{place}.{name}", annotation, inside)
            value = getattr(config, name, ...)
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
            if not isinstance(annotation, (str, type)):
                text = str(annotation)
            words = [word.partition("[")[0].strip() for word in text.split("|")]
            kinds = [kind for word in words for kind in _DEFAULTS.get(word, ())]
            if type(value) in _CHECKED_TYPES and type(value) not in kinds and all(word in _DEFAULTS for word in words):
                hint = f"; write {text} | None" if value is None else ""
                raise TypeError(f"the default of {place}.{name} is {value!r}, not of type {text}{hint}")


def _check_flags(cls: Any) -> None:
    """Raise TypeError for a flag that does not set a field of `Config`."""
    fields = {name for base in getattr(cls.Config, "__mro__", ()) for name in base.__dict__.get("__annotations__", ())}
    for flag, row in cls.flags.items():
        if not (isinstance(row, tuple) and len(row) == 3):
            raise TypeError(f"{cls.__name__}.flags[{flag!r}] is {row!r}: a Flag(field, value_name, help) is expected")
        if row[0] not in fields:
            raise TypeError(
                f"{cls.__name__}.flags[{flag!r}] sets {row[0]!r}, which is not a field of {cls.__name__}.Config"
            )


def _nearest_handler(name: str) -> str | None:
    """The handler that `name` is probably a misspelling of. Returns None for an unrelated name."""
    name = _snake_case(name)
    words = next((name.removeprefix(word) for word in _PREFIXES if name.startswith(word)), name)
    words = next((words.removesuffix(word) for word in _SUFFIXES if words.endswith(word)), words)
    if name == f"post_{words}" and f"{name}_container" in ARGUMENTS:
        return f"{name}_container"
    for candidate in (name, words):
        handler = _HANDLER_BY_SYNONYM.get(candidate) or _similar_choice(candidate, (*ARGUMENTS, *_OTHER_METHODS))
        if handler is not None:
            return handler
    return None if words == name else _HANDLER_BY_STEM.get(words)


def _nearest_setting(name: str) -> str | None:
    """The setting that `name` is probably a misspelling of. Returns None for an unrelated name."""
    name = _snake_case(name)
    if name in _SETTING_BY_SYNONYM:
        return _SETTING_BY_SYNONYM[name]
    nearest = _similar_choice(name, _SETTINGS)
    if nearest is not None:
        return nearest
    # Many words differ from a short name by one letter, so the first letter must match.
    letters = name.replace("_", "")
    short = [setting for setting in _SETTINGS if len(setting) <= 6 and setting[0].lower() == letters[:1]]
    return next((setting for setting in short if _distance(letters, setting.lower(), 1) <= 1), None)


def _snake_case(name: str) -> str:
    """`createContainer`, `CREATE_CONTAINER` -> `create_container`."""
    return kebab_case(name).replace("-", "_")


def _check_arguments(cls: type, name: str, code: CodeType, defaults: tuple[object, ...]) -> None:
    expected = ARGUMENTS[name]
    max_count = code.co_argcount - 1
    min_count = max_count - len(defaults)
    names = code.co_varnames[1 : code.co_argcount]
    parameters = [name.strip("_") for name in names]
    if (
        all(word == name or name not in expected for word, name in zip(expected, parameters, strict=False))
        and min_count <= len(expected)
        and (max_count >= len(expected) or code.co_flags & _VARARGS)
        and not _required_keywords(code, cls, name)
    ):
        return
    got = ", ".join(names)
    hint = "; its first parameter must be self" if code.co_varnames[:1] and code.co_varnames[0] in expected else ""
    raise TypeError(f"{cls.__name__}.{name} is called with ({', '.join(expected)}), but takes ({got}){hint}")


def _required_keywords(code: CodeType, cls: type, name: str) -> bool:
    if not code.co_kwonlyargcount:
        return False
    function = getattr(cls.__dict__[name], "__func__", cls.__dict__[name])
    return len(getattr(function, "__kwdefaults__", None) or ()) < code.co_kwonlyargcount


def _similar_choice(name: str, choices: tuple[str, ...]) -> str | None:
    """The first choice within an edit distance of two from `name`, ignoring case and underscores."""
    letters = name.replace("_", "").replace("ies", "y")
    for choice in choices:
        folded = choice.replace("_", "").lower()
        # Short names need an exact match: `close` is a legitimate name next to `closed`.
        allowed = 2 if len(folded) > 9 else int(len(folded) > 6)
        if abs(len(folded) - len(letters)) <= allowed and _distance(letters, folded, allowed) <= allowed:
            return choice
    return None


def _distance(a: str, b: str, limit: int) -> int:
    """The edit distance with swaps. A distance above `limit` may be returned as `limit` + 1."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        following = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        if min(following) > limit:
            return limit + 1
        before, row = row, following
    return row[-1]


def note_if_not_run(cls: type) -> None:
    """Print a note at the end of `python FILE` if the plugin was not run, because that would look like success."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is not None:  # neither interactive nor -c
        atexit.register(_note_if_not_run, cls.__name__, str(file))


def _note_if_not_run(name: str, file: str) -> None:
    failed = hasattr(sys, "last_type")  # there was a traceback
    if failed or hasattr(sys, "ps1") or any(name in sys.modules for name in _RUNNER_MODULES):
        return
    sys.stderr.write(
        f"note: {file} defines the plugin {name}, but does not run it. Use nri run {file}, or add these two lines:\n"
        f'if __name__ == "__main__":\n    {name}.main()\n'
    )
