// tests/support/cells.h: sets for cell.h, a finer one and the cells of its voxels.
#ifndef SPIRA_TESTS_CELLS_H
#define SPIRA_TESTS_CELLS_H

#include "reference.h"

#include "../../spira/cell.h"

#include <set>
#include <vector>

template <typename W>
struct cell_scene {
    spira::word_layout layout;
    spira::kernel_shape kernel;
    std::vector<W> outputs, source;
};

// An inverse layer's, or a strided one's. `lost`: of so many cells one is missing, as where their
// set was full; 0: none.
template <typename W>
cell_scene<W> cell_scene_make(random_state *random, bool inverse, spira::triple size,
                              spira::triple stride, int32_t wanted, int lost, int side = 40) {
    cell_scene<W> s = {};
    s.kernel = spira::kernel_cube(1, 1);
    s.kernel.size = size;
    s.kernel.stride = stride;
    s.kernel.transposed = inverse;
    const spira::triple lo = {-side, -side, -side}, hi = {side, side, side};
    const spira::triple cell = spira::cell_stride(&s.kernel);
    s.layout = reference_layout<W>(lo, hi, 3, cell, spira::kernel_reach(&s.kernel));
    s.outputs.resize((size_t)wanted);
    s.outputs.resize(
        (size_t)reference_random_set(random, &s.layout, lo, hi, stride, wanted, s.outputs.data()));
    std::set<W> cells;
    for (W word : s.outputs) {
        if (!lost || random_int(random, 1, lost) > 1) {
            cells.insert(spira::word_floor(&s.layout, word, cell));
        }
    }
    s.source.assign(cells.begin(), cells.end());
    if (!inverse) {
        s.source.swap(s.outputs);
    }
    return s;
}

// Any size, and any stride.
SPIRA_API spira::triple cell_size_any(random_state *random) {
    return {random_int(random, 1, 2), random_int(random, 1, 2), random_int(random, 1, 2)};
}

SPIRA_API spira::triple cell_stride_any(random_state *random, bool powers) {
    int s[3];
    for (int &stride : s) {
        stride = powers ? 1 << random_int(random, 0, 2) : random_int(random, 1, 5);
    }
    return {s[0], s[1], s[2]};
}

#endif
