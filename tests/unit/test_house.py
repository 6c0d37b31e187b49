"""House rules: no import cycles, one JSON reader, no private names in tests."""

from __future__ import annotations

import graphlib
import re
from pathlib import Path

import grimp
import pytest

from tests.support import private_names

SOURCE = Path(__file__).parents[2] / "src/nri"


@pytest.mark.parametrize("package", ["nri", "bench", "tools"])
def test_there_are_no_import_cycles_also_for_type_checkers(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None, exclude_type_checking_imports=False)
    order = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    try:
        order.prepare()
    except graphlib.CycleError as error:
        raise AssertionError(f"a circle: {' <- '.join(error.args[1])}") from None


#: The modules that read JSON, or handle RecursionError, themselves: the one reader, what lies below it, what reads
#: values one by one from a stream, and the typed decoders of msgspec, which keep only known fields and limit the depth.
OWN_READERS = {
    "config/syntax.py", "files.py", "engine/streaming/channels.py", "kube/decoder.py",
    "plugins/resource_annotator/admission.py",
}  # fmt: skip


def test_all_json_is_read_by_the_reader_with_a_depth_limit() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    other_entries = {name for name, text in sources.items() if re.search(r"\bjson\.loads?\(|RecursionError", text)}
    assert other_entries == OWN_READERS, "nri.config.syntax.parse_json refuses what is nested deeper than code can walk"


def test_tests_use_only_public_names() -> None:
    assert private_names.rooms() == {}, "`python -m tests.support.private_names` prints where"
