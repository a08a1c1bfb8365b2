// spira/conv/tile.cuh: what the convolution kernels share: parameters, packed weights, accumulators
// in shared memory, and the epilogue.
//
// The accumulators of a tile of outputs stay on the chip from the first offset to the epilogue, in
// fp32, so that each output is written once. Only pairs that the kernel map has are multiplied
// (compaction): the matrix instruction's 16 rows are 16 pairs of one offset, its 8 columns are 8
// output channels, a "channel group". No output has two pairs of one offset.
//
// A lane loads exactly the bytes of a row that it multiplies: 16 bytes. They are both depth halves
// of two instructions, since the weights are packed in the same order.
//
// conv/tensor.cuh and conv_pairs.cuh use all of it; conv/narrow.cuh and conv/hopper.cuh use the
// parameters, the loads of unaligned rows and the epilogue.
#ifndef SPIRA_CONV_TILE_CUH
#define SPIRA_CONV_TILE_CUH

#include "../base/async.cuh"
#include "../base/mma.cuh"
#include "../conv.h"
#include "../device.cuh"
#include "../layout/order.h"
#include "../layout/tile.h"
#include "../status.cuh"

namespace spira {

enum {
    conv_lane_bytes = 16,      // a lane's bytes of a chunk
    conv_chunk_bytes = 64,     // a chunk of a row: 4 lanes; 32 channels of 16 bits, 16 of 32 bits
    conv_fragment_bytes = 512, // a warp's bytes: weights of a chunk and a channel group
};

// Chunks of one source's channels.
SPIRA_BOTH int conv_chunks(int channels, numeric type) {
    return (int)ceil_div((int64_t)channels * numeric_size(type), conv_chunk_bytes);
}

// Chunks of both sources.
SPIRA_BOTH int conv_shape_chunks(const conv_shape *s) {
    return conv_chunks(s->cin, s->type) + conv_chunks(s->cin2, s->type);
}

// Channel groups of a slice, which is what one warp computes.
SPIRA_BOTH int conv_slice_channel_groups(int cout) {
    return cout <= 16 ? 2 : 4;
}

SPIRA_BOTH int conv_slices(int cout) {
    return (int)ceil_div(cout, 8 * conv_slice_channel_groups(cout));
}

// Channel groups of all slices.
SPIRA_BOTH int conv_channel_groups(int cout) {
    return conv_slices(cout) * conv_slice_channel_groups(cout);
}

// Packed weights [volume, chunks, conv_channel_groups, 32 lanes] of 16 bytes: the lane's operand of
// two mma_steps, with neighbouring input channels. Channels past the last are zero. Returns the
// number of lanes' operands.
SPIRA_API int64_t conv_tensor_weights(const conv_shape *s) {
    return (int64_t)s->volume * conv_channel_groups(s->cout) * conv_shape_chunks(s) * 32;
}

// The indices of operand `number` of packed weights [volume, chunks, channel groups, 32 lanes].
struct conv_packed_place {
    int64_t offset;
    int chunk, group, lane;
};

SPIRA_DEVICE conv_packed_place conv_packed_place_of(int64_t number, int chunks,
                                                    int channel_groups) {
    return {number / 32 / channel_groups / chunks, (int)(number / 32 / channel_groups % chunks),
            (int)(number / 32 % channel_groups), (int)(number % 32)};
}

template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    conv_tensor_pack_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                            E *__restrict__ packed) {
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    const conv_packed_place at =
        conv_packed_place_of(i, conv_shape_chunks(&s), conv_channel_groups(s.cout));
    const int chunks1 = conv_chunks(s.cin, s.type);
    bool second = at.chunk >= chunks1;
    int first = ((second ? at.chunk - chunks1 : at.chunk) * 4 + at.lane % 4) * per_lane;
    int out = at.group * 8 + at.lane / 4;
    for (int e = 0; e < per_lane; ++e) {
        int channel = first + e;
        bool inside = channel < (second ? s.cin2 : s.cin) && out < s.cout;
        int64_t from = conv_weight_index<order>(&s, at.offset, (second ? s.cin : 0) + channel, out);
        float w = inside ? weight[from] : 0.0f;
        packed[i * per_lane + e] =
            element_from_float<E>(s.type == numeric_tf32 ? element_operand(s.type, w) : w);
    }
}

enum { conv_sizes_most = 256 };

// How the work of a layer is cut. What a member means depends on the kernel:
//
//          conv/tensor.cuh        conv/narrow.cuh     conv/hopper.cuh      conv/portable.cuh
//   tiles  of a thread block      1                   under way at a       pairs of row groups of a
//                                                     time: 1, 2           tile: 1, 2
//   slices of a thread block,     1                   columns / 32         columns / 32: 2, 3, 4;
//          up to 32 output                                                 1 in exact fp32, too
//          channels each
//   split  warps that share the   warps that share    thread blocks that   1
//          list of a tile:        places: 1, 2, 4     share the offsets
//          1, 2, 4                                    of a tile: 1, 2
//   depth  chunks multiplied at   1                   stages of the ring   stages of the ring
//          a time: 1, 2, 4
//
// Launchers choose `depth` themselves and ignore the caller's.
struct conv_sizes {
    int tiles, slices, split, depth;
};

// A 1x1x1 convolution that is added to the outputs: see conv_shortcut.
struct conv_tensor_shortcut {
    const void *in, *in2, *weights;
    const float *bias, *scale, *shift; // [cout], or null
    int cin, cin2;
    int parts; // of a row: 128 bytes each, 64 of conv/portable.cuh; 0: no shortcut
    bool wide_in, wide_in2;
};

// The parameters of the kernels on tensor cores.
struct conv_tensor_params {
    const void *in, *in2, *weights, *residual;
    void *out;
    tile_layout layout; // first is null for the identity
    order_layout order; // row is null for the identity; not conv/tensor.cuh
    const int32_t *count;
    int32_t capacity;
    conv_epilogue epilogue;
    const float *sums; // [capacity, conv_sums_pitch(cout)]: initial sums, or null
    int volume, cin, cin2, cout;
    int chunks1, chunks; // of the first source, of both. conv/hopper.cuh: `chunks` is the parts of
                         // both together
    int slices;          // thread blocks that share the output channels of a tile
    int part;            // bytes: of a part of a row (conv/hopper.cuh); of the weights of a chunk
                         // and offset (conv/portable.cuh)
    int multiprocessors; // of the device; conv/narrow.cuh
    int rows;            // of a tile of the layout
    conv_sizes size;
    bool wide_in, wide_in2;        // rows of the sources are aligned to 16 bytes
    bool wide_out;                 // rows of outputs and residual are aligned to 4 elements
    bool programmatic;             // see conv_args.programmatic; conv/narrow.cuh, conv/hopper.cuh
    conv_tensor_shortcut shortcut; // conv/hopper.cuh
    int halved;                    // tiles that two thread blocks share; conv/portable.cuh
};

// ---- rows -----------------------------------------------------------------------------

// a * b. The compiler would use a full 64-bit multiplication.
SPIRA_DEVICE uint64_t conv_multiply_wide(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    uint64_t v;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(v) : "r"(a), "r"(b));
    return v;
#else
    return (uint64_t)a * b;
#endif
}

// Loads 16 bytes element by element, as far as the row has them (`bytes`); zeros past that.
template <typename E>
SPIRA_DEVICE uint4 conv_read_each(const char *from, int bytes) {
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    union {
        uint4 all;
        E element[per_lane];
    } v;
    v.all = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
        if (bytes > i * (int)sizeof(E)) {
            v.element[i] = ((const E *)from)[i];
        }
    }
    return v.all;
}

// Not inlined: many places call it, seldom.
template <typename E>
[[maybe_unused]] static __device__ __noinline__ uint4 conv_read_unaligned(const char *from,
                                                                          int bytes) {
    return conv_read_each<E>(from, bytes);
}

// ---- accumulators in shared memory --------------------------------------------------------------

// Swizzle: moves the 32 bytes of a channel group, so that rows that differ modulo 4 have the same
// channels in different banks. See tile_pair_place (layout/tile.h).
template <int channel_groups>
SPIRA_DEVICE uint32_t conv_swizzle(uint32_t row) {
    return channel_groups == 2 ? (row & 2) << 4 : (row & 3) << 5;
}

// Where a lane has its two channels of a row's first channel group, in bytes from the accumulators
// of the tile [rows, 8 channel_groups].
template <int channel_groups>
SPIRA_DEVICE uint32_t conv_sums_place(uint32_t row) {
    return row * (channel_groups * 32) + (threadIdx.x % 4 * 8 | conv_swizzle<channel_groups>(row));
}

// The same of channel group m.
SPIRA_DEVICE uint32_t conv_sums_at(uint32_t place, int m) {
    return (place ^ (uint32_t)(m % 4 * 32)) + (uint32_t)(m / 4 * 128);
}

// A lane's accumulators of 16 pairs: of rows g and g + 8 (g = lane / 4), channels 2 t and 2 t + 1
// (t = lane % 4) of each channel group.
template <int channel_groups>
struct conv_sums {
    float at[channel_groups][4];
};

// Loads a lane's channels of row g (r = 0) or g + 8 (r = 1). Tiles are aligned to 128 bytes.
template <int channel_groups>
SPIRA_DEVICE void conv_sums_load(uint32_t tile, uint32_t place, int r,
                                 conv_sums<channel_groups> &sum) {
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        float2 two = shared_load_float_2(conv_sums_at(tile + place, m));
        sum.at[m][2 * r] = two.x;
        sum.at[m][2 * r + 1] = two.y;
    }
}

// Stores them, if `there`.
template <int channel_groups>
SPIRA_DEVICE void conv_sums_store(uint32_t tile, uint32_t place, int r, bool there,
                                  const conv_sums<channel_groups> &sum) {
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        shared_store_float_2(conv_sums_at(tile + place, m),
                             make_float2(sum.at[m][2 * r], sum.at[m][2 * r + 1]), there);
    }
}

// Zeroes the accumulators [rows, 8 channel_groups]. A whole warp calls this.
template <int channel_groups>
SPIRA_DEVICE void conv_begin_sums(int rows, char *sums) {
    for (int i = threadIdx.x % 32; i < rows * (channel_groups * 2); i += 32) {
        ((float4 *)sums)[i] = make_float4(0, 0, 0, 0);
    }
}

SPIRA_DEVICE uint4 conv_tf32(uint4 v) {
    return make_uint4(tf32_bits(__uint_as_float(v.x)), tf32_bits(__uint_as_float(v.y)),
                      tf32_bits(__uint_as_float(v.z)), tf32_bits(__uint_as_float(v.w)));
}

// Multiplies one chunk: a lane's bytes of rows g and g + 8 by the weights of all channel groups.
template <typename E, int channel_groups>
SPIRA_DEVICE void conv_multiply_chunk(uint4 low, uint4 high, const uint4 (&weights)[channel_groups],
                                      conv_sums<channel_groups> &sum) {
    if (sizeof(E) == 4) { // tf32
        low = conv_tf32(low);
        high = conv_tf32(high);
    }
    uint4 a = make_uint4(low.x, high.x, low.y, high.y),
          b = make_uint4(low.z, high.z, low.w, high.w);
    // Keeps one copy of the operands for all channel groups.
    asm volatile("" : "+r"(a.x), "+r"(a.y), "+r"(a.z), "+r"(a.w));
    asm volatile("" : "+r"(b.x), "+r"(b.y), "+r"(b.z), "+r"(b.w));
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        mma_step<E>(sum.at[m], a, weights[m].x, weights[m].y);
    }
#pragma unroll
    for (int m = 0; m < channel_groups; ++m) {
        mma_step<E>(sum.at[m], b, weights[m].z, weights[m].w);
    }
}

// ---- epilogue -----------------------------------------------------------------------------------

// The larger of two numbers; NaN if one is NaN.
SPIRA_DEVICE float conv_max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
#else
    return a != a || a > b ? a : b;
#endif
}

// floor: 0 for ReLU, otherwise -infinity, so that one instruction serves all activations.
SPIRA_DEVICE float conv_activate(float x, float floor, bool leaky, float slope) {
    x = conv_max_nan(x, floor);
    return leaky && x < 0.0f ? x * slope : x;
}

// Four neighbouring channels of an output.
template <typename E>
struct __align__(4 * sizeof(E)) conv_quad {
    E element[4];
};

template <typename E, bool wide>
SPIRA_DEVICE conv_quad<E> conv_quad_load(const E *from, int left) {
    conv_quad<E> q;
    if (wide) {
        q = *(const conv_quad<E> *)from;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            q.element[i] = from[i < left ? i : 0];
        }
    }
    return q;
}

template <typename E, bool wide>
SPIRA_DEVICE void conv_quad_store(E *to, int left, const conv_quad<E> &q) {
    if (wide) {
        *(conv_quad<E> *)to = q;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < left) {
                to[i] = q.element[i];
            }
        }
    }
}

// The epilogue of four channels. The bias is folded into the shift.
struct conv_output {
    alignas(16) float scale[4], shift[4];
    float floor;
    int channel; // the first
    bool leaky;
};

SPIRA_DEVICE conv_output conv_output_of(const conv_tensor_params &p, int channel) {
    conv_output f;
    f.channel = channel;
    f.floor = p.epilogue.act == activation_relu ? 0.0f : -INFINITY;
    f.leaky = p.epilogue.act == activation_leaky;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        bool inside = channel + i < p.cout;
        float scale = inside && p.epilogue.scale ? p.epilogue.scale[channel + i] : 1.0f;
        float shift = inside && p.epilogue.shift ? p.epilogue.shift[channel + i] : 0.0f;
        float bias = inside && p.epilogue.bias ? p.epilogue.bias[channel + i] : 0.0f;
        f.scale[i] = scale;
        f.shift[i] = fmaf(bias, scale, shift);
    }
    return f;
}

// Loads four neighbouring channels of a row of initial sums, of which `left` are there: those past
// the last are not initialised.
SPIRA_DEVICE float4 conv_sums_fetch(const float *from, int left) {
    if (left >= 4) {
        return *(const float4 *)from;
    }
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, 0.0f);
}

// Adds the initial sums of an output. wide: p.wide_out. conv/hopper.cuh has its own way.
template <bool wide>
SPIRA_DEVICE float4 conv_sums_add(const conv_tensor_params &p, int row, int channel, float4 sum) {
    const int pitch = wide ? p.cout : conv_sums_pitch(p.cout);
    asm volatile("" : "+r"(row)); // otherwise the compiler keeps an address for each row
    const float *from = p.sums + (int64_t)row * pitch + channel;
    float4 first = conv_sums_fetch(from, wide ? 4 : p.cout - channel);
    return make_float4(first.x + sum.x, first.y + sum.y, first.z + sum.z, first.w + sum.w);
}

// Finishes four channels of an output: initial sums, epilogue, store. wide: p.wide_out.
template <typename E, bool wide>
SPIRA_DEVICE void conv_output_store_as(const conv_tensor_params &p, const conv_output &f, int row,
                                       float4 sum) {
    int64_t at = (int64_t)row * p.cout + f.channel;
    sum = p.sums ? conv_sums_add<wide>(p, row, f.channel, sum) : sum;
    const float value[4] = {sum.x, sum.y, sum.z, sum.w};
    conv_quad<E> extra, q;
    if (p.residual) {
        extra = conv_quad_load<E, wide>((const E *)p.residual + at, p.cout - f.channel);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float v = fmaf(value[i], f.scale[i], f.shift[i]);
        v += p.residual ? element_to_float(extra.element[i]) : 0.0f;
        q.element[i] = element_from_float<E>(conv_activate(v, f.floor, f.leaky, p.epilogue.slope));
    }
    conv_quad_store<E, wide>((E *)p.out + at, p.cout - f.channel, q);
}

template <typename E>
SPIRA_DEVICE void conv_output_store(const conv_tensor_params &p, const conv_output &f, int row,
                                    float4 sum) {
    if (p.wide_out) {
        conv_output_store_as<E, true>(p, f, row, sum);
    } else {
        conv_output_store_as<E, false>(p, f, row, sum);
    }
}

// Finishes outputs [first_row, + there), channels [channel, + 8 channel_groups). A lane has the
// same four channels of every row.
//
// sums  accumulators of the tile, whose rows these are from `from` on; `copies` of them, `apart`
//       bytes from each other, are added up in order
template <typename E, int channel_groups, int unroll = 4>
SPIRA_DEVICE void conv_finish(const conv_tensor_params &p, int first_row, int there, int channel,
                              int from, const char *sums, int copies, int apart) {
    enum { quads = channel_groups * 2, at_a_time = 32 / quads };
    int lane = threadIdx.x % 32, quad = lane % quads;
    channel += quad * 4;
    if (channel >= p.cout) {
        return;
    }
    conv_output output = conv_output_of(p, channel);
#pragma unroll(unroll)
    for (int row = lane / quads; row < there; row += at_a_time) {
        const char *own =
            sums + (from + row) * (channel_groups * 32) +
            ((uint32_t)(quad * 16) ^ conv_swizzle<channel_groups>((uint32_t)(from + row)));
        float4 sum = *(const float4 *)own;
        for (int c = 1; c < copies; ++c) {
            float4 more = *(const float4 *)(own + c * apart);
            sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
        }
        conv_output_store<E>(p, output, first_row + row, sum);
    }
}

} // namespace spira

#endif
