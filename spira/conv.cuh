// spira/conv.cuh: convolution on the GPU: packs weights, chooses a path and runs it.
#ifndef SPIRA_CONV_CUH
#define SPIRA_CONV_CUH

#include "conv/exact.cuh"
#include "conv/hopper.cuh"
#include "conv/narrow.cuh"
#include "conv/tensor.cuh"
#include "workspace.h"

namespace spira {

// A 1x1x1 convolution over the outputs' own voxels, which is added before the activation:
//
//   out[o, c] = act((sum + bias[c]) * scale[c] + shift[c] + residual[o, c] +
//                   (sum' + bias'[c]) * scale'[c] + shift'[c])
//
// where sum' is of rows o of in and in2: the shortcut of a residual block whose channels change,
// without an array of its own. Null pointers leave their step out.
struct conv_shortcut {
    int cin, cin2;       // cin2: 0 where there is no second source
    const void *in;      // [outputs, cin] of the convolution's type
    const void *in2;     // [outputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_shortcut_pack, with the same shapes, on the same device
    const float *bias, *scale, *shift; // [cout]
};

// One convolution. Arrays are in device memory, features of shape.type's storage.
struct conv_args {
    conv_shape shape;
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_weights_pack, with the same shape, on the same device
    // Host structs of the kernel map's layouts: the tiled one is read or, where conv_form_of says
    // so, the ordered one; the other is not looked at. Both null: the identity (volume 1).
    const tile_layout *layout;
    const order_layout *order;
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue;
    void *out;               // [capacity, cout]
    const conv_sizes *sizes; // how to cut the work (depth is not read), or null: chosen
    const float *sums; // [capacity, conv_sums_pitch(cout)], aligned to 16: what the sums begin
                       // from, as conv_pairs_run leaves it; null: zero
    // The kernel that was launched just before on the stream writes none of the layout, count,
    // weights, bias, scale and shift, so that they are read while it still runs (base/launch.cuh);
    // features, residual and sums it may write. If it is a kernel of the caller's that was itself
    // launched programmatically, it lets the next one begin only after it has waited for those
    // before it: what they write is taken to be there.
    bool programmatic;
    const conv_shortcut *shortcut; // on the host; null: none. See conv_shortcut_takes
};

// Tensor cores where they know the format; plain fp32 multiply-adds otherwise.
SPIRA_API bool conv_uses_tensor(numeric type, int capability) {
    return type != numeric_f32 && capability >= 80;
}

// The kernel that computes a shape on a device, and that its weights are packed for.
enum conv_kernel { conv_kernel_exact, conv_kernel_tensor, conv_kernel_hopper, conv_kernel_narrow };

// Told by the shape alone, since weights are packed for it. With more than 16 channels on a side
// Hopper's kernel is quicker, where it is there and takes the layer.
SPIRA_API conv_kernel conv_kernel_of(const conv_shape *s, const device_info *d) {
    const bool narrow = s->cin <= 16 && s->cout <= 16;
    return !conv_uses_tensor(s->type, d->capability)               ? conv_kernel_exact
           : narrow_takes(s, d) && (narrow || !hopper_takes(s, d)) ? conv_kernel_narrow
           : hopper_takes(s, d)                                    ? conv_kernel_hopper
                                                                   : conv_kernel_tensor;
}

// The forms of the kernel map that convolutions read: tiled (layout/tile.h), ordered
// (layout/order.h).
enum conv_form { conv_form_tiles, conv_form_order };

SPIRA_API conv_form conv_kernel_form(conv_kernel kernel) {
    return kernel == conv_kernel_narrow || kernel == conv_kernel_hopper ? conv_form_order
                                                                        : conv_form_tiles;
}

// The one that a shape is computed from on the current device.
SPIRA_API status conv_form_of(const conv_shape *shape, conv_form *form) {
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_REQUIRE(form, status_null_pointer, "form", 0);
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    *form = conv_kernel_form(conv_kernel_of(shape, &d));
    return status_success();
}

// Packed weights: how many elements (exact), or 16 bytes of them.
SPIRA_API int64_t conv_packed_count(const conv_shape *s, conv_kernel kernel) {
    return kernel == conv_kernel_exact    ? conv_exact_weights(s)
           : kernel == conv_kernel_narrow ? narrow_weights(s)
           : kernel == conv_kernel_hopper ? hopper_weights(s, hopper_part_bytes(s))
                                          : conv_tensor_weights(s);
}

// Bytes of a kernel's packed weights.
SPIRA_API size_t conv_packed_bytes(const conv_shape *s, conv_kernel kernel) {
    return (size_t)conv_packed_count(s, kernel) *
           (kernel == conv_kernel_exact ? sizeof(float) : (size_t)conv_lane_bytes);
}

// Bytes of packed weights on the current device.
SPIRA_API status conv_weights_bytes(const conv_shape *shape, size_t *bytes) {
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    *bytes = conv_packed_bytes(shape, conv_kernel_of(shape, &d));
    return status_success();
}

// part: bytes of a part (hopper_part_bytes), which a shortcut has in whole ones.
template <typename E>
SPIRA_API void conv_pack_hopper(const conv_shape *s, int part, const float *weight, void *packed,
                                cudaStream_t stream) {
    const int64_t total = hopper_weights(s, part);
    hopper_pack_kernel<<<(unsigned)ceil_div(total, 256), 256, 0, stream>>>(*s, part, weight, total,
                                                                           (E *)packed);
}

template <typename E>
SPIRA_API void conv_pack_start(const conv_shape *s, conv_kernel kernel, const float *weight,
                               int64_t total, void *packed, cudaStream_t stream) {
    unsigned grid = (unsigned)ceil_div(total, 256);
    if constexpr (sizeof(E) == 2) {
        if (kernel == conv_kernel_narrow) {
            narrow_pack_kernel<<<grid, 256, 0, stream>>>(*s, weight, total, (E *)packed);
            return;
        }
        if (kernel == conv_kernel_hopper) {
            conv_pack_hopper<E>(s, hopper_part_bytes(s), weight, packed, stream);
            return;
        }
    }
    conv_tensor_pack_kernel<<<grid, 256, 0, stream>>>(*s, weight, total, (E *)packed);
}

// Launches what packs weights for a kernel. packed: as large as conv_packed_bytes says.
SPIRA_API status conv_pack_run(const conv_shape *shape, conv_kernel kernel, const float *weight,
                               void *packed, cudaStream_t stream) {
    int64_t total = conv_packed_count(shape, kernel), grid = ceil_div(total, 256);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "shape", grid);
    if (kernel == conv_kernel_exact) {
        conv_exact_pack_kernel<<<(unsigned)grid, 256, 0, stream>>>(shape->type, weight, total,
                                                                   (float *)packed);
    } else {
        element_dispatch(shape->type, [&](auto e) {
            conv_pack_start<decltype(e)>(shape, kernel, weight, total, packed, stream);
        });
    }
    return status_of_launch("conv_weights_pack");
}

// Packs weights for a kernel: conv_weights_pack, whose arguments these are.
SPIRA_API status conv_pack(const conv_shape *shape, conv_kernel kernel, const float *weight,
                           void *packed, size_t packed_bytes, cudaStream_t stream) {
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_TRY(workspace_check(packed, packed_bytes, conv_packed_bytes(shape, kernel)));
    return conv_pack_run(shape, kernel, weight, packed, stream);
}

// Packs weights into the order of the current device's kernels; once, when a network is loaded.
//
// inputs   weight [volume, cin + cin2, cout] fp32, offsets in spira's order (offset.h)
// outputs  packed: conv_weights_bytes, aligned to 256; rounded to the format. How they lie belongs
//          to this version of spira and to the device: not to be stored
// Asynchronous.
SPIRA_API status conv_weights_pack(const conv_shape *shape, const float *weight, void *packed,
                                   size_t packed_bytes, cudaStream_t stream) {
    SPIRA_TRY(conv_shape_check(shape));
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    return conv_pack(shape, conv_kernel_of(shape, &d), weight, packed, packed_bytes, stream);
}

// ---- shortcuts ----------------------------------------------------------------------------------

// Whether a convolution computes a shortcut too: where Hopper's kernel computes it (hopper_takes),
// unless it has at most 32 input channels and at most 64 output channels.
SPIRA_API bool conv_shortcut_takes(const conv_shape *s, const device_info *d) {
    return conv_kernel_of(s, d) == conv_kernel_hopper && hopper_takes_shortcut(s);
}

// The shape of a shortcut of a convolution.
SPIRA_API conv_shape conv_shortcut_shape(const conv_shape *s, int cin, int cin2) {
    return {1, cin, cin2, s->cout, s->type};
}

// Bytes of a shortcut's packed weights.
SPIRA_API size_t conv_shortcut_packed(const conv_shape *s, int cin, int cin2) {
    const conv_shape own = conv_shortcut_shape(s, cin, cin2);
    return (size_t)hopper_weights(&own, hopper_part_whole) * conv_lane_bytes;
}

SPIRA_API status conv_shortcut_check(const conv_shape *s, int cin, int cin2) {
    SPIRA_TRY(conv_shape_check(s));
    const conv_shape shape = conv_shortcut_shape(s, cin, cin2);
    SPIRA_TRY(conv_shape_check(&shape));
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    SPIRA_REQUIRE(conv_shortcut_takes(s, &d), status_unsupported, "shape (with a shortcut)", 0);
    return status_success();
}

// Bytes of a shortcut's packed weights on the current device.
//
// inputs   shape: of the convolution that it is added to; cin, cin2: of the shortcut
SPIRA_API status conv_shortcut_bytes(const conv_shape *shape, int cin, int cin2, size_t *bytes) {
    SPIRA_TRY(conv_shortcut_check(shape, cin, cin2));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = conv_shortcut_packed(shape, cin, cin2);
    return status_success();
}

// Packs a shortcut's weights, for the convolution that it is added to.
//
// inputs   weight [cin + cin2, cout] fp32
// outputs  packed: conv_shortcut_bytes, aligned to 256; see conv_weights_pack
// errors   null pointers, sizes, alignment; status_unsupported where conv_shortcut_takes says no
// Asynchronous.
SPIRA_API status conv_shortcut_pack(const conv_shape *shape, int cin, int cin2, const float *weight,
                                    void *packed, size_t packed_bytes, cudaStream_t stream) {
    size_t bytes;
    SPIRA_TRY(conv_shortcut_bytes(shape, cin, cin2, &bytes));
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_TRY(workspace_check(packed, packed_bytes, bytes));
    const conv_shape s = conv_shortcut_shape(shape, cin, cin2);
    if (s.type == numeric_f16) {
        conv_pack_hopper<__half>(&s, hopper_part_whole, weight, packed, stream);
    } else {
        conv_pack_hopper<__nv_bfloat16>(&s, hopper_part_whole, weight, packed, stream);
    }
    return status_of_launch("conv_shortcut_pack");
}

// ---- running ------------------------------------------------------------------------------------

SPIRA_API status conv_pointer_check(const void *p, int element, const char *name) {
    SPIRA_REQUIRE(p, status_null_pointer, name, 0);
    SPIRA_REQUIRE((uintptr_t)p % (unsigned)element == 0, status_alignment, name, element);
    return status_success();
}

// Bias, scale and shift of an epilogue or a shortcut: null, or aligned. name: of the three.
SPIRA_API status conv_vectors_check(const float *bias, const float *scale, const float *shift,
                                    const char *name) {
    const float *const vectors[] = {bias, scale, shift};
    for (const float *vector : vectors) {
        SPIRA_REQUIRE((uintptr_t)vector % sizeof(float) == 0, status_alignment, name,
                      sizeof(float));
    }
    return status_success();
}

SPIRA_API status conv_check_shortcut(const conv_args *a, const device_info *d) {
    const conv_shortcut *s = a->shortcut;
    const conv_shape shape = conv_shortcut_shape(&a->shape, s->cin, s->cin2);
    SPIRA_TRY(conv_shape_check(&shape));
    SPIRA_REQUIRE(conv_shortcut_takes(&a->shape, d), status_unsupported, "shortcut", 0);
    SPIRA_REQUIRE(!a->sums, status_unsupported, "shortcut (with sums)", 0);
    int element = numeric_size(shape.type);
    SPIRA_TRY(conv_pointer_check(s->in, element, "shortcut.in"));
    if (s->cin2) {
        SPIRA_TRY(conv_pointer_check(s->in2, element, "shortcut.in2"));
    }
    SPIRA_TRY(conv_pointer_check(s->weights, workspace_alignment, "shortcut.weights"));
    SPIRA_TRY(conv_vectors_check(s->bias, s->scale, s->shift, "shortcut (bias, scale, shift)"));
    SPIRA_REQUIRE(a->out != s->in && (!s->cin2 || a->out != s->in2), status_unsupported,
                  "out (overlaps an input of the shortcut)", 0);
    return status_success();
}

SPIRA_API status conv_check(const conv_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_TRY(epilogue_check(&a->epilogue));
    int element = numeric_size(a->shape.type);
    SPIRA_TRY(conv_pointer_check(a->in, element, "in"));
    if (a->shape.cin2) {
        SPIRA_TRY(conv_pointer_check(a->in2, element, "in2"));
    }
    SPIRA_TRY(conv_pointer_check(a->out, element, "out"));
    if (a->epilogue.residual) {
        SPIRA_TRY(conv_pointer_check(a->epilogue.residual, element, "epilogue.residual"));
    }
    SPIRA_TRY(conv_pointer_check(a->weights, workspace_alignment, "weights"));
    const conv_epilogue &e = a->epilogue;
    SPIRA_TRY(conv_vectors_check(e.bias, e.scale, e.shift, "epilogue (bias, scale, shift)"));
    SPIRA_REQUIRE(a->count, status_null_pointer, "count", 0);
    SPIRA_REQUIRE(a->capacity >= 1 && a->capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  a->capacity);
    SPIRA_REQUIRE((uintptr_t)a->sums % sizeof(float4) == 0, status_alignment, "sums",
                  sizeof(float4));
    SPIRA_REQUIRE(a->out != a->in && (!a->shape.cin2 || a->out != a->in2) && a->out != a->sums,
                  status_unsupported, "out (overlaps an input)", 0);
    return status_success();
}

// The layout that the kernel reads is there and large enough; the identity has none.
SPIRA_API status conv_check_layout(const conv_args *a, conv_kernel kernel) {
    int volume = a->shape.volume;
    if (volume == 1 && !a->layout && !a->order) {
        return status_success();
    }
    if (conv_kernel_form(kernel) == conv_form_order) {
        SPIRA_REQUIRE(a->order, status_null_pointer, "order (see conv_form_of)", volume);
        SPIRA_TRY(order_layout_check(a->order, volume, a->capacity));
        return kernel == conv_kernel_narrow ? narrow_layout_check(a->order) : status_success();
    }
    SPIRA_REQUIRE(a->layout, status_null_pointer, "layout (see conv_form_of)", volume);
    return tile_layout_check(a->layout, volume, a->capacity);
}

// Bytes of scratch for conv: none, whatever computes the layer.
SPIRA_API status conv_workspace(const conv_args *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&args->shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = 0;
    return status_success();
}

SPIRA_API bool conv_aligned(const void *p, int64_t row_elements, int element, int64_t bytes) {
    return (uintptr_t)p % (uintptr_t)bytes == 0 && row_elements * element % bytes == 0;
}

// The identity is a layout without arrays.
SPIRA_API tile_layout conv_layout(const tile_layout *layout) {
    tile_layout identity = {nullptr, nullptr, nullptr, nullptr, 0, 1, 0};
    return layout ? *layout : identity;
}

SPIRA_API status conv_run_exact(const conv_args *a, cudaStream_t stream) {
    conv_exact_params p;
    p.in = a->in;
    p.in2 = a->in2;
    p.residual = a->epilogue.residual;
    p.weights = (const float *)a->weights;
    p.out = a->out;
    p.layout = conv_layout(a->layout);
    p.count = a->count;
    p.capacity = a->capacity;
    p.epilogue = a->epilogue;
    p.sums = a->sums;
    p.shape = a->shape;
    return element_dispatch(a->shape.type,
                            [&](auto e) { return conv_exact_launch<decltype(e)>(p, stream); });
}

// The ways worth trying to cut a layer. Returns how many there are.
//
// outputs  sizes [conv_sizes_most]
SPIRA_API int conv_sizes_list(const conv_shape *s, int rows, const device_info *d,
                              conv_sizes *sizes) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow   ? narrow_sizes_list(sizes)
           : kernel == conv_kernel_hopper ? hopper_sizes_list(s, d, sizes)
                                          : conv_tensor_sizes_list(s, rows, d, sizes);
}

SPIRA_API bool conv_sizes_fit(const conv_shape *s, int rows, const device_info *d,
                              const conv_sizes *size) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow   ? narrow_sizes_fit(size)
           : kernel == conv_kernel_hopper ? hopper_sizes_fit(s, d, size)
                                          : conv_tensor_sizes_fit(s, rows, d, size);
}

// The choice without measurements.
SPIRA_API conv_sizes conv_sizes_choose(const conv_shape *s, int rows, int32_t capacity,
                                       const device_info *d) {
    const conv_kernel kernel = conv_kernel_of(s, d);
    return kernel == conv_kernel_narrow   ? narrow_sizes_choose(s, capacity, d)
           : kernel == conv_kernel_hopper ? hopper_sizes_choose(s, capacity, d)
                                          : conv_tensor_sizes_choose(s, rows, capacity, d);
}

// What does not depend on the layout, nor on how the work is cut.
SPIRA_API conv_tensor_params conv_params_of(const conv_args *a) {
    const conv_shape *s = &a->shape;
    int element = numeric_size(s->type);
    conv_tensor_params p = {};
    p.in = a->in;
    p.in2 = a->in2;
    p.weights = a->weights;
    p.residual = a->epilogue.residual;
    p.out = a->out;
    p.count = a->count;
    p.capacity = a->capacity;
    p.epilogue = a->epilogue;
    p.sums = a->sums;
    p.volume = s->volume;
    p.cin = s->cin;
    p.cin2 = s->cin2;
    p.cout = s->cout;
    p.chunks1 = conv_chunks(s->cin, s->type);
    p.chunks = conv_shape_chunks(s);
    p.wide_in = conv_aligned(a->in, s->cin, element, conv_lane_bytes);
    p.wide_in2 = !s->cin2 || conv_aligned(a->in2, s->cin2, element, conv_lane_bytes);
    p.programmatic = a->programmatic;
    p.wide_out = conv_aligned(a->out, s->cout, element, 4 * element) &&
                 conv_aligned(p.residual, s->cout, element, 4 * element);
    return p;
}

// The identity is an ordered layout without arrays, too.
SPIRA_API order_layout conv_order(const order_layout *order) {
    return order ? *order : order_layout{nullptr, nullptr, nullptr, nullptr, 0, 1};
}

SPIRA_API status conv_run_narrow(const conv_args *a, const device_info *d, cudaStream_t stream) {
    conv_tensor_params p = conv_params_of(a);
    p.order = conv_order(a->order);
    p.multiprocessors = d->multiprocessors;
    p.size = a->sizes ? *a->sizes : narrow_sizes_choose(&a->shape, a->capacity, d);
    SPIRA_REQUIRE(narrow_sizes_fit(&p.size), status_unsupported, "sizes", 0);
    return a->shape.type == numeric_f16 ? narrow_run<__half>(p, stream)
                                        : narrow_run<__nv_bfloat16>(p, stream);
}

SPIRA_API conv_tensor_shortcut conv_shortcut_params(const conv_args *a) {
    const conv_shortcut *s = a->shortcut;
    const conv_shape shape = conv_shortcut_shape(&a->shape, s->cin, s->cin2);
    const int element = numeric_size(shape.type);
    conv_tensor_shortcut p = {};
    p.in = s->in;
    p.in2 = s->in2;
    p.weights = s->weights;
    p.bias = s->bias;
    p.scale = s->scale;
    p.shift = s->shift;
    p.cin = s->cin;
    p.cin2 = s->cin2;
    p.parts = (int)ceil_div(hopper_row_bytes(&shape), hopper_part_whole);
    p.wide_in = conv_aligned(s->in, s->cin, element, conv_lane_bytes);
    p.wide_in2 = !s->cin2 || conv_aligned(s->in2, s->cin2, element, conv_lane_bytes);
    return p;
}

SPIRA_API status conv_run_hopper(const conv_args *a, const device_info *d, cudaStream_t stream) {
    const conv_shape *s = &a->shape;
    conv_tensor_params p = conv_params_of(a);
    p.order = conv_order(a->order);
    p.size = a->sizes ? *a->sizes : hopper_sizes_choose(s, a->capacity, d);
    SPIRA_REQUIRE(hopper_sizes_fit(s, d, &p.size), status_unsupported, "sizes", 0);
    p.part = hopper_part_bytes(s);
    p.chunks = hopper_parts(s);
    if (a->shortcut) {
        p.shortcut = conv_shortcut_params(a);
    }
    return s->type == numeric_f16 ? hopper_run<__half>(p, d, stream)
                                  : hopper_run<__nv_bfloat16>(p, d, stream);
}

SPIRA_API status conv_run_tensor(const conv_args *a, const device_info *d, cudaStream_t stream) {
    const conv_shape *s = &a->shape;
    conv_tensor_params p = conv_params_of(a);
    p.layout = conv_layout(a->layout);
    p.rows = a->layout ? a->layout->rows : tile_rows(1);
    p.size = a->sizes ? *a->sizes : conv_tensor_sizes_choose(s, p.rows, a->capacity, d);
    SPIRA_REQUIRE(conv_tensor_sizes_fit(s, p.rows, d, &p.size), status_unsupported, "sizes", 0);
    p.slices = conv_slices(s->cout) / p.size.slices;
    p.size.depth = conv_depth(p.chunks);
    return element_dispatch(s->type,
                            [&](auto e) { return conv_tensor_run<decltype(e)>(p, stream); });
}

// By the kernel that the weights are packed for.
SPIRA_API status conv_run(const conv_args *a, conv_kernel kernel, const device_info *d,
                          cudaStream_t stream) {
    return kernel == conv_kernel_narrow   ? conv_run_narrow(a, d, stream)
           : kernel == conv_kernel_hopper ? conv_run_hopper(a, d, stream)
           : kernel == conv_kernel_tensor ? conv_run_tensor(a, d, stream)
                                          : conv_run_exact(a, stream);
}

// Sparse convolution with a fused epilogue, output-stationary (Spira paper: dual dataflow).
//
// inputs   args: see conv_args; features, residual and out are aligned to their element; *count is
//          what it was when the layout was built
// outputs  args->out; rows from *count on are not written. The residual may be `out` itself,
//          the inputs may not.
// hybrid   With `sums` the offsets of the map are added to what another kernel has left of the
//          others (conv_hybrid.cuh): rows up to *count, channels up to cout are read. `out` may
//          not be these sums.
// shortcut With `shortcut` its sums are added in fp32 too, before the one rounding: the others are
//          multiplied by scale / scale' first and all of them by scale' at the end. Where |scale'|
//          is less than 2^-60 |scale| it counts as that much. Not with `sums`
// early    With `early`, the kernels that read the ordered layout begin while the kernel before it
//          on the stream still runs; others wait for that one. See conv_args.programmatic.
// errors   null pointers, sizes, alignment, a layout of another volume or a smaller capacity,
//          sizes that the layer or the device does not allow
// Asynchronous; bit-identical from run to run: every sum is added up in the order of the tile's
// list, or of the offsets. Sums are fp32 and are rounded once. Another capacity, another GPU, other
// sizes or another alignment of out and residual may add in another order: with `split` an output's
// sum has so many parts, and more than 128 bytes of input channels are added part by part. Layers
// of fp16 and bf16 with few channels (narrow_takes) and, on sm_90a, with enough of them
// (hopper_takes) have kernels of their own, and read the ordered layout. cost     see
// bench/README.md; work is proportional to the groups of 16 pairs, or to the offsets
//          of the row blocks
SPIRA_API status conv(const conv_args *args, void *scratch, size_t scratch_bytes,
                      cudaStream_t stream) {
    SPIRA_TRY(conv_check(args));
    size_t needed;
    SPIRA_TRY(conv_workspace(args, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    conv_kernel kernel = conv_kernel_of(&args->shape, &d);
    SPIRA_TRY(conv_check_layout(args, kernel));
    if (args->shortcut) {
        SPIRA_TRY(conv_check_shortcut(args, &d));
    }
    return conv_run(args, kernel, &d, stream);
}

} // namespace spira

#endif
