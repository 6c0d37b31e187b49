"""The options --record, --redact and --record-max-size of commands that run plugins, and their recorder."""

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

#: The command in recordings of a plugin. `nri.testing.replay` checks it, because these recordings lack the answers.
OBSERVER = "nri record"

#: Labels of `nri.api.naming.OBSERVERS`; in older recordings they end with the number of the process.
_OBSERVER_LABELS = re.compile(r"99-nri-(drift|events|record)(-\d+)?")
#: A longer policy file is not stored in a trace.
_MAX_POLICY_BYTES = 1 << 20

_OPTIONS = (
    click.option(
        "--record",
        "record_folder",
        type=PATH,
        metavar="DIR",
        help="Record all events, requests and answers in files in DIR, for nri trace.",
    ),
    click.option(
        "--redact",
        "record_redact",
        type=click.Choice(["values", "none"]),
        default="values",
        help="Which secrets to replace in recordings. values (default): the values of env, args, annotations, sysctls, "
        "NAME=VALUE mount options and configuration. none: no secrets. Labels, paths and error texts are always kept.",
    ),
    click.option(
        "--record-max-size",
        "record_max_mib",
        type=click.IntRange(1, 1 << 20),
        default=512,
        metavar="MIB",
        help="Limit the size of DIR by removing the oldest files. Files older than 7 days are always removed."
        " Default: 512 MiB.",
    ),
)


def is_observer(plugin: str) -> bool:
    """Whether ``NN-name`` is the plugin of a command such as `nri events`, which changes nothing."""
    return _OBSERVER_LABELS.fullmatch(plugin) is not None


def record_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the recording options to a verb, which passes their values to `recorded`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def redact_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the recording options except --record to a verb that takes the folder as an argument."""
    for option in reversed(_OPTIONS[1:]):
        command = option(command)
    return command


@contextmanager
def recorded(
    options: dict[str, Any], command: str, *, policy_path: str | None = None, **about: str
) -> Iterator[tuple[Recorder, ...]]:
    """Open the recorder for the length of the block. Yields a tuple with the recorder, which is empty without --record.

    Args:
        options: the verb's options; the recording options are removed from them.
        command: the verb, stored in the recording.
        policy_path: the operator's policy file, whose text is stored so that a replay can enforce it.
        about: further values to store.

    Raises Failure if the folder cannot be written to.
    """
    folder, redact, max_mib = (options.pop(f"record_{name}") for name in ("folder", "redact", "max_mib"))
    if folder is None:
        yield ()
        return
    from nri.cli.errors import USAGE, Failure
    from nri.trace.recorder import Limits, Recorder

    header = {"command": command, **about, **_policy(policy_path)}
    limits = Limits(folder_bytes=max_mib << 20, file_bytes=min(32 << 20, (max_mib << 20) // 4))
    try:
        recorder = Recorder(folder, redact=redact == "values", about=header, limits=limits)
    except OSError as error:
        label = folder if command == OBSERVER else f"--record {folder}"
        reason = "is a file: specify a folder" if isinstance(error, FileExistsError) else error.strerror or error
        raise Failure(f"{label}: {reason}", USAGE) from None
    with recorder:
        yield (recorder,)


def _policy(path: str | None) -> Mapping[str, str]:
    """The text of the policy file if it can be read. The adaptation reports mistakes in the file."""
    from nri.files import read_regular

    if not path or not os.path.exists(path):
        return {}
    try:
        return {"policy": read_regular(path, _MAX_POLICY_BYTES).decode()}
    except (OSError, UnicodeDecodeError):
        return {}
