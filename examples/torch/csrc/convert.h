// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/convert.h: between PyTorch's arguments and spira's structs; errors.
//
// The operators take word layouts, kernels and grids as lists of ints, because schemas have no
// structs:
//   layout  18 ints: bits, width x y z, width_batch, shift_x, shift_y, shift_b, bias x y z,
//           lo x y z, hi x y z, batches
//   kernel  11 ints: size x y z, dilation x y z, stride x y z, transposed, same (the outputs are
//           the source)
//   grid    9 ints: origin x y z, stride x y z, extent x y z
#ifndef SPIRA_TORCH_CONVERT_H
#define SPIRA_TORCH_CONVERT_H

#include "gpu.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#ifdef SPIRA_TORCH_CUDA
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#endif
#include <torch/library.h>

namespace spira_torch {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

enum { layout_ints = 18, kernel_ints = 11, grid_ints = 9 };

// Flags of the operators on features.
enum : int64_t {
    flag_padded = 1,    // rows from the count on must become zero
    flag_tf32 = 2,      // fp32 features are rounded to tf32
    flag_exchanged = 4, // the pair lists are those of the other direction
    flag_again = 8,     // autograd makes rows again rather than keep them (autograd.cpp)
    flag_groups = 20,   // the bits from here on: groups of a convolution; 0: one
};

// ---- errors -------------------------------------------------------------------------------------

// The text of an error. PyTorch formats numbers by a C++ stream. Where libstdc++ is linked into
// this library statically, that is a segmentation fault: its locales are not those of PyTorch's.
struct message {
    char text[512];
    size_t size;
};

template <typename... P>
inline void message_print(message *m, const char *format, P... parts) {
    const size_t room = sizeof m->text - m->size;
    const int more = snprintf(m->text + m->size, room, format, parts...);
    m->size += std::min((size_t)std::max(more, 0), room - 1);
}

inline void message_add(message *m, const char *text) {
    message_print(m, "%s", text);
}

inline void message_add(message *m, int64_t number) {
    message_print(m, "%lld", (long long)number);
}

inline void message_add(message *m, at::ScalarType type) {
    message_print(m, "%s", c10::toString(type));
}

inline void message_add(message *m, at::Device device) {
    message_print(m, "%s", device.str().c_str());
}

inline void message_add(message *m, IntArrayRef sizes) {
    message_add(m, "[");
    for (size_t i = 0; i < sizes.size(); ++i) {
        message_print(m, i ? ", %lld" : "%lld", (long long)sizes[i]);
    }
    message_add(m, "]");
}

// Raises ValueError. parts: strings, numbers, sizes, types, devices.
template <typename... P>
[[noreturn]] void value_error(const P &...parts) {
    message m = {};
    (message_add(&m, parts), ...);
    C10_THROW_ERROR(ValueError, std::string(m.text));
}

#define SPIRA_CHECK(condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ::spira_torch::value_error(__VA_ARGS__);                                               \
        }                                                                                          \
    } while (0)

[[noreturn]] inline void not_implemented(const char *text) {
    C10_THROW_ERROR(NotImplementedError, std::string(text));
}

[[noreturn]] inline void without_cuda() {
    not_implemented("spira was built without CUDA");
}

// Raises a failed status as ValueError, an error of CUDA as RuntimeError.
inline void require(spira::status s) {
    if (spira::status_failed(s)) {
        message m = {};
        message_add(&m, s.code == spira::status_cuda ? "spira: " : "");
        spira::status_text(s, m.text + m.size, sizeof m.text - m.size);
        if (s.code == spira::status_cuda) {
            C10_THROW_ERROR(Error, std::string(m.text));
        }
        C10_THROW_ERROR(ValueError, std::string(m.text));
    }
}

// An argument is on the device of another one.
inline void require_device(const Tensor &t, const char *name, const Tensor &other,
                           const char *of_other) {
    SPIRA_CHECK(t.device() == other.device(), name, ": on ", t.device(), ", but ", of_other,
                " is on ", other.device());
}

inline void require_type(const Tensor &t, const char *name, at::ScalarType type) {
    SPIRA_CHECK(t.scalar_type() == type, name, ": ", type, " expected, got ", t.scalar_type());
}

// ---- structs ------------------------------------------------------------------------------------

inline spira::triple triple_at(IntArrayRef v, size_t i) {
    return spira::triple_make((int)v[i], (int)v[i + 1], (int)v[i + 2]);
}

inline spira::word_layout layout_of(IntArrayRef v) {
    SPIRA_CHECK(v.size() == layout_ints, "layout: ", layout_ints, " ints expected");
    spira::word_layout l = {};
    l.bits = (int)v[0];
    l.width = triple_at(v, 1);
    l.width_batch = (int)v[4];
    l.shift_x = (int)v[5];
    l.shift_y = (int)v[6];
    l.shift_b = (int)v[7];
    l.bias = triple_at(v, 8);
    l.lo = triple_at(v, 11);
    l.hi = triple_at(v, 14);
    l.batches = (int)v[17];
    return l;
}

inline std::vector<int64_t> layout_list(const spira::word_layout &l) {
    return {l.bits,    l.width.x, l.width.y, l.width.z, l.width_batch, l.shift_x,
            l.shift_y, l.shift_b, l.bias.x,  l.bias.y,  l.bias.z,      l.lo.x,
            l.lo.y,    l.lo.z,    l.hi.x,    l.hi.y,    l.hi.z,        l.batches};
}

struct kernel_arg {
    spira::kernel_shape shape;
    bool same;
    int volume;
};

inline kernel_arg kernel_of(IntArrayRef v) {
    SPIRA_CHECK(v.size() == kernel_ints || v.size() == kernel_ints - 1, "kernel: ", kernel_ints,
                " ints expected");
    kernel_arg k = {};
    k.shape.size = triple_at(v, 0);
    k.shape.dilation = triple_at(v, 3);
    k.shape.stride = triple_at(v, 6);
    k.shape.transposed = v[9] != 0;
    k.same = v.size() == kernel_ints && v[10] != 0;
    require(spira::kernel_check(&k.shape));
    k.volume = spira::kernel_volume(&k.shape);
    return k;
}

// The kernel of the other direction.
inline kernel_arg kernel_reversed(kernel_arg k) {
    k.shape.transposed = !k.shape.transposed;
    return k;
}

inline spira::numeric numeric_of(const Tensor &t, int64_t flags, const char *name) {
    switch (t.scalar_type()) {
    case at::kFloat:
        return flags & flag_tf32 ? spira::numeric_tf32 : spira::numeric_f32;
    case at::kHalf:
        return spira::numeric_f16;
    case at::kBFloat16:
        return spira::numeric_bf16;
    default:
        value_error(name, ": ", t.scalar_type(), "; fp32, fp16 and bf16 are supported");
    }
}

inline spira::activation activation_of(int64_t act) {
    SPIRA_CHECK(act >= 0 && act < spira::activation_count && act != spira::activation_leaky,
                "act: ", act);
    return (spira::activation)act;
}

// A number of rows as spira takes it.
inline int32_t rows_of(int64_t rows, const char *name) {
    SPIRA_CHECK(rows >= 0 && rows <= INT32_MAX / 2, name, ": ", rows,
                " rows; fewer than 2^30 are supported");
    return (int32_t)rows;
}

// ---- tensors ------------------------------------------------------------------------------------

inline at::TensorOptions options_of(const Tensor &like, at::ScalarType type) {
    return at::TensorOptions().device(like.device()).dtype(type);
}

// Without the dispatcher: a layer makes ten tensors, and at::empty costs more than the allocator.
inline Tensor empty_like(const Tensor &like, at::ScalarType type, IntArrayRef size) {
#ifdef SPIRA_TORCH_CUDA
    if (like.is_cuda()) {
        return Tensor(at::detail::empty_cuda(size, type, like.device(), std::nullopt));
    }
#endif
    return Tensor(at::detail::empty_cpu(size, type, false, std::nullopt));
}

inline Tensor empty_as(const Tensor &like) {
    return empty_like(like, like.scalar_type(), like.sizes());
}

inline Tensor empty_strided_like(const Tensor &like, at::ScalarType type, IntArrayRef size,
                                 IntArrayRef stride) {
#ifdef SPIRA_TORCH_CUDA
    if (like.is_cuda()) {
        return Tensor(at::detail::empty_strided_cuda(size, stride, type, like.device()));
    }
#endif
    return Tensor(at::detail::empty_strided_cpu(size, stride, type, false));
}

// The same tensor where it has the type: at::to is a call of the dispatcher even then.
inline Tensor as_type(const Tensor &t, at::ScalarType type) {
    return t.scalar_type() == type ? t : t.to(type);
}

inline Tensor floats(const Tensor &t) {
    return as_type(t, at::kFloat).contiguous();
}

// Scratch of PyTorch's allocator, on the device of `like`, which is the current one; aligned to 256
// bytes.
struct scratch {
    c10::DataPtr bytes; // not a tensor, which costs the host more than the allocator
    void *base;
    size_t size;
};

inline scratch scratch_of([[maybe_unused]] const Tensor &like, size_t size) {
    scratch s;
    const size_t alignment = spira::workspace_alignment;
    c10::Allocator *allocator = c10::GetAllocator(at::kCPU);
#ifdef SPIRA_TORCH_CUDA
    allocator = like.is_cuda() ? c10::cuda::CUDACachingAllocator::get() : allocator;
#endif
    s.bytes = allocator->allocate(size + alignment);
    s.base = (void *)spira::round_up((int64_t)(uintptr_t)s.bytes.get(), (int64_t)alignment);
    s.size = size;
    return s;
}

// Runs with scratch: bytes(&size), then run(base, size).
template <typename B, typename R>
spira::status with_scratch(const Tensor &like, const B &bytes, const R &run) {
    size_t size;
    SPIRA_TRY(bytes(&size));
    const scratch s = scratch_of(like, size);
    return run(s.base, s.size);
}

// A set as arguments: words and count, checked against each other and the layout.
inline set_ref set_of(const Tensor &words, const Tensor &count, const spira::word_layout &layout,
                      const char *name) {
    require_type(words, name, layout.bits == 32 ? at::kInt : at::kLong);
    SPIRA_CHECK(words.dim() == 1 && words.is_contiguous(), name,
                ": contiguous [capacity] expected");
    require_type(count, "count", at::kInt);
    require_device(count, "count", words, name);
    SPIRA_CHECK(count.numel() == 1, "count: one int expected");
    set_ref s = {};
    s.words = words.data_ptr();
    s.count = count.data_ptr<int32_t>();
    s.capacity = rows_of(words.size(0), name);
    return s;
}

// Words of a set that an operator makes.
inline Tensor words_new(const Tensor &like, const spira::word_layout &layout, int64_t capacity) {
    return empty_like(like, layout.bits == 32 ? at::kInt : at::kLong, {capacity});
}

// What a device_status is as a tensor, and one int behind it (sets.cpp).
enum { status_ints = sizeof(spira::device_status) / sizeof(int32_t) };

inline Tensor status_new(const Tensor &like) {
    return at::zeros({status_ints + 1}, options_of(like, at::kInt));
}

inline spira::device_status *status_at(const Tensor &status) {
    return (spira::device_status *)status.data_ptr<int32_t>();
}

// Rows [0, min(count, capacity)) on the host: CPU tensors only.
inline int32_t count_host(const Tensor &count, int64_t capacity) {
    return (int32_t)std::max<int64_t>(std::min<int64_t>(*count.data_ptr<int32_t>(), capacity), 0);
}

} // namespace spira_torch

#endif
