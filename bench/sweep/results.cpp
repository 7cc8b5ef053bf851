#include "sweep/results.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include <headwise/version.hpp>

#include "sweep/failures.hpp"

namespace headwise::sweep {
namespace {

Json shape_json(const std::string& subject, const Shape& shape, Target target)
{
    return {{"subject", subject}, {"n", shape.n},       {"d_model", shape.d_model},
            {"h", shape.h},       {"d_k", shape.d_k()}, {"target", name(target)}};
}

Json work_json(const Work& work)
{
    return {{"project_q", work.project_q}, {"project_k", work.project_k},       {"project_v", work.project_v},
            {"score", work.score},         {"exponentials", work.exponentials}, {"blend", work.blend},
            {"project_o", work.project_o}};
}

Json parameters_json(const cost::Parameters& p)
{
    return {{"q", p.q}, {"k", p.k}, {"v", p.v}, {"o", p.o}};
}

Json errors_json(const Verification& verification)
{
    Json all = Json::array();
    for (const ErrorCheck& check : verification.errors) {
        Json entry = shape_json(check.subject, check.shape, check.target);
        entry.update({{"rows", check.rows},
                      {"max_error", check.error},
                      {"plain_fp32_error", check.plain_error},
                      {"limit", check.limit},
                      {"passed", check.passed}});
        all.push_back(std::move(entry));
    }
    return all;
}

Json counts_json(const Verification& verification)
{
    Json all = Json::array();
    for (const CountCheck& check : verification.counts) {
        Json entry = shape_json(check.subject, check.shape, check.target);
        entry.update({{"arithmetic", work_json(check.arithmetic)},
                      {"counted_rows", check.counted_rows},
                      {"counted_by_reference", work_json(check.counted)},
                      {"arithmetic_of_counted_rows", work_json(check.counted_arithmetic)},
                      {"reported_useful", work_json(check.reported.useful)},
                      {"reported_issued", work_json(check.reported.issued)},
                      {"passed", check.passed}});
        all.push_back(std::move(entry));
    }
    return all;
}

Json parameter_checks_json(const Verification& verification)
{
    Json all = Json::array();
    for (const ParameterCheck& check : verification.parameters)
        all.push_back({{"d_model", check.d_model},
                       {"h", check.h},
                       {"arithmetic", parameters_json(check.arithmetic)},
                       {"counted", parameters_json(check.counted)},
                       {"passed", check.passed}});
    return all;
}

Json memory_json(const std::vector<MemoryCheck>& checks)
{
    Json all = Json::array();
    for (const MemoryCheck& check : checks)
        all.push_back({{"n", check.shape.n},
                       {"d_model", check.shape.d_model},
                       {"h", check.shape.h},
                       {"arithmetic", check.arithmetic},
                       {"counted", check.counted},
                       {"fused_bytes", check.fused_bytes},
                       {"weighing_bytes", check.weighing_bytes},
                       {"passed", check.passed}});
    return all;
}

Json simulated_json(const std::vector<SimulatedRun>& runs)
{
    Json all = Json::array();
    for (const SimulatedRun& run : runs)
        all.push_back({{"n", run.n},
                       {"h", run.h},
                       {"workers", run.workers},
                       {"tasks", run.tasks},
                       {"serial_seconds", run.serial_seconds},
                       {"busy_seconds", run.busy_seconds},
                       {"seconds", run.seconds},
                       {"heads_only_seconds", run.heads_only_seconds},
                       {"efficiency", run.efficiency()},
                       {"heads_only_efficiency", run.heads_only_efficiency()}});
    return all;
}

Json real_layer_json(const Options& options)
{
    if (options.real_layer_log.empty()) return {{"run", false}};
    std::ifstream log(options.real_layer_log);
    Json lines = Json::array();
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return {{"run", true}, {"passed", options.real_layer_status == 0}, {"output", std::move(lines)}};
}

std::string processor_name()
{
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
    return "unknown";
}

std::string compiler_name()
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "g++ " __VERSION__;
#endif
}

/// Google Benchmark appends how it measures to the names. Names must be the same in every run, for two to be compared.
std::string without_suffixes(std::string text)
{
    for (const std::string key : {"/iterations:", "/repeats:"})
        if (const auto at = text.find(key); at != std::string::npos) {
            auto end = at + key.size();
            while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
            text.erase(at, end - at);
        }
    for (const std::string key : {"/real_time", "/manual_time"})
        if (const auto at = text.find(key); at != std::string::npos) text.erase(at, key.size());
    return text;
}

/// The measured numbers that others are divided by.
class Yardsticks {
public:
    Yardsticks(const Json& benchmarks, const std::map<std::string, const Row*>& rows)
    {
        for (const Json& entry : benchmarks) {
            if (entry.value("aggregate_name", "") != "median") continue;
            const Row& row = *rows.at(entry.at("run_name"));
            const double gflops = row.flops / (entry.at("real_time").get<double>() * 1e6);
            const double gigaseconds = entry.at("real_time").get<double>() * 1e6;
            if (row.kind == "fma_peak") peaks_[name(row.target)][row.threads] = gflops;
            if (row.kind == "exp_peak") exp_peaks_[std::string(name(row.target))] = row.exponentials / gigaseconds;
            if (row.kind == "memory_read") memory_gigabytes_ = row.bytes / gigaseconds;
            if (row.kind == "naive_layer" || row.kind == "naive_operator")
                naive_[{row.kind, row.shape.d_model, row.shape.h}] = {gflops, row.shape.n};
        }
    }

    struct Naive {
        double gflops = 0;
        std::int64_t n = 0;
    };
    double peak(const Row& row) const { return peaks_.at(name(row.target)).at(row.threads); }
    /// None for the shapes beside the grid.
    std::optional<Naive> naive(const Row& row) const
    {
        const std::string kind = row.kind == "operator" ? "naive_operator" : "naive_layer";
        const auto found = naive_.find({kind, row.shape.d_model, row.shape.h});
        return found == naive_.end() ? std::nullopt : std::optional(found->second);
    }
    const std::map<std::string, double>& exp_peaks() const { return exp_peaks_; }
    double memory_gigabytes() const { return memory_gigabytes_; }
    Json peaks_json() const
    {
        Json all = Json::object();
        for (const auto& [target, peaks] : peaks_)
            for (const auto& [threads, gflops] : peaks) all[std::string(target)][std::to_string(threads)] = gflops;
        return all;
    }

private:
    std::map<std::string_view, std::map<int, double>> peaks_;
    std::map<std::string, double> exp_peaks_;
    double memory_gigabytes_ = 0;
    std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Naive> naive_;
};

/// Adds to Google Benchmark's entry what it measured and what follows from its time.
void complete_entry(Json& entry, const Row& row, const Yardsticks& yardsticks)
{
    const bool naive = row.kind.starts_with("naive");
    entry["kind"] = row.kind;
    if (!row.stage.empty()) entry["stage"] = row.stage;
    if (row.has_target()) entry["target"] = name(row.target);
    entry["arena_threads"] = row.threads;
    if (!row.is_roof())
        entry.update(
            {{"n", row.shape.n}, {"d_model", row.shape.d_model}, {"h", row.shape.h}, {"d_k", row.shape.d_k()}});
    const std::string aggregate = entry.value("aggregate_name", "");
    if (aggregate == "stddev" || aggregate == "cv") return;

    const double gigaseconds = entry.at("real_time").get<double>() * 1e-3 * 1e9;
    const double gflops = row.flops / gigaseconds;
    if (row.flops > 0) entry["gflops"] = gflops;
    if (row.exponentials > 0) entry["gigaexponentials"] = row.exponentials / gigaseconds;
    if (row.bytes > 0) entry["gigabytes"] = row.bytes / gigaseconds;
    if (row.flops > 0 && !naive && !row.is_roof()) entry["peak_share"] = gflops / yardsticks.peak(row);
    if (row.kind == "layer" || row.kind == "operator" || row.kind == "staged_layer") {
        if (const auto by = yardsticks.naive(row)) {
            entry["speedup_over_naive"] = gflops / by->gflops;
            entry["naive_measured_at_n"] = by->n;
        }
    }
}

/// Names, order and additions of the entries of `benchmarks`. Returns the yardsticks.
Yardsticks complete_benchmarks(Json& benchmarks, const std::vector<Row>& rows)
{
    std::map<std::string, const Row*> by_name;
    for (const Row& row : rows) by_name[row.name] = &row;
    for (Json& entry : benchmarks)
        for (const char* key : {"name", "run_name"}) entry[key] = without_suffixes(entry.at(key));
    // They come in the order in which they ended, which is random.
    std::vector<std::pair<const Row*, std::size_t>> order;
    for (std::size_t i = 0; i < benchmarks.size(); ++i) order.push_back({by_name.at(benchmarks[i].at("run_name")), i});
    std::sort(order.begin(), order.end());
    Json sorted = Json::array();
    for (const auto& [row, i] : order) sorted.push_back(std::move(benchmarks[i]));
    benchmarks = std::move(sorted);
    const Yardsticks yardsticks(benchmarks, by_name);
    for (Json& entry : benchmarks) complete_entry(entry, *by_name.at(entry.at("run_name")), yardsticks);
    return yardsticks;
}

}  // namespace

Json make_results(const Options& options, const Findings& findings)
{
    const Measurements& measurements = findings.measurements;
    const Verification& verification = findings.verification;
    Json results = Json::parse(measurements.google_json);
    const Yardsticks yardsticks = complete_benchmarks(results.at("benchmarks"), measurements.rows);
    Json targets = Json::array();
    for (const Target target : options.targets) targets.push_back(name(target));
    results.at("context").update(
        {{"executable", "headwise_sweep"},
         {"processor", processor_name()},
         {"hardware_threads", std::thread::hardware_concurrency()},
         {"threads", options.threads},
         {"targets", std::move(targets)},
         {"compiler", compiler_name()},
         {"headwise_version", version()},
         {"git_revision", options.revision},
         {"repetitions", measurements.repetitions},
         {"headline", {{"n", options.headline.n}, {"d_model", options.headline.d_model}, {"h", options.headline.h}}},
         {"fma_peak_gflops", yardsticks.peaks_json()},
         {"exp_peak_gigaexponentials", yardsticks.exp_peaks()},
         {"memory_read_gigabytes", yardsticks.memory_gigabytes()},
         {"left_out", measurements.left_out}});
    results["failures"] = failures(options, verification, findings.memory);
    results["real_layer"] = real_layer_json(options);
    results["verification"] = errors_json(verification);
    results["counts"] = counts_json(verification);
    results["parameters"] = parameter_checks_json(verification);
    results["memory"] = memory_json(findings.memory);
    results["simulated_threads"] = simulated_json(findings.simulated);
    return results;
}

void write_results(const Json& results, const std::string& path)
{
    const std::string temporary = path + ".part";
    {
        std::ofstream file(temporary, std::ios::trunc);
        file << results.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
        file.close();
        if (!file) throw std::runtime_error("cannot write " + temporary);
    }
    if (std::rename(temporary.c_str(), path.c_str()) != 0) throw std::runtime_error("cannot replace " + path);
}

}  // namespace headwise::sweep
