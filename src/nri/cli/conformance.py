"""`nri conformance`: compare this package with what the reference recorded. The work is in `nri.testing.conformance`.

Prints each failing case as a readable diff, and as the last line ``N passed, M failed``. Exit code 0 if all passed, 1 if
some failed, 2 if a file cannot be read.
"""

from __future__ import annotations

import sys

import click

from nri.errors import ConfigError
from nri.testing.conformance import MERGE_OPS, read_cases, run_merge_case

__all__ = ["conformance"]


@click.group()
def conformance() -> None:
    """Compare this package with recorded outcomes of the reference."""


@conformance.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
def merge(files: tuple[str, ...]) -> None:
    """Run the create, update and stop cases of FILEs (JSON lines, plain or .xz) in reference mode.

    Cases of other kinds are skipped.
    """
    passed = failed = 0
    try:
        for file in files:
            for case in read_cases(file):
                if case["op"] not in MERGE_OPS:
                    continue
                failure = run_merge_case(case)
                if failure is None:
                    passed += 1
                else:
                    failed += 1
                    click.echo(f"{failure}\n")
    except ConfigError as error:
        click.echo(f"nri: {error}", err=True)
        sys.exit(2)
    click.echo(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    conformance()
