"""`--record DIR` of all commands that host or run plugins, and the recorder that it asks for.

Next: `nri.trace.recorder`, which writes; `nri trace` reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from nri.cli.settings import PATH

if TYPE_CHECKING:
    from nri.trace.recorder import Recorder

__all__ = ["OBSERVER", "only_looks", "record_options", "recorded", "redact_options"]

#: The maker of a recording by a plugin, which sees no answers of others; `nri.testing.replay` knows it.
OBSERVER = "nri record"

#: Labels of `nri.api.naming.OBSERVERS`; before that each had the number of its process, in recordings that exist.
_LOOKERS = re.compile(r"99-nri-(drift|events|record)(-\d+)?")
#: A policy file that is longer is not kept in a trace.
_MOST_POLICY = 1 << 20

_OPTIONS = (
    click.option(
        "--record",
        "record_folder",
        type=PATH,
        metavar="DIR",
        help="Record every event, request and answer in files in DIR; nri trace reads them.",
    ),
    click.option(
        "--redact",
        "record_redact",
        type=click.Choice(["values", "none"]),
        default="values",
        help="Which values --record replaces: values (default), of env, args of containers and hooks, annotations, "
        "sysctls, NAME=VALUE mount options and configuration, or none. Labels, paths and the texts of errors, refusals "
        "and evictions are never replaced.",
    ),
    click.option(
        "--record-most",
        "record_most",
        type=click.IntRange(1, 1 << 20),
        default=512,
        metavar="MIB",
        help="Remove the oldest files of DIR beyond this size; those of more than 7 days go anyway. Default: 512.",
    ),
)


def only_looks(plugin: str) -> bool:
    """Whether ``NN-name`` is a plugin of one of our own commands, which has changed nothing."""
    return _LOOKERS.fullmatch(plugin) is not None


def record_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options; it hands all that it gets to `recorded`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def redact_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb whose only job it is to record the options, but for the folder."""
    for option in reversed(_OPTIONS[1:]):
        command = option(command)
    return command


@contextmanager
def recorded(
    options: dict[str, Any], command: str, *, policy_path: str | None = None, **about: str
) -> Iterator[tuple[Recorder, ...]]:
    """The recorder that options ask for, or none, until the block ends; takes its own out of the options.

    Args:
        options: what the verb got.
        command: the verb, for those who read the trace.
        policy_path: the operator's file, whose text is kept so that a replay can hold plugins to it.
        about: more that is kept.

    Raises Failure if the folder cannot be written to.
    """
    folder, redact, most = (options.pop(f"record_{name}") for name in ("folder", "redact", "most"))
    if folder is None:
        yield ()
        return
    from nri.cli.errors import USAGE, Failure
    from nri.trace.recorder import Limits, Recorder

    known = {"command": command, **about, **_policy(policy_path)}
    limits = Limits(folder_bytes=most << 20, file_bytes=min(32 << 20, (most << 20) // 4))
    try:
        recorder = Recorder(folder, redact=redact == "values", about=known, limits=limits)
    except OSError as error:
        given = folder if command == OBSERVER else f"--record {folder}"
        reason = "it is a file: name a folder" if isinstance(error, FileExistsError) else error.strerror or error
        raise Failure(f"{given}: {reason}", USAGE) from None
    with recorder:
        yield (recorder,)


def _policy(path: str | None) -> Mapping[str, str]:
    """The policy's text, if there is one that can be read; what is wrong with it the adaptation says."""
    from nri.files import read_regular

    if not path or not os.path.exists(path):
        return {}
    try:
        return {"policy": read_regular(path, _MOST_POLICY).decode()}
    except (OSError, UnicodeDecodeError):
        return {}
