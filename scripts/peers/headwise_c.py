"""headwise's C interface (include/headwise/headwise.h) in ctypes, with nothing but the standard library."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p, sizeof

OK, INVALID_ARGUMENT = 0, 1
BOOLEAN, FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT64 = range(1, 7)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("element_type", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * 4),
        ("strides", c_int64 * 4),
    ]


class Work(ctypes.Structure):
    _fields_ = [
        (name, c_int64)
        for name in ("project_q", "project_k", "project_v", "score", "exponentials", "blend", "project_o")
    ]


class WorkReport(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("useful", Work), ("issued", Work)]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("scale", c_double),
        ("softcap", c_double),
        ("has_scale", c_int32),
        ("causal", c_int32),
        ("has_left_window", c_int32),
        ("has_right_window", c_int32),
        ("left_window", c_int64),
        ("right_window", c_int64),
        ("query_offset", c_int64),
        *[
            (name, POINTER(Tensor))
            for name in (
                "query_offsets",
                "kv_lengths",
                "mask",
                "sinks",
                "alibi",
                "weights",
                "mean_weights",
                "scores",
                "log_sum_exp",
            )
        ],
        ("score_stage", c_int32),
        ("reserved", c_int32),
        ("work", POINTER(WorkReport)),
    ]


class LayerShape(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, c_int64) for name in ("d_model", "heads", "kv_heads", "d_k", "d_v", "d_model_kv")],
    ]


class LayerWeights(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, POINTER(Tensor)) for name in ("W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o")],
    ]


class PackedWeights(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, POINTER(Tensor)) for name in ("W_qkv", "W_o", "b_qkv", "b_o")],
    ]


def sized(struct, **fields):
    """A struct with its struct_size set."""
    return struct(struct_size=sizeof(struct), **fields)


def load(path):
    library = ctypes.CDLL(path)
    library.headwise_last_error.restype = c_char_p
    library.headwise_version.restype = c_char_p
    library.headwise_thread_scratch_bytes.restype = c_size_t
    library.headwise_release_thread_scratch.restype = None
    library.headwise_layer_destroy.argtypes = [c_void_p]
    library.headwise_layer_destroy.restype = None
    return library
