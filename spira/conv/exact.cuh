// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/exact.cuh: output-stationary convolution in plain fp32 multiply-adds, over the ordered
// layout.
//
// For every format on GPUs before sm_80. It needs no asynchronous copies, no mbarriers and no
// matrix instructions.
//
// A tile is a pair of row groups, 128 rows. A thread block computes its sums for 32 or 64 output
// channels, in registers, from the first offset to the epilogue. It goes through the offsets of the
// tile, ascending, and through chunks of 16 input channels. While a chunk is multiplied, the rows
// and weights of the next are on their way to registers; then they are stored to shared memory,
// rows rounded to tf32 where the format is. A warp has every fourth fragment of 8 rows. It stores
// and multiplies its own, and skips those without a source. All warps share the weights.
//
// The products and the epilogue are those of portable/ in exact fp32: fmaf(row, weight, sum), added
// in ascending order of offsets and input channels. int8 layers have rows, weights and sums of
// int32 in their place, and a shortcut's products are added to the same sums.
#ifndef SPIRA_CONV_EXACT_CUH
#define SPIRA_CONV_EXACT_CUH

#include "portable/epilogue.cuh"

namespace spira {

// One variant of the kernel: of a format and of 16 * bands output channels. Also what the functions
// of portable/ read of it.
template <typename E, int bands_, bool mixed_ = false>
struct exact_traits {
    typedef E element;
    static constexpr bool exact = true, mixed = mixed_ || sizeof(E) == 1;
    static constexpr int bands = bands_, fragments = 4; // of a warp
    static constexpr int across = 1, down = 4;          // warps
    static constexpr int columns = portable_band * bands, rows = 128, threads = 128;
    static constexpr int producers = 0;
    static constexpr int batch = sizeof(E) == 4 ? 4 : 8;
    static constexpr int blocks = columns / conv_exact_out; // of weights
};

// Shared memory. Rows are stored as a stage of portable/ has them (fill.cuh).
template <int columns>
struct exact_shared {
    alignas(128) char rows[128 * conv_chunk_bytes];
    char weights[2][columns * conv_chunk_bytes]; // of this chunk and the next, in turn
    alignas(16) float scale[2 * columns];        // of the slice's channels; then their shifts
};

// ---- offsets of a tile --------------------------------------------------------------------------

// Where a warp is among the offsets of its tile. A lane's own row is number lane % 8 of the warp's
// fragment lane / 8: so the first 16 lanes have rows of the first row group.
struct exact_walk {
    int group;          // the lane's row group
    int place;          // the lane's row in it
    int word;           // of the masks: offsets 32 word ..
    uint32_t rest, own; // of this word: offsets of the tile that are still to come; of the group
};

struct exact_entry {
    int offset;     // negative: no more
    int32_t source; // of the lane's row; -1: none
};

// A word of a row group's mask; of the identity, one offset.
SPIRA_DEVICE uint32_t exact_mask(const conv_params &p, const conv_work &work, int group, int word) {
    return group >= work.row_groups ? 0
           : p.order.row ? __ldg(p.order.mask + (int64_t)group * order_words(p.volume) + word)
                         : 1;
}

// pair: of row groups.
SPIRA_DEVICE exact_walk exact_walk_begin(int pair) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = (lane / 8 * 4 + warp) * portable_fragment + lane % 8;
    exact_walk w = {};
    w.group = pair * conv_pair_groups + row / order_rows;
    w.place = row % order_rows;
    w.word = -1;
    return w;
}

// The next offset. The same in all lanes but for the source.
SPIRA_DEVICE exact_entry exact_next(const conv_params &p, const conv_work &work, exact_walk &w) {
    while (!w.rest && w.word + 1 < order_words(p.volume)) {
        ++w.word;
        w.own = exact_mask(p, work, w.group, w.word);
        w.rest = portable_uniform(w.own | exact_mask(p, work, w.group ^ 1, w.word));
    }
    if (!w.rest) {
        return {-1, -1};
    }
    const int bit = __ffs((int)w.rest) - 1, offset = w.word * order_word_bits + bit;
    w.rest &= w.rest - 1;
    if (!(w.own >> bit & 1)) {
        return {offset, -1};
    }
    return {offset, conv_source_load(p, work, w.group, offset, true, w.place)};
}

// ---- chunks -------------------------------------------------------------------------------------

// What a thread loads of a chunk: four input channels of a row of each of the warp's fragments, and
// 16 bytes of each block of weights.
template <typename T>
struct exact_operands {
    portable_packed<typename T::element> row[T::fragments];
    uint4 weights[T::blocks];
};

// Loads `left` channels, at most four; zeros past the last. wide: the address is aligned.
template <typename E>
SPIRA_DEVICE void exact_row_load(const E *from, int left, bool wide, portable_packed<E> &row) {
    if (wide) {
        portable_packed_load(from, row);
        return;
    }
    conv_quad<E> quad = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < left) {
            quad.element[i] = from[i];
        }
    }
    row = bytes_as<portable_packed<E>>(quad);
}

template <typename T>
SPIRA_DEVICE void exact_load(const conv_params &p, const conv_work &work, const exact_entry &entry,
                             int chunk, exact_operands<T> &to) {
    typedef typename T::element E;
    const char *const weights = (const char *)p.weights +
                                ((int64_t)entry.offset * p.chunks + chunk) * p.weight_bytes +
                                (work.channel * conv_chunk_bytes + (int)threadIdx.x * 16);
    const int left = p.weight_bytes - work.channel * conv_chunk_bytes; // bytes of the chunk
#pragma unroll
    for (int i = 0; i < T::blocks; ++i) {
        const int at = i * (int)(conv_exact_block * sizeof(float));
        to.weights[i] = at < left ? __ldg((const uint4 *)(weights + at)) : make_uint4(0, 0, 0, 0);
    }
    const bool second = chunk >= p.chunks1, wide = second ? p.wide_in2 : p.wide_in;
    const int lane = (int)threadIdx.x % 32, channels = second ? p.cin2 : p.cin;
    const int pitch = second ? p.cin2 : p.pitch;
    const int channel = (second ? chunk - p.chunks1 : chunk) * conv_exact_in + lane % 4 * 4;
    const E *const in = (const E *)(second ? p.in2 : p.in) + channel;
#pragma unroll
    for (int i = 0; i < T::fragments; ++i) {
        const int32_t row = __shfl_sync(~0u, entry.source, i * 8 + lane / 4);
        to.row[i] = {};
        if (row >= 0 && channel < channels) {
            exact_row_load(in + (int64_t)row * pitch, channels - channel, wide, to.row[i]);
        }
    }
}

template <typename E>
SPIRA_DEVICE uint32_t exact_operand(E element, bool tf32) {
    if constexpr (sizeof(E) == 1) {
        return (uint32_t)(int32_t)element;
    } else {
        const float x = element_to_float(element);
        return tf32 ? tf32_bits(x) : __float_as_uint(x);
    }
}

// Stores it. rows, weights: addresses of the thread block's.
template <typename T>
SPIRA_DEVICE void exact_store(const exact_operands<T> &from, bool tf32, uint32_t rows,
                              uint32_t weights) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t own = rows + warp * portable_fragment_bytes +
                         portable_row_place(lane / 4 * conv_chunk_bytes + lane % 4 * 16);
#pragma unroll
    for (int i = 0; i < T::fragments; ++i) {
        const auto quad = bytes_as<conv_quad<typename T::element>>(from.row[i]);
        const auto &e = quad.element;
        shared_store_4(own + (uint32_t)(i * T::down * portable_fragment_bytes),
                       make_uint4(exact_operand(e[0], tf32), exact_operand(e[1], tf32),
                                  exact_operand(e[2], tf32), exact_operand(e[3], tf32)));
    }
#pragma unroll
    for (int i = 0; i < T::blocks; ++i) {
        shared_store_4(weights + (uint32_t)(i * (int)(conv_exact_block * sizeof(float))) +
                           threadIdx.x * 16,
                       from.weights[i]);
    }
}

// The state of a chunk, as portable_multiply_exact reads it: which of the warp's fragments have a
// source, and how many pieces of four input channels there are.
SPIRA_DEVICE uint32_t exact_state(const conv_params &p, const exact_entry &entry, int chunk) {
    const uint32_t rows = __ballot_sync(~0u, entry.source >= 0);
    const bool second = chunk >= p.chunks1;
    const int left =
        second ? p.cin2 - (chunk - p.chunks1) * conv_exact_in : p.cin - chunk * conv_exact_in;
    const auto pieces = (uint32_t)(min(left, (int)conv_exact_in) + 3) / 4;
    uint32_t state = pieces * portable_flag_piece << portable_state_flags;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        state |= rows >> 8 * i & 0xff ? 1u << i : 0;
    }
    return state;
}

// ---- kernel -------------------------------------------------------------------------------------

// The sources of a shortcut in place of the layer's.
SPIRA_DEVICE conv_params exact_params_shortcut(const conv_params &p) {
    conv_params s = p;
    s.in = p.shortcut.in;
    s.in2 = p.shortcut.in2;
    s.weights = p.shortcut.weights;
    s.cin = s.pitch = p.shortcut.cin;
    s.cin2 = p.shortcut.cin2;
    s.chunks = p.shortcut.chunks;
    s.chunks1 = (s.cin + (int)conv_exact_in - 1) / (int)conv_exact_in;
    s.wide_in = p.shortcut.wide_in;
    s.wide_in2 = p.shortcut.wide_in2;
    return s;
}

// The one entry of a shortcut: its source rows are the tile's output rows.
SPIRA_DEVICE exact_entry exact_entry_shortcut(const conv_params &p, const conv_work &work,
                                              const exact_walk &w) {
    return {0, conv_output_load(p, work.outputs, w.group * order_rows + w.place)};
}

// Adds all products of a tile: of the layer, or of its shortcut. turn: which half of shared.weights
// is next.
template <typename T, bool shortcut = false>
SPIRA_DEVICE void exact_multiply(const conv_params &p, const conv_work &work, int pair,
                                 exact_shared<T::columns> &shared, uint32_t &turn,
                                 portable_sums<T> &sum) {
    const portable_place own = portable_place_of<T>();
    const uint32_t rows = shared_address(shared.rows), weights = shared_address(shared.weights);
    const uint32_t rows_of_lane =
        rows + (uint32_t)own.down * portable_fragment_bytes +
        portable_row_place((uint32_t)portable_t<T>() * 2 * conv_chunk_bytes);
    exact_walk walk = exact_walk_begin(pair);
    exact_entry now = shortcut ? exact_entry_shortcut(p, work, walk) : exact_next(p, work, walk);
    exact_entry coming = {-1, -1};
    if constexpr (!shortcut) {
        coming = exact_next(p, work, walk);
    }
    exact_operands<T> next;
    int chunk = 0;
    if (now.offset >= 0) {
        exact_load<T>(p, work, now, chunk, next);
    }
    while (now.offset >= 0) {
        const uint32_t state = exact_state(p, now, chunk);
        const uint32_t half = weights + turn * (uint32_t)sizeof(shared.weights[0]);
        turn ^= 1;
        __syncwarp(); // the rows of the last chunk have been read
        exact_store<T>(next, p.tf32, rows, half);
        __syncthreads(); // all weights of this chunk are there, and those before it have been read
        if (++chunk == p.chunks) {
            chunk = 0;
            now = coming;
            if constexpr (!shortcut) {
                coming = exact_next(p, work, walk);
            }
        }
        if (now.offset >= 0) {
            exact_load<T>(p, work, now, chunk, next);
        }
        portable_multiply_exact<T>(
            {rows_of_lane, half + (uint32_t)portable_g<T>() * conv_lane_bytes, 0, 0}, state, sum);
    }
}

template <typename T>
SPIRA_KERNEL void __launch_bounds__(T::threads, 3)
    exact_kernel(const __grid_constant__ conv_params p) {
    __shared__ exact_shared<T::columns> shared;
    const conv_work work = conv_work_of<T::columns, conv_pair_groups>(p);
    const portable_place own = portable_place_of<T>();
    conv_scale_load<T::columns>(p, work.channel, T::columns, (int)threadIdx.x, shared);
    if constexpr (sizeof(typename T::element) == 1) {
        conv_step_load<T::columns>(p, work.channel, T::columns, (int)threadIdx.x, shared);
    }
    pdl_wait(); // before features, residual, sums and outputs
    __syncthreads();
    uint32_t turn = 0;
#pragma unroll 1
    for (int tile = 0; tile < work.tiles; ++tile) {
        const int pair = conv_pair_at(p, true, conv_tile_place(work, tile));
        portable_sums<T> sum;
        portable_clear<T>(sum);
        exact_multiply<T>(p, work, pair, shared, turn, sum);
        if constexpr (sizeof(typename T::element) == 1) {
            if (p.shortcut.chunks) {
                const conv_params s = exact_params_shortcut(p);
                exact_multiply<T, true>(s, work, pair, shared, turn, sum);
            }
        }
        int row[T::fragments][2];
#pragma unroll
        for (int i = 0; i < 2 * T::fragments; ++i) {
            const int first = portable_fragment_of<T>(own, i / 2) * portable_fragment;
            row[i / 2][i % 2] = conv_output_load(
                p, work.outputs, pair * T::rows + first + portable_t<T>() * 2 + i % 2);
        }
        portable_finish_any<T>(p, shared.scale, work.channel, row, sum);
    }
}

// ---- choice and launch --------------------------------------------------------------------------

// Whether slices of 32 output channels are compiled: for GPUs that compute all layers this way.
SPIRA_API constexpr bool exact_has_narrow() {
    return device_code_within(0, 79);
}

// Whether a layer can be cut so. conv_sizes: `slices` is columns / 32; the others are 1.
SPIRA_API bool exact_sizes_fit(const conv_sizes *size) {
    return size->tiles == 1 && size->split == 1 &&
           (size->slices == 2 || (size->slices == 1 && exact_has_narrow()));
}

// The choice without measurements.
SPIRA_API conv_sizes exact_sizes_choose(const conv_shape *s) {
    return {1, s->cout <= 32 && exact_has_narrow() ? 1 : 2, 1, 1};
}

template <typename T>
SPIRA_API status exact_launch(conv_params p, int workers, cudaStream_t stream) {
    typedef typename T::element E;
    p.chunks1 = conv_exact_chunks(p.cin);
    p.chunks = p.chunks1 + conv_exact_chunks(p.cin2);
    p.weight_bytes = conv_exact_chunk(p.cout) * (int)sizeof(float);
    p.wide_in = conv_aligned(p.in, p.pitch, sizeof(E), 4 * sizeof(E)) && p.cin % 4 == 0;
    p.wide_in2 = !p.cin2 || conv_aligned(p.in2, p.cin2, sizeof(E), 4 * sizeof(E));
    if (conv_params_shortcut *s = p.shortcut.chunks ? &p.shortcut : nullptr) {
        s->chunks = conv_exact_chunks(s->cin) + conv_exact_chunks(s->cin2);
        s->wide_in = conv_aligned(s->in, s->cin, sizeof(E), 4 * sizeof(E));
        s->wide_in2 = !s->cin2 || conv_aligned(s->in2, s->cin2, sizeof(E), 4 * sizeof(E));
    }
    const int64_t tiles = order_pairs(order_count(p.capacity));
    const dim3 grid(1, (unsigned)ceil_div(p.cout, T::columns), (unsigned)min_of(tiles, workers));
    return kernel_launch(exact_kernel<T>, {grid, T::threads, stream, "conv", p.programmatic}, p);
}

// Computes a layer. p.sizes must fit (exact_sizes_fit); p.weights: of conv_exact_pack_kernel.
//
// workers  of a slice, at most: a grid's z has room for 65535. Each has several of more tiles
template <typename E, bool mixed = false>
SPIRA_API status exact_run(const conv_params &p, cudaStream_t stream, int workers = 65535) {
    if constexpr (exact_has_narrow()) {
        if (p.sizes.slices == 1) {
            return exact_launch<exact_traits<E, 2, mixed>>(p, workers, stream);
        }
    }
    return exact_launch<exact_traits<E, 4, mixed>>(p, workers, stream);
}

} // namespace spira

#endif
