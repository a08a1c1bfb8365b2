// spira/pool.h: max, average and global pooling of features.
#ifndef SPIRA_POOL_H
#define SPIRA_POOL_H

#include "numeric.h"
#include "offset.h"
#include "voxel.h"

namespace spira {

enum pool_kind : int {
    pool_max,
    pool_average, // of the voxels that are there, not of the kernel's volume
};

SPIRA_API status pool_check(pool_kind kind, const void *in, int channels, const void *out) {
    SPIRA_REQUIRE(kind == pool_max || kind == pool_average, status_unsupported, "kind", kind);
    SPIRA_REQUIRE(in, status_null_pointer, "in", 0);
    SPIRA_REQUIRE(out, status_null_pointer, "out", 0);
    SPIRA_REQUIRE(out != in, status_unsupported, "out (overlaps an input)", 0);
    SPIRA_REQUIRE(channels >= 1, status_bad_size, "channels", channels);
    return status_success();
}

// NaN wins a maximum, as in the frameworks.
SPIRA_BOTH float pool_larger(float a, float b) {
    return float_is_nan(a) ? a : float_is_nan(b) ? b : a > b ? a : b;
}

// Local pooling over a kernel map: the host loop of `pool` (pool.cuh).
//
// inputs   in [inputs, channels]; map [outputs, volume]
// outputs  out [outputs, channels], not `in`; 0 for an output without any source
SPIRA_API status pool_host(pool_kind kind, const float *in, int channels, const int32_t *map,
                           int volume, int32_t outputs, float *out) {
    SPIRA_TRY(pool_check(kind, in, channels, out));
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(volume >= 1, status_bad_size, "volume", volume);
    for (int64_t o = 0; o < outputs; ++o) {
        for (int c = 0; c < channels; ++c) {
            float value = 0;
            int taps = 0;
            for (int k = 0; k < volume; ++k) {
                int64_t source = map[o * volume + k];
                if (source < 0) {
                    continue;
                }
                float x = in[source * channels + c];
                value = taps == 0 ? x : kind == pool_max ? pool_larger(x, value) : value + x;
                ++taps;
            }
            out[o * channels + c] = kind == pool_average && taps ? value / (float)taps : value;
        }
    }
    return status_success();
}

// The voxels of one batch index stand together: [first, last) in the set.
template <typename W>
SPIRA_BOTH void pool_batch_range(const word_layout *layout, const W *words, int32_t count,
                                 int batch, int32_t *first, int32_t *last) {
    int32_t edge[2];
    for (int side = 0; side < 2; ++side) { // by batch index: a word for batch + 1 may not exist
        int32_t lo = 0, hi = count;
        while (lo < hi) {
            int32_t middle = (lo + hi) / 2;
            if (word_unpack(layout, words[middle]).batch < batch + side) {
                lo = middle + 1;
            } else {
                hi = middle;
            }
        }
        edge[side] = lo;
    }
    *first = edge[0];
    *last = edge[1];
}

// Global pooling: one row for each batch index. The host loop of `pool_global` (pool.cuh).
//
// inputs   set: the voxels of the features; in [voxels, channels]
// outputs  out [batches, channels]; 0 for a batch index without voxels
template <typename W>
SPIRA_API status pool_global_host(pool_kind kind, const word_layout *layout, voxel_set<W> set,
                                  const float *in, int channels, float *out) {
    SPIRA_TRY(pool_check(kind, in, channels, out));
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(voxel_set_check(&set));
    for (int b = 0; b < layout->batches; ++b) {
        int32_t first, last;
        pool_batch_range(layout, set.words, voxel_set_count(set), b, &first, &last);
        for (int c = 0; c < channels; ++c) {
            double value = 0;
            for (int64_t v = first; v < last; ++v) {
                float x = in[v * channels + c];
                value = v == first         ? x
                        : kind == pool_max ? pool_larger(x, (float)value)
                                           : value + x;
            }
            bool mean = kind == pool_average && last > first;
            out[(int64_t)b * channels + c] = (float)(mean ? value / (last - first) : value);
        }
    }
    return status_success();
}

} // namespace spira

#endif
