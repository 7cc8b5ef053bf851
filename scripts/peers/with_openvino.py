"""OpenVINO: ScaledDotProductAttention (opset 13) on the CPU, in graphs of static shape, inputs and outputs bound."""

import numpy as np
import openvino
from openvino import opset13 as ops

from .implementation import Implementation, Offers, empty_like_output, pad_sequences
from .problem import AttentionProblem, LayerProblem, Problem

SDPA = "openvino ScaledDotProductAttention"


def parameter(*shape: int):
    return ops.parameter(list(shape), np.float32)


def shape_of(*shape: int):
    return ops.constant(np.array(shape, np.int64))


class OpenVino:
    name = "openvino"

    def __init__(self, threads: int):
        self.core = openvino.Core()
        self.options = {
            # float32 on processors that have bfloat16, too.
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            # The process is bound to its processors already, and its threads are shared with other libraries.
            "ENABLE_CPU_PINNING": False,
        }

    @property
    def version(self) -> str:
        return openvino.__version__

    def offers(self, problem: Problem) -> Offers:
        if isinstance(problem, LayerProblem):
            name = "openvino MatMul + Softmax" if problem.work.weights else SDPA
            return {name: lambda: self.layer(problem)}
        work = problem.work
        if work.lengths:
            return {
                f"{SDPA}, padded": lambda: self.padded(problem),
                f"{SDPA}, one call a sequence": lambda: self.each_sequence(problem),
            }
        offers: Offers = {SDPA: lambda: self.sdpa(problem)}
        if work.n_q == 1 and work.kv_heads != work.h:
            offers[f"{SDPA}, groups as queries"] = lambda: self.groups_as_queries(problem)
        return offers

    def compiled(self, results, parameters):
        return self.core.compile_model(openvino.Model(results, parameters), "CPU", self.options)

    def bound(self, compiled, inputs, outputs):
        """A call of a request of its own, which reads and writes these arrays."""
        request = compiled.create_infer_request()
        for i, array in enumerate(inputs):
            request.set_input_tensor(i, openvino.Tensor(array, shared_memory=True))
        for i, array in enumerate(outputs):
            request.set_output_tensor(i, openvino.Tensor(array, shared_memory=True))
        request.arrays = (inputs, outputs)  # its tensors do not keep them alive
        return lambda: request.infer(share_outputs=True)

    def compiled_attention(self, Q_shape, KV_shape, causal: bool):
        parameters = [parameter(*Q_shape), parameter(*KV_shape), parameter(*KV_shape)]
        Q, K, V = parameters
        b, h_kv, n_kv, d = KV_shape
        if Q_shape[1] != h_kv:
            K, V = (self.repeated(x, KV_shape, Q_shape[1]) for x in (K, V))
        return self.compiled([ops.scaled_dot_product_attention(Q, K, V, causal=causal)], parameters)

    def repeated(self, node, shape, h: int):
        """(b, h_kv, n, d) to (b, h, n, d)."""
        b, h_kv, n, d = shape
        grouped = ops.broadcast(ops.unsqueeze(node, shape_of(2)), shape_of(b, h_kv, h // h_kv, n, d))
        return ops.reshape(grouped, shape_of(b, h, n, d), special_zero=False)

    def sdpa(self, problem: AttentionProblem) -> Implementation:
        compiled = self.compiled_attention(problem.Q.shape, problem.K.shape, problem.work.causal)
        Y = empty_like_output(*problem.Q.shape)
        return Implementation([self.bound(compiled, copy, [Y]) for copy in problem.copies], lambda _: [Y])

    def groups_as_queries(self, problem: AttentionProblem) -> Implementation:
        """A single query sees all keys, so the query heads of a group are as good as queries of one head."""
        work = problem.work
        shape = (work.b, work.kv_heads, work.h // work.kv_heads, work.d)
        compiled = self.compiled_attention(shape, problem.K.shape, causal=False)
        Y = empty_like_output(*shape)
        calls = [self.bound(compiled, (Q.reshape(shape), K, V), [Y]) for Q, K, V in problem.copies]
        return Implementation(calls, lambda _: [Y.reshape(problem.Q.shape)])

    def padded(self, problem: AttentionProblem) -> Implementation:
        mask = np.where(problem.padding_mask, np.float32(0), np.float32(-np.inf))
        parameters = [parameter(*array.shape) for array in (problem.Q, problem.K, problem.V, mask)]
        compiled = self.compiled([ops.scaled_dot_product_attention(*parameters)], parameters)
        Y = empty_like_output(*problem.Q.shape)
        return Implementation([self.bound(compiled, (*problem.copies[0], mask), [Y])], lambda _: [Y])

    def each_sequence(self, problem: AttentionProblem) -> Implementation:
        outputs, calls = [], []
        for Q, K, V in problem.sequences():
            outputs.append(empty_like_output(*Q.shape))
            compiled = self.compiled_attention(Q.shape, K.shape, problem.work.causal)
            calls.append(self.bound(compiled, (Q, K, V), outputs[-1:]))

        def call():
            for one in calls:
                one()

        return Implementation([call], lambda _: [pad_sequences(outputs)])

    def layer(self, problem: LayerProblem) -> Implementation:
        work = problem.work
        d_k = work.d_model // work.h
        X = parameter(*problem.X.shape)
        projected = ops.add(ops.matmul(X, ops.constant(problem.W_qkv), False, True), ops.constant(problem.b_qkv))
        Q, K, V = (
            ops.transpose(ops.reshape(part, shape_of(work.b, work.n, work.h, d_k), False), shape_of(0, 2, 1, 3))
            for part in ops.split(projected, ops.constant(2), 3).outputs()
        )
        if work.weights:
            scores = ops.multiply(ops.matmul(Q, K, False, True), ops.constant(np.float32(d_k**-0.5)))
            weights = ops.softmax(scores, -1)
            heads = ops.matmul(weights, V, False, False)
        else:
            heads = ops.scaled_dot_product_attention(Q, K, V)
        concatenated = ops.reshape(ops.transpose(heads, shape_of(0, 2, 1, 3)), shape_of(*problem.X.shape), False)
        Y = ops.add(ops.matmul(concatenated, ops.constant(problem.W_o), False, True), ops.constant(problem.b_o))
        compiled = self.compiled([Y, weights] if work.weights else [Y], [X])
        outputs = [empty_like_output(*problem.X.shape)]
        if work.weights:
            outputs.append(empty_like_output(work.b, work.h, work.n, work.n))
        return Implementation([self.bound(compiled, [problem.X], outputs)], lambda _: outputs)
