"""registries.conf on a running engine: real pulls from a real registry, and a container from a short name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.registry import RegistryProcess
from tests.support.pod_verbs import Verbs
from tools.runtimes.engine import Engine

ABSENT = "registry.example.invalid"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "r") as process:
        process.push("team/app:1")
        yield process


class Conf:
    """The engine's registries.conf, and pulls with it."""

    def __init__(self, engine: Engine, verbs: Verbs, folder: Path) -> None:
        self._engine, self._verbs, self.path = engine, verbs, folder / "registries.conf"
        self._settings = engine.settings.read_text()
        self.path.touch()
        engine.settings.write_text(f'{self._settings}\n[images]\nregistries_conf = "{self.path}"\n')

    def close(self) -> None:
        self._engine.settings.write_text(self._settings)
        assert self._reload().returncode == 0

    def _reload(self) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "nri", "engine", "reload", "--cri-socket", str(self._engine.cri_socket)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    def write(self, text: str) -> subprocess.CompletedProcess[str]:
        """Write the file, and reload."""
        self.path.write_text(text)
        return self._reload()

    def pull(self, name: str) -> str:
        """Pull an image and remove it. Returns the name that it has on the node, or the error."""
        process = self._verbs("pull", name)
        if process.returncode:
            return process.stderr.decode()
        rows = json.loads(self._verbs("images", "-o", "json").stdout)
        names = [tag for row in rows for tag in row["repoTags"]]
        assert self._verbs("rmi", name).returncode == 0
        return next(row for row in names if "/app:" in row)


@pytest.fixture
def conf(engine: Engine, verbs: Verbs, tmp_path: Path) -> Iterator[Conf]:
    conf_ = Conf(engine, verbs, tmp_path)
    try:
        yield conf_
    finally:
        conf_.close()


def test_an_alias_and_the_registries_of_short_names_are_pulled(conf: Conf, registry: RegistryProcess) -> None:
    host = registry.host
    insecure = f'[[registry]]\nlocation = "{host}"\ninsecure = true\n'
    assert conf.write(f'{insecure}[aliases]\n"app" = "{host}/team/app"\n').returncode == 0
    assert conf.pull("app:1") == f"{host}/team/app:1"
    conf.write(f'unqualified-search-registries = ["{ABSENT}", "{host}"]\n{insecure}')
    assert conf.pull("team/app:1") == f"{host}/team/app:1"
    conf.write(f'unqualified-search-registries = ["{ABSENT}", "{host}"]\nshort-name-mode = "enforcing"\n{insecure}')
    assert f"can be in several registries ({ABSENT}, {host})" in conf.pull("team/app:1")


def test_an_error_of_unreachable_registries_begins_with_the_word_for_kubelets(conf: Conf) -> None:
    conf.write('unqualified-search-registries = ["localhost:1", "localhost:2"]')
    text = conf.pull("team/app:1")
    assert "RegistryUnavailable: image team/app:1 cannot be pulled from any registry" in text
    assert "localhost:1/team/app:1" in text and "localhost:2/team/app:1" in text


def test_rules_that_skopeo_would_refuse_are_an_error_of_the_reload(conf: Conf) -> None:
    rules = ("inner", True), (ABSENT, False)
    tables = [f'[[registry]]\nprefix = "{prefix}"\nlocation = "{ABSENT}"\ninsecure = {str(insecure).lower()}\n'
              for prefix, insecure in rules]  # fmt: skip
    result = conf.write("".join(tables))
    assert result.returncode == 1 and f'"inner" and "{ABSENT}" have one location' in result.stderr


def test_locations_mirrors_and_blocked_prefixes_count_after_a_reload(conf: Conf, registry: RegistryProcess) -> None:
    name = f"{ABSENT}/moved/app:1"
    location = f'[[registry]]\nprefix = "{ABSENT}/moved"\nlocation = "{registry.host}/team"\ninsecure = true\n'
    assert f"image {name}" in conf.pull(name)
    conf.write(location)
    assert conf.pull(name) == name
    mirror = (
        f'[[registry]]\nlocation = "{ABSENT}"\n[[registry.mirror]]\nlocation = "{registry.host}"\ninsecure = true\n'
    )
    conf.write(mirror)
    assert conf.pull(f"{ABSENT}/team/app:1") == f"{ABSENT}/team/app:1"
    conf.write(f'{mirror}[[registry]]\nlocation = "{ABSENT}/team"\nblocked = true\n')
    assert f"the registry {ABSENT}/team is blocked on this node" in conf.pull(f"{ABSENT}/team/app:1")


def test_an_invalid_file_changes_nothing(conf: Conf, registry: RegistryProcess) -> None:
    mirror = (
        f'[[registry]]\nlocation = "{ABSENT}"\n[[registry.mirror]]\nlocation = "{registry.host}"\ninsecure = true\n'
    )
    conf.write(mirror)
    result = conf.write(f'{mirror}[[registry]]\nlocation = "https://{ABSENT}"\n')
    assert (
        result.returncode == 1 and f"{conf.path}:" in result.stderr and "must not begin with a scheme" in result.stderr
    )
    assert conf.pull(f"{ABSENT}/team/app:1") == f"{ABSENT}/team/app:1"


def test_a_pod_runs_from_a_short_name(conf: Conf, registry: RegistryProcess, verbs: Verbs, tmp_path: Path) -> None:
    host = registry.host
    conf.write(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n[aliases]\n"app" = "{host}/team/app"\n')
    manifest = tmp_path / "pod.json"
    container = {"name": "c", "image": "app:1", "command": ["sleep", "1000"], "imagePullPolicy": "IfNotPresent"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "short"},
           "spec": {"hostNetwork": True, "containers": [container]}}  # fmt: skip
    manifest.write_text(json.dumps(pod))
    run = verbs("run", "-f", str(manifest))
    assert run.returncode == 0, run.stderr
    assert verbs("exec", "short", "echo", "alive").stdout == b"alive\n"
