"""`nri spec`: apply adjustments to OCI specs, compare specs, and validate them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import DIFFERS, FAILED, USAGE, Failure
from nri.cli.output import Output, PaintedText
from nri.cli.settings import FILE, Settings
from nri.cli.support.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from nri.oci import Generator, Spec

_STYLES = {"+": "green", "-": "red", "~": "yellow", "=": "dim"}


@click.group(
    cls=VerbGroup,
    examples=[
        "nri spec apply adjustment.json config.json > new.json",
        "nri spec diff config.json new.json",
        "runc spec && nri spec validate config.json",
    ],
)
def spec() -> None:
    """Apply adjustments to OCI runtime specs, compare specs, and validate them."""


@spec.command(
    cls=Verb,
    examples=[
        "nri spec apply adjustment.json config.json > new.json",
        """echo '{"env": [{"key": "A", "value": "1"}]}' | nri spec apply - config.json""",
        "nri spec apply --update update.json config.json   # input of runc update --resources -",
    ],
)
@click.argument("adjustment", metavar="ADJUSTMENT|-")
@click.argument("config", metavar="[SPEC|-]", default="-")
@click.option("--reference", is_flag=True, help="Behave exactly like NRI's Go code, including its bugs.")
@click.option(
    "--update", is_flag=True, help="Read ADJUSTMENT as an update, and print the resources for the OCI runtime."
)
@click.option(
    "--cdi-dir",
    multiple=True,
    metavar="DIR",
    help="A folder of CDI files; repeatable, later folders have precedence. Default: /etc/cdi and /var/run/cdi.",
)
@click.option("--blockio", type=FILE, metavar="FILE", help="Block I/O classes, in goresctrl's format.")
@click.option(
    "--rdt",
    type=FILE,
    metavar="FILE",
    help="RDT classes, in goresctrl's format. Without it, every class name is accepted.",
)
@click.pass_obj
def apply(
    settings: Settings, adjustment: str, config: str, reference: bool, update: bool, cdi_dir: tuple[str, ...],
    blockio: Path | None, rdt: Path | None,
) -> None:  # fmt: skip
    """Apply an adjustment to a spec and print the result.

    Without SPEC, the spec is read from standard input. ADJUSTMENT is a ContainerAdjustment as JSON or YAML, or a reply
    with a ContainerAdjustment in the key "adjust". Unknown keys of the spec are kept.
    """
    from nri.api import messages as m
    from nri.errors import SpecError

    if adjustment == config == "-":
        raise Failure("standard input cannot be both the adjustment and the spec: specify a file", USAGE)
    message = _message(adjustment, m.ContainerUpdate if update else m.ContainerAdjustment)
    generator = _generator(_spec(config), reference, cdi_dir, blockio, rdt)
    try:
        result = generator.update(message) if update else generator.adjust(message)
    except SpecError as error:
        where = _display_name(config) if error.path else _display_name(adjustment)
        raise Failure(f"{where}: {error}", FAILED) from None
    Output(settings).document(result)


@spec.command(
    cls=Verb, examples=["nri spec diff old.json new.json", "nri spec apply a.json c.json | nri spec diff c.json -"]
)
@click.argument("old", metavar="OLD|-")
@click.argument("new", metavar="NEW|-")
@click.pass_obj
def diff(settings: Settings, old: str, new: str) -> int:
    """Print the differences between two specs, one per line.

    Lines begin with + for a new entry, - for a removed entry, ~ for a changed entry, and = for a changed order. Entries
    of lists are identified by name: a mount by its destination, a variable by its name. An empty list equals a missing
    list. The exit code is 5 if the specs differ; -q prints nothing.
    """
    from nri.oci import difference

    if old == new == "-":
        raise Failure("standard input cannot be both specs: specify a file", USAGE)
    changes = difference(_spec(old), _spec(new))
    out = Output(settings)
    if not out.human:
        out.document([change._asdict() for change in changes])
    elif not out.quiet:
        for change in changes:
            line = str(change)
            out.text(PaintedText(line, _STYLES[line[0]]))
    return DIFFERS if changes else 0


@spec.command(cls=Verb, examples=["nri spec validate config.json", "runc spec -b . && nri spec validate < config.json"])
@click.argument("files", metavar="[SPEC|-]...", nargs=-1)
@click.pass_obj
def validate(settings: Settings, files: tuple[str, ...]) -> int:
    """Validate specs and print every mistake, one per line.

    Reports values of the wrong type, and values that every OCI runtime refuses. Unknown keys are skipped. The exit code
    is 1 if there is a mistake; -q prints only the names of files with mistakes.
    """
    from nri.oci import validate as problems_of
    from nri.text import count

    out = Output(settings)
    problems_by_file = {name: problems_of(_tree(name)) for name in files or ("-",)}
    faulty = {name: problems for name, problems in problems_by_file.items() if problems}
    if not out.human:
        out.document([{"file": name, **problem._asdict()} for name, problems in faulty.items() for problem in problems])
    elif out.quiet:
        out.names(faulty)
    else:
        for name, problems in faulty.items():
            for problem in problems:
                out.text(f"{_display_name(name)}: {problem}")
        if not faulty:
            out.note(f"{count(len(problems_by_file), 'valid spec')}")
    return FAILED if faulty else 0


def _display_name(name: str) -> str:
    return "standard input" if name == "-" else name


def _tree(name: str, form: Literal["json", "auto"] = "json") -> Any:
    """Parse a file; a spec must be JSON, as for OCI runtimes. Raises ConfigError if the file cannot be parsed."""
    from nri.cli.support.inputs import read_source
    from nri.config import Source, parse_text

    source = read_source(name)
    return parse_text(Source(source.name, source.text, "json") if form == "json" else source)


def _spec(name: str) -> Spec:
    tree = _tree(name)
    if not isinstance(tree, dict):
        from nri.config.complaint import shorten

        raise Failure(f"{_display_name(name)}: not a spec: expected a JSON object, not {shorten(tree)}", USAGE)
    return tree


def _message(name: str, kind: Any) -> Any:
    """Read an adjustment or an update, which may be inside a reply."""
    from nri.trace.catalog import from_json

    tree = _tree(name, "auto")
    if tree is None:
        raise Failure(f"{_display_name(name)}: the file is empty; an adjustment that changes nothing is {{}}", USAGE)
    if isinstance(tree, dict) and "adjust" in tree:
        tree = tree["adjust"]
    if isinstance(tree, dict) and kind.DESCRIPTOR.name == "ContainerUpdate" and "linux" not in tree:
        tree = {"linux": {"resources": tree}}
    return from_json(kind, tree, _display_name(name))


def _generator(
    config: Spec, reference: bool, cdi_dirs: Sequence[str], blockio: Path | None, rdt: Path | None
) -> Generator:
    from nri.oci import BlockIoClasses, CdiDevices, Generator, RdtClasses

    devices = CdiDevices(cdi_dirs) if cdi_dirs else CdiDevices()
    return Generator(
        config,
        compat="reference" if reference else "default",
        cdi=devices.inject,
        blockio=BlockIoClasses.read(blockio).resolve if blockio else None,
        rdt=(RdtClasses.read(rdt) if rdt else RdtClasses()).resolve,
    )


command = spec
