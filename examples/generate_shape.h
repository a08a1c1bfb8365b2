// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/generate_shape.h: a made-up rule that grows a shape: which cells its surface crosses.
//
// The surface is the tanglecube, x^4 - 5 x^2 + y^4 - 5 y^2 + z^4 - 5 z^2 + 11.8 = 0. Corners of
// cells are tested in integers, so that every machine grows the same sets.
#ifndef SPIRA_EXAMPLES_GENERATE_SHAPE_H
#define SPIRA_EXAMPLES_GENERATE_SHAPE_H

#include "../spira/subdivide.h"

#include <vector>

namespace generate {

typedef uint32_t word;

enum { steps = 4, coarsest = 1 << steps }; // from stride 16 to 1

// A grid of side^3 cells, and in its middle a cube of edge^3, which the shape fills. At most 1024,
// so that all fits in 64 bits.
struct cube {
    int side, edge;
};

SPIRA_BOTH bool inside(cube c, int x, int y, int z) {
    const int64_t unit = (int64_t)c.edge * c.edge / 16; // half cells of a unit of length, squared
    int64_t f = 118 * unit * unit / 10;
    for (const int at : {x, y, z}) {
        const int64_t square = ((int64_t)2 * at - c.side) * (2 * at - c.side);
        f += square * square - 5 * unit * square;
    }
    return f < 0;
}

// Whether the surface crosses a cell.
SPIRA_BOTH bool crosses(cube c, int x, int y, int z, int cell) {
    int corners = 0;
    for (int i = 0; i < 8; ++i) {
        corners += inside(c, x + (i & 1) * cell, y + (i >> 1 & 1) * cell, z + (i >> 2) * cell);
    }
    return corners > 0 && corners < 8;
}

// The logit of child s of a voxel: above 0, it exists.
SPIRA_BOTH float rule(const spira::word_layout *layout, cube c, int stride, word parent, int s) {
    const spira::voxel v = spira::word_unpack<word>(layout, parent);
    const int half = stride / 2;
    const bool there =
        crosses(c, v.x + (s & 1) * half, v.y + (s >> 1 & 1) * half, v.z + (s >> 2) * half, half);
    return there ? 1.0f : -1.0f;
}

// The set that all begins with, and a layout for it and all that grows from it.
SPIRA_API spira::status begin(cube c, spira::word_layout *layout, std::vector<word> *set) {
    std::vector<spira::voxel> voxels;
    spira::word_need need = {};
    need.batches = 1;
    need.stride = need.reach = {coarsest, coarsest, coarsest};
    need.lo = {c.side, c.side, c.side};
    for (int x = 0; x < c.side; x += coarsest) {
        for (int y = 0; y < c.side; y += coarsest) {
            for (int z = 0; z < c.side; z += coarsest) {
                if (crosses(c, x, y, z, coarsest)) {
                    voxels.push_back({0, x, y, z});
                    const int at[3] = {x, y, z};
                    for (int a = 0; a < 3; ++a) {
                        int *const lo = spira::triple_at(&need.lo, a), *const hi = spira::triple_at(
                                                                           &need.hi, a);
                        *lo = (int)spira::min_of(*lo, at[a]);
                        *hi = (int)spira::max_of(*hi, at[a] + coarsest - 1);
                    }
                }
            }
        }
    }
    SPIRA_REQUIRE(!voxels.empty(), spira::status_bad_size, "side (no cell of 16)", c.side);
    SPIRA_TRY(spira::word_fit(&need, layout));
    SPIRA_REQUIRE(layout->bits == 32, spira::status_bits, "layout", layout->bits);
    set->clear();
    for (const spira::voxel &v : voxels) { // ascending, as the loops are
        set->push_back(spira::word_pack<word>(layout, v));
    }
    return spira::status_success();
}

} // namespace generate

#endif
