"""`nri conformance`: compare this package with recorded outcomes of the reference.

Prints each failing case as a readable diff, and as the last line ``N passed, M failed``. Exit code 0 if all passed, 1
if some failed or none was there to run, 2 if a file cannot be read. Next: `nri.testing.conformance` for merges,
`nri.testing.placement` for placements.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.testing.conformance import Failure as Difference


@click.group(
    cls=VerbGroup,
    examples=[
        "nri conformance merge cases.jsonl.xz",
        "nri conformance spec cases.jsonl.xz",
        "nri conformance placement placement.json.xz",
    ],
)
def conformance() -> None:
    """Compare this package with recorded results of the reference."""


@conformance.command(cls=Verb, examples=["nri conformance merge cases.jsonl.xz", "nri conformance merge *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def merge(settings: Settings, files: tuple[str, ...]) -> int:
    """Run recorded merge cases: create, update and stop requests.

    They run in reference mode. A FILE has one JSON object per line, plain or compressed with xz. Cases of other
    kinds are skipped. A case with another result is shown as a diff; with -q by its name alone. A run without any
    case fails.
    """
    from nri.testing.conformance import MERGE_OPS, run_merge_case

    return run(settings, files, MERGE_OPS, run_merge_case)


@conformance.command(cls=Verb, examples=["nri conformance spec cases.jsonl.xz", "nri conformance spec *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def spec(settings: Settings, files: tuple[str, ...]) -> int:
    """Run recorded spec cases: adjustments that are applied to OCI specs.

    Specs are compared by their meaning: an empty list counts as a missing one. Everything else is as for merge.
    """
    from nri.testing.conformance import run_spec_case

    return run(settings, files, frozenset({"spec"}), run_spec_case)


@conformance.command(
    cls=Verb,
    examples=["nri conformance placement placement.json.xz", "nri conformance placement --compat reference *.jsonl.xz"],
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--compat", type=click.Choice(["reference"]), help="Decide as the originals do, where ours does better otherwise."
)
@click.pass_obj
def placement(settings: Settings, files: tuple[str, ...], compat: str | None) -> int:
    """Run recorded placements of nri-plugins' topology-aware and balloons.

    A FILE is placement.json, or JSON lines of sequences with placement.json beside it; plain, or compressed with xz.
    Snapshots of machines are in a folder sysfs beside it. A case that comes out otherwise on purpose is counted apart,
    under the choice that makes the difference.
    """
    from nri.testing.placement.cases import run_file

    out = Output(settings)
    passed = 0
    failed, on_purpose = [], []
    for outcome in (outcome for file in files for outcome in run_file(file, compat is not None)):
        if not outcome.differences:
            passed += 1
        elif outcome.choices:
            on_purpose.append(outcome)
        else:
            failed.append(outcome)
            if out.human:
                out.lines(outcome.case if out.quiet else f"{outcome}\n")
    if not out.human:
        failures = [{"case": one.case, "differences": one.differences} for one in failed]
        differ = [{"case": one.case, "choices": list(one.choices)} for one in on_purpose]
        out.document({"passed": passed, "failed": len(failed), "on_purpose": differ, "failures": failures})
    elif not out.quiet:
        counts = Counter(choice for one in on_purpose for choice in one.choices)
        out.lines("\n".join(f"{choice}: {count}" for choice, count in counts.most_common()))
        out.text(f"{passed} passed, {len(failed)} failed, {len(on_purpose)} differ on purpose")
    if not (passed or failed or on_purpose):
        raise Failure(f"{', '.join(files)}: no case in there, so nothing was run")
    return FAILED if failed else 0


def run(
    settings: Settings, files: tuple[str, ...], kinds: frozenset[str], run_case: Callable[[Any], Difference | None]
) -> int:
    """Run the cases of some kinds, and print what differs and how many passed."""
    from nri.testing.conformance import read_cases

    out = Output(settings)
    passed = skipped = 0
    failed: list[Difference] = []
    for case in (case for file in files for case in read_cases(file)):
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
        failures = [{"case": one.case, "op": one.op, "diff": one.diff} for one in failed]
        out.document({"passed": passed, "failed": len(failed), "skipped": skipped, "failures": failures})
    elif not out.quiet:
        out.text(f"{passed} passed, {len(failed)} failed")
    if not (passed or failed):
        others = f"; {skipped} of other kinds were skipped" if skipped else ""
        names = " or ".join(sorted(kinds))
        raise Failure(f"{', '.join(files)}: no {names} case in there, so nothing was run{others}")
    return FAILED if failed else 0


command = conformance
