// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/shared.cuh: functions of spira that reach hundreds of kernels, in all formats. They
// are compiled once for all GPU tests, in tests/gpu/shared_*.cu, and called through pointers: a
// test that called the templates would compile the kernels once more.
#ifndef SPIRA_TESTS_SHARED_CUH
#define SPIRA_TESTS_SHARED_CUH

#include "../../spira/conv.cuh"
#include "../../spira/conv_grad.cuh"
#include "../../spira/conv_hybrid.cuh"
#include "../../spira/conv_linear.cuh"
#include "../../spira/conv_slices.cuh"
#include "../../spira/net.cuh"
#include "../../spira/voxel.cuh"
#include "../../spira/voxel_features.cuh"

namespace spira {

// What multiplies (shared_conv.cu).
struct shared_conv_calls {
    decltype(&spira::conv<>) conv;
    decltype(&spira::conv<numeric_any, true>) conv_shortcuts; // with fused shortcuts
    decltype(&spira::conv<numeric_f16>) conv_f16;             // refuses other formats
    decltype(&spira::conv<numeric_f32>) conv_f32;
    decltype(&spira::conv_linear<>) conv_linear;
    decltype(&spira::conv_grad_input<>) conv_grad_input;
    decltype(&spira::conv_hybrid<>) conv_hybrid;
    decltype(&spira::conv_weights_pack<>) conv_weights_pack;
    decltype(&spira::conv_shortcut_pack<>) conv_shortcut_pack;
    decltype(&spira::conv_slices<>) conv_slices;
    decltype(&spira::conv_slices_pack<>) conv_slices_pack;
};
extern const shared_conv_calls shared_conv;

// Networks over words of one width (shared_net.cu).
template <typename W>
struct shared_net_calls {
    decltype(&spira::net_load<>) net_load;
    decltype(&spira::net_index<W>) net_index;
    decltype(&spira::net_layer_run<W>) net_layer_run;
    decltype(&spira::net_run<W>) net_run;
    decltype(&spira::net_load<numeric_f16>) net_load_f16; // refuses other formats
    decltype(&spira::net_layer_run<W, numeric_f16>) net_layer_run_f16;
    decltype(&spira::net_run<W, numeric_f16>) net_run_f16;
    decltype(&spira::voxelize<W>) voxelize;
    decltype(&spira::voxel_features<numeric_any, W>) voxel_features;
};
template <typename W>
const shared_net_calls<W> &shared_net();
template <>
const shared_net_calls<uint32_t> &shared_net<uint32_t>();
template <>
const shared_net_calls<uint64_t> &shared_net<uint64_t>();

} // namespace spira

#endif
