#include "isa/define_tables.hpp"

HEADWISE_DEFINE_TABLES(avx2, xsimd::fma3<xsimd::avx2>)
