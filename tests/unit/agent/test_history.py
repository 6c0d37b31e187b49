"""The history of decisions: the newest value of each field by pod, with limits."""

from __future__ import annotations

import json

from nri.agent.history import History
from nri.agent.model import Subject
from nri.host import Outcome, Result
from tests.support.clock import Clock

WEB = Subject("uid-1", "shop", "web")
APP = Subject("uid-1", "shop", "web", "app")


def test_the_newest_value_is_stored_with_its_hook_and_reason() -> None:
    clock = Clock(5.0)
    history = History(now=clock)
    history.decided(APP, "PreCreateContainer", "nri", [("cpuset", "0-3", "CPUSetAllocator", "all share pools")])
    clock.now = 6.0
    history.decided(APP, "PreUpdateContainerResources", "nri", [("cpuset", "0-1", "CPUSetAllocator", "its own")])
    account = history.account("shop/web")
    assert account is not None
    assert account["values"] == [
        {
            "container": "app",
            "field": "cpuset",
            "value": "0-1",
            "hook": "CPUSetAllocator",
            "reason": "its own",
            "stage": "PreUpdateContainerResources",
            "transport": "nri",
            "at": 6.0,
        }
    ]


def test_the_outcome_of_a_write_is_shown_with_the_value() -> None:
    history = History(now=Clock())
    history.record(APP, "nri", [Result("pods/a", "cpuset.cpus", frozenset({0, 1}), Outcome.GONE, "no cgroup")])
    history.record(APP, "nri", [Result("pods/a", "cpuset.cpus", frozenset({0, 1}), Outcome.APPLIED)])
    account = history.account("uid-1")
    assert account is not None
    assert [(row["wanted"], row["outcome"]) for row in account["writes"]] == [("0,1", "applied")]
    json.dumps(account)


def test_a_later_identical_round_does_not_change_the_time() -> None:
    clock = Clock(5.0)
    history = History(now=clock)
    for transport, outcome in (("nri", Outcome.APPLIED), ("standalone", Outcome.UNCHANGED)):
        history.decided(APP, "PreCreateContainer", transport, [("cpuset", "0-3", "CPUSetAllocator", "all")])
        history.record(APP, transport, [Result("/pods/a", "cpu.shares", 2, outcome)])
        clock.now += 1
    account = history.account("web")
    assert account is not None
    assert [(row["transport"], row["at"]) for row in account["values"]] == [("nri", 5.0)]
    assert [(row["transport"], row["outcome"], row["at"]) for row in account["writes"]] == [("nri", "applied", 5.0)]
    history.record(APP, "standalone", [Result("pods/a", "cpu.shares", 2, Outcome.REFUSED, "no")])
    account = history.account("web")
    assert account is not None
    assert [row["outcome"] for row in account["writes"]] == ["refused"]


def test_a_repeated_error_is_stored_once() -> None:
    history = History(now=Clock())
    for _ in range(5):
        history.failed(WEB, "PreRunPodSandbox", "nri", [("BatchResource", "not JSON")])
    history.failed(WEB, "PreRunPodSandbox", "nri", [])
    history.failed(APP, "PreCreateContainer", "nri", [], ["BatchResource"])
    history.failed(WEB, "PreRunPodSandbox", "nri", [], ["CPUSetAllocator"])
    account = history.account("web")
    assert account is not None
    assert [row["reason"] for row in account["errors"]] == ["not JSON"]


def test_an_error_ends_when_its_hook_runs_without_failure() -> None:
    history = History(now=Clock())
    bad = [("BatchResource", "not JSON"), ("CPUSetAllocator", "no CPUs")]
    history.failed(WEB, "PreRunPodSandbox", "nri", bad)
    history.failed(WEB, "ReconcilePod", "standalone", [("CPUSetAllocator", "other CPUs")], [name for name, _ in bad])
    account = history.account("web")
    assert account is not None
    assert [(row["hook"], row["reason"]) for row in account["errors"]] == [("CPUSetAllocator", "other CPUs")]
    history.failed(Subject("unknown"), "ReconcilePod", "standalone", [], ["BatchResource"])
    assert history.account("unknown") is None


def test_a_name_of_two_pods_requires_the_namespace() -> None:
    history = History(now=Clock())
    for key, namespace in (("1", "a"), ("2", "b")):
        history.failed(Subject(key, namespace, "web"), "s", "nri", [("h", "r")])
    assert history.account("web") is None
    assert history.account("a/web") is not None
    history.ended("1")
    account = history.account("web")
    assert account is not None, "one runs, one has ended"
    assert account["key"] == "2"


def test_of_two_pods_with_the_same_full_name_the_name_means_the_newer_one() -> None:
    history = History(now=Clock())
    for key in ("1", "2"):
        history.failed(Subject(key, "a", "web"), "s", "proxy", [("h", "r")])
    account = history.account("web")
    assert account is not None
    assert (account["key"], history.running_pods("web")) == ("2", ["a/web"])


def test_a_recreated_pod_is_found_by_its_name() -> None:
    history = History(now=Clock())
    for key in ("old", "new"):
        history.failed(Subject(key, "a", "web"), "s", "nri", [("h", "r")])
    account = history.account("a/web")
    assert account is not None
    assert account["key"] == "new"


def test_the_oldest_pod_is_dropped_and_ended_pods_first() -> None:
    history = History(most_pods=2, now=Clock())
    for key in ("1", "2"):
        history.failed(Subject(key, "a", key), "s", "nri", [("h", "r")])
    history.ended("2")
    history.failed(Subject("3", "a", "3"), "s", "nri", [("h", "r")])
    assert [row["key"] for row in history.pods()] == ["1", "3"]
    history.ended("unknown")


def test_the_size_of_the_history_is_limited() -> None:
    history = History(most_pods=10_000, most_bytes=200_000, now=Clock())
    for number in range(500):
        pod = Subject(str(number), "n" * 10_000, "m" * 10_000)
        history.decided(pod, "s", "nri", [(f"env.{n}", "x" * 100_000, "h", "y" * 100_000) for n in range(5)])
        history.record(pod, "nri", [Result("t", f"k{n}", "z" * 100_000, Outcome.REFUSED, "r" * 9999) for n in range(5)])
    assert history.size <= 200_000
    assert 0 < len(history) < 60


def test_the_number_of_values_per_pod_is_limited() -> None:
    history = History(now=Clock())
    history.decided(WEB, "s", "nri", [(f"env.{n}", n, "h", "r") for n in range(1000)])
    history.record(WEB, "nri", [Result("t", f"k{n}", n, Outcome.APPLIED) for n in range(1000)])
    account = history.account("web")
    assert account is not None
    assert (len(account["values"]), len(account["writes"])) == (256, 256)
    assert account["values"][-1]["value"] == "999"


def test_an_empty_decision_creates_no_pod() -> None:
    history = History(now=Clock())
    history.decided(WEB, "s", "nri", [])
    history.record(WEB, "nri", [])
    assert len(history) == 0
    assert history.account("web") is None


def test_long_names_of_pods_and_containers_are_limited() -> None:
    history, long = History(most_bytes=100_000, now=Clock()), "x" * 100_000
    for number in range(50):
        subject = Subject(f"{number}{long}", long, long, f"c{number}{long}")
        history.decided(subject, "loop", "nri", [(f"env.{number}{long}", "1", "GPUEnvInject", "why")])
        history.record(subject, "nri", [Result(f"{number}/{long}", long, 1, Outcome.APPLIED)])
        history.failed(subject, "loop", "nri", [("GPUEnvInject", long)])
    account = history.account(history.pods()[-1]["key"])
    assert account is not None and len(json.dumps(account)) < 20_000
    assert history.size < 100_000 and len(history) < 50
    history.ended(f"49{long}")
    assert history.pods()[0]["ended"]
