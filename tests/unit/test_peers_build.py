"""tests/peers/build.py: cache keys and the errors of failed builds."""

import sys
from pathlib import Path

import pytest

from tests.peers import build
from tests.peers.build import PEERS, BuildError, Module


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """A module whose compiler is Python: it copies the source and counts its runs."""
    monkeypatch.setenv("NRI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "ROOT", tmp_path)
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "main.go").write_text("one")
    compiler = (
        "import pathlib, sys;"
        "pathlib.Path('runs').open('a').write('x');"
        "source = pathlib.Path('main.go').read_text();"
        "sys.exit('no such thing') if source == 'bad' else pathlib.Path(sys.argv[1], 'program').write_text(source)"
    )
    return Module(
        tool="python",
        folder=folder,
        command=(sys.executable, "-c", compiler, "{out}"),
        programs=("program",),
        sources=(folder,),
        version=(sys.executable, "--version"),
    )


def runs(module: Module) -> int:
    return len((module.folder / "runs").read_text())


def test_a_second_call_builds_nothing(module: Module) -> None:
    first = build.build(module)
    assert (first / "program").read_text() == "one"
    assert build.build(module) == first
    assert runs(module) == 1, "the second call must be a look-up"


def test_a_changed_source_is_built_again(module: Module) -> None:
    first = build.build(module)
    (module.folder / "main.go").write_text("two")
    second = build.build(module)
    assert second != first
    assert (second / "program").read_text() == "two"


def test_a_failed_build_names_the_program_and_leaves_no_files(module: Module) -> None:
    (module.folder / "main.go").write_text("bad")
    with pytest.raises(BuildError, match=r"program does not build(.|\n)*no such thing"):
        build.build(module)
    remainder = [path.name for path in (build.cache_dir() / "peers").iterdir() if path.suffix != ".lock"]
    assert remainder == [], "half a build must not stay in the cache"


def test_the_sources_of_every_peer_exist() -> None:
    missing = [name for name, (module, _) in PEERS.items() if not module.folder.is_dir()]
    assert not missing, f"peers without a folder: {missing}"


def test_an_unknown_name_is_an_error_with_the_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["nonsense"]) == 2
    assert "refruntime" in capsys.readouterr().err
