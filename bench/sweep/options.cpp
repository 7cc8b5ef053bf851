#include "sweep/options.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include <CLI/CLI.hpp>

namespace headwise::sweep {
namespace {

constexpr int exit_usage = 2;

/// The options as they are typed.
struct Typed {
    std::vector<std::int64_t> n;
    std::vector<std::int64_t> d_model;
    std::vector<std::int64_t> heads;
    std::vector<std::string> threads{"1", "all"};
    std::vector<std::string> targets{"all"};
    bool full = false;
};

template <class T>
void sort_unique(std::vector<T>& values)
{
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
}

int thread_count(const std::string& typed)
{
    if (typed == "all") return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const bool digits = !typed.empty() && typed.size() <= 4 &&
                        std::all_of(typed.begin(), typed.end(), [](char c) { return c >= '0' && c <= '9'; });
    const int count = digits ? std::stoi(typed) : 0;
    if (count < 1 || count > 1024)
        throw CLI::ValidationError("--threads", "'" + typed + "' is neither a number from 1 to 1024 nor 'all'");
    return count;
}

std::vector<Target> chosen_targets(const std::vector<std::string>& typed)
{
    const std::vector<Target> available = available_targets();
    if (std::find(typed.begin(), typed.end(), "all") != typed.end()) return available;
    const auto is_available = [&](const std::string& one) {
        return std::any_of(available.begin(), available.end(), [&](Target target) { return name(target) == one; });
    };
    for (const std::string& one : typed) {
        if (is_available(one)) continue;
        std::string there = "all";
        for (const Target target : available) there += ", " + std::string(name(target));
        throw CLI::ValidationError("--target", "'" + one + "' is no target of this processor; there are " + there);
    }
    std::vector<Target> chosen;
    for (const Target target : available)
        if (std::find(typed.begin(), typed.end(), name(target)) != typed.end()) chosen.push_back(target);
    return chosen;
}

std::vector<Shape> all_shapes(const Typed& typed)
{
    std::vector<Shape> shapes;
    for (const std::int64_t n : typed.n)
        for (const std::int64_t d_model : typed.d_model)
            for (const std::int64_t h : typed.heads) {
                if (d_model % h != 0)
                    throw CLI::ValidationError("--heads", std::to_string(h) + " heads do not divide d_model " +
                                                              std::to_string(d_model) +
                                                              "; every --heads must divide every --d-model");
                shapes.push_back({n, d_model, h});
            }
    return shapes;
}

/// The shape that is spoken of: n 1024, d_model 512, h 8 where it is measured, else the largest.
Shape headline_of(const std::vector<Shape>& shapes)
{
    constexpr Shape usual{1024, 512, 8};
    if (std::find(shapes.begin(), shapes.end(), usual) != shapes.end()) return usual;
    return *std::max_element(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
        return std::pair(a.n * a.d_model, a.h) < std::pair(b.n * b.d_model, b.h);
    });
}

/// Heads of d_k 16, 8 and 4 at the headline's sizes, and the (n, d_model) around n = 2 d_model, with h 8.
std::vector<Shape> default_extra_shapes(const std::vector<Shape>& shapes)
{
    std::vector<Shape> extra{{1024, 512, 32}, {1024, 512, 64}, {1024, 512, 128}};
    for (const std::int64_t n : {128, 256, 512, 1024, 2048})
        for (const std::int64_t d_model : {128, 256, 512}) {
            const Shape shape{n, d_model, 8};
            if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) extra.push_back(shape);
        }
    return extra;
}

/// Fills in what was not typed and turns the rest into Options.
Options resolve(Typed typed, Options options)
{
    const bool default_sizes = typed.n.empty() && typed.d_model.empty() && typed.heads.empty();
    options.full = typed.full;
    const auto otherwise = [&](std::vector<std::int64_t>& values, std::vector<std::int64_t> small,
                               std::vector<std::int64_t> full) {
        if (values.empty()) values = options.full ? std::move(full) : std::move(small);
        sort_unique(values);
    };
    otherwise(typed.n, {128, 512, 1024}, {128, 256, 512, 1024, 2048, 4096, 8192});
    otherwise(typed.d_model, {256, 512}, {256, 512, 1024, 2048});
    otherwise(typed.heads, {1, 2, 4, 8, 16}, {1, 2, 4, 8, 16});

    options.shapes = all_shapes(typed);
    options.headline = headline_of(options.shapes);
    options.operator_shapes = options.shapes;
    if (default_sizes) {
        options.operator_shapes.push_back({1024, 512, 64});  // d_k 8
        options.extra_shapes = default_extra_shapes(options.shapes);
        if (options.full) options.extra_shapes.push_back({16384, 512, 8});  // growth over n
    }
    for (const std::string& one : typed.threads) options.threads.push_back(thread_count(one));
    sort_unique(options.threads);
    options.targets = chosen_targets(typed.targets);
    options.targets_chosen = typed.targets != std::vector<std::string>{"all"};
    options.measuring_seconds = options.full ? 3000 : 100;
    options.whole_seconds = options.full ? 100000 : 210;
    if (options.repetitions == 0) options.repetitions = options.full ? 5 : 9;
    return options;
}

void add_options(CLI::App& app, Typed& typed, Options& options)
{
    app.add_option("--n", typed.n, "Numbers of tokens (default 128,512,1024)")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}));
    app.add_option("--d-model", typed.d_model, "Widths of the layer (default 256,512)")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{16384}));
    app.add_option("--heads", typed.heads, "Numbers of heads; each must divide each --d-model (default 1,2,4,8,16)")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{16384}));
    app.add_option("--threads", typed.threads, "Numbers of threads, or 'all' (default 1,all)")->delimiter(',');
    app.add_option(
           "--target", typed.targets,
           "Instruction sets, or 'all' (default); those named are all measured with every --threads, else only\n"
           "the best one is measured with more than one thread")
        ->delimiter(',');
    app.add_flag("--full", typed.full, "n from 128 to 16384, d_model from 256 to 2048; takes hours, not minutes");
    app.add_option("--repetitions", options.repetitions, "Repetitions of each measurement (default 9; with --full 5)")
        ->check(CLI::Range(1, 1000));
    app.add_option("--json", options.json, "File to write (default results.json)");
    app.add_option("--revision", options.revision, "Revision of the sources, for the record");
    app.add_option("--real-layer-log", options.real_layer_log, "What headwise_cases printed for the real layer");
    app.add_option("--real-layer-status", options.real_layer_status, "Its exit status");
}

}  // namespace

ParsedOptions parse_options(int argc, char** argv)
{
    CLI::App app(
        "Verifies, counts and measures what multi-head attention costs over n, d_model and heads.\n"
        "Lists are separated by commas.",
        "headwise_sweep");
    Typed typed;
    ParsedOptions parsed;
    add_options(app, typed, parsed.options);
    try {
        app.parse(argc, argv);
        parsed.options = resolve(std::move(typed), std::move(parsed.options));
        parsed.run = true;
    } catch (const CLI::ParseError& error) {
        parsed.exit_status = app.exit(error) == 0 ? 0 : exit_usage;
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s\n", error.what());
        parsed.exit_status = exit_usage;
    }
    return parsed;
}

}  // namespace headwise::sweep
