"""Convert an error to one line on standard error and an exit code.

The codes are public: they are documented in the help, tested, and never reused.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from nri import errors
from nri.cli.output import end_progress, paint, wants_color
from nri.config.complaint import single_errors
from nri.text import escape, plain

if TYPE_CHECKING:
    from nri.cli.settings import Settings

FAILED, USAGE, UNREACHABLE, REJECTED, DIFFERS, INTERRUPTED = 1, 2, 3, 4, 5, 130

#: The first class that matches decides. All other errors are FAILED.
EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (click.UsageError, USAGE),
    (errors.ConfigError, USAGE),
    (errors.RuntimeUnavailable, UNREACHABLE),
    (errors.ConnectionClosed, UNREACHABLE),
    (errors.DeadlineExceeded, UNREACHABLE),
    (errors.Reject, REJECTED),
    (errors.PluginRejected, REJECTED),
    (errors.ConflictError, REJECTED),
    (errors.ValidationRejected, REJECTED),
    (KeyboardInterrupt, INTERRUPTED),
    (click.Abort, INTERRUPTED),
)


#: Options of other programs, and the option of nri with the same meaning.
_EQUIVALENTS = {"--json": "-o json", "--yaml": "-o yaml", "--format": "-o json or -o yaml", "--table": "-o table"}


class Failure(click.ClickException):
    """The failure of a verb: one line with subject, reason and next step; `code` is the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_code(error: BaseException) -> int:
    """The exit code for an error."""
    if isinstance(error, Failure):
        return error.code
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAILED)


def describe(error: BaseException) -> str:
    """Describe an error with subject, reason and next step: in one line; a ConfigError in one line per problem."""
    if isinstance(error, click.UsageError):
        verb = error.ctx.command_path if error.ctx else "nri"
        text = _no_such_option(error) if isinstance(error, click.NoSuchOption) else error.format_message().rstrip(".")
        text = " ".join(text.split())  # click puts choices on separate lines
        stop = "" if text.endswith("?") else "."
        return f"{text[:1].lower()}{text[1:]}{stop} try: {verb} --help"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError):
        unnamed = "cannot write the output: " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        where = f"{error.filename}: " if error.filename else unnamed
        as_root = ". Run this command as root" if isinstance(error, PermissionError) and os.geteuid() else ""
        return f"{where}{error.strerror or error}{as_root}"
    if isinstance(error, errors.ConfigError):
        return "\n".join(map(str, single_errors(error)))
    if isinstance(error, errors.NriError):
        return str(error)
    if isinstance(error, ValueError) and sys.stdout.closed:
        return "standard output is closed: a plugin or other loaded code has closed it"
    return f"{type(error).__name__}: {str(error).rstrip('.')}. This is a bug in nri; -v -v shows the traceback"


def _no_such_option(error: click.NoSuchOption) -> str:
    """Describe an unknown option, and suggest similar options. Names are compared without their dashes."""
    name = error.option_name
    option_by_name = {option.lstrip("-"): option for option in sorted(error.possibilities or (), reverse=True)}
    suggestions = [option_by_name[word] for word in get_close_matches(name.lstrip("-"), option_by_name)]
    if name in _EQUIVALENTS:
        return f"no such option {name}: use {_EQUIVALENTS[name]}"
    if suggestions:
        return f"no such option {name}, did you mean {' or '.join(suggestions)}?"
    if error.ctx is not None and error.ctx.parent is None:
        return f"no such global option {name}: put the options of a verb after the verb"
    return f"no such option {name}"


def report(error: BaseException, settings: Settings) -> int:
    """Print the error to standard error and return the exit code. The traceback is printed with -v -v only.

    Nothing is printed for Ctrl-C.
    """
    end_progress()
    if settings.verbose >= 2:
        trace = "".join(traceback.format_exception(error)).split("\n")
        sys.stderr.write("\n".join([escape(line) for line in trace]))
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    color = wants_color(settings.color, sys.stderr)
    for line in (describe(error).strip("\n") or type(error).__name__).split("\n"):
        sys.stderr.write(f"{paint('error:', 'red', color)} {plain(line, errors.TEXT_LENGTH)}\n")
    return exit_code(error)
