// The table of one instruction set. src/isa/ has one file for each, which includes this and defines kernel tables for
// its xsimd architecture.
#pragma once

#include "kernels/attend.hpp"

namespace headwise::kernels {

template <class Arch, class T>
constexpr KernelTable<T> make_table(Target target)
{
    using Shape = TileShape<Arch, T>;
    KernelTable<T> table{};
    table.target = target;
    table.lanes = Shape::lanes;
    table.max_vectors = Shape::max_vectors;
    table.projects_few = &ProjectFew<Arch, T>::takes_last;
    table.key_tile = &Shape::key_tile;
    table.rows_to_panel = &rows_to_panel<Arch, T>;
    table.panel_to_rows = &panel_to_rows<Arch, T>;
    table.project = &project<Arch, T>;
    table.score = &score<Arch, T>;
    table.softmax = &softmax<Arch, T>;
    table.blend = &blend<Arch, T>;
    table.attends_few = &attends_few<Arch, T>;
    table.attend_scratch = &attend_scratch<Arch, T>;
    table.attend = &attend<Arch, T, T>;
    if constexpr (sizeof(T) == sizeof(float)) {
        table.attend_bfloat16 = &attend<Arch, T, bfloat16>;
        table.attend_float16 = &attend<Arch, T, float16>;
    }
    return table;
}

}  // namespace headwise::kernels
