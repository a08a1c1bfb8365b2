// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/map.cuh: kernel maps on the GPU, by z-delta search (Spira paper).
//
//   map_build          the output-stationary map
//   map_build_forms    any forms of one map (map.h lists them)
//   map_build_batch    any number of maps, up to 16 in a launch
//   map_build_lists    pair lists, also next to other forms
//   map_count          how many pairs each offset has
//
// A call compiles only the kernels that it can launch. The kernels are in index/:
//   map_search.cuh          any kernel size, any form
//   plane_map.cuh           cubes of size 2, 3, 5 and 7: os; of 3 and 5 also half, near and compact
//   map_large.cuh           the compact form of large kernels: odd sizes, over 125 offsets
//   map_lists.cuh           pair lists of any kernel size: count, scan (map_starts.cuh), move
//   map_cube.cuh            pair lists of cubes of size 3 and 5: search and count
//   map_cube_move.cuh       the last step of map_cube.cuh
//   map_cube_small.cuh      pair lists of cubes of size 3, for up to 196,608 outputs
#ifndef SPIRA_MAP_CUH
#define SPIRA_MAP_CUH

#include "base/launch.cuh"
#include "device.h"
#include "index/map_cube_small.cuh"
#include "index/map_large.cuh"
#include "index/map_lists.cuh"
#include "index/map_search.cuh"
#include "index/plane_map.cuh"
#include "map.h"
#include "status.cuh"

namespace spira {

// ---- which kernel builds what -------------------------------------------------------------------

// Launches one kernel for up to map_batch_max requests.
template <typename W>
using map_launcher = status (*)(const word_layout *, const map_request<W> *const *, int, bool,
                                cudaStream_t);

// The launcher of the fastest kernel for the dense forms of a request, among those of the given
// kinds.
template <typename W, unsigned kinds>
SPIRA_API map_launcher<W> map_launcher_of(const map_request<W> *r) {
    const bool three = r->kernel.size.x == 3;
    const unsigned kind = map_kind_of(&r->forms);
    map_launcher<W> launch = nullptr;
    if constexpr (kinds & ~map_kind_compact) {
        launch = map_search_launch<W, kinds>;
    }
    if constexpr (kinds & map_kind_mixed) {
        const map_forms &f = r->forms;
        if (compact_takes(&r->kernel) && f.os && !f.ws && !f.mask && !f.half) {
            launch =
                three ? plane_launch<W, 3, plane_form_near> : plane_launch<W, 5, plane_form_near>;
        }
    }
    if constexpr (kinds & map_kind_os) {
        if (kind == map_kind_os && plane_takes(&r->kernel)) {
            if (!compact_takes(&r->kernel)) {
                launch = r->kernel.size.x == 2 ? plane_launch<W, 2, plane_form_os>
                                               : plane_launch<W, 7, plane_form_os>;
            } else if constexpr (!(kinds & map_kind_rest)) {
                launch =
                    three ? plane_launch<W, 3, plane_form_os> : plane_launch<W, 5, plane_form_os>;
            }
        }
    }
    if constexpr (kinds & map_kind_half) {
        if (kind == map_kind_half && compact_takes(&r->kernel)) {
            launch =
                three ? plane_launch<W, 3, plane_form_half> : plane_launch<W, 5, plane_form_half>;
        }
    }
    if constexpr (kinds & map_kind_compact) {
        if (kind == map_kind_compact && compact_large_takes(&r->kernel)) {
            launch = map_large_launch<W>;
        } else if (kind == map_kind_compact) {
            launch = three ? plane_launch<W, 3, plane_form_compact>
                           : plane_launch<W, 5, plane_form_compact>;
        }
    }
    return launch;
}

// ---- dense forms --------------------------------------------------------------------------------

// Builds a kernel map in any forms, with one search. Compiles only the kernels of `kinds`
// (map_kind_of); forms of another kind are refused.
//
// inputs   layout, source, outputs: as for map_build
// outputs  forms: see map_forms; entries of outputs from *outputs.count on are not written
//          forms.trouble, if it is given: counts of the sets above their capacity; of a compact map
//          also coordinates off the lattice of the stride
// errors   as map_build; arrays that are not aligned; a half map of a layer that is not
//          submanifold; a compact map next to other forms
// Asynchronous, deterministic, equal to map_build_forms_host; of compact maps the taps are equal,
// entries that no tap uses may differ. No scratch.
// cost     writes the forms; reads the words about size.x + 1 times, from L2
template <typename W, unsigned kinds = map_kinds_all>
SPIRA_API status map_build_forms(const word_layout *layout, const kernel_shape *kernel,
                                 voxel_set<W> source, voxel_set<W> outputs, const map_forms *forms,
                                 cudaStream_t stream) {
    SPIRA_TRY(map_forms_check(layout, kernel, &source, &outputs, forms));
    SPIRA_TRY(map_kinds_check(forms, kinds));
    const map_request<W> request = {*kernel, source, outputs, *forms}, *one = &request;
    return map_launcher_of<W, kinds>(one)(layout, &one, 1, false, stream);
}

// Builds an output-stationary kernel map.
//
// inputs   layout: its guard margin must cover the kernel's reach
//          source, outputs: sorted sets; the same set for a submanifold layer, any two otherwise
// outputs  map [outputs.capacity, volume]: source positions or -1; rows from *outputs.count on are
//          not written
// errors   a kernel that reaches beyond the layout's margin
// Asynchronous, deterministic, equal to map_build_host. No scratch.
// cost     writes the map; reads the words about size.x + 1 times, from L2
template <typename W>
SPIRA_API status map_build(const word_layout *layout, const kernel_shape *kernel,
                           voxel_set<W> source, voxel_set<W> outputs, int32_t *map,
                           cudaStream_t stream) {
    SPIRA_TRY(map_check(layout, kernel, &source, &outputs, map));
    const map_forms forms = map_forms_os(map);
    return map_build_forms<W, map_kind_os>(layout, kernel, source, outputs, &forms, stream);
}

// Builds any number of kernel maps, in few launches: one for every 16 maps that the same kernel
// builds. Compiles only the kernels of `kinds`, as map_build_forms.
//
// inputs   gpu: from device_info_query
//          layout: its guard margin must cover the reach of all kernels; request [requests]
// outputs  the forms of each request, as from map_build_forms
// errors   as map_build_forms, for the first request that is wrong; nothing is launched then
// Asynchronous, deterministic. No scratch. Launches overlap from sm_90 on, so no request may write
// what another one reads. The next kernel in the stream must not be launched as a programmatic
// dependent (base/launch.cuh).
template <typename W, unsigned kinds = map_kinds_all>
SPIRA_API status map_build_batch(const device_info *gpu, const word_layout *layout,
                                 const map_request<W> *request, int requests, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(map_requests_check(layout, request, requests, kinds));
    bool programmatic = false; // from the second launch on: the maps are independent
    for (int first = 0; first < requests; ++first) {
        const map_launcher<W> launch = map_launcher_of<W, kinds>(request + first);
        const map_request<W> *some[map_batch_max];
        bool done = false; // with an earlier request
        int count = 0;
        for (int i = 0; i < requests && !done; ++i) {
            const bool same = map_launcher_of<W, kinds>(request + i) == launch;
            done = same && i < first;
            some[count] = request + i;
            count += same;
            if (!done && (count == map_batch_max || (count && i + 1 == requests))) {
                SPIRA_TRY(launch(layout, some, count, programmatic, stream));
                programmatic = gpu->programmatic;
                count = 0;
            }
        }
    }
    return status_success();
}

// ---- pair lists ---------------------------------------------------------------------------------

// The size of a cube whose lists have kernels of their own; 0: another kernel.
SPIRA_API int map_lists_cube(const kernel_shape *kernel) {
    return compact_takes(kernel) ? kernel->size.x : 0;
}

// Bytes of scratch for map_build_lists. outputs: capacity of the output set.
SPIRA_API status map_lists_workspace(const kernel_shape *kernel, int32_t outputs, size_t *bytes) {
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_TRY(capacity_check(outputs, "outputs"));
    return workspace_measure(bytes, [&](workspace *w) {
        switch (map_lists_cube(kernel)) {
        case 3:
            map_cube_lists_take<3>(w, outputs);
            break;
        case 5:
            map_cube_lists_take<5>(w, outputs);
            break;
        default:
            map_lists_take(w, kernel, outputs);
        }
    });
}

// Builds pair lists (the filtered form); with forms.os and a threshold, the hybrid form.
//
// inputs   request: as for map_build_forms; without a dense form in `forms` there are lists alone
// outputs  pairs: for each offset with a norm of forms.threshold or more (0: every offset) the list
//          of its pairs, outputs ascending. Of a half map, only offsets below the centre have
//          lists. Other offsets have empty lists
//          forms: as map_build_forms
//          forms.trouble, required: counts of the sets above their capacity; more pairs than
//          pairs.capacity: all lists are empty then, and `input` and `output` unspecified
// scratch  of map_lists_workspace bytes
// errors   as map_build_forms, and a workspace that is too small
// Asynchronous, deterministic, equal to map_build_lists_host.
// cost     one launch for all dense forms; lists: two searches and a scan of the counts, writes 8
//          bytes for each pair; three launches. Lists of a cube of size K = 3 or 5: one search,
//          writes and reads 4 + 2 K bytes for each output and plane; three launches, or two for
//          K = 3 and outputs.capacity <= 196,608
template <typename W>
SPIRA_API status map_build_lists(const word_layout *layout, const map_request<W> *request,
                                 const map_lists *pairs, void *scratch, size_t scratch_bytes,
                                 cudaStream_t stream) {
    SPIRA_TRY(map_lists_request_check(layout, request, pairs));
    size_t needed = 0;
    SPIRA_TRY(map_lists_workspace(&request->kernel, request->outputs.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    const map_forms *f = &request->forms;
    if (f->os || f->ws || f->mask) {
        SPIRA_TRY(
            (map_launcher_of<W, map_kind_mixed>(request)(layout, &request, 1, false, stream)));
    }
    switch (map_lists_cube(&request->kernel)) {
    case 3:
        return map_cube_launch<W, 3>(layout, request, pairs, scratch, stream);
    case 5:
        return map_cube_launch<W, 5>(layout, request, pairs, scratch, stream);
    default:
        return map_lists_launch(layout, request, pairs, scratch, stream);
    }
}

// ---- pairs of each offset -----------------------------------------------------------------------

// Counts the pairs of each offset.
//
// inputs   map [capacity, volume]; count [1]: rows to read
// outputs  pairs [volume]
// Asynchronous, deterministic, equal to map_count_host. No scratch.
// cost     reads the map once; a memset and one launch
SPIRA_LAUNCHER status map_count(const int32_t *map, int volume, const int32_t *count,
                                int32_t capacity, int32_t *pairs, cudaStream_t stream) {
    SPIRA_TRY(pointer_check(map, alignof(int32_t), "map"));
    SPIRA_TRY(pointer_check(count, alignof(int32_t), "count"));
    SPIRA_TRY(pointer_check(pairs, alignof(int32_t), "pairs"));
    SPIRA_TRY(size_check(volume, 1, kernel_volume_max, "volume"));
    SPIRA_TRY(size_check(capacity, 1, INT64_MAX, "capacity"));
    const size_t bytes = (size_t)volume * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(pairs, 0, bytes, stream), "pairs"));
    return kernel_launch(map_count_kernel<>,
                         {(unsigned)ceil_div(capacity, map_count_rows), map_count_threads, stream,
                          "map_count", false, bytes},
                         map, volume, count, capacity, pairs);
}

} // namespace spira

#endif
