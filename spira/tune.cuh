// spira/tune.cuh: lists the ways to compute a convolution, runs one, and judges its result.
//
// A program with a table of records:
//
//   tune_choose     the choice for a layer: its record, or the rule of tune_guess
//   tune_run        computes the layer by a choice
//
// A tuner is a loop of the caller's over a sample (a scan, its kernel maps and features). Nothing
// here measures time, because that needs synchronisation. bench/tune.cu is a tuner.
//
//   tune_record best = tune_record_begin(&key);
//   int count = tune_candidates(&gpu, &key, &kernel, capacity, choices);
//   for (int i = 0; i < count; ++i) {
//       ...                                        // fill `out` with 0xff
//       tune_run(&gpu, &args, &choices[i], scratch, scratch_bytes, stream);
//       tune_judge(&gpu, &args, weight, map, samples, worst, stream);
//       ...                                        // copy *worst to `error`; time tune_run
//       tune_take(&best, &choices[i], us, error);
//   }
#ifndef SPIRA_TUNE_CUH
#define SPIRA_TUNE_CUH

#include "base/launch.cuh"
#include "conv/tune_fit.cuh"
#include "conv/tune_judge.cuh"
#include "conv_hybrid.cuh"
#include "tune.h"

namespace spira {

// ---- choices ------------------------------------------------------------------------------------

// The choice without a record: output-stationary, always; cut as conv_sizes_choose says.
//
// inputs   capacity: of the output set
SPIRA_API tune_choice tune_guess(const device_info *gpu, const tune_key *key, int32_t capacity) {
    const conv_sizes size = conv_sizes_choose(&key->shape, capacity, gpu);
    return tune_choice_cut(&size);
}

// The choice for a layer: that of its record (tune_find), if there is one that fits the program;
// else tune_guess.
//
// inputs   records [count]; capacity: of the output set
SPIRA_API tune_choice tune_choose(const device_info *gpu, const tune_record *records, int count,
                                  const tune_key *key, int32_t capacity) {
    const tune_record *r = tune_find(records, count, key);
    return r && tune_choice_fits(&key->shape, gpu, &r->choice) ? r->choice
                                                               : tune_guess(gpu, key, capacity);
}

// All cuts, pair lists in both forms, hybrids of every threshold.
enum { tune_candidates_most = conv_sizes_most + 3 + 2 * tune_threshold_most };

// Adds a choice that is not listed yet.
SPIRA_API void tune_add(tune_choice choice, tune_choice *choices, int *count) {
    for (int i = 0; i < *count; ++i) {
        if (tune_same_choice(&choices[i], &choice)) {
            return;
        }
    }
    choices[(*count)++] = choice;
}

// Adds all cuts of a layer.
SPIRA_API void tune_add_cuts(const device_info *gpu, const conv_shape *s, tune_choice *choices,
                             int *count) {
    conv_sizes sizes[conv_sizes_most];
    const int cuts = conv_sizes_list(s, gpu, sizes);
    for (int i = 0; i < cuts; ++i) {
        tune_add(tune_choice_cut(&sizes[i]), choices, count);
    }
}

// Adds pair lists of all offsets (threshold 0), or of those that a hybrid leaves sparse.
SPIRA_API void tune_add_lists(const tune_key *key, int threshold, tune_choice *choices,
                              int *count) {
    const bool all = threshold == 0;
    tune_add(
        tune_choice_lists(all ? tune_dataflow_ordered : tune_dataflow_hybrid_ordered, threshold),
        choices, count);
    if (!key->deterministic) {
        tune_add(
            tune_choice_lists(all ? tune_dataflow_atomic : tune_dataflow_hybrid_atomic, threshold),
            choices, count);
    }
}

// Lists the choices worth measuring for a layer. Returns their number.
//
// inputs   key: with `deterministic`, atomic forms are left out; kernel: of the layer's map, for
//          hybrids by every threshold that divides its offsets, or null: no hybrids; capacity: of
//          the output set
// outputs  choices [tune_candidates_most]: tune_guess first; no duplicates
SPIRA_API int tune_candidates(const device_info *gpu, const tune_key *key,
                              const kernel_shape *kernel, int32_t capacity, tune_choice *choices) {
    const conv_shape *s = &key->shape;
    int count = 0;
    tune_add(tune_guess(gpu, key, capacity), choices, &count);
    tune_add_cuts(gpu, s, choices, &count);
    const int thresholds = kernel ? kernel_norm_max(kernel) : 0;
    for (int t = 0; t <= thresholds && s->volume > 1; ++t) {
        tune_add_lists(key, t, choices, &count);
    }
    return count;
}

// ---- a run --------------------------------------------------------------------------------------

// A layer with everything that a choice may read; what the choice at hand does not read may be
// null. Arrays are in device memory; features have the storage type of shape.type. Start from a
// zeroed struct.
struct tune_args {
    conv_shape shape;
    const void *in;                 // [inputs, cin]
    const void *in2;                // [inputs, cin2], or null where cin2 is 0
    const void *weights;            // of conv_weights_pack
    const void *pairs_weights;      // of conv_pairs_weights_pack
    const conv_map *map;            // on the host; of all offsets
    map_lists pairs;                // of all offsets
    pairs_sides sides;              // which products the lists stand for
    const conv_hybrid_args *hybrid; // [hybrids] on the host, one for each threshold: kernel,
    int hybrids;                    // threshold, weights, map and pairs are read
    const int32_t *count;           // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue;
    void *out; // [capacity, cout]
};

// The arguments of an output-stationary choice. sizes: tune_sizes of the choice.
SPIRA_API status tune_conv_args(const tune_args *a, const tune_choice *c, const conv_sizes *sizes,
                                conv_args *conv) {
    *conv = {};
    conv->shape = a->shape;
    conv->map = a->map;
    conv->in = a->in;
    conv->in2 = a->in2;
    conv->weights = a->weights;
    conv->epilogue = a->epilogue;
    conv->out = a->out;
    conv->sizes = c->tiles ? sizes : nullptr;
    return status_success();
}

// The arguments of a weight-stationary choice.
SPIRA_API conv_pairs_args tune_pairs_args(const tune_args *a, const tune_choice *c) {
    conv_pairs_args pairs = {};
    pairs.shape = a->shape;
    pairs.in = a->in;
    pairs.in2 = a->in2;
    pairs.weights = a->pairs_weights;
    pairs.pairs = a->pairs;
    pairs.sides = a->sides;
    pairs.count = a->count;
    pairs.capacity = a->capacity;
    pairs.epilogue = a->epilogue;
    pairs.out = a->out;
    pairs.form = c->dataflow == tune_dataflow_atomic ? pairs_form_atomic : pairs_form_ordered;
    return pairs;
}

// The arguments of a hybrid choice.
SPIRA_API status tune_hybrid_args(const tune_args *a, const tune_choice *c,
                                  conv_hybrid_args *hybrid) {
    int i = 0;
    while (i < a->hybrids && a->hybrid[i].threshold != c->threshold) {
        ++i;
    }
    SPIRA_REQUIRE(i < a->hybrids, status_null_pointer, "hybrid (of choice.threshold)",
                  c->threshold);
    *hybrid = a->hybrid[i];
    hybrid->shape = a->shape;
    hybrid->in = a->in;
    hybrid->in2 = a->in2;
    hybrid->epilogue = a->epilogue;
    hybrid->out = a->out;
    hybrid->form =
        c->dataflow == tune_dataflow_hybrid_atomic ? pairs_form_atomic : pairs_form_ordered;
    return status_success();
}

SPIRA_API status tune_run_check(const tune_args *args, const tune_choice *choice) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(choice, status_null_pointer, "choice", 0);
    SPIRA_REQUIRE(choice->dataflow >= 0 && choice->dataflow < tune_dataflows, status_unsupported,
                  "choice.dataflow", choice->dataflow);
    SPIRA_REQUIRE(args->hybrid || args->hybrids <= 0, status_null_pointer, "hybrid", 0);
    return status_success();
}

// Bytes of scratch for tune_run; none for output-stationary choices. No device pointer is read.
SPIRA_API status tune_workspace(const tune_args *args, const tune_choice *choice, size_t *bytes) {
    SPIRA_TRY(tune_run_check(args, choice));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    if (tune_is_hybrid(choice->dataflow)) {
        conv_hybrid_args hybrid;
        SPIRA_TRY(tune_hybrid_args(args, choice, &hybrid));
        return conv_hybrid_workspace(&hybrid, bytes);
    }
    if (choice->dataflow != tune_dataflow_os) {
        conv_pairs_args pairs = tune_pairs_args(args, choice);
        return conv_pairs_workspace(&pairs, bytes);
    }
    *bytes = 0;
    return status_success();
}

// Computes a layer by a choice: calls conv, conv_pairs_run or conv_hybrid.
//
// format     compiled for; numeric_any: all four, chosen by args->shape.type
//
// inputs   args: see tune_args; scratch: the bytes of tune_workspace, aligned to 256
// outputs  args->out; rows from *count on are not written
// errors   those of the function it calls; an input that the choice reads and that is null
// Asynchronous; deterministic where tune_is_deterministic says so.
// cost     that of the function it calls
template <numeric format = numeric_any>
SPIRA_API status tune_run(const device_info *gpu, const tune_args *args, const tune_choice *choice,
                          void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(tune_run_check(args, choice));
    if (tune_is_hybrid(choice->dataflow)) {
        conv_hybrid_args hybrid;
        SPIRA_TRY(tune_hybrid_args(args, choice, &hybrid));
        return conv_hybrid<format>(gpu, &hybrid, scratch, scratch_bytes, stream);
    }
    if (choice->dataflow != tune_dataflow_os) {
        conv_pairs_args pairs = tune_pairs_args(args, choice);
        return conv_pairs_run<format>(gpu, &pairs, scratch, scratch_bytes, stream);
    }
    conv_sizes sizes = tune_sizes(choice);
    conv_args a;
    SPIRA_TRY(tune_conv_args(args, choice, &sizes, &a));
    return conv<format>(gpu, &a, stream);
}

// ---- judging ------------------------------------------------------------------------------------

SPIRA_API status tune_judge_check(const device_info *gpu, const tune_args *a, const float *weight,
                                  const int32_t *map, int32_t samples, const float *worst) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_TRY(pointer_check(a->count, sizeof(int32_t), "count"));
    SPIRA_REQUIRE(a->capacity >= 1 && a->capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  a->capacity);
    // The other arrays as conv checks them, but for packed weights, which are not read here.
    tune_choice lists = {};
    conv_map none;
    conv_pairs_args pairs = tune_pairs_args(a, &lists);
    pairs.weights = (const void *)(uintptr_t)workspace_alignment;
    const conv_args same = pairs_conv_args(&pairs, &none);
    SPIRA_TRY(conv_check(&same, gpu));
    SPIRA_REQUIRE(a->epilogue.residual != a->out, status_unsupported,
                  "out (is the residual, which is overwritten)", 0);
    SPIRA_TRY(pointer_check(weight, sizeof(float), "weight"));
    SPIRA_REQUIRE(map || a->shape.volume == 1, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(samples >= 1, status_bad_size, "samples", samples);
    return pointer_check(worst, sizeof(float), "worst");
}

// Judges the result of tune_run in args->out: compares sampled rows, all channels, with sums in
// double, and looks through all rows for elements that were not written.
//
// inputs   args: as tune_run had them, with finite features; layouts, lists and packed weights are
//          not read
//          weight [volume, cin + cin2, cout] fp32, before packing; map [capacity, volume], or null
//          for the identity; samples: number of rows that are compared (tune_sample_row)
//          args->out: fill it with bytes of 0xff before the run, so that unwritten elements are NaN
// outputs  worst [1]: the largest error as a multiple of its bound (tune_expect), correct up to 1;
//          infinity if any element of any row is NaN
// errors   null pointers, sizes, alignment; a residual that is `out` itself
// Asynchronous: a memset and a launch; deterministic.
// cost     4 * samples * (pairs of a row) * (cin + cin2) * cout FLOPs in fp64; reads `out` once
template <numeric format = numeric_any>
SPIRA_API status tune_judge(const device_info *gpu, const tune_args *args, const float *weight,
                            const int32_t *map, int32_t samples, float *worst,
                            cudaStream_t stream) {
    SPIRA_TRY(tune_judge_check(gpu, args, weight, map, samples, worst));
    tune_judge_params p = {};
    p.shape = args->shape;
    p.in = args->in;
    p.in2 = args->in2;
    p.weight = weight;
    p.map = map;
    p.count = args->count;
    p.capacity = args->capacity;
    p.samples = samples;
    p.epilogue = args->epilogue;
    p.out = args->out;
    p.worst = worst;
    return numeric_dispatch<format>(args->shape.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        SPIRA_TRY(status_from_cuda(cudaMemsetAsync(worst, 0, sizeof *worst, stream), "worst"));
        unsigned blocks = (unsigned)min_of(samples, 4096);
        return kernel_launch(tune_judge_kernel<E>,
                             {blocks, tune_judge_threads, stream, "tune_judge"}, p);
    });
}

} // namespace spira

#endif
