#include "isa/define_tables.hpp"

HEADWISE_DEFINE_TABLES(avx512, xsimd::avx512bw)
