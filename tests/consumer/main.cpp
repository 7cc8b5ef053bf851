// A program that has headwise from an installed package only.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <headwise/headwise.hpp>

int main()
{
    constexpr std::int64_t h = 2, n = 5, d = 8;
    const std::vector<float> q(h * n * d, 0.25f);
    const std::vector<float> v(h * n * d, 3.0f);
    std::vector<float> y(h * n * d, 0.0f);
    headwise::attention({q.data(), {1, h, n, d}}, {q.data(), {1, h, n, d}}, {v.data(), {1, h, n, d}},
                        {y.data(), {1, h, n, d}});
    // Whatever the weights are, they add up to one, and every row of V is the same.
    for (const float value : y) {
        if (!(std::fabs(value - 3.0f) < 1e-5f)) {
            std::printf("got %g, want 3\n", static_cast<double>(value));
            return 1;
        }
    }
    std::printf("headwise %s: attends\n", headwise::version());
    return 0;
}
