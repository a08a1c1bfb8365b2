// spira/conv/tune_record.h: tuning records: what was computed, how, and what was measured.
#ifndef SPIRA_CONV_TUNE_RECORD_H
#define SPIRA_CONV_TUNE_RECORD_H

#include "../conv.h"

namespace spira {

enum {
    tune_threshold_most = 3 * (kernel_size_max - 1), // no offset has a larger L1 norm
};

// Records hold for one kind of GPU: the best tiles and splits depend on both members.
struct tune_gpu {
    int capability; // 90 for compute capability 9.0
    int multiprocessors;
};

struct tune_key {
    tune_gpu gpu;
    conv_shape shape;
    int32_t outputs;    // number of outputs, rounded down to a power of two
    int32_t density;    // pairs for each output, rounded likewise, at least 1. In a key that is
                        // looked up, 0: unknown
    bool deterministic; // results must be bit-identical from run to run
};

enum tune_dataflow : int {
    tune_dataflow_os,             // conv
    tune_dataflow_atomic,         // conv_pairs_run, pairs_form_atomic
    tune_dataflow_ordered,        // conv_pairs_run, pairs_form_ordered
    tune_dataflow_hybrid_atomic,  // conv_hybrid with either
    tune_dataflow_hybrid_ordered, //
    tune_dataflows
};

// How a layer is computed. Start from a zeroed struct.
struct tune_choice {
    tune_dataflow dataflow;
    int tiles, slices, split; // conv_sizes (conv/params.cuh); all 0: chosen by conv, or not used
    int threshold;            // hybrid: offsets with an L1 norm below it are dense; others: 0
};

struct tune_measure {
    int64_t ns;    // of one run; 0: not measured
    int32_t error; // the largest error, in thousandths of its bound (tune_expect), rounded up
};

struct tune_record {
    tune_key key;
    tune_choice choice;
    tune_measure measure;
};

// ---- choices ------------------------------------------------------------------------------------

// A dataflow with pair lists. threshold: of a hybrid one; else 0.
SPIRA_API tune_choice tune_choice_lists(tune_dataflow dataflow, int threshold) {
    tune_choice c = {};
    c.dataflow = dataflow;
    c.threshold = threshold;
    return c;
}

SPIRA_API bool tune_is_hybrid(tune_dataflow dataflow) {
    return dataflow == tune_dataflow_hybrid_atomic || dataflow == tune_dataflow_hybrid_ordered;
}

SPIRA_API bool tune_is_deterministic(tune_dataflow dataflow) {
    return dataflow != tune_dataflow_atomic && dataflow != tune_dataflow_hybrid_atomic;
}

SPIRA_API bool tune_same_choice(const tune_choice *a, const tune_choice *b) {
    return a->dataflow == b->dataflow && a->tiles == b->tiles && a->slices == b->slices &&
           a->split == b->split && a->threshold == b->threshold;
}

// ---- keys ---------------------------------------------------------------------------------------

// The largest power of two up to a; 1 if a < 1.
SPIRA_API int32_t tune_step(int64_t a) {
    return 1 << (bits_for((uint64_t)max_of(min_of(a, INT32_MAX), 1)) - 1);
}

// The key of a layer with this many outputs and pairs of its kernel map. Counts of a typical scan
// are good enough.
SPIRA_API tune_key tune_key_make(tune_gpu gpu, const conv_shape *shape, int64_t outputs,
                                 int64_t pairs, bool deterministic) {
    tune_key k = {};
    k.gpu = gpu;
    k.shape = *shape;
    k.outputs = tune_step(outputs);
    k.density = tune_step(pairs / max_of(outputs, 1));
    k.deterministic = deterministic;
    return k;
}

// Whether two keys are of the same layer and GPU, whatever their counts.
SPIRA_API bool tune_same_layer(const tune_key *a, const tune_key *b) {
    const conv_shape *s = &a->shape, *t = &b->shape;
    return a->gpu.capability == b->gpu.capability &&
           a->gpu.multiprocessors == b->gpu.multiprocessors && s->volume == t->volume &&
           s->cin == t->cin && s->cin2 == t->cin2 && s->cout == t->cout && s->type == t->type &&
           a->deterministic == b->deterministic;
}

// Steps of two between the counts of two keys: of the outputs, plus those of the density where both
// are known.
SPIRA_API int tune_distance(const tune_key *a, const tune_key *b) {
    int outputs = bits_for((uint64_t)a->outputs) - bits_for((uint64_t)b->outputs);
    int density = bits_for((uint64_t)a->density) - bits_for((uint64_t)b->density);
    density = a->density && b->density ? density : 0;
    return (outputs < 0 ? -outputs : outputs) + (density < 0 ? -density : density);
}

} // namespace spira

#endif
