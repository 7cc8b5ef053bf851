"""The numbers that every implementation gets, and what each has to give back: plain numpy in double."""

from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias, Union

import numpy as np

from .machine import bytes_that_no_cache_holds
from .work import Attention, Layer, Work

Array: TypeAlias = np.ndarray

# Largest difference that is allowed, as a part of the largest expected number. Products and sums in float32 stay below
# 1e-5 here; bfloat16, or keys that should be hidden, do not.
TOLERANCE = 1e-4


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def softmax_in_double(scores: Array) -> Array:
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def attention_in_double(Q: Array, K: Array, V: Array, causal: bool) -> tuple[Array, Array]:
    """Y and the weights of one head: Q (n_q, d), K and V (n_kv, d)."""
    scores = Q.astype(np.float64) @ K.astype(np.float64).T / np.sqrt(Q.shape[-1])
    if causal:
        n_q, n_kv = scores.shape
        scores[~np.tri(n_q, n_kv, n_kv - n_q, dtype=bool)] = -np.inf
    weights = softmax_in_double(scores)
    return weights @ V.astype(np.float64), weights


class AttentionProblem:
    """Q (b, h, n_q, d), K and V (b, h_kv, n_kv, d), contiguous. `copies` of (Q, K, V) hold the same numbers: single
    queries are timed as a model has them, where each call meets K and V that no cache holds."""

    def __init__(self, work: Attention):
        self.work = work
        rng = np.random.default_rng(1)
        self.Q = normal(rng, work.b, work.h, work.n_q, work.d)
        self.K = normal(rng, work.b, work.kv_heads, work.n_kv, work.d)
        self.V = normal(rng, work.b, work.kv_heads, work.n_kv, work.d)
        count = 1 if work.roof == "fma" else -(-bytes_that_no_cache_holds() // work.bytes_read)
        self.copies = [(self.Q, self.K, self.V)] + [
            (self.Q.copy(), self.K.copy(), self.V.copy()) for _ in range(count - 1)
        ]

    def sequences(self) -> Iterator[tuple[Array, Array, Array]]:
        """Q, K and V of each sequence of a ragged batch, (1, h, n_i, d), without padding."""
        for i, length in enumerate(self.work.lengths):
            Q, K, V = (np.ascontiguousarray(array[i : i + 1, :, :length]) for array in (self.Q, self.K, self.V))
            yield Q, K, V

    @cached_property
    def expected(self) -> list[Array]:
        work = self.work
        Y = np.zeros(self.Q.shape)
        for i in range(work.b):
            n_q, n_kv = [work.lengths[i]] * 2 if work.lengths else (work.n_q, work.n_kv)
            for head in range(work.h):
                kv_head = head // (work.h // work.kv_heads)
                Y[i, head, :n_q], _ = attention_in_double(
                    self.Q[i, head, :n_q], self.K[i, kv_head, :n_kv], self.V[i, kv_head, :n_kv], work.causal
                )
        return [Y]

    @property
    def padding_mask(self) -> Array:
        """(b, 1, n_q, n_kv), true where a query of a ragged batch sees a key. Queries that are padding see the keys of
        their sequence, as a row without keys is undefined in some libraries."""
        work = self.work
        inside = np.arange(work.n_kv) < np.array(work.lengths)[:, None]
        mask = np.broadcast_to(inside[:, None, None, :], (work.b, 1, work.n_q, work.n_kv))
        return mask & np.tri(work.n_q, dtype=bool) if work.causal else mask.copy()

    def comparable(self, outputs: list[Array]) -> list[Array]:
        """Without what was computed for padding."""
        if not self.work.lengths:
            return outputs
        Y = outputs[0].copy()
        for i, length in enumerate(self.work.lengths):
            Y[i, :, length:] = 0
        return [Y]


class LayerProblem:
    """X (b, n, d_model) and the weights as torch.nn.MultiheadAttention keeps them: y = x W^T + b, W_q, W_k and W_v in
    one W_qkv (3 d_model, d_model)."""

    def __init__(self, work: Layer):
        self.work = work
        rng = np.random.default_rng(1)
        width = work.d_model
        self.X = normal(rng, work.b, work.n, width)
        # Scores and outputs of about 1.
        self.W_qkv = normal(rng, 3 * width, width) / np.float32(width**0.5)
        self.W_o = normal(rng, width, width) / np.float32(width**0.5)
        self.b_qkv = normal(rng, 3 * width)
        self.b_o = normal(rng, width)

    @cached_property
    def expected(self) -> list[Array]:
        work = self.work
        Y, weights = [], []
        for X in self.X.astype(np.float64):
            projected = X @ self.W_qkv.astype(np.float64).T + self.b_qkv
            Q, K, V = projected.reshape(work.n, 3, work.h, -1).transpose(1, 2, 0, 3)
            heads = [attention_in_double(Q[head], K[head], V[head], causal=False) for head in range(work.h)]
            concatenated = np.concatenate([of_head for of_head, _ in heads], axis=-1)
            Y.append(concatenated @ self.W_o.astype(np.float64).T + self.b_o)
            weights.append([of_head for _, of_head in heads])
        return [np.stack(Y), np.array(weights)] if work.weights else [np.stack(Y)]

    def comparable(self, outputs: list[Array]) -> list[Array]:
        return outputs


Problem = Union[AttentionProblem, LayerProblem]


def problem_of(work: Work) -> Problem:
    return AttentionProblem(work) if isinstance(work, Attention) else LayerProblem(work)


def wrong(problem: Problem, outputs: list[Array]) -> str:
    """What is wrong with an implementation's outputs; empty if nothing is."""
    names = ["output", "weights"]
    if len(outputs) != len(problem.expected):
        return f"{len(outputs)} outputs instead of {len(problem.expected)}"
    for name, got, expected in zip(names, problem.comparable(outputs), problem.expected):
        if got.shape != expected.shape:
            return f"{name} of shape {got.shape} instead of {expected.shape}"
        error = np.abs(got - expected)
        allowed = TOLERANCE * np.abs(expected).max()
        if not (error <= allowed).all():  # so that NaN is wrong
            worst = np.unravel_index(np.nan_to_num(error, nan=np.inf).argmax(), error.shape)
            place = tuple(int(i) for i in worst)
            return (
                f"{name}{list(place)} is {got[worst]:.6g} instead of {expected[worst]:.6g}, allowed {allowed:.1g} off"
            )
    return ""
