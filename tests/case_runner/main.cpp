// headwise_cases: runs attention cases in safetensors files on every instruction set and prints one line a case.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include <headwise/target.hpp>

#include "run_case.hpp"

namespace {

using namespace headwise::cases;
namespace fs = std::filesystem;

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

/// Something is wrong with the command, not with a case.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct CaseFile {
    fs::path path;
    std::string name;  ///< the path below the folder that was named, without the extension
};

/// One way to run a case.
struct Run {
    std::string name;
    std::optional<headwise::Target> target;  ///< none: the reference
};

enum class Verdict { passed, failed, skipped };

struct Result {
    Verdict verdict;
    std::string text;
};

void require_readable(const fs::path& path)
{
    if (!std::ifstream(path, std::ios::binary)) throw UsageError("cannot read " + path.string());
}

std::vector<CaseFile> files_below(const fs::path& argument)
{
    std::vector<CaseFile> files;
    if (!fs::is_directory(argument)) {
        if (!fs::exists(argument)) throw UsageError("no such file or folder: " + argument.string());
        files.push_back({argument, argument.stem().string()});
    } else {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argument)) {
            if (entry.path().extension() != ".safetensors" || entry.is_directory()) continue;
            files.push_back({entry.path(), entry.path().lexically_relative(argument).replace_extension().string()});
        }
        if (files.empty()) throw UsageError("no *.safetensors below " + argument.string());
    }
    for (const CaseFile& file : files) require_readable(file.path);
    std::sort(files.begin(), files.end(), [](const CaseFile& a, const CaseFile& b) { return a.path < b.path; });
    return files;
}

std::vector<Run> runs_for(const std::string& target_name, bool reference)
{
    if (reference) return {{"reference", std::nullopt}};
    std::vector<headwise::Target> targets = headwise::available_targets();
    if (!target_name.empty()) {
        const headwise::Target wanted = headwise::target_from_name(target_name);
        if (std::find(targets.begin(), targets.end(), wanted) == targets.end())
            throw UsageError("this processor or build lacks the target " + target_name);
        targets = {wanted};
    }
    std::vector<Run> runs;
    for (const headwise::Target target : targets) runs.push_back({std::string(headwise::name(target)), target});
    return runs;
}

/// A short text for a number: three digits are enough to see how large an error is.
std::string short_number(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

/// The outcome of one case on one target; `max_error` grows with what was seen.
std::optional<Result> run_once(const Case& test, const Run& run, double& max_error)
{
    const std::string on = " (" + run.name + ")";
    try {
        if (run.target) headwise::set_active_target(*run.target);
        const auto implementation = run.target ? Implementation::kernels : Implementation::reference;
        const Comparison comparison = compare_outputs(run_case(test, implementation), test);
        max_error = std::max(max_error, comparison.max_error);
        if (!comparison.failure.empty()) return Result{Verdict::failed, comparison.failure + on};
        return std::nullopt;
    } catch (const NotSupported& error) {
        return Result{Verdict::skipped, error.what()};
    } catch (const std::invalid_argument& error) {
        const std::string text = error.what();
        const bool skip = text.find("not supported yet") != std::string::npos;
        return Result{skip ? Verdict::skipped : Verdict::failed, skip ? text : text + on};
    } catch (const std::exception& error) {
        return Result{Verdict::failed, error.what() + on};
    }
}

Result run_file(const CaseFile& file, const std::vector<Run>& runs)
{
    double max_error = 0;
    std::optional<Result> skipped;
    try {
        const Case test(file.path);
        for (const Run& run : runs) {
            const std::optional<Result> result = run_once(test, run, max_error);
            if (result && result->verdict == Verdict::failed) return *result;
            if (result) skipped = result;
        }
        if (skipped) return *skipped;
        const std::string note = test.has_gradients() ? "; gradients not compared" : "";
        return {Verdict::passed, "max error " + short_number(max_error) + note};
    } catch (const std::exception& error) {
        return {Verdict::failed, error.what()};
    }
}

int run_all(const std::vector<std::string>& arguments, const std::string& target_name, bool reference)
{
    std::vector<CaseFile> files;
    for (const std::string& argument : arguments)
        for (CaseFile& file : files_below(argument)) files.push_back(std::move(file));
    const std::vector<Run> runs = runs_for(target_name, reference);

    int passed = 0, failed = 0, skipped = 0;
    for (const CaseFile& file : files) {
        Result result = run_file(file, runs);
        std::replace_if(result.text.begin(), result.text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
        const char* word = "PASS";
        switch (result.verdict) {
            case Verdict::passed: ++passed; break;
            case Verdict::failed: ++failed, word = "FAIL"; break;
            case Verdict::skipped: ++skipped, word = "SKIP"; break;
        }
        std::cout << word << ' ' << file.name << "  " << result.text
                  << std::endl;  // shown even if the next one crashes
    }
    std::cout << passed << " passed, " << failed << " failed, " << skipped << " skipped" << std::endl;
    return failed == 0 ? 0 : exit_failed;
}

}  // namespace

int main(int argc, char** argv)
{
    CLI::App app(
        "Runs attention cases (*.safetensors) and compares the outputs with what they expect.\n"
        "Exit status: 0 no case failed, 1 a case failed, 2 wrong usage or an unreadable file.",
        "headwise_cases");
    std::vector<std::string> arguments;
    std::string target_name;
    bool reference = false;
    app.add_option("DIR_OR_FILE", arguments, "Folders, searched recursively, and files")->required();
    auto* const target = app.add_option("--target", target_name, "Run on this instruction set alone (default: each)");
    app.add_flag("--reference", reference, "Run the naive reference instead of the kernels")->excludes(target);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_usage;
    }
    try {
        return run_all(arguments, target_name, reference);
    } catch (const std::exception& error) {
        std::cerr << "headwise_cases: " << error.what() << '\n';
        return exit_usage;
    }
}
