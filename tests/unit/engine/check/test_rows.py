"""A row of the examination."""

from nri.engine.check import Check


def test_a_row_needs_a_next_step_only_where_something_is_to_be_done() -> None:
    assert Check("conmon", "ok", "2.1.6").next == ""
