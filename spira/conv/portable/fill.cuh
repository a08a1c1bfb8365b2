// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/fill.cuh: fills a stage: a chunk of the source rows of an offset, and its
// weights.
//
// A fragment is a chunk of 8 rows: 64 bytes each, as the weights of each output channel. Both are
// swizzled, so that ldmatrix reads 8 rows without bank conflicts. Missing rows are filled
// with zeros by the same copies, but for row groups without a source. The header says which
// fragments have one.
#ifndef SPIRA_CONV_PORTABLE_FILL_CUH
#define SPIRA_CONV_PORTABLE_FILL_CUH

#include "../../base/launch.cuh"
#include "cursor.cuh"

namespace spira {

// The swizzles: where byte `at` of a fragment, or of the weights, is stored.
SPIRA_BOTH uint32_t portable_row_place(uint32_t at) {
    return at ^ (at >> 3 & 0x30);
}

// Lanes that read weights together have channels 4 apart (multiply.cuh).
SPIRA_BOTH uint32_t portable_weight_place(uint32_t at) {
    return at ^ (at >> 4 & 0x70);
}

// base + row * pitch, in one instruction.
SPIRA_DEVICE const char *portable_address(const char *base, uint32_t row, uint32_t pitch) {
#ifdef __CUDA_ARCH__
    const char *at;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(pitch), "l"(base));
    return at;
#else
    return base + (uint64_t)row * pitch;
#endif
}

struct portable_chunk {
    const char *base; // the lane's 16 bytes of row 0
    uint32_t pitch;   // bytes to the next row
    int left;         // bytes of a row from the chunk's first on
    bool wide;        // rows are aligned
};

// Bytes of a row from the lane's on.
SPIRA_DEVICE int portable_left(const portable_chunk &c) {
    return c.left - (int)(threadIdx.x % 4) * conv_lane_bytes;
}

// bytes: of a row; pitch: to the next
SPIRA_DEVICE portable_chunk portable_chunk_first(const void *in, int bytes, int pitch, bool wide) {
    const int at = (int)(threadIdx.x % 4) * conv_lane_bytes;
    return {(const char *)in + at, (uint32_t)pitch, bytes, wide};
}

SPIRA_DEVICE void portable_chunk_skip(int chunks, portable_chunk &c) {
    c.base += chunks * conv_chunk_bytes; // not read where nothing is left
    c.left -= chunks * conv_chunk_bytes;
}

SPIRA_DEVICE int portable_chunks(int bytes) {
    return (bytes + conv_chunk_bytes - 1) / conv_chunk_bytes;
}

// An entry of which stages are being filled.
template <int warp_fragments>
struct portable_filling {
    int32_t row[warp_fragments]; // that the lane copies from; -1: none
    uint32_t rows;               // address of the first of these in the slot
    uint32_t valid;              // two bits for each fragment: some of its 4 rows have a source
    const char *weights;         // the lane's first 16 bytes, of the first chunk
    portable_chunk first;        // of the entry
    int stages, chunks1;         // of the entry; of its first source
    uint32_t what;               // of the entry, as in its slot
    int place;                   // of the lane's first four output rows in the layout
    int skip;                    // stages before the team's first
};

// The lane's first 16 bytes of weights. thread: of the team.
SPIRA_DEVICE const char *portable_weights(const void *weights, int channel, int thread) {
    return (const char *)weights + (channel * conv_chunk_bytes + thread * conv_lane_bytes);
}

// Where a thread writes in a stage, from its first byte on; and what all entries have in common.
struct portable_target {
    uint32_t rows, weights;
    uint32_t header; // 0: another lane writes the warp's word
    int thread;      // of the team
    int copies;      // of the weights of a chunk, from the lane's first on
    int outputs;     // conv_work.outputs
};

template <typename T>
SPIRA_DEVICE portable_target portable_target_of(const conv_params &p, const conv_work &work) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % T::pairs;
    portable_target t;
    t.thread = (int)(threadIdx.x % (32 * T::pairs));
    const uint32_t own = (uint32_t)t.thread * conv_lane_bytes;
    t.rows = warp * (T::gathered * conv_chunk_bytes) + portable_row_place(lane * conv_lane_bytes);
    t.weights = T::rows * conv_chunk_bytes + (T::exact ? own : portable_weight_place(own));
    t.header = lane == 0 ? T::header + warp * 4 : 0;
    t.rows = portable_keep(t.rows);
    t.weights = portable_keep(t.weights);
    t.header = portable_keep(t.header);
    t.copies = p.weight_bytes / conv_lane_bytes - work.channel * 4 - t.thread;
    t.outputs = work.outputs;
    return t;
}

// Begins to fill the stages of an entry. slot: its address; the copies into it have arrived.
template <typename T>
SPIRA_DEVICE void portable_filling_begin(const conv_params &p, const conv_work &work,
                                         const portable_target &target, uint32_t slot,
                                         portable_filling<T::warp_fragments> &f) {
    typedef typename T::element E;
    const uint32_t lane = (uint32_t)warp_lane();
    const uint4 four = shared_load_4(slot + lane * (portable_lane_rows * 4));
    const uint4 entry = shared_load_4(slot + T::gathered * 4);
    f.rows = slot + lane / 4 * 4;
#pragma unroll
    for (int i = 0; i < T::warp_fragments; ++i) {
        f.row[i] = (int32_t)shared_load(f.rows + i * portable_fragment * 4);
    }
    f.valid = __ballot_sync(~0u, (int32_t)(four.x & four.y & four.z & four.w) >= 0);
    f.what = portable_uniform(entry.x);
    f.skip = (int)portable_uniform(entry.z);
    f.place = (int)entry.y + (int)lane * portable_lane_rows;
    f.weights = portable_weights(p.weights, work.channel, target.thread) +
                conv_multiply_wide(f.what & portable_offset, (uint32_t)(p.chunks * p.weight_bytes));
    f.stages = p.chunks;
    f.chunks1 = p.chunks1;
    f.first =
        portable_chunk_first(p.in, p.cin * (int)sizeof(E), p.pitch * (int)sizeof(E), p.wide_in);
    if (f.what & portable_of_shortcut) {
        const int bytes = p.shortcut.cin * (int)sizeof(E);
        f.stages = p.shortcut.chunks;
        f.chunks1 = portable_chunks(bytes);
        f.first = portable_chunk_first(p.shortcut.in, bytes, bytes, p.shortcut.wide_in);
        f.weights = portable_weights(p.shortcut.weights, work.channel, target.thread);
    }
}

template <typename T>
SPIRA_DEVICE void portable_fill_weights(const char *weights, const portable_target &to,
                                        uint32_t stage) {
    enum { step = 32 * T::pairs, all = T::columns * 4 };
    auto copy = [&](int i) { // the swizzle of 512 bytes is that of the first, but for two bits
        const uint32_t place = T::exact ? to.weights : to.weights ^ (uint32_t)i / 32 % 4 * 0x20;
        async_copy_16(stage + place + i * conv_lane_bytes, weights + i * conv_lane_bytes, true);
    };
    if (to.copies + to.thread >= all) {
#pragma unroll
        for (int i = 0; i < all; i += step) {
            copy(i);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < to.copies; i += step) {
        copy(i);
    }
}

// Calls copy(i) for the fragments i of row groups that have a source; the others are left as they
// are.
template <typename T, typename F>
SPIRA_DEVICE void portable_each_valid(const portable_filling<T::warp_fragments> &f, const F &copy) {
    enum {
        fragments = T::warp_fragments / conv_pair_groups,
        bits = fragments * portable_word_bits
    };
#pragma unroll
    for (int group = 0; group < conv_pair_groups; ++group) {
        if (f.valid >> group * bits & ((1u << bits) - 1)) {
#pragma unroll
            for (int i = group * fragments; i < (group + 1) * fragments; ++i) {
                copy(i);
            }
        }
    }
}

template <typename T>
SPIRA_DEVICE void portable_fill_rows(const portable_filling<T::warp_fragments> &f,
                                     const portable_chunk &chunk, uint32_t to) {
    typedef typename T::element E;
    const int left = portable_left(chunk);
    if (chunk.wide) {
        const char *const base = portable_here(chunk.base); // in two registers side by side
        portable_each_valid<T>(f, [&](int i) {
            const char *const from = portable_address(base, (uint32_t)f.row[i], chunk.pitch);
            async_copy_16_signed(to + i * portable_fragment_bytes, from, f.row[i] | (left - 1));
        });
        return;
    }
    const bool halves = conv_in_halves(chunk.base, chunk.pitch | (uint32_t)chunk.left);
#pragma unroll 1
    for (int i = 0; i < T::warp_fragments && f.valid; ++i) { // in halves, or element by element
        const auto row = (int32_t)shared_load(f.rows + i * portable_fragment * 4);
        const char *from = chunk.base + conv_multiply_wide((uint32_t)row, chunk.pitch);
        const uint32_t place = to + i * portable_fragment_bytes;
        if (halves) {
            conv_copy_row<8>(place, from, row >= 0 ? left : 0);
        } else {
            shared_store_4(place, conv_read_each<E>(from, row >= 0 ? left : 0));
        }
    }
}

// Where the lane copies from in a run of whole chunks, of each fragment: addresses of the first.
template <int warp_fragments>
struct portable_sources {
    const char *from[warp_fragments];
};

template <int warp_fragments>
SPIRA_DEVICE void portable_sources_find(const portable_filling<warp_fragments> &f,
                                        const portable_chunk &chunk,
                                        portable_sources<warp_fragments> &sources) {
    const char *const base = portable_here(chunk.base); // as above
#pragma unroll
    for (int i = 0; i < warp_fragments; ++i) {
        sources.from[i] = portable_here(portable_address(base, (uint32_t)f.row[i], chunk.pitch));
    }
}

template <typename T>
SPIRA_DEVICE void portable_fill_whole(const portable_filling<T::warp_fragments> &f,
                                      const portable_sources<T::warp_fragments> &sources,
                                      int number, uint32_t to) {
    portable_each_valid<T>(f, [&](int i) {
        async_copy_16_signed(to + i * portable_fragment_bytes,
                             sources.from[i] + number * conv_chunk_bytes, f.row[i]);
    });
}

SPIRA_DEVICE uint32_t portable_pieces(const portable_chunk &c) {
    return (uint32_t)(min(c.left, (int)conv_chunk_bytes) + conv_lane_bytes - 1) / conv_lane_bytes;
}

SPIRA_DEVICE void portable_fill_outputs(const conv_params &p, int outputs, int place, uint32_t to) {
    if (p.order.row) {
        portable_rows_copy(to, p.order.row + place, outputs - place);
    } else {
        portable_rows_count(to, place, outputs - place);
    }
}

template <typename E, int warp_fragments>
SPIRA_DEVICE portable_chunk portable_chunk_of(const conv_params &p,
                                              const portable_filling<warp_fragments> &f,
                                              int number) {
    portable_chunk c = f.first;
    portable_chunk_skip(number, c);
    if (number >= f.chunks1) {
        const bool s = f.what & portable_of_shortcut;
        const int bytes = portable_here(s ? p.shortcut.cin2 : p.cin2) * (int)sizeof(E);
        c = portable_chunk_first(s ? p.shortcut.in2 : p.in2, bytes, bytes,
                                 s ? p.shortcut.wide_in2 : p.wide_in2);
        portable_chunk_skip(number - f.chunks1, c);
    }
    return c;
}

template <int warp_fragments>
SPIRA_DEVICE const char *
portable_weights_of(const conv_params &p, const portable_filling<warp_fragments> &f, int number) {
    return portable_here(portable_address(f.weights, (uint32_t)number, (uint32_t)p.weight_bytes));
}

// Writes the header of a stage. pieces: of the chunk, portable_pieces. Each set of consumer warps
// gets a stage that begins a shortcut, and one that ends the tile.
template <typename T>
SPIRA_DEVICE void
portable_fill_header(const conv_params &p, const portable_filling<T::warp_fragments> &f,
                     const portable_target &to, int number, uint32_t pieces, uint32_t stage) {
    const bool last = number + 1 >= f.stages && f.what & portable_last;
    if (last) {
        portable_fill_outputs(p, to.outputs, portable_here(f.place),
                              stage + T::outputs +
                                  (uint32_t)portable_here(to.thread) * (portable_lane_rows * 4));
    }
    if (to.header) {
        shared_store(stage + to.header, f.valid);
    }
    if (to.thread == 0) {
        const bool scale = f.what & portable_of_shortcut && number < T::split;
        shared_store(stage + T::flags, (last ? 0u + portable_flag_last : 0u) |
                                           (scale ? 0u + portable_flag_scale : 0u) |
                                           pieces * portable_flag_piece);
    }
    if (last) {
        __syncwarp(); // the stores of all lanes are before the arrival of the first
    }
}

// Fills a stage with the rows of any chunk of the entry, and its header. stage: its address.
template <typename T>
SPIRA_DEVICE void portable_fill_any(const conv_params &p,
                                    const portable_filling<T::warp_fragments> &f,
                                    const portable_target &to, int number, uint32_t stage) {
    const portable_chunk chunk = portable_chunk_of<typename T::element>(p, f, number);
    portable_fill_rows<T>(f, chunk, stage + to.rows);
    portable_fill_header<T>(p, f, to, number, T::exact ? portable_pieces(chunk) : 0, stage);
    if (!chunk.wide) {
        __syncwarp(); // as above
    }
}

} // namespace spira

#endif
