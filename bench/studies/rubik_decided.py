"""Pictures of rubik's decisions that this machine cannot carry out: what each service decides on a made-up node.

Nothing is measured, and each title says so. `python -m bench.studies.rubik_decided` writes them into the
documentation; a test holds them to what is decided today.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.studies.rubik_pictures import OURS, PLAIN, WORSE, bars, line
from nri.agent.rubik import cpi, dyn_cache, io_cost, psi
from nri.agent.rubik.dyn_cache import Block
from nri.agent.rubik.dyn_memory import INTERVAL_S, MemoryHigh

__all__ = ["PICTURES", "decided"]

PICTURES: Final = Path(__file__).parents[2] / "docs/_static/rubik"
_SAID: Final = "(decided, not measured)"
_S: Final = 10**9
Points = list[tuple[float, float]]


def decided() -> dict[str, str]:
    """The pictures by service."""
    return {"dynMemory": _memory(), "psi": _psi(), "ioCost": _cost(), "dynCache": _cache(), "cpi": _cpi()}


def _memory() -> str:
    """Memory runs short for a while."""
    walk, free, high = MemoryHigh(100), Points(), Points()
    for place in range(60):
        free_percent = 5 if 6 <= place < 9 else 30
        walk.read(free_percent)
        free.append((place * INTERVAL_S, free_percent / 100))
        high.append((place * INTERVAL_S, walk.high / 100))
    title = f"dynMemory: parts of the node's memory {_SAID}"
    return line(title, {"memory.high": high, "free": free}, {"memory runs short": 6.0 * INTERVAL_S})


def _psi() -> str:
    """Three offline pods come, each of which makes an online one wait 4 % of the time more."""
    block, waits, remaining, avg10 = psi.Block(["cpu"]), Points(), 0, 0.0
    evicted: dict[str, float] = {}
    for second in range(121):
        remaining = 3 if second == 15 else remaining
        avg10 += (1 + 4 * remaining - avg10) / 10
        waits.append((second, avg10 / block.avg10threshold))
        if second % block.interval == 0 and psi.resource_under_pressure(
            block.resource, {"cpu": [avg10]}, block.avg10threshold
        ):
            remaining -= 1
            evicted[f"eviction {len(evicted) + 1}"] = float(second)
    title = f"psi: the wait of an online pod, in thresholds {_SAID}"
    return line(title, {"avg10 of cpu.pressure": waits}, {"three offline pods": 15.0, **evicted})


def _cost() -> str:
    """An online pod and an offline one want all of a disk; the kernel shares it by their weights."""
    online, offline = io_cost.weight(offline=False), io_cost.weight(offline=True)
    rows = []
    for arm, weights, colour in (
        ("equal weights", (io_cost.DEFAULT_WEIGHT,) * 2, PLAIN),
        ("ioCost", (online, offline), OURS),
    ):
        for who, weight in zip(("online", "offline"), weights, strict=True):
            part = 100 * weight / sum(weights)
            rows.append(
                (f"{who}, {arm}", part, f"{part:.0f} %", WORSE if arm != "ioCost" and who == "offline" else colour)
            )
    return bars(f"ioCost: parts of a disk that both want {_SAID}", rows)


def _cache() -> str:
    """Online pods are quiet, and then miss the more the more of the cache offline ones have."""
    config, part, missed = Block(defaultLimitMode="dynamic"), Points(), Points()
    now = dyn_cache.group_shares(config)[dyn_cache.DYNAMIC]
    fell: dict[str, float] = {}
    for second in range(41):
        misses = 4 if second < 12 else 4 + (now.l3 - config.l3Percent.low) * 2 // 3
        part.append((second, now.l3 / 100))
        missed.append((second, misses / 100))
        before, now = now, dyn_cache.step(now, [dyn_cache.Misses(misses, misses)], config)
        if now.l3 < before.l3 and not fell:
            fell["online pods miss"] = float(second)
    title = f"dynCache: offline pods' part of the cache {_SAID}"
    return line(title, {"part of the cache": part, "misses of online pods": missed}, fell)


def _cpi() -> str:
    """An offline pod takes two CPUs for half an hour, and an online one needs half as many cycles again meanwhile."""
    usual = cpi.Baseline().fold([1.0 + 0.05 * (-1) ** place for place in range(80)])
    pod, suspect = cpi.OnlinePod(usual, [], []), list[tuple[int, float]]()
    needs, used, until = Points(), Points(), -1
    limited: dict[str, float] = {}
    for second in range(0, 3001, 60):
        cpus = 0.0 if not 600 <= second < 2400 else cpi.LIMITED_US / 100_000 if second < until else 2.0
        value = 1.0 + 0.25 * cpus
        cpi.add(pod.cpi, second * _S, value)
        cpi.add(pod.cpu, second * _S, 1.0)
        cpi.add(suspect, second * _S, cpus)
        needs.append((second, value))
        used.append((second, cpus))
        if second % 300 == 0 and cpi.antagonists([pod], {"offline": suspect}, second * _S):
            until = second + 300
            limited.setdefault("it is limited for 5 minutes", float(second))
    title = f"cpi: an online pod's cycles per instruction {_SAID}"
    return line(title, {"cycles per instruction": needs, "CPUs of an offline pod": used}, limited)


if __name__ == "__main__":
    for name, drawn in decided().items():
        (PICTURES / f"{name}.svg").write_text(drawn)
