// headwise: the C interface. C99 and later, C++ and every language that calls C.
//
// Each call does what the C++ call of the same name does; <headwise/attention.hpp>, <headwise/kv_cache.hpp> and
// <headwise/multi_head_attention.hpp> have the equations and say which key takes part where.
//
//     const int64_t shape[4] = {1, h, n, d};
//     headwise_tensor Q, K, V, Y;
//     headwise_dense_tensor(&Q, q, HEADWISE_FLOAT32, 4, shape);  // and K, V, Y
//     headwise_attention_options options;
//     headwise_attention_options_init(&options, sizeof options);
//     options.causal = 1;
//     if (headwise_attention(&Q, &K, &V, &Y, &options) != HEADWISE_OK) fputs(headwise_last_error(), stderr);
//
// Structs that may grow start with struct_size, which the caller sets to sizeof of the struct. Later versions add
// fields at the end, and a field of zero means what the call did before it existed; so a program and a library of
// different versions work together, and a struct that is all zero but for struct_size has the defaults. A program that
// sets a field this library does not know gets HEADWISE_INVALID_ARGUMENT.
//
// No call prints, aborts or throws. Every call may be made from any thread; attention and forward use oneTBB's threads,
// one for each processor that the process may run on. The library keeps no pointer that it was given once the call has
// returned. Once the threads are warm a successful attention or forward allocates nothing. In all of this attention
// stands for every call that has it in its name.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a call returns. Where it is not HEADWISE_OK nothing has been written to any output, except that after
/// HEADWISE_OUT_OF_MEMORY and HEADWISE_INTERNAL_ERROR outputs of attention and forward are unspecified.
typedef int32_t headwise_status;
enum {
    HEADWISE_OK = 0,
    HEADWISE_INVALID_ARGUMENT = 1,  ///< headwise_last_error() names the argument, what came and what was expected
    HEADWISE_OUT_OF_MEMORY = 2,
    HEADWISE_INTERNAL_ERROR = 3  ///< any other error, such as one of the operating system
};

/// Why the last call of this thread that failed did so, in English; "" if none did. A call that succeeds does not
/// change it. The text belongs to the library, is cut at 511 bytes and is valid until this thread's next failing call.
const char* headwise_last_error(void);

/// "major.minor.patch" of the library.
const char* headwise_version(void);

// ---------------------------------------------------------------------------------------------------------- targets

/// The instruction sets ("sse2", "avx2", "avx512", "neon") that are compiled in and that this processor runs, best
/// last. Writes the first `capacity` names to names (which may be NULL where capacity is 0) and their number to *count,
/// which may exceed capacity. The names belong to the library and live as long as it does.
headwise_status headwise_available_targets(const char** names, size_t capacity, size_t* count);

/// The name of the instruction set that calls use: the best one, unless the environment variable HEADWISE_TARGET or
/// headwise_set_active_target said otherwise. HEADWISE_INVALID_ARGUMENT where HEADWISE_TARGET names one that is unknown
/// or that this processor lacks; attention and forward fail in the same way then.
headwise_status headwise_active_target(const char** name);

/// Makes later calls of all threads use the instruction set `name`. HEADWISE_INVALID_ARGUMENT where it is not
/// available.
headwise_status headwise_set_active_target(const char* name);

// ---------------------------------------------------------------------------------------------------------- tensors

typedef int32_t headwise_element_type;
enum {
    HEADWISE_BOOLEAN = 1,  ///< C's bool: one byte, 0 or 1. Masks only
    HEADWISE_FLOAT32 = 2,
    HEADWISE_FLOAT64 = 3,
    HEADWISE_BFLOAT16 = 4,  ///< the upper half of a float32; computed in float32
    HEADWISE_FLOAT16 = 5,  ///< IEEE binary16; computed in float32
    HEADWISE_INT64 = 6  ///< lengths and offsets only
};

/// A view of memory that belongs to the caller: element (i0, i1, ...) is data[i0 * strides[0] + i1 * strides[1] + ...].
///
/// Strides are in elements; those of inputs may be 0 (broadcast) or negative. Of shape and strides the first `rank`
/// entries count. A tensor of lower rank than an argument has is taken with leading dimensions of 1. data is aligned
/// for its element type, and may be NULL where an extent is 0; the data of inputs is not written. This struct does not
/// grow.
typedef struct headwise_tensor {
    void* data;
    headwise_element_type element_type;
    int32_t rank;  ///< 1 to 4
    int64_t shape[4];
    int64_t strides[4];
} headwise_tensor;

/// Fills *tensor with a dense row-major view; shape has `rank` extents.
/// HEADWISE_INVALID_ARGUMENT for null pointers (data may be), an unknown element type and a rank other than 1 to 4.
headwise_status headwise_dense_tensor(headwise_tensor* tensor, void* data, headwise_element_type element_type,
                                      int32_t rank, const int64_t* shape);

// -------------------------------------------------------------------------------------------------------- attention

/// Arithmetic work by stage: multiply-adds, and for `exponentials` exponentials. This struct does not grow.
typedef struct headwise_work {
    int64_t project_q;
    int64_t project_k;
    int64_t project_v;
    int64_t score;
    int64_t exponentials;
    int64_t blend;
    int64_t project_o;
} headwise_work;

/// Work that calls add to. `useful` is the work on pairs that take part; `issued` has the padding of vectors and tiles
/// too.
typedef struct headwise_work_report {
    size_t struct_size;
    headwise_work useful;
    headwise_work issued;
} headwise_work_report;

/// Which scores headwise_attention_options.scores receives; ONNX Attention's qk_matmul_output_mode.
typedef int32_t headwise_score_stage;
enum {
    HEADWISE_SCORES_SCALED = 0,  ///< scale * q.k, for every pair
    HEADWISE_SCORES_SOFTCAPPED = 1,  ///< after the soft cap
    HEADWISE_SCORES_BIASED = 2,  ///< what the softmax reads; -inf for keys that take no part
    HEADWISE_SCORES_WEIGHTS = 3  ///< the softmax's result
};

/// Options of attention, headwise::AttentionOptions. Zero in every field but struct_size gives the defaults. Fields in
/// which 0 is not the default have a flag: without it the default holds, and a number other than 0 in the field is an
/// error, since its flag was forgotten. (A 0 without its flag is the default.) Flags: not 0 is true. A NULL tensor is
/// one not given. "Compute type" is float32, or float64 for float64 tensors.
typedef struct headwise_attention_options {
    size_t struct_size;
    double scale;  ///< with has_scale: factor of q.k, finite, 0 and negative too. Default: 1 / sqrt(d_k)
    double softcap;  ///< c > 0: scores become c * tanh(score / c). 0: none
    int32_t has_scale;
    int32_t causal;  ///< query i sees keys up to i + query_offset
    int32_t has_left_window;
    int32_t has_right_window;
    int64_t left_window;  ///< with has_left_window: positions that a query sees to its left; 0: none. -1: unbounded
    int64_t right_window;  ///< with has_right_window: the same to its right
    int64_t query_offset;  ///< position of query 0 among the keys; may be negative

    const headwise_tensor* query_offsets;  ///< int64 (b); used instead of query_offset, which must be 0 then
    const headwise_tensor* kv_lengths;  ///< int64 (b): valid keys of each batch item, each 0 .. n_kv
    /// boolean (1 takes part) or additive (float32 or the element type of Q), rank 1 to 4, broadcast to
    /// (b, h, n_q, n_kv); a last dimension shorter than n_kv, and not 1, leaves out the keys past it
    const headwise_tensor* mask;
    const headwise_tensor* sinks;  ///< compute type (h): one extra logit for each head
    const headwise_tensor* alibi;  ///< compute type (h): slope of each head, see headwise_alibi_slopes

    const headwise_tensor* weights;  ///< output, element type (b, h, n_q, n_kv): the softmax's weights
    const headwise_tensor* mean_weights;  ///< output, element type (b, n_q, n_kv): their mean over the heads
    const headwise_tensor* scores;  ///< output, element type (b, h, n_q, n_kv): the scores at score_stage
    const headwise_tensor* log_sum_exp;  ///< output, compute type (b, h, n_q)
    headwise_score_stage score_stage;
    int32_t reserved;  ///< 0

    headwise_work_report* work;  ///< the work of the call is added here where given and the call succeeds
} headwise_attention_options;

/// Sets *options to the defaults, struct_size included. Give sizeof *options.
headwise_status headwise_attention_options_init(headwise_attention_options* options, size_t struct_size);

/// Y = softmax(scale * Q K^T) V, head by head.
///
/// Q (b, h, n_q, d_k), K (b, h_kv, n_kv, d_k), V (b, h_kv, n_kv, d_v), Y (b, h, n_q, d_v), all of one element type:
/// float32, float64, bfloat16 or float16. h_kv divides h. Any strides; b, n_q and n_kv may be 0. Outputs must overlap
/// neither an input nor one another. options may be NULL for the defaults.
headwise_status headwise_attention(const headwise_tensor* Q, const headwise_tensor* K, const headwise_tensor* V,
                                   const headwise_tensor* Y, const headwise_attention_options* options);

/// headwise_attention on a batch of b sequences of any lengths, packed one after another: no sequence sees another.
///
/// Q (h, tokens, d_k), K (h_kv, kv_tokens, d_k), V (h_kv, kv_tokens, d_v), Y (h, tokens, d_v). Sequence i has the query
/// tokens q_starts[i] to q_starts[i + 1] - 1, and the key tokens that kv_starts tells in the same way: both int64
/// (b + 1), first 0, not falling, the last at most the number of tokens. Rows of Y that belong to no sequence stay as
/// they are. Positions start at 0 in each sequence; options->query_offsets has one for each. Of the outputs on request
/// there is log_sum_exp, as (1, h, tokens); weights, scores, mask and kv_lengths are errors.
headwise_status headwise_ragged_attention(const headwise_tensor* Q, const headwise_tensor* K, const headwise_tensor* V,
                                          const headwise_tensor* Y, const headwise_tensor* q_starts,
                                          const headwise_tensor* kv_starts, const headwise_attention_options* options);

/// Writes ALiBi's slopes for `heads` heads, in float32, to slopes[0 .. heads - 1].
/// HEADWISE_INVALID_ARGUMENT for heads below 1.
headwise_status headwise_alibi_slopes(int64_t heads, float* slopes);

// ------------------------------------------------------------------------------- keys and values from call to call

/// The tensors of an attention whose cache the caller keeps, as ONNX Attention has it, of Q's element type: present =
/// past followed by the new tokens. The present tensors are outputs and overlap nothing else.
typedef struct headwise_past_and_present {
    size_t struct_size;
    const headwise_tensor* past_key;  ///< (b, h_kv, n_past, d_k); n_past may be 0, or both pasts be NULL
    const headwise_tensor* past_value;  ///< (b, h_kv, n_past, d_v)
    const headwise_tensor* present_key;  ///< (b, h_kv, n_past + n_new, d_k)
    const headwise_tensor* present_value;  ///< (b, h_kv, n_past + n_new, d_v)
} headwise_past_and_present;

/// headwise_attention with a past: K (b, h_kv, n_new, d_k) and V (b, h_kv, n_new, d_v) are the new keys and values.
/// Fills the present tensors, then attends over them, query i standing at position n_past + i. Mask and outputs on
/// request cover n_past + n_new keys; query_offset, query_offsets and kv_lengths are errors.
headwise_status headwise_attention_with_past(const headwise_tensor* Q, const headwise_tensor* K,
                                             const headwise_tensor* V, const headwise_past_and_present* cache,
                                             const headwise_tensor* Y, const headwise_attention_options* options);

/// A cache that the library keeps: room for `capacity` tokens of each batch item, each item having a length of its own.
///
///     headwise_kv_cache_append(cache, &K, &V, NULL);  // the tokens of Q are among them
///     headwise_kv_cache_views views = {.struct_size = sizeof views};
///     headwise_kv_cache_get_views(cache, &views);
///     headwise_attention_options options = {.struct_size = sizeof options, .causal = 1,
///                                           .query_offsets = &views.offsets, .kv_lengths = &views.lengths};
///     headwise_attention(&Q, &views.keys, &views.values, &Y, &options);
///
/// While an append or a reset runs no other call may use the cache or its views.
typedef struct headwise_kv_cache headwise_kv_cache;

/// The sizes of a cache.
typedef struct headwise_kv_cache_shape {
    size_t struct_size;
    int64_t batch;  ///< 0 or more
    int64_t kv_heads;  ///< h_kv, 1 or more
    int64_t capacity;  ///< tokens of an item, 0 or more
    int64_t d_k;  ///< 1 or more
    int64_t d_v;  ///< 0 stands for d_k
    headwise_element_type element_type;  ///< float32, float64, bfloat16 or float16
    int32_t reserved;  ///< 0
} headwise_kv_cache_shape;

/// What a cache holds, as arguments of headwise_attention. The memory is the cache's and is not to be written.
typedef struct headwise_kv_cache_views {
    size_t struct_size;
    headwise_tensor keys;  ///< (batch, kv_heads, m, d_k), m being the length of the longest item
    headwise_tensor values;  ///< (batch, kv_heads, m, d_v); tokens past an item's length are unspecified
    headwise_tensor lengths;  ///< int64 (batch): tokens that each item holds, for kv_lengths
    headwise_tensor offsets;  ///< int64 (batch): those it held before the last append, for query_offsets
} headwise_kv_cache_views;

/// Makes an empty cache, its memory included, and stores it in *cache; release it with headwise_kv_cache_destroy. Where
/// the call fails *cache is set to NULL, unless `cache` itself is.
headwise_status headwise_kv_cache_create(const headwise_kv_cache_shape* shape, headwise_kv_cache** cache);

/// Releases the cache and the memory of its views, which no other call may be using. NULL: nothing happens.
void headwise_kv_cache_destroy(headwise_kv_cache* cache);

/// The cache's sizes with d_v filled in. Set shape->struct_size before.
headwise_status headwise_kv_cache_get_shape(const headwise_kv_cache* cache, headwise_kv_cache_shape* shape);

/// Adds K (batch, kv_heads, n, d_k) and V (batch, kv_heads, n, d_v), in the cache's element type, behind what each item
/// holds; of item i only the first counts[i] tokens, 0 to n, where counts, int64 (batch), is not NULL. Allocates
/// nothing. HEADWISE_INVALID_ARGUMENT, with the cache unchanged, where an item would exceed the capacity, too.
headwise_status headwise_kv_cache_append(headwise_kv_cache* cache, const headwise_tensor* K, const headwise_tensor* V,
                                         const headwise_tensor* counts);

/// Fills *views, whose struct_size is set before. Their extents are those of now; their memory stays until the cache is
/// destroyed.
headwise_status headwise_kv_cache_get_views(const headwise_kv_cache* cache, headwise_kv_cache_views* views);

/// Makes every item empty again.
headwise_status headwise_kv_cache_reset(headwise_kv_cache* cache);

/// Makes one item, 0 to batch - 1, empty again.
headwise_status headwise_kv_cache_reset_item(headwise_kv_cache* cache, int64_t item);

// ------------------------------------------------------------------------------------ the multi-head attention layer

/// A layer whose weights were packed for the kernels. It does not change: many threads may run forward at once.
typedef struct headwise_layer headwise_layer;

/// The sizes of a layer. 0 stands for the default.
typedef struct headwise_layer_shape {
    size_t struct_size;
    int64_t d_model;
    int64_t heads;  ///< h
    int64_t kv_heads;  ///< h_kv, divides heads; default: heads
    int64_t d_k;  ///< default: d_model / heads, which must divide
    int64_t d_v;  ///< default: d_k
    int64_t d_model_kv;  ///< width of X_kv; default: d_model
} headwise_layer_shape;

/// The weights of a layer, all of one element type: float32 or float64. Biases may be NULL. Any strides.
///
/// Each comment gives two shapes: per head, for headwise_layer_create, and as frameworks store it (y = x W^T + b,
/// torch.nn.Linear), for headwise_layer_create_from_linear.
typedef struct headwise_layer_weights {
    size_t struct_size;
    const headwise_tensor* W_q;  ///< (h, d_model, d_k)        | (h * d_k, d_model)
    const headwise_tensor* W_k;  ///< (h_kv, d_model_kv, d_k)  | (h_kv * d_k, d_model_kv)
    const headwise_tensor* W_v;  ///< (h_kv, d_model_kv, d_v)  | (h_kv * d_v, d_model_kv)
    const headwise_tensor* W_o;  ///< (h * d_v, d_model)       | (d_model, h * d_v)
    const headwise_tensor* b_q;  ///< (h, d_k)                 | (h * d_k)
    const headwise_tensor* b_k;  ///< (h_kv, d_k)              | (h_kv * d_k)
    const headwise_tensor* b_v;  ///< (h_kv, d_v)              | (h_kv * d_v)
    const headwise_tensor* b_o;  ///< (d_model)                | (d_model)
} headwise_layer_weights;

/// Weights with Q, K and V stacked in one matrix, as torch.nn.MultiheadAttention has them. Biases may be NULL.
typedef struct headwise_packed_weights {
    size_t struct_size;
    const headwise_tensor* W_qkv;  ///< (h * d_k + h_kv * d_k + h_kv * d_v, d_model)
    const headwise_tensor* W_o;  ///< (d_model, h * d_v)
    const headwise_tensor* b_qkv;  ///< (h * d_k + h_kv * d_k + h_kv * d_v)
    const headwise_tensor* b_o;  ///< (d_model)
} headwise_packed_weights;

/// Makes a layer of copies of the weights and stores it in *layer; release it with headwise_layer_destroy. The element
/// type is that of W_q (W_qkv). Where the call fails *layer is set to NULL, unless `layer` itself is.
headwise_status headwise_layer_create(const headwise_layer_shape* shape, const headwise_layer_weights* weights,
                                      headwise_layer** layer);
headwise_status headwise_layer_create_from_linear(const headwise_layer_shape* shape,
                                                  const headwise_layer_weights* weights, headwise_layer** layer);
headwise_status headwise_layer_create_from_packed(const headwise_layer_shape* shape,
                                                  const headwise_packed_weights* weights, headwise_layer** layer);

/// Releases the layer, which no other call may be using. NULL: nothing happens.
void headwise_layer_destroy(headwise_layer* layer);

/// The layer's sizes with defaults filled in. Set shape->struct_size before.
headwise_status headwise_layer_get_shape(const headwise_layer* layer, headwise_layer_shape* shape);

/// Self-attention: X (b, n, d_model) to Y (b, n, d_model), in the layer's element type. options may be NULL.
headwise_status headwise_layer_forward(const headwise_layer* layer, const headwise_tensor* X, const headwise_tensor* Y,
                                       const headwise_attention_options* options);

/// Cross-attention: queries from X (b, n, d_model), keys and values from X_kv (b, n_kv, d_model_kv).
headwise_status headwise_layer_forward_cross(const headwise_layer* layer, const headwise_tensor* X,
                                             const headwise_tensor* X_kv, const headwise_tensor* Y,
                                             const headwise_attention_options* options);

// ---------------------------------------------------------------------------------------------------------- scratch

/// Bytes of scratch memory that this thread holds for later calls.
size_t headwise_thread_scratch_bytes(void);

/// Gives this thread's scratch memory back; later calls allocate again.
void headwise_release_thread_scratch(void);

#ifdef __cplusplus
}
#endif
