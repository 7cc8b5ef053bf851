"""What is timed: the shapes, their names, and how much useful work each is."""

from dataclasses import dataclass
from typing import Literal, Union

Roof = Literal["fma", "read"]


@dataclass(frozen=True)
class Attention:
    """Q (b, h, n_q, d), K and V (b, h_kv, n_kv, d). Causal positions end together: query i sees keys up to
    i + n_kv - n_q. With lengths, batch item i has lengths[i] tokens, and n_q = n_kv is the longest."""

    b: int
    h: int
    n_q: int
    n_kv: int
    d: int
    h_kv: int = 0  # 0: as many as h
    causal: bool = False
    lengths: tuple[int, ...] = ()

    @property
    def kv_heads(self) -> int:
        return self.h_kv or self.h

    @property
    def roof(self) -> Roof:
        """A single query reads all of K and V for two operations a number: memory is what bounds it."""
        return "read" if self.n_q == 1 else "fma"

    @property
    def name(self) -> str:
        heads = f"h{self.h}" if self.kv_heads == self.h else f"h{self.h}/{self.kv_heads}"
        if self.lengths:
            kind, tokens = "ragged", f"n{min(self.lengths)}..{max(self.lengths)}"
        elif self.n_q == 1:
            kind, tokens = "decode", f"n_kv{self.n_kv}"
        else:
            kind, tokens = "attention", f"n{self.n_kv}" if self.n_q == self.n_kv else f"n_q{self.n_q} n_kv{self.n_kv}"
        return f"{kind} b{self.b} {heads} {tokens} d{self.d}" + (" causal" if self.causal else "")

    @property
    def visible_pairs(self) -> int:
        """(query, key) pairs of one head, over the whole batch."""
        sequences = [(n, n) for n in self.lengths] or [(self.n_q, self.n_kv)] * self.b
        if not self.causal:
            return sum(n_q * n_kv for n_q, n_kv in sequences)
        return sum(n_q * (n_kv - n_q) + n_q * (n_q + 1) // 2 for n_q, n_kv in sequences)

    @property
    def flops(self) -> int:
        """Scoring and blending; a multiply-add is two."""
        return 4 * self.h * self.d * self.visible_pairs

    @property
    def bytes_read(self) -> int:
        return 2 * 4 * self.b * self.kv_heads * self.n_kv * self.d

    @property
    def useful(self) -> int:
        """What its roof counts."""
        return self.bytes_read if self.roof == "read" else self.flops


@dataclass(frozen=True)
class Layer:
    """Self-attention with biases of X (b, n, d_model); `weights`: the softmax's weights are returned as well."""

    n: int
    d_model: int
    h: int
    weights: bool = False
    b: int = 1

    @property
    def roof(self) -> Roof:
        return "fma"

    @property
    def name(self) -> str:
        batch = f"b{self.b} " if self.b > 1 else ""
        return f"layer {batch}n{self.n} d_model{self.d_model} h{self.h}" + (" with weights" if self.weights else "")

    @property
    def flops(self) -> int:
        return self.b * (2 * 4 * self.n * self.d_model**2 + 4 * self.n**2 * self.d_model)

    @property
    def useful(self) -> int:
        return self.flops


Work = Union[Attention, Layer]

# (b, h, n, d)
SQUARE = [
    (1, 8, 128, 64),
    (1, 8, 512, 64),
    (1, 8, 1024, 64),
    (1, 8, 2048, 64),
    (1, 8, 4096, 64),
    (1, 16, 1024, 128),
    (1, 12, 512, 32),
    (1, 16, 2048, 80),
    (8, 12, 128, 64),
    (32, 12, 48, 64),
    (1, 1, 1024, 512),
    (1, 64, 1024, 8),
    (1, 32, 16, 128),
]
# (n, d_model, h)
LAYERS = [
    (128, 512, 8),
    (512, 512, 8),
    (1024, 512, 8),
    (512, 768, 12),
    (2048, 1024, 16),
    (16, 384, 12),
]
# Of every size, in no order, as a server's queue has them.
RAGGED_LENGTHS = (16, 512, 64, 300, 128, 40, 256, 96)
# Of a whole run. The quick one has the works that take no implementation long.
QUICK_FLOPS = 2.5e9
QUICK_BYTES = 150e6


def all_works() -> list[Work]:
    works: list[Work] = []
    for causal in (False, True):
        works += [Attention(b, h, n, n, d, causal=causal) for b, h, n, d in SQUARE]
        works.append(Attention(1, 32, 1024, 1024, 64, h_kv=8, causal=causal))
        longest = max(RAGGED_LENGTHS)
        works.append(Attention(len(RAGGED_LENGTHS), 8, longest, longest, 64, causal=causal, lengths=RAGGED_LENGTHS))
    for h, h_kv, d in ((8, 8, 64), (32, 8, 128)):
        works += [Attention(b, h, 1, n_kv, d, h_kv=h_kv) for b in (1, 8) for n_kv in (1024, 4096)]
    for weights in (False, True):
        works += [Layer(n, d_model, h, weights) for n, d_model, h in LAYERS]
    return works


def more_works() -> list[Work]:
    """What goals are not counted by: few tokens, other widths of heads, queries that are not the keys, batches."""
    works: list[Work] = []
    squares = [(1, 8, n, 64) for n in (8, 17, 33, 64, 100, 197)]
    squares += [(1, 8, 256, d) for d in (4, 20, 40, 96, 160, 256)]
    squares += [(64, 8, 16, 32), (128, 12, 10, 64), (8, 12, 197, 64)]
    for causal in (False, True):
        works += [Attention(b, h, n, n, d, causal=causal) for b, h, n, d in squares]
    for n_q, n_kv, d in ((4, 1024, 64), (16, 4096, 64), (64, 1024, 64), (4096, 77, 40)):
        works.append(Attention(1, 8, n_q, n_kv, d))
    single = [(1, 8, 8, 64, 64), (1, 8, 8, 16384, 64), (32, 8, 8, 128, 64), (1, 1, 1, 1024, 512)]
    single += [(1, 32, 1, 2048, 128), (1, 32, 16, 2048, 128), (1, 8, 8, 2048, 256)]
    works += [Attention(b, h, 1, n_kv, d, h_kv=h_kv) for b, h, h_kv, n_kv, d in single]
    works += [Layer(n, 512, 8) for n in (1, 2, 4, 5, 6, 8, 10, 17, 32)]
    works += [Layer(n, 2048, 16) for n in (1, 4, 8)]
    works += [Layer(10, 256, 4), Layer(77, 1024, 16), Layer(197, 768, 12)]
    works += [Layer(n, 512, 8, b=b) for b, n in ((64, 1), (32, 10), (8, 50))]
    return works


def quick_works() -> list[Work]:
    return [work for work in all_works() if work.useful <= (QUICK_BYTES if work.roof == "read" else QUICK_FLOPS)]
