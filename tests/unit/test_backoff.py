"""The delays between restarts."""

from hypothesis import given
from hypothesis import strategies as st

from nri.backoff import Backoff
from tests.support.clock import Clock


def run(backoff: Backoff, clock: Clock, seconds: float) -> float:
    backoff.started()
    clock.now += seconds
    return backoff.ended()


def test_the_ceiling_doubles_from_one_second_to_thirty():
    clock = Clock(0.0)
    backoff = Backoff(clock=clock, uniform=lambda: 1.0)
    assert [run(backoff, clock, 0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_good_run_resets_the_failures():
    clock = Clock(0.0)
    backoff = Backoff(clock=clock, uniform=lambda: 1.0, good_run_s=60)
    for _ in range(6):
        run(backoff, clock, 1)
    assert run(backoff, clock, 60) == 1.0
    assert not backoff.crash_loop


def test_a_run_just_short_of_good_counts_as_a_failure():
    clock = Clock(0.0)
    backoff = Backoff(clock=clock, uniform=lambda: 1.0, good_run_s=60)
    run(backoff, clock, 59.9)
    assert run(backoff, clock, 59.9) == 2.0


def test_five_short_runs_are_a_crash_loop():
    clock = Clock(0.0)
    backoff = Backoff(clock=clock)
    calls = []
    for _ in range(6):
        run(backoff, clock, 1)
        calls.append(backoff.crash_loop)
    assert calls == [False, False, False, False, True, True]


def test_a_failed_start_counts_as_a_failure():
    backoff = Backoff(uniform=lambda: 1.0)
    assert [backoff.ended(), backoff.ended()] == [1.0, 2.0]


def test_delays_are_drawn_at_random():
    assert len({Backoff().ended() for _ in range(20)}) > 1


def test_reset_starts_from_the_first_delay():
    backoff = Backoff(uniform=lambda: 1.0, crash_loop_failures=2)
    for _ in range(4):
        backoff.ended()
    backoff.reset()
    assert (backoff.crash_loop, backoff.ended()) == (False, 1.0)


@given(st.lists(st.floats(0, 0.999999), max_size=40), st.integers(0, 5000))
def test_a_delay_is_never_negative_nor_above_its_ceiling(draws, failures):
    values = iter([*draws, 0.5])
    backoff = Backoff(uniform=lambda: next(values))
    backoff.failures = failures
    for _ in draws:
        ceiling = backoff.ceiling_s
        assert 0 <= backoff.ended() <= ceiling <= 30, "jitter must stay between zero and the ceiling"


@given(st.lists(st.floats(0, 200), max_size=40))
def test_the_count_has_the_failures_since_the_last_good_run(runs):
    clock = Clock(0.0)
    backoff = Backoff(clock=clock)
    expected = 0
    for seconds in runs:
        before = clock.now
        run(backoff, clock, seconds)
        expected = 1 if clock.now - before >= 60 else expected + 1
        assert backoff.failures == expected
