// headwise_sweep: verifies, counts and measures, writes results.json and prints a summary. scripts/sweep.sh runs it.
//
// Exit status: 0 all is well, 1 a verification or a count failed (the results are written all the same) or the sweep
// could not be run, 2 a wrong option.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>

#include "sweep/measure.hpp"
#include "sweep/options.hpp"
#include "sweep/results.hpp"
#include "sweep/summary.hpp"
#include "sweep/verify.hpp"

int main(int argc, char** argv)
{
    using namespace headwise::sweep;
    try {
        const ParsedOptions parsed = parse_options(argc, argv);
        if (!parsed.run) return parsed.exit_status;
        Options options = parsed.options;
        const auto start = std::chrono::steady_clock::now();
        Findings findings;
        findings.verification = verify(options, options.measuring_seconds);
        findings.memory = check_memory(options);
        findings.simulated = simulate_threads(options.targets.back(), options.measuring_seconds);
        // Where all this took long, measuring takes less: the whole keeps to its time on a slow or busy machine too.
        const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        options.measuring_seconds = std::clamp(options.whole_seconds - passed, 30.0, options.measuring_seconds);
        findings.measurements = measure(options);
        Json results = make_results(options, findings);
        results["headline"] = headline(results);
        write_results(results, options.json);
        print_summary(std::cout, results);
        return results.at("failures").empty() ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "headwise_sweep: %s\n", error.what());
        return 1;
    }
}
