"""`nri pod` for people without crictl, on the engine: images, events, ports, copies, descriptions."""

from __future__ import annotations

import json
from pathlib import Path

from tests.engine.registry import RegistryProcess
from tests.support.pod_tools import check_tools
from tests.support.pod_verbs import Verbs
from tools.runtimes.engine import Engine
from tools.runtimes.images import BUSYBOX


def test_the_verbs_of_kubectl_and_crictl_work_on_the_engine(verbs: Verbs, tmp_path: Path) -> None:
    check_tools(verbs, tmp_path, half_close=True)


def test_images_are_pulled_with_a_login_and_removed_by_name_by_id_and_if_unused(tmp_path: Path) -> None:
    engine = Engine(say=lambda _: None)
    try:
        with RegistryProcess(tmp_path / "registry", password=True) as registry:
            name = registry.push("team/app:1")
            with engine.settings.open("a") as settings:
                settings.write(f'[[images.registries]]\nhost = "{registry.host}"\ninsecure = true\n')
            engine.start()
            verbs = Verbs(engine.cri_socket, engine.run_dir.name, tmp_path)
            refused = verbs("pull", name)
            assert refused.returncode == 1 and f"image {name}: ".encode() in refused.stderr

            pulled = verbs("pull", name, "--creds", "me", "-o", "json", stdin=b"secret\n")
            assert pulled.returncode == 0, pulled.stderr
            assert json.loads(pulled.stdout)["image"] == name
            assert verbs("rmi", name).returncode == 0
            assert name.encode() not in verbs("images", "-o", "json").stdout

            verbs("pull", name, "--creds", "me:secret")
            row = json.loads(verbs("images", name, "-o", "json").stdout)[0]
            removed = verbs("rmi", row["id"].removeprefix("sha256:")[:13])
            assert removed.returncode == 0, removed.stderr
            assert row["id"].encode() not in verbs("images", "-q").stdout

            verbs("rmi", "--prune")
            assert BUSYBOX.encode() not in verbs("images", "-o", "json").stdout
    finally:
        engine.close()
