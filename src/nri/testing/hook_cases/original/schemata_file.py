"""The schemata file of a resctrl group, read back. Next: `nri.testing.hook_cases.original.cpu_flags`."""

from __future__ import annotations

from nri.policies.koordinator.kernel.schemata import Schemata

__all__ = ["parse"]


def parse(text: str) -> Schemata:
    """Read a schemata file; lines of other kinds are passed over.

    Raises:
        ValueError: the two lines differ in their number of domains, or a value is no number.
    """
    found = Schemata()
    domains: int | None = None
    for name, base, values in (("L3", 16, found.l3), ("MB", 10, found.mb)):
        line = _line_of(text, name)
        if line is None:
            continue
        domains = len(line) if domains is None else domains
        if len(line) != domains:
            raise ValueError(f"{name} has {len(line)} domains and not {domains}")
        values.update((domain, int(value.strip(), base)) for domain, value in line.items())
    found.domains = len(found.l3)
    return found


def _line_of(text: str, wanted: str) -> dict[int, str] | None:
    found = None
    for line in text.splitlines():
        name, *rest = line.strip().split(":")
        if name == wanted and len(rest) == 1:
            pairs = (pair.split("=") for pair in rest[0].split(";"))
            found = {
                int(pair[0]): pair[1] for pair in pairs if len(pair) == 2 and pair[0].isascii() and pair[0].isdigit()
            }
    return found
