"""Calls of skopeo, with a test program in its place."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest

from nri.engine.config import Registry
from nri.engine.images import RegistryRules
from nri.engine.images.credentials import Credentials
from nri.engine.images.transport import Progress, Transport, fatal_message, folder_bytes
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, NotFound


class Skopeo:
    """A program that records its arguments and runs the script of the test."""

    def __init__(self, folder: Path) -> None:
        self.path, self.said, self.pull = folder / "skopeo", folder / "words", folder / "pull"
        self.pull.mkdir()
        self.does("printf manifest")

    def does(self, script: str) -> None:
        self.path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.said}\n{script}\n')
        self.path.chmod(0o755)

    @property
    def words(self) -> list[str]:
        return self.said.read_text().splitlines()

    def transport(self, *registries: Registry, stall_s: float = 20.0) -> Transport:
        return Transport(str(self.path), RegistryRules(registries), stall_s=stall_s)


@pytest.fixture
def skopeo(tmp_path: Path) -> Skopeo:
    return Skopeo(tmp_path)


def test_a_manifest_is_returned_unchanged_and_anonymous_pulls_say_so(skopeo: Skopeo) -> None:
    assert skopeo.transport().manifest("quay.io/a:1", skopeo.pull) == b"manifest"
    assert "--no-creds" in skopeo.words
    assert skopeo.words[-1] == "docker://quay.io/a:1"


def test_credentials_are_in_a_private_temporary_file_and_not_in_arguments(skopeo: Skopeo) -> None:
    arguments_file = skopeo.pull / "kept"
    skopeo.does(f"stat -c %a {skopeo.pull}/auth.json > {arguments_file}")
    skopeo.transport().manifest("quay.io/a:1", skopeo.pull, Credentials("me", "secret"))
    assert "secret" not in " ".join(skopeo.words)
    assert arguments_file.read_text().strip() == "600"
    skopeo.does("exit 1")
    with pytest.raises(CommandFailed):
        skopeo.transport().copy("quay.io/a:1", skopeo.pull / "l", skopeo.pull, Credentials("me", "secret"))
    assert not (skopeo.pull / "auth.json").exists()


def test_certificates_and_insecurity_apply_only_to_their_registry(skopeo: Skopeo) -> None:
    skopeo.does(f"cp {skopeo.pull}/registries.conf {skopeo.pull}/kept")
    transport = skopeo.transport(Registry("own:5000", insecure=True, certificates="/certs", mirrors=("near",)))
    transport.copy("own:5000/a:1", skopeo.pull / "l", skopeo.pull)
    assert "--src-cert-dir=/certs" in skopeo.words
    row = tomllib.loads((skopeo.pull / "kept").read_text())["registry"][0]
    assert (row["insecure"], row["mirror"][0]["insecure"]) == (True, False)
    assert not [word for word in skopeo.words if "tls-verify" in word], "skopeo would apply it to mirrors, too"
    transport.copy("quay.io/a:1", skopeo.pull / "l", skopeo.pull)
    assert not [word for word in skopeo.words if "cert-dir" in word]


def test_each_path_of_a_host_gets_its_own_login_of_the_node(skopeo: Skopeo, tmp_path: Path) -> None:
    logins = {"r.example/mirror": {"auth": "bTp4"}, "r.example/own": {"auth": "bzp4"}}
    (tmp_path / "logins.json").write_text(json.dumps({"auths": logins}))
    rules = RegistryRules([Registry("quay.io", location="r.example/own", mirrors=("r.example/mirror",))])
    transport = Transport(str(skopeo.path), rules, credentials_file=str(tmp_path / "logins.json"))
    skopeo.does(f"cp {skopeo.pull}/auth.json {skopeo.pull}/kept")
    transport.manifest("quay.io/a:1", skopeo.pull)
    auths = json.loads((skopeo.pull / "kept").read_text())["auths"]
    assert auths == {f"{path}/a": login for path, login in logins.items()}


def test_an_archive_requires_no_credentials(skopeo: Skopeo) -> None:
    skopeo.transport().copy("oci-archive:/a.tar", skopeo.pull / "l", skopeo.pull)
    assert "oci-archive:/a.tar" in skopeo.words
    assert not [word for word in skopeo.words if "creds" in word]


@pytest.mark.parametrize("words", ["manifest unknown", "name unknown: x", "requested access to the resource is denied"])
def test_a_missing_image_is_distinguished_from_other_failures(skopeo: Skopeo, words: str) -> None:
    skopeo.does(f"echo 'level=fatal msg=\"reading: {words}\"' >&2; exit 1")
    with pytest.raises(NotFound, match=r"quay\.io/a:1"):
        skopeo.transport().manifest("quay.io/a:1", skopeo.pull)


def test_a_copy_reports_progress_and_end(skopeo: Skopeo) -> None:
    progress: list[Progress] = []
    skopeo.does(f"head -c 3000 /dev/zero > {skopeo.pull}/blob")
    skopeo.transport().copy("quay.io/a:1", skopeo.pull / "l", skopeo.pull, progress=progress.append, total_bytes=1000)
    assert progress[-1] == Progress(1000, 1000)
    skopeo.transport().copy("quay.io/a:1", skopeo.pull / "l", skopeo.pull, progress=progress.append)
    assert progress[-1].done_bytes >= 3000


def test_a_stalled_copy_is_ended(skopeo: Skopeo) -> None:
    skopeo.does("exec sleep 60")
    with pytest.raises(CommandTimeout, match="without progress"):
        skopeo.transport(stall_s=0.1).copy("quay.io/a:1", skopeo.pull / "l", skopeo.pull)


def test_the_size_of_a_folder_counts_links_as_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(b"x" * 10)
    assert folder_bytes(tmp_path) == 10
    (tmp_path / "c").symlink_to("a/b")
    assert folder_bytes(tmp_path) == 10 + len("a/b")
    assert stat.S_ISLNK((tmp_path / "c").lstat().st_mode)
    assert folder_bytes(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("text", "actual"),
    [
        (r'time="x" level=fatal msg="reading: \"a\"\n"', 'reading: "a"\n'),
        (r'level=fatal msg="bell \a, tab \v, far \U0001f600"', "bell \a, tab \v, far \U0001f600"),
        (r'level=fatal msg="half \ud800"', r"half \ud800"),
        (r'level=fatal msg="bytes \xff"', r"bytes \xff"),
        (r'level=fatal msg="none \U7fffffff"', r"none \U7fffffff"),
        (r'level=fatal msg="odd \q"', r"odd \q"),
        ("first\n  last line  \n\n", "last line"),
        ("", ""),
    ],
)
def test_messages_of_a_registry_are_read(text: str, actual: str) -> None:
    assert fatal_message(text) == actual


def test_the_progress_function_can_end_a_copy(skopeo: Skopeo) -> None:
    skopeo.does(f"head -c 3000 /dev/zero > {skopeo.pull}/blob; exec sleep 1000")

    def refuse(size_bytes: int) -> None:
        if size_bytes >= 3000:
            raise EngineError(f"{size_bytes} are too many")

    with pytest.raises(EngineError, match=r"\d{4} are too many"):
        skopeo.transport().copy("quay.io/a:1", skopeo.pull / "l", skopeo.pull, on_size=refuse)
