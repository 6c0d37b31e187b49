"""`nri conformance`: compare this package with recorded outcomes of the reference. Next: `nri.testing.conformance`.

Prints each failing case as a readable diff, and as the last line ``N passed, M failed``. Exit code 0 if all passed,
1 if some failed or none was there to run, 2 if a file cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from nri.testing.conformance import Failure as Difference


@click.group(cls=VerbGroup, examples=["nri conformance merge cases.jsonl.xz"])
def conformance() -> None:
    """Compare this package with recorded outcomes of the reference."""


@conformance.command(cls=Verb, examples=["nri conformance merge cases.jsonl.xz", "nri conformance merge *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def merge(settings: Settings, files: tuple[str, ...]) -> int:
    """Run the create, update and stop cases of FILEs (one JSON object a line, plain or xz) in reference mode.

    Cases of other kinds are skipped. A case that comes out otherwise is shown as a diff; with -q by its name alone.
    Files without a case to run are an error: nothing that was run is no pass.
    """
    from nri.testing.conformance import MERGE_OPS, read_cases, run_merge_case

    out = Output(settings)
    passed = skipped = 0
    failed: list[Difference] = []
    for case in (case for file in files for case in read_cases(file)):
        if case["op"] not in MERGE_OPS:
            skipped += 1
            continue
        difference = run_merge_case(case)
        if difference is None:
            passed += 1
            continue
        failed.append(difference)
        if out.human:
            out.lines(difference.case if out.quiet else f"{difference}\n")
    if not out.human:
        failures = [{"case": one.case, "op": one.op, "diff": one.diff} for one in failed]
        out.document({"passed": passed, "failed": len(failed), "skipped": skipped, "failures": failures})
    elif not out.quiet:
        out.text(f"{passed} passed, {len(failed)} failed")
    if not (passed or failed):
        others = f"; {skipped} of other kinds were skipped" if skipped else ""
        kinds = " or ".join(sorted(MERGE_OPS))
        raise Failure(f"{', '.join(files)}: no {kinds} case in there, so nothing was run{others}")
    return FAILED if failed else 0


command = conformance
