// spira/tune.cuh: the ways to compute a convolution, listed, run one by one and judged.
//
// Nothing here measures: that takes waiting, and headers do not wait. A tuner is a loop of its
// caller's over a sample (a scan, its maps and features):
//
//   tune_record best = tune_record_begin(&key);
//   int count = tune_candidates(&key, &kernel, &scene, capacity, &device, choices);
//   for (int i = 0; i < count; ++i) {
//       ...                                        // fill `out` with 0xff
//       tune_run(&args, &choices[i], scratch, scratch_bytes, stream);
//       tune_judge(&args, weight, map, samples, worst, stream);
//       ...                                        // copy *worst; time tune_run
//       tune_take(&best, &choices[i], us, worst);
//   }
//
// bench/tune.cu is such a loop. tune_choose and tune_run are what a program needs that has a table.
#ifndef SPIRA_TUNE_CUH
#define SPIRA_TUNE_CUH

#include "conv/tune_fit.cuh"
#include "conv_hybrid.cuh"

namespace spira {

// ---- choices ------------------------------------------------------------------------------------

// The choice without tuning: the dataflow of tune_dataflow_guess where conv reads the tiled layout
// on tensor cores, of tune_dataflow_guess_ordered where Hopper's kernel reads the ordered one, of
// tune_dataflow_guess_few where that of few channels does, else output-stationary (it is never
// hybrid); the rows of tile_rows_choose; cut as conv_sizes_choose does it.
//
// inputs   scene: of a usual scan, or null: not known; capacity: of the outputs, as the layer is
//          run with
SPIRA_API tune_choice tune_guess(const tune_key *key, const tune_scene *scene, int32_t capacity,
                                 const device_info *d) {
    const conv_shape *s = &key->shape;
    conv_kernel kernel = conv_kernel_of(s, d);
    tune_choice c = {tune_dataflow_os, 0, 0, 0, 0, 0};
    c.dataflow = kernel == conv_kernel_tensor   ? tune_dataflow_guess(key)
                 : kernel == conv_kernel_hopper ? tune_dataflow_guess_ordered(key, scene)
                 : kernel == conv_kernel_narrow ? tune_dataflow_guess_few(key, scene)
                                                : tune_dataflow_os;
    if (c.dataflow != tune_dataflow_os) {
        return c;
    }
    int channels = (int)max_of(s->cin + s->cin2, s->cout);
    c.rows = conv_kernel_form(kernel) == conv_form_order ? 0
             : s->volume == 1                            ? tile_rows(1) // of the identity too
                              : tile_rows_choose(s->volume, channels, capacity);
    if (kernel == conv_kernel_exact) {
        return c;
    }
    conv_sizes size = conv_sizes_choose(s, c.rows, capacity, d);
    return tune_choice_cut(c.rows, &size);
}

// How to compute a layer: by its record (tune_find), if it has one that fits the program, else
// without tuning.
//
// inputs   records [count]; scene, capacity: as of tune_guess
SPIRA_API tune_choice tune_choose(const tune_record *records, int count, const tune_key *key,
                                  const tune_scene *scene, int32_t capacity, const device_info *d) {
    const tune_record *r = tune_find(records, count, key);
    return r && tune_choice_fits(&key->shape, d, &r->choice) ? r->choice
                                                             : tune_guess(key, scene, capacity, d);
}

// Both sizes of tiles, cut in all ways, the two forms over lists, and those of each threshold.
enum { tune_candidates_most = 2 * conv_sizes_most + 3 + 2 * tune_threshold_most };

// Each choice is listed once.
SPIRA_API void tune_add(tune_choice choice, tune_choice *choices, int *count) {
    for (int i = 0; i < *count; ++i) {
        if (tune_same_choice(&choices[i], &choice)) {
            return;
        }
    }
    choices[(*count)++] = choice;
}

// The ways to cut a layer over tiles of so many rows, or (0) over the ordered layout.
SPIRA_API void tune_add_cuts(const conv_shape *s, int rows, const device_info *d,
                             tune_choice *choices, int *count) {
    conv_sizes sizes[conv_sizes_most];
    if (conv_kernel_of(s, d) == conv_kernel_exact) {
        tune_add({tune_dataflow_os, rows, 0, 0, 0, 0}, choices, count);
        return;
    }
    int cuts = conv_sizes_list(s, rows, d, sizes);
    for (int i = 0; i < cuts; ++i) {
        tune_add(tune_choice_cut(rows, &sizes[i]), choices, count);
    }
}

// The forms over lists of the offsets that a threshold leaves them; 0: of all.
SPIRA_API void tune_add_lists(const tune_key *key, int threshold, tune_choice *choices,
                              int *count) {
    const bool all = threshold == 0;
    tune_add({all ? tune_dataflow_stripes : tune_dataflow_hybrid_stripes, 0, 0, 0, 0, threshold},
             choices, count);
    if (!key->deterministic) {
        tune_add({all ? tune_dataflow_atomic : tune_dataflow_hybrid_atomic, 0, 0, 0, 0, threshold},
                 choices, count);
    }
}

// The choices worth measuring for a layer. Returns how many there are.
//
// inputs   key: deterministic leaves the atomic forms out; kernel: of the layer's map, for hybrid
//          choices by each threshold that divides its offsets, or null: none of these; scene,
//          capacity: as of tune_guess
// outputs  choices [tune_candidates_most]: first that of tune_guess; none twice
SPIRA_API int tune_candidates(const tune_key *key, const kernel_shape *kernel,
                              const tune_scene *scene, int32_t capacity, const device_info *d,
                              tune_choice *choices) {
    const conv_shape *s = &key->shape;
    int count = 0;
    tune_add(tune_guess(key, scene, capacity, d), choices, &count);
    if (conv_kernel_form(conv_kernel_of(s, d)) == conv_form_order) {
        tune_add_cuts(s, 0, d, choices, &count);
    } else {
        tune_add_cuts(s, tile_rows(s->volume), d, choices, &count);
        if (s->volume > 1) {
            tune_add_cuts(s, tile_rows_limit(s->volume), d, choices, &count);
        }
    }
    const int thresholds = kernel ? kernel_norm_max(kernel) : 0;
    for (int t = 0; t <= thresholds && s->volume > 1; ++t) {
        tune_add_lists(key, t, choices, &count);
    }
    return count;
}

// ---- a run --------------------------------------------------------------------------------------

// A layer in all forms that a choice may read. Those that the choice at hand does not read may be
// null. Arrays are in device memory, features of shape.type's storage.
struct tune_args {
    conv_shape shape;
    const void *in;              // [inputs, cin]
    const void *in2;             // [inputs, cin2], or null where cin2 is 0
    const void *weights;         // of conv_weights_pack
    const void *pairs_weights;   // of conv_pairs_weights_pack
    const tile_layout *tiles[2]; // host structs, of tiles of different rows
    const order_layout *order;   // host struct. Without any of the three: the identity, volume 1
    map_pairs pairs;             // the lists
    pairs_sides sides;           // what is added for them
    // Hybrid, one for each threshold: their kernel, threshold, weights, layout, order and pairs
    const conv_hybrid_args *hybrid; // [hybrids], host structs
    int hybrids;
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue;
    void *out; // [capacity, cout]
};

// The arguments of an output-stationary choice. sizes: those of the choice.
SPIRA_API status tune_conv_args(const tune_args *a, const tune_choice *c, const conv_sizes *sizes,
                                conv_args *conv) {
    const tile_layout *tiles = nullptr;
    for (const tile_layout *t : a->tiles) {
        tiles = t && t->rows == c->rows ? t : tiles;
    }
    bool identity = a->shape.volume == 1 && !a->tiles[0] && !a->tiles[1] && !a->order;
    SPIRA_REQUIRE(identity || (c->rows ? tiles != nullptr : a->order != nullptr),
                  status_null_pointer, c->rows ? "tiles (of choice.rows)" : "order", c->rows);
    *conv = {a->shape,
             a->in,
             a->in2,
             a->weights,
             tiles,
             c->rows ? nullptr : a->order,
             a->count,
             a->capacity,
             a->epilogue,
             a->out,
             c->tiles ? sizes : nullptr,
             nullptr,
             false,
             nullptr};
    return status_success();
}

// The arguments of a weight-stationary choice.
SPIRA_API conv_pairs_args tune_pairs_args(const tune_args *a, const tune_choice *c) {
    pairs_form form = c->dataflow == tune_dataflow_atomic ? pairs_form_atomic : pairs_form_stripes;
    return {a->shape, a->in,       a->in2,      a->pairs_weights, a->pairs, a->sides,
            a->count, a->capacity, a->epilogue, a->out,           form,     nullptr,
            false,    false};
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
    hybrid->count = a->count;
    hybrid->capacity = a->capacity;
    hybrid->epilogue = a->epilogue;
    hybrid->out = a->out;
    hybrid->form =
        c->dataflow == tune_dataflow_hybrid_atomic ? pairs_form_atomic : pairs_form_stripes;
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

// Bytes of scratch for tune_run. No device pointer is read; of a hybrid choice args->hybrid is.
SPIRA_API status tune_workspace(const tune_args *args, const tune_choice *choice, size_t *bytes) {
    SPIRA_TRY(tune_run_check(args, choice));
    if (tune_is_hybrid(choice->dataflow)) {
        conv_hybrid_args hybrid;
        SPIRA_TRY(tune_hybrid_args(args, choice, &hybrid));
        return conv_hybrid_workspace(&hybrid, bytes);
    }
    if (choice->dataflow != tune_dataflow_os) {
        conv_pairs_args pairs = tune_pairs_args(args, choice);
        return conv_pairs_workspace(&pairs, bytes);
    }
    conv_args conv = {};
    conv.shape = args->shape;
    return conv_workspace(&conv, bytes);
}

// Computes a layer as a choice says: conv, conv_pairs_run, or conv_hybrid.
//
// inputs   args: see tune_args; scratch: the bytes of tune_workspace, aligned to 256
// outputs  args->out; rows from *count on are not written
// errors   those of what it calls; a form that the choice reads and that is not there
// Asynchronous; deterministic where tune_is_deterministic says so.
// cost     that of what it calls
SPIRA_API status tune_run(const tune_args *args, const tune_choice *choice, void *scratch,
                          size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(tune_run_check(args, choice));
    if (tune_is_hybrid(choice->dataflow)) {
        conv_hybrid_args hybrid;
        SPIRA_TRY(tune_hybrid_args(args, choice, &hybrid));
        return conv_hybrid(&hybrid, scratch, scratch_bytes, stream);
    }
    if (choice->dataflow != tune_dataflow_os) {
        conv_pairs_args pairs = tune_pairs_args(args, choice);
        return conv_pairs_run(&pairs, scratch, scratch_bytes, stream);
    }
    conv_sizes sizes = tune_sizes(choice);
    conv_args a;
    SPIRA_TRY(tune_conv_args(args, choice, &sizes, &a));
    return conv(&a, scratch, scratch_bytes, stream);
}

// ---- judging ------------------------------------------------------------------------------------

enum { tune_judge_threads = 256 };

struct tune_judge_params {
    conv_shape shape;
    const void *in, *in2;
    const float *weight;
    const int32_t *map;
    const int32_t *count;
    int32_t capacity, samples;
    conv_epilogue epilogue;
    const void *out;
    float *worst;
};

// What a row and a channel should be: sums in double.
template <typename E>
SPIRA_DEVICE tune_expected tune_judge_expect(const tune_judge_params &p, int64_t row, int channel) {
    const int volume = p.shape.volume, cin = p.shape.cin, both = cin + p.shape.cin2;
    const numeric type = p.shape.type;
    double sum = 0, magnitude = 0;
    int64_t terms = 0;
    for (int k = 0; k < volume; ++k) {
        int64_t source = p.map ? p.map[row * volume + k] : row;
        for (int i = 0; i < both && source >= 0; ++i, ++terms) {
            const E *in = i < cin ? (const E *)p.in + source * cin + i
                                  : (const E *)p.in2 + source * p.shape.cin2 + (i - cin);
            float weight = p.weight[((int64_t)k * both + i) * p.shape.cout + channel];
            double product = (double)element_operand(type, element_to_float(*in)) *
                             (double)element_operand(type, weight);
            sum += product;
            magnitude += fabs(product);
        }
    }
    const E *residual = (const E *)p.epilogue.residual;
    double extra = residual ? (double)element_to_float(residual[row * p.shape.cout + channel]) : 0;
    return tune_expect(sum, magnitude, terms, &p.epilogue, channel, extra, type);
}

// A block takes sampled rows in turn, then its share of all outputs.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(tune_judge_threads)
    tune_judge_kernel(const __grid_constant__ tune_judge_params p) {
    const int32_t rows = max(min(*p.count, p.capacity), 0), samples = min(p.samples, rows);
    const int cout = p.shape.cout;
    const E *out = (const E *)p.out;
    float worst = 0;
    for (int32_t s = (int32_t)blockIdx.x; s < samples; s += (int32_t)gridDim.x) {
        int64_t row = tune_sample_row(rows, samples, s);
        for (int c = (int)threadIdx.x; c < cout; c += tune_judge_threads) {
            double got = (double)element_to_float(out[row * cout + c]);
            double error = tune_error(got, tune_judge_expect<E>(p, row, c), p.shape.type);
            worst = fmaxf(worst, __double2float_ru(error));
        }
    }
    const int64_t total = (int64_t)rows * cout, step = (int64_t)gridDim.x * tune_judge_threads;
    for (int64_t i = (int64_t)blockIdx.x * tune_judge_threads + threadIdx.x; i < total; i += step) {
        worst = isnan(element_to_float(out[i])) ? INFINITY : worst;
    }
    if (worst > 0) {
        atomicMax((int *)p.worst, __float_as_int(worst)); // both are not below zero
    }
}

SPIRA_API status tune_judge_check(const tune_args *a, const float *weight, const int32_t *map,
                                  int32_t samples, const float *worst) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    // What conv asks of the arrays, but for packed weights, which are not read: any address does.
    conv_args same = {};
    same.shape = a->shape;
    same.in = a->in;
    same.in2 = a->in2;
    same.count = a->count;
    same.capacity = a->capacity;
    same.epilogue = a->epilogue;
    same.out = a->out;
    same.weights = (const void *)(uintptr_t)workspace_alignment;
    SPIRA_TRY(conv_check(&same));
    SPIRA_REQUIRE(a->epilogue.residual != a->out, status_unsupported,
                  "out (is the residual, which is gone)", 0);
    SPIRA_TRY(conv_pointer_check(weight, sizeof(float), "weight"));
    SPIRA_REQUIRE(map || a->shape.volume == 1, status_null_pointer, "map", 0);
    SPIRA_REQUIRE(samples >= 1, status_bad_size, "samples", samples);
    SPIRA_TRY(conv_pointer_check(worst, sizeof(float), "worst"));
    return status_success();
}

// Judges what tune_run has left in args->out: some of its rows, all channels, against sums in
// double, and all of it for elements that nobody has written.
//
// inputs   args: what was run, finite features; layouts, lists and packed weights are not looked at
//          weight [volume, cin + cin2, cout] fp32, as it was before packing; map [capacity,
//          volume], or null for the identity; samples: rows that are compared (tune_sample_row),
//          all of them where they are fewer
//          args->out: fill it with bytes of 0xff before the run. What is not written then is NaN
// outputs  worst [1]: the largest error as a multiple of its bound (tune_expect); infinite where an
//          element of any row is NaN. Good up to 1
// errors   null pointers, sizes, alignment; a residual that is `out` itself
// Asynchronous: a memset and a launch; deterministic.
// cost     4 samples pairs-per-row (cin + cin2) cout FLOPs in fp64; reads `out` once
SPIRA_API status tune_judge(const tune_args *args, const float *weight, const int32_t *map,
                            int32_t samples, float *worst, cudaStream_t stream) {
    SPIRA_TRY(tune_judge_check(args, weight, map, samples, worst));
    tune_judge_params p = {args->shape,    args->in, args->in2,      weight,    map,  args->count,
                           args->capacity, samples,  args->epilogue, args->out, worst};
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(worst, 0, sizeof *worst, stream), "worst"));
    unsigned blocks = (unsigned)min_of(samples, 4096);
    element_dispatch(args->shape.type, [&](auto e) {
        tune_judge_kernel<decltype(e)><<<blocks, tune_judge_threads, 0, stream>>>(p);
    });
    return status_of_launch("tune_judge");
}

} // namespace spira

#endif
