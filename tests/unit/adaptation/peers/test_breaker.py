"""The circuit breaker of a plugin: opening, half-open trial and closing."""

from hypothesis import given
from hypothesis import strategies as st

from nri.adaptation.peers.breaker import Breaker, BreakerState


def opened(misses: int = 3, retry_s: float = 30.0) -> Breaker:
    breaker = Breaker(misses, retry_s)
    for _ in range(misses):
        breaker.miss(100.0)
    return breaker


def test_the_breaker_opens_at_the_last_consecutive_miss_and_reports_it_once():
    breaker = Breaker(misses=3)
    assert [breaker.miss(0.0) for _ in range(4)] == [False, False, True, False], "only the opening miss is news"
    assert breaker.state is BreakerState.OPEN


def test_an_answer_between_misses_keeps_the_breaker_closed():
    breaker = Breaker(misses=2)
    for _ in range(10):
        breaker.miss(0.0)
        breaker.answered()
    assert breaker.state is BreakerState.CLOSED


def test_an_open_breaker_admits_nothing_until_its_retry_time():
    breaker = opened(retry_s=30.0)
    assert not breaker.admit(129.9), "the plugin was called while its breaker was open"
    assert breaker.admit(130.0), "the plugin was not tried again"


def test_a_half_open_breaker_admits_only_one_request():
    breaker = opened()
    assert [breaker.admit(200.0), breaker.admit(200.0)] == [True, False]


def test_an_answered_trial_closes_the_breaker_and_forgets_the_misses():
    breaker = opened(misses=3)
    breaker.admit(200.0)
    breaker.answered()
    assert breaker.state is BreakerState.CLOSED
    assert not breaker.miss(201.0), "the misses from before the trial still count"


def test_a_missed_trial_opens_the_breaker_for_the_whole_retry_time():
    breaker = opened(retry_s=30.0)
    breaker.admit(200.0)
    assert breaker.miss(202.0) is False, "a plugin that stays silent is not news"
    assert not breaker.admit(231.9)
    assert breaker.admit(232.0)


def test_an_abandoned_trial_counts_neither_as_an_answer_nor_as_a_miss():
    breaker = opened()
    breaker.admit(200.0)
    breaker.abandoned()
    assert breaker.admit(200.0), "the next request must be the trial"


def test_an_answer_to_an_earlier_request_keeps_the_breaker_open():
    breaker = opened()
    assert not breaker.answered()
    assert not breaker.admit(129.0)


def test_a_new_connection_closes_the_breaker():
    breaker = opened()
    breaker.reconnected()
    assert breaker.admit(100.0)


def test_zero_misses_disable_the_breaker():
    breaker = Breaker(misses=0)
    assert not any(breaker.miss(0.0) for _ in range(100))
    assert breaker.admit(0.0)


def test_disabling_an_open_breaker_closes_it():
    breaker = opened()
    breaker.configure(0, 30.0)
    assert breaker.admit(100.0)


steps = st.lists(st.tuples(st.sampled_from(["answered", "miss", "abandoned"]), st.floats(0, 100)), max_size=60)


@given(misses=st.integers(1, 5), retry_s=st.floats(0.1, 60), steps=steps)
def test_a_silent_plugin_is_called_at_most_once_per_retry_time(misses, retry_s, steps):
    breaker, now, in_a_row, last_miss = Breaker(misses, retry_s), 0.0, 0, None
    for what, passed in steps:
        now += passed
        admitted = breaker.admit(now)
        due = last_miss is None or now >= last_miss + retry_s
        assert admitted == (in_a_row < misses or due), "admitted against its record, or shut out without reason"
        if not admitted:
            continue
        if what == "miss":
            breaker.miss(now)
            in_a_row, last_miss = in_a_row + 1, now
        elif what == "answered":
            breaker.answered()
            in_a_row = 0
        else:
            breaker.abandoned()


def test_fractions_of_a_timeout_add_up_to_misses_until_an_answer():
    breaker = Breaker(misses=2)
    assert [breaker.miss(0.0, share) for share in (1.0, 0.5, 0.3)] == [False, False, False]
    assert breaker.missed == 1
    assert breaker.miss(0.0, 0.2), "half a timeout, and two parts of another half"
    breaker = Breaker(misses=1)
    breaker.miss(0.0, 0.5)
    breaker.answered()
    assert not breaker.miss(0.0, 0.5), "it has answered since"


def test_a_partly_missed_trial_opens_the_breaker():
    breaker = opened(retry_s=30.0)
    breaker.admit(200.0)
    breaker.miss(202.0, 0.1)
    assert breaker.state is BreakerState.OPEN
    assert not breaker.admit(231.9)
