#include "isa/define_tables.hpp"

HEADWISE_DEFINE_TABLES(neon, xsimd::neon64)
