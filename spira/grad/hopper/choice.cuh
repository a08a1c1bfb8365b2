// spira/grad/hopper/choice.cuh: which weight gradients Hopper's kernel computes, and its tiles.
#ifndef SPIRA_GRAD_HOPPER_CHOICE_CUH
#define SPIRA_GRAD_HOPPER_CHOICE_CUH

#include "traits.cuh"

namespace spira {

// The kernel computes layers with more channels than this on one of the sides.
enum { grad_hopper_above = 64 };

struct grad_hopper_tile {
    int rows, columns; // input channels, output channels
};

// All tiles that there are kernels for.
static constexpr grad_hopper_tile grad_hopper_tiles[] = {
    {64, 64}, {64, 128}, {128, 128}, {128, 256}, {256, 128}};

// Channels that are gathered for a pair.
SPIRA_API int64_t grad_hopper_gathered(const conv_shape *s, const grad_hopper_tile &t) {
    const int64_t down = ceil_div(s->cin, t.rows) + ceil_div(s->cin2, t.rows);
    return (s->cin + s->cin2) * ceil_div(s->cout, t.columns) + s->cout * down;
}

// The tile that gathers the fewest channels; of several the smallest.
SPIRA_API grad_hopper_tile grad_hopper_tile_choose(const conv_shape *s) {
    grad_hopper_tile best = grad_hopper_tiles[0];
    for (const grad_hopper_tile &t : grad_hopper_tiles) {
        best = grad_hopper_gathered(s, t) < grad_hopper_gathered(s, best) ? t : best;
    }
    return best;
}

// Whether the kernel computes a layer: 16 bits, more than grad_hopper_above channels on a side,
// and rows that asynchronous copies can read. (Four producer warps are too few to read
// rows element by element. They do it where a pointer is not aligned.)
SPIRA_API bool grad_hopper_takes(const conv_shape *s, const device_info *d) {
    const grad_hopper_tile t = grad_hopper_tile_choose(s);
    return d->hopper && numeric_size(s->type) == 2 &&
           max_of(max_of(s->cin, s->cin2), s->cout) > grad_hopper_above &&
           (s->cin | s->cin2 | s->cout) % 8 == 0 &&
           grad_hopper_stages(t.rows, t.columns, s->volume, d->shared_max) >= grad_hopper_producers;
}

} // namespace spira

#endif
