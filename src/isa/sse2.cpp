#include "isa/define_tables.hpp"

HEADWISE_DEFINE_TABLES(sse2, xsimd::sse2)
