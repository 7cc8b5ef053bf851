"""PyTorch: scaled_dot_product_attention and nn.MultiheadAttention, in inference mode."""

import torch
import torch.nn.functional as F

from .implementation import Implementation, Offers, pad_sequences
from .problem import AttentionProblem, LayerProblem, Problem


def numpy_outputs(returned):
    tensors = returned if isinstance(returned, tuple) else (returned,)
    return [tensor.numpy() for tensor in tensors if tensor is not None]


class Torch:
    name = "torch"

    def __init__(self, threads: int):
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        # For good: this process does nothing else with torch.
        torch.inference_mode().__enter__()

    @property
    def version(self) -> str:
        return torch.__version__

    def offers(self, problem: Problem) -> Offers:
        if isinstance(problem, LayerProblem):
            offers: Offers = {"torch nn.MultiheadAttention": lambda: self.module(problem)}
            if not problem.work.weights:
                offers["torch linear + SDPA"] = lambda: self.linear_and_sdpa(problem)
            return offers
        work = problem.work
        if work.lengths:
            return {
                "torch SDPA, padded": lambda: self.padded(problem),
                "torch SDPA, one call a sequence": lambda: self.each_sequence(problem),
            }
        offers = {"torch SDPA": lambda: self.sdpa(problem)}
        if work.kv_heads != work.h:
            offers["torch SDPA, K and V repeated"] = lambda: self.repeated(problem)
            if work.n_q == 1:
                offers["torch SDPA, groups as queries"] = lambda: self.groups_as_queries(problem)
        return offers

    def copies(self, problem: AttentionProblem):
        return [[torch.from_numpy(array) for array in copy] for copy in problem.copies]

    def sdpa(self, problem: AttentionProblem) -> Implementation:
        options = {"is_causal": problem.work.causal, "enable_gqa": problem.work.kv_heads != problem.work.h}

        def prepared(Q, K, V):
            return lambda: F.scaled_dot_product_attention(Q, K, V, **options)

        return Implementation([prepared(*copy) for copy in self.copies(problem)], numpy_outputs)

    def repeated(self, problem: AttentionProblem) -> Implementation:
        group, causal = problem.work.h // problem.work.kv_heads, problem.work.causal

        def prepared(Q, K, V):
            return lambda: F.scaled_dot_product_attention(
                Q, K.repeat_interleave(group, 1), V.repeat_interleave(group, 1), is_causal=causal
            )

        return Implementation([prepared(*copy) for copy in self.copies(problem)], numpy_outputs)

    def groups_as_queries(self, problem: AttentionProblem) -> Implementation:
        """A single query sees all keys, so the query heads of a group are as good as queries of one head."""
        work = problem.work

        def prepared(Q, K, V):
            return lambda: F.scaled_dot_product_attention(Q.view(work.b, work.kv_heads, -1, work.d), K, V)

        def outputs(returned):
            return [returned.reshape(work.b, work.h, 1, work.d).numpy()]

        return Implementation([prepared(*copy) for copy in self.copies(problem)], outputs)

    def padded(self, problem: AttentionProblem) -> Implementation:
        (Q, K, V), mask = self.copies(problem)[0], torch.from_numpy(problem.padding_mask)
        return Implementation([lambda: F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)], numpy_outputs)

    def each_sequence(self, problem: AttentionProblem) -> Implementation:
        causal = problem.work.causal
        sequences = [[torch.from_numpy(array) for array in sequence] for sequence in problem.sequences()]

        def call():
            return [F.scaled_dot_product_attention(Q, K, V, is_causal=causal) for Q, K, V in sequences]

        return Implementation([call], lambda returned: [pad_sequences([Y.numpy() for Y in returned])])

    def module(self, problem: LayerProblem) -> Implementation:
        work = problem.work
        module = torch.nn.MultiheadAttention(work.d_model, work.h, batch_first=True).eval().requires_grad_(False)
        module.in_proj_weight.copy_(torch.from_numpy(problem.W_qkv))
        module.in_proj_bias.copy_(torch.from_numpy(problem.b_qkv))
        module.out_proj.weight.copy_(torch.from_numpy(problem.W_o))
        module.out_proj.bias.copy_(torch.from_numpy(problem.b_o))
        X = torch.from_numpy(problem.X)
        weights = work.weights
        return Implementation(
            [lambda: module(X, X, X, need_weights=weights, average_attn_weights=False)], numpy_outputs
        )

    def linear_and_sdpa(self, problem: LayerProblem) -> Implementation:
        work = problem.work
        X, W_qkv, b_qkv, W_o, b_o = (
            torch.from_numpy(array) for array in (problem.X, problem.W_qkv, problem.b_qkv, problem.W_o, problem.b_o)
        )

        def call():
            projected = F.linear(X, W_qkv, b_qkv).view(work.b, work.n, 3, work.h, -1)
            Q, K, V = projected.permute(2, 0, 3, 1, 4)
            Y = F.scaled_dot_product_attention(Q, K, V)
            return F.linear(Y.transpose(1, 2).reshape(X.shape), W_o, b_o)

        return Implementation([call], numpy_outputs)
