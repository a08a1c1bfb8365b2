// spira/conv/tune_fit.cuh: a choice of a tuning record (tune.h) as conv takes it, and whether a
// program can compute a layer so.
#ifndef SPIRA_CONV_TUNE_FIT_CUH
#define SPIRA_CONV_TUNE_FIT_CUH

#include "../conv.cuh"
#include "../tune.h"

namespace spira {

SPIRA_API tune_gpu tune_gpu_of(const device_info *d) {
    return {d->capability, d->multiprocessors};
}

// How conv is to cut the work.
SPIRA_API conv_sizes tune_sizes(const tune_choice *c) {
    return {c->tiles, c->slices, c->split, 1};
}

SPIRA_API tune_choice tune_choice_cut(int rows, const conv_sizes *size) {
    return {tune_dataflow_os, rows, size->tiles, size->slices, size->split, 0};
}

// Whether a program can compute a layer so: a record may be of a program that was compiled for
// other architectures.
SPIRA_API bool tune_choice_fits(const conv_shape *s, const device_info *d, const tune_choice *c) {
    conv_kernel kernel = conv_kernel_of(s, d);
    conv_sizes size = tune_sizes(c);
    if (c->dataflow != tune_dataflow_os) {
        return true;
    }
    bool rows = conv_kernel_form(kernel) == conv_form_order ? c->rows == 0
                                                            : tile_rows_valid(c->rows, s->volume);
    return rows &&
           (!c->tiles || kernel == conv_kernel_exact || conv_sizes_fit(s, c->rows, d, &size));
}

} // namespace spira

#endif
