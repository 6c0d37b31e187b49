"""Tables of the modes: pods, and the agent."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.report import ratios, spread, table
from bench.studies.apiserver.tables import quantile
from bench.studies.modes.agents import NONE
from bench.studies.modes.measured import Batch, Life, Mode

_LIVES = ["pods", "mode", "containers", "first instruction p50 ms", "p99", "p50 to no agent", "CRI calls ms a pod",
          "to no agent", "policy p50 ms", "p99", "ran without policy", "for p50 ms", "longest"]  # fmt: skip
_AGENTS = ["mode", "start CPU ms", "CPU ms a pod", "at rest CPU ms a second", "RSS MiB", "PSS MiB",
           "calls at start", "calls a pod", "calls a minute at rest"]  # fmt: skip


def lives(modes: Mapping[str, Mode]) -> str:
    """Every mode at every number of pods."""
    counts = sorted({count for mode in modes.values() for count in mode.batches})
    rows = []
    for count in counts:
        base = modes[NONE].batches.get(count, [])
        for name, mode in modes.items():
            if count in mode.batches:
                rows.append([title(count), name, *_life_cells(name, mode.batches[count], base)])
    return table(_LIVES, rows)


def title(count: int) -> str:
    """What a number of pods is called."""
    return "one after the other" if count == 1 else f"{count} at once"


def _life_cells(name: str, batches: Sequence[Batch], base: Sequence[Batch]) -> list[str]:
    every = [life for batch in batches for life in batch.lives]
    starts = [life.start_ms for life in every]
    paired = list(zip(batches, base, strict=False))  # a mode that failed has fewer rounds
    start = ratios([_median(mode) for mode, _ in paired], [_median(baseline) for _, baseline in paired])
    cri = ratios([mode.cri_ms for mode, _ in paired], [baseline.cri_ms for _, baseline in paired])
    cells = [str(len(every)), f"{quantile(starts, 0.5):.0f}", f"{quantile(starts, 0.99):.0f}", start]
    cells += [f"{statistics.median(batch.cri_ms for batch in batches):.0f}", cri]
    return cells + (["never", "", "all", "always", ""] if name == NONE else _policy_cells(every))


def _median(batch: Batch) -> float:
    return statistics.median(life.start_ms for life in batch.lives)


def _policy_cells(every: Sequence[Life]) -> list[str]:
    forces = [life.force_ms for life in every if life.force_ms is not None]
    bare = [life for life in every if not life.right]
    windows = [life.window_ms for life in bare if life.window_ms is not None]
    cells = [f"{quantile(forces, 0.5):.0f}", f"{quantile(forces, 0.99):.0f}"] if forces else ["never", ""]
    never = len(bare) - len(windows)
    cells.append(f"{len(bare)} of {len(every)}")
    cells.append(f"{quantile(windows, 0.5):.0f}" if windows else "")
    return [*cells, f"always ({never})" if never else f"{max(windows):.0f}" if windows else ""]


def agents(modes: Mapping[str, Mode]) -> str:
    """What the agent of every mode uses."""
    rows = []
    for name, mode in modes.items():
        if name == NONE or not mode.start_ms:
            continue
        by_pods = {count: [batch.cpu_ms for batch in batches] for count, batches in sorted(mode.batches.items())}
        cpu = "; ".join(f"{count}: {cell(values)}" for count, values in by_pods.items())
        numbers = sorted({at_rest.pods for at_rest in mode.rests})
        rest_cells = "; ".join(f"{n}: {cell([r.cpu_ms for r in mode.rests if r.pods == n])}" for n in numbers)
        largest = [at_rest for at_rest in mode.rests if at_rest.pods == numbers[-1]] if numbers else []
        memory = [_mib([getattr(at_rest, what) for at_rest in largest]) for what in ("rss_mib", "pss_mib")]
        calls = [_calls(mode.start_calls, len(mode.start_calls)), _calls(*_during(mode))]
        minute = f"{statistics.mean(at_rest.calls for at_rest in mode.rests) * 60:.1f}" if mode.rests else ""
        rows.append([name, cell(mode.start_ms), cpu, rest_cells, *memory, *calls, minute])
    return table(_AGENTS, rows)


def _mib(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else ""


def _during(mode: Mode) -> tuple[list[Counter[str]], int]:
    batches = [batch for group in mode.batches.values() for batch in group]
    return [batch.calls for batch in batches], sum(len(batch.lives) for batch in batches)


def _calls(counted: Sequence[Counter[str]], among: int) -> str:
    """Mean calls by verb."""
    verbs: Counter[str] = Counter()
    for calls in counted:
        for what, count in calls.items():
            verbs[what.partition(" ")[0]] += count
    return ", ".join(f"{count / among:.2g} {verb}" for verb, count in sorted(verbs.items())) or "0"


def cell(values: Sequence[float]) -> str:
    middle, low, high = spread(list(values))
    digits = 0 if middle >= 10 else 1
    if len(values) < 2:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
