"""ONNX Runtime: the operators MultiHeadAttention, GroupQueryAttention and Attention of its own domain, and the standard
Attention. Inputs and outputs are bound, so that nothing is copied at a call."""

from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from .implementation import Implementation, Offers, empty_like_output, pad_sequences
from .problem import AttentionProblem, LayerProblem, Problem

OPSET = 24  # the first whose Attention has lengths
IR_VERSION = 10
OWN_DOMAIN = "com.microsoft"
TYPES = {
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int64): TensorProto.INT64,
}

Arrays = Mapping[str, np.ndarray]


def heads_together(array: np.ndarray) -> np.ndarray:
    """(b, h, n, d) to (b, n, h * d), the layout of MultiHeadAttention."""
    b, h, n, d = array.shape
    return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(b, n, h * d)


def heads_apart(array: np.ndarray, h: int) -> np.ndarray:
    b, n, width = array.shape
    return array.reshape(b, n, h, width // h).transpose(0, 2, 1, 3)


def node(op_type: str, inputs: str, outputs: str, own: bool = False, **attributes):
    """Names are separated by spaces; - stands for one that is left out."""

    def split(names):
        return ["" if name == "-" else name for name in names.split()]

    domain = OWN_DOMAIN if own else ""
    return helper.make_node(op_type, split(inputs), split(outputs), domain=domain, **attributes)


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, threads: int):
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3
        # From call to call its threads spin, which is its default; soon after the last one they leave the processors to
        # the library that is timed next.
        self.options.add_session_config_entry("session.intra_op.spin_duration_us", "2000")

    @property
    def version(self) -> str:
        return onnxruntime.__version__

    def offers(self, problem: Problem) -> Offers:
        if isinstance(problem, LayerProblem):
            if problem.work.weights:
                return {"onnxruntime MatMul + Attention": lambda: self.layer(problem, self.standard_layer)}
            return {
                "onnxruntime MatMul + MultiHeadAttention": lambda: self.layer(problem, self.multi_head_layer),
                "onnxruntime fused Attention": lambda: self.layer(problem, self.fused_layer),
            }
        work = problem.work
        grouped = work.kv_heads != work.h
        suffix = ", padded" if work.lengths else ""
        offers: Offers = {f"onnxruntime Attention{suffix}": lambda: self.standard(problem)}
        if not grouped:
            offers[f"onnxruntime MultiHeadAttention{suffix}"] = lambda: self.multi_head(problem)
        if work.n_q == 1:
            offers["onnxruntime GroupQueryAttention"] = lambda: self.decode(problem)
        elif work.causal:
            offers[f"onnxruntime GroupQueryAttention{suffix}"] = lambda: self.prompt(problem)
        if work.lengths:
            offers["onnxruntime MultiHeadAttention, one call a sequence"] = lambda: self.each_sequence(problem)
        return offers

    def session(self, nodes, inputs: Arrays, outputs: Arrays, constants: Arrays | None = None, any_length=False):
        """any_length: dimension 1 of all is the number of tokens, which differs from call to call."""

        def infos(arrays):
            shapes = {name: list(array.shape) for name, array in arrays.items()}
            if any_length:
                shapes = {name: [shape[0], "n", *shape[2:]] for name, shape in shapes.items()}
            return [
                helper.make_tensor_value_info(name, TYPES[array.dtype], shapes[name]) for name, array in arrays.items()
            ]

        initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
        graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), initializers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(OWN_DOMAIN, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return onnxruntime.InferenceSession(model.SerializeToString(), self.options, ["CPUExecutionProvider"])

    def bound(self, session, inputs: Arrays, outputs: Arrays):
        """A call that reads and writes these arrays."""
        binding = session.io_binding()
        # An array that is both, such as a cache, is one value for both.
        values = {
            id(array): onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for array in (*inputs.values(), *outputs.values())
        }
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, values[id(array)])
        for name, array in outputs.items():
            binding.bind_ortvalue_output(name, values[id(array)])
        return lambda: session.run_with_iobinding(binding)

    def standard(self, problem: AttentionProblem) -> Implementation:
        work = problem.work
        Y = empty_like_output(*problem.Q.shape)
        names, causal, hidden = "Q K V", work.causal, {}
        if work.lengths and causal:  # with lengths, its causal queries would be the last ones of each sequence
            names, causal, hidden = "Q K V mask", False, {"mask": problem.padding_mask}
        elif work.lengths:
            names, hidden = "Q K V - - - lengths", {"lengths": np.array(work.lengths, np.int64)}
        copies = [{"Q": Q, "K": K, "V": V, **hidden} for Q, K, V in problem.copies]
        nodes = [node("Attention", names, "Y", is_causal=int(causal))]
        session = self.session(nodes, copies[0], {"Y": Y})
        return Implementation([self.bound(session, copy, {"Y": Y}) for copy in copies], lambda _: [Y])

    def multi_head(self, problem: AttentionProblem) -> Implementation:
        work = problem.work
        copies = [dict(zip("QKV", map(heads_together, copy))) for copy in problem.copies]
        names = "Q K V"
        if work.lengths:
            names = "Q K V - lengths"
            copies[0]["lengths"] = np.array(work.lengths, np.int32)
        Y = empty_like_output(*copies[0]["Q"].shape)
        nodes = [node("MultiHeadAttention", names, "Y", own=True, num_heads=work.h, unidirectional=int(work.causal))]
        session = self.session(nodes, copies[0], {"Y": Y})
        calls = [self.bound(session, copy, {"Y": Y}) for copy in copies]
        return Implementation(calls, lambda _: [heads_apart(Y, work.h)])

    def each_sequence(self, problem: AttentionProblem) -> Implementation:
        work = problem.work
        nodes = [node("MultiHeadAttention", "Q K V", "Y", own=True, num_heads=work.h, unidirectional=int(work.causal))]
        sequences = [dict(zip("QKV", map(heads_together, arrays))) for arrays in problem.sequences()]
        outputs = [empty_like_output(*arrays["Q"].shape) for arrays in sequences]
        session = self.session(nodes, sequences[0], {"Y": outputs[0]}, any_length=True)
        calls = [self.bound(session, arrays, {"Y": Y}) for arrays, Y in zip(sequences, outputs)]

        def call():
            for one in calls:
                one()

        return Implementation([call], lambda _: [pad_sequences([heads_apart(Y, work.h) for Y in outputs])])

    def grouped_query(self, problem: AttentionProblem, copies: list[dict[str, np.ndarray]], caches):
        """caches: the present keys and values that belong to each copy."""
        work = problem.work
        lengths = np.array(work.lengths or [work.n_kv] * work.b, np.int32)
        Y = empty_like_output(*copies[0]["Q"].shape)
        both = [
            (
                {**copy, "last_key": lengths - 1, "total": np.array([work.n_kv], np.int32)},
                {"Y": Y, "K_present": K, "V_present": V},
            )
            for copy, (K, V) in zip(copies, caches)
        ]
        nodes = [
            node(
                "GroupQueryAttention",
                "Q K V K_past V_past last_key total",
                "Y K_present V_present",
                own=True,
                num_heads=work.h,
                kv_num_heads=work.kv_heads,
            )
        ]
        session = self.session(nodes, *both[0])
        return Implementation([self.bound(session, *arrays) for arrays in both], lambda _: [heads_apart(Y, work.h)])

    def prompt(self, problem: AttentionProblem) -> Implementation:
        """All tokens are new: nothing is past, and the cache that it fills is part of what it does."""
        work = problem.work
        none = np.zeros((work.b, work.kv_heads, 0, work.d), np.float32)
        inputs = dict(zip("QKV", map(heads_together, problem.copies[0])))
        caches = [(empty_like_output(*problem.K.shape), empty_like_output(*problem.V.shape))]
        return self.grouped_query(problem, [{**inputs, "K_past": none, "V_past": none}], caches)

    def decode(self, problem: AttentionProblem) -> Implementation:
        """The last key is new and is written into the cache, where it is already."""
        copies = [
            {
                "Q": heads_together(Q),
                "K": heads_together(K[:, :, -1:]),
                "V": heads_together(V[:, :, -1:]),
                "K_past": K,
                "V_past": V,
            }
            for Q, K, V in problem.copies
        ]
        return self.grouped_query(problem, copies, [(K, V) for _, K, V in problem.copies])

    def layer(self, problem: LayerProblem, nodes_of) -> Implementation:
        work = problem.work
        nodes, constants = nodes_of(problem)
        nodes += [node("MatMul", "heads W_o", "projected"), node("Add", "projected b_o", "Y")]
        constants |= {"W_o": np.ascontiguousarray(problem.W_o.T), "b_o": problem.b_o}
        outputs = {"Y": empty_like_output(*problem.X.shape)}
        if work.weights:
            outputs["weights"] = empty_like_output(work.b, work.h, work.n, work.n)
        inputs = {"X": problem.X}
        session = self.session(nodes, inputs, outputs, constants)
        return Implementation([self.bound(session, inputs, outputs)], lambda _: list(outputs.values()))

    def projections(self, problem: LayerProblem):
        constants = {"W_qkv": np.ascontiguousarray(problem.W_qkv.T), "b_qkv": problem.b_qkv}
        nodes = [
            node("MatMul", "X W_qkv", "XW"),
            node("Add", "XW b_qkv", "QKV"),
            node("Split", "QKV", "Q K V", axis=2, num_outputs=3),
        ]
        return nodes, constants

    def multi_head_layer(self, problem: LayerProblem):
        nodes, constants = self.projections(problem)
        return nodes + [node("MultiHeadAttention", "Q K V", "heads", own=True, num_heads=problem.work.h)], constants

    def standard_layer(self, problem: LayerProblem):
        """The operator that can return the weights."""
        nodes, constants = self.projections(problem)
        h = problem.work.h
        attention = node(
            "Attention", "Q K V", "heads - - weights", q_num_heads=h, kv_num_heads=h, qk_matmul_output_mode=3
        )
        return nodes + [attention], constants

    def fused_layer(self, problem: LayerProblem):
        """The operator that projects as well."""
        constants = {"W_qkv": np.ascontiguousarray(problem.W_qkv.T), "b_qkv": problem.b_qkv}
        return [node("Attention", "X W_qkv b_qkv", "heads", own=True, num_heads=problem.work.h)], constants
