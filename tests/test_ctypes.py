"""The C interface called from Python's ctypes, with nothing but the standard library.

usage: test_ctypes.py LIBRARY
"""

import ctypes
import math
import sys
import threading
import unittest
from ctypes import byref, c_char_p, c_int64, c_size_t, c_void_p
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "python"))
from headwise_c import (BOOLEAN, ELEMENTS, FLOAT32, FLOAT64, INT64, INVALID_ARGUMENT, OK, CacheShape, CacheViews,
                        LayerShape, LayerWeights, Options, PastAndPresent, Tensor, WorkReport, load, sized)


def tensor(values, shape, element_type=FLOAT32):
    """A tensor and the array it views; keep both."""
    array = (ELEMENTS[element_type] * len(values))(*values)
    made = Tensor()
    status = headwise.headwise_dense_tensor(byref(made), array, element_type, len(shape),
                                            (c_int64 * len(shape))(*shape))
    assert status == OK, headwise.headwise_last_error()
    return made, array


class CtypesTest(unittest.TestCase):
    def setUp(self):
        # One query, keys 0 and ln 3: weights 1/4 and 3/4. Values 4 and 8.
        self.Q, self.q = tensor([1], [1, 1, 1, 1])
        self.K, self.k = tensor([0, math.log(3)], [1, 1, 2, 1])
        self.V, self.v = tensor([4, 8], [1, 1, 2, 1])
        self.Y, self.y = tensor([-1], [1, 1, 1, 1])

    def attend(self, options=None):
        given = None if options is None else byref(options)
        return headwise.headwise_attention(byref(self.Q), byref(self.K), byref(self.V), byref(self.Y), given)

    def test_version(self):
        self.assertRegex(headwise.headwise_version().decode(), r"^\d+\.\d+\.\d+$")

    def test_attention(self):
        self.assertEqual(self.attend(), OK)
        self.assertAlmostEqual(self.y[0], 7, places=5)

    def test_struct_size_alone_gives_the_defaults(self):
        self.assertEqual(self.attend(sized(Options)), OK)
        self.assertAlmostEqual(self.y[0], 7, places=5)

    def test_options(self):
        weights, w = tensor([-1, -1], [1, 1, 1, 2])
        lse, s = tensor([-1], [1, 1, 1])
        mask, _m = tensor([True, False], [2], BOOLEAN)
        work = sized(WorkReport)
        options = sized(Options, weights=ctypes.pointer(weights), log_sum_exp=ctypes.pointer(lse),
                        work=ctypes.pointer(work))
        self.assertEqual(self.attend(options), OK)
        self.assertAlmostEqual(w[1], 0.75, places=6)
        self.assertAlmostEqual(s[0], math.log(4), places=6)
        self.assertEqual(work.useful.score, 2)
        options.mask = ctypes.pointer(mask)
        self.assertEqual(self.attend(options), OK)
        self.assertAlmostEqual(self.y[0], 4, places=6)
        self.assertEqual(w[1], 0)

    def test_float64(self):
        Q, _q = tensor([1], [1], FLOAT64)
        V, _v = tensor([3], [1], FLOAT64)
        Y, y = tensor([-1], [1], FLOAT64)
        self.assertEqual(headwise.headwise_attention(byref(Q), byref(Q), byref(V), byref(Y), None), OK)
        self.assertEqual(y[0], 3)

    def test_ragged_attention(self):
        # Two sequences, of one and two keys, each with one query: 4, and 8 and 12 with weights 1/4 and 3/4.
        Q, _q = tensor([1, 1], [1, 2, 1])
        K, _k = tensor([0, 0, math.log(3)], [1, 3, 1])
        V, _v = tensor([4, 8, 12], [1, 3, 1])
        Y, y = tensor([-1, -1], [1, 2, 1])
        q_starts, _s = tensor([0, 1, 2], [3], INT64)
        kv_starts, _t = tensor([0, 1, 3], [3], INT64)
        self.assertEqual(headwise.headwise_ragged_attention(byref(Q), byref(K), byref(V), byref(Y), byref(q_starts),
                                                            byref(kv_starts), None), OK)
        self.assertAlmostEqual(y[0], 4, places=5)
        self.assertAlmostEqual(y[1], 11, places=5)

    def test_attention_with_past(self):
        past_key, _pk = tensor([0], [1, 1, 1, 1])
        past_value, _pv = tensor([4], [1, 1, 1, 1])
        K, _k = tensor([math.log(3)], [1, 1, 1, 1])
        V, _v = tensor([8], [1, 1, 1, 1])
        present_key, _ck = tensor([-1, -1], [1, 1, 2, 1])
        present_value, pv = tensor([-1, -1], [1, 1, 2, 1])
        cache = sized(PastAndPresent, past_key=ctypes.pointer(past_key), past_value=ctypes.pointer(past_value),
                      present_key=ctypes.pointer(present_key), present_value=ctypes.pointer(present_value))
        self.assertEqual(headwise.headwise_attention_with_past(byref(self.Q), byref(K), byref(V), byref(cache),
                                                               byref(self.Y), byref(sized(Options, causal=1))), OK)
        self.assertAlmostEqual(self.y[0], 7, places=5)
        self.assertEqual(list(pv), [4, 8])

    def test_kv_cache(self):
        cache = c_void_p()
        shape = sized(CacheShape, batch=1, kv_heads=1, capacity=2, d_k=1, element_type=FLOAT32)
        self.assertEqual(headwise.headwise_kv_cache_create(byref(shape), byref(cache)), OK)
        self.addCleanup(headwise.headwise_kv_cache_destroy, cache)
        self.assertEqual(headwise.headwise_kv_cache_append(cache, byref(self.K), byref(self.V), None), OK)
        views = sized(CacheViews)
        self.assertEqual(headwise.headwise_kv_cache_get_views(cache, byref(views)), OK)
        options = sized(Options, kv_lengths=ctypes.pointer(views.lengths))
        self.assertEqual(headwise.headwise_attention(byref(self.Q), byref(views.keys), byref(views.values),
                                                     byref(self.Y), byref(options)), OK)
        self.assertAlmostEqual(self.y[0], 7, places=5)
        self.assertEqual(headwise.headwise_kv_cache_append(cache, byref(self.K), byref(self.V), None),
                         INVALID_ARGUMENT)
        self.assertIn(b"2 more tokens for item 0", headwise.headwise_last_error())

    def test_layer(self):
        zero, _z = tensor([0, 0, 0, 0], [2, 2])
        value, _v = tensor([1, 0, 2, 1], [2, 2])
        bias, _b = tensor([10, 20], [2])
        X, _x = tensor([1, 2, 3, 4], [2, 2])
        Y, y = tensor([-1] * 4, [2, 2])
        weights = sized(LayerWeights, W_q=ctypes.pointer(zero), W_k=ctypes.pointer(zero), W_v=ctypes.pointer(value),
                        W_o=ctypes.pointer(value), b_o=ctypes.pointer(bias))
        layer = c_void_p()
        shape = sized(LayerShape, d_model=2, heads=2)
        self.assertEqual(headwise.headwise_layer_create_from_linear(byref(shape), byref(weights), byref(layer)), OK)
        self.addCleanup(headwise.headwise_layer_destroy, layer)
        # mean(X) = (2, 3); (2, 7) after W_v, (2, 11) after W_o
        self.assertEqual(headwise.headwise_layer_forward(layer, byref(X), byref(Y), None), OK)
        for got, want in zip(y, [12, 31, 12, 31]):
            self.assertAlmostEqual(got, want, places=4)

    def test_errors_are_named_and_per_thread(self):
        self.Y.rank = 9
        self.assertEqual(self.attend(), INVALID_ARGUMENT)
        self.assertIn(b"Y is of rank 9", headwise.headwise_last_error())
        self.assertEqual(self.y[0], -1)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(headwise.headwise_last_error()))
        thread.start()
        thread.join()
        self.assertEqual(seen, [b""])

    def test_scratch(self):
        self.assertEqual(self.attend(), OK)
        headwise.headwise_release_thread_scratch()
        self.assertEqual(headwise.headwise_thread_scratch_bytes(), 0)

    def test_targets(self):
        count = c_size_t()
        self.assertEqual(headwise.headwise_available_targets(None, c_size_t(0), byref(count)), OK)
        names = (c_char_p * count.value)()
        self.assertEqual(headwise.headwise_available_targets(names, count, byref(count)), OK)
        active = c_char_p()
        self.assertEqual(headwise.headwise_active_target(byref(active)), OK)
        self.assertIn(active.value, list(names))


if __name__ == "__main__":
    headwise = load(sys.argv.pop())
    unittest.main()
