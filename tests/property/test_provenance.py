"""The history of a container for any plugin answers: it equals the merge, without gaps."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.audit.diff import Spot, value_at
from nri.adaptation.audit.explanation import explain
from nri.adaptation.audit.record import Record
from nri.adaptation.audit.shadow import report
from nri.adaptation.merge import CreateMerge
from nri.api import messages as m
from nri.api.fields import ROWS, Kind, Visibility
from nri.errors import NriError
from nri.rules import Rules
from tests.property.merge_messages import containers, create_replies, rules

BY_NAME = {row.label: row for row in ROWS}
REPLIES = st.lists(create_replies(), min_size=1, max_size=4)


def run(container: m.Container, replies: list[Any], which: Rules) -> tuple[CreateMerge, Record]:
    """Merge the replies up to the first that fails, and what is recorded of that."""
    for reply in replies:  # a name that contains "=" looks like another name with a value
        remaining = [pair for pair in reply.adjust.env if "=" not in pair.key]
        del reply.adjust.env[:]
        reply.adjust.env.extend(remaining)
    request = m.CreateContainerRequest(container=container)
    state = CreateMerge(request, which)
    accepted, failed = [], ""
    for place, reply in enumerate(replies):
        accepted.append((f"{place}0-p", reply.SerializeToString()))
        try:
            state.apply(f"{place}0-p", reply)
        except NriError as error:
            failed = str(error)
            break
    return state, Record(0.0, "CreateContainer", container.id, request.SerializeToString(), accepted, failed)


def shown(row: Any, which: Rules) -> bool:
    return row.shown is Visibility.ALWAYS or (row.shown is Visibility.BY_RULE and which.later_plugins_see_all)


@given(containers(), REPLIES, rules())
def test_the_history_of_every_value_leads_from_the_request_to_the_result(
    container: m.Container, replies: list[Any], which: Rules
) -> None:
    state, record = run(container, replies, which)
    explanation = explain(container.id, [record], rules=which)
    if record.failed:
        return
    assert explanation.notes == [], "an event that went well could not be worked out"
    now: dict[Spot, Any] = {}
    for step in explanation.steps:
        row = BY_NAME[step.change.field]
        spot = Spot(row, step.change.key)
        if shown(row, which) and row.kind is not Kind.RESET:
            assert step.change.before == now.get(spot, value_at(container, spot)), f"{spot} has a gap in its chain"
            now[spot] = step.change.after
    for spot, value in now.items():
        assert value == value_at(state.container, spot), f"{spot} is not what the merge made of it"


@given(containers(), REPLIES, rules())
def test_every_history_is_valid_json_and_a_table(container: m.Container, replies: list[Any], which: Rules) -> None:
    _, record = run(container, replies, which)
    explanation = explain(container.id, [record], rules=which)
    json.dumps(explanation.to_json())
    assert all(len(row) == 8 for row in explanation.rows())


@given(containers(), REPLIES, rules())
def test_a_failed_event_is_marked_as_not_applied(container: m.Container, replies: list[Any], which: Rules) -> None:
    _, record = run(container, replies, which)
    explanation = explain(container.id, [record], rules=which)
    if record.failed:
        assert all(step.note for step in explanation.steps), "a change that was never applied looks as if it was"
        assert explanation.steps or explanation.notes or explanation.refused


@given(containers(), REPLIES)
def test_any_reply_of_a_shadow_plugin_can_be_described(container: m.Container, replies: list[Any]) -> None:
    *earlier, last = replies
    state, _ = run(container, earlier, Rules.DEFAULT)
    created = report("90-s", "CreateContainer", m.PodSandbox(), state.container, last, ledger=state.ledger)
    json.dumps(created.to_json())
    assert str(created).startswith("shadow plugin 90-s at CreateContainer")
