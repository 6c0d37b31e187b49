"""The `nri` command: a table of verbs, whose modules are imported when a verb is called, and the handling of errors.

No heavy module is imported here or at the top of a verb's module; `nri --help` imports no verb.
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
    """A verb: the module that defines it as `command`, and its purpose in one line."""

    module: str
    summary: str


#: The verbs by topic, in the order of the help.
VERB_GROUPS = {
    "Plugins": {
        "new": Row("nri.cli.verbs.new", "create a plugin project: code, test, image, manifests"),
        "try": Row("nri.cli.verbs.try_", "show what plugins would do to a pod, without a runtime"),
        "replay": Row("nri.cli.verbs.replay", "run recorded events again with other plugins, and compare the outcomes"),
        "run": Row("nri.cli.verbs.run", "run plugins: bundled plugins by name, other plugins from a file"),
        "plugins": Row("nri.cli.verbs.plugins", "list bundled and registered plugins; show flags and configuration"),
        "enable": Row("nri.cli.verbs.enable", "install a plugin into the runtime's plugin folder"),
        "disable": Row("nri.cli.verbs.disable", "remove a plugin from the runtime's plugin folder"),
    },
    "On this node": {
        "doctor": Row("nri.cli.verbs.doctor", "find out why NRI does not work on this machine"),
        "config-manager": Row("nri.cli.verbs.config_manager", "turn NRI on in the runtime's configuration"),
        "events": Row("nri.cli.verbs.events", "show pods and containers, and follow what happens to them"),
        "why": Row("nri.cli.verbs.why", "show which plugin changed what in a container"),
        "top": Row("nri.cli.verbs.top", "show live which plugins are slow, unresponsive or failing"),
        "drift": Row("nri.cli.verbs.drift", "show which cgroup values were overwritten after they were applied"),
        "inspect": Row("nri.cli.verbs.inspect", "show in the browser what plugins do, or what they did in a recording"),
        "pod": Row("nri.cli.verbs.pod.pod", "run pods from manifests on any CRI runtime; list, enter and remove them"),
    },
    "Daemons": {
        "engine": Row("nri.cli.verbs.engine", "run a container engine with NRI; check its requirements and settings"),
        "agent": Row(
            "nri.cli.verbs.agent.agent", "run the node agent, which applies QoS rules to pods; explain its values"
        ),
        "resource-annotator": Row(
            "nri.cli.verbs.resource_annotator", "run an admission webhook that annotates pods with their resources"
        ),
        "proxy": Row("nri.cli.verbs.proxy", "run a CRI proxy that adds NRI to a runtime without it"),
    },
    "Protocol, recordings and specs": {
        "call": Row("nri.cli.verbs.call", "call a method over ttRPC by hand"),
        "decode": Row("nri.cli.verbs.decode", "explain captured NRI or ttRPC bytes, frame by frame"),
        "record": Row("nri.cli.verbs.record", "record the events of any runtime, as a plugin that changes nothing"),
        "trace": Row("nri.cli.verbs.trace", "show, summarize, cut and export recordings"),
        "predict": Row("nri.cli.verbs.predict", "predict from recordings which plugins will conflict on which fields"),
        "spec": Row("nri.cli.verbs.spec", "apply adjustments to OCI specs, compare and validate specs"),
        "conformance": Row(
            "nri.cli.verbs.conformance", "test a runtime or a plugin for conformance; run recorded cases"
        ),
        "placement": Row(
            "nri.cli.verbs.placement", "show, explain or simulate the CPUs and memory nodes of containers"
        ),
    },
    "This command": {
        "completion": Row("nri.cli.verbs.completion", "print a shell completion script"),
        "version": Row("nri.cli.verbs.version", "print the versions of nri, Python, protobuf and the kernel"),
    },
}
VERBS = {name: row for rows in VERB_GROUPS.values() for name, row in rows.items()}

EXIT_CODES = """\
Exit codes: 0 success; 1 the operation failed; 2 wrong usage or configuration; 3 no runtime, or its connection was lost;
4 rejected; 5 a difference was found; 130 and 143 interrupted.
Results go to standard output, messages to standard error."""


class _ReaderGone(Exception):
    """The process that reads our output has closed the pipe, as in `nri events -f | head`."""


class Nri(VerbGroup):
    """The group of all verbs, which imports a verb's module when the verb is called."""

    # click itself would exit with code 1 on a closed pipe, before `main` can handle it.

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
        "nri new pod-name                        # create a plugin project: code, test, deployment",
        "nri run pod_name.py --idx 10            # run it against the runtime on this machine",
        "nri events -f                           # follow what happens to containers on this machine",
        "nri doctor                              # find out why something does not work",
    ],
    epilog=EXIT_CODES,
)
def nri() -> None:
    """Write, run and examine NRI plugins: programs that adjust containers inside a container runtime."""


def _print_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested:
        from nri.cli.verbs.version import command

        ctx.invoke(command)
        ctx.exit()


nri.params.append(
    click.Option(
        ["--version"], is_flag=True, expose_value=False, callback=_print_version, help="The same as `nri version`."
    )
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with one of the documented codes. Tracebacks are shown with -v -v only."""
    settings = Settings()
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process; the next open file must not get its number
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
        except (OSError, ValueError):  # a full disk, which was reported above, or a closed stream
            _discard_output()
    sys.exit(code)


def _discard_output() -> None:
    """Discard buffered output, which Python would otherwise report as an error at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
