"""One way of doing a work with one library."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Implementation:
    """`calls`: one for each copy of the inputs, ready to be timed. `outputs`: turns what a call returned, or what it
    wrote, into arrays of the shapes that the problem expects."""

    calls: list[Callable[[], Any]]
    outputs: Callable[[Any], list[np.ndarray]]


# By name, such as "torch SDPA": the first word is the library. Making one may fail, where a library cannot do it.
Offers = dict[str, Callable[[], Implementation]]


def empty_like_output(*shape: int) -> np.ndarray:
    """Memory for an output, which no implementation can leave as it is unnoticed."""
    return np.full(shape, np.nan, np.float32)


def pad_sequences(sequences: list[np.ndarray]) -> np.ndarray:
    """Outputs (1, h, n_i, d) of the sequences of a ragged batch as one padded batch."""
    _, h, _, d = sequences[0].shape
    padded = np.zeros((len(sequences), h, max(Y.shape[2] for Y in sequences), d), np.float32)
    for i, Y in enumerate(sequences):
        padded[i, :, : Y.shape[2]] = Y[0]
    return padded
