"""Files of these tests, in a folder of their own that is the present one."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def put(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return name

    return put
