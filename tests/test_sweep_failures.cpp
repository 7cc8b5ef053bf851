// Whatever check of the sweep does not pass fails the run and is told with where it was.
#include "catch_compat.hpp"

#include "sweep/failures.hpp"

using namespace headwise::sweep;
using catch_compat::contains_substring;
using headwise::Target;

namespace {

struct Run {
    Options options;
    Verification verification;
    std::vector<MemoryCheck> memory;

    /// The text of its one failure.
    std::string failure() const
    {
        const std::vector<std::string> all = failures(options, verification, memory);
        REQUIRE(all.size() == 1);
        return all.front();
    }
};

/// One check of each kind, all of which passed.
Run passed_run()
{
    const Shape shape{.n = 16, .d_model = 8, .h = 2};
    Run run;
    run.verification.errors = {{.subject = "layer", .shape = shape, .target = Target::sse2, .passed = true}};
    CountCheck counts{};
    counts.subject = "operator";
    counts.shape = shape;
    counts.target = Target::sse2;
    counts.passed = true;
    run.verification.counts = {counts};
    run.verification.parameters = {{.d_model = 8, .h = 2, .arithmetic = {}, .counted = {}, .passed = true}};
    run.memory = {{.shape = shape, .arithmetic = 512, .counted = 512, .passed = true}};
    return run;
}

}  // namespace

TEST_CASE("a sweep whose checks passed has no failures", "[sweep]")
{
    const Run run = passed_run();
    CHECK(failures(run.options, run.verification, run.memory).empty());
}

TEST_CASE("every kind of failed check is a failure of the sweep", "[sweep]")
{
    Run run = passed_run();
    SECTION("error")
    {
        run.verification.errors[0].passed = false;
        run.verification.errors[0].error = 0.5;
        run.verification.errors[0].limit = 0.25;
        CHECK(run.failure() == "layer at n 16, d_model 8, h 2 on sse2: maximum error 0.5, allowed 0.25");
    }
    SECTION("count of work")
    {
        run.verification.counts[0].passed = false;
        CHECK(run.failure() == "operator at n 16, d_model 8, h 2 on sse2: counts of work differ");
    }
    SECTION("count of parameters")
    {
        run.verification.parameters[0].passed = false;
        CHECK(run.failure() == "parameters at d_model 8, h 2: counts differ");
    }
    SECTION("weights written")
    {
        run.memory[0].passed = false;
        run.memory[0].counted = 511;
        CHECK_THAT(run.failure(), contains_substring("511 numbers were written, expected 512"));
    }
    SECTION("real layer")
    {
        run.options.real_layer_status = 1;
        CHECK_THAT(run.failure(), contains_substring("the real layer"));
    }
}
