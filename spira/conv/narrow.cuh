// spira/conv/narrow.cuh: convolution of few channels on the tensor cores, from the ordered layout.
//
// For up to 32 channels on each side, 16-bit formats, sm_80 and later. What such a layer costs is
// the way to its rows, not the products: so all is made for many reads under way and few
// instructions between them.
//
// Reads the ordered layout (layout/order.h). A warp owns 32 neighbouring places of a block of
// outputs, all output channels of them, and keeps their sums in registers from the first offset to
// the epilogue. It walks the offsets of the block's mask. Sources are read some offsets ahead, and
// rows as many ahead of their product, both straight into registers. Offsets that the warp's own
// places lack are not multiplied. A thread block takes the places whose turn it is; heavy ones
// begin first (layout/order.h). Where there are few places, 2 or 4 warps share the same ones: each
// takes every second or fourth offset, and their sums are added up in a fixed order; else warps
// wait for no other.
//
// The products are the other way around: weights are the instruction's 16 rows, output channels,
// and source rows are its 8 columns. So a lane's part of a row is the operand as it comes, and so
// are 16 bytes of the packed weights. With g = lane / 4 and t = lane % 4, a lane has
//   of the sources, column g of each of its groups of 8: places groups g .. groups g + groups - 1
//   of a row        channels 4 steps t .. 4 steps t + 4 steps - 1
//   of the sums     output channels 2 blocks g .. 2 blocks g + 2 blocks - 1 of columns 2 t, 2 t + 1
// (steps: of 16 input channels; blocks: of 16 output channels; groups: of 8 places.)
#ifndef SPIRA_CONV_NARROW_CUH
#define SPIRA_CONV_NARROW_CUH

#include "../base/launch.cuh"
#include "tile.cuh"

namespace spira {

enum {
    narrow_channels_most = 32,
    narrow_warps = 4, // of a thread block
    narrow_threads = narrow_warps * 32,
    narrow_pair = 2 * order_rows, // places that have a turn
    narrow_sector = 32,           // bytes that a read brings into the cache
    // What may be varied. Groups of 8 places of a warp (2, 4), for 16 and for 32 input channels;
    narrow_groups_narrow = 4,
    narrow_groups_wide = 4,
    // offsets whose rows, and as many whose sources, are under way (2 .. 4): 16 to 16 channels, 16
    // to 32, and 32;
    narrow_ahead_narrow = 3,
    narrow_ahead_mixed = 3,
    narrow_ahead_wide = 2,
    // thread blocks of a multiprocessor: 16 to 16 channels, others, and rows that are not aligned;
    narrow_resident_narrow = 6,
    narrow_resident_wide = 4,
    narrow_resident_odd = 3,
    // bytes of weights that the first thread blocks bring into the cache.
    narrow_warm_bytes = 128 * 1024,
};

SPIRA_BOTH constexpr int narrow_groups(int steps) {
    return steps == 1 ? narrow_groups_narrow : narrow_groups_wide;
}

SPIRA_BOTH constexpr int narrow_ahead(int steps, int blocks, bool wide) {
    return !wide || steps > 1 ? narrow_ahead_wide
           : blocks > 1       ? narrow_ahead_mixed
                              : narrow_ahead_narrow;
}

// Thread blocks of a multiprocessor at a time: what registers allow.
SPIRA_BOTH constexpr int narrow_resident(int steps, int blocks, bool wide) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    const int narrow = narrow_resident_narrow - 2; // its code needs more of them
#else
    const int narrow = narrow_resident_narrow;
#endif
    return !wide ? narrow_resident_odd : steps * blocks == 1 ? narrow : narrow_resident_wide;
}

// Steps of 16 input channels, and blocks of 16 output channels.
SPIRA_BOTH int narrow_steps(int cin) {
    return cin <= 16 ? 1 : 2;
}

SPIRA_BOTH int narrow_blocks(int cout) {
    return cout <= 16 ? 1 : 2;
}

// ---- reads --------------------------------------------------------------------------------------

// What all warps read again and again: the cache keeps it.
SPIRA_DEVICE uint4 narrow_read_kept(const char *from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::evict_last.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

// What is read once, where `there` is not negative; otherwise `to` is anything. It takes no place
// in the cache.
SPIRA_DEVICE void narrow_read_once(int32_t (&to)[2], const int32_t *from, int there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ge.s32 there, %3, 0;\n"
                 "@there ld.global.nc.L1::no_allocate.v2.s32 {%0, %1}, [%2]; }"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(from), "r"(there));
}

SPIRA_DEVICE void narrow_read_once(int32_t (&to)[4], const int32_t *from, int there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ge.s32 there, %5, 0;\n"
                 "@there ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4]; }"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from), "r"(there));
}

// Of a row; zeros where `there` is false. Not by the path for what does not change (nc), as others
// are: the kernel before may still write rows when this one begins (pdl_wait).
SPIRA_DEVICE void narrow_read(uint32_t (&to)[2], const char *from, bool there) {
    asm volatile("{ .reg .pred there;\n"
                 ".reg .b64 both;\n"
                 "setp.ne.u32 there, %3, 0;\n"
                 "mov.b64 both, 0;\n"
                 "@there ld.global.b64 both, [%2];\n"
                 "mov.b64 {%0, %1}, both; }"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(from), "r"((uint32_t)there));
}

SPIRA_DEVICE void narrow_read(uint32_t (&to)[4], const char *from, bool there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "mov.u32 %0, 0;\n"
                 "mov.u32 %1, 0;\n"
                 "mov.u32 %2, 0;\n"
                 "mov.u32 %3, 0;\n"
                 "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
                 : "l"(from), "r"((uint32_t)there));
}

// Where row number `row` begins.
SPIRA_DEVICE const char *narrow_row(const char *first, int32_t row, uint32_t pitch) {
    uint64_t at;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(at) : "r"(row), "r"(pitch));
    return first + at;
}

// ---- weights ------------------------------------------------------------------------------------

// Packed weights [volume, steps, blocks, 32 lanes] of 16 bytes: the lane's operand of a step.
// Channels beyond the ends are zero.
SPIRA_API int64_t narrow_weights(const conv_shape *s) {
    return (int64_t)s->volume * narrow_steps(s->cin) * narrow_blocks(s->cout) * 32;
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    narrow_pack_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                       E *__restrict__ packed) {
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    const int steps = narrow_steps(s.cin), blocks = narrow_blocks(s.cout);
    const conv_packed_place at = conv_packed_place_of(i, steps, blocks);
    for (int e = 0; e < per_lane; ++e) { // two channels of each of 2 outputs, then the next two
        int channel = (at.lane % 4 * steps + at.chunk) * 4 + e / 4 * 2 + e % 2;
        int out = (at.lane / 4 * blocks + at.block) * 2 + e / 2 % 2;
        bool inside = channel < s.cin && out < s.cout;
        float w = inside ? weight[(at.offset * s.cin + channel) * s.cout + out] : 0.0f;
        packed[i * per_lane + e] = element_from_float<E>(w);
    }
}

// Bytes of an offset's weights.
SPIRA_BOTH constexpr int narrow_offset_bytes(int steps, int blocks) {
    return steps * blocks * conv_part_bytes;
}

// Reads of a thread of narrow_warm, at most.
SPIRA_BOTH constexpr int narrow_warm_reads(int shares) {
    return (narrow_warm_bytes / (narrow_threads * narrow_sector) + shares - 1) / shares;
}

// The first thread blocks of each multiprocessor bring weights into its cache, a share each, while
// they wait for their first indices: else the walks of all would stop at each offset. scratch: of
// narrow_warm_reads(shares) shared words of the thread's own, 128 bytes apart, the first.
template <int shares>
SPIRA_DEVICE void narrow_warm(const conv_tensor_params &p, int bytes, uint32_t scratch) {
    enum { step = shares * narrow_threads * narrow_sector };
    const int share = (int)blockIdx.x / p.multiprocessors;
    bytes = share < shares ? min(bytes, (int)narrow_warm_bytes) : 0;
#pragma unroll 4
    for (int at = (share * narrow_threads + (int)threadIdx.x) * narrow_sector; at < bytes;
         at += step) {
        async_copy_4_cached(scratch, (const char *)p.weights + at);
        scratch += 32 * 4;
    }
}

// The lane's operands of an offset, those of `own` on.
template <int steps, int blocks>
SPIRA_DEVICE void narrow_weights_load(const char *own, int offset, uint4 (&to)[steps][blocks]) {
    own += (int64_t)offset * narrow_offset_bytes(steps, blocks);
#pragma unroll
    for (int s = 0; s < steps; ++s) {
#pragma unroll
        for (int b = 0; b < blocks; ++b) {
            to[s][b] = narrow_read_kept(own + (s * blocks + b) * conv_part_bytes);
        }
    }
}

// ---- the offsets of a block ---------------------------------------------------------------------

enum { narrow_scope = 32 * 32 }; // offsets that a walk goes over: a word for each lane

// Where a warp is in a block's mask.
struct narrow_walk {
    uint32_t held;   // the lane's word
    uint32_t words;  // that have offsets and are still to come, a bit each
    uint32_t word;   // the offsets to come of the one at hand
    int begin, base; // the first offset of all words, and of the one
};

// Over the offsets from `begin` on, those of a part where warps share them; the identity has none.
SPIRA_DEVICE narrow_walk narrow_walk_of(const conv_tensor_params &p, int64_t block, int begin,
                                        int part) {
    const int lane = threadIdx.x % 32, words = order_words(p.volume), own = begin / 32 + lane;
    narrow_walk w = {0, 0, 0, begin, begin};
    if (p.order.row && own < words) {
        uint32_t every = p.size.split == 1 ? ~0u : p.size.split == 2 ? 0x55555555u : 0x11111111u;
        w.held = __ldg(p.order.mask + block * words + own) & every << part;
    }
    w.words = __ballot_sync(~0u, w.held != 0);
    return w;
}

// The next offset; behind the last one, -1.
SPIRA_DEVICE int narrow_walk_next(narrow_walk &w) {
    if (!w.word) {
        if (!w.words) {
            return -1;
        }
        const int next = __ffs((int)w.words) - 1;
        w.words &= w.words - 1;
        w.word = __shfl_sync(~0u, w.held, next);
        w.base = w.begin + next * 32;
    }
    const int bit = __ffs((int)w.word) - 1;
    w.word &= w.word - 1;
    return w.base + bit;
}

// ---- sources and rows ---------------------------------------------------------------------------

// Where a lane reads.
struct narrow_from {
    const int32_t *source; // of its places, for the first offset
    const char *row;       // its part of row 0
    uint32_t pitch;        // bytes to the next row
    int bytes;             // of a row, from the lane's part on; 0 or less: none
};

template <typename E, int steps>
SPIRA_DEVICE narrow_from narrow_from_of(const conv_tensor_params &p, int64_t block, int place) {
    enum { groups = narrow_groups(steps) };
    const int lane = threadIdx.x % 32, at = lane % 4 * (8 * steps);
    narrow_from f;
    f.source = p.order.source + block * p.volume * order_rows + place + lane / 4 * groups;
    f.pitch = (uint32_t)p.cin * (uint32_t)sizeof(E);
    f.bytes = (int)f.pitch - at;
    f.row = (const char *)p.in + (f.bytes > 0 ? at : 0);
    // In registers: the compiler would work them out again for each offset.
    asm volatile("" : "+l"(f.source), "+l"(f.row), "+r"(f.pitch), "+r"(f.bytes));
    return f;
}

// The sources of an offset; none where it is -1.
template <int groups>
struct narrow_sources {
    int32_t at[groups]; // of the lane's places, negative: none; anything where there is no offset
    int offset;
};

template <int groups>
SPIRA_DEVICE void narrow_sources_load(const narrow_from &f, narrow_walk &walk,
                                      narrow_sources<groups> &to) {
    to.offset = narrow_walk_next(walk);
    narrow_read_once(to.at, f.source + (int64_t)to.offset * order_rows, to.offset);
}

// Those of the identity, which has no lists.
template <int groups>
SPIRA_DEVICE void narrow_sources_same(int first, int outputs, narrow_sources<groups> &to) {
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        int place = first + (int)(threadIdx.x % 32 / 4) * groups + j;
        to.at[j] = place < outputs ? place : -1;
    }
    to.offset = 0;
}

// What is multiplied for an offset.
template <int steps>
struct narrow_slot {
    uint32_t row[narrow_groups(steps)][2 * steps]; // the lane's parts; zeros where there is none
    int offset;
    uint32_t any; // lanes that have a place with it
};

// wide: parts of rows are aligned.
template <typename E, int steps, bool wide>
SPIRA_DEVICE void narrow_row_load(const narrow_from &f, int32_t source, uint32_t (&to)[2 * steps]) {
    const char *from = narrow_row(f.row, source, f.pitch);
    const bool there = source >= 0 && f.bytes > 0;
    if (wide) {
        narrow_read(to, from, there);
        return;
    }
    uint4 v = make_uint4(0, 0, 0, 0);
    if (there) {
        v = conv_read_narrow<E>(from, min(f.bytes, 8 * steps));
    }
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 2 * steps; ++i) {
        to[i] = word[i];
    }
}

// Reads the rows of an offset whose sources are there, and the sources of one further on.
template <typename E, int steps, bool wide>
SPIRA_DEVICE void narrow_slot_load(const narrow_from &f, narrow_walk &walk,
                                   narrow_sources<narrow_groups(steps)> &source,
                                   narrow_slot<steps> &to) {
    to.offset = source.offset;
    to.any = 0;
    if (source.offset < 0) {
        return;
    }
    int32_t all = -1; // negative if all sources are
#pragma unroll
    for (int j = 0; j < narrow_groups(steps); ++j) {
        narrow_row_load<E, steps, wide>(f, source.at[j], to.row[j]);
        all &= source.at[j];
    }
    to.any = __ballot_sync(~0u, all >= 0);
    narrow_sources_load(f, walk, source);
}

// ---- the walk -----------------------------------------------------------------------------------

// A lane's sums: [group of places][block of output channels].
template <int steps, int blocks>
struct narrow_sums {
    float at[narrow_groups(steps)][blocks][4];
};

template <typename E, int steps, int blocks>
SPIRA_DEVICE void narrow_multiply(const narrow_slot<steps> &slot,
                                  const uint4 (&weights)[steps][blocks],
                                  narrow_sums<steps, blocks> &sum) {
#pragma unroll
    for (int s = 0; s < steps; ++s) {
#pragma unroll
        for (int b = 0; b < blocks; ++b) {
#pragma unroll
            for (int j = 0; j < narrow_groups(steps); ++j) {
                mma_step<E>(sum.at[j][b], weights[s][b], slot.row[j][2 * s],
                            slot.row[j][2 * s + 1]);
            }
        }
    }
}

// Adds what narrow_scope offsets from `begin` on give to the warp's places, the first of them
// `first`.
template <typename E, int steps, int blocks, bool wide>
SPIRA_DEVICE void narrow_add(const conv_tensor_params &p, int first, int outputs, int begin,
                             int part, narrow_sums<steps, blocks> &sum) {
    enum { ahead = narrow_ahead(steps, blocks, wide) };
    const int64_t block = first / order_rows;
    const narrow_from from = narrow_from_of<E, steps>(p, block, first % order_rows);
    const char *own = (const char *)p.weights + threadIdx.x % 32 * conv_lane_bytes;
    asm volatile("" : "+l"(own)); // in a register, as above
    narrow_walk walk = narrow_walk_of(p, block, begin, part);
    narrow_sources<narrow_groups(steps)> source[ahead];
    narrow_slot<steps> slot[ahead];
    uint4 weights[steps][blocks]; // of the slot that is next
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        narrow_sources_load(from, walk, source[i]);
    }
    if (!p.order.row && part == 0) {
        narrow_sources_same(first, outputs, source[0]);
    }
    pdl_wait(); // before the first row
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        narrow_slot_load<E, steps, wide>(from, walk, source[i], slot[i]);
    }
    if (slot[0].any) {
        narrow_weights_load(own, slot[0].offset, weights);
    }
#pragma unroll 1
    while (slot[0].offset >= 0) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            narrow_slot<steps> &next = slot[(i + 1) % ahead];
            if (slot[i].any) {
                narrow_multiply<E, steps, blocks>(slot[i], weights, sum);
            }
            if (next.any) {
                narrow_weights_load(own, next.offset, weights);
            }
            narrow_slot_load<E, steps, wide>(from, walk, source[i], slot[i]);
        }
    }
}

// ---- epilogue -----------------------------------------------------------------------------------

// What a lane finishes: of `rows` outputs, -1: none, four channels from `channel` on.
template <int rows>
struct narrow_finished {
    int32_t row[rows];
    float4 sum[rows];
    int channel;
};

// The outputs of so many places.
template <int count>
SPIRA_DEVICE void narrow_outputs_load(const conv_tensor_params &p, int place, int outputs,
                                      int32_t *row) {
    int32_t own[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        own[i] = place + i;
    }
    if (p.order.row) {
        narrow_read_once(own, p.order.row + place, 0);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        row[i] = place + i < outputs ? own[i] : -1;
    }
}

// Two blocks of output channels: a lane has four of each of its columns.
template <int steps>
SPIRA_DEVICE void narrow_quads(const narrow_sums<steps, 2> &sum,
                               narrow_finished<2 * narrow_groups(steps)> &to) {
    enum { groups = narrow_groups(steps) };
    to.channel = (int)(threadIdx.x % 32 / 4 * 4);
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        const float *low = sum.at[j][0], *high = sum.at[j][1];
        to.sum[j] = make_float4(low[0], low[2], high[0], high[2]);
        to.sum[groups + j] = make_float4(low[1], low[3], high[1], high[3]);
    }
}

// One block: a lane has two channels, and neighbours share their columns out.
template <int steps>
SPIRA_DEVICE void narrow_quads(const narrow_sums<steps, 1> &sum,
                               narrow_finished<narrow_groups(steps)> &to) {
    const int g = (int)(threadIdx.x % 32 / 4), odd = g & 1;
    to.channel = g / 2 * 4;
#pragma unroll
    for (int j = 0; j < narrow_groups(steps); ++j) {
        const float *own = sum.at[j][0];
        const float x = __shfl_xor_sync(~0u, odd ? own[0] : own[1], 4);
        const float y = __shfl_xor_sync(~0u, odd ? own[2] : own[3], 4);
        to.sum[j] = odd ? make_float4(x, y, own[1], own[3]) : make_float4(own[0], own[2], x, y);
    }
}

template <typename E, bool wide, int rows>
SPIRA_DEVICE void narrow_store(const conv_tensor_params &p, const narrow_finished<rows> &f) {
    const conv_output output = conv_output_of(p, f.channel);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        if (f.row[i] >= 0) {
            conv_output_store_as<E, wide>(p, output, f.row[i], f.sum[i]);
        }
    }
}

template <typename E, int steps, int blocks>
SPIRA_DEVICE void narrow_finish(const conv_tensor_params &p, int first, int outputs,
                                const narrow_sums<steps, blocks> &sum) {
    enum { groups = narrow_groups(steps), rows = groups * blocks };
    const int lane = threadIdx.x % 32;
    narrow_finished<rows> f;
    narrow_quads<steps>(sum, f);
    const int column = lane % 4 * 2 + (blocks == 1 ? lane / 4 % 2 : 0);
#pragma unroll
    for (int c = 0; c < blocks; ++c) {
        narrow_outputs_load<groups>(p, first + (column + c) * groups, outputs, f.row + c * groups);
    }
    if (f.channel >= p.cout) {
        return;
    }
    if (p.wide_out) {
        narrow_store<E, true>(p, f);
    } else {
        narrow_store<E, false>(p, f);
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// A warp's sums as they are exchanged.
template <int steps, int blocks>
struct narrow_share {
    float at[narrow_groups(steps) * blocks * 4][32];
};

// Adds the sums of the warps that share places to those of the first. By all threads of a block.
template <int steps, int blocks>
SPIRA_DEVICE void narrow_join(int split, int part, narrow_share<steps, blocks> *share,
                              narrow_sums<steps, blocks> &sum) {
    enum { count = narrow_groups(steps) * blocks * 4 };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *own = &sum.at[0][0][0];
#pragma unroll
    for (int i = 0; i < count && part; ++i) {
        share[warp].at[i][lane] = own[i];
    }
    __syncthreads();
    for (int other = 1; other < split && part == 0; ++other) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            own[i] += share[warp + other].at[i][lane];
        }
    }
}

template <typename E, int steps, int blocks, bool wide>
SPIRA_KERNEL void __launch_bounds__(narrow_threads, narrow_resident(steps, blocks, wide))
    narrow_kernel(const __grid_constant__ conv_tensor_params p) {
#if __CUDA_ARCH__ >= 800
    enum {
        places = 8 * narrow_groups(steps),
        each = narrow_pair / places
    }; // of a warp; warps of a pair
    enum { shares = narrow_resident(steps, blocks, wide) };
    // What narrow_warm reads, then the sums: a thread's own words, so that it waits for no other.
    __shared__ narrow_share<steps, blocks> share[narrow_warps];
    static_assert(narrow_warm_reads(shares) <= sizeof share->at / sizeof *share->at, "narrow_warm");
    narrow_warm<shares>(p, p.volume * narrow_offset_bytes(steps, blocks),
                        shared_address(&share[threadIdx.x / 32].at[0][threadIdx.x % 32]));
    if (!p.programmatic) {
        pdl_wait();
    }
    const int outputs = min(*p.count, p.capacity), split = p.size.split;
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), part = warp % split;
    const int unit = ((int)blockIdx.x * narrow_warps + warp) / split, rank = unit / each;
    int first = outputs;
    if (rank * narrow_pair < outputs) {
        first = (p.order.row ? __ldg(p.order.schedule + rank) : rank) * narrow_pair +
                unit % each * places;
    }
    narrow_sums<steps, blocks> sum = {};
#pragma unroll 1
    for (int begin = 0; begin < p.volume && first < outputs; begin += narrow_scope) {
        narrow_add<E, steps, blocks, wide>(p, first, outputs, begin, part, sum);
    }
    async_copy_wait();
    if (split > 1) {
        narrow_join<steps, blocks>(split, part, share, sum);
    }
    if (first < outputs && part == 0) {
        narrow_finish<E, steps, blocks>(p, first, outputs, sum);
    }
    pdl_wait(); // whoever has no outputs
#endif
}

// ---- choice -------------------------------------------------------------------------------------

// Which layers it can compute.
SPIRA_API bool narrow_takes(const conv_shape *s, const device_info *d) {
    return d->capability >= 80 && numeric_size(s->type) == 2 && !s->cin2 &&
           s->cin <= narrow_channels_most && s->cout <= narrow_channels_most;
}

// Sources and outputs are read 16 bytes at a time.
SPIRA_API status narrow_layout_check(const order_layout *order) {
    SPIRA_REQUIRE(((uintptr_t)order->row | (uintptr_t)order->source) % 16 == 0, status_alignment,
                  "layout (row, source)", 16);
    return status_success();
}

// conv_sizes: warps share places by `split`; the others are 1.
SPIRA_API bool narrow_sizes_fit(const conv_sizes *size) {
    return size->tiles == 1 && size->slices == 1 &&
           (size->split == 1 || size->split == 2 || size->split == 4);
}

SPIRA_API int narrow_sizes_list(conv_sizes *sizes) {
    int count = 0;
    for (int split = 1; split <= narrow_warps; split *= 2) {
        sizes[count++] = {1, 1, split, 1};
    }
    return count;
}

// Warps share places where there are fewer than a device has room for, or many offsets.
SPIRA_API conv_sizes narrow_sizes_choose(const conv_shape *s, int32_t capacity,
                                         const device_info *d) {
    const int64_t warps = ceil_div(capacity, 8 * narrow_groups(narrow_steps(s->cin)));
    const int64_t room = (int64_t)d->multiprocessors * narrow_resident_narrow * narrow_warps;
    const bool few = 2 * warps <= 3 * room, long_lists = s->volume > 32;
    const int split = 4 * warps <= room || (few && long_lists) ? 4 : few || long_lists ? 2 : 1;
    return {1, 1, s->volume == 1 ? 1 : split, 1};
}

template <typename E, int steps, int blocks>
SPIRA_API status narrow_launch(conv_tensor_params p, cudaStream_t stream) {
    p.wide_in = (uintptr_t)p.in % (8 * steps) == 0 && p.cin * (int)sizeof(E) % (8 * steps) == 0;
    const int64_t pairs = order_pairs(order_count(p.capacity));
    const int64_t each = narrow_pair / (8 * narrow_groups(steps));
    const unsigned grid = (unsigned)ceil_div(pairs * each * p.size.split, narrow_warps);
    auto kernel =
        p.wide_in ? narrow_kernel<E, steps, blocks, true> : narrow_kernel<E, steps, blocks, false>;
    return kernel_launch(kernel, grid, narrow_threads, 0, p.programmatic, 1, stream, "conv", p);
}

template <typename E>
SPIRA_API status narrow_run(const conv_tensor_params &p, cudaStream_t stream) {
    const bool one = narrow_blocks(p.cout) == 1;
    if (narrow_steps(p.cin) == 1) {
        return one ? narrow_launch<E, 1, 1>(p, stream) : narrow_launch<E, 1, 2>(p, stream);
    }
    return one ? narrow_launch<E, 2, 1>(p, stream) : narrow_launch<E, 2, 2>(p, stream);
}

} // namespace spira

#endif
