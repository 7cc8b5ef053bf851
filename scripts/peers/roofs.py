"""What the machine can do at best: fp32 multiply-adds, and bytes read from memory. The loops are in bench/roofs."""

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np

from .machine import bytes_that_no_cache_holds

FMA_SECONDS = 0.02


class Roofs:
    def __init__(self, library_path: str, target: str, threads: int):
        self.library = ctypes.CDLL(library_path)
        self.library.headwise_roofs_fma.restype = ctypes.c_double
        self.library.headwise_roofs_read.restype = ctypes.c_double
        self.target = target.encode()
        self.threads = threads
        self.buffers = np.ones((threads, bytes_that_no_cache_holds() // threads), np.uint8)
        self.fma_samples: list[float] = []  # FLOP/s
        self.read_samples: list[float] = []  # bytes/s
        self.fma_steps = self.enough_steps()

    def fma(self, steps: int) -> float:
        """Floating-point operations done."""
        flops = self.library.headwise_roofs_fma(self.target, ctypes.c_int64(steps))
        if flops == 0:
            raise RuntimeError(f"no FMA loop for the instruction set {self.target.decode()}")
        return flops

    def enough_steps(self) -> int:
        steps = 1 << 14
        while True:
            start = time.perf_counter()
            self.fma(steps)
            if (seconds := time.perf_counter() - start) >= FMA_SECONDS / 4:
                return round(steps * FMA_SECONDS / seconds)
            steps *= 2

    def read(self, thread: int) -> float:
        """Bytes read."""
        buffer = self.buffers[thread]
        return self.library.headwise_roofs_read(
            self.target, ctypes.c_void_p(buffer.ctypes.data), ctypes.c_size_t(buffer.size)
        )

    def sample(self) -> None:
        self.fma_samples.append(self.rate(lambda _: self.fma(self.fma_steps)))
        self.read_samples.append(self.rate(self.read))

    def rate(self, work_of: Callable[[int], float]) -> float:
        """Of all threads together: the sum of their rates, while all of them work."""
        rates = [0.0] * self.threads
        start_together = threading.Barrier(self.threads)

        def run(thread: int) -> None:
            start_together.wait()
            start = time.perf_counter()
            done = work_of(thread)
            rates[thread] = done / (time.perf_counter() - start)

        others = [threading.Thread(target=run, args=(thread,)) for thread in range(1, self.threads)]
        for other in others:
            other.start()
        run(0)
        for other in others:
            other.join()
        return sum(rates)
