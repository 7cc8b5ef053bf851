"""Times implementations in turns, so that a slow minute of the machine falls on all of them alike."""

import gc
import random
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

SAMPLE_SECONDS = 0.007  # a sample repeats the call until it takes at least this long
MAXIMUM_CALLS = 10_000
WARM_SHARE = 0.8  # of as many calls, before each sample, untimed: a sleeping thread takes milliseconds to wake
LONG_CALL_SECONDS = 0.02  # what a call as long as this finds cold does not count
FIRST_ROUNDS = 2
FAR_BEHIND = 1.5

Clock = Callable[[], float]


def settle(clock: Clock = time.perf_counter, cpu_clock: Clock = time.process_time, sleep=time.sleep) -> None:
    """Waits until this process is idle: threads of the library that was timed last may still spin for more work."""
    deadline = clock() + 0.2
    while clock() < deadline:
        busy = cpu_clock()
        sleep(0.001)
        if cpu_clock() - busy < 0.0003:
            return


class Timed:
    """The calls of one implementation, each of which works on its own copy of the inputs, one after another."""

    def __init__(self, calls: list[Callable[[], Any]], clock: Clock):
        self.next_call = cycle(calls)
        self.clock = clock
        self.samples: list[float] = []  # seconds a call
        self.calls_in_a_sample = self.enough_calls()

    def seconds_of(self, calls: int) -> float:
        chosen = [next(self.next_call) for _ in range(calls)]
        start = self.clock()
        for call in chosen:
            call()
        return self.clock() - start

    def enough_calls(self) -> int:
        """Warms up, and repeats the call more and more often until that takes long enough."""
        self.seconds_of(1)
        calls = 1
        while (seconds := self.seconds_of(calls)) < SAMPLE_SECONDS and calls < MAXIMUM_CALLS:
            needed = round(calls * 1.1 * SAMPLE_SECONDS / max(seconds, 1e-7))
            calls = min(MAXIMUM_CALLS, max(2 * calls, needed))
        return calls

    def sample(self) -> None:
        if not self.samples or self.samples[-1] < LONG_CALL_SECONDS:
            self.seconds_of(max(1, round(self.calls_in_a_sample * WARM_SHARE)))
        self.samples.append(self.seconds_of(self.calls_in_a_sample) / self.calls_in_a_sample)


def interleaved(
    calls: dict[str, list[Callable[[], Any]]],
    rounds: int,
    group_of: Callable[[str], str],
    rng: random.Random,
    clock: Clock = time.perf_counter,
    pause: Callable[[], None] = settle,
) -> dict[str, list[float]]:
    """Seconds a call, `rounds` samples of each implementation; each round takes all of them in a random order. Those
    far behind another of their group have only FIRST_ROUNDS samples."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        timed = {name: Timed(list_of_calls, clock) for name, list_of_calls in calls.items()}
        left = sorted(timed)
        for done in range(rounds):
            if done == FIRST_ROUNDS:
                left = in_the_running({name: min(timed[name].samples) for name in left}, group_of)
            for name in rng.sample(left, len(left)):
                pause()
                timed[name].sample()
    finally:
        if collecting:
            gc.enable()
    return {name: one.samples for name, one in timed.items()}


def in_the_running(seconds: dict[str, float], group_of: Callable[[str], str]) -> list[str]:
    """Without those that take FAR_BEHIND times as long as the fastest of their group."""
    fastest: dict[str, float] = {}
    for name, value in seconds.items():
        fastest[group_of(name)] = min(value, fastest.get(group_of(name), value))
    return [name for name, value in seconds.items() if value < FAR_BEHIND * fastest[group_of(name)]]
