"""`nri conformance`: compare this package with recorded outcomes of the reference.

Prints each failing case as a readable diff, and as the last line ``N passed, M failed``. Exit code 0 if all passed, 1
if some failed or none was there to run, 2 if a file cannot be read. Next: `nri.testing.conformance` for merges,
`nri.testing.spec_cases` for specs, `nri.testing.hook_cases` for Koordinator's hooks.
"""

from __future__ import annotations

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
        "nri conformance hooks koordinator-hooks.jsonl.xz",
    ],
)
def conformance() -> None:
    """Compare this package with recorded outcomes of the reference."""


@conformance.command(cls=Verb, examples=["nri conformance merge cases.jsonl.xz", "nri conformance merge *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def merge(settings: Settings, files: tuple[str, ...]) -> int:
    """Run the merge cases of FILEs in reference mode.

    These are create, update and stop; one JSON object a line, plain or xz.

    Cases of other kinds are skipped. A case that comes out otherwise is shown as a diff; with -q by its name alone.
    Files without a case to run are an error: nothing that was run is no pass.
    """
    from nri.testing.conformance import MERGE_OPS, run_merge_case

    return run(settings, files, MERGE_OPS, run_merge_case)


@conformance.command(cls=Verb, examples=["nri conformance spec cases.jsonl.xz", "nri conformance spec *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def spec(settings: Settings, files: tuple[str, ...]) -> int:
    """Run the spec cases of FILEs in reference mode.

    An adjustment is applied to an OCI spec.

    Specs are compared as what they mean: an empty list is as good as none. Everything else is as in merge.
    """
    from nri.testing.spec_cases import run_spec_case

    return run(settings, files, frozenset({"spec"}), run_spec_case)


@conformance.command(
    cls=Verb,
    examples=["nri conformance hooks cases.jsonl.xz", "nri conformance hooks --compat default cases.jsonl.xz"],
)
@click.option(
    "--compat",
    type=click.Choice(["reference", "default"]),
    default="reference",
    show_default=True,
    help="Decide as Koordinator does, or as this package does by default: then what differs is a deviation.",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_obj
def hooks(settings: Settings, compat: str, files: tuple[str, ...]) -> int:
    """Run the cases of Koordinator's hooks in FILEs.

    Inputs of koordlet's runtime hooks, of their rules, of conversions and of its proxy, with what the original made of
    them. Cases of its inner helpers are counted apart, in a line of their own behind that of the hooks.
    """
    from nri.policies.koordinator.quirks import Quirks
    from nri.testing.conformance import read_cases
    from nri.testing.hook_cases import is_helper, run_hook_case, wrong

    quirks = Quirks.REFERENCE if compat == "reference" else Quirks.DEFAULT
    out = Output(settings)
    counts = {"hooks": [0, 0], "helpers": [0, 0]}
    failed: list[Difference] = []
    for case in (case for file in files for case in read_cases(file, wrong)):
        if "hook" not in case:
            continue
        difference = run_hook_case(case, quirks)
        counts["helpers" if is_helper(case) else "hooks"][difference is not None] += 1
        if difference is not None:
            failed.append(difference)
            if out.human:
                out.lines(difference.case if out.quiet else f"{difference}\n")
    if not out.human:
        failures = [{"case": one.case, "stage": one.op, "diff": one.diff} for one in failed]
        totals = {name: {"passed": passed, "failed": missed} for name, (passed, missed) in counts.items()}
        out.document({**totals, "failures": failures})
    elif not out.quiet:
        for name, (passed, missed) in counts.items():
            out.text(f"{passed} passed, {missed} failed ({name})")
    if not any(map(sum, counts.values())):
        raise Failure(f"{', '.join(files)}: no case of a hook in there, so nothing was run")
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
