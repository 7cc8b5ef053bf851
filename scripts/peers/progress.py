"""How long it still takes."""

import time
from collections.abc import Callable

from .work import Attention, Work


def expected_cost(work: Work, threads: int, rounds: int) -> float:
    """Seconds, roughly, on no machine in particular: only how works compare with one another counts."""
    hidden = 2 if isinstance(work, Attention) and work.causal else 1  # most peers compute what is masked out
    call = work.flops * hidden / (40e9 * threads)
    implementations = 5
    return 1 + work.flops / 5e9 + implementations * (rounds + 3) * max(0.015, 1.2 * call)


class TimeLeft:
    def __init__(self, costs: list[float], clock: Callable[[], float] = time.monotonic):
        self.costs = costs
        self.clock = clock
        self.start = clock()
        self.done = 0

    def step(self) -> str:
        """One more is done: "[3/66, about 2 min left]"."""
        self.done += 1
        elapsed = self.clock() - self.start
        seconds = elapsed * sum(self.costs[self.done :]) / sum(self.costs[: self.done])
        left = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
        return f"[{self.done}/{len(self.costs)}, about {left} left]"
