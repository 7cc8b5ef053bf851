#include "sweep/staged_layer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "packed_matrix.hpp"

namespace headwise::sweep {
namespace {

constexpr double log2_e = 1.4426950408889634074;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int most_lanes = 16;
constexpr int most_panel_tokens = 4 * most_lanes;

}  // namespace

std::string_view name(Stage stage)
{
    constexpr std::string_view names[stage_count] = {"transpose", "project_q", "project_k", "project_v",
                                                     "score",     "softmax",   "blend",     "project_o"};
    return names[static_cast<int>(stage)];
}

Work stage_work(const Work& work, Stage stage)
{
    switch (stage) {
        case Stage::transpose: return {};
        case Stage::project_q: return {.project_q = work.project_q};
        case Stage::project_k: return {.project_k = work.project_k};
        case Stage::project_v: return {.project_v = work.project_v};
        case Stage::score: return {.score = work.score};
        case Stage::softmax: return {.exponentials = work.exponentials};
        case Stage::blend: return {.blend = work.blend};
        case Stage::project_o: return {.project_o = work.project_o};
    }
    return {};
}

float* AlignedBuffer::reserve(std::int64_t numbers)
{
    if (numbers > size_) {
        const std::size_t bytes = (static_cast<std::size_t>(numbers) * sizeof(float) + 63) / 64 * 64;
        data_.reset();
        data_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
        if (data_ == nullptr) throw std::bad_alloc();
        std::fill_n(data_.get(), bytes / sizeof(float), 0.0f);
        size_ = numbers;
    }
    return data_.get();
}

void AlignedBuffer::Free::operator()(float* data) const
{
    std::free(data);
}

bool StagedLayer::affordable(const Shape& shape)
{
    constexpr double most_bytes = 0x1p31;
    const auto n = static_cast<double>(shape.n);
    return static_cast<double>(shape.h) * n * (n + most_panel_tokens) * sizeof(float) <= most_bytes;
}

void StagedLayer::prepare(const LayerProblem<float>& problem, const KernelTable<float>& table)
{
    problem_ = &problem;
    table_ = &table;
    shape_ = problem.shape;
    const std::int64_t W = table.panel_tokens();
    panels_ = (shape_.n + W - 1) / W;
    padded_n_ = panels_ * W;

    const LayerWeights<float> weights = problem.weights();
    const double scale = 1 / std::sqrt(static_cast<double>(shape_.d_k()));
    pack(weights.W_q, scale * log2_e, W_q_);
    pack(weights.W_k, 1, W_k_);
    pack(weights.W_v, 1, W_v_);
    pack(weights.W_o, 1, W_o_);

    const std::int64_t numbers = shape_.d_model * padded_n_;
    for (AlignedBuffer* buffer : {&X_panels_, &Q_panels_, &K_, &V_, &heads_, &Y_panels_}) buffer->reserve(numbers);
    projected_.reserve(shape_.d_model * W);
    scores_.reserve(shape_.h * padded_n_ * shape_.n);
    maxima_.reserve(shape_.h * padded_n_);
    sums_.reserve(shape_.h * padded_n_);
}

/// Strips of W^T, rows of all heads one after the other: row head * width + j is column j of W[head].
void StagedLayer::pack(const TensorView<const float, 3>& W, double factor, AlignedBuffer& packed) const
{
    const std::int64_t depth = W.shape[1], width = W.shape[2], rows = W.shape[0] * width;
    const std::int64_t strips = (rows + strip_rows - 1) / strip_rows;
    float* to = packed.reserve(strips * strip_rows * depth);
    for (std::int64_t strip = 0; strip < strips; ++strip)
        for (std::int64_t k = 0; k < depth; ++k)
            for (std::int64_t m = 0; m < strip_rows; ++m) {
                const std::int64_t row = strip * strip_rows + m;
                *to++ = row < rows ? static_cast<float>(factor * W(row / width, k, row % width)) : 0;
            }
}

StagedLayer::Panel StagedLayer::panel(std::int64_t index) const
{
    const std::int64_t W = table_->panel_tokens();
    const std::int64_t tokens = std::min(W, shape_.n - index * W);
    const std::int64_t vectors = (tokens + table_->lanes - 1) / table_->lanes;
    return {index * W, tokens, static_cast<int>(vectors), vectors * table_->lanes};
}

template <class Body>
void StagedLayer::for_each_panel(const Body& body) const
{
    for (std::int64_t index = 0; index < panels_; ++index) body(panel(index));
}

float* StagedLayer::scores_of(std::int64_t head, const Panel& panel) const
{
    return scores_.data() + (head * padded_n_ + panel.first_token) * shape_.n;
}

float* StagedLayer::row_of(const AlignedBuffer& numbers, std::int64_t head, const Panel& panel) const
{
    return numbers.data() + head * padded_n_ + panel.first_token;
}

StagedLayer::Seconds StagedLayer::run(float* Y)
{
    using Clock = std::chrono::steady_clock;
    Seconds seconds{};
    auto before = Clock::now();
    const auto ends = [&](Stage stage) {
        const auto now = Clock::now();
        seconds[static_cast<std::size_t>(stage)] += std::chrono::duration<double>(now - before).count();
        before = now;
    };
    load_input();
    ends(Stage::transpose);
    project_queries();
    ends(Stage::project_q);
    project_keys_or_values(W_k_, K_);
    ends(Stage::project_k);
    project_keys_or_values(W_v_, V_);
    ends(Stage::project_v);
    score();
    ends(Stage::score);
    softmax();
    ends(Stage::softmax);
    blend();
    ends(Stage::blend);
    project_output();
    ends(Stage::project_o);
    store_output(Y);
    ends(Stage::transpose);
    return seconds;
}

void StagedLayer::load_input()
{
    for_each_panel([&](const Panel& p) {
        // The kernel only reads rows on the way in; its argument serves both ways.
        float* rows = const_cast<float*>(problem_->X.data()) + p.first_token * shape_.d_model;
        table_->rows_to_panel({X_panels_.data() + p.first_token * shape_.d_model, rows, shape_.d_model, 1, p.tokens,
                               shape_.d_model, p.vectors});
    });
}

bool StagedLayer::is_far(const Panel& panel) const
{
    return PackedMatrix<float>::is_far(shape_.d_model, shape_.d_model, panel.vectors);
}

void StagedLayer::project_queries()
{
    for_each_panel([&](const Panel& p) {
        const std::int64_t at = p.first_token * shape_.d_model;
        table_->project({W_q_.data(), nullptr, X_panels_.data() + at, Q_panels_.data() + at, shape_.d_model,
                         shape_.d_model, p.vectors, is_far(p), p.tokens});
    });
}

/// Scoring and blending read rows of K and V, so each panel is turned into rows at once, while it is in the cache.
void StagedLayer::project_keys_or_values(const AlignedBuffer& weights, AlignedBuffer& rows)
{
    const std::int64_t d_k = shape_.d_k();
    for_each_panel([&](const Panel& p) {
        table_->project({weights.data(), nullptr, X_panels_.data() + p.first_token * shape_.d_model, projected_.data(),
                         shape_.d_model, shape_.d_model, p.vectors, is_far(p), p.tokens});
        for (std::int64_t head = 0; head < shape_.h; ++head)
            table_->panel_to_rows({projected_.data() + head * d_k * p.width,
                                   rows.data() + (head * shape_.n + p.first_token) * d_k, d_k, 1, p.tokens, d_k,
                                   p.vectors});
    });
}

void StagedLayer::score()
{
    const std::int64_t d_k = shape_.d_k();
    for (std::int64_t head = 0; head < shape_.h; ++head)
        for_each_panel([&](const Panel& p) {
            const float* Q = Q_panels_.data() + p.first_token * shape_.d_model + head * d_k * p.width;
            float* maxima = row_of(maxima_, head, p);
            std::fill_n(maxima, p.width, -infinity);
            table_->score({K_.data() + head * shape_.n * d_k, d_k, 1, Q, scores_of(head, p), shape_.n, d_k, p.vectors},
                          maxima);
        });
}

void StagedLayer::softmax()
{
    alignas(64) float none[most_panel_tokens];
    alignas(64) float correction[most_panel_tokens];
    std::fill_n(none, most_panel_tokens, -infinity);
    for (std::int64_t head = 0; head < shape_.h; ++head)
        for_each_panel([&](const Panel& p) {
            float* sums = row_of(sums_, head, p);
            std::fill_n(sums, p.width, 0.0f);
            table_->softmax(scores_of(head, p), shape_.n, p.vectors,
                            {none, row_of(maxima_, head, p), sums, correction});
        });
}

/// A tile of keys at a time, as in the fused layer: with all keys at once the rows of V that a register tile runs over
/// would not stay in the cache.
void StagedLayer::blend()
{
    const std::int64_t d_v = shape_.d_k();
    const std::int64_t tile = table_->key_tile(shape_.d_k(), d_v);
    alignas(64) float zeros[most_panel_tokens] = {};  // a correction of 0 starts the sums at 0; O holds finite numbers
    alignas(64) float ones[most_panel_tokens];
    std::fill_n(ones, most_panel_tokens, 1.0f);
    for (std::int64_t head = 0; head < shape_.h; ++head)
        for_each_panel([&](const Panel& p) {
            float* O = heads_.data() + p.first_token * shape_.d_model + head * d_v * p.width;
            const float* V = V_.data() + head * shape_.n * d_v;
            const float* weights = scores_of(head, p);
            for (std::int64_t key = 0; key < shape_.n; key += tile)
                table_->blend(
                    {V + key * d_v, 1, d_v, weights + key * p.width, O, d_v, std::min(tile, shape_.n - key), p.vectors},
                    key == 0 ? zeros : ones);
            divide_by_sums(O, row_of(sums_, head, p), p.width);
        });
}

void StagedLayer::divide_by_sums(float* O, const float* sums, std::int64_t width) const
{
    float factors[most_panel_tokens];
    for (std::int64_t lane = 0; lane < width; ++lane) factors[lane] = 1 / sums[lane];
    for (std::int64_t row = 0; row < shape_.d_k(); ++row)
        for (std::int64_t lane = 0; lane < width; ++lane) O[row * width + lane] *= factors[lane];
}

void StagedLayer::project_output()
{
    for_each_panel([&](const Panel& p) {
        const std::int64_t at = p.first_token * shape_.d_model;
        table_->project({W_o_.data(), nullptr, heads_.data() + at, Y_panels_.data() + at, shape_.d_model,
                         shape_.d_model, p.vectors, is_far(p), p.tokens});
    });
}

void StagedLayer::store_output(float* Y)
{
    for_each_panel([&](const Panel& p) {
        const std::int64_t at = p.first_token * shape_.d_model;
        table_->panel_to_rows({Y_panels_.data() + at, Y + at, shape_.d_model, 1, p.tokens, shape_.d_model, p.vectors});
    });
}

}  // namespace headwise::sweep
