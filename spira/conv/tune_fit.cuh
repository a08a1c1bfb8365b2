// spira/conv/tune_fit.cuh: between the choice of a tuning record and conv: sizes, and whether the
// program can compute a layer that way.
#ifndef SPIRA_CONV_TUNE_FIT_CUH
#define SPIRA_CONV_TUNE_FIT_CUH

#include "choice.cuh"
#include "tune_record.h"

namespace spira {

SPIRA_API tune_gpu tune_gpu_of(const device_info *gpu) {
    return {gpu->capability, gpu->multiprocessors};
}

// The sizes of a choice; all 0: conv chooses.
SPIRA_API conv_sizes tune_sizes(const tune_choice *c) {
    return {c->tiles, c->slices, c->split, 1};
}

// Output-stationary, cut so.
SPIRA_API tune_choice tune_choice_cut(const conv_sizes *size) {
    tune_choice c = {};
    c.dataflow = tune_dataflow_os;
    c.tiles = size->tiles;
    c.slices = size->slices;
    c.split = size->split;
    return c;
}

// Whether the program can compute a layer by a choice. A record may come from a program that was
// compiled for other architectures.
SPIRA_API bool tune_choice_fits(const conv_shape *s, const device_info *gpu, const tune_choice *c) {
    const conv_sizes size = tune_sizes(c);
    return c->dataflow != tune_dataflow_os || !c->tiles || conv_sizes_fit(s, gpu, &size);
}

} // namespace spira

#endif
