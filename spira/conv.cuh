// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv.cuh: sparse convolution on the GPU: packs weights, chooses a kernel and launches it.
//
// The calls, for any channels, format and GPU:
//   device_info_query      once
//   conv_weights_bytes,    once for each layer: rounds the weights to the format and orders them
//   conv_weights_pack      for the kernel that computes the layer
//   conv_map_bytes,        for each frame, coordinate set and kernel (conv_map.cuh)
//   conv_map_build
//   conv                   for each layer
//
// conv<numeric_f16>(...) compiles code for fp16 alone; conv(...) chooses among four formats at run
// time, and compiles all of them. Code for int8 is compiled by conv<numeric_i8>(...) alone. For
// linear layers there is conv_linear (conv_linear.cuh).
#ifndef SPIRA_CONV_CUH
#define SPIRA_CONV_CUH

#include "conv/pack.cuh"
#include "conv/run.cuh"
#include "conv_map.cuh"

namespace spira {

// Bytes of packed weights, the tag behind them included.
SPIRA_API status conv_weights_bytes(const device_info *gpu, const conv_shape *shape,
                                    size_t *bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_shape_check_i8(shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = conv_packed_bytes(shape, conv_kernel_of(shape, gpu)) + sizeof(conv_weights_tag);
    return status_success();
}

// Packs weights into the order of the device's kernels; once, when a network is loaded.
//
// inputs   weights: see conv_weights (conv.h)
// outputs  weights->packed: conv_weights_bytes, rounded to the format. The order belongs to this
//          version of spira and to the GPU model: conv_weights_stored checks those of a file
//          weights->trouble: weights that the format cannot hold; of int8, steps that are not
//          positive, too
// Asynchronous.
template <numeric format = numeric_any>
SPIRA_API status conv_weights_pack(const device_info *gpu, const conv_shape *shape,
                                   const conv_weights *weights, cudaStream_t stream) {
    size_t bytes = 0;
    SPIRA_TRY(conv_weights_bytes(gpu, shape, &bytes));
    SPIRA_TRY(conv_pack_check(shape, weights, bytes));
    conv_pack_request r = conv_pack_request_of(gpu, shape, conv_kernel_of(shape, gpu), weights);
    r.tag = conv_weights_tag_make(gpu, shape, r.kernel);
    r.bytes = bytes;
    return numeric_dispatch<format>(shape->type,
                                    [&](auto tag) { return conv_pack_as(tag, &r, stream); });
}

// Checks packed weights that were stored: they are of this version of spira, this shape and this
// GPU model, or are refused by name.
//
// inputs   packed [bytes]: a copy in host memory; bytes: conv_weights_bytes when they were packed
SPIRA_API status conv_weights_stored(const device_info *gpu, const conv_shape *shape,
                                     const void *packed, size_t bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_shape_check_i8(shape));
    const conv_weights_tag wanted = conv_weights_tag_make(gpu, shape, conv_kernel_of(shape, gpu));
    return conv_weights_tag_check(&wanted, packed, bytes);
}

// Bytes of a shortcut's packed weights.
//
// inputs   shape: of the convolution that it is added to; cin, cin2: of the shortcut
// errors   status_unsupported where conv_shortcut_takes says no
SPIRA_API status conv_shortcut_bytes(const device_info *gpu, const conv_shape *shape, int cin,
                                     int cin2, size_t *bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_shape_check_i8(shape));
    const conv_shape own = conv_shortcut_shape(shape, cin, cin2);
    SPIRA_TRY(conv_shape_check_i8(&own));
    SPIRA_REQUIRE(conv_shortcut_takes(shape, gpu), status_unsupported, "shape (with a shortcut)",
                  0);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = conv_shortcut_packed_bytes(shape, conv_kernel_of(shape, gpu), cin, cin2) +
             sizeof(conv_weights_tag);
    return status_success();
}

// Packs a shortcut's weights [cin + cin2, cout], for the convolution that it is added to: as
// conv_weights_pack, to conv_shortcut_bytes.
template <numeric format = numeric_any>
SPIRA_API status conv_shortcut_pack(const device_info *gpu, const conv_shape *shape, int cin,
                                    int cin2, const conv_weights *weights, cudaStream_t stream) {
    size_t bytes = 0;
    SPIRA_TRY(conv_shortcut_bytes(gpu, shape, cin, cin2, &bytes));
    const conv_shape s = conv_shortcut_shape(shape, cin, cin2);
    SPIRA_TRY(conv_pack_check(&s, weights, bytes));
    conv_pack_request request = conv_pack_request_of(gpu, &s, conv_kernel_of(shape, gpu), weights);
    request.tag = conv_shortcut_tag(gpu, shape, cin, cin2);
    request.bytes = bytes;
    return numeric_dispatch<format>(
        s.type, [&](auto tag) { return conv_pack_shortcut(tag, shape, &request, stream); });
}

// Sparse convolution with a fused epilogue (conv.h), output-stationary (Spira paper: dual
// dataflow).
//
// format     compiled for; numeric_any: all four, chosen by args->shape.type
// shortcuts  also compiles the kernels that add a conv_shortcut; without it one is refused
// mixed      also compiles kernels of floating-point layers with args->quantisation.mixed; those of
//            int8 always have it
//
// inputs   args: see conv_args. Features, residual and out are aligned to their element; *map->count
//          is what it was when the map was built
// outputs  args->out; rows from *map->count on are not written. The residual may be `out` itself,
//          the inputs may not
// sums     A later call can accumulate onto what conv_pairs_run has left (conv_hybrid.cuh): rows up
//          to *count, channels up to cout are read. `out` may not be these sums
// shortcut Its sums are added in fp32 before the one rounding: the other accumulators are rescaled
//          by scale / scale' first, and all are multiplied by scale' at the end. |scale'| counts as
//          at least 2^-60 |scale|. Not together with `sums`
// errors   a map of another volume or of a smaller capacity; sizes that the layer or the device
//          does not allow
// Asynchronous; one launch; needs no scratch. Bit-identical from run to run: accumulators are fp32,
// added in a fixed order and rounded once. Another capacity, GPU, `sizes` or alignment of out and
// residual may change the order, and so the last bits.
// int8     Bit-identical to conv_i8_host (see conv_i8.h for which activations), however it is cut.
//          Not with `sums`
// cost     proportional to the offsets of the map's row groups; see bench/README.md
template <numeric format = numeric_any, bool shortcuts = false, bool mixed = false>
SPIRA_API status conv(const device_info *gpu, const conv_args *args, cudaStream_t stream) {
    SPIRA_TRY(conv_check(gpu, args));
    return numeric_dispatch<format>(args->shape.type, [&](auto tag) {
        return conv_run<shortcuts, mixed>(tag, gpu, args, stream);
    });
}

} // namespace spira

#endif
