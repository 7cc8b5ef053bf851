#include "sweep/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <unistd.h>

namespace headwise::sweep {

Progress::Progress(std::string phase, double cost, double expected_seconds, double seconds_after)
    : phase_(std::move(phase)),
      cost_(std::max(cost, 1e-9)),
      expected_seconds_(expected_seconds),
      seconds_after_(seconds_after),
      terminal_(isatty(STDERR_FILENO) != 0),
      shown_(start_ - std::chrono::hours(1))
{
    show("");
}

Progress::~Progress()
{
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    std::fprintf(stderr, "%s: done in %s\n", phase_.c_str(), duration_text(elapsed()).c_str());
}

double Progress::elapsed() const
{
    return std::chrono::duration<double>(Clock::now() - start_).count();
}

double Progress::seconds_left() const
{
    const double share = std::min(1.0, done_ / cost_);
    // The first few per cent say little about the rest: there the expectation counts more.
    const double trust = expected_seconds_ > 0 ? std::min(1.0, share * 10) : 1;
    const double seen = share > 0 ? elapsed() * (1 - share) / share : 0;
    return trust * seen + (1 - trust) * expected_seconds_ * (1 - share) + seconds_after_;
}

void Progress::advance(double cost, const std::string& what)
{
    const std::lock_guard lock(mutex_);
    done_ += cost;
    show(what);
}

void Progress::show(const std::string& what)
{
    const auto now = Clock::now();
    if (now - shown_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000))) return;
    shown_ = now;
    const int percent = static_cast<int>(100 * std::min(1.0, done_ / cost_));
    std::fprintf(stderr, "%s%s: %d %%, about %s left  %s%s", terminal_ ? "\r\033[K" : "", phase_.c_str(), percent,
                 duration_text(seconds_left()).c_str(), what.c_str(), terminal_ ? "" : "\n");
    std::fflush(stderr);
}

std::string duration_text(double seconds)
{
    const auto whole = static_cast<long long>(std::llround(std::max(0.0, seconds)));
    if (whole < 60) return std::to_string(whole) + " s";
    if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
    return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

}  // namespace headwise::sweep
