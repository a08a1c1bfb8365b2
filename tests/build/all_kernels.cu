// tests/build/all_kernels.cu: every kernel in every form that the library offers, so that `make
// check` builds each for all architectures and looks for spilled registers. A new template argument
// needs a line.
#include "../../spira.cuh"

using namespace spira;

template <typename W>
static status all_of_word(const word_layout *layout, const kernel_shape *kernel,
                          const voxel_input *in, voxel_set<W> set, voxel_rows rows,
                          device_status *trouble, int32_t *map, void *out) {
    SPIRA_TRY(voxelize(layout, in, set, rows, trouble, nullptr, 0, nullptr));
    SPIRA_TRY(downsample(layout, set, kernel->stride, set, trouble, nullptr, 0, nullptr));
    expand_rule rule = {kernel->stride, kernel->size, {}};
    SPIRA_TRY(expand(layout, kernel, &rule, set, set, trouble, nullptr, 0, nullptr));
    map_forms forms = map_forms_os(map);
    map_pairs pairs = {map, map, map, 1};
    SPIRA_TRY(map_build_forms(layout, kernel, set, set, &forms, nullptr));
    SPIRA_TRY(
        map_build_pairs(layout, kernel, set, set, &forms, pairs, trouble, nullptr, 0, nullptr));
    return pool_global(pool_max, numeric_f32, layout, set, map, 1, out, nullptr, 0, nullptr);
}

// External linkage keeps the compiler from dropping what it calls.
int all_kernels(const word_layout *layout, const kernel_shape *kernel, const voxel_input *in,
                voxel_set<uint32_t> narrow, voxel_set<uint64_t> wide, voxel_rows rows,
                device_status *trouble, int32_t *map, const conv_args *args,
                const conv_pairs_args *pairs, const tune_args *tuned, void *out);

int all_kernels(const word_layout *layout, const kernel_shape *kernel, const voxel_input *in,
                voxel_set<uint32_t> narrow, voxel_set<uint64_t> wide, voxel_rows rows,
                device_status *trouble, int32_t *map, const conv_args *args,
                const conv_pairs_args *pairs, const tune_args *tuned, void *out) {
    order_request order = {*kernel, map_all, map, map, 1, {map, (uint32_t *)map, map, map, 1, 1},
                           nullptr};
    // Which kernels run is chosen at run time: each launcher brings in all of its own.
    const status all[] = {
        all_of_word(layout, kernel, in, narrow, rows, trouble, map, out),
        all_of_word(layout, kernel, in, wide, rows, trouble, map, out),
        device_status_clear(trouble, nullptr),
        voxel_features(voxel_feature_mean, in->points, 4, 4, rows, map, 1, numeric_f32, out,
                       nullptr),
        map_count(map, 27, map, 1, map, nullptr),
        exchange_spconv(kernel, {map, map, map, 1}, 1, map, map, trouble, nullptr),
        exchange_csr(map, 27, map, 1, {map, map, map, 1}, trouble, nullptr, 0, nullptr),
        tile_build(map, 27, map, 1, *args->layout, nullptr),
        order_build(&order, 1, nullptr, 0, nullptr),
        order_slots(&order.layout, map, 1, (int64_t *)out, nullptr),
        conv_weights_pack(&args->shape, (const float *)out, out, 0, nullptr),
        conv(args, nullptr, 0, nullptr),
        conv_pairs_run(pairs, nullptr, 0, nullptr),
        tune_judge(tuned, (const float *)out, map, 1, (float *)out, nullptr),
        pool(pool_max, numeric_f32, out, 1, map, 27, map, 1, out, nullptr),
    };
    int failed = 0;
    for (const status &s : all) {
        failed += status_failed(s);
    }
    return failed;
}
