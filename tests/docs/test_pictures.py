"""The pictures of the pages are up to date, readable in light and dark, and have alternative texts."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools import generate_pictures
from tools.pictures import PICTURES
from tools.pictures.layers import WORDS, layers_of
from tools.pictures.svg import COLOURS, Picture

ROOT = Path(__file__).resolve().parents[2]
FILES = generate_pictures.drawn()
IMAGE = re.compile(r"!\[([^\]]*)\]\(((?:\.\./)*_static/pictures/[\w-]+\.svg)\)")


def shown() -> dict[Path, list[str]]:
    """Each picture's file, and the alternative texts that pages give it."""
    texts: dict[Path, list[str]] = {}
    for page in ROOT.glob("docs/**/*.md"):
        for alt, target in IMAGE.findall(page.read_text(encoding="utf-8")):
            texts.setdefault((page.parent / target).resolve(), []).append(" ".join(alt.split()))
    return texts


def test_the_files_are_up_to_date() -> None:
    assert sorted(generate_pictures.FOLDER.iterdir()) == sorted(FILES)
    stale = [path.name for path, text in FILES.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"{', '.join(stale)}: run python tools/generate_pictures.py"


def test_every_picture_is_on_a_page_with_its_alternative_text() -> None:
    expected = {generate_pictures.FOLDER / f"{name}.svg": draw().alt for name, draw in PICTURES.items()}
    assert {path: set(texts) for path, texts in shown().items()} == {path: {alt} for path, alt in expected.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_pictures_style_does_not_affect_the_page(path: Path) -> None:
    root = ET.fromstring(FILES[path])
    assert (root.get("class"), root.get("role")) == ("nri-picture", "img")
    assert not [part for part in root.iter() if part.get("id") or part.get("style")]
    style = root.findtext("{*}style") or ""
    rules = re.findall(r"([^{}]+)\{", style.replace("@media (prefers-color-scheme:dark){", ""))
    assert rules
    assert not [rule for rule in rules if ".nri-picture" not in rule], "a rule for more than the picture"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_picture_has_all_its_colours_in_light_and_dark(path: Path) -> None:
    root = ET.fromstring(FILES[path])
    used = {word for part in root.iter() for word in (part.get("class") or "").split()}
    style = root.findtext("{*}style") or ""
    assert not [word for word in used - {"nri-picture"} if f".{word}{{" not in style]
    for light, dark in COLOURS.values():
        assert (style.count(light) >= 2, style.count(dark) >= 2) == (True, True)
    attributes = {name for part in root.iter() for name in part.attrib}
    assert not attributes & {"fill", "stroke"}, "a colour that no theme can change"


def luminance(colour: str) -> float:
    """How bright a colour is, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_have_enough_contrast(dark: bool) -> None:
    behind = [name for name in COLOURS if name == "paper" or name.endswith("-fill")]
    words = [(name, back) for name in ("ink", "soft") for back in behind]
    words += [(name.removesuffix("-fill"), back) for name in behind if name != "paper" for back in (name, "paper")]
    for name, back in words:
        if name == "plain":
            continue  # edges and lines only
        bright, dim = sorted((luminance(COLOURS[name][dark]), luminance(COLOURS[back][dark])), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, f"{name} on {back}"


def test_words_that_do_not_fit_are_an_error() -> None:
    picture = Picture(200, 100, "a test")
    with pytest.raises(ValueError, match="does not fit"):
        picture.box((10, 10, 60, 30), "a long sentence")
    with pytest.raises(ValueError, match="does not fit"):
        picture.words(100, 50, "leaves the picture")
    with pytest.raises(ValueError, match="need"):
        picture.box((10, 10, 100, 30), ["a", "b", "c"])


def test_every_layer_has_a_description() -> None:
    assert set(WORDS) == {name for row in layers_of("nri") for name in row}
