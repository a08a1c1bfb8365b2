// spira/map.h: kernel maps, in output-stationary form.
//
// map [outputs, volume]: where the source voxel of each output and offset stands in the source set,
// or -1. A submanifold layer has the same set on both sides, a strided one a coarser output set,
// a transposed (inverse) one a finer output set and a kernel with `transposed` set. The output set
// may be any sorted set of the same layout, also one that is not derived from the source.
#ifndef SPIRA_MAP_H
#define SPIRA_MAP_H

#include "search.h"
#include "voxel.h"

namespace spira {

template <typename W>
SPIRA_API status map_check(const word_layout *layout, const kernel_shape *kernel,
                           const voxel_set<W> *source, const voxel_set<W> *outputs,
                           const int32_t *map) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(search_check(layout, kernel));
    SPIRA_TRY(voxel_set_check(source));
    SPIRA_TRY(voxel_set_check(outputs));
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    return status_success();
}

// Builds a kernel map: the host loop of `map_build` (map.cuh).
//
// inputs   layout: its guard margin covers the kernel's reach; source, outputs: sorted sets
// outputs  map [outputs.capacity, volume]; rows from *outputs.count on are not written
template <typename W>
SPIRA_API status map_build_host(const word_layout *layout, const kernel_shape *kernel,
                                voxel_set<W> source, voxel_set<W> outputs, int32_t *map) {
    SPIRA_TRY(map_check(layout, kernel, &source, &outputs, map));
    int64_t volume = kernel_volume(kernel), count = min_of(*outputs.count, outputs.capacity);
    int32_t sources = (int32_t)min_of(*source.count, source.capacity);
    int64_t chunk = 1024, chunks = ceil_div(count, chunk);
    SPIRA_PARALLEL_FOR
    for (int64_t c = 0; c < chunks; ++c) {
        for (int64_t o = c * chunk; o < min_of(count, (c + 1) * chunk); ++o) {
            search_voxel(layout, kernel, source.words, sources, outputs.words[o], map + o * volume);
        }
    }
    return status_success();
}

// How many pairs each offset has: the host loop of `map_count` (map.cuh).
//
// inputs   map [count, volume]
// outputs  pairs [volume]
SPIRA_API status map_count_host(const int32_t *map, int volume, int32_t count, int32_t *pairs) {
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(pairs, status_null_pointer, "pairs", 0);
    SPIRA_REQUIRE(volume >= 1, status_bad_size, "volume", volume);
    std::fill(pairs, pairs + volume, 0);
    for (int64_t o = 0; o < count; ++o) {
        for (int k = 0; k < volume; ++k) {
            pairs[k] += map[o * volume + k] >= 0;
        }
    }
    return status_success();
}

} // namespace spira

#endif
