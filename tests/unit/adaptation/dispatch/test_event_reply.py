"""Order of replies: sequence numbers decide which of two replies is the later one."""

from __future__ import annotations

import itertools

import nri
from nri.adaptation.dispatch.reply import EventReply
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


def number(reply: EventReply, container_id: str, field: str) -> int:
    """The place of one field of a reply's updates in the order of answers."""
    (update,) = [entry for entry in reply.updates if entry.container_id == container_id]
    return reply.updates.numbers(update).number(field)


def test_a_later_request_of_a_plugin_has_the_greater_number(nri_runtime: FakeRuntime) -> None:
    shares = itertools.count(10)
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    nri_runtime.add(
        plugin(
            "a",
            create_container=lambda *_: (None, [nri.Update("other").set_cpu_shares(next(shares))]),
            stop_container=lambda *_: nri.Update("other").set_cpu_shares(next(shares)),
            update_container=lambda *_: nri.Update("c").set_cpu_shares(next(shares)),
        )
    )
    adaptation, pod, container = nri_runtime.adaptation, make_pod(), make_container(id="c")
    created = adaptation.create_container(pod, container)
    changed = adaptation.update_container(pod, container, m.LinuxResources())
    stopped = adaptation.stop_container(pod, container)
    first, last = (number(entry, "other", "cpu.shares") for entry in (created, stopped))
    assert 0 < first < changed.numbers.number("cpu.shares") < last


def test_a_field_has_the_sequence_number_of_the_plugin_that_set_it(nri_runtime: FakeRuntime) -> None:
    """Otherwise a field by B in an answer of A and B would count as older than B's requests between the two."""
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    nri_runtime.add(plugin("a", stop_container=lambda *_: nri.Update("other").set_cpu_shares(5)), "10")
    nri_runtime.add(plugin("b", stop_container=lambda *_: nri.Update("other").set_cpu_quota(6000)), "20")
    reply = nri_runtime.adaptation.stop_container(make_pod(), make_container(id="c"))
    assert 0 < number(reply, "other", "cpu.shares") < number(reply, "other", "cpu.quota")


def test_the_runtimes_request_is_not_later_than_the_first_answer(nri_runtime: FakeRuntime) -> None:
    for index in ("10", "20"):
        nri_runtime.add(plugin("a", update_container=lambda *_: None), index)
    resources = nri.Update("c").set_cpu_shares(5).set_cpu_quota(6000).resources
    nri_runtime.add(plugin("b", update_container=lambda *_: nri.Update("c").set_cpu_quota(7000)), "30")
    reply = nri_runtime.adaptation.update_container(make_pod(), make_container(id="c"), resources)
    assert 0 < reply.numbers.number("cpu.shares") < reply.numbers.number("cpu.quota")


def test_an_update_without_answers_has_one_number_in_reply_and_history(nri_runtime: FakeRuntime) -> None:
    """Otherwise `nri why` would swap two updates if the later one waited for plugins."""
    resources = nri.Update("c").set_cpu_shares(5).resources
    before = nri_runtime.adaptation.update_container(make_pod(), make_container(id="other"), resources)
    reply = nri_runtime.adaptation.update_container(make_pod(), make_container(id="c"), resources)
    assert before.numbers.number("cpu.shares") < reply.numbers.number("cpu.shares")
    provenance = nri_runtime.adaptation.provenance
    assert provenance is not None and provenance.explain("c") is not None
    (record,) = provenance.histories["c"].records
    assert record.numbers == {"": reply.numbers.number("cpu.shares")}
