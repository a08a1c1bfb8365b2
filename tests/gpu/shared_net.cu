// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/shared_net.cu: the kernels of networks, for all GPU tests (shared.cuh).
#include "../support/shared.cuh"

namespace spira {

template <typename W>
static const shared_net_calls<W> made = {net_load<>,
                                         net_index<W>,
                                         net_layer_run<W>,
                                         net_run<W>,
                                         net_load<numeric_f16>,
                                         net_layer_run<W, numeric_f16>,
                                         net_run<W, numeric_f16>,
                                         voxelize<W>,
                                         voxel_features<numeric_any, W>};

template <>
const shared_net_calls<uint32_t> &shared_net<uint32_t>() {
    return made<uint32_t>;
}

template <>
const shared_net_calls<uint64_t> &shared_net<uint64_t>() {
    return made<uint64_t>;
}

} // namespace spira
