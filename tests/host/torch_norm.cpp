// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/torch_norm.cpp: the batch norm of the PyTorch package
// (examples/torch/csrc/cuda/norm.cu), emulated on the host (emulate_numeric.h) and compared with
// sums in double.
#include "../support/devices.h"
#include "../support/emulate_numeric.h"

#include "../support/problems.h"

static inline float rsqrtf(float f) {
    return 1.0f / sqrtf(f);
}

namespace cooperative_groups {

struct grid_group {
    void sync() const {
        spira::cluster_sync();
    }
};

static inline grid_group this_grid() {
    return {};
}

} // namespace cooperative_groups

// The package's namespace has the emulator's shared memory, too.
namespace spira_torch {
namespace gpu {
extern thread_local char hopper_dynamic[] __asm__("_ZN5spira14hopper_dynamicE");
} // namespace gpu
} // namespace spira_torch

#define norm_memory hopper_dynamic
#define SPIRA_TORCH_CUDA
#include "../../examples/torch/csrc/cuda/norm.cu"

using namespace spira;
using namespace spira_torch;
using namespace problems;

namespace {

struct norm_case {
    int rows, capacity, channels;
    bool counted, residual, relu, affine;
    int off;      // elements that all arrays are moved by: narrow accesses
    int gpu;      // multiprocessors: thread blocks that wait for one another
    bool crowded; // little shared memory: thread blocks of fewer threads, each with more rows
};

typedef std::vector<float> floats;

// Everything that the kernels read and write, as floats.
struct norm_data {
    floats x, residual, grad, weight, bias, mean, invstd, running_mean, running_var;
    floats y, grad_x, grad_residual, weight_grad, bias_grad;
    int64_t batches;
};

template <typename E>
floats random_values(random_state *random, numeric type, size_t count, float scale, float shift) {
    floats v(count + 1);
    reference_random_values(random, type, 1, (int64_t)v.size(), v.data());
    for (float &f : v) {
        f = element_to_float(element_from_float<E>(f * scale + shift));
    }
    v.resize(count);
    return v;
}

template <typename E>
norm_data data_of(const norm_case *c, random_state *random) {
    const size_t n = (size_t)(c->capacity * c->channels), channels = (size_t)c->channels;
    norm_data d = {};
    d.x = random_values<E>(random, numeric_f16, n, 2, 0.5f);
    d.residual = random_values<E>(random, numeric_f16, n, 1, 0);
    d.grad = random_values<E>(random, numeric_f16, n, 1, 0);
    for (size_t i = (size_t)(c->rows * c->channels); i < n; ++i) { // padding is not read
        d.x[i] = d.residual[i] = d.grad[i] = NAN;
    }
    d.weight = random_values<float>(random, numeric_f32, channels, 0.5f, 1);
    d.bias = random_values<float>(random, numeric_f32, channels, 0.5f, 0);
    d.running_mean = random_values<float>(random, numeric_f32, channels, 1, 0);
    d.running_var = random_values<float>(random, numeric_f32, channels, 0.1f, 1);
    return d;
}

// The same in double. y: as the kernel wrote it, whose sign the gradient follows.
void judge(const norm_case *c, norm_data *d, const floats &y, float momentum, float eps) {
    const size_t n = (size_t)(c->capacity * c->channels), channels = (size_t)c->channels;
    for (floats *f : {&d->y, &d->grad_x, &d->grad_residual}) {
        f->assign(n, 0.0f);
    }
    for (floats *f : {&d->weight_grad, &d->bias_grad, &d->mean, &d->invstd}) {
        f->assign(channels, 0.0f);
    }
    const double rows = std::max(c->rows, 1);
    for (size_t k = 0; k < channels; ++k) {
        double sum = 0, square = 0, ones = 0, normals = 0;
        const auto each = [&](auto body) {
            for (size_t r = 0; r < (size_t)c->rows; ++r) {
                body(r * channels + k);
            }
        };
        each([&](size_t i) { sum += d->x[i]; });
        const double mean = sum / rows;
        each([&](size_t i) { square += (d->x[i] - mean) * (d->x[i] - mean); });
        const double invstd = 1 / sqrt(square / rows + eps);
        const double weight = c->affine ? d->weight[k] : 1, bias = c->affine ? d->bias[k] : 0;
        d->mean[k] = (float)mean;
        d->invstd[k] = (float)invstd;
        const auto own = [&](size_t i) { return c->relu && !(y[i] > 0) ? 0.0f : d->grad[i]; };
        each([&](size_t i) {
            const double v = (d->x[i] - mean) * invstd * weight + bias +
                             (c->residual ? (double)d->residual[i] : 0);
            d->y[i] = (float)(c->relu ? std::max(v, 0.0) : v);
            ones += own(i);
            normals += own(i) * (d->x[i] - mean) * invstd;
        });
        each([&](size_t i) {
            const double normal = (d->x[i] - mean) * invstd;
            d->grad_x[i] = (float)(weight * invstd * (own(i) - (ones + normal * normals) / rows));
            d->grad_residual[i] = own(i);
        });
        d->bias_grad[k] = (float)ones;
        d->weight_grad[k] = (float)normals;
        if (c->rows) {
            d->running_mean[k] += momentum * ((float)mean - d->running_mean[k]);
            const double unbiased = square / std::max(rows - 1, 1.0);
            d->running_var[k] += momentum * ((float)unbiased - d->running_var[k]);
        }
    }
    d->batches += 1;
}

// Arrays of rows in the format, behind `off` elements.
template <typename E>
E *rows_put(const norm_case *c, const floats &values) {
    E *to = guarded_new<E>((int64_t)values.size() + c->off) + c->off;
    for (size_t i = 0; i < values.size(); ++i) {
        to[i] = element_from_float<E>(values[i]);
    }
    return to;
}

template <typename E>
floats rows_get(const E *from, size_t count) {
    floats to(count);
    for (size_t i = 0; i < count; ++i) {
        to[i] = element_to_float(from[i]);
    }
    return to;
}

float *vector_put(const floats &values) {
    float *to = guarded_new<float>((int64_t)values.size());
    std::copy(values.begin(), values.end(), to);
    return to;
}

// The largest difference, of the largest value.
double error_of(const floats &got, const floats &wanted) {
    double error = 0, scale = 1e-3;
    for (size_t i = 0; i < wanted.size(); ++i) {
        error = std::max(error, got[i] == got[i] ? fabs((double)got[i] - wanted[i]) : INFINITY);
        scale = std::max(scale, fabs((double)wanted[i]));
    }
    return error / scale;
}

template <typename E>
bool agrees(const norm_case *c, numeric type, random_state *random) {
    const float momentum = 0.1f, eps = 1e-3f;
    const size_t n = (size_t)(c->capacity * c->channels), channels = (size_t)c->channels;
    const device_info device = device_made(90, c->gpu, c->crowded ? 49152 : 232448, true);
    const floats none(n, -1.0f), nothing(channels, -1.0f);
    norm_data d = data_of<E>(c, random);
    int32_t count = c->rows;
    int64_t batches = 0;
    norm_job j = {};
    j.type = type;
    j.x = rows_put<E>(c, d.x);
    j.count = c->counted ? &count : nullptr;
    j.capacity = c->capacity;
    j.channels = c->channels;
    j.weight = c->affine ? vector_put(d.weight) : nullptr;
    j.bias = c->affine ? vector_put(d.bias) : nullptr;
    j.relu = c->relu;
    j.residual = c->residual ? rows_put<E>(c, d.residual) : nullptr;
    E *const y = rows_put<E>(c, none), *const again = rows_put<E>(c, none);
    j.y = y;
    j.running_mean = vector_put(d.running_mean);
    j.running_var = vector_put(d.running_var);
    j.batches = &batches;
    j.momentum = momentum;
    j.eps = eps;
    j.mean = vector_put(nothing);
    j.invstd = vector_put(nothing);
    float *slots = guarded_new<float>(gpu::norm_slots(&device, c->channels));
    CHECK_OK(gpu::norm(&device, &j, slots, nullptr));
    const floats got = rows_get(y, n);
    const floats running_mean(j.running_mean, j.running_mean + channels);
    const floats running_var(j.running_var, j.running_var + channels);
    j.y = again;
    CHECK_OK(gpu::norm_apply(&device, &j, nullptr));
    bool same = memcmp(y, again, n * sizeof(E)) == 0;
    j.y = nullptr;
    j.residual = nullptr;
    j.grad = rows_put<E>(c, d.grad);
    j.output = c->relu && c->residual ? y : nullptr;
    E *const grad_x = rows_put<E>(c, none), *const grad_residual = rows_put<E>(c, none);
    j.grad_x = grad_x;
    j.grad_residual = c->residual ? grad_residual : nullptr;
    j.weight_grad = vector_put(nothing);
    j.bias_grad = vector_put(nothing);
    CHECK_OK(gpu::norm_backward(&device, &j, slots, nullptr));
    j.grad_x = again; // the threads in another order, and nobody wants the residual's gradient
    j.grad_residual = nullptr;
    emulate::seed += 1000;
    CHECK_OK(gpu::norm_backward(&device, &j, slots, nullptr));
    same = same && memcmp(grad_x, again, n * sizeof(E)) == 0;
    judge(c, &d, got, momentum, eps);
    const double bound = type == numeric_f32 ? 1e-5 : type == numeric_f16 ? 1e-3 : 8e-3;
    const auto of = [&](const float *p) { return floats(p, p + channels); };
    bool good = same && error_of(got, d.y) < bound &&
                error_of(rows_get(grad_x, n), d.grad_x) < bound &&
                error_of(of(j.mean), d.mean) < 1e-5 && error_of(of(j.invstd), d.invstd) < 1e-4 &&
                error_of(running_mean, d.running_mean) < 1e-5 &&
                error_of(running_var, d.running_var) < 1e-4 &&
                error_of(of(j.weight_grad), d.weight_grad) < 1e-4 &&
                error_of(of(j.bias_grad), d.bias_grad) < 1e-4 && batches == 1;
    if (c->residual) {
        good = good && error_of(rows_get(grad_residual, n), d.grad_residual) == 0;
    }
    guarded_finish();
    return good;
}

} // namespace

TEST(torch_norm_emulated) {
    const int widths[] = {1, 3, 4, 8, 20, 32, 96, 300, 1024, 1100};
    const int counts[] = {0, 1, 2, 7, 64, 65, 300, 1000};
    for (int seed = 0; seed < (test_quick() ? 12 : 60); ++seed) {
        random_state random = random_make((uint64_t)seed);
        emulate::seed = (uint64_t)seed;
        norm_case c = {};
        c.channels = widths[random_int(&random, 0, 9)];
        c.rows = counts[random_int(&random, 0, c.channels > 100 ? 5 : 7)];
        c.counted = seed % 2;
        c.capacity = c.counted ? c.rows + random_int(&random, 1, 40) : c.rows;
        c.residual = seed / 2 % 2;
        c.relu = seed / 4 % 2;
        c.affine = random_int(&random, 0, 3);
        c.off = random_int(&random, 0, 2) ? 0 : 1;
        c.gpu = (int)random_int(&random, 1, 8);
        c.crowded = random_int(&random, 0, 1);
        const bool good = seed % 3 == 0   ? agrees<float>(&c, numeric_f32, &random)
                          : seed % 3 == 1 ? agrees<__half>(&c, numeric_f16, &random)
                                          : agrees<__nv_bfloat16>(&c, numeric_bf16, &random);
        if (!good) {
            printf("seed %d: %d of %d rows, %d channels, residual %d, relu %d, off %d, gpu %d, "
                   "crowded %d\n",
                   seed, c.rows, c.capacity, c.channels, c.residual, c.relu, c.off, c.gpu,
                   c.crowded);
        }
        CHECK(good);
    }
}

// Threads with fewer rows than they copy ahead, and with many more, by every way of the gradient.
TEST(torch_norm_few_and_many_rows_of_a_thread) {
    random_state random = random_make(2);
    for (int way = 0; way < 16; ++way) {
        norm_case c = {};
        c.channels = way & 8 ? 32 : 40;
        c.rows = 900;
        c.counted = true;
        c.capacity = 950;
        c.affine = true;
        c.crowded = way & 1;
        c.residual = way & 2;
        c.relu = way & 4;
        c.gpu = 1 + way % 3;
        CHECK(agrees<__half>(&c, numeric_f16, &random));
    }
}

// Thread blocks that do not wait for one another read sums that are not there, and threads that do
// not wait for their copies rows that are not there.
TEST(torch_norm_planted_errors_are_found) {
    random_state random = random_make(1);
    norm_case c = {};
    c.channels = 32;
    c.rows = c.capacity = 1000;
    c.gpu = 4;
    for (bool *skipped : {&emulate::meetings_skipped, &emulate::copies_skipped}) {
        CHECK(agrees<float>(&c, numeric_f32, &random));
        *skipped = true;
        CHECK(!agrees<float>(&c, numeric_f32, &random));
        *skipped = false;
    }
}

// A channel with an infinity has no variance, as in PyTorch, whatever ReLU follows; a result that
// is no number hands its gradient on. So what scales losses sees both.
TEST(torch_norm_hides_nothing) {
    const device_info device = device_made(90, 2, 232448, true);
    enum { rows = 9, channels = 4, all = rows * channels };
    for (bool relu : {false, true}) {
        norm_job j = {};
        float x[all], y[all], residual[all] = {}, grad[all], grad_x[all], grad_residual[all];
        float mean[channels], invstd[channels], running_mean[channels] = {}, sums[2][channels];
        float running_var[channels] = {1, 1, 1, 1};
        for (int i = 0; i < all; ++i) {
            x[i] = (float)(i * i % 7);
            grad[i] = 1;
        }
        x[5 * channels + 1] = INFINITY;
        residual[6 * channels + 2] = NAN;
        grad[6 * channels + 2] = NAN;
        j.type = numeric_f32;
        j.x = x;
        j.residual = residual;
        j.capacity = rows;
        j.channels = channels;
        j.relu = relu;
        j.y = y;
        j.mean = mean;
        j.invstd = invstd;
        j.running_mean = running_mean;
        j.running_var = running_var;
        j.momentum = 0.1f;
        j.eps = 1e-3f;
        std::vector<float> slots((size_t)gpu::norm_slots(&device, channels));
        CHECK_OK(gpu::norm(&device, &j, slots.data(), nullptr));
        CHECK(float_is_nan(invstd[1]) && float_is_nan(running_var[1]));
        CHECK(float_is_finite(invstd[0]) && float_is_finite(running_var[0]));
        for (int r = 0; r < rows; ++r) {
            CHECK(float_is_nan(y[r * channels + 1]) && float_is_finite(y[r * channels]));
            CHECK(float_is_nan(y[r * channels + 2]) == (r == 6));
        }
        j.y = nullptr;
        j.residual = nullptr;
        j.output = relu ? y : nullptr;
        j.grad = grad;
        j.grad_x = grad_x;
        j.grad_residual = grad_residual;
        j.bias_grad = sums[0];
        j.weight_grad = sums[1];
        CHECK_OK(gpu::norm_backward(&device, &j, slots.data(), nullptr));
        CHECK(float_is_nan(grad_residual[6 * channels + 2]) && float_is_nan(sums[0][2]));
        CHECK(float_is_finite(sums[0][0]) && float_is_finite(grad_x[0]));
    }
}
