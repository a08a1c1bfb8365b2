// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/shared_conv.cu: the kernels of convolutions, for all GPU tests (shared.cuh).
#include "../support/shared.cuh"

namespace spira {

const shared_conv_calls shared_conv = {conv<>,
                                       conv<numeric_any, true>,
                                       conv<numeric_f16>,
                                       conv<numeric_f32>,
                                       conv_linear<>,
                                       conv_grad_input<>,
                                       conv_hybrid<>,
                                       conv_weights_pack<>,
                                       conv_shortcut_pack<>,
                                       conv_slices<>,
                                       conv_slices_pack<>};

} // namespace spira
