"""The `nri` command: a table of verbs, loaded when they are called, and the way out of errors. Started by `entry`.

Rules: nothing heavy is imported here, nor by a verb's module at its top; `nri --help` imports no verb at all.
Next: `nri.cli.support.verb` has the classes of verbs, `nri.cli.errors` the exit codes of errors.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from nri.cli.settings import Settings
from nri.cli.support.verb import VerbGroup

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """A verb: the module that holds it as `command`, and its purpose in one line."""

    module: str
    summary: str


#: The verbs by what they are for, in the order of the help.
VERB_GROUPS = {
    "Plugins": {
        "new": Row("nri.cli.verbs.new", "start a plugin: code, test, image, manifests"),
        "try": Row("nri.cli.verbs.try_", "show what plugins would do to a pod, without a runtime"),
        "replay": Row("nri.cli.verbs.replay", "run a recording again with other plugins, and compare the outcomes"),
        "run": Row("nri.cli.verbs.run", "run plugins: bundled ones by name, yours from a file or a module"),
        "plugins": Row("nri.cli.verbs.plugins", "show the plugins that have a name, and what each one takes"),
        "enable": Row("nri.cli.verbs.enable", "let the runtime launch a plugin from now on"),
        "disable": Row("nri.cli.verbs.disable", "take a plugin out of the runtime's folder again"),
    },
    "On this node": {
        "doctor": Row("nri.cli.verbs.doctor", "find out why NRI does not work here"),
        "config-manager": Row("nri.cli.verbs.config_manager", "turn NRI on in containerd's or CRI-O's configuration"),
        "events": Row("nri.cli.verbs.events", "show pods and containers, and follow what happens to them"),
        "why": Row("nri.cli.verbs.why", "show which plugin changed what in a container"),
        "top": Row("nri.cli.verbs.top", "show which plugins are slow, silent or failing, as it happens"),
        "drift": Row(
            "nri.cli.verbs.drift", "show which applied values of cgroups have been overwritten, when and by whom"
        ),
        "inspect": Row("nri.cli.verbs.inspect", "show what plugins do, or did, on a page in the browser"),
        "pod": Row("nri.cli.verbs.pod.pod", "run pods from manifests on any CRI runtime; list, enter and remove them"),
    },
    "Daemons": {
        "engine": Row(
            "nri.cli.verbs.engine", "run a container engine with NRI in it; its settings; what it needs here"
        ),
        "agent": Row("nri.cli.verbs.agent.agent", "run the node agent: QoS rules for pods; see what it did, and why"),
        "resource-annotator": Row(
            "nri.cli.verbs.resource_annotator", "annotate pods with their resources, as a webhook of an apiserver"
        ),
        "proxy": Row("nri.cli.verbs.proxy", "give NRI to a runtime that lacks it, as a CRI proxy in front of it"),
    },
    "Wire and specs": {
        "call": Row("nri.cli.verbs.call", "call a method over ttRPC by hand"),
        "decode": Row("nri.cli.verbs.decode", "explain captured NRI or ttRPC bytes, frame by frame"),
        "record": Row("nri.cli.verbs.record", "record what happens on any runtime, as a plugin that changes nothing"),
        "trace": Row("nri.cli.verbs.trace", "show, sum up, cut and export the events that --record wrote"),
        "predict": Row("nri.cli.verbs.predict", "tell from recordings which plugins will collide on which fields"),
        "spec": Row("nri.cli.verbs.spec", "apply adjustments to OCI specs, compare and check specs"),
        "conformance": Row(
            "nri.cli.verbs.conformance", "find out what a runtime does with NRI, or a plugin does wrong; recorded cases"
        ),
        "placement": Row("nri.cli.verbs.placement", "show where containers would run, by CPUs and memory nodes"),
    },
    "This command": {
        "completion": Row("nri.cli.verbs.completion", "print the shell's completion script"),
        "version": Row("nri.cli.verbs.version", "print the versions of everything"),
    },
}
VERBS = {name: row for rows in VERB_GROUPS.values() for name, row in rows.items()}

EXIT_CODES = """\
Exit codes: 0 done; 1 the operation failed; 2 wrong usage or configuration; 3 no runtime, or its connection was lost;
4 rejected; 5 a spec differs; 130 and 143 interrupted. Results go to standard output, messages to standard error."""


class _ReaderGone(Exception):
    """The reader of our output had enough, as in `nri events -f | head`."""


class Nri(VerbGroup):
    """The group of all verbs, which imports a verb's module when that verb is asked for."""

    # click would end with code 1 where a pipe is closed, before `main` learns of it.

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*args, **more)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        row = VERBS.get(name)
        if row is None:
            return None
        command: click.Command = importlib.import_module(row.module).command
        command.name = name
        return command

    def summaries(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        return {title: [(name, row.summary) for name, row in rows.items()] for title, rows in VERB_GROUPS.items()}


@click.group(
    cls=Nri,
    examples=[
        "nri new pod-name                        # a plugin, its test and all that deploys it",
        "nri run pod_name.py --idx 10            # run it against the runtime on this machine",
        "nri events -f                           # what happens to containers here",
        "nri doctor                              # when something does not work",
    ],
    epilog=EXIT_CODES,
)
def nri() -> None:
    """Write, run and examine NRI plugins: programs that adjust containers inside a container runtime."""


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from nri.cli.verbs.version import command

        ctx.invoke(command)
        ctx.exit()


nri.params.append(
    click.Option(
        ["--version"], is_flag=True, expose_value=False, callback=_print_version, help="The same as nri version."
    )
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with one of the documented codes. Tracebacks are shown with -v -v only."""
    settings = Settings()
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who has started us, and not to be taken by the next file
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - for the process's life
    try:
        result = nri.main(args=arguments, prog_name="nri", obj=settings, standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except (BrokenPipeError, _ReaderGone):
        _discard_output()
        code = 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  (the one place where every error becomes a line)
        from nri.cli.errors import report

        code = report(error, settings)
        try:
            sys.stdout.flush()
        except (OSError, ValueError):  # on a full disk, which is told; or closed
            _discard_output()
    sys.exit(code)


def _discard_output() -> None:
    """Let what is not written yet go nowhere: Python would complain about it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
