"""CNI plugins for a pod. Test programs record their calls."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.engine.network.cni import Cni
from nri.engine.network.configuration import Network
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, MissingTool
from tests.support.waiting import wait_for

PLUGIN = """#!/bin/sh
printf '%s %s ' "$CNI_COMMAND" "${0##*/}" >> "$LOG"
printf 'netns=%s interface=%s args=%s ' "$CNI_NETNS" "$CNI_IFNAME" "$CNI_ARGS" >> "$LOG"
cat >> "$LOG"
echo >> "$LOG"
[ -e "$FAIL.$CNI_COMMAND.${0##*/}" ] && { echo '{"code": 7, "msg": "no more", "details": "addresses"}'; exit 1; }
[ -e "$FAIL.odd" ] && [ "$CNI_COMMAND" = ADD ] && { echo '{"ips": [7]}'; exit 0; }
[ "$CNI_COMMAND" = ADD ] && echo '{"ips": [{"address": "10.0.0.2/24", "interface": 0}], "interfaces":
    [{"name": "eth0", "sandbox": "/x"}]}'
exit 0
"""


class World:
    """Two plugins, `first` and `second`, and a log of their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.namespace = folder / "netns"
        self.namespace.symlink_to("/proc/self/ns/net")
        (folder / "bin").mkdir()
        for name in ("first", "second"):
            text = PLUGIN.replace("$LOG", str(self.log)).replace("$FAIL", str(folder / "fail"))
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.cni = Cni([folder / "none", folder / "bin"], folder / "cache", timeout_s=20)

    def fail(self, command: str, plugin: str) -> None:
        Path(f"{self.folder}/fail.{command}.{plugin}").touch()

    def network(self, *types: str, **more: Any) -> Network:
        return Network("net", "1.0.0", tuple({"type": entry} for entry in types), **more)

    def add(self, *types: str) -> Any:
        return self.cni.add(
            [self.network(*types)], "p1", self.namespace, arguments={"K8S_POD_NAME": "web"}
        )  # fmt: skip

    def calls(self) -> list[str]:
        """Command and plugin of each call so far."""
        rows = self.log.read_text().splitlines() if self.log.exists() else []
        return [" ".join(row.split()[:2]) for row in rows]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_invalid_result_is_an_error_that_names_the_network_and_is_undone(world: World) -> None:
    Path(f"{world.folder}/fail.odd").touch()
    with pytest.raises(EngineError, match=r"network net: invalid result of its plugins: ips\[0\] is not an object"):
        world.add("first", "second")
    assert world.calls() == ["ADD first", "ADD second", "DEL second", "DEL first"]
    assert world.cni.attached() == []


def test_plugins_are_called_in_order_and_undone_in_reverse_order(world: World) -> None:
    attachment = world.add("first", "second")
    assert [*attachment.addresses] == ["10.0.0.2"]
    assert world.cni.attached() == ["p1"]
    world.cni.delete("p1")
    assert world.calls() == ["ADD first", "ADD second", "DEL second", "DEL first"]
    assert world.cni.attached() == []
    rows = world.log.read_text()
    assert "args=IgnoreUnknown=1;K8S_POD_NAME=web" in rows
    sent = json.loads(rows.splitlines()[1].partition("K8S_POD_NAME=web ")[2])
    assert sent["prevResult"]["ips"][0]["address"] == "10.0.0.2/24"


def test_a_pod_is_attached_to_several_networks_each_with_its_interface(world: World) -> None:
    second = Network("more", "1.0.0", ({"type": "second"},))
    attachment = world.cni.add([world.network("first"), second], "p1", world.namespace)
    assert [*attachment.addresses] == ["10.0.0.2"], "the pod has the addresses of its first network"
    world.cni.check("p1")
    Cni([world.folder / "bin"], world.folder / "cache").delete("p1")
    calls = [f"{command} {plugin}" for command in ("ADD", "CHECK", "DEL") for plugin in ("first", "second")]
    assert world.calls() == calls
    rows = world.log.read_text().splitlines()
    assert [row.split("interface=")[1].split()[0] for row in rows] == ["eth0", "eth1"] * 3
    assert [json.loads(row[row.index("{") :])["name"] for row in rows] == ["net", "more"] * 3
    assert "prevResult" not in rows[1], "each network has its own result"
    assert world.cni.attached() == []


def test_if_a_further_network_fails_all_are_undone(world: World) -> None:
    world.fail("ADD", "second")
    with pytest.raises(CommandFailed, match=r"more: second ADD"):
        world.cni.add([world.network("first"), Network("more", "1.0.0", ({"type": "second"},))], "p1", world.namespace)
    assert world.calls() == ["ADD first", "ADD second", "DEL first", "DEL second"]
    assert world.cni.attached() == []


def test_a_failed_attachment_is_undone(world: World) -> None:
    world.fail("ADD", "second")
    with pytest.raises(CommandFailed, match=r"net: second ADD: .*no more"):
        world.add("first", "second")
    assert world.calls() == ["ADD first", "ADD second", "DEL second", "DEL first"]
    assert world.cni.attached() == []


def test_a_failed_undo_is_repeated_at_the_removal(world: World) -> None:
    world.fail("ADD", "second")
    world.fail("DEL", "first")
    with pytest.raises(CommandFailed, match="second ADD"):
        world.add("first", "second")
    assert world.cni.attached() == ["p1"]
    with pytest.raises(CommandFailed, match="first DEL"):
        world.cni.delete("p1")
    Path(f"{world.folder}/fail.DEL.first").unlink()
    world.cni.delete("p1")
    assert world.cni.attached() == []


def test_if_several_plugins_fail_to_detach_the_first_is_named(world: World) -> None:
    world.add("first", "second")
    for name in ("first", "second"):
        world.fail("DEL", name)
    with pytest.raises(CommandFailed, match="second DEL"):
        world.cni.delete("p1")
    assert world.calls()[-2:] == ["DEL second", "DEL first"], "all are called"


def test_a_restart_detaches_with_the_old_configuration_without_a_namespace(
    world: World,
) -> None:
    world.add("first")
    world.namespace.unlink()
    Cni([world.folder / "bin"], world.folder / "cache").delete("p1")
    assert world.calls() == ["ADD first", "DEL first"]
    assert "netns= " in world.log.read_text().splitlines()[-1]


def test_detaching_an_unattached_pod_has_no_effect(world: World) -> None:
    world.cni.delete("p1")
    world.cni.check("p1")
    assert world.calls() == []


def test_a_check_calls_the_plugins_unless_disabled(world: World) -> None:
    world.add("first")
    world.cni.check("p1")
    assert world.calls()[-1] == "CHECK first"
    world.cni.delete("p1")
    world.cni.add([world.network("first", disable_check=True)], "p1", world.namespace)
    world.cni.check("p1")
    assert world.calls()[-1] == "ADD first"


def test_a_missing_program_is_an_error_with_the_folders(world: World) -> None:
    with pytest.raises(MissingTool, match=f"'bridge' is missing: .*{world.folder}/none, {world.folder}/bin"):
        world.add("bridge")


def test_a_result_that_is_not_json_is_an_error(world: World) -> None:
    (world.folder / "bin/second").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(EngineError, match="second ADD: the answer is not JSON"):
        world.add("second")


@pytest.mark.parametrize("identity", ["", "../a", ".a"])
def test_an_invalid_id_is_refused(world: World, identity: str) -> None:
    with pytest.raises(EngineError, match="not a pod's id"):
        world.cni.delete(identity)


@pytest.mark.parametrize("command", ["ADD", "DEL", "CHECK"])
def test_a_child_in_another_session_is_killed_with_a_slow_plugin(world: World, command: str) -> None:
    child, bad = world.folder / "child", world.folder / "bin/bad"
    bad.write_text(
        f"""#!/bin/sh
[ "$CNI_COMMAND" = {command} ] || {{ echo '{{"ips": []}}'; exit 0; }}
setsid sleep 300 &
echo $! > {child}
exec sleep 300
"""
    )
    bad.chmod(0o755)
    if command != "ADD":
        world.add("bad")
    world.cni.timeout_s = 3
    calls: dict[str, Callable[[], object]] = {
        "ADD": lambda: world.add("bad"),
        "DEL": lambda: world.cni.delete("p1"),
        "CHECK": lambda: world.cni.check("p1"),
    }
    with pytest.raises(CommandTimeout, match=f"network net: bad {command}: still running after 3 s"):
        calls[command]()
    stat = Path(f"/proc/{int(child.read_text())}/stat")
    if command == "CHECK":  # it may be what the pod needs
        os.kill(int(child.read_text()), signal.SIGKILL)
    wait_for(lambda: not stat.exists() or stat.read_text().split()[2] == "Z", "the end of the child")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILED: dict[str, Callable[[Path], object]] = {
    "half": lambda path: path.write_text("{"),
    "another table": lambda path: path.write_text('{"plugins": []}'),
    "plugins without a type": lambda path: path.write_text(path.read_text().replace('"type"', '"kind"')),
    "plugins that are none": lambda path: path.write_text(path.read_text().replace('"plugins": [', '"plugins": [7, ')),
    "a pipe": a_pipe,
    "a link": a_link,
    "a folder": a_folder,
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_an_unreadable_cached_result_does_not_fail_the_stop(
    world: World, spoiled: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.add("first")
    path = world.cni.cache / "p1.json"
    SPOILED[spoiled](path)
    with pytest.raises(EngineError, match=f"{path} cannot be read"):
        world.cni.check("p1")
    world.cni.delete("p1")
    assert (world.calls(), world.cni.attached()) == (["ADD first"], [])
    assert os.path.lexists(world.cni.cache / "broken/p1.json")
    assert "pod p1: its network is released without calling the CNI plugins" in caplog.text
    world.cni.delete("p1")
    world.add("first")
    world.cni.delete("p1")
    assert world.calls() == ["ADD first", "ADD first", "DEL first"]


def test_a_temporarily_unreadable_cached_result_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    world.add("first")
    with monkeypatch.context() as patch:
        patch.setattr("nri.engine.network.cni.read_regular", full)
        with pytest.raises(EngineError, match=r"p1\.json cannot be read: .*Too many open files"):
            world.cni.delete("p1")
    world.cni.delete("p1")
    assert world.calls() == ["ADD first", "DEL first"]
