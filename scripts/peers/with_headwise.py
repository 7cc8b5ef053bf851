"""headwise through its C interface."""

import weakref
from ctypes import byref, c_char_p, c_int64, c_void_p, pointer

import headwise_c as c
import numpy as np

from .implementation import Implementation, Offers, empty_like_output, pad_sequences
from .problem import AttentionProblem, LayerProblem, Problem

ELEMENT_TYPES = {np.dtype(np.float32): c.FLOAT32, np.dtype(np.int64): c.INT64}


class Headwise:
    name = "headwise"

    def __init__(self, library_path: str):
        self.library = c.load(library_path)

    @property
    def version(self) -> str:
        return self.library.headwise_version().decode()

    @property
    def target(self) -> str:
        name = c_char_p()
        self.must(self.library.headwise_active_target(byref(name)))
        return (name.value or b"").decode()

    def offers(self, problem: Problem) -> Offers:
        if isinstance(problem, LayerProblem):
            return {"headwise": lambda: self.layer(problem)}
        if problem.work.lengths:
            return {
                "headwise ragged": lambda: self.ragged(problem),
                "headwise, one call a sequence": lambda: self.each_sequence(problem),
            }
        return {"headwise": lambda: self.attention(problem)}

    def must(self, status: int) -> None:
        if status != c.OK:
            raise RuntimeError(self.library.headwise_last_error().decode())

    def tensor(self, array: np.ndarray) -> c.Tensor:
        """A view of a contiguous array, which it keeps alive."""
        tensor = c.Tensor()
        tensor.array = array
        self.must(
            self.library.headwise_dense_tensor(
                byref(tensor),
                c_void_p(array.ctypes.data),
                ELEMENT_TYPES[array.dtype],
                array.ndim,
                (c_int64 * array.ndim)(*array.shape),
            )
        )
        return tensor

    def prepared(self, function, *arguments):
        """A call with everything about it set up before, as a program in C would have it."""

        def call():
            self.must(function(*arguments))

        return call

    def attend(self, Q, K, V, Y, options):
        tensors = [byref(self.tensor(array)) for array in (Q, K, V, Y)]
        return self.prepared(self.library.headwise_attention, *tensors, byref(options))

    def attention(self, problem: AttentionProblem) -> Implementation:
        work = problem.work
        Y = empty_like_output(*problem.Q.shape)
        options = c.sized(c.Options, causal=work.causal, query_offset=work.n_kv - work.n_q if work.causal else 0)
        return Implementation([self.attend(*copy, Y, options) for copy in problem.copies], lambda _: [Y])

    def ragged(self, problem: AttentionProblem) -> Implementation:
        """The sequences one after another, (h, tokens, d)."""
        work = problem.work
        Q, K, V = (np.concatenate(arrays, axis=2)[0] for arrays in zip(*problem.sequences()))
        Y = empty_like_output(*Q.shape)
        starts = np.cumsum([0, *work.lengths], dtype=np.int64)
        tensors = [byref(self.tensor(array)) for array in (Q, K, V, Y, starts, starts)]
        options = byref(c.sized(c.Options, causal=work.causal))
        call = self.prepared(self.library.headwise_ragged_attention, *tensors, options)

        def outputs(_):
            return [pad_sequences([part[None] for part in np.split(Y, starts[1:-1], axis=1)])]

        return Implementation([call], outputs)

    def each_sequence(self, problem: AttentionProblem) -> Implementation:
        options = c.sized(c.Options, causal=problem.work.causal)
        sequences = list(problem.sequences())
        outputs = [empty_like_output(*Q.shape) for Q, _, _ in sequences]
        calls = [self.attend(*inputs, Y, options) for inputs, Y in zip(sequences, outputs)]

        def call():
            for one in calls:
                one()

        return Implementation([call], lambda _: [pad_sequences(outputs)])

    def layer(self, problem: LayerProblem) -> Implementation:
        work = problem.work
        shape = c.sized(c.LayerShape, d_model=work.d_model, heads=work.h)
        names = ("W_qkv", "W_o", "b_qkv", "b_o")
        weights = c.sized(c.PackedWeights, **{name: pointer(self.tensor(getattr(problem, name))) for name in names})
        layer = c_void_p()
        self.must(self.library.headwise_layer_create_from_packed(byref(shape), byref(weights), byref(layer)))

        outputs = [empty_like_output(*problem.X.shape)]
        options = c.sized(c.Options)
        if work.weights:
            outputs.append(empty_like_output(work.b, work.h, work.n, work.n))
            options.weights = pointer(self.tensor(outputs[1]))
        tensors = [byref(self.tensor(array)) for array in (problem.X, outputs[0])]
        forward = self.prepared(self.library.headwise_layer_forward, layer, *tensors, byref(options))
        implementation = Implementation([forward], lambda _: outputs)
        weakref.finalize(implementation, self.library.headwise_layer_destroy, layer)
        return implementation
