"""`nri conformance`: compare this package with recorded outcomes of the reference. Next: `nri.testing.conformance`.

Prints each failing case as a readable diff, and as the last line ``N passed, M failed``. Exit code 0 if all passed,
1 if some failed, 2 if a file cannot be read.
"""

from __future__ import annotations

import click

from nri.cli.support.verb import Verb, VerbGroup


@click.group(cls=VerbGroup, examples=["nri conformance merge cases.jsonl.xz"])
def conformance() -> None:
    """Compare this package with recorded outcomes of the reference."""


@conformance.command(cls=Verb, examples=["nri conformance merge cases.jsonl.xz", "nri conformance merge *.jsonl"])
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.pass_context
def merge(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Run the create, update and stop cases of FILEs (one JSON object a line, plain or xz) in reference mode.

    Cases of other kinds are skipped. A case that comes out otherwise is shown as a diff.
    """
    from nri.testing.conformance import MERGE_OPS, read_cases, run_merge_case

    passed = failed = 0
    for case in (case for file in files for case in read_cases(file) if case["op"] in MERGE_OPS):
        failure = run_merge_case(case)
        if failure is None:
            passed += 1
        else:
            failed += 1
            click.echo(f"{failure}\n")
    click.echo(f"{passed} passed, {failed} failed")
    ctx.exit(1 if failed else 0)


command = conformance
