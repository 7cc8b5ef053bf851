// What a file of src/isa/ consists of: the tables of one instruction set.
#pragma once

#include <headwise/target_list.hpp>

#include "kernels/make_table.hpp"

#define HEADWISE_DEFINE_TABLES(set, Arch)                                                                    \
    namespace headwise::isa {                                                                                \
    extern const KernelTable<float> set##_float;                                                             \
    extern const KernelTable<double> set##_double;                                                           \
    constexpr KernelTable<float> set##_float = kernels::make_table<Arch, float>(Target::set);                \
    constexpr KernelTable<double> set##_double = kernels::make_table<Arch, double>(Target::set);             \
    }
