"""How a function of WebAssembly ended, in words."""

from __future__ import annotations

import pytest
import wasmtime

from nri.adaptation.launch.wasm.failures import frames, words_for


def trap(body: str) -> BaseException:
    """What running this code raises."""
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    module = wasmtime.Module(engine, f'(module (func $named (export "run") {body}))')
    run = wasmtime.Instance(store, module, []).exports(store)["run"]
    with pytest.raises(wasmtime.Trap) as raised:
        run(store)
    return raised.value


def test_a_trap_is_told_by_its_kind_and_the_functions_that_it_was_in() -> None:
    error = trap("unreachable")
    assert words_for(error) == "trapped (unreachable)"
    assert frames(error) == ["named"]


def test_a_deep_stack_is_cut() -> None:
    error = trap("call $named")
    assert words_for(error) == "trapped (stack overflow)"
    assert len(frames(error)) == 8


def test_what_is_no_trap_is_its_last_line_without_control_characters() -> None:
    error = RuntimeError("first\nthe cause\x1b[31m\n\n")
    assert words_for(error) == "the cause\\x1b[31m"
    assert frames(error) == []


def test_an_error_without_words_says_so() -> None:
    assert words_for(RuntimeError("")) == "an error without words"
