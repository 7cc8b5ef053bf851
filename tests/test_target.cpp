// The target that is asked for is the one that runs: its vectors' length shows in the work it issues, and fused or
// unfused multiply-adds show in the last bits.
#include "attention_problem.hpp"
#include "catch_compat.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "kernels/kernel_table.hpp"

using namespace tensors;
using headwise::Target;

extern char** environ;

namespace {

const Problem problem{.n_q = 37, .n_kv = 70, .d_k = 59, .d_v = 33};

/// What one call did: the bits of its result, and the multiply-adds that scoring issued.
struct Evidence {
    std::uint64_t bits = 0;
    std::int64_t issued = 0;

    friend bool operator==(const Evidence&, const Evidence&) = default;
};

Evidence gather_evidence()
{
    const Inputs<float> inputs(problem);
    const Outputs<float> outputs(problem);
    headwise::WorkReport work;
    headwise::attention(inputs.Q.view(), inputs.K.view(), inputs.V.view(), outputs.Y.view(), {.work = &work});
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    for_each_index(outputs.Y.shape(), [&](const auto& i) {
        hash = (hash ^ std::bit_cast<std::uint32_t>(at(outputs.Y.view(), i))) * 1099511628211u;
    });
    return {hash, work.issued.score};
}

struct Child {
    bool started = true;
    std::string output;
};

/// This program once more, running the hidden test below with HEADWISE_TARGET=target.
Child run_child(const std::string& target)
{
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);

    std::string program = "headwise_tests", test = "target: tell what runs", variable = "HEADWISE_TARGET=" + target;
    std::array<char*, 3> arguments{program.data(), test.data(), nullptr};
    std::vector<char*> environment;
    for (char** v = environ; *v != nullptr; ++v)
        if (!std::string(*v).starts_with("HEADWISE_TARGET=")) environment.push_back(*v);
    environment.push_back(variable.data());
    environment.push_back(nullptr);

    pid_t id = 0;
    const int error = posix_spawn(&id, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    // An emulator of another processor family cannot start a second copy of this program.
    REQUIRE((error == 0 || error == ENOEXEC));
    Child child{.started = error == 0, .output = {}};
    std::array<char, 4096> buffer;
    for (ssize_t count = 0; child.started && (count = read(ends[0], buffer.data(), buffer.size())) > 0;)
        child.output.append(buffer.data(), static_cast<std::size_t>(count));
    close(ends[0]);
    if (!child.started) return child;
    int status = 0;
    REQUIRE(waitpid(id, &status, 0) == id);
    // The emulator's posix_spawn may not learn of the error: what is left of it is the status of a failed exec.
    constexpr int exec_failed = 127;
    child.started = !(WIFEXITED(status) && WEXITSTATUS(status) == exec_failed && child.output.empty());
    return child;
}

/// The line that the hidden test prints.
std::optional<std::pair<std::string, Evidence>> parse(const std::string& output)
{
    const std::size_t at = output.find("evidence: ");
    if (at == std::string::npos) return {};
    std::istringstream line(output.substr(at + 10));
    std::pair<std::string, Evidence> result;
    line >> result.first >> result.second.bits >> result.second.issued;
    return result;
}

}  // namespace

TEST_CASE("target: tell what runs", "[.][child]")
{
    try {
        const Target target = headwise::active_target();
        const Evidence evidence = gather_evidence();
        std::printf("evidence: %s %llu %lld\n", std::string(headwise::name(target)).c_str(),
                    static_cast<unsigned long long>(evidence.bits), static_cast<long long>(evidence.issued));
    } catch (const std::invalid_argument& error) {
        std::printf("refused: %s\n", error.what());
    }
    std::fflush(stdout);
}

TEST_CASE("target: names", "[target]")
{
    for (const Target target : headwise::available_targets())
        CHECK(headwise::target_from_name(headwise::name(target)) == target);
    for (const char* unknown : {"", "avx", "AVX2", "avx2 ", "sse4"}) {
        INFO(unknown);
        CHECK_THROWS_AS(headwise::target_from_name(unknown), std::invalid_argument);
    }
    CHECK_THROWS_WITH(headwise::target_from_name("mmx"), catch_compat::contains_substring("mmx"));
    CHECK_FALSE(headwise::available_targets().empty());
}

TEST_CASE("target: one that this processor lacks is refused, and the former one stays", "[target]")
{
    const auto available = headwise::available_targets();
    const Target former = headwise::active_target();
    for (const Target target : {Target::sse2, Target::avx2, Target::avx512, Target::neon}) {
        if (std::find(available.begin(), available.end(), target) != available.end()) continue;
        CHECK_THROWS_WITH(headwise::set_active_target(target),
                          catch_compat::contains_substring(std::string(headwise::name(target))));
        CHECK(headwise::active_target() == former);
    }
}

TEST_CASE("target: the table's own target, and a vector length for each", "[target]")
{
    const std::map<Target, int> lanes{{Target::sse2, 4}, {Target::avx2, 8}, {Target::avx512, 16}, {Target::neon, 4}};
    for (const Target target : headwise::available_targets()) {
        CHECK(headwise::kernel_table<float>(target).target == target);
        CHECK(headwise::kernel_table<float>(target).lanes == lanes.at(target));
        CHECK(headwise::kernel_table<double>(target).lanes * 2 == lanes.at(target));
    }
}

TEST_CASE("target: set_active_target decides what runs", "[target]")
{
    std::map<Target, Evidence> evidence;
    for_each_target([&](Target target) {
        CHECK(headwise::active_target() == target);
        evidence[target] = gather_evidence();
    });
    for_each_target([&](Target target) { CHECK(gather_evidence() == evidence[target]); });
    for (const auto& [target, seen] : evidence)
        for (const auto& [other, other_seen] : evidence) {
            if (target == other) continue;
            INFO(headwise::name(target) << " and " << headwise::name(other));
            // 37 queries are 40 lanes of vectors of 4 or 8, and 48 of 16; bits tell fused from unfused
            const bool differs = seen.bits != other_seen.bits || seen.issued != other_seen.issued;
            CHECK(differs);
            if (target == Target::sse2) CHECK(seen.bits != other_seen.bits);
        }
}

TEST_CASE("target: results of all targets agree but for their last bits", "[target]")
{
    const Inputs<float> inputs(problem);
    const Outputs<float> want = run_oracle(inputs);
    for_each_target([&](Target target) {
        INFO(headwise::name(target));
        CHECK(max_error(run_kernels(inputs).Y.view(), want.Y.view()) < 1e-6);
    });
}

TEST_CASE("target: HEADWISE_TARGET decides what runs", "[target]")
{
    std::map<std::string, Evidence> evidence;
    for_each_target([&](Target target) { evidence[std::string(headwise::name(target))] = gather_evidence(); });
    for (const auto& [target, expected] : evidence) {
        const Child child = run_child(target);
        if (!child.started) {
            WARN("not tested: no second copy of this program can be started");
            return;
        }
        const auto told = parse(child.output);
        INFO(target << ": " << child.output);
        REQUIRE(told);
        CHECK(told->first == target);
        CHECK(told->second == expected);
    }
    const auto best = parse(run_child("").output);  // empty: as if it were not set
    REQUIRE(best);
    CHECK(best->first == headwise::name(headwise::available_targets().back()));
    for (const std::string unknown : {"avx1024", "AVX2"}) {
        const std::string output = run_child(unknown).output;
        INFO(output);
        CHECK(output.find("refused: HEADWISE_TARGET is \"" + unknown + "\"") != std::string::npos);
        CHECK_FALSE(parse(output));
    }
}
