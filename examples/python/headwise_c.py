"""headwise's C interface (include/headwise/headwise.h) for ctypes: its structs, and calls that raise.

Needs the shared library and nothing but the standard library; arrays of numpy are taken where numpy is there.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p, sizeof

OK, INVALID_ARGUMENT = 0, 1
BOOLEAN, FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT64 = range(1, 7)
ELEMENTS = {BOOLEAN: ctypes.c_bool, FLOAT32: c_float, FLOAT64: c_double, INT64: c_int64}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("element_type", c_int32), ("rank", c_int32), ("shape", c_int64 * 4),
                ("strides", c_int64 * 4)]


class Work(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in
                ("project_q", "project_k", "project_v", "score", "exponentials", "blend", "project_o")]


class WorkReport(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("useful", Work), ("issued", Work)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("scale", c_double), ("softcap", c_double),
                ("has_scale", c_int32), ("causal", c_int32), ("has_left_window", c_int32),
                ("has_right_window", c_int32), ("left_window", c_int64), ("right_window", c_int64),
                ("query_offset", c_int64),
                *[(name, POINTER(Tensor)) for name in
                  ("query_offsets", "kv_lengths", "mask", "sinks", "alibi", "weights", "mean_weights", "scores",
                   "log_sum_exp")],
                ("score_stage", c_int32), ("reserved", c_int32), ("work", POINTER(WorkReport))]


class LayerShape(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t),
                *[(name, c_int64) for name in ("d_model", "heads", "kv_heads", "d_k", "d_v", "d_model_kv")]]


class LayerWeights(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t),
                *[(name, POINTER(Tensor)) for name in ("W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o")]]


class PackedWeights(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), *[(name, POINTER(Tensor)) for name in ("W_qkv", "W_o", "b_qkv", "b_o")]]


class PastAndPresent(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t),
                *[(name, POINTER(Tensor)) for name in ("past_key", "past_value", "present_key", "present_value")]]


class CacheShape(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t),
                *[(name, c_int64) for name in ("batch", "kv_heads", "capacity", "d_k", "d_v")],
                ("element_type", c_int32), ("reserved", c_int32)]


class CacheViews(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), *[(name, Tensor) for name in ("keys", "values", "lengths", "offsets")]]


def load(path):
    """The shared library, with the types of what is not a status."""
    library = ctypes.CDLL(str(path))
    library.headwise_last_error.restype = c_char_p
    library.headwise_version.restype = c_char_p
    library.headwise_thread_scratch_bytes.restype = c_size_t
    library.headwise_release_thread_scratch.restype = None
    library.headwise_layer_destroy.argtypes = [c_void_p]
    library.headwise_layer_destroy.restype = None
    library.headwise_kv_cache_destroy.argtypes = [c_void_p]
    library.headwise_kv_cache_destroy.restype = None
    return library


def sized(struct, **fields):
    """A struct with its struct_size set, as every struct of the interface asks."""
    return struct(struct_size=sizeof(struct), **fields)


def view(array):
    """A tensor that views a numpy array of float32; keep the array alive."""
    if array.dtype != "float32":
        raise TypeError(f"view: the array is of {array.dtype}, expected float32")
    pad = [0] * (4 - array.ndim)
    strides = [stride // array.itemsize for stride in array.strides]
    return Tensor(data=array.ctypes.data, element_type=FLOAT32, rank=array.ndim,
                  shape=(c_int64 * 4)(*array.shape, *pad), strides=(c_int64 * 4)(*strides, *pad))


class Layer:
    """A layer of multi-head attention over numpy arrays of float32, weights as torch.nn.Linear stores them."""

    def __init__(self, library, heads, weights):
        """weights: W_q, W_k, W_v (h * d_k, d_model), W_o (d_model, h * d_v) and the biases b_q, b_k, b_v, b_o."""
        self._library = library
        self.heads = heads
        self._layer = c_void_p()
        views = {name: ctypes.pointer(view(array)) for name, array in weights.items()}
        shape = sized(LayerShape, d_model=weights["W_q"].shape[1], heads=heads)
        self._check(library.headwise_layer_create_from_linear(
            byref(shape), byref(sized(LayerWeights, **views)), byref(self._layer)))

    def __del__(self):
        self._library.headwise_layer_destroy(self._layer)

    def forward(self, X, Y, weights):
        """X (n, d_model) to Y (n, d_model) and weights (h, n, n), both written in place."""
        options = sized(Options, weights=ctypes.pointer(view(weights[None])))
        self._check(self._library.headwise_layer_forward(
            self._layer, byref(view(X[None])), byref(view(Y[None])), byref(options)))

    def _check(self, status):
        if status != OK:
            raise ValueError(self._library.headwise_last_error().decode())
