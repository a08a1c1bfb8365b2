// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/reference_grid.h: the reference for networks whose sets follow other rules than the
// floor of a stride: the voxels and the map of every layer by loops over a dense grid. It works on
// the indices of each grid, as spconv does, and knows nothing of words, origins or spira's sets.
#ifndef SPIRA_TESTS_REFERENCE_GRID_H
#define SPIRA_TESTS_REFERENCE_GRID_H

#include "reference_net.h"

// A sparse tensor as an array over its extent.
struct reference_grid {
    int batch, n[3];          // n: x, y, z
    int spacing[3];           // in voxels of the input
    std::vector<char> has;    // [batch, x, y, z]
    std::vector<int32_t> row; // [batch, x, y, z] of the features, where there are some
    int made_by;              // layer that made the set; net_input
};

// A position on a grid.
struct reference_cell {
    int batch, at[3];
};

SPIRA_API int64_t reference_grid_cells(const reference_grid *g) {
    return (int64_t)g->batch * g->n[0] * g->n[1] * g->n[2];
}

// The number of a cell, or -1 outside of the grid.
SPIRA_API int64_t reference_grid_at(const reference_grid *g, reference_cell c) {
    bool inside = c.batch >= 0 && c.batch < g->batch;
    int64_t at = c.batch;
    for (int a = 0; a < 3; ++a) {
        inside = inside && c.at[a] >= 0 && c.at[a] < g->n[a];
        at = at * g->n[a] + c.at[a];
    }
    return inside ? at : -1;
}

SPIRA_API reference_cell reference_grid_cell(const reference_grid *g, int64_t number) {
    reference_cell c;
    for (int a = 2; a >= 0; --a) {
        c.at[a] = (int)(number % g->n[a]);
        number /= g->n[a];
    }
    c.batch = (int)number;
    return c;
}

SPIRA_API void reference_grid_clear(reference_grid *g) {
    g->has.assign((size_t)reference_grid_cells(g), 0);
    g->row.assign((size_t)reference_grid_cells(g), -1);
}

// One axis of a layer: output o reads input o * stride - padding + tap * dilation.
struct reference_taps {
    int size[3], stride[3], padding[3], dilation[3];
};

// The layer that fixes the taps: a layer itself, or the one that an inverse layer goes back
// through.
SPIRA_API reference_taps reference_grid_taps(const spira::net_layer *l) {
    const int size[3] = {l->size.x, l->size.y, l->size.z};
    const int stride[3] = {l->stride.x, l->stride.y, l->stride.z};
    const int dilation[3] = {l->dilation.x, l->dilation.y, l->dilation.z};
    const int padding[3] = {l->padding.x, l->padding.y, l->padding.z};
    reference_taps t;
    for (int a = 0; a < 3; ++a) { // odd kernels are centred on the output, even ones begin at it
        const int centred = size[a] % 2 ? size[a] / 2 * dilation[a] : 0;
        t.size[a] = size[a];
        t.stride[a] = stride[a];
        t.dilation[a] = dilation[a];
        t.padding[a] = l->rule == spira::net_rule_expand ? padding[a] : centred;
    }
    return t;
}

// Calls body(tap, input cell) for each tap of an output; inputs may be outside of the grid.
template <typename F>
void reference_grid_visit(const reference_taps *t, reference_cell out, F body) {
    int tap = 0;
    for (int x = 0; x < t->size[0]; ++x) {
        for (int y = 0; y < t->size[1]; ++y) {
            for (int z = 0; z < t->size[2]; ++z, ++tap) {
                const int k[3] = {x, y, z};
                reference_cell in = out;
                for (int a = 0; a < 3; ++a) {
                    in.at[a] = out.at[a] * t->stride[a] - t->padding[a] + k[a] * t->dilation[a];
                }
                body(tap, in);
            }
        }
    }
}

// ---- the voxels of a layer's outputs ------------------------------------------------------------

// The grid of a layer whose set follows spconv's rule, or a floor from origin 0.
SPIRA_API reference_grid reference_grid_strided(const reference_grid *in, const spira::net_layer *l,
                                                int layer) {
    const reference_taps t = reference_grid_taps(l);
    const bool expands = l->rule == spira::net_rule_expand;
    reference_grid g = *in;
    g.made_by = layer;
    for (int a = 0; a < 3; ++a) {
        const int play = in->n[a] + 2 * t.padding[a] - t.dilation[a] * (t.size[a] - 1) - 1;
        g.n[a] = expands ? play / t.stride[a] + 1 : (in->n[a] - 1) / t.stride[a] + 1;
        g.spacing[a] *= t.stride[a];
    }
    reference_grid_clear(&g);
    for (int64_t i = 0; i < (int64_t)g.has.size() && expands; ++i) {
        reference_grid_visit(&t, reference_grid_cell(&g, i), [&](int, reference_cell from) {
            const int64_t at = reference_grid_at(in, from);
            g.has[(size_t)i] |= at >= 0 && in->has[(size_t)at];
        });
    }
    for (int64_t i = 0; i < (int64_t)in->has.size() && !expands; ++i) {
        reference_cell c = reference_grid_cell(in, i);
        for (int a = 0; a < 3; ++a) {
            c.at[a] /= t.stride[a];
        }
        g.has[(size_t)reference_grid_at(&g, c)] |= in->has[(size_t)i];
    }
    return g;
}

// The grid of a join, without voxels. axis: the one that is dropped, or -1.
SPIRA_API reference_grid reference_grid_union(const std::vector<const reference_grid *> &sources,
                                              int axis, int layer) {
    reference_grid g = *sources[0];
    g.made_by = layer;
    for (const reference_grid *s : sources) {
        for (int a = 0; a < 3; ++a) {
            g.spacing[a] = std::min(g.spacing[a], s->spacing[a]);
        }
    }
    for (int a = 0; a < 3; ++a) {
        g.n[a] = 1;
        for (const reference_grid *s : sources) {
            const int last = (s->n[a] - 1) * (s->spacing[a] / g.spacing[a]);
            g.n[a] = a == axis ? 1 : std::max(g.n[a], last + 1);
        }
    }
    reference_grid_clear(&g);
    return g;
}

// The cell of a join that a source's cell goes to.
SPIRA_API int64_t reference_grid_target(const reference_grid *to, const reference_grid *from,
                                        int64_t number) {
    reference_cell c = reference_grid_cell(from, number);
    for (int a = 0; a < 3; ++a) {
        c.at[a] = to->n[a] == 1 ? 0 : c.at[a] * (from->spacing[a] / to->spacing[a]);
    }
    return reference_grid_at(to, c);
}

// A source's voxels in the grid of a join.
SPIRA_API void reference_grid_gather(const reference_grid *from, reference_grid *to) {
    for (int64_t i = 0; i < (int64_t)from->has.size(); ++i) {
        const int64_t at = from->has[(size_t)i] ? reference_grid_target(to, from, i) : -1;
        if (at >= 0) {
            to->has[(size_t)at] = 1;
        }
    }
}

// The map [outputs, volume] of a layer of one source. taps: forward; back: of the layer that this
// one is the inverse of.
SPIRA_API std::vector<int32_t> reference_grid_map(const reference_grid *in,
                                                  const reference_taps *taps, bool back,
                                                  const reference_grid *out, int32_t outputs) {
    const int volume = taps->size[0] * taps->size[1] * taps->size[2];
    std::vector<int32_t> map((size_t)outputs * (size_t)volume + 1, -1);
    const reference_grid *outer = back ? in : out, *inner = back ? out : in;
    for (int64_t o = 0; o < (int64_t)outer->has.size(); ++o) {
        if (!outer->has[(size_t)o]) {
            continue;
        }
        reference_grid_visit(taps, reference_grid_cell(outer, o), [&](int tap, reference_cell c) {
            const int64_t i = reference_grid_at(inner, c);
            if (i >= 0 && inner->has[(size_t)i]) {
                const int32_t to = out->row[(size_t)(back ? i : o)];
                map[(size_t)(to * volume + tap)] = in->row[(size_t)(back ? o : i)];
            }
        });
    }
    return map;
}

#endif
