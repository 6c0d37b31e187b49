"""Words for tc, ipset and iptables."""

from __future__ import annotations

from nri.agent.koordinator.tc import TrafficClass
from nri.agent.koordinator.traffic.plan import Plan, Traffic, minors, own_minors

CLASSES = (TrafficClass(2, 400, 1000, 1), TrafficClass(3, 300, 1000, 2), TrafficClass(4, 300, 1000, 3))
PODS = (
    Traffic("a", 3, 2, ("10.0.0.1",)),
    Traffic("b", 4, 3, ("10.0.0.2", "10.0.0.3"), limit=80, own_minor=0x10),
    Traffic("host", 3, 2),
)


def plan(with_sets: bool) -> Plan:
    return Plan("eth0", 1000, CLASSES, PODS, with_sets)


def test_classes_come_from_the_root_down_and_a_pod_with_a_limit_has_its_own() -> None:
    lines = {minor: " ".join(words) for minor, words in plan(True).class_lines()}
    assert list(lines) == [1, 2, 3, 4, 0x10]
    assert lines[1] == "class replace dev eth0 parent 1: classid 1:1 htb rate 1000bit ceil 1000bit prio 0"
    assert lines[3] == "class replace dev eth0 parent 1:1 classid 1:3 htb rate 300bit ceil 1000bit prio 2"
    assert lines[0x10] == "class replace dev eth0 parent 1:1 classid 1:10 htb rate 80bit ceil 80bit prio 3"


def test_a_limit_above_the_nodes_is_the_nodes_and_none_is_nothing() -> None:
    big = plan(True)._replace(pods=(Traffic("a", 3, 2, limit=5000, own_minor=0x11),))
    assert ("rate 1000bit ceil 1000bit") in " ".join(dict(big.class_lines())[0x11])


def test_addresses_are_in_sets_or_each_is_a_rule() -> None:
    assert "add nri_netqos_ls_new 10.0.0.1 -exist\nswap nri_netqos_ls nri_netqos_ls_new" in plan(True).sets()
    assert "10.0.0.2" not in plan(True).sets()
    with_sets, without = plan(True).chain().splitlines(), plan(False).chain().splitlines()
    assert "-A NRI-NETQOS -m set --match-set nri_netqos_be src -j CLASSIFY --set-class 1:4" in with_sets
    own = "-A NRI-NETQOS -s 10.0.0.3/32 -j CLASSIFY --set-class 1:10"
    assert own in with_sets and own in without
    assert "-A NRI-NETQOS -s 10.0.0.1/32 -j CLASSIFY --set-class 1:3" in without
    assert without[:2] == ["*mangle", ":NRI-NETQOS - [0:0]"] and without[-1] == "COMMIT"


def test_classes_are_read_back_exactly() -> None:
    text = "class htb 1:3 parent 1:1 prio 2 rate 35Mbit\nclass htb 1:30 root\nclass fq 5:3 root\n\nclass htb\n"
    assert minors(text) == {0x3, 0x30}


def test_pods_have_classes_of_their_own_that_a_restart_gives_again() -> None:
    uids = [f"uid-{number}" for number in range(3000)]
    given = own_minors(uids)
    assert len(set(given.values())) == 3000
    assert min(given.values()) >= 0x10 and max(given.values()) < 0xFFFF
    assert own_minors(reversed(uids)) == given
    assert own_minors(uids[:1])[uids[0]] == given[uids[0]]
