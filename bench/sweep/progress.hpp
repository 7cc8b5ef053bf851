// Progress with the time that is left, on stderr.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace headwise::sweep {

/// Shows how far a phase is. On a terminal one line is rewritten; elsewhere a line is written every ten seconds.
/// Safe to advance from many threads.
class Progress {
public:
    /// `cost` is what all steps of the phase amount to, in any unit; later phases are expected to take
    /// `seconds_after` more. expected_seconds, where not 0, is shown until enough of the phase has been seen.
    Progress(std::string phase, double cost, double expected_seconds, double seconds_after);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void advance(double cost, const std::string& what);
    double elapsed() const;

private:
    using Clock = std::chrono::steady_clock;

    double seconds_left() const;
    void show(const std::string& what);

    const std::string phase_;
    const double cost_;
    const double expected_seconds_;
    const double seconds_after_;
    const bool terminal_;
    const Clock::time_point start_ = Clock::now();
    Clock::time_point shown_;
    double done_ = 0;
    std::mutex mutex_;
};

/// "1 min 20 s"
std::string duration_text(double seconds);

}  // namespace headwise::sweep
