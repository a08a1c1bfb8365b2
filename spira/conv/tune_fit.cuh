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

SPIRA_API tune_choice tune_choice_cut(int rows, const conv_sizes *size) {
    tune_choice c = tune_choice_os(rows);
    c.tiles = size->tiles;
    c.slices = size->slices;
    c.split = size->split;
    return c;
}

// Whether the program can compute a layer by a choice. A record may come from a program that was
// compiled for other architectures.
SPIRA_API bool tune_choice_fits(const conv_shape *s, const device_info *gpu, const tune_choice *c) {
    conv_kernel kernel = conv_kernel_of(s, gpu);
    conv_sizes size = tune_sizes(c);
    if (c->dataflow != tune_dataflow_os) {
        return true;
    }
    bool rows = conv_kernel_form(kernel) == conv_form_order ? c->rows == 0
                                                            : tile_rows_valid(c->rows, s->volume);
    return rows &&
           (!c->tiles || kernel == conv_kernel_exact || conv_sizes_fit(s, c->rows, gpu, &size));
}

} // namespace spira

#endif
