// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/epilogue.cuh: from accumulators to outputs: initial sums, scale and shift,
// residual, activation, one rounding.
//
// The plain path is for aligned outputs and activations that are a bound. Lanes exchange channels
// in pairs, so that each stores 8 bytes at a time. Everything else takes the general path: a loop
// over 32 columns or more, with the same exchange where outputs are aligned. Mixed formats take it
// by 8 columns, element by element.
//
// A lane has two rows of each row group, and of each channel group (8 channels) the two channels
// that the matrix instruction gives it (base/wgmma.cuh). Of int8: epilogue_i8.cuh.
#ifndef SPIRA_CONV_HOPPER_EPILOGUE_CUH
#define SPIRA_CONV_HOPPER_EPILOGUE_CUH

#include "epilogue_i8.cuh"
#include "residual.cuh"

namespace spira {

// ---- initial sums -------------------------------------------------------------------------------

// Loads two channels, if the first of them is there; else zeros. A row of sums has room for both.
// Without a branch, so that many loads are in flight.
SPIRA_DEVICE float2 hopper_sums_load(const float *from, int there) {
#ifdef __CUDA_ARCH__
    float2 v = make_float2(0.0f, 0.0f);
    asm volatile("{\n\t"
                 ".reg .pred there;\n\t"
                 "setp.gt.s32 there, %3, 0;\n\t"
                 "@there ld.global.v2.f32 {%0, %1}, [%2];\n\t"
                 "}"
                 : "+f"(v.x), "+f"(v.y)
                 : "l"(from), "r"(there));
    return v;
#else
    return there > 0 ? make_float2(from[0], from[1]) : make_float2(0.0f, 0.0f);
#endif
}

// Adds conv_params.sums, if there are any, to a lane's accumulators.
template <int columns>
SPIRA_DEVICE void hopper_add_sums(const conv_params &p, int channel, const int (&row)[2],
                                  float (&sum)[columns / 2]) {
    enum { at_a_time = columns <= 96 ? 4 : 2 }; // as registers allow
    if (!p.sums) {
        return;
    }
    const float *from[2];
    int there[2]; // channels from the lane's first on; those past the last are not initialised
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int first = channel + warp_lane() % 4 * 2;
        from[h] = p.sums + (int64_t)row[h] * conv_sums_pitch(p.cout) + first;
        there[h] = row[h] < 0 ? 0 : p.cout - first;
    }
#pragma unroll
    for (int j = 0; j < columns / 8 && channel + 8 * j < p.cout; j += at_a_time) {
        float2 v[at_a_time][2];
#pragma unroll
        for (int i = 0; i < 2 * at_a_time; ++i) {
            int ahead = 8 * (j + i / 2);
            v[i / 2][i % 2] = hopper_sums_load(from[i % 2] + ahead, there[i % 2] - ahead);
        }
#pragma unroll
        for (int i = 0; i < 2 * at_a_time; ++i) {
            float *to = sum + 4 * (j + i / 2) + 2 * (i % 2);
            to[0] += v[i / 2][i % 2].x;
            to[1] += v[i / 2][i % 2].y;
        }
    }
}

// ---- plain path ---------------------------------------------------------------------------------

// Whether the plain path applies: not for unaligned outputs, an activation that is more than a
// bound, a residual besides a shortcut, or formats that it does not have.
template <typename T>
SPIRA_BOTH bool hopper_is_plain(const conv_params &p) {
    const conv_quantisation &q = p.quantisation;
    return p.wide_out && activation_is_bound(p.epilogue.act) &&
           !(p.residual && p.shortcut.chunks) && (!T::integer || hopper_i8_is_plain(p)) &&
           (T::integer || !T::mixed ||
            (q.out_type == numeric_i8 && (!p.residual || q.residual_type == T::type)));
}

// Whether a residual is loaded before the products.
template <typename T>
SPIRA_DEVICE bool hopper_is_early(const conv_params &p) {
    return T::ahead ? p.wide_out : hopper_is_plain<T>(p);
}

// Two neighbouring channels: scale * sum + shift + residual.
template <typename E, bool adds>
SPIRA_DEVICE float2 hopper_finish_pair(float x, float y, float2 scale, float2 shift,
                                       uint32_t residual) {
    x = fmaf(x, scale.x, shift.x);
    y = fmaf(y, scale.y, shift.y);
    if (adds) {
        const float2 more = conv_pair_to_floats<E>(residual);
        x += more.x;
        y += more.y;
    }
    return make_float2(x, y);
}

// Two lanes have two channels each of two channel groups, `low` and `high`. They exchange halves:
// the even lane gets four neighbouring channels of the first group, the odd lane of the second.
SPIRA_DEVICE uint2 hopper_join(bool odd, uint32_t low, uint32_t high) {
    uint32_t other = __shfl_xor_sync(~0u, odd ? low : high, 1);
    return odd ? make_uint2(other, high) : make_uint2(low, other);
}

SPIRA_DEVICE float2 hopper_bounded(float2 v, float bound) {
    return make_float2(conv_max_nan(v.x, bound), conv_max_nan(v.y, bound));
}

// The same of int8: four bytes, of which each lane has two.
SPIRA_DEVICE uint32_t hopper_join_i8(bool odd, float2 low, float2 high, float inverse) {
    const float2 own = odd ? high : low, given = odd ? low : high;
    const uint32_t two = conv_i8_four(make_float4(own.x, own.y, given.x, given.y), inverse);
    const uint32_t other = __shfl_xor_sync(~0u, two, 1);
    return odd ? other >> 16 | two << 16 : (two & 0xffff) | (other & 0xffff0000u);
}

// The inverse of hopper_join.
SPIRA_DEVICE void hopper_split(bool odd, uint2 all, uint32_t &low, uint32_t &high) {
    uint32_t other = __shfl_xor_sync(~0u, odd ? all.x : all.y, 1);
    low = odd ? other : all.x;
    high = odd ? all.y : other;
}

// The first of the four channels that a lane has of a pair of channel groups, after hopper_join.
SPIRA_DEVICE int hopper_joined_channel() {
    const int t = warp_lane() % 4;
    return (t & 1) * 8 + (t >> 1) * 4;
}

// Finishes two rows of a lane. The residual may be the array of the outputs: of each batch it is
// loaded before the batch's outputs are stored.
//
// scale     of the first channel, then of the others (hopper_shared.scale); channel: the first
// residual  with `adds`: the first T::prefetch pairs of channel groups are loaded already
template <typename T, bool adds>
SPIRA_DEVICE void hopper_finish_rows(const conv_params &p, const float *scale, int channel,
                                     const int (&row)[2], uint2 (&residual)[T::batch][2],
                                     const float (&sum)[T::finished / 2]) {
    typedef typename T::element E;
    enum { pairs = T::finished / 16 }; // of channel groups
    const int t = warp_lane() % 4, own = hopper_joined_channel();
    const float bound = conv_bound(p.epilogue);
    int64_t at[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        at[h] = hopper_byte_of<E>(p, row[h], channel + own);
    }
#pragma unroll
    for (int first = 0; first < pairs; first += T::batch) {
        if (adds) {
            hopper_residual_load<T, false>(p, channel + own, row, first, residual);
        }
#pragma unroll
        for (int i = 0; i < T::batch && first + i < pairs; ++i) {
            const int j = first + i;
            float2 by[2], shift[2];
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const float *const at = scale + 16 * j + 8 * b + 2 * t;
                by[b] = *(const float2 *)at;
                shift[b] = *(const float2 *)(at + hopper_columns_most);
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float *v = sum + 8 * j + 2 * h;
                uint32_t low = 0, high = 0;
                if (adds) {
                    hopper_split(t & 1, residual[i][h], low, high);
                }
                const float2 x = hopper_finish_pair<E, adds>(v[0], v[1], by[0], shift[0], low);
                const float2 y = hopper_finish_pair<E, adds>(v[4], v[5], by[1], shift[1], high);
                const bool there = row[h] >= 0 && channel + own + 16 * j < p.cout;
                if constexpr (T::mixed) {
                    const float2 a = hopper_bounded(x, bound), b = hopper_bounded(y, bound);
                    const uint32_t all = hopper_join_i8(t & 1, a, b, p.quantisation.out_inverse);
                    if (there) {
                        *(uint32_t *)((char *)p.out + at[h] / 2 + 16 * j) = all;
                    }
                } else {
                    const uint2 all = hopper_join(t & 1, conv_pair_bounded<E>(x.x, x.y, bound),
                                                  conv_pair_bounded<E>(y.x, y.y, bound));
                    if (there) {
                        *(uint2 *)((char *)p.out + at[h] + 32 * j) = all;
                    }
                }
            }
        }
    }
}

// With the layer's residual, if it has one. With a shortcut the plain path has none.
template <typename T>
SPIRA_DEVICE void hopper_finish_plain(const conv_params &p, const float *scale, int channel,
                                      const int (&row)[2], uint2 (&residual)[T::batch][2],
                                      const typename T::sum (&sum)[T::finished / 2]) {
    if constexpr (T::integer) {
        hopper_i8_finish_plain<T>(p, scale, channel, row, residual, sum);
    } else if (!T::shortcut && p.residual) {
        hopper_finish_rows<T, true>(p, scale, channel, row, residual, sum);
    } else {
        hopper_finish_rows<T, false>(p, scale, channel, row, residual, sum);
    }
}

// ---- general path -------------------------------------------------------------------------------

// What a lane has not finished yet.
struct hopper_rest {
    const float *scale; // hopper_shared.scale
    int channel;        // the slice's first
    int at;             // the first column, of those of all row groups
};

// Loads the residual of a lane's channels of 32 columns of a row that is not aligned to 4 elements:
// the lane's two of each channel group. Those past `left` from its first on are not read: they are
// zeros, or the one before. Not inlined, for less code.
template <typename E>
[[maybe_unused]] static __device__ __noinline__ uint4 hopper_load_apart(const E *from, int left) {
    const bool pairs = (uintptr_t)from % sizeof(conv_pair<E>) == 0;
    uint32_t v[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const E *const first = from + 8 * i;
        const int more = left - 8 * i;
        if (more > 1 && pairs) {
            v[i] = *(const uint32_t *)first;
        } else if (more > 0) {
            const conv_pair<E> each = {{first[0], first[more > 1]}};
            v[i] = bytes_as<uint32_t>(each);
        }
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
}

// Stores them.
template <typename E>
[[maybe_unused]] static __device__ __noinline__ void hopper_store_apart(E *to, int left, uint4 v) {
    const bool pairs = (uintptr_t)to % sizeof(conv_pair<E>) == 0;
    const uint32_t all[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const conv_pair<E> each = bytes_as<conv_pair<E>>(all[i]);
        const int more = left - 8 * i;
        if (more > 1 && pairs) {
            *(uint32_t *)(to + 8 * i) = all[i];
        } else if (more > 0) {
            to[8 * i] = each.element[0];
            if (more > 1) {
                to[8 * i + 1] = each.element[1];
            }
        }
    }
}

// Channels that a lane has from its first on, of a row that may be none.
SPIRA_DEVICE int hopper_channels_left(const conv_params &p, int row, int channel) {
    return row < 0 ? 0 : p.cout - channel;
}

// Adds the residual of some pieces of two rows. channel: the pieces' first
//
// residual  of these pieces; if rows are aligned and T::ahead: loaded already
template <typename T, int pieces>
SPIRA_DEVICE void hopper_add_residual(const conv_params &p, const int (&row)[2], int channel,
                                      uint2 (*residual)[2], float *sum) {
    typedef typename T::element E;
    const int t = warp_lane() % 4, own = channel + (p.wide_out ? hopper_joined_channel() : 2 * t);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const char *const from = (const char *)p.residual + hopper_byte_of<E>(p, row[h], own);
        const int left = hopper_channels_left(p, row[h], own);
        uint32_t pair[2 * pieces]; // of each channel group
        if (!p.wide_out) {
#pragma unroll
            for (int i = 0; i < pieces; i += 2) {
                const int more = i * T::piece;
                const uint4 v = hopper_load_apart((const E *)from + more, left - more);
                pair[2 * i] = v.x, pair[2 * i + 1] = v.y;
                pair[2 * i + 2] = v.z, pair[2 * i + 3] = v.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < pieces && !T::ahead; ++i) {
                residual[i][h] = make_uint2(0, 0);
                if (left > i * T::piece) {
                    residual[i][h] = *(const uint2 *)(from + i * 32);
                }
            }
#pragma unroll
            for (int i = 0; i < pieces; ++i) {
                hopper_split(t & 1, residual[i][h], pair[2 * i], pair[2 * i + 1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2 * pieces; ++i) {
            const float2 more = conv_pair_to_floats<E>(pair[i]);
            sum[4 * i + 2 * h] += more.x;
            sum[4 * i + 2 * h + 1] += more.y;
        }
    }
}

// Rounds some pieces of two rows and stores them: aligned ones as the plain path does.
template <typename T, int pieces>
SPIRA_DEVICE void hopper_store_pieces(const conv_params &p, const int (&row)[2], int channel,
                                      const float *sum) {
    typedef typename T::element E;
    const int t = warp_lane() % 4, own = channel + (p.wide_out ? hopper_joined_channel() : 2 * t);
    const float bound = conv_bound(p.epilogue);
    uint32_t v[2][2 * pieces]; // of each row, of each channel group
#pragma unroll
    for (int i = 0; i < 4 * pieces; ++i) {
        v[i % 2][i / 2] = conv_pair_bounded<E>(sum[2 * i], sum[2 * i + 1], bound);
    }
    if (!p.wide_out) {
#pragma unroll
        for (int i = 0; i < pieces; ++i) { // two pieces of a row at a time
            const int h = i % 2, more = i / 2 * 2 * T::piece;
            const uint32_t *const all = v[h] + i / 2 * 4;
            E *const to = (E *)((char *)p.out + hopper_byte_of<E>(p, row[h], own)) + more;
            hopper_store_apart(to, hopper_channels_left(p, row[h], own) - more,
                               make_uint4(all[0], all[1], all[2], all[3]));
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 2 * pieces; ++i) {
        const int h = i % 2, more = i / 2 * T::piece;
        const uint2 all = hopper_join(t & 1, v[h][i / 2 * 2], v[h][i / 2 * 2 + 1]);
        if (hopper_channels_left(p, row[h], own) > more) {
            *(uint2 *)((char *)p.out + hopper_byte_of<E>(p, row[h], own + more)) = all;
        }
    }
}

// Finishes T::general accumulators of a lane: scale, shift, residual and activation in place, then
// the stores. With 32 columns they are of both row groups.
template <typename T>
SPIRA_DEVICE void hopper_finish_pieces(const conv_params &p, const hopper_rest &rest,
                                       const int (&row)[T::row_groups][2],
                                       uint2 (&residual)[T::row_groups][T::batch][2], float *sum) {
    constexpr int count = T::general, row_groups = T::columns == 32 ? count / 16 : 1;
    constexpr int each = count / row_groups, pieces = each / 8; // of a row group
    const int column = rest.at % T::columns;
    const float *const scale = rest.scale + column + 2 * (warp_lane() % 4);
#pragma unroll
    for (int i = 0; i < count; i += 2) { // of channel group i / 4, row i / 2 % 2
        const float *const at = scale + i % each / 4 * 8;
        const float2 by = *(const float2 *)at, shift = *(const float2 *)(at + hopper_columns_most);
        sum[i] = fmaf(sum[i], by.x, shift.x);
        sum[i + 1] = fmaf(sum[i + 1], by.y, shift.y);
    }
    if (p.residual) {
#pragma unroll
        for (int i = 0; i < row_groups; ++i) {
            hopper_add_residual<T, pieces>(p, row[i], rest.channel + column, residual[i],
                                           sum + i * each);
        }
    }
    conv_activate_beyond<count>(p.epilogue, sum);
#pragma unroll
    for (int i = 0; i < row_groups; ++i) {
        hopper_store_pieces<T, pieces>(p, row[i], rest.channel + column, sum + i * each);
    }
}

// Finishes two neighbouring channels of two rows (-1: none), whose residual and output have formats
// of their own. sum: with scale and shift.
SPIRA_DEVICE void hopper_finish_mixed(const conv_params &p, int channel, int2 row, float4 sum) {
    const conv_quantisation &q = p.quantisation;
    float v[4] = {sum.x, sum.y, sum.z, sum.w};
    int64_t at[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int own = i < 2 ? row.x : row.y, c = channel + i % 2;
        at[i] = own >= 0 && c < p.cout ? (int64_t)own * p.cout + c : -1;
        if (p.residual && at[i] >= 0) {
            const float4 residual = conv_load_mixed(q.residual_type, p.residual, at[i], 1, false);
            v[i] = fmaf(residual.x, q.residual_scale, v[i]);
        }
    }
    conv_activate_4(p.epilogue, conv_bound(p.epilogue), v);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (at[i] >= 0) {
            const float one[4] = {v[i] * q.out_inverse};
            conv_store_mixed(q.out_type, p.out, at[i], 1, false, one);
        }
    }
}

// The same, not inlined: this code needs registers, and accumulators have them. In variants with a
// shortcut the call itself would: producers of long chunks spilled.
[[maybe_unused]] static __device__ __noinline__ void
hopper_finish_apart(const conv_params &p, int channel, int2 row, float4 sum) {
    hopper_finish_mixed(p, channel, row, sum);
}

// Finishes the accumulators of a lane for two channels of two rows, in mixed formats.
template <typename T>
SPIRA_DEVICE void hopper_finish_four(const conv_params &p, const hopper_rest &rest,
                                     const int (&row)[2], const typename T::sum *sum) {
    int at = rest.at % T::columns + 2 * (warp_lane() % 4);
    at = T::integer ? hopper_channel_of<typename T::element>(at) : at;
    const float *const scale = rest.scale + at;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = fmaf((float)sum[i], scale[i % 2], scale[hopper_columns_most + i % 2]);
    }
    const int2 rows = {row[0], row[1]};
    const float4 all = make_float4(v[0], v[1], v[2], v[3]);
    T::shortcut ? hopper_finish_mixed(p, rest.channel + at, rows, all)
                : hopper_finish_apart(p, rest.channel + at, rows, all);
}

// Finishes the `count` accumulators of a lane at `sum`, in a loop in which the others move down
// through their registers, and so does a residual that is loaded ahead. Of many, the second half
// moves to the registers of the first, so that the moves are not quadratic in the columns. The code
// is small since every kernel's code has to be fetched, also by layers that do not run it.
//
// row, residual  of all row groups: changed
template <typename T, int count>
SPIRA_DEVICE void
hopper_finish_some(const conv_params &p, hopper_rest &rest, int (&row)[T::row_groups][2],
                   uint2 (&residual)[T::row_groups][T::batch][2], typename T::sum *sum) {
    enum { all = T::row_groups * T::columns / 2, each = T::mixed ? 4 : T::general };
    if constexpr (count == each) {
        if (T::row_groups > 1 && each < all && rest.at == T::columns) {
            row[0][0] = row[T::row_groups - 1][0];
            row[0][1] = row[T::row_groups - 1][1];
        }
        if constexpr (T::mixed) {
            hopper_finish_four<T>(p, rest, row[0], sum);
        } else {
            hopper_finish_pieces<T>(p, rest, row, residual, sum);
        }
#pragma unroll
        for (int i = each / 8; i < T::row_groups * T::batch && T::ahead; ++i) {
            uint2 *const to = residual[(i - each / 8) / T::batch][(i - each / 8) % T::batch];
            to[0] = residual[i / T::batch][i % T::batch][0];
            to[1] = residual[i / T::batch][i % T::batch][1];
        }
        rest.at += 2 * each;
    } else {
        enum { part = count > 48 ? count / 2 : each };
#pragma unroll 1
        do { // without a counter: registers
            hopper_finish_some<T, part>(p, rest, row, residual, sum);
#pragma unroll
            for (int e = 0; e + part < count; ++e) {
                sum[e] = sum[e + part];
            }
        } while (count == all ? rest.at < 2 * count : rest.at % (2 * count) != 0);
    }
}

// ---- a warpgroup's outputs ----------------------------------------------------------------------

// Loads the output rows of a lane, two of each row group from `first` on; -1: none.
template <int row_groups>
SPIRA_DEVICE void hopper_outputs_load(const conv_params &p, int outputs, int first,
                                      int (&row)[row_groups][2]) {
    const int own = threadIdx.x % hopper_warpgroup / 32 * 16 + warp_lane() / 4;
#pragma unroll
    for (int i = 0; i < 2 * row_groups; ++i) {
        int place = (first + i / 2) * order_rows + own + i % 2 * 8;
        row[i / 2][i % 2] = conv_output_load(p, outputs, place);
    }
}

// Finishes the row groups of a warpgroup, where the thread block has its tile alone.
template <typename T>
SPIRA_DEVICE void hopper_finish(const conv_params &p, const hopper_shared &shared, int channel,
                                int (&row)[T::row_groups][2],
                                uint2 (&residual)[T::row_groups][T::batch][2],
                                typename T::sum (&sum)[T::row_groups][T::columns / 2]) {
    if constexpr (!T::shortcut && !T::integer) { // these allow no initial sums
#pragma unroll
        for (int i = 0; i < T::row_groups; ++i) {
            hopper_add_sums<T::columns>(p, channel, row[i], sum[i]);
        }
    }
    if (!hopper_is_plain<T>(p)) {
        hopper_rest rest = {shared.scale, channel, 0};
        hopper_finish_some<T, T::row_groups * T::columns / 2>(p, rest, row, residual, &sum[0][0]);
        return;
    }
#pragma unroll
    for (int i = 0; i < T::row_groups; ++i) {
        hopper_finish_plain<T>(p, shared.scale, channel, row[i], residual[i], sum[i]);
    }
}

} // namespace spira

#endif
