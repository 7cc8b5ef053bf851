#include "catch_compat.hpp"

#include "sweep/makespan.hpp"

using headwise::sweep::makespan;

TEST_CASE("makespan hands each task to the worker that is free first")
{
    CHECK(makespan({}, 4) == 0);
    CHECK(makespan({1, 2, 3}, 1) == 6);
    CHECK(makespan({1, 2, 3}, 3) == 3);
    CHECK(makespan({1, 2, 3}, 100) == 3);
    CHECK(makespan({3, 1, 1, 1}, 2) == 3);  // long ones first
    CHECK(makespan({1, 1, 1, 3}, 2) == 4);  // a long one last leaves the other worker idle
}
