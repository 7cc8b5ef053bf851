// The layer stage by stage: each stage runs over the whole layer before the next one starts, and the scores of all
// heads are stored in between. It is what the fused layer is compared with, and what times the stages apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <headwise/tensor_view.hpp>
#include <headwise/work.hpp>

#include "kernels/kernel_table.hpp"
#include "sweep/problem.hpp"

namespace headwise::sweep {

/// There is no stage for the concatenation: a head's blend writes the head's rows of one panel.
enum class Stage { transpose, project_q, project_k, project_v, score, softmax, blend, project_o };
inline constexpr int stage_count = 8;
std::string_view name(Stage stage);

/// The work of one stage, out of that of the layer.
Work stage_work(const Work& work, Stage stage);

/// Memory aligned to 64 bytes that only grows, so that measurements after the first one meet no fresh pages.
class AlignedBuffer {
public:
    float* reserve(std::int64_t numbers);
    float* data() const { return data_.get(); }

private:
    struct Free {
        void operator()(float* data) const;
    };
    std::unique_ptr<float, Free> data_;
    std::int64_t size_ = 0;
};

/// Single thread, self-attention, one sequence. One object serves any number of shapes one after the other.
class StagedLayer {
public:
    using Seconds = std::array<double, stage_count>;

    /// False where the scores of all heads would take more than 2 GiB; prepare() is not meant for such shapes.
    static bool affordable(const Shape& shape);

    /// Packs the weights for `table`, whose target must be available. `problem` must outlive the calls of run().
    void prepare(const LayerProblem<float>& problem, const KernelTable<float>& table);

    /// Y (n, d_model) dense. Returns the time of each stage.
    Seconds run(float* Y);

private:
    /// A block of tokens: a full panel or, at the end, a narrower one.
    struct Panel {
        std::int64_t first_token;
        std::int64_t tokens;
        int vectors;
        std::int64_t width;
    };
    Panel panel(std::int64_t index) const;
    template <class Body>
    void for_each_panel(const Body& body) const;

    void load_input();
    void project_queries();
    void project_keys_or_values(const AlignedBuffer& weights, AlignedBuffer& rows);
    void score();
    void softmax();
    void blend();
    void divide_by_sums(float* O, const float* sums, std::int64_t width) const;
    void project_output();
    void store_output(float* Y);
    void pack(const TensorView<const float, 3>& W, double factor, AlignedBuffer& packed) const;

    bool is_far(const Panel& panel) const;  ///< of each of the layer's matrices, as the layer itself has it
    float* scores_of(std::int64_t head, const Panel& panel) const;
    float* row_of(const AlignedBuffer& numbers, std::int64_t head, const Panel& panel) const;

    const LayerProblem<float>* problem_ = nullptr;
    const KernelTable<float>* table_ = nullptr;
    Shape shape_;
    std::int64_t panels_ = 0;
    std::int64_t padded_n_ = 0;  ///< tokens of all panels

    AlignedBuffer W_q_, W_k_, W_v_, W_o_;  ///< packed in strips; W_q with scale * log2(e)
    AlignedBuffer X_panels_;               ///< a panel d_model x W each; panel i starts at d_model * first_token
    AlignedBuffer Q_panels_;               ///< a panel (h * d_k) x W each
    AlignedBuffer projected_;              ///< one such panel, on its way to rows of K or V
    AlignedBuffer K_, V_;                  ///< (h, n, d_k)
    AlignedBuffer scores_;                 ///< (h, panels), n x W each; the softmax turns them into weights
    AlignedBuffer maxima_, sums_;          ///< (h, panels), W numbers each
    AlignedBuffer heads_;                  ///< the concatenated heads, a panel (h * d_v) x W each
    AlignedBuffer Y_panels_;               ///< a panel d_model x W each
};

}  // namespace headwise::sweep
