// Each kernel against its roof, and the machine's roofs: one thread, operands in the first-level cache where they fit, so
// that a regression names its stage.
//
// Machines are shared, and their speed changes from one moment to the next. So every sample stands between two short
// runs of the multiply-add loop, and is a share of the slower of the two; the median over all rounds is printed, and the
// best. What else a neighbour takes away (caches, the width of the core) still shows: believe the best of a busy machine.
#include <headwise/headwise.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "packed_matrix.hpp"
#include "sweep/fma_peak.hpp"
#include "sweep/read_memory.hpp"

namespace {

using headwise::KernelTable;
using headwise::Target;

double seconds_of(const std::function<void()>& call)
{
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A call to time. `amount` is what one call does, in `unit`: multiply-adds count as two flops.
struct Row {
    std::string name;
    std::string unit;
    double amount;
    std::function<void()> call;
    std::vector<double> rates{};  ///< amount a second
    std::vector<double> shares{};  ///< of the multiply-add peak of the same moment; flop rows only
};

/// Repeats `call` until `amount` of it is about `wanted`, so that a sample takes a millisecond or so.
Row repeated(std::string name, std::string unit, double amount, double wanted, const std::function<void()>& call)
{
    const auto times = std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted / amount));
    return {std::move(name), std::move(unit), amount * static_cast<double>(times), [call, times] {
                for (std::int64_t i = 0; i < times; ++i) call();
            }};
}

constexpr double flops_of_a_sample = 5e7;

/// Memory of the operands, aligned as panels are.
class Buffers {
public:
    float* take(std::int64_t numbers)
    {
        constexpr std::size_t alignment = 64;
        std::size_t bytes = static_cast<std::size_t>(numbers) * sizeof(float) + alignment;
        all_.emplace_back(bytes / sizeof(float));
        void* at = all_.back().data();
        float* const data = static_cast<float*>(std::align(alignment, bytes - alignment, at, bytes));
        for (std::int64_t i = 0; i < numbers; ++i) data[i] = static_cast<float>(i % 13) * 0.01F;
        return data;
    }

private:
    std::vector<std::vector<float>> all_;
};

/// The stages of one panel: W = panel_tokens query tokens, a tile of keys.
void add_stages(std::vector<Row>& rows, Buffers& buffers, const KernelTable<float>& table)
{
    const std::int64_t W = table.panel_tokens();
    const int vectors = table.max_vectors;
    for (const std::int64_t d : {8, 32, 64, 128}) {
        const std::int64_t keys = table.key_tile(d, d);
        float* const k = buffers.take(keys * d);
        float* const q = buffers.take(d * W);
        float* const s = buffers.take(keys * W);
        float* const o = buffers.take(d * W);
        float* const lanes = buffers.take(2 * W);
        const double flops = 2.0 * static_cast<double>(keys * d * W);
        rows.push_back(repeated("score d_k " + std::to_string(d), "flop", flops, flops_of_a_sample,
                                [=, &table] { table.score({k, d, 1, q, s, keys, d, vectors}, lanes); }));
        rows.push_back(repeated("blend d_v " + std::to_string(d), "flop", flops, flops_of_a_sample,
                                [=, &table] { table.blend({k, 1, d, s, o, d, keys, vectors}, lanes + W); }));
    }
    const std::int64_t keys = table.key_tile(64, 64);
    float* const s = buffers.take(keys * W);
    float* const lanes = buffers.take(4 * W);
    std::fill_n(lanes, 2 * W, 1000.0F);  // maxima far above the scores: those stay what they are, near 0
    rows.push_back(repeated("softmax", "exp", static_cast<double>(keys * W), 1e6, [=, &table] {
        table.softmax(s, keys, vectors, {lanes, lanes + W, lanes + 2 * W, lanes + 3 * W});
    }));
}

void add_projections(std::vector<Row>& rows, Buffers& buffers, const KernelTable<float>& table)
{
    const std::int64_t W = table.panel_tokens();
    const int vectors = table.max_vectors;
    for (const std::int64_t d : {256, 512, 1024, 2048}) {
        const std::int64_t strips = (d + headwise::strip_rows - 1) / headwise::strip_rows;
        float* const w = buffers.take(strips * headwise::strip_rows * d);
        float* const x = buffers.take(d * W);
        float* const y = buffers.take(d * W);
        rows.push_back(repeated("project d_model " + std::to_string(d), "flop", 2.0 * static_cast<double>(d * d * W),
                                flops_of_a_sample, [=, &table] {
                                    const bool far = headwise::PackedMatrix<float>::is_far(d, d, vectors);
                                    table.project({w, nullptr, x, y, d, d, vectors, far, W});
                                }));
    }
}

/// The transposes at the edges; bytes read and written.
void add_edges(std::vector<Row>& rows, Buffers& buffers, const KernelTable<float>& table)
{
    constexpr std::int64_t d = 64;
    const std::int64_t W = table.panel_tokens();
    float* const panel = buffers.take(d * W);
    float* const tokens = buffers.take(d * W);
    const headwise::PanelRows<float> edge{panel, tokens, d, 1, W, d, table.max_vectors};
    const double bytes = 2.0 * sizeof(float) * static_cast<double>(d * W);
    rows.push_back(repeated("rows to panel", "byte", bytes, 1e7, [=, &table] { table.rows_to_panel(edge); }));
    rows.push_back(repeated("panel to rows", "byte", bytes, 1e7, [=, &table] { table.panel_to_rows(edge); }));
}

void add_reads(std::vector<Row>& rows, Buffers& buffers, Target target)
{
    for (const std::int64_t kibibytes : {16, 256, 8192, 262144}) {
        const std::int64_t bytes = kibibytes << 10;
        const float* const data = buffers.take(bytes / static_cast<std::int64_t>(sizeof(float)));
        rows.push_back(repeated("read " + std::to_string(kibibytes) + " KiB", "byte", static_cast<double>(bytes), 2e7,
                                [=] { headwise::sweep::read_memory(target, data, static_cast<std::size_t>(bytes)); }));
    }
}

double middle(std::vector<double> numbers)
{
    std::sort(numbers.begin(), numbers.end());
    return numbers[numbers.size() / 2];
}

void print(const std::vector<Row>& rows, const std::vector<double>& peaks)
{
    const double best_peak = *std::max_element(peaks.begin(), peaks.end());
    std::printf("multiply-add peak: median %.1f, best %.1f Gflop/s (fp64: half of it)\n", middle(peaks) * 1e-9,
                best_peak * 1e-9);
    std::printf("%-22s %14s %14s %12s %12s\n", "kernel", "median", "best", "of peak", "best");
    for (const Row& row : rows) {
        const double best = *std::max_element(row.rates.begin(), row.rates.end());
        std::printf("%-22s %7.2f G%s/s %7.2f G%s/s", row.name.c_str(), middle(row.rates) * 1e-9, row.unit.c_str(),
                    best * 1e-9, row.unit.c_str());
        if (!row.shares.empty()) std::printf(" %10.1f %% %10.1f %%", 100 * middle(row.shares), 100 * best / best_peak);
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv)
{
    CLI::App app{"The machine's roofs, and each kernel against its own. One thread."};
    int rounds = 40;
    std::string name{headwise::name(headwise::active_target())};
    std::string filter;
    app.add_option("--rounds", rounds, "samples of each row")->check(CLI::Range(1, 10000))->capture_default_str();
    app.add_option("--target", name, "instruction set")->capture_default_str();
    app.add_option("--filter", filter, "only the rows whose name has this text");
    CLI11_PARSE(app, argc, argv);
    try {
        headwise::set_active_target(headwise::target_from_name(name));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "--target: %s\n", error.what());
        return 2;
    }
    const Target target = headwise::active_target();
    const KernelTable<float>& table = headwise::kernel_table<float>(target);

    Buffers buffers;
    std::vector<Row> rows;
    add_stages(rows, buffers, table);
    add_projections(rows, buffers, table);
    add_edges(rows, buffers, table);
    add_reads(rows, buffers, target);
    std::erase_if(rows, [&](const Row& row) { return row.name.find(filter) == std::string::npos; });

    constexpr std::int64_t steps = 20000;
    const auto peak = [&] {
        return headwise::sweep::fma_loop_flops(target, steps) /
               seconds_of([&] { headwise::sweep::run_fma_loop(target, steps); });
    };
    std::vector<double> peaks;
    for (int round = 0; round < rounds; ++round)
        for (Row& row : rows) {
            if (round == 0) row.call();
            const double before = peak();
            row.rates.push_back(row.amount / seconds_of(row.call));
            const double after = peak();
            peaks.insert(peaks.end(), {before, after});
            if (row.unit == "flop") row.shares.push_back(row.rates.back() / std::min(before, after));
        }
    if (!rows.empty()) print(rows, peaks);
}
