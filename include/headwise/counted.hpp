// headwise: a number that counts. Run the reference on it and compare with cost::work() as exact integers:
//
//     const Work counted = reference::count_work([&] {
//         reference::multi_head_attention<float, reference::Counted<double>>(shape, weights, X, Y);
//     });
//
// Multiply-adds are counted in the products only: biases, the scale, masks and the division by the row sum are not
// products. Exponentials are counted once for each pair that takes part, that of a sink is not. Where masks, causal or
// windows leave pairs out, these are not counted, except that asking for scores before the mask scores every pair.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <type_traits>

#include <headwise/reference_matrix.hpp>
#include <headwise/work.hpp>

namespace headwise::reference {

/// Where this thread's counts go: nowhere unless count_work() and a StageMarker are active.
struct Counting {
    Work* work = nullptr;
    std::int64_t Work::* stage = nullptr;

    void add_one() const noexcept
    {
        if (work != nullptr && stage != nullptr) ++(work->*stage);
    }
};

inline constinit thread_local Counting counting;

/// A Base that counts multiply_add() and exp() into the marked stage. The arithmetic is that of Base.
template <class Base>
class Counted {
public:
    Counted() = default;

    template <class U>
        requires std::is_arithmetic_v<U>
    explicit Counted(U value) noexcept : value_(static_cast<Base>(value))
    {
    }

    template <class U>
        requires std::is_arithmetic_v<U>
    explicit operator U() const noexcept
    {
        return static_cast<U>(value_);
    }

    friend Counted operator+(Counted a, Counted b) noexcept { return Counted(a.value_ + b.value_); }
    friend Counted operator-(Counted a, Counted b) noexcept { return Counted(a.value_ - b.value_); }
    friend Counted operator*(Counted a, Counted b) noexcept { return Counted(a.value_ * b.value_); }
    friend Counted operator/(Counted a, Counted b) noexcept { return Counted(a.value_ / b.value_); }
    friend bool operator==(Counted, Counted) noexcept = default;
    friend auto operator<=>(Counted, Counted) noexcept = default;

    friend Counted multiply_add(Counted sum, Counted a, Counted b) noexcept
    {
        counting.add_one();
        return Counted(sum.value_ + a.value_ * b.value_);
    }
    friend Counted exp(Counted x) noexcept
    {
        counting.add_one();
        return Counted(std::exp(x.value_));
    }
    friend Counted log(Counted x) noexcept { return Counted(std::log(x.value_)); }
    friend Counted tanh(Counted x) noexcept { return Counted(std::tanh(x.value_)); }

private:
    Base value_ = 0;
};

/// Marks the stage that counts belong to, and the former one again when it ends.
template <class Base>
struct StageMarker<Counted<Base>> {
    explicit StageMarker(std::int64_t Work::* stage) noexcept : former_(counting.stage) { counting.stage = stage; }
    ~StageMarker() { counting.stage = former_; }
    StageMarker(const StageMarker&) = delete;
    StageMarker& operator=(const StageMarker&) = delete;

private:
    std::int64_t Work::* former_;
};

/// The work that `run` does on Counted numbers on this thread.
template <class Run>
Work count_work(const Run& run)
{
    struct Restore {
        Counting former = counting;
        ~Restore() { counting = former; }
    };
    const Restore restore;
    Work work;
    counting = {&work, nullptr};
    run();
    return work;
}

}  // namespace headwise::reference
