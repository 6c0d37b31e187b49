"""The reader of the documentation's examples."""

from pathlib import Path

import pytest

from tests.support.pages import commands, output_matches, read_blocks

PAGE = """\
Text.

```python
a = 1
```

- In a list:

  ```console run
  $ nri version
  nri 1
  ```

````{tab} A directive
```python no-run: needs a cluster
b
```
````
"""


def test_blocks_are_found_in_text_in_lists_and_in_directives(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    found = [(block.line, block.language, block.action, block.text) for block in read_blocks(page)]

    assert found == [
        (3, "python", "", "a = 1\n"),
        (9, "console", "run", "$ nri version\nnri 1\n"),
        (15, "python", "no-run: needs a cluster", "b\n"),
    ]


def test_a_console_block_is_split_into_commands_and_their_output() -> None:
    assert commands("$ one \\\n    more\nout\n$ two\n") == [("one \\\n    more", "out\n"), ("two", "")]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("", "", True),
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n...\nz\n", "a\nb\n", False),
        ("nri ... (Python ...)\n", "nri 0.1 (Python 3.11)\n", True),
        ("1.5\n", "1x5\n", False),
    ],
)
def test_dots_stand_for_any_text(expected: str, actual: str, same: bool) -> None:
    assert output_matches(expected, actual) is same
