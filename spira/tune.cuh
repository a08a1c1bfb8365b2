// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/tune.cuh: the ways to compute a layer on a GPU, and the choice among them.
//
// A choice says which function computes the layer, and how: `conv` with tune_sizes, conv_pairs_run,
// or conv_hybrid with a threshold. A tuner runs each, checks the result, then times it.
#ifndef SPIRA_TUNE_CUH
#define SPIRA_TUNE_CUH

#include "conv/choice.cuh"
#include "tune.h"

namespace spira {

// The sizes of a choice; all 0: conv chooses.
SPIRA_API conv_sizes tune_sizes(const tune_choice *c) {
    return {c->tiles, c->slices, c->split, 1};
}

SPIRA_API tune_choice tune_choice_cut(const conv_sizes *size) {
    return {tune_dataflow_os, size->tiles, size->slices, size->split, 0};
}

// Whether the program can compute a layer by a choice. A record may come from a program that was
// compiled for other architectures.
SPIRA_API bool tune_choice_fits(const conv_shape *s, const device_info *gpu, const tune_choice *c) {
    const conv_sizes size = tune_sizes(c);
    return c->dataflow != tune_dataflow_os || !c->tiles || conv_sizes_fit(s, gpu, &size);
}

// The choice for a layer: that of its record (tune_find), if there is one that fits the program;
// else output-stationary, cut as conv_sizes_choose says.
//
// inputs   records [count]; capacity: of the output set
SPIRA_API tune_choice tune_choose(const device_info *gpu, const tune_record *records, int count,
                                  const tune_key *key, int32_t capacity) {
    const tune_record *r = tune_find(records, count, key);
    const conv_sizes size = conv_sizes_choose(&key->shape, capacity, gpu);
    return r && tune_choice_fits(&key->shape, gpu, &r->choice) ? r->choice : tune_choice_cut(&size);
}

// All cuts, and both forms of pair lists: of all offsets, and of those that a threshold leaves.
enum { tune_candidates_most = conv_sizes_most + 3 + 2 * tune_threshold_most };

// Lists the choices worth measuring for a layer. Returns their number.
//
// inputs   key: with `deterministic`, atomic forms are left out; kernel: of the layer's map, for
//          hybrids by every threshold that divides its offsets, or null: no hybrids; capacity: of
//          the output set
// outputs  choices [tune_candidates_most]: the one without a record first; no duplicates
SPIRA_API int tune_candidates(const device_info *gpu, const tune_key *key,
                              const kernel_shape *kernel, int32_t capacity, tune_choice *choices) {
    conv_sizes sizes[conv_sizes_most];
    const int cuts = conv_sizes_list(&key->shape, gpu, sizes);
    const int thresholds = kernel ? kernel_norm_max(kernel) : 0;
    int count = 0;
    choices[count++] = tune_choose(gpu, nullptr, 0, key, capacity);
    for (int i = 0; i < cuts; ++i) {
        choices[count] = tune_choice_cut(&sizes[i]);
        count += !tune_same_choice(&choices[count], &choices[0]);
    }
    const bool lists = key->shape.volume > 1 && key->shape.type != numeric_i8;
    for (int t = 0; t <= thresholds && lists; ++t) {
        choices[count++] = {t ? tune_dataflow_hybrid_ordered : tune_dataflow_ordered, 0, 0, 0, t};
        if (!key->deterministic) {
            choices[count++] = {t ? tune_dataflow_hybrid_atomic : tune_dataflow_atomic, 0, 0, 0, t};
        }
    }
    return count;
}

} // namespace spira

#endif
