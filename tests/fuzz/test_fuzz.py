"""Each parser for a moment: the same inputs each time in CI, and those that were findings once."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import hypothesis
import pytest

from tests.fuzz import engine
from tests.fuzz.targets import TARGETS

#: Of the examples that a test draws as a rule, so many times as many are tried here, variants not counted.
FACTOR = 1.0


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_taken_or_refused_as_documented(name: str) -> None:
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
def test_what_was_found_once_is_not_found_again(name: str, path: engine.Path) -> None:
    TARGETS[name].run(path.read_bytes())


def test_a_folder_of_findings_is_that_of_a_target() -> None:
    assert {path.name for path in engine.CORPUS.iterdir()} <= TARGETS.keys()


def test_a_finding_is_made_small_and_saved(tmp_path: engine.Path) -> None:
    def check(data: bytes) -> None:
        assert b"\x00" not in data

    target = engine.Target("bytes", hypothesis.strategies.binary(max_size=50), check)
    search = engine.Search(target, variants=20)
    assert search.run(1, 500)
    assert search.found == b"\x00"
    assert engine.save(target, search.found, tmp_path).read_bytes() == b"\x00"
