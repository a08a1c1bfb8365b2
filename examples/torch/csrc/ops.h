// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/ops.h: the operators, for CPU and CUDA tensors alike. library.cpp has their
// schemas; the Python files say what they mean.
#ifndef SPIRA_TORCH_OPS_H
#define SPIRA_TORCH_OPS_H

#include "convert.h"

#include <array>
#include <tuple>

namespace spira_torch {

// ---- sets.cpp ----

std::vector<int64_t> word_layout(IntArrayRef extent, int64_t batches, int64_t reach);
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> voxelize(const Tensor &indices,
                                                            const optional<Tensor> &count,
                                                            IntArrayRef layout, IntArrayRef extent);
std::tuple<Tensor, Tensor, Tensor> expand(const Tensor &words, const Tensor &count,
                                          IntArrayRef layout, IntArrayRef kernel, IntArrayRef rule,
                                          int64_t capacity);
Tensor unpack(const Tensor &words, const Tensor &count, IntArrayRef layout, IntArrayRef origin,
              IntArrayRef spacing, int64_t ndim);
Tensor repack(const Tensor &words, const Tensor &count, IntArrayRef from, IntArrayRef to,
              IntArrayRef origin, int64_t scale);

// Raises ValueError for the status of a set, read back. name: of the argument at fault.
void status_check(IntArrayRef status, c10::string_view name);

// ---- choose.cpp ----

// words, source, its inverse, count, status
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> choose(const Tensor &words, const Tensor &count,
                                                          IntArrayRef layout, IntArrayRef stride,
                                                          const optional<Tensor> &choice,
                                                          double threshold, int64_t capacity);
Tensor choose_largest(const Tensor &words, const Tensor &count, IntArrayRef layout,
                      const Tensor &scores, int64_t most);
Tensor find_rows(const Tensor &words, const Tensor &count, const Tensor &other,
                 const Tensor &other_count, IntArrayRef layout);
std::tuple<Tensor, Tensor, Tensor> unite(at::TensorList words, at::TensorList counts,
                                         IntArrayRef layout, int64_t capacity);
std::tuple<Tensor, Tensor, Tensor> curve(const Tensor &words, const Tensor &count,
                                         IntArrayRef layout, IntArrayRef grid, int64_t depth,
                                         int64_t kind);

// ---- maps.cpp ----

// {slope, constant}: the bytes of a layout of `capacity` outputs are slope * capacity + constant.
std::vector<int64_t> map_layout_bytes(int64_t device, IntArrayRef kernel);
Tensor map_table(const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                 const Tensor &outputs_count, IntArrayRef layout, IntArrayRef kernel);
Tensor map_layout(const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                  const Tensor &outputs_count, IntArrayRef layout, IntArrayRef kernel);
Tensor map_pairs(const Tensor &source, const Tensor &source_count, const Tensor &outputs,
                 const Tensor &outputs_count, IntArrayRef layout, IntArrayRef kernel,
                 int64_t capacity);

// The lists in a tensor of map_pairs.
spira::map_lists pairs_of(const Tensor &pairs, int volume);

// ---- conv.cpp ----

Tensor conv(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
            const optional<Tensor> &map, const optional<Tensor> &back,
            const optional<Tensor> &pairs, const Tensor &source_count, const Tensor &count,
            int64_t rows, IntArrayRef kernel, int64_t flags);
// act(conv + residual): of layers without gradients. packed: of conv_pack, for the type of the
// features, or none.
Tensor conv_eval(const Tensor &features, const Tensor &weight, const optional<Tensor> &packed,
                 const optional<Tensor> &bias, const optional<Tensor> &residual,
                 const optional<Tensor> &map, const Tensor &count, int64_t rows, IntArrayRef kernel,
                 int64_t flags, int64_t act);
Tensor conv_pack(const Tensor &weight, IntArrayRef kernel, at::ScalarType type);
// conv, and norm_eval of its rows: on a GPU the convolution applies the norm itself. No gradients.
Tensor conv_norm_eval(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
                      const optional<Tensor> &map, const Tensor &count, int64_t rows,
                      IntArrayRef kernel, int64_t flags, const optional<Tensor> &residual,
                      const optional<Tensor> &norm_weight, const optional<Tensor> &norm_bias,
                      const Tensor &mean, const Tensor &var, double eps, bool relu);
// conv, and norm of its rows: of layers in training.
Tensor conv_norm(const Tensor &features, const Tensor &weight, const optional<Tensor> &bias,
                 const optional<Tensor> &map, const optional<Tensor> &back,
                 const optional<Tensor> &pairs, const Tensor &source_count, const Tensor &count,
                 int64_t rows, IntArrayRef kernel, int64_t flags, const optional<Tensor> &residual,
                 const optional<Tensor> &norm_weight, const optional<Tensor> &norm_bias,
                 const optional<Tensor> &mean, const optional<Tensor> &var,
                 const optional<Tensor> &batches, double momentum, double eps, bool relu,
                 bool again);
std::tuple<Tensor, Tensor, Tensor> conv_backward(const Tensor &grad, const Tensor &features,
                                                 const Tensor &weight, const optional<Tensor> &back,
                                                 const optional<Tensor> &pairs,
                                                 const Tensor &source_count, const Tensor &count,
                                                 IntArrayRef kernel, int64_t flags,
                                                 std::array<bool, 3> wanted);

// Raises ValueError if convolutions on this GPU, as far as it has come, had weights that their
// format cannot hold.
void weights_check(int64_t device);

// ---- rows.cpp ----

Tensor permute_rows(const Tensor &features, const Tensor &index, const Tensor &inverse);
Tensor pool(const Tensor &features, const Tensor &map, const optional<Tensor> &back,
            const Tensor &source_count, const Tensor &count, int64_t kind, int64_t flags);
Tensor pool_backward(const Tensor &grad, const Tensor &features, const Tensor &map,
                     const Tensor &back, const Tensor &source_count, int64_t kind, int64_t flags);
Tensor pool_global(const Tensor &features, const Tensor &words, const Tensor &count,
                   IntArrayRef layout, int64_t kind, int64_t flags);
Tensor pool_global_backward(const Tensor &grad, const Tensor &features, const Tensor &words,
                            const Tensor &count, IntArrayRef layout, int64_t kind, int64_t flags);
Tensor dense(const Tensor &features, const Tensor &words, const Tensor &count, IntArrayRef layout,
             IntArrayRef grid, int64_t batch, int64_t flags);
Tensor dense_backward(const Tensor &grad, const Tensor &words, const Tensor &count,
                      IntArrayRef layout, IntArrayRef grid, int64_t batch, int64_t flags);

// [rows, channels of both]
Tensor join(const Tensor &first, const Tensor &second);

// Zeros in the rows of t from the count on.
void clear_tail(Tensor &t, const Tensor &count);

// ---- points.cpp ----

std::tuple<Tensor, Tensor> around(const Tensor &words, const Tensor &count, IntArrayRef layout,
                                  IntArrayRef stride, const Tensor &points, const Tensor &batch,
                                  int64_t kind, bool centred);
std::tuple<Tensor, Tensor> lists(const Tensor &index, int64_t rows);
Tensor blend(const Tensor &features, const Tensor &index, const Tensor &weight, const Tensor &begin,
             const Tensor &order);
Tensor splat(const Tensor &features, const Tensor &index, const Tensor &weight, const Tensor &begin,
             const Tensor &order);

// ---- norm.cpp ----

// again: for autograd.cpp; layers.recompute in layers.py.
std::tuple<Tensor, Tensor, Tensor>
norm(const Tensor &input, const optional<Tensor> &residual, const optional<Tensor> &count,
     const optional<Tensor> &weight, const optional<Tensor> &bias, const optional<Tensor> &mean,
     const optional<Tensor> &var, const optional<Tensor> &batches, double momentum, double eps,
     bool relu, bool again);
Tensor norm_apply(const Tensor &input, const optional<Tensor> &residual,
                  const optional<Tensor> &count, const optional<Tensor> &weight,
                  const optional<Tensor> &bias, const Tensor &mean, const Tensor &invstd,
                  bool relu);
// Of eval mode: from running statistics. No gradients.
Tensor norm_eval(const Tensor &input, const optional<Tensor> &residual,
                 const optional<Tensor> &count, const optional<Tensor> &weight,
                 const optional<Tensor> &bias, const Tensor &mean, const Tensor &var, double eps,
                 bool relu);

// Of a norm by running statistics, on a GPU: y = x * scale + shift. [2, channels], fp32.
Tensor norm_fold(const Tensor &like, int64_t channels, const optional<Tensor> &weight,
                 const optional<Tensor> &bias, const Tensor &mean, const Tensor &var, double eps);
std::tuple<Tensor, Tensor, Tensor, Tensor>
norm_backward(const Tensor &grad, const Tensor &input, const optional<Tensor> &output,
              const optional<Tensor> &count, const optional<Tensor> &weight,
              const optional<Tensor> &bias, const Tensor &mean, const Tensor &invstd, bool relu,
              bool residual);

// ---- norm_rows.cpp ----

// act(LayerNorm or RMSNorm + residual). Gradients: without residual and activation; of the input,
// weight and bias, these fp32.
Tensor norm_rows(const Tensor &input, const optional<Tensor> &residual,
                 const optional<Tensor> &weight, const optional<Tensor> &bias, const Tensor &count,
                 int64_t kind, double eps, int64_t act, int64_t flags);
std::tuple<Tensor, Tensor, Tensor> norm_rows_backward(const Tensor &grad, const Tensor &input,
                                                      const optional<Tensor> &weight,
                                                      const Tensor &count, int64_t kind, double eps,
                                                      int64_t flags);
Tensor norm_groups(const Tensor &input, const optional<Tensor> &weight,
                   const optional<Tensor> &bias, const Tensor &words, const Tensor &count,
                   IntArrayRef layout, int64_t groups, double eps, int64_t flags);
std::tuple<Tensor, Tensor, Tensor> norm_groups_backward(const Tensor &grad, const Tensor &input,
                                                        const optional<Tensor> &weight,
                                                        const Tensor &words, const Tensor &count,
                                                        IntArrayRef layout, int64_t groups,
                                                        double eps, int64_t flags);

} // namespace spira_torch

#endif
