#include "sweep/summary.hpp"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <ostream>
#include <sstream>

namespace headwise::sweep {
namespace {

std::vector<const Json*> medians(const Json& results, const std::string& kind)
{
    std::vector<const Json*> found;
    for (const Json& entry : results.at("benchmarks"))
        if (entry.value("aggregate_name", "") == "median" && entry.at("kind") == kind) found.push_back(&entry);
    return found;
}

std::int64_t integer(const Json& entry, const char* key)
{
    return entry.at(key).get<std::int64_t>();
}

/// The shape that is spoken of.
Shape headline_shape(const Json& results)
{
    const Json& headline = results.at("context").at("headline");
    return {integer(headline, "n"), integer(headline, "d_model"), integer(headline, "h")};
}

bool is_shape(const Json& entry, const Shape& shape)
{
    return Shape{integer(entry, "n"), integer(entry, "d_model"), integer(entry, "h")} == shape;
}

/// The layer's fastest row of the headline shape on the fewest threads: that of the best target.
const Json* headline_row(const Json& results, const Shape& shape)
{
    const Json* best = nullptr;
    const auto threads = results.at("context").at("threads").front().get<int>();
    for (const Json* entry : medians(results, "layer"))
        if (is_shape(*entry, shape) && entry->at("arena_threads") == threads &&
            (best == nullptr || entry->at("real_time").get<double>() < best->at("real_time").get<double>()))
            best = entry;
    return best;
}

std::string fixed(double value, int digits)
{
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value;
    return text.str();
}

std::size_t count_shapes(const Json& checks)
{
    std::vector<std::string> seen;
    for (const Json& check : checks) {
        std::string key = check.at("n").dump() + ' ' + check.at("d_model").dump() + ' ' + check.at("h").dump();
        if (std::find(seen.begin(), seen.end(), key) == seen.end()) seen.push_back(std::move(key));
    }
    return seen.size();
}

void print_row(std::ostream& out, const Json& entry, const std::string& what)
{
    out << "  " << std::left << std::setw(20) << what << std::right << std::setw(4) << integer(entry, "h")
        << std::setw(6) << integer(entry, "d_k") << std::setw(8) << entry.at("target").get<std::string>()
        << std::setw(9) << integer(entry, "arena_threads") << std::setw(11)
        << fixed(entry.at("real_time").get<double>(), 3);
    const auto number = [&](const char* key, int width, double factor, int digits, const char* unit) {
        const bool there = entry.contains(key);
        out << std::setw(width) << (there ? fixed(factor * entry.at(key).get<double>(), digits) + unit : "");
    };
    number("gflops", 9, 1, 1, "");
    number("peak_share", 8, 100, 0, " %");
    number("speedup_over_naive", 9, 1, 0, "x");
    out << '\n';
}

void print_kind(std::ostream& out, const Json& results, const std::string& kind, std::int64_t n, std::int64_t d_model)
{
    for (const Json* entry : medians(results, kind))
        if (integer(*entry, "n") == n && integer(*entry, "d_model") == d_model) print_row(out, *entry, kind);
}

/// The stages of one shape on the headline's target.
void print_stages(std::ostream& out, const Json& results, const Shape& shape, const Json& target)
{
    for (const std::string kind : {"stage", "staged_layer"})
        for (const Json* entry : medians(results, kind))
            if (is_shape(*entry, shape) && entry->at("target") == target)
                print_row(out, *entry,
                          kind == "stage" ? "  " + entry->at("stage").get<std::string>() : "  sum of the stages");
}

/// What the operator's plan reaches on more cores than are here.
void print_simulation(std::ostream& out, const Json& results)
{
    out << "  simulated, 64 workers, n 4096, d_k 64:";
    for (const Json& run : results.at("simulated_threads"))
        if (integer(run, "n") == 4096 && integer(run, "workers") == 64)
            out << "  h " << integer(run, "h") << ' ' << fixed(100 * run.at("efficiency").get<double>(), 0) << " %";
    out << " of perfect speed-up\n";
}

}  // namespace

std::string headline(const Json& results)
{
    const Json& failures = results.at("failures");
    if (!failures.empty())
        return "FAILED: " + std::to_string(failures.size()) + (failures.size() == 1 ? " check" : " checks") +
               ", the first one: " + failures.front().get<std::string>() + ".";
    const Shape shape = headline_shape(results);
    const Json& row = *headline_row(results, shape);
    const auto share = [&] { return fixed(100 * row.at("peak_share").get<double>(), 0); };
    const int threads = row.at("arena_threads").get<int>();
    return "The layer at " + text(shape) + " runs at " + share() + " % of the FMA peak measured beside it (" +
           row.at("target").get<std::string>() + ", " + std::to_string(threads) +
           (threads == 1 ? " thread, " : " threads, ") + fixed(row.at("gflops").get<double>(), 0) + " GFLOP/s), " +
           fixed(row.at("speedup_over_naive").get<double>(), 0) + " times the naive loops; all " +
           std::to_string(count_shapes(results.at("verification"))) + " shapes are verified on " +
           std::to_string(results.at("context").at("targets").size()) + " targets and all counts are exact.";
}

void print_summary(std::ostream& out, const Json& results)
{
    const Json& context = results.at("context");
    out << headline(results) << "\n\n";
    const Json& failures = results.at("failures");
    for (std::size_t i = 0; i < failures.size() && i < 20; ++i)
        out << "  FAILED  " << failures.at(i).get<std::string>() << '\n';
    if (failures.size() > 20) out << "  and " << failures.size() - 20 << " more, see results.json\n";
    if (!failures.empty()) out << '\n';

    const Shape shape = headline_shape(results);
    out << context.at("processor").get<std::string>() << ", " << context.at("hardware_threads").dump()
        << " threads; fp32, n " << shape.n << ", d_model " << shape.d_model << ", medians of "
        << context.at("repetitions").dump() << " repetitions\n\n"
        << "                         h   d_k  target  threads    time/ms  GFLOP/s    peak    naive\n";
    print_kind(out, results, "layer", shape.n, shape.d_model);
    print_kind(out, results, "operator", shape.n, shape.d_model);
    if (const Json* row = headline_row(results, shape)) {
        out << "  stage by stage\n";
        print_stages(out, results, shape, row->at("target"));
    }
    for (const auto& [target, peaks] : context.at("fma_peak_gflops").items()) {
        out << "  FMA peak, " << target << ':';
        for (const auto& [threads, gflops] : peaks.items())
            out << "  " << fixed(gflops.get<double>(), 1) << " GFLOP/s on " << threads
                << (threads == "1" ? " thread" : " threads");
        out << '\n';
    }
    print_simulation(out, results);
    for (const Json& left_out : context.at("left_out")) out << "  left out: " << left_out.get<std::string>() << '\n';
}

}  // namespace headwise::sweep
