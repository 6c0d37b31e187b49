"""A short fuzz run of each parser: the same inputs each time in CI, and earlier findings."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import hypothesis
import pytest

from tests.fuzz import engine
from tests.fuzz.targets import TARGETS

#: Multiple of the usual number of examples of a test, variants not counted.
FACTOR = 1.0


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_accepted_or_refused_as_documented(name: str) -> None:
    target = TARGETS[name]
    settings = hypothesis.settings()
    seed = 1 if settings.derandomize else random.randrange(1 << 30)
    search = engine.Search(target, variants=3)
    examples = max(10, int(settings.max_examples * FACTOR * target.share))
    if search.run(seed, examples):
        matches = f"{search.found!r}: {type(search.error).__name__}: {search.error}"
        pytest.fail(f"seed {seed}: {matches}; python -m tests.fuzz {name} --seed {seed}")
    assert search.tried >= examples // 2, "hardly any input was drawn"


FOUND = [(name, path) for name, target in TARGETS.items() for path in engine.kept(target)]


@pytest.mark.parametrize(("name", "path"), FOUND, ids=[f"{name}-{path.name}" for name, path in FOUND])
def test_earlier_findings_stay_fixed(name: str, path: engine.Path) -> None:
    TARGETS[name].run(path.read_bytes())


def test_every_folder_of_findings_belongs_to_a_target() -> None:
    assert {path.name for path in engine.CORPUS.iterdir()} <= TARGETS.keys()


def test_a_finding_is_minimized_and_saved(tmp_path: engine.Path) -> None:
    def check(data: bytes) -> None:
        assert b"\x00" not in data

    target = engine.Target("bytes", hypothesis.strategies.binary(max_size=50), check)
    search = engine.Search(target, variants=20)
    assert search.run(1, 500)
    assert search.found == b"\x00"
    assert engine.save(target, search.found, tmp_path).read_bytes() == b"\x00"
