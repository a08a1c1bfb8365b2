// spira/conv_tensor.cuh: output-stationary convolution on the tensor cores, over a tiled layout.
//
// A warp owns one tile (64 outputs) and 16, 32, 48 or 64 output channels; the sums stay in its
// registers from the first offset to the epilogue, so that each output is written once and no
// barrier is ever needed. The product is transposed: output channels along the instruction's 16,
// the 8 rows of a group along its 8. For each offset that some group has, the warp gathers the
// source rows of those groups into shared memory, several steps ahead, and multiplies.
//
// A lane copies exactly the bytes that it will multiply: 16 bytes of one source row, which are both
// depth halves of two instructions once the weights are packed in the same order. So a copy needs
// no barrier either, only the lane's own wait.
#ifndef SPIRA_CONV_TENSOR_CUH
#define SPIRA_CONV_TENSOR_CUH

#include "conv.h"
#include "copy.cuh"
#include "layout.h"
#include "mma.cuh"
#include "status.cuh"

namespace spira {

enum {
    conv_warps = 4,         // of a block; they share nothing
    conv_stages = 3,        // steps of the gather pipeline
    conv_lane_bytes = 16,   // a lane's part of a row's chunk
    conv_chunk_bytes = 64,  // a chunk: 4 lanes of one row; 32 channels of 16 bits, 16 of 32 bits
    conv_group_bytes = 512, // a chunk of the 8 rows of a group
};

// Chunks of one source's channels.
SPIRA_BOTH int conv_chunks(int channels, numeric type) {
    return (int)ceil_div((int64_t)channels * numeric_size(type), conv_chunk_bytes);
}

// Packed weights [volume, cout / 16 (rounded up), chunks, 2, 32 lanes] of 16 bytes: the lane's
// operand of one mma_step. Channels beyond the ends are zero.
SPIRA_API int64_t conv_tensor_weights(const conv_shape *s) {
    return s->volume * ceil_div(s->cout, 16) *
           (conv_chunks(s->cin, s->type) + conv_chunks(s->cin2, s->type)) * 2 * 32;
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
    int chunks1 = conv_chunks(s.cin, s.type);
    int chunks = chunks1 + conv_chunks(s.cin2, s.type);
    int64_t rest = i / 64;
    int chunk = (int)(rest % chunks);
    int block = (int)(rest / chunks % ceil_div(s.cout, 16));
    int64_t k = rest / chunks / ceil_div(s.cout, 16);
    bool second = chunk >= chunks1;
    int first = (second ? chunk - chunks1 : chunk) * 4 * per_lane + lane % 4 * per_lane;
    for (int r = 0; r < 4; ++r) {        // registers of the operand: see mma.cuh
        for (int p = 0; p < pair; ++p) { // elements of a register
            int channel = first + half * 2 * pair + (r / 2) * pair + p;
            int out = block * 16 + lane / 4 + (r % 2) * 8;
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
    const int32_t *row;    // [tiles, 64], null for the identity
    const uint8_t *active; // [tiles, volume]
    const int32_t *index;  // [tiles, volume, 64]
    const int32_t *count;
    conv_epilogue epilogue;
    int volume, cin, cin2, cout;
    int chunks1, chunks; // of the first source, of both
    int step_chunks;     // chunks of one pipeline step, 1 or 2
    int tiles, slices;
    bool wide_in, wide_in2; // rows of the sources are multiples of 16 bytes, and aligned
    bool wide_out;          // outputs and residual: multiples of 4 elements, and aligned
};

// The steps of a tile: offsets that are active, each with its chunks, in ascending order.
struct conv_steps {
    uint32_t mine; // the activity of offset base + lane
    uint32_t todo; // offsets of base .. base + 31 that are left
    int base, offset, chunk;
};

SPIRA_DEVICE uint32_t conv_activity(const conv_tensor_params &p, int tile, int offset) {
    return offset >= p.volume ? 0 : p.active ? p.active[(int64_t)tile * p.volume + offset] : 0xff;
}

SPIRA_DEVICE conv_steps conv_steps_begin(const conv_tensor_params &p, int tile) {
    conv_steps s;
    s.base = 0;
    s.mine = conv_activity(p, tile, threadIdx.x % 32);
    s.todo = __ballot_sync(~0u, s.mine != 0);
    s.offset = 0;
    s.chunk = p.chunks; // nothing left of no offset
    return s;
}

// Moves on to the next step; false at the end. `groups`: which groups have the offset.
SPIRA_DEVICE bool conv_steps_next(const conv_tensor_params &p, int tile, conv_steps &s,
                                  uint32_t &groups) {
    s.chunk += p.step_chunks;
    if (s.chunk >= p.chunks) {
        while (!s.todo) {
            s.base += 32;
            if (s.base >= p.volume) {
                return false;
            }
            s.mine = conv_activity(p, tile, s.base + threadIdx.x % 32);
            s.todo = __ballot_sync(~0u, s.mine != 0);
        }
        int bit = __ffs((int)s.todo) - 1;
        s.todo &= s.todo - 1;
        s.offset = s.base + bit;
        s.chunk = 0;
    }
    groups = __shfl_sync(~0u, s.mine, s.offset - s.base);
    return true;
}

// A lane's 16 bytes of one row's chunk, where rows are not aligned to 16 bytes.
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

// Starts the gather of one step into `stage`: the chunks [s.chunk, + step_chunks) of the active
// groups' source rows. lo, hi: the source rows of slots lane and lane + 32.
template <typename E>
SPIRA_DEVICE void conv_gather(const conv_tensor_params &p, const conv_steps &s, uint32_t groups,
                              int32_t lo, int32_t hi, uint4 *stage) {
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    int lane = threadIdx.x % 32;
    for (int c = 0; c < p.step_chunks && s.chunk + c < p.chunks; ++c) {
        int chunk = s.chunk + c;
        bool second = chunk >= p.chunks1;
        int channels = second ? p.cin2 : p.cin;
        int channel = (second ? chunk - p.chunks1 : chunk) * 4 * per_lane + lane % 4 * per_lane;
        const E *base = (const E *)(second ? p.in2 : p.in) + channel;
        bool wide = second ? p.wide_in2 : p.wide_in;
#pragma unroll
        for (int g = 0; g < tile_groups; ++g) {
            if (groups >> g & 1) {
                int32_t source = __shfl_sync(~0u, g < 4 ? lo : hi, g % 4 * tile_group + lane / 4);
                int left = source < 0 ? 0 : channels - channel;
                left = left < 0 ? 0 : left > per_lane ? per_lane : left;
                const E *row = base + (left ? (int64_t)source * channels : 0);
                uint4 *to = stage + (g * p.step_chunks + c) * 32 + lane;
                if (wide) {
                    copy_async_16(to, left ? row : (const E *)(second ? p.in2 : p.in),
                                  left * (int)sizeof(E));
                } else {
                    conv_copy_narrow(to, row, left);
                }
            }
        }
    }
    copy_async_commit();
}

// Multiplies one step that has arrived in `stage`.
template <typename E, int blocks>
SPIRA_DEVICE void conv_multiply(const conv_tensor_params &p, const conv_steps &s, uint32_t groups,
                                int first_block, const uint4 *stage,
                                float (&sum)[blocks][tile_groups][4]) {
    int lane = threadIdx.x % 32;
    int all_blocks = (p.cout + 15) / 16;
    for (int c = 0; c < p.step_chunks && s.chunk + c < p.chunks; ++c) {
        uint4 a[blocks][2];
#pragma unroll
        for (int m = 0; m < blocks; ++m) { // blocks beyond cout repeat the last one, unused
            int block = first_block + m < all_blocks ? first_block + m : all_blocks - 1;
            const uint4 *w =
                (const uint4 *)p.weights +
                (((int64_t)s.offset * all_blocks + block) * p.chunks + s.chunk + c) * 64 + lane;
            a[m][0] = __ldg(w);
            a[m][1] = __ldg(w + 32);
        }
#pragma unroll
        for (int g = 0; g < tile_groups; ++g) {
            if (groups >> g & 1) {
                uint4 b = stage[(g * p.step_chunks + c) * 32 + lane];
                if (sizeof(E) == 4) { // tf32
                    b.x = tf32_bits(__uint_as_float(b.x));
                    b.y = tf32_bits(__uint_as_float(b.y));
                    b.z = tf32_bits(__uint_as_float(b.z));
                    b.w = tf32_bits(__uint_as_float(b.w));
                }
#pragma unroll
                for (int m = 0; m < blocks; ++m) {
                    mma_step<E>(sum[m][g], a[m][0], b.x, b.y);
                    mma_step<E>(sum[m][g], a[m][1], b.z, b.w);
                }
            }
        }
    }
}

// Four neighbouring channels of one output: epilogue, one rounding, one store if it is aligned.
template <typename E>
SPIRA_DEVICE void conv_finish(const conv_tensor_params &p, int64_t row, int channel, float4 sum) {
    float value[4] = {sum.x, sum.y, sum.z, sum.w};
    int64_t at = row * p.cout + channel;
    union {
        E element[4];
        uint2 two;
        uint4 four;
    } v, r;
    bool wide = p.wide_out;
    const E *residual = (const E *)p.residual;
    if (residual && wide && sizeof(E) == 2) {
        r.two = *(const uint2 *)(residual + at);
    } else if (residual && wide) {
        r.four = *(const uint4 *)(residual + at);
    }
    bool plain = residual && !wide;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (channel + i < p.cout) {
            float extra = plain      ? element_to_float(residual[at + i])
                          : residual ? element_to_float(r.element[i])
                                     : 0.0f;
            v.element[i] =
                element_from_float<E>(epilogue_apply(value[i], &p.epilogue, channel + i, extra));
        }
    }
    E *out = (E *)p.out + at;
    if (wide && sizeof(E) == 2) {
        *(uint2 *)out = v.two;
    } else if (wide) {
        *(uint4 *)out = v.four;
    } else {
        for (int i = 0; i < 4 && channel + i < p.cout; ++i) {
            out[i] = v.element[i];
        }
    }
}

// Turns the sums of one group round in shared memory and writes its 8 rows.
template <typename E, int blocks>
SPIRA_DEVICE void conv_write_group(const conv_tensor_params &p, int first_block, int32_t row,
                                   float (&sum)[blocks][4], float *turn) {
    enum { pitch = blocks * 16 + 4 }; // the 4 spreads the columns over the banks
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < blocks; ++m) {
        float *at = turn + 2 * t * pitch + m * 16 + g;
        at[0] = sum[m][0];
        at[pitch] = sum[m][1];
        at[8] = sum[m][2];
        at[pitch + 8] = sum[m][3];
    }
    __syncwarp();
    if (row >= 0) { // lane / 4 is the row of the group, lane % 4 its share of each 16 channels
#pragma unroll
        for (int m = 0; m < blocks; ++m) {
            int channel = (first_block + m) * 16 + 4 * t;
            if (channel < p.cout) {
                conv_finish<E>(p, row, channel,
                               *(const float4 *)(turn + g * pitch + m * 16 + 4 * t));
            }
        }
    }
}

// The output row of a slot, or -1.
SPIRA_DEVICE int32_t conv_slot_row(const conv_tensor_params &p, int tile, int slot) {
    int64_t at = (int64_t)tile * tile_rows + slot;
    return p.row ? p.row[at] : at < *p.count ? (int32_t)at : -1;
}

// The source rows of slots lane and lane + 32 for an offset.
SPIRA_DEVICE void conv_sources(const conv_tensor_params &p, int tile, int offset, int32_t &lo,
                               int32_t &hi) {
    int lane = threadIdx.x % 32;
    if (p.index) {
        const int32_t *at = p.index + ((int64_t)tile * p.volume + offset) * tile_rows + lane;
        lo = at[0];
        hi = at[32];
    } else {
        lo = conv_slot_row(p, tile, lane);
        hi = conv_slot_row(p, tile, lane + 32);
    }
}

// Which (tile, slice) a warp works on. Inside of each scope the last tiles have the most offsets:
// all scopes' last tiles go first, so that no heavy tile is left for the end.
SPIRA_DEVICE bool conv_assign(const conv_tensor_params &p, int &tile, int &slice) {
    int64_t item = (int64_t)blockIdx.x * conv_warps + threadIdx.x / 32;
    int order = (int)(item / p.slices);
    if (order >= p.tiles) {
        return false;
    }
    slice = (int)(item % p.slices);
    int scopes = p.tiles / tile_scope_tiles;
    tile = order % scopes * tile_scope_tiles + tile_scope_tiles - 1 - order / scopes;
    return true;
}

template <typename E, int blocks>
SPIRA_KERNEL void __launch_bounds__(32 * conv_warps, blocks > 2   ? 2
                                                     : blocks > 1 ? 3
                                                                  : 4)
    conv_tensor_kernel(const __grid_constant__ conv_tensor_params p) {
    extern __shared__ uint4 conv_shared[];
    int tile, slice;
    if (!conv_assign(p, tile, slice)) {
        return;
    }
    int lane = threadIdx.x % 32;
    int32_t row_lo = conv_slot_row(p, tile, lane), row_hi = conv_slot_row(p, tile, lane + 32);
    if (!__any_sync(~0u, row_lo >= 0 || row_hi >= 0)) {
        return;
    }
    int stage_size = tile_groups * p.step_chunks * 32; // in units of 16 bytes
    uint4 *ring = conv_shared + threadIdx.x / 32 * conv_stages * stage_size;
    float sum[blocks][tile_groups][4];
#pragma unroll
    for (int m = 0; m < blocks; ++m) {
#pragma unroll
        for (int g = 0; g < tile_groups; ++g) {
            sum[m][g][0] = sum[m][g][1] = sum[m][g][2] = sum[m][g][3] = 0.0f;
        }
    }

    // The gather runs conv_stages - 1 steps ahead, its source rows one step further.
    conv_steps ahead = conv_steps_begin(p, tile), now = ahead;
    uint32_t ahead_groups = 0, groups = 0;
    int32_t lo = -1, hi = -1;
    bool more = conv_steps_next(p, tile, ahead, ahead_groups);
    if (more) {
        conv_sources(p, tile, ahead.offset, lo, hi);
    }
    int fill = 0, drain = 0;
    for (int warm = 0; warm < conv_stages - 1; ++warm) {
        if (more) {
            conv_gather<E>(p, ahead, ahead_groups, lo, hi, ring + fill * stage_size);
            more = conv_steps_next(p, tile, ahead, ahead_groups);
            if (more) {
                conv_sources(p, tile, ahead.offset, lo, hi);
            }
        } else {
            copy_async_commit();
        }
        ++fill;
    }
    while (conv_steps_next(p, tile, now, groups)) {
        copy_async_wait<conv_stages - 2>();
        if (more) {
            conv_gather<E>(p, ahead, ahead_groups, lo, hi, ring + fill * stage_size);
            more = conv_steps_next(p, tile, ahead, ahead_groups);
            if (more) {
                conv_sources(p, tile, ahead.offset, lo, hi);
            }
        } else {
            copy_async_commit();
        }
        fill = fill + 1 == conv_stages ? 0 : fill + 1;
        conv_multiply<E, blocks>(p, now, groups, slice * blocks, ring + drain * stage_size, sum);
        drain = drain + 1 == conv_stages ? 0 : drain + 1;
    }
    copy_async_wait<0>();

#pragma unroll
    for (int g = 0; g < tile_groups; ++g) {
        int32_t row = __shfl_sync(~0u, g < 4 ? row_lo : row_hi, g % 4 * tile_group + lane / 4);
        float part[blocks][4];
#pragma unroll
        for (int m = 0; m < blocks; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                part[m][i] = sum[m][g][i];
            }
        }
        conv_write_group<E, blocks>(p, slice * blocks, row, part, (float *)ring);
    }
}

// How many blocks of 16 output channels a warp takes: as many as fit its registers without waste,
// fewer where the tiles alone would leave the GPU empty.
SPIRA_API int conv_tensor_blocks(int cout, int tiles, int multiprocessors) {
    int all = (cout + 15) / 16, best = 1;
    for (int blocks = 2; blocks <= 4; ++blocks) {
        int slices = (all + blocks - 1) / blocks;
        int best_slices = (all + best - 1) / best;
        bool fills = (int64_t)tiles * slices >= (int64_t)multiprocessors * 4;
        if (fills && slices * blocks <= best_slices * best) {
            best = blocks;
        }
    }
    return best;
}

template <typename E, int blocks>
SPIRA_API status conv_tensor_start(conv_tensor_params p, int shared_max, cudaStream_t stream) {
    p.slices = (int)ceil_div(p.cout, 16 * blocks);
    size_t chunk = (size_t)conv_warps * conv_stages * tile_groups * conv_group_bytes;
    p.step_chunks = p.chunks > 1 && 2 * chunk <= (size_t)shared_max / 2 ? 2 : 1;
    size_t bytes = chunk * p.step_chunks;
    SPIRA_TRY(status_from_cuda(cudaFuncSetAttribute(conv_tensor_kernel<E, blocks>,
                                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    (int)bytes),
                               "conv (shared memory)"));
    int64_t grid = ceil_div((int64_t)p.tiles * p.slices, conv_warps);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity", grid);
    conv_tensor_kernel<E, blocks><<<(unsigned)grid, 32 * conv_warps, bytes, stream>>>(p);
    return status_of_launch("conv");
}

template <typename E>
SPIRA_API status conv_tensor_launch(const conv_tensor_params &p, int multiprocessors,
                                    int shared_max, cudaStream_t stream) {
    switch (conv_tensor_blocks(p.cout, p.tiles, multiprocessors)) {
    case 1:
        return conv_tensor_start<E, 1>(p, shared_max, stream);
    case 2:
        return conv_tensor_start<E, 2>(p, shared_max, stream);
    case 3:
        return conv_tensor_start<E, 3>(p, shared_max, stream);
    default:
        return conv_tensor_start<E, 4>(p, shared_max, stream);
    }
}

} // namespace spira

#endif
