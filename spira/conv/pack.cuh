// spira/conv/pack.cuh: launches the kernels that pack weights.
#ifndef SPIRA_CONV_PACK_CUH
#define SPIRA_CONV_PACK_CUH

#include "choice.cuh"

namespace spira {

enum { conv_pack_threads = 256 };

// Launches a kernel that packs `total` pieces, a thread each. In training it runs in front of every
// convolution.
template <typename... P, typename... A>
SPIRA_API status conv_pack_launch(const device_info *gpu, int64_t total, cudaStream_t stream,
                                  void (*kernel)(P...), const A &...arguments) {
    const int64_t grid = ceil_div(total, conv_pack_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "shape", grid);
    return kernel_launch(kernel, (unsigned)grid, conv_pack_threads, 0, gpu->programmatic, 1, stream,
                         "conv_weights_pack", arguments...);
}

// part: bytes of a part of a row (hopper_part_bytes); shortcuts have hopper_part_whole.
template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_API status conv_pack_hopper(const device_info *gpu, const conv_shape *s, int part,
                                  const float *weight, void *packed, cudaStream_t stream) {
    const int64_t total = hopper_weights(s, part);
    return conv_pack_launch(gpu, total, stream, hopper_pack_kernel<E, order>, *s, part, weight,
                            total, (E *)packed);
}

// Packs weights of one format for a kernel that some compiled architecture runs.
template <conv_weights_order order = conv_weights_own, typename tag>
SPIRA_API status conv_pack_as(tag, const device_info *gpu, const conv_shape *s, conv_kernel kernel,
                              const float *weight, void *packed, cudaStream_t stream) {
    typedef typename tag::element E;
    const int64_t total = conv_packed_count(s, kernel);
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (kernel == conv_kernel_hopper) {
            return conv_pack_hopper<E, order>(gpu, s, hopper_part_bytes(s), weight, packed, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_narrow, tag::value)) {
        if (kernel == conv_kernel_narrow) {
            return conv_pack_launch(gpu, total, stream, narrow_pack_kernel<E, order>, *s, weight,
                                    total, (E *)packed);
        }
    }
    if constexpr (conv_tensor_compiled(tag::value)) {
        if (kernel == conv_kernel_portable) {
            return conv_pack_launch(gpu, total, stream, conv_mma_pack_kernel<E, order>, *s, weight,
                                    total, (E *)packed);
        }
    }
    if (conv_packed_floats(s, kernel)) {
        return conv_pack_launch(gpu, total, stream, conv_exact_pack_kernel<0, order>, *s, weight,
                                total, (float *)packed);
    }
    return conv_not_compiled();
}

// Packs a shortcut's weights for the kernel of its convolution. s: conv_shortcut_shape.
template <typename tag>
SPIRA_API status conv_pack_shortcut(tag own, const device_info *gpu, const conv_shape *s,
                                    conv_kernel kernel, const float *weight, void *packed,
                                    cudaStream_t stream) {
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (kernel == conv_kernel_hopper) {
            return conv_pack_hopper<typename tag::element>(gpu, s, hopper_part_whole, weight,
                                                           packed, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_portable, tag::value)) {
        if (kernel == conv_kernel_portable) {
            return conv_pack_as(own, gpu, s, kernel, weight, packed, stream);
        }
    }
    return conv_not_compiled();
}

// Packs weights for a kernel: conv_weights_pack (conv.cuh), whose arguments these are. order: of
// `weight`; orders of an input gradient are for one source.
template <numeric format, conv_weights_order order = conv_weights_own>
SPIRA_API status conv_pack(const device_info *gpu, const conv_shape *shape, conv_kernel kernel,
                           const float *weight, void *packed, size_t packed_bytes,
                           cudaStream_t stream) {
    SPIRA_TRY(pointer_check(weight, sizeof(float), "weight"));
    SPIRA_TRY(workspace_check(packed, packed_bytes, conv_packed_bytes(shape, kernel), "packed"));
    return numeric_dispatch<format>(shape->type, [&](auto tag) {
        return conv_pack_as<order>(tag, gpu, shape, kernel, weight, packed, stream);
    });
}

} // namespace spira

#endif
