"""`nri conformance`: test a live runtime or a plugin, and compare this package with recorded results of Go programs.

A comparison prints each failing case as a diff, and as the last line ``N passed, M failed``. The exit code is 0 if all
passed, 1 if some failed or no case was run, 2 if a file cannot be read.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import click

from nri.cli.errors import DIFFERS, FAILED, UNREACHABLE, USAGE, Failure, exit_code
from nri.cli.output import Column, Output, PaintedText, write_page
from nri.cli.settings import Settings
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb, VerbGroup
from nri.errors import NriError
from nri.service.interruption import SignalStop

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.conformance.cases import Failure as Difference
    from nri.conformance.report import Report


@click.group(
    cls=VerbGroup,
    examples=[
        "nri conformance runtime --image docker.io/library/busybox:1.36",
        "nri conformance plugin ./my-plugin",
        "nri conformance merge cases.jsonl.xz",
    ],
)
def conformance() -> None:
    """Test a runtime or a plugin; compare this package with recorded results of the Go programs."""


_html = click.option("--html", metavar="FILE", help="Also write the result to FILE, as a self-contained HTML page.")
_expect = click.option(
    "--expect",
    metavar="FILE",
    help="Compare with an earlier result (-o json). Exit code 5 if the results differ.",
)


@conformance.command(
    cls=Verb,
    short_help="test how a live runtime behaves with NRI",
    examples=[
        "nri conformance runtime",
        "nri conformance runtime --cri-socket /run/containerd/containerd.sock -o json > before.json",
        "nri conformance runtime --expect before.json --html node.html",
    ],
)
@click.option(
    "--image",
    default="docker.io/library/busybox:1.36",
    metavar="NAME",
    show_default=True,
    help="The image of the containers; it must have /bin/sh. Pulled if missing.",
)
@click.option(
    "--cdi-dir", metavar="DIR", default="", help="A folder of CDI devices that the runtime reads; one device is tested."
)
@click.option("--cgroup-root", metavar="PATH", default="", help="The parent cgroup of kubepods, as set in the kubelet.")
@click.option(
    "--pod-network", is_flag=True, help="Give pods their own network, to test whether plugins get their addresses."
)
@_html
@_expect
@cri_option
@click.pass_obj
def runtime(
    settings: Settings,
    image: str,
    cdi_dir: str,
    cgroup_root: str,
    pod_network: bool,
    html: str | None,
    expect: str | None,
    cri_socket: str | None,
) -> int:
    """Test how a live runtime handles every event, field, update, eviction, validator and failure of NRI.

    The test connects plugins to the NRI socket (--socket-path) and creates pods over the CRI socket. It does not change
    existing pods, and removes its pods at the end, also after a signal. Run it as root on the runtime's machine, and
    not on a machine in production: some of its plugins answer late on purpose, which delays other events of the runtime
    by some seconds.

    If the runtime stops (exit code 3), or after a signal, the report contains the results so far and says where the
    test stopped. An incomplete report is not compared with --expect.
    """
    from nri.api.naming import DEFAULT_SOCKET
    from nri.cli.support import cri as support
    from nri.conformance.report import read_rows
    from nri.conformance.runtime import Probe

    out = Output(settings)
    before = read_rows(expect) if expect else None
    if settings.verbose < 2:
        logging.getLogger("nri").setLevel(logging.CRITICAL)  # the test's plugins fail on purpose
    with support.connect(settings, cri_socket) as cri:
        probe = Probe(
            cri,
            settings.socket_path or DEFAULT_SOCKET,
            image,
            settings.timeout_s or 10.0,
            out.note if settings.verbose else out.progress,
            cdi_dir=cdi_dir,
            cgroup_root=cgroup_root,
            own_network=pod_network,
        )
        try:
            report = probe.run(out.note)
        finally:
            out.progress("")
    return _show_result(out, report, html, before)


@conformance.command(
    cls=Verb,
    short_help="test a plugin in any language, and report its faults",
    context_settings={"allow_interspersed_args": False},
    examples=[
        "nri conformance plugin ./10-my-plugin              # started as a runtime starts installed plugins",
        "nri conformance plugin my_plugin.py",
        "nri conformance plugin --html plugin.html ./my-plugin -socket-path {socket} -idx 10",
    ],
)
@click.argument("argv", metavar="COMMAND [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--config", metavar="FILE", help="The configuration that the runtime sends to the plugin.")
@_html
@_expect
@click.pass_obj
def plugin(settings: Settings, argv: tuple[str, ...], config: str | None, html: str | None, expect: str | None) -> int:
    """Test a plugin in any language against this package's runtime side, and report its faults.

    Needs neither a container runtime nor root. A COMMAND without arguments is started the way runtimes start installed
    plugins. In the arguments of a plugin that connects by itself, {socket} is replaced by the path of the socket. A
    Python file that is not executable is run by nri run. --timeout limits how long the plugin may take to answer, 2 s
    by default. The exit code is 1 if the plugin has a fault.
    """
    from nri.api.naming import REQUEST_TIMEOUT_S
    from nri.conformance.plugin import candidate, examine
    from nri.conformance.report import read_rows

    out = Output(settings)
    before = read_rows(expect) if expect else None
    if settings.verbose < 2:
        logging.getLogger("nri").setLevel(logging.CRITICAL)  # some requests are invalid on purpose
    subject = candidate(argv, config, settings.timeout_s or REQUEST_TIMEOUT_S)
    try:
        with SignalStop():
            report = examine(subject, out.note if settings.verbose else out.progress)
    except NriError as error:
        raise Failure(f"{' '.join(argv)}: cannot test the plugin: {error}", exit_code(error)) from None
    finally:
        out.progress("")
    code = _show_result(out, report, html, before)
    has_faults = any(row.outcome == "wrong" for section in report.sections for row in section.rows)
    return code or (FAILED if has_faults else 0)


def _show_result(out: Output, report: Report, html: str | None, before: dict[tuple[str, str], str] | None) -> int:
    """Print a report, write it as a page, and compare it with an earlier one. Returns the exit code."""
    if out.human:
        show_report(out, report)
    else:
        out.document(report.to_json())
    if html:
        try:
            write_page(html, report.html())
        except OSError as error:
            raise Failure(f"--html {html}: {error.strerror or error}", USAGE) from None
    if report.incomplete:
        out.note(f"the report is incomplete: {report.incomplete}")
        return UNREACHABLE if report.runtime_gone else 128 + report.stopped_by
    lines = [] if before is None else report.differences(before)
    for line in lines:
        out.note(line)
    return DIFFERS if lines else 0


def show_report(out: Output, report: Report) -> None:
    """Print a report as tables."""
    from nri.conformance.report import EXTRA_COLUMNS, filled_columns
    from nri.text import plain

    out.text(PaintedText(report.title, "bold"))
    for name, text in report.header().items():
        out.text(f"{name}: {plain(text, 500)}")
    for section in report.sections:
        if not section.rows:
            continue
        out.text("")
        out.text(PaintedText(section.title, "bold"))
        rows = section.shown()
        columns = [Column(title.upper(), key, extra=key in EXTRA_COLUMNS) for title, key in filled_columns(rows)]
        out.table(columns, [row._asdict() for row in rows])


@conformance.command(cls=Verb, examples=["nri conformance merge cases.jsonl.xz", "nri conformance merge *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def merge(settings: Settings, files: tuple[str, ...]) -> int:
    """Run recorded merge cases: create, update and stop requests.

    Cases run in reference mode, which behaves exactly like NRI's Go code. A FILE has one JSON object per line, plain or
    compressed with xz. Cases of other kinds are skipped. A case whose result differs is shown as a diff; with -q only
    by its name. A run without cases fails.
    """
    from nri.conformance.cases import MERGE_OPS, run_merge_case

    return run(settings, files, MERGE_OPS, run_merge_case)


@conformance.command(cls=Verb, examples=["nri conformance spec cases.jsonl.xz", "nri conformance spec *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def spec(settings: Settings, files: tuple[str, ...]) -> int:
    """Run recorded spec cases: adjustments that are applied to OCI specs.

    Specs are compared by meaning: an empty list equals a missing one. Otherwise like nri conformance merge.
    """
    from nri.conformance.cases import run_spec_case

    return run(settings, files, frozenset({"spec"}), run_spec_case)


@conformance.command(
    cls=Verb,
    examples=["nri conformance placement placement.json.xz", "nri conformance placement --compat reference *.jsonl.xz"],
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--compat",
    type=click.Choice(["reference"]),
    help="Reproduce nri-plugins exactly, without this package's improvements.",
)
@click.pass_obj
def placement(settings: Settings, files: tuple[str, ...], compat: str | None) -> int:
    """Run recorded placements of the policies of nri-plugins.

    A FILE is placement.json, or JSON lines of sequences in the folder of placement.json; plain or compressed with xz.
    Snapshots of machines are in the subfolder sysfs. Cases that differ on purpose are counted separately, by the design
    choice that causes the difference.
    """
    from nri.placement.recorded.cases import run_file

    out = Output(settings)
    passed = 0
    failed, on_purpose = [], []
    outcomes = (outcome for file in files for outcome in run_file(file, compat is not None))
    for outcome in out.counted(outcomes, "case"):
        if not outcome.differences:
            passed += 1
        elif outcome.choices:
            on_purpose.append(outcome)
        else:
            failed.append(outcome)
            if out.human:
                out.lines(outcome.case if out.quiet else f"{outcome}\n")
    if not out.human:
        failures = [{"case": outcome.case, "differences": outcome.differences} for outcome in failed]
        differ = [{"case": outcome.case, "choices": list(outcome.choices)} for outcome in on_purpose]
        out.document({"passed": passed, "failed": len(failed), "on_purpose": differ, "failures": failures})
    elif not out.quiet:
        counts = Counter(choice for outcome in on_purpose for choice in outcome.choices)
        out.lines("\n".join(f"{choice}: {count}" for choice, count in counts.most_common()))
        out.text(f"{passed} passed, {len(failed)} failed, {len(on_purpose)} differ on purpose")
    if not (passed or failed or on_purpose):
        raise Failure(f"{', '.join(files)}: no cases found, so nothing was run")
    return FAILED if failed else 0


def run(
    settings: Settings, files: tuple[str, ...], kinds: frozenset[str], run_case: Callable[[Any], Difference | None]
) -> int:
    """Run the cases of these kinds, and print the differences and the number of passed cases."""
    from nri.conformance.cases import read_cases

    out = Output(settings)
    passed = skipped = 0
    failed: list[Difference] = []
    for case in out.counted((case for file in files for case in read_cases(file)), "case"):
        if case["op"] not in kinds:
            skipped += 1
            continue
        difference = run_case(case)
        if difference is None:
            passed += 1
            continue
        failed.append(difference)
        if out.human:
            out.lines(difference.case if out.quiet else f"{difference}\n")
    if not out.human:
        failures = [{"case": case.case, "op": case.op, "diff": case.diff} for case in failed]
        out.document({"passed": passed, "failed": len(failed), "skipped": skipped, "failures": failures})
    elif not out.quiet:
        out.text(f"{passed} passed, {len(failed)} failed")
    if not (passed or failed):
        skipped_note = f"; {skipped} of other kinds were skipped" if skipped else ""
        names = " or ".join(sorted(kinds))
        raise Failure(f"{', '.join(files)}: no {names} cases found, so nothing was run{skipped_note}")
    return FAILED if failed else 0


command = conformance
