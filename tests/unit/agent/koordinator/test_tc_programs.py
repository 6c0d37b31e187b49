"""Plans applied by fake programs, and by this machine's programs in a separate network namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nri.agent.koordinator import tc_programs as shaper
from nri.agent.koordinator.tc_programs import Shaper, default_interface
from nri.host import Outcome, Root, Unsupported
from tests.support.clock import Clock
from tests.support.host_trees import write_files
from tests.support.needs import need_machine, need_root, need_tool
from tests.support.standalone_world import Programs
from tests.unit.agent.koordinator.test_tc import plan


def make_shaper(programs: Programs, clock: Clock | None = None) -> Shaper:
    return Shaper(programs, lambda *_: None, clock or Clock())


def words(programs: Programs, *first: str) -> list[list[str]]:
    return [argv for argv, _ in programs.calls if argv[: len(first)] == list(first)]


def test_an_applied_plan_is_only_checked_until_the_plan_or_the_minute_changes() -> None:
    programs, clock = Programs(), Clock()
    shaper = make_shaper(programs, clock)
    assert {entry.outcome for entry in shaper.apply(plan(True))} == {Outcome.APPLIED}
    programs.calls.clear()
    programs.classes = "".join(f"class htb 1:{minor}\n" for minor in ("1", "2", "3", "4", "10"))
    assert {entry.outcome for entry in shaper.apply(plan(True))} == {Outcome.UNCHANGED}
    assert not words(programs, "tc", "class", "replace") and not words(programs, "iptables-restore")
    shaper.apply(plan(True)._replace(pods=()))
    assert words(programs, "iptables-restore") and words(programs, "tc", "class", "del") == [
        ["tc", "class", "del", "dev", "eth0", "classid", "1:10"]
    ]
    programs.calls.clear()
    clock.now += 60
    shaper.apply(plan(True)._replace(pods=()))
    assert words(programs, "tc", "class", "replace")


def test_a_removed_class_is_created_again() -> None:
    programs = Programs()
    shaper = make_shaper(programs)
    shaper.apply(plan(True))
    programs.calls.clear()
    shaper.apply(plan(True))
    assert len(words(programs, "tc", "class", "replace")) == 5


def test_a_foreign_queueing_discipline_is_kept_and_reported() -> None:
    programs = Programs()
    programs.discipline = '[{"kind":"cake","handle":"8001:","root":true}]'
    (result,) = make_shaper(programs).apply(plan(True))
    assert (result.outcome, result.reason) == (
        Outcome.REFUSED,
        "the interface has a queueing discipline of another program: cake 8001:",
    )
    assert len(programs.calls) == 1


def test_missing_programs_are_unsupported_with_their_names() -> None:
    shaper = Shaper(Programs(), lambda *names: Unsupported(f"{names[0]}: not installed"))
    (result,) = shaper.apply(plan(True))
    assert (result.outcome, result.reason) == (Outcome.UNSUPPORTED, "tc: not installed")
    assert shaper.clear("eth0") == []


def test_the_interface_is_that_of_the_best_default_route(tmp_path: Path) -> None:
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    rows = (
        "eth1 00000000 0200090A 0003 0 0 200 00000000 0 0 0\neth0 00000000 0200090A 0003 0 0 100 00000000 0 0 0\n"
        "tun0 0000090A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
    )
    assert default_interface(write_files(tmp_path, {"proc/net/route": head + rows})) == "eth0"
    assert default_interface(Root(tmp_path / "nowhere")) == ""


IN_A_NETWORK = """
import json, subprocess, sys
from nri.agent.koordinator import tc_programs as shaper
from nri.agent.koordinator.tc_programs import Shaper
from nri.agent.koordinator.tc_programs import default_interface
from nri.host import Root
from tests.unit.agent.koordinator.test_tc import plan

def sh(text):
    return subprocess.run(text, shell=True, capture_output=True, text=True).stdout

sh("ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up;"
   "ip addr add 10.9.0.1/24 dev v0; ip route add default via 10.9.0.2 dev v0")
shaper = Shaper()
wanted = plan(shaper.has_sets)._replace(interface=default_interface(Root("/")), total=100_000_000)
found = {"interface": wanted.interface, "sets": shaper.has_sets}
found["results"] = [[r.name, str(r.wanted), r.outcome.value, r.reason] for r in shaper.apply(wanted)]
found["classes"] = sh("tc class show dev v0")
found["chain"] = sh("iptables -t mangle -S")
fewer = wanted._replace(pods=wanted.pods[:1])
shaper.apply(fewer)
found["fewer"] = sh("tc class show dev v0")
found["fewer_chain"] = sh("iptables -t mangle -S NRI-NETQOS")
sh("tc class del dev v0 classid 1:4; iptables -t mangle -D POSTROUTING -j NRI-NETQOS")
shaper.apply(fewer)
found["again"] = sh("tc class show dev v0") + sh("iptables -t mangle -S POSTROUTING")
found["cleared"] = [r.outcome.value for r in Shaper().clear("v0")]
found["after"] = sh("tc -j qdisc show dev v0") + sh("iptables -t mangle -S")
print(json.dumps(found))
"""


def test_real_programs_create_and_remove_classes_in_a_network_namespace() -> None:
    need_root()
    for program in ("tc", "iptables", "ip", "unshare"):
        need_tool(program)
    probe = "ip link add v0 type veth peer name v1 && tc qdisc add dev v0 root handle 1: htb && iptables -t mangle -S"
    able = subprocess.run(["unshare", "-n", "sh", "-c", probe], capture_output=True, check=False).returncode == 0
    need_machine(able, "kernel with veth, htb and iptables in a network namespace")
    process = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", IN_A_NETWORK], capture_output=True, text=True, check=False, timeout=60
    )
    assert process.returncode == 0, process.stderr
    document = json.loads(process.stdout)
    assert document["interface"] == "v0"
    bad = [row for row in document["results"] if row[2] not in ("applied", "unchanged", "unsupported")]
    assert not bad
    assert all(name == "tc.filter" for name, _, outcome, _ in document["results"] if outcome == "unsupported")
    for minor in ("1:1 root", "1:2 parent 1:1", "1:3 parent 1:1", "1:4 parent 1:1", "1:10 parent 1:1"):
        assert f"class htb {minor}" in document["classes"]
    assert "-A POSTROUTING -j NRI-NETQOS" in document["chain"]
    assert "-A NRI-NETQOS -s 10.0.0.2/32 -j CLASSIFY --set-class 0001:0010" in document["chain"]
    if not document["sets"]:
        assert "-A NRI-NETQOS -s 10.0.0.1/32 -j CLASSIFY --set-class 0001:0003" in document["chain"]
    assert "1:10 " not in document["fewer"] and "10.0.0.2" not in document["fewer_chain"]
    assert "class htb 1:4" in document["again"] and "-A POSTROUTING -j NRI-NETQOS" in document["again"]
    assert set(document["cleared"]) == {"applied"}
    assert "htb" not in document["after"] and "NRI-NETQOS" not in document["after"]
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(["ip", "link", "show", "v0"], capture_output=True, check=True)


def test_a_program_is_run_with_its_arguments_and_input_without_a_shell() -> None:
    assert shaper.run(["cat"], "a $HOME\n") == shaper.ProgramResult(0, "a $HOME\n", "")
    assert shaper.run(["echo", "; false `id`"]).out == "; false `id`\n"


def test_a_program_that_cannot_run_or_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shaper.run(["no-such-program"]).error.startswith("no-such-program: No such file")
    failed = shaper.run(["sh", "-c", "printf 'bad\\033' >&2; exit 3"])
    assert (failed.code, failed.error) == (3, "bad\\x1b")
    monkeypatch.setattr(shaper, "TIMEOUT_S", 0.1)
    assert shaper.run(["sleep", "60"]) == shaper.ProgramResult(-1, "", "sleep did not end within 0.1 s")


def test_missing_programs_are_named() -> None:
    assert shaper.missing("sh") is None
    assert shaper.missing("sh", "no-such-program", "nor-this") == Unsupported(
        "no-such-program and nor-this: not installed"
    )
