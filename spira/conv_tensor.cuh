// spira/conv_tensor.cuh: output-stationary convolution on the tensor cores, over a tiled layout.
//
// A block owns one tile (256 outputs) and 16, 32, 48 or 64 output channels; a warp a quarter of the
// tile. The sums stay in registers from the first offset to the epilogue, so that each output is
// written once. The product is transposed: output channels along the instruction's 16, the 8 rows
// of a group along its 8. The block walks the tile's offsets together and shares their weights in
// shared memory; each warp gathers the source rows of its active groups, several steps ahead.
//
// A lane copies exactly the bytes of a row that it will multiply: 16 bytes, which are both depth
// halves of two instructions once the weights are packed in the same order. Output channels are
// packed so that, after one register transpose, a lane holds four neighbouring ones of a row.
#ifndef SPIRA_CONV_TENSOR_CUH
#define SPIRA_CONV_TENSOR_CUH

#include "conv.h"
#include "copy.cuh"
#include "layout.h"
#include "mma.cuh"
#include "status.cuh"

namespace spira {

enum {
    conv_threads = 32 * tile_quarters,
    conv_groups = tile_quarter_groups, // of a warp
    conv_lane_bytes = 16,              // a lane's part of a row's chunk
    conv_chunk_bytes = 64, // a chunk: 4 lanes of one row; 32 channels of 16 bits, 16 of 32 bits
};

// Stages of the gather: one step is multiplied while the others arrive.
SPIRA_BOTH constexpr int conv_stages(int step_chunks) {
    return step_chunks == 2 ? 3 : 4;
}

// Chunks of one source's channels.
SPIRA_BOTH int conv_chunks(int channels, numeric type) {
    return (int)ceil_div((int64_t)channels * numeric_size(type), conv_chunk_bytes);
}

// Packed weights [volume, chunks, cout / 16 (rounded up), 2, 32 lanes] of 16 bytes: the lane's
// operand of one mma_step. Channels beyond the ends are zero.
SPIRA_API int64_t conv_tensor_weights(const conv_shape *s) {
    return s->volume * ceil_div(s->cout, 16) *
           (conv_chunks(s->cin, s->type) + conv_chunks(s->cin2, s->type)) * 2 * 32;
}

// The output channel, within a block of 16, of row g (0..7) or g + 8 of the instruction: see
// mma_transpose, after which lane t of a row holds channels 4t .. 4t + 3.
SPIRA_BOTH int conv_block_channel(int g, bool upper) {
    return g / 2 * 4 + g % 2 + (upper ? 2 : 0);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    conv_tensor_pack_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                            E *__restrict__ packed) {
    enum { per_lane = conv_lane_bytes / sizeof(E), pair = 4 / sizeof(E) };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    int lane = (int)(i % 32), half = (int)(i / 32 % 2);
    int chunks1 = conv_chunks(s.cin, s.type), blocks = (s.cout + 15) / 16;
    int chunks = chunks1 + conv_chunks(s.cin2, s.type);
    int block = (int)(i / 64 % blocks), chunk = (int)(i / 64 / blocks % chunks);
    int64_t k = i / 64 / blocks / chunks;
    bool second = chunk >= chunks1;
    int first = (second ? chunk - chunks1 : chunk) * 4 * per_lane + lane % 4 * per_lane;
    for (int r = 0; r < 4; ++r) {        // registers of the operand: see mma.cuh
        for (int p = 0; p < pair; ++p) { // elements of a register
            int channel = first + half * 2 * pair + (r / 2) * pair + p;
            int out = block * 16 + conv_block_channel(lane / 4, r % 2);
            bool inside = channel < (second ? s.cin2 : s.cin) && out < s.cout;
            int64_t at = (k * (s.cin + s.cin2) + (second ? s.cin : 0) + channel) * s.cout + out;
            float w = inside ? weight[at] : 0.0f;
            packed[i * per_lane + r * pair + p] =
                element_from_float<E>(s.type == numeric_tf32 ? element_operand(s.type, w) : w);
        }
    }
}

struct conv_tensor_params {
    const void *in, *in2, *weights, *residual;
    void *out;
    tile_layout layout; // row is null for the identity
    const int32_t *count;
    int32_t capacity;
    conv_epilogue epilogue;
    int volume, cin, cin2, cout;
    int chunks1, chunks;    // of the first source, of both
    int tiles, slices;      // a slice: the output channels of one block
    bool wide_in, wide_in2; // rows of the sources are multiples of 16 bytes, and aligned
    bool wide_out;          // outputs and residual: multiples of 4 elements, and aligned
};

// ---- the steps of a tile --------------------------------------------------------------------

// The output row of a slot, or -1.
SPIRA_DEVICE int32_t conv_slot_row(const conv_tensor_params &p, int tile, int slot) {
    int64_t at = (int64_t)tile * tile_rows + slot;
    return p.layout.row ? p.layout.row[at] : at < min_of(*p.count, p.capacity) ? (int32_t)at : -1;
}

// What a warp needs of one offset of its tile.
struct conv_tap {
    int32_t offset;
    uint32_t groups; // of the warp: 8 bits
    int32_t lo, hi;  // the source rows of its slots lane and lane + 32
};

SPIRA_DEVICE conv_tap conv_tap_load(const conv_tensor_params &p, int tile, int step, int steps) {
    int warp = threadIdx.x / 32, slot = warp * tile_quarter_rows + threadIdx.x % 32;
    conv_tap tap = {0, 0, -1, -1};
    if (step < steps && p.layout.row) {
        int64_t at = (int64_t)tile * p.volume + step;
        tile_step entry = p.layout.step[at];
        tap.offset = entry.offset;
        tap.groups = entry.groups >> (warp * conv_groups) & 0xff;
        tap.lo = p.layout.index[at * tile_rows + slot];
        tap.hi = p.layout.index[at * tile_rows + slot + 32];
    } else if (step < steps) {
        tap.groups = 0xff;
        tap.lo = conv_slot_row(p, tile, slot);
        tap.hi = conv_slot_row(p, tile, slot + 32);
    }
    return tap;
}

// Where a walk over the tile stands: an offset, and the first of the chunks that come next.
struct conv_place {
    int step, chunk;
};

// Moves on by one pipeline step; true if that is another offset.
SPIRA_DEVICE bool conv_advance(conv_place &at, int step_chunks, int chunks) {
    at.chunk += step_chunks;
    bool next = at.chunk >= chunks;
    at.chunk = next ? 0 : at.chunk;
    at.step += next;
    return next;
}

// ---- gather -----------------------------------------------------------------------------------

// A lane's part of a chunk: where it is in row 0 of its source, the pitch, the bytes that are
// there.
struct conv_part {
    const char *base;
    uint32_t pitch;
    int bytes; // all 16 or none where rows are wide
    bool wide;
};

template <typename E>
SPIRA_DEVICE conv_part conv_part_of(const conv_tensor_params &p, int chunk) {
    bool second = chunk >= p.chunks1;
    int at =
        (second ? chunk - p.chunks1 : chunk) * conv_chunk_bytes + threadIdx.x % 4 * conv_lane_bytes;
    conv_part part;
    part.pitch = (uint32_t)(second ? p.cin2 : p.cin) * (uint32_t)sizeof(E);
    int left = (int)part.pitch - at;
    part.bytes = chunk >= p.chunks || left < 0 ? 0 : left > 16 ? 16 : left;
    part.base = (const char *)(second ? p.in2 : p.in) + (part.bytes ? at : 0);
    part.wide = second ? p.wide_in2 : p.wide_in;
    return part;
}

// The same copy element by element, where rows are not aligned to 16 bytes.
template <typename E>
SPIRA_DEVICE void conv_copy_narrow(uint4 *to, const E *row, int left) {
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    union {
        uint4 vector;
        E element[per_lane];
    } v;
    v.vector = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
        if (i < left) {
            v.element[i] = row[i];
        }
    }
    *to = v.vector;
}

// Gathers one chunk of narrow rows, at once.
template <typename E, int step_chunks>
SPIRA_DEVICE void conv_gather_narrow(const conv_part &part, const conv_tap &tap, uint4 *to) {
#pragma unroll 1
    for (int g = 0; g < conv_groups; ++g) {
        int from = g % 4 * tile_group + threadIdx.x % 32 / 4;
        int32_t row = __shfl_sync(~0u, g < 4 ? tap.lo : tap.hi, from);
        if (tap.groups >> g & 1) {
            conv_copy_narrow(to + g * step_chunks * 32,
                             (const E *)(part.base + (uint64_t)(row < 0 ? 0 : row) * part.pitch),
                             row < 0 ? 0 : part.bytes / (int)sizeof(E));
        }
    }
}

// Starts the gather of a tap's chunks from `chunk` on into a stage of this warp: each lane fetches
// its part of the row of lane / 4 in each group. Missing rows become zeros.
template <typename E, int step_chunks>
SPIRA_DEVICE void conv_gather(const conv_tensor_params &p, const conv_tap &tap, int chunk,
                              uint4 *stage) {
    stage += threadIdx.x % 32;
    conv_part part[step_chunks];
    bool wide = true;
#pragma unroll
    for (int j = 0; j < step_chunks; ++j) {
        part[j] = conv_part_of<E>(p, chunk + j);
        wide = wide && (part[j].wide || chunk + j >= p.chunks);
    }
    if (!wide) {
#pragma unroll
        for (int j = 0; j < step_chunks; ++j) {
            conv_gather_narrow<E, step_chunks>(part[j], tap, stage + j * 32);
        }
        return;
    }
    uint32_t to = copy_address(stage);
    uint32_t go[step_chunks]; // the groups to be copied
    int32_t missing[step_chunks];
#pragma unroll
    for (int j = 0; j < step_chunks; ++j) {
        go[j] = j == 0 || chunk + j < p.chunks ? tap.groups : 0;
        missing[j] = part[j].bytes ? 0 : -1;
    }
#pragma unroll
    for (int g = 0; g < conv_groups; ++g) {
        int from = g % 4 * tile_group + threadIdx.x % 32 / 4;
        int32_t row = __shfl_sync(~0u, g < 4 ? tap.lo : tap.hi, from);
        uint32_t safe = row < 0 ? 0 : (uint32_t)row;
#pragma unroll
        for (int j = 0; j < step_chunks; ++j) {
            copy_async_16(to + (uint32_t)((g * step_chunks + j) * 512),
                          part[j].base + (uint64_t)safe * part[j].pitch, row | missing[j],
                          go[j] & 1u << g);
        }
    }
}

// Starts the copy of one step's weights, by the whole block: [chunk, block of 16, 2, lane]. Blocks
// beyond the last one become zeros.
template <int blocks, int step_chunks>
SPIRA_DEVICE void conv_copy_weights(const conv_tensor_params &p, int offset, int chunk,
                                    int first_block, uint4 *stage) {
    enum { all = step_chunks * blocks * 64 };
    int all_blocks = (p.cout + 15) / 16;
    const uint4 *from = (const uint4 *)p.weights +
                        (((int64_t)offset * p.chunks + chunk) * all_blocks + first_block) * 64;
    uint32_t to = copy_address(stage + threadIdx.x);
#pragma unroll
    for (int n = 0; n < (all + conv_threads - 1) / conv_threads; ++n) {
        int i = n * conv_threads + threadIdx.x;
        int j = i / (blocks * 64), within = i % (blocks * 64);
        bool there = first_block + within / 64 < all_blocks && (j == 0 || chunk + j < p.chunks);
        copy_async_16(to + (uint32_t)(n * conv_threads * 16),
                      from + (there ? j * all_blocks * 64 + within : 0), there ? 0 : -1, i < all);
    }
}

// ---- multiply ---------------------------------------------------------------------------------

// Multiplies one chunk of one group.
template <typename E, int blocks>
SPIRA_DEVICE void conv_multiply_group(const uint4 *at, const uint4 (&a)[blocks][2],
                                      float (&sum)[blocks][4]) {
    uint4 b = *at;
    if (sizeof(E) == 4) { // tf32
        b.x = tf32_bits(__uint_as_float(b.x));
        b.y = tf32_bits(__uint_as_float(b.y));
        b.z = tf32_bits(__uint_as_float(b.z));
        b.w = tf32_bits(__uint_as_float(b.w));
    }
#pragma unroll
    for (int m = 0; m < blocks; ++m) {
        mma_step<E>(sum[m], a[m][0], b.x, b.y);
    }
#pragma unroll
    for (int m = 0; m < blocks; ++m) {
        mma_step<E>(sum[m], a[m][1], b.z, b.w);
    }
}

// Multiplies a step that has arrived: the warp's active groups in `stage` by `weights`.
template <typename E, int blocks, int step_chunks>
SPIRA_DEVICE void conv_multiply(uint32_t groups, int chunks, const uint4 *weights,
                                const uint4 *stage, float (&sum)[conv_groups][blocks][4]) {
    weights += threadIdx.x % 32;
    stage += threadIdx.x % 32;
    if (!groups) {
        return;
    }
#pragma unroll
    for (int j = 0; j < step_chunks; ++j) {
        if (j && chunks <= j) {
            return;
        }
        uint4 a[blocks][2];
#pragma unroll
        for (int m = 0; m < blocks; ++m) {
            a[m][0] = weights[(j * blocks + m) * 64];
            a[m][1] = weights[(j * blocks + m) * 64 + 32];
        }
#pragma unroll
        for (int g = 0; g < conv_groups; ++g) {
            if (groups >> g & 1) {
                conv_multiply_group<E, blocks>(stage + (g * step_chunks + j) * 32, a, sum[g]);
            }
        }
    }
}

// ---- epilogue ---------------------------------------------------------------------------------

// scale * sum + shift, the bias folded in, of a lane's two channels of each block.
template <int blocks>
struct conv_affine {
    float scale[blocks][2], shift[blocks][2];
};

template <int blocks>
SPIRA_DEVICE conv_affine<blocks> conv_affine_load(const conv_tensor_params &p, int first_block) {
    conv_affine<blocks> f;
#pragma unroll
    for (int m = 0; m < blocks; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            int channel = (first_block + m) * 16 + conv_block_channel(threadIdx.x % 32 / 4, h);
            bool inside = channel < p.cout;
            float scale = inside && p.epilogue.scale ? p.epilogue.scale[channel] : 1.0f;
            float shift = inside && p.epilogue.shift ? p.epilogue.shift[channel] : 0.0f;
            float bias = inside && p.epilogue.bias ? p.epilogue.bias[channel] : 0.0f;
            f.scale[m][h] = scale;
            f.shift[m][h] = fmaf(bias, scale, shift);
        }
    }
    return f;
}

// The larger of two, NaN if one is.
SPIRA_DEVICE float conv_max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
#else
    return a != a || a > b ? a : b;
#endif
}

// floor: 0 for ReLU, else -infinity, so that one instruction does for both and for none.
SPIRA_DEVICE float conv_activate(float x, float floor, bool leaky, float slope) {
    x = conv_max_nan(x, floor);
    return leaky && x < 0.0f ? x * slope : x;
}

// The four channels of a row that this lane loads or stores: 4t .. 4t + 3 of a block.
template <typename E>
union conv_quad {
    E element[4];
    uint2 two;
    uint4 four;
};

// Rows that are not aligned: rare, and kept out of line, as the code around is unrolled 32 times.
template <typename E>
[[maybe_unused]] static __device__ __noinline__ conv_quad<E> conv_quad_load_narrow(const E *from,
                                                                                   int count) {
    conv_quad<E> q;
    q.four = make_uint4(0, 0, 0, 0);
    for (int i = 0; i < 4; ++i) {
        if (i < count) {
            q.element[i] = from[i];
        }
    }
    return q;
}

template <typename E>
[[maybe_unused]] static __device__ __noinline__ void conv_quad_store_narrow(E *to, int count,
                                                                            conv_quad<E> q) {
    for (int i = 0; i < 4; ++i) {
        if (i < count) {
            to[i] = q.element[i];
        }
    }
}

template <typename E>
SPIRA_DEVICE conv_quad<E> conv_quad_load(const conv_tensor_params &p, int32_t row, int channel) {
    const E *from = (const E *)p.residual + (int64_t)row * p.cout + channel;
    conv_quad<E> q;
    q.four = make_uint4(0, 0, 0, 0);
    if (row >= 0 && channel < p.cout) {
        if (!p.wide_out) {
            q = conv_quad_load_narrow(from, p.cout - channel);
        } else if (sizeof(E) == 2) {
            q.two = *(const uint2 *)from;
        } else {
            q.four = *(const uint4 *)from;
        }
    }
    return q;
}

template <typename E>
SPIRA_DEVICE void conv_quad_store(const conv_tensor_params &p, int32_t row, int channel,
                                  conv_quad<E> q) {
    E *to = (E *)p.out + (int64_t)row * p.cout + channel;
    if (row >= 0 && channel < p.cout) {
        if (!p.wide_out) {
            conv_quad_store_narrow(to, p.cout - channel, q);
        } else if (sizeof(E) == 2) {
            *(uint2 *)to = q.two;
        } else {
            *(uint4 *)to = q.four;
        }
    }
}

// Finishes one block of 16 channels of one group: epilogue, one rounding, transpose, store.
template <typename E>
SPIRA_DEVICE void conv_finish(const conv_tensor_params &p, int32_t row, int block,
                              const float (&scale)[2], const float (&shift)[2], float (&sum)[4]) {
    int channel = block * 16 + threadIdx.x % 4 * 4;
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        value[i] = fmaf(sum[i], scale[i / 2], shift[i / 2]);
    }
    if (p.residual) { // from rows to the layout of the sums
        conv_quad<E> q = conv_quad_load<E>(p, row, channel);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            E extra[2] = {q.element[2 * h], q.element[2 * h + 1]};
            mma_transpose(extra);
            value[2 * h] += element_to_float(extra[0]);
            value[2 * h + 1] += element_to_float(extra[1]);
        }
    }
    float floor = p.epilogue.act == activation_relu ? 0.0f : -INFINITY;
    bool leaky = p.epilogue.act == activation_leaky;
    conv_quad<E> q;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        E pair[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            pair[i] = element_from_float<E>(
                conv_activate(value[2 * h + i], floor, leaky, p.epilogue.slope));
        }
        mma_transpose(pair);
        q.element[2 * h] = pair[0];
        q.element[2 * h + 1] = pair[1];
    }
    conv_quad_store(p, row, channel, q);
}

// ---- kernel -----------------------------------------------------------------------------------

// Which (tile, slice) a block works on. Inside of each scope the last tiles have the most offsets:
// all scopes' last tiles go first, so that no heavy tile is left for the end.
SPIRA_DEVICE void conv_assign(const conv_tensor_params &p, int &tile, int &slice) {
    unsigned order = blockIdx.x / (unsigned)p.slices;
    unsigned scopes = (unsigned)p.tiles / tile_scope_tiles;
    slice = (int)(blockIdx.x % (unsigned)p.slices);
    tile = (int)(order % scopes * tile_scope_tiles + tile_scope_tiles - 1 - order / scopes);
}

// Shared memory of a block: the weights of some steps, then each warp's stages; in 16 bytes. Two
// chunks a step leave room for two steps of weights only.
template <int blocks, int step_chunks>
struct conv_shared {
    enum {
        stages = conv_stages(step_chunks),
        ahead = stages - 1, // how many steps the gathers run ahead
        weights = step_chunks * blocks * 64,
        weights_stages = step_chunks == 2 ? 2 : stages,
        weights_ahead = weights_stages - 1,
        stage = conv_groups * step_chunks * 32,
        bytes = (weights_stages * weights + tile_quarters * stages * stage) * 16,
    };
};

// Blocks that an SM should hold: as many as its shared memory and registers have room for.
SPIRA_BOTH constexpr int conv_residents(int blocks, int step_chunks) {
    return step_chunks == 2 || blocks > 2 ? 2 : 3;
}

// What is under way of a walk over a tile.
template <int blocks, int step_chunks>
struct conv_pipeline {
    conv_tap next, after; // of the gather that comes next, and of the offset behind it
    conv_place place;     // of that gather
    uint32_t groups[conv_shared<blocks, step_chunks>::ahead]; // of the steps that were gathered
    int32_t offsets[conv_shared<blocks, step_chunks>::ahead];
    int fill; // the stage that the gather goes to
};

// Starts the next gather and, where they run as far ahead, its weights.
template <typename E, int blocks, int step_chunks>
SPIRA_DEVICE void conv_fetch(const conv_tensor_params &p, int tile, int steps, int first_block,
                             uint4 *weights, uint4 *ring,
                             conv_pipeline<blocks, step_chunks> &pipe) {
    typedef conv_shared<blocks, step_chunks> size;
    if (size::weights_ahead == size::ahead && pipe.place.step < steps) {
        conv_copy_weights<blocks, step_chunks>(p, pipe.next.offset, pipe.place.chunk, first_block,
                                               weights + pipe.fill * size::weights);
    }
    conv_gather<E, step_chunks>(p, pipe.next, pipe.place.chunk, ring + pipe.fill * size::stage);
    copy_async_commit();
#pragma unroll
    for (int s = 0; s + 1 < size::ahead; ++s) {
        pipe.groups[s] = pipe.groups[s + 1];
        pipe.offsets[s] = pipe.offsets[s + 1];
    }
    pipe.groups[size::ahead - 1] = pipe.next.groups;
    pipe.offsets[size::ahead - 1] = pipe.next.offset;
    pipe.fill = pipe.fill + 1 == size::stages ? 0 : pipe.fill + 1;
    if (conv_advance(pipe.place, step_chunks, p.chunks)) {
        pipe.next = pipe.after;
        pipe.after = conv_tap_load(p, tile, pipe.place.step + 1, steps);
    }
}

// The walk over the tile's steps. A step's rows and weights arrive while earlier ones are
// multiplied; what must be known of an offset is loaded two offsets before its gather.
template <typename E, int blocks, int step_chunks>
SPIRA_DEVICE void conv_walk(const conv_tensor_params &p, int tile, int steps, int first_block,
                            uint4 *weights, float (&sum)[conv_groups][blocks][4]) {
    typedef conv_shared<blocks, step_chunks> size;
    uint4 *ring = weights + size::weights_stages * size::weights +
                  threadIdx.x / 32 * size::stages * size::stage;
    conv_pipeline<blocks, step_chunks> pipe = {};
    pipe.next = conv_tap_load(p, tile, 0, steps);
    pipe.after = conv_tap_load(p, tile, 1, steps);
    pipe.place.step = pipe.place.chunk = pipe.fill = 0;
    if (size::weights_ahead == 1 && steps) {
        conv_copy_weights<blocks, step_chunks>(p, pipe.next.offset, 0, first_block, weights);
    }
#pragma unroll 1 // instructions are cached too
    for (int s = 0; s < size::ahead; ++s) {
        conv_fetch<E, blocks, step_chunks>(p, tile, steps, first_block, weights, ring, pipe);
    }
    conv_place now = {0, 0}, then = {0, 0};
    int drain = 0, buffer = 0;
    while (now.step < steps) {
        // The newest gather may be under way; with weights one step ahead they were started first.
        copy_async_wait<size::weights_ahead == 1 ? 1 : size::ahead - 1>();
        __syncthreads(); // the weights are there for all, and the stage before is free
        uint32_t groups = pipe.groups[0];
        if (size::weights_ahead == 1) {
            conv_advance(then, step_chunks, p.chunks);
            if (then.step < steps) {
                conv_copy_weights<blocks, step_chunks>(p, pipe.offsets[1], then.chunk, first_block,
                                                       weights + (buffer ^ 1) * size::weights);
            }
            copy_async_commit();
        }
        conv_fetch<E, blocks, step_chunks>(p, tile, steps, first_block, weights, ring, pipe);
        conv_multiply<E, blocks, step_chunks>(
            groups, p.chunks - now.chunk,
            weights + (size::weights_ahead == 1 ? buffer : drain) * size::weights,
            ring + drain * size::stage, sum);
        conv_advance(now, step_chunks, p.chunks);
        buffer ^= 1;
        drain = drain + 1 == size::stages ? 0 : drain + 1;
    }
    copy_async_wait<0>();
}

template <typename E, int blocks, int step_chunks>
SPIRA_KERNEL void __launch_bounds__(conv_threads, conv_residents(blocks, step_chunks))
    conv_tensor_kernel(const __grid_constant__ conv_tensor_params p) {
    extern __shared__ uint4 conv_memory[];
    int tile, slice;
    conv_assign(p, tile, slice);
    int lane = threadIdx.x % 32, steps = p.layout.row ? p.layout.steps[tile] : 1;
    int slot = threadIdx.x / 32 * tile_quarter_rows + lane;
    int32_t row_lo = conv_slot_row(p, tile, slot), row_hi = conv_slot_row(p, tile, slot + 32);
    if (!__syncthreads_or(row_lo >= 0 || row_hi >= 0)) {
        return;
    }
    float sum[conv_groups][blocks][4];
#pragma unroll
    for (int g = 0; g < conv_groups; ++g) {
#pragma unroll
        for (int m = 0; m < blocks; ++m) {
            sum[g][m][0] = sum[g][m][1] = sum[g][m][2] = sum[g][m][3] = 0.0f;
        }
    }
    conv_walk<E, blocks, step_chunks>(p, tile, steps, slice * blocks, conv_memory, sum);

    conv_affine<blocks> affine = conv_affine_load<blocks>(p, slice * blocks);
#pragma unroll
    for (int g = 0; g < conv_groups; ++g) {
        int32_t row = __shfl_sync(~0u, g < 4 ? row_lo : row_hi, g % 4 * tile_group + lane / 4);
#pragma unroll
        for (int m = 0; m < blocks; ++m) {
            conv_finish<E>(p, row, slice * blocks + m, affine.scale[m], affine.shift[m], sum[g][m]);
        }
    }
}

// How many blocks of 16 output channels a slice has: as many as fit the registers without waste,
// fewer where the tiles alone would leave the GPU empty.
SPIRA_API int conv_tensor_blocks(int cout, int tiles, int multiprocessors) {
    int all = (cout + 15) / 16, best = 1;
    for (int blocks = 2; blocks <= 4; ++blocks) {
        int slices = (all + blocks - 1) / blocks;
        int best_slices = (all + best - 1) / best;
        bool fills = (int64_t)tiles * slices >= (int64_t)multiprocessors * 2;
        if (fills && slices * blocks <= best_slices * best) {
            best = blocks;
        }
    }
    return best;
}

template <typename E, int blocks, int step_chunks>
SPIRA_API status conv_tensor_start(conv_tensor_params p, cudaStream_t stream) {
    p.slices = (int)ceil_div(p.cout, 16 * blocks);
    enum { bytes = conv_shared<blocks, step_chunks>::bytes };
    if (bytes > 48 * 1024) {
        SPIRA_TRY(status_from_cuda(cudaFuncSetAttribute(conv_tensor_kernel<E, blocks, step_chunks>,
                                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        bytes),
                                   "conv (shared memory)"));
    }
    int64_t grid = (int64_t)p.tiles * p.slices;
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity", grid);
    conv_tensor_kernel<E, blocks, step_chunks><<<(unsigned)grid, conv_threads, bytes, stream>>>(p);
    return status_of_launch("conv");
}

// Two chunks a step where there are two, and where the device has the shared memory for them.
template <typename E, int blocks>
SPIRA_API status conv_tensor_step(const conv_tensor_params &p, int shared_max,
                                  cudaStream_t stream) {
    bool two = p.chunks > 1 && shared_max >= conv_shared<blocks, 2>::bytes;
    return two ? conv_tensor_start<E, blocks, 2>(p, stream)
               : conv_tensor_start<E, blocks, 1>(p, stream);
}

template <typename E>
SPIRA_API status conv_tensor_launch(const conv_tensor_params &p, int multiprocessors,
                                    int shared_max, cudaStream_t stream) {
    switch (conv_tensor_blocks(p.cout, p.tiles, multiprocessors)) {
    case 1:
        return conv_tensor_step<E, 1>(p, shared_max, stream);
    case 2:
        return conv_tensor_step<E, 2>(p, shared_max, stream);
    case 3:
        return conv_tensor_step<E, 3>(p, shared_max, stream);
    default:
        return conv_tensor_step<E, 4>(p, shared_max, stream);
    }
}

} // namespace spira

#endif
