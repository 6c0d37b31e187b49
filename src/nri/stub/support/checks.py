"""Checks of a plugin's class, when it is made: misspelt handlers, wrong arguments. Pure, and without `inspect`."""

from __future__ import annotations

import atexit
import sys

from nri.api.events import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

__all__ = ["ARGUMENTS", "check_class", "kebab_case", "note_if_not_run"]

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

#: The handlers that know of which pod they are called, or of which pods: `nri.when` can choose for them.
_OF_PODS = frozenset((*(spec.method for spec in EVENTS), "synchronize"))

#: Modules that only somebody loads who runs plugins, or tests them.
_RUN_BY = ("nri.stub.program", "nri.stub.session", "nri.testing")

#: How the text of a configuration may be written.
FORMATS = ("auto", "json", "yaml", "toml")
#: Settings of a class -> names of the types that they may have, and the same for people.
_ATTRIBUTES: dict[str, tuple[tuple[str, ...], str]] = {
    "config_format": (("str",), "one of " + ", ".join(FORMATS)),
    "failure_policy": (("FailurePolicy", "NoneType"), "nri.FailurePolicy(...)"),
    "log_file": (("str", "NoneType"), "the path of a file"),
    "Config": (("class", "NoneType"), "a class with annotations"),
    "flags": (("dict", "mappingproxy"), "flags by name, each a Flag or (field of Config, name of the value, help)"),
    "annotations": (("dict", "mappingproxy"), "texts by annotation"),
    "sets": (("tuple", "list", "NoneType"), "a tuple of names of fields"),
}

#: Settings that other libraries have and this one does not -> what to do instead.
_NOT_READ = {
    "events": "a plugin gets the events whose methods it has",
    "index": "start it with --idx NN",
    "idx": "start it with --idx NN",
}
_CAMEL = {spec.rpc: spec.method for spec in EVENTS} | {"Configure": "configure", "Synchronize": "synchronize"}
#: Words that people put before or after the name of an event, here and in other libraries.
_BEFORE = ("on_", "handle_", "do_", "before_", "after_", "pre_", "post_")
_AFTER = ("_handler", "_hook", "_event")
#: Names that say an event in other words, without what is before or after.
_OTHER_WORDS = {
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
#: Names that mean an event only where something stood before or after.
_CUT = {
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
#: Attributes of `self` that a method of that name would hide: name -> the handler that was meant, if one was.
_FOUND = {"config": "configure", "deadline": "", "log": "", "mirror": "", "name": "", "runtime": "", "state": ""}
_VARARGS = 0x04
#: The flags of a generator function, and of one that is async.
_YIELDS = 0x20 | 0x200
#: Words of annotations of `Config` -> the types that a default of them has. Others are left to `nri.config`.
_DEFAULTS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (float, int), "bool": (bool,), "bytes": (bytes,), "list": (list,),
    "dict": (dict,), "set": (set,), "tuple": (tuple,), "None": (type(None),),
}  # fmt: skip
_JUDGED = frozenset(kind for kinds in _DEFAULTS.values() for kind in kinds)


def kebab_case(name: str) -> str:
    """`PodName` -> `pod-name`, `HTTPInjector` -> `http-injector`."""
    out = []
    for i, letter in enumerate(name):
        if letter.isupper() and i and (not name[i - 1].isupper() or name[i + 1 : i + 2].islower()):
            out.append("-")
        out.append(letter.lower())
    return "".join(out).replace("_", "-").replace("--", "-").strip("-")


def check_class(cls: type, base: type) -> None:
    """Raise TypeError for a method of `cls` that looks like a handler and is none, or cannot be called as one."""
    for name, value in cls.__dict__.items():
        function = getattr(value, "__func__", value)
        if hasattr(function, "_nri_when") and name not in _OF_PODS:
            raise TypeError(f"{cls.__name__}.{name} is marked with nri.when, which chooses pods, and handles no pod")
        if name.startswith("_"):
            continue
        _check_attribute(cls, name, value)
        code = getattr(function, "__code__", None)
        if code is not None and (name in _FOUND or name in _ATTRIBUTES):
            hint = f"did you mean {_FOUND[name]}?" if _FOUND.get(name) else "call it otherwise"
            raise TypeError(f"{cls.__name__}.{name} is a method, and hides what self.{name} is of each plugin; {hint}")
        if name in ARGUMENTS:
            if code is None and not callable(value):
                raise TypeError(f"{cls.__name__}.{name} must be a method: it handles an NRI event")
            if code is not None and code.co_flags & _YIELDS:
                raise TypeError(
                    f"{cls.__name__}.{name} has a yield in it, so that a call runs none of it and its answer is lost: "
                    "return the answer instead"
                )
            if code is not None and not isinstance(value, (staticmethod, classmethod)):
                _check_arguments(cls, name, code, getattr(function, "__defaults__", None) or ())
        elif code is not None and not hasattr(base, name) and not hasattr(function, "_nri_every_s"):
            meant = _meant(name)
            if meant is not None:
                raise TypeError(
                    f"{cls.__name__}.{name} is not an NRI event; did you mean {meant}? "
                    f"(a helper of that name may start with an underscore)"
                )
    _check_defaults(f"{cls.__name__}.Config", cls.__dict__.get("Config"))
    _check_tables(cls)


def _check_tables(cls: type) -> None:
    """Raise TypeError or ValueError for flags and declarations that name what there is not."""
    if cls.__dict__.get("flags"):
        _check_flags(cls)
    if cls.__dict__.get("sets"):
        from nri.stub.support.declared import check_sets

        check_sets(cls)


def _check_attribute(cls: type, name: str, value: Any) -> None:
    """Raise TypeError or ValueError for a setting of the class that nothing can be done with."""
    if name in _NOT_READ:
        _check_not_read(cls, name, value)
    if name not in _ATTRIBUTES:
        return
    if hasattr(type(value), "__get__"):
        return  # worked out later
    kinds, wanted = _ATTRIBUTES[name]
    if type(value).__name__ not in kinds and not ("class" in kinds and isinstance(value, type)):
        raise TypeError(f"{cls.__name__}.{name} is {value!r}: {wanted} is expected")
    if name == "config_format" and value not in FORMATS:
        raise ValueError(f"{cls.__name__}.{name} is {value!r}: {wanted} is expected")


def _check_not_read(cls: type, name: str, value: Any) -> None:
    """Raise TypeError for events or an index that the class names in vain; other values are the plugin's own."""
    items = value if name == "events" and isinstance(value, (list, tuple, set, frozenset)) else ()
    text = str(value) if name != "events" and type(value) in (int, str) else ""
    if any(item in _CAMEL or item in ARGUMENTS for item in items if isinstance(item, str)) or (
        text.isdecimal() and len(text) < 3
    ):
        raise TypeError(f"{cls.__name__}.{name} is {value!r}, which nothing reads: {_NOT_READ[name]}")


def _check_defaults(place: str, config: Any, above: tuple[Any, ...] = ()) -> None:
    """Raise TypeError for a default that is not what its annotation says: nothing else would ever look at it.

    `above` are the classes that it is in: a class may have a field of its own kind.
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
            if type(value) in _JUDGED and type(value) not in kinds and all(word in _DEFAULTS for word in words):
                hint = f"; write {text} | None" if value is None else ""
                raise TypeError(f"{place}.{name} is {value!r} by default, which is no {text}{hint}")


def _check_flags(cls: Any) -> None:
    """Raise TypeError for a flag that sets nothing."""
    fields = {name for base in getattr(cls.Config, "__mro__", ()) for name in base.__dict__.get("__annotations__", ())}
    for flag, row in cls.flags.items():
        if not (isinstance(row, tuple) and len(row) == 3):
            raise TypeError(f"{cls.__name__}.flags[{flag!r}] is {row!r}: a Flag(field, value_name, help) is expected")
        if row[0] not in fields:
            raise TypeError(
                f"{cls.__name__}.flags[{flag!r}] sets {row[0]!r}, which {cls.__name__}.Config does not have"
            )


def _meant(name: str) -> str | None:
    """The handler that a method called `name` was meant to be; None for a name that is the plugin's own business."""
    words = next((name.removeprefix(word) for word in _BEFORE if name.startswith(word)), name)
    words = next((words.removesuffix(word) for word in _AFTER if words.endswith(word)), words)
    if name == f"post_{words}" and f"{name}_container" in ARGUMENTS:
        return f"{name}_container"
    for candidate in (name, words):
        meant = _CAMEL.get(candidate) or _OTHER_WORDS.get(candidate) or _nearest(candidate)
        if meant is not None:
            return meant
    return None if words == name else _CUT.get(words)


def _check_arguments(cls: type, name: str, code: CodeType, defaults: tuple[object, ...]) -> None:
    wanted = ARGUMENTS[name]
    most = code.co_argcount - 1
    least = most - len(defaults)
    names = code.co_varnames[1 : code.co_argcount]
    asked = [name.strip("_") for name in names]
    if (
        all(word == name or name not in wanted for word, name in zip(wanted, asked, strict=False))
        and least <= len(wanted)
        and (most >= len(wanted) or code.co_flags & _VARARGS)
        and not _required_keywords(code, cls, name)
    ):
        return
    got = ", ".join(names)
    hint = "; its first parameter is to be self" if code.co_varnames[:1] and code.co_varnames[0] in wanted else ""
    raise TypeError(f"{cls.__name__}.{name} is called with ({', '.join(wanted)}), and takes ({got}){hint}")


def _required_keywords(code: CodeType, cls: type, name: str) -> bool:
    if not code.co_kwonlyargcount:
        return False
    function = cls.__dict__[name]
    return len(getattr(function, "__kwdefaults__", None) or ()) < code.co_kwonlyargcount


def _nearest(name: str) -> str | None:
    """The handler that `name` is at most two slips away from."""
    for known in ARGUMENTS:
        # One slip away from `closed` there are honest names, such as `close`.
        allowed = 2 if len(known) > 9 else len(known) > 6
        if allowed and abs(len(known) - len(name)) <= allowed and _distance(name, known, allowed) <= allowed:
            return known
    return None


def _distance(a: str, b: str, limit: int) -> int:
    """Edit distance with swaps; anything above `limit` may be returned as `limit` + 1."""
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
    """Say at the end of `python FILE` that the plugin of this class was never run: silence looks like success."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is not None:  # neither typed in, nor from -c
        atexit.register(_note_if_not_run, cls.__name__, str(file))


def _note_if_not_run(name: str, file: str) -> None:
    failed = hasattr(sys, "last_type")  # the traceback says enough
    if failed or hasattr(sys, "ps1") or any(name in sys.modules for name in _RUN_BY):
        return
    sys.stderr.write(
        f"note: {file} defines the plugin {name} and does not run it. Use nri run {file}, or add these two lines:\n"
        f'if __name__ == "__main__":\n    {name}.main()\n'
    )
