// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_pairs.cuh: convolution over pair lists on the GPU (weight-stationary dataflow).
//
//   conv_pairs_weights_bytes, conv_pairs_weights_pack   once for each layer
//   map_build_lists (map.cuh)                           for each frame, coordinate set and kernel
//   conv_pairs_workspace, conv_pairs_run                for each layer
//
// The lists are walked offset by offset, up to 16 or 32 pairs at a time: the input rows are
// multiplied by the weights of the offset, which are reused while the offset does not change. Every
// thread block takes an equal share of the pairs, whatever the lengths of the lists. Products are
// added to fp32 sums in global memory with atomics. This clears and reads 8 bytes for each output
// and channel, and adds 4 bytes for each pair and channel in the L2 cache.
//
//   pairs_form_atomic   three launches: clear, walk, epilogue. Not deterministic.
//   pairs_form_ordered  the walk is a launch for each offset, so that offsets are added in
//                       ascending order. Deterministic; slower, the more so the more offsets.
#ifndef SPIRA_CONV_PAIRS_CUH
#define SPIRA_CONV_PAIRS_CUH

#include "conv/pack.cuh"
#include "conv/pairs/launch.cuh"
#include "conv/run.cuh"

namespace spira {

enum pairs_form : int { pairs_form_atomic, pairs_form_ordered };

// One convolution, as in conv_args. Null members are optional.
struct conv_pairs_args {
    conv_shape shape;
    const void *in;       // [inputs, cin]
    const void *in2;      // [inputs, cin2], or null where cin2 is 0
    const void *weights;  // of conv_pairs_weights_pack, with the same shape and device_info
    map_lists pairs;      // of map_build_lists
    pairs_sides sides;    // which products the lists stand for
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue;
    void *out; // [capacity, cout]; not read with to_sums
    pairs_form form;
    float *sums;    // [capacity, conv_sums_pitch(cout)], aligned to 16; null: scratch
    bool from_sums; // the accumulators start from `sums` instead of zero
    bool to_sums;   // leave fp32 sums in `sums`: no epilogue, no outputs
};

// ---- weights ------------------------------------------------------------------------------------

// Bytes of packed weights.
SPIRA_API status conv_pairs_weights_bytes(const device_info *gpu, const conv_shape *shape,
                                          size_t *bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = conv_packed_bytes(shape, pairs_kernel_of(shape, gpu));
    return status_success();
}

// Packs weights for conv_pairs_run: as conv_weights_pack, to conv_pairs_weights_bytes in another
// order.
template <numeric format = numeric_any>
SPIRA_API status conv_pairs_weights_pack(const device_info *gpu, const conv_shape *shape,
                                         const conv_weights *weights, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_shape_check(shape));
    return conv_pack<format>(gpu, shape, pairs_kernel_of(shape, gpu), weights, stream);
}

// ---- arguments ----------------------------------------------------------------------------------

// The arguments of `conv` that correspond to `a`, with a map that has no layout.
SPIRA_API conv_args pairs_conv_args(const conv_pairs_args *a, conv_map *map) {
    *map = conv_map_identity(a->count, a->capacity);
    map->volume = a->shape.volume;
    conv_args same = {};
    same.shape = a->shape;
    same.map = map;
    same.in = a->in;
    same.in2 = a->in2;
    same.weights = a->weights;
    same.epilogue = a->epilogue;
    same.out = a->to_sums ? a->sums : a->out;
    return same;
}

// same: pairs_conv_args
SPIRA_API status conv_pairs_check(const device_info *gpu, const conv_pairs_args *a,
                                  const conv_args *same) {
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_TRY(pairs_sides_check(&a->shape, a->sides));
    SPIRA_REQUIRE(a->form == pairs_form_atomic || a->form == pairs_form_ordered, status_unsupported,
                  "form", a->form);
    SPIRA_TRY(map_lists_check(&a->pairs));
    SPIRA_TRY(pointer_check(a->count, sizeof(int32_t), "count"));
    if (a->sums || a->from_sums || a->to_sums) {
        SPIRA_TRY(pointer_check(a->sums, sizeof(float4), "sums"));
        SPIRA_REQUIRE(a->out != a->sums && a->in != a->sums && a->in2 != a->sums,
                      status_unsupported, "sums (overlap another array)", 0);
    }
    return conv_check(gpu, same);
}

// ---- running ------------------------------------------------------------------------------------

// Scratch: the first units, and the sums unless they are the caller's.
SPIRA_API void pairs_scratch_take(workspace *w, const conv_pairs_args *a, pairs_params *p) {
    p->sums = a->sums;
    p->first = workspace_take<int32_t>(w, (int64_t)a->shape.volume + 1);
    if (!a->sums && !a->from_sums && !a->to_sums) {
        p->sums = workspace_take<float>(w, (int64_t)a->capacity * conv_sums_pitch(a->shape.cout));
    }
}

// Bytes of scratch for conv_pairs_run: a small table, and fp32 sums unless the caller gives `sums`
// (with from_sums or to_sums, `sums` may still be null here). No pointer is read.
SPIRA_API status conv_pairs_workspace(const conv_pairs_args *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&args->shape));
    SPIRA_TRY(capacity_check(args->capacity, "capacity"));
    pairs_params p;
    return workspace_measure(bytes, [&](workspace *w) { pairs_scratch_take(w, args, &p); });
}

// Sparse convolution over pair lists, with its epilogue: weight-stationary (Spira paper: dual
// dataflow).
//
// format     compiled for; numeric_any: all four, chosen by args->shape.type
//
// inputs   args: see conv_pairs_args. In order, a list must have each output once at most, with
//          pairs_sides_both or pairs_sides_centre each input, too: the lists of map_build_lists
//          are so. Pairs of outputs from *count on, and pairs from pairs.capacity on, are skipped.
//          Lists whose begins fall are taken as empty, all of them.
// outputs  args->out or, with to_sums, args->sums; rows from *count on are not written. The residual
//          may be `out` itself, the inputs may not. Without to_sums, `sums` holds unspecified
//          values afterwards
// sums     to_sums lets a later call accumulate onto the sums: `conv` (conv_args.sums), or this
//          function with from_sums. conv_hybrid (conv_hybrid.cuh) does it
// errors   a half map of an even volume, from_sums or to_sums without sums
// Asynchronous. Sums are fp32 and are rounded once; subnormal sums become zero. In order:
// deterministic; the bits depend neither on the capacity nor on the number of multiprocessors.
// Otherwise: no fixed order of additions; three launches, two with to_sums.
// cost     proportional to the pairs, padded to units; see the top of this file
template <numeric format = numeric_any>
SPIRA_API status conv_pairs_run(const device_info *gpu, const conv_pairs_args *args, void *scratch,
                                size_t scratch_bytes, cudaStream_t stream) {
    conv_map map;
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    const conv_args same = pairs_conv_args(args, &map);
    SPIRA_TRY(conv_pairs_check(gpu, args, &same));
    const conv_kernel kernel = pairs_kernel_of(&args->shape, gpu);
    pairs_params p = {};
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { pairs_scratch_take(w, args, &p); }));
    p.conv = conv_params_of(gpu, &same, kernel);
    p.pairs = args->pairs;
    p.sides = args->sides;
    p.pitch = conv_sums_pitch(args->shape.cout);
    p.ordered = args->form == pairs_form_ordered;
    p.from_sums = args->from_sums;
    p.to_sums = args->to_sums;
    return numeric_dispatch<format>(
        args->shape.type, [&](auto tag) { return pairs_run(tag, gpu, p, kernel, stream); });
}

} // namespace spira

#endif
