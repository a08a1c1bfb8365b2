// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/library.cpp: the schemas of the operators and what runs them.
//
// A pure library of PyTorch: no Python headers, no module. spira/library.py loads it with
// torch.ops.load_library, and adds the shape functions.
#include "ops.h"

namespace spira_torch {

TORCH_LIBRARY_FRAGMENT(spira, m) {
    m.def("word_layout(int[] extent, int batches, int reach) -> int[]", &word_layout);
    m.def("map_layout_bytes(int device, int[] kernel) -> int[]", &map_layout_bytes);
    m.def("status_check(int[] status, str name) -> ()", &status_check);
    m.def("weights_check(int device) -> ()", &weights_check);
    m.def("voxelize(Tensor indices, Tensor? count, int[] layout, int[] extent) "
          "-> (Tensor words, Tensor order, Tensor voxel, Tensor count, Tensor status)");
    m.def("expand(Tensor words, Tensor count, int[] layout, int[] kernel, int[] rule, "
          "SymInt capacity) -> (Tensor words, Tensor count, Tensor status)");
    m.def("unpack(Tensor words, Tensor count, int[] layout, int[] origin, int[] spacing, int ndim) "
          "-> Tensor");
    m.def("repack(Tensor words, Tensor count, int[] layout, int[] to, int[] origin, int scale) "
          "-> Tensor");
    m.def("choose(Tensor words, Tensor count, int[] layout, int[] stride, Tensor? choice, "
          "float threshold, SymInt capacity) -> "
          "(Tensor words, Tensor source, Tensor back, Tensor count, Tensor status)");
    m.def("choose_largest(Tensor words, Tensor count, int[] layout, Tensor scores, int most) "
          "-> Tensor");
    m.def("find_rows(Tensor words, Tensor count, Tensor other, Tensor other_count, int[] layout) "
          "-> Tensor");
    m.def("unite(Tensor[] words, Tensor[] counts, int[] layout, SymInt capacity) "
          "-> (Tensor words, Tensor count, Tensor status)");
    m.def("curve(Tensor words, Tensor count, int[] layout, int[] grid, int depth, int kind) "
          "-> (Tensor code, Tensor order, Tensor rank)");
    m.def("around(Tensor words, Tensor count, int[] layout, int[] stride, Tensor points, "
          "Tensor batch, int kind, bool centred) -> (Tensor index, Tensor weight)");
    m.def("lists(Tensor index, SymInt rows) -> (Tensor begin, Tensor order)");
    m.def("blend(Tensor features, Tensor index, Tensor weight, Tensor begin, Tensor order) "
          "-> Tensor");
    m.def("splat(Tensor features, Tensor index, Tensor weight, Tensor begin, Tensor order) "
          "-> Tensor");
    m.def("map_table(Tensor source, Tensor source_count, Tensor outputs, Tensor outputs_count, "
          "int[] layout, int[] kernel) -> Tensor");
    m.def("map_layout(Tensor source, Tensor source_count, Tensor outputs, Tensor outputs_count, "
          "int[] layout, int[] kernel) -> Tensor");
    m.def("map_pairs(Tensor source, Tensor source_count, Tensor outputs, Tensor outputs_count, "
          "int[] layout, int[] kernel, SymInt capacity) -> Tensor");
    m.def("conv(Tensor features, Tensor weight, Tensor? bias, Tensor? map, Tensor? back, "
          "Tensor? pairs, Tensor source_count, Tensor count, SymInt rows, int[] kernel, int flags) "
          "-> Tensor");
    m.def("conv_eval(Tensor features, Tensor weight, Tensor? packed, Tensor? bias, "
          "Tensor? residual, Tensor? map, Tensor count, SymInt rows, int[] kernel, int flags, "
          "int act) -> Tensor");
    m.def("conv_pack(Tensor weight, int[] kernel, ScalarType type) -> Tensor");
    m.def("conv_norm_eval(Tensor features, Tensor weight, Tensor? bias, Tensor? map, "
          "Tensor count, SymInt rows, int[] kernel, int flags, "
          "Tensor? residual, Tensor? norm_weight, Tensor? norm_bias, Tensor mean, Tensor var, "
          "float eps, bool relu) -> Tensor");
    m.def("conv_norm(Tensor features, Tensor weight, Tensor? bias, Tensor? map, Tensor? back, "
          "Tensor? pairs, Tensor source_count, Tensor count, SymInt rows, int[] kernel, int flags, "
          "Tensor? residual, Tensor? norm_weight, Tensor? norm_bias, Tensor(a!)? running_mean, "
          "Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, float momentum, float eps, "
          "bool relu, bool again) -> Tensor");
    m.def("conv_backward(Tensor grad, Tensor features, Tensor weight, Tensor? back, Tensor? pairs, "
          "Tensor source_count, Tensor count, int[] kernel, int flags, bool[3] wanted) "
          "-> (Tensor, Tensor, Tensor)");
    m.def("permute_rows(Tensor features, Tensor index, Tensor inverse) -> Tensor");
    m.def("join(Tensor first, Tensor second) -> Tensor");
    m.def("norm(Tensor input, Tensor? residual, Tensor? count, Tensor? weight, Tensor? bias, "
          "Tensor(a!)? running_mean, Tensor(b!)? running_var, Tensor(c!)? num_batches_tracked, "
          "float momentum, float eps, bool relu, bool again) -> (Tensor, Tensor, Tensor)");
    m.def("norm_apply(Tensor input, Tensor? residual, Tensor? count, Tensor? weight, Tensor? bias, "
          "Tensor mean, Tensor invstd, bool relu) -> Tensor");
    m.def("norm_eval(Tensor input, Tensor? residual, Tensor? count, Tensor? weight, Tensor? bias, "
          "Tensor mean, Tensor var, float eps, bool relu) -> Tensor");
    m.def("norm_backward(Tensor grad, Tensor input, Tensor? output, Tensor? count, Tensor? weight, "
          "Tensor? bias, Tensor mean, Tensor invstd, bool relu, bool residual) "
          "-> (Tensor, Tensor, Tensor, Tensor)");
    m.def("norm_rows(Tensor input, Tensor? residual, Tensor? weight, Tensor? bias, Tensor count, "
          "int kind, float eps, int act, int flags) -> Tensor");
    m.def("norm_rows_backward(Tensor grad, Tensor input, Tensor? weight, Tensor count, int kind, "
          "float eps, int flags) -> (Tensor, Tensor, Tensor)");
    m.def("norm_groups(Tensor input, Tensor? weight, Tensor? bias, Tensor words, Tensor count, "
          "int[] layout, int groups, float eps, int flags) -> Tensor");
    m.def("norm_groups_backward(Tensor grad, Tensor input, Tensor? weight, Tensor words, "
          "Tensor count, int[] layout, int groups, float eps, int flags) "
          "-> (Tensor, Tensor, Tensor)");
    m.def("pool(Tensor features, Tensor map, Tensor? back, Tensor source_count, Tensor count, "
          "int kind, int flags) -> Tensor");
    m.def("pool_backward(Tensor grad, Tensor features, Tensor map, Tensor back, "
          "Tensor source_count, int kind, int flags) -> Tensor");
    m.def("pool_global(Tensor features, Tensor words, Tensor count, int[] layout, int kind, "
          "int flags) -> Tensor");
    m.def("pool_global_backward(Tensor grad, Tensor features, Tensor words, Tensor count, "
          "int[] layout, int kind, int flags) -> Tensor");
    m.def("dense(Tensor features, Tensor words, Tensor count, int[] layout, int[] grid, int batch, "
          "int flags) -> Tensor");
    m.def("dense_backward(Tensor grad, Tensor words, Tensor count, int[] layout, int[] grid, "
          "int batch, int flags) -> Tensor");
}

// One function for both devices: it looks at its tensors.
static void implement(torch::Library &m) {
    m.impl("voxelize", &voxelize);
    m.impl("expand", &expand);
    m.impl("unpack", &unpack);
    m.impl("repack", &repack);
    m.impl("choose", &choose);
    m.impl("choose_largest", &choose_largest);
    m.impl("find_rows", &find_rows);
    m.impl("unite", &unite);
    m.impl("curve", &curve);
    m.impl("around", &around);
    m.impl("lists", &lists);
    m.impl("blend", &blend);
    m.impl("splat", &splat);
    m.impl("map_table", &map_table);
    m.impl("map_layout", &map_layout);
    m.impl("map_pairs", &map_pairs);
    m.impl("conv", &conv);
    m.impl("conv_eval", &conv_eval);
    m.impl("conv_pack", &conv_pack);
    m.impl("conv_norm_eval", &conv_norm_eval);
    m.impl("conv_norm", &conv_norm);
    m.impl("conv_backward", &conv_backward);
    m.impl("permute_rows", &permute_rows);
    m.impl("join", &join);
    m.impl("norm", &norm);
    m.impl("norm_apply", &norm_apply);
    m.impl("norm_eval", &norm_eval);
    m.impl("norm_backward", &norm_backward);
    m.impl("norm_rows", &norm_rows);
    m.impl("norm_rows_backward", &norm_rows_backward);
    m.impl("norm_groups", &norm_groups);
    m.impl("norm_groups_backward", &norm_groups_backward);
    m.impl("pool", &pool);
    m.impl("pool_backward", &pool_backward);
    m.impl("pool_global", &pool_global);
    m.impl("pool_global_backward", &pool_global_backward);
    m.impl("dense", &dense);
    m.impl("dense_backward", &dense_backward);
}

TORCH_LIBRARY_IMPL(spira, CPU, m) {
    implement(m);
}

#ifdef SPIRA_TORCH_CUDA
TORCH_LIBRARY_IMPL(spira, CUDA, m) {
    implement(m);
}
#endif

} // namespace spira_torch
