// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/reference.h: what host and GPU tests compare with: random scenes, kernel maps by
// brute force, convolutions in double with a bound for each output. No CUDA here.
#ifndef SPIRA_TESTS_REFERENCE_H
#define SPIRA_TESTS_REFERENCE_H

#include "test.h"

#include "../../spira/conv.h"
#include "../../spira/map.h"
#include "../../spira/voxel.h"

#include <algorithm>
#include <math.h>
#include <unordered_map>
#include <vector>

// ---- shapes -------------------------------------------------------------------------------------

SPIRA_API spira::conv_shape shape_make(int volume, int cin, int cin2, int cout,
                                       spira::numeric type) {
    spira::conv_shape s = {};
    s.volume = volume;
    s.cin = cin;
    s.cin2 = cin2;
    s.cout = cout;
    s.type = type;
    return s;
}

// ---- scenes -------------------------------------------------------------------------------------

inline spira::word_need word_need_of(spira::triple lo, spira::triple hi, int batches,
                                     spira::triple stride, spira::triple reach) {
    spira::word_need need = {};
    need.lo = lo;
    need.hi = hi;
    need.batches = batches;
    need.stride = stride;
    need.reach = reach;
    return need;
}

// A layout for words of type W, whether or not the scene would fit fewer bits. Bounds inclusive.
template <typename W>
SPIRA_API spira::word_layout reference_layout(spira::triple lo, spira::triple hi, int batches,
                                              spira::triple stride, spira::triple reach) {
    const spira::word_need need = word_need_of(lo, hi, batches, stride, reach);
    spira::word_layout layout = {};
    CHECK_OK(spira::word_fit(&need, &layout));
    layout = sizeof(W) == 8 ? spira::word_widen(layout) : layout;
    CHECK_EQUAL(layout.bits, 8 * (int)sizeof(W));
    return layout;
}

// One axis of a lattice: the multiples of `stride` in [lo, hi].
struct reference_axis {
    int64_t first, stride, count;
};

SPIRA_API reference_axis reference_axis_make(int64_t lo, int64_t hi, int64_t stride) {
    int64_t first = -spira::floor_to(-lo, stride), last = spira::floor_to(hi, stride);
    return {first, stride, last < first ? 0 : (last - first) / stride + 1};
}

SPIRA_API int reference_axis_at(const reference_axis *a, int64_t i) {
    return (int)(a->first + i * a->stride);
}

// How many voxels reference_random_set has to choose from; a double, for large layouts.
SPIRA_API double reference_cells(const spira::word_layout *layout, spira::triple lo,
                                 spira::triple hi, spira::triple stride) {
    return (double)layout->batches * (double)reference_axis_make(lo.x, hi.x, stride.x).count *
           (double)reference_axis_make(lo.y, hi.y, stride.y).count *
           (double)reference_axis_make(lo.z, hi.z, stride.z).count;
}

// Random distinct voxels with coordinates in [lo, hi] that are multiples of `stride`, in all the
// layout's batches. Writes ascending words; returns how many: `wanted`, or all if there are fewer.
template <typename W>
SPIRA_API int32_t reference_random_set(random_state *r, const spira::word_layout *layout,
                                       spira::triple lo, spira::triple hi, spira::triple stride,
                                       int32_t wanted, W *words) {
    const reference_axis x = reference_axis_make(lo.x, hi.x, stride.x),
                         y = reference_axis_make(lo.y, hi.y, stride.y),
                         z = reference_axis_make(lo.z, hi.z, stride.z);
    double cells = reference_cells(layout, lo, hi, stride);
    if (cells <= 8.0 * wanted) { // each cell in its turn, with the chance that it has
        int32_t have = 0;
        int64_t left = (int64_t)cells;
        for (int64_t c = 0; c < (int64_t)cells && have < wanted; ++c, --left) {
            if ((int64_t)(random_u64(r) % (uint64_t)left) < wanted - have) {
                spira::voxel v = {(int)(c / (x.count * y.count * z.count)),
                                  reference_axis_at(&x, c / (y.count * z.count) % x.count),
                                  reference_axis_at(&y, c / z.count % y.count),
                                  reference_axis_at(&z, c % z.count)};
                words[have++] = spira::word_pack<W>(layout, v);
            }
        }
        return have;
    }
    for (int32_t have = 0;;) {
        for (int32_t i = have; i < wanted; ++i) {
            spira::voxel v = {random_int(r, 0, layout->batches - 1),
                              reference_axis_at(&x, random_int(r, 0, (int)x.count - 1)),
                              reference_axis_at(&y, random_int(r, 0, (int)y.count - 1)),
                              reference_axis_at(&z, random_int(r, 0, (int)z.count - 1))};
            words[i] = spira::word_pack<W>(layout, v);
        }
        std::sort(words, words + wanted);
        have = (int32_t)(std::unique(words, words + wanted) - words);
        if (have == wanted) {
            return have;
        }
    }
}

// A random kernel; each axis its own size in 1 .. size_max, or one size for all.
SPIRA_API spira::kernel_shape reference_random_kernel(random_state *r, int size_max,
                                                      int dilation_max, spira::triple stride) {
    spira::kernel_shape k = spira::kernel_cube(random_int(r, 1, size_max), 1);
    if (random_int(r, 0, 1)) {
        k.size = {random_int(r, 1, size_max), random_int(r, 1, size_max),
                  random_int(r, 1, size_max)};
    }
    k.dilation = {random_int(r, 1, dilation_max), random_int(r, 1, dilation_max),
                  random_int(r, 1, dilation_max)};
    k.stride = stride;
    return k;
}

// ---- kernel maps --------------------------------------------------------------------------------

struct reference_key {
    int batch, x, y, z;
    bool operator==(const reference_key &o) const {
        return batch == o.batch && x == o.x && y == o.y && z == o.z;
    }
};

struct reference_hash {
    size_t operator()(const reference_key &k) const {
        uint64_t h = (uint64_t)(uint32_t)k.batch;
        for (int value : {k.x, k.y, k.z}) {
            h = (h ^ (uint32_t)value) * 0x9E3779B97F4A7C15ull;
            h ^= h >> 29;
        }
        return (size_t)h;
    }
};

// The kernel map [count, volume] by looking each neighbour up in a hash table of coordinates: no
// packed sums, no rows, no order but the one that offset.h states.
template <typename W>
SPIRA_API void reference_map(const spira::word_layout *layout, const spira::kernel_shape *kernel,
                             const W *source, int32_t sources, const W *outputs, int32_t count,
                             int32_t *map) {
    std::unordered_map<reference_key, int32_t, reference_hash> table;
    table.reserve((size_t)std::max(sources, 0) * 2);
    for (int32_t i = 0; i < sources; ++i) {
        spira::voxel v = spira::word_unpack(layout, source[i]);
        table[{v.batch, v.x, v.y, v.z}] = i;
    }
    const int first[3] = {kernel->size.x % 2 ? -((kernel->size.x - 1) / 2) : 0,
                          kernel->size.y % 2 ? -((kernel->size.y - 1) / 2) : 0,
                          kernel->size.z % 2 ? -((kernel->size.z - 1) / 2) : 0};
    const int sign = kernel->transposed ? -1 : 1;
    const int step[3] = {sign * kernel->dilation.x * kernel->stride.x,
                         sign * kernel->dilation.y * kernel->stride.y,
                         sign * kernel->dilation.z * kernel->stride.z};
    const int64_t volume = (int64_t)kernel->size.x * kernel->size.y * kernel->size.z;
    const int64_t block = 256;
    SPIRA_PARALLEL_FOR
    for (int64_t b = 0; b < (count + block - 1) / block; ++b) {
        for (int64_t o = b * block; o < std::min((b + 1) * block, (int64_t)count); ++o) {
            spira::voxel v = spira::word_unpack(layout, outputs[o]);
            int32_t *taps = map + o * volume;
            for (int x = 0; x < kernel->size.x; ++x) {
                for (int y = 0; y < kernel->size.y; ++y) {
                    for (int z = 0; z < kernel->size.z; ++z) {
                        auto at = table.find({v.batch, v.x + (first[0] + x) * step[0],
                                              v.y + (first[1] + y) * step[1],
                                              v.z + (first[2] + z) * step[2]});
                        *taps++ = at == table.end() ? -1 : at->second;
                    }
                }
            }
        }
    }
}

// ---- features -----------------------------------------------------------------------------------

// Values in [-scale, scale), as they are after a trip through the storage type.
SPIRA_API void reference_random_values(random_state *r, spira::numeric type, float scale,
                                       int64_t count, float *values) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = spira::numeric_stored(type, scale * random_float(r));
    }
}

// Stores floats in the type; `stored` has count * numeric_size(type) bytes.
SPIRA_API void reference_store(spira::numeric type, const float *values, int64_t count,
                               void *stored) {
    for (int64_t i = 0; i < count; ++i) {
        spira::numeric_store(type, stored, i, values[i]);
    }
}

// ---- convolution --------------------------------------------------------------------------------

// The output that lies worst within its bound.
struct reference_verdict {
    double ratio; // |got - expected| / bound of the worst output: good up to 1
    int64_t at;   // which element of out [outputs, cout]
    double got, expected, bound;
};

// What an output should be and how far it may be off.
struct reference_value {
    double expected, bound;
};

// How much an activation can enlarge an error.
SPIRA_API double reference_steepness(const spira::conv_epilogue *e) {
    return e->act == spira::activation_leaky  ? std::max(1.0, fabs((double)e->slope))
           : e->act == spira::activation_silu ? 1.1
           : e->act >= spira::activation_gelu ? 1.13
                                              : 1;
}

// The epilogue on a sum that may be off by `error`, in double. `out` rounds to `type`.
SPIRA_API reference_value reference_epilogue(double sum, double error,
                                             const spira::conv_epilogue *e, int channel,
                                             double residual, spira::numeric type) {
    const double epsilon = 1.0 / (1 << 24);
    double magnitude = fabs(sum);
    if (e->bias) {
        sum += (double)e->bias[channel];
        magnitude += fabs((double)e->bias[channel]);
    }
    if (e->scale) {
        sum *= (double)e->scale[channel];
        error *= fabs((double)e->scale[channel]);
        magnitude *= fabs((double)e->scale[channel]);
    }
    if (e->shift) {
        sum += (double)e->shift[channel];
        magnitude += fabs((double)e->shift[channel]);
    }
    sum += residual;
    magnitude += fabs(residual);
    error += 6 * epsilon * magnitude; // five steps, each rounded once
    error *= reference_steepness(e);
    if (e->act == spira::activation_relu && !isnan(sum) && sum < 0) { // -ffast-math forgets NaN
        sum = 0;
    } else if (e->act == spira::activation_leaky && sum < 0) {
        sum *= (double)e->slope;
    } else if (e->act == spira::activation_silu) {
        error += 12 * epsilon * fabs(sum);
        sum = sum / (1 + exp(-sum));
    } else if (e->act == spira::activation_gelu) {
        error += 12 * epsilon * fabs(sum);
        sum = sum / 2 * (1 + erf(sum / sqrt(2.0)));
    } else if (e->act == spira::activation_gelu_tanh) {
        error += 12 * epsilon * fabs(sum);
        sum = sum / 2 * (1 + tanh(sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
    }
    bool half = type == spira::numeric_f16 || type == spira::numeric_bf16;
    double rounding = half ? spira::numeric_epsilon(type) * (fabs(sum) + error) : 0;
    double subnormal = type == spira::numeric_f16 ? 0x1p-24 : 0x1p-126;
    return {sum, error + rounding + subnormal};
}

// How far one output is off, in units of its bound.
SPIRA_API double reference_ratio(double got, reference_value v, spira::numeric type) {
    if (isnan(v.expected)) {
        return isnan(got) ? 0 : INFINITY;
    }
    double largest = type == spira::numeric_f16 ? 65504 : 3.3895313892515355e38;
    bool overflows = fabs(v.expected) + v.bound >= largest;
    if (isinf(got) && overflows) {
        return (got > 0) == (v.expected > 0) ? 0 : INFINITY;
    }
    double ratio = fabs(got - v.expected) / v.bound;
    return isnan(ratio) ? INFINITY : ratio;
}

// The terms of each output: products that are not left out.
SPIRA_API int64_t reference_terms(const spira::conv_shape *s, const int32_t *map, int64_t output) {
    int64_t taps = map ? 0 : 1;
    for (int64_t k = 0; k < s->volume && map; ++k) {
        taps += map[output * s->volume + k] >= 0;
    }
    return taps * (s->cin + s->cin2);
}

// A shortcut in double: what a 1x1x1 convolution adds to another's outputs, without a rounding.
struct reference_shortcut {
    std::vector<double> value, bound; // [outputs, cout]
    int64_t terms;                    // of an output
};

// inputs   shape: of volume 1; in, in2, weight: see reference_conv_check; e: bias, scale and shift
SPIRA_API reference_shortcut reference_shortcut_make(const spira::conv_shape *shape,
                                                     const float *in, const float *in2,
                                                     const float *weight, int32_t outputs,
                                                     const spira::conv_epilogue *e) {
    const int64_t cout = shape->cout, total = outputs * cout;
    const int64_t counts[3] = {(int64_t)outputs * shape->cin, (int64_t)outputs * shape->cin2,
                               (int64_t)(shape->cin + shape->cin2) * cout};
    const float *given[3] = {in, in2, weight};
    std::vector<float> operand[3];
    reference_shortcut s;
    std::vector<double> sum[2]; // and of magnitudes
    for (int pass = 0; pass < 2; ++pass) {
        for (int a = 0; a < 3; ++a) {
            operand[a].resize((size_t)counts[a] + 1);
            for (int64_t i = 0; i < counts[a]; ++i) {
                float v = spira::numeric_operand(shape->type, given[a][i]);
                operand[a][(size_t)i] = pass ? fabsf(v) : v;
            }
        }
        sum[pass].resize((size_t)total + 1);
        const spira::conv_host_args args = {
            *shape, operand[0].data(), operand[1].data(), operand[2].data(), nullptr, outputs};
        CHECK_OK(spira::conv_sum_host(&args, sum[pass].data()));
    }
    s.terms = shape->cin + shape->cin2;
    for (int64_t i = 0; i < total; ++i) {
        double error = 2.0 * (double)(s.terms + 4) * (sum[1][(size_t)i] / (1 << 24) + 0x1p-149);
        reference_value v =
            reference_epilogue(sum[0][(size_t)i], error, e, (int)(i % cout), 0, spira::numeric_f32);
        s.value.push_back(v.expected);
        s.bound.push_back(v.bound);
    }
    return s;
}

// Judges a convolution, one output at a time, against sums in double:
//   2 (terms + 4) eps_fp32 sum |a||w|, through the epilogue, and one rounding to the storage type.
// Twice the textbook bound, because tensor cores cut off where fp32 units round. A shortcut's terms
// are terms too, and its bound is added.
//
// inputs   layer: floats, rounded here as operands of shape.type, in which `out` [outputs, cout] and
//          the residual are stored; `inputs` rows of in and in2
//          shortcut: computed along with it, or null
SPIRA_API reference_verdict reference_conv_check(const spira::conv_host_args &layer, int64_t inputs,
                                                 const spira::conv_epilogue *e, const void *out,
                                                 const reference_shortcut *shortcut = nullptr) {
    const spira::conv_shape *const shape = &layer.shape;
    const int64_t cout = shape->cout, total = layer.outputs * cout;
    const int64_t more = shortcut ? shortcut->terms : 0;
    const int64_t counts[3] = {inputs * shape->cin, inputs * shape->cin2,
                               (int64_t)shape->volume * (shape->cin + shape->cin2) * cout};
    const float *given[3] = {layer.in, layer.in2, layer.weight};
    std::vector<float> operand[3], absolute[3];
    for (int a = 0; a < 3; ++a) {
        operand[a].resize((size_t)counts[a] + 1); // an address even where there is nothing
        absolute[a].resize((size_t)counts[a] + 1);
        for (int64_t i = 0; i < counts[a]; ++i) {
            operand[a][(size_t)i] = spira::numeric_operand(shape->type, given[a][i]);
            absolute[a][(size_t)i] = fabsf(operand[a][(size_t)i]);
        }
    }
    std::vector<double> sum((size_t)total + 1), magnitude((size_t)total + 1);
    spira::conv_host_args args = {
        *shape, operand[0].data(), operand[1].data(), operand[2].data(), layer.map, layer.outputs};
    CHECK_OK(spira::conv_sum_host(&args, sum.data()));
    args = {*shape,    absolute[0].data(), absolute[1].data(), absolute[2].data(),
            layer.map, layer.outputs};
    CHECK_OK(spira::conv_sum_host(&args, magnitude.data()));
    reference_verdict worst = {-1, 0, 0, 0, 0};
    for (int64_t o = 0; o < layer.outputs; ++o) {
        double c = 2.0 * (double)(reference_terms(shape, layer.map, o) + more + 4);
        for (int64_t i = o * cout; i < (o + 1) * cout; ++i) {
            double error = c * (magnitude[(size_t)i] / (1 << 24) + 0x1p-149);
            double residual =
                e->residual ? (double)spira::numeric_load(shape->type, e->residual, i) : 0.0;
            residual += shortcut ? shortcut->value[(size_t)i] : 0;
            reference_value v = reference_epilogue(sum[(size_t)i], error, e, (int)(i - o * cout),
                                                   residual, shape->type);
            if (shortcut) {
                v.bound += shortcut->bound[(size_t)i] * reference_steepness(e);
            }
            double got = (double)spira::numeric_load(shape->type, out, i);
            double ratio = reference_ratio(got, v, shape->type);
            if (ratio > worst.ratio) {
                worst = {ratio, i, got, v.expected, v.bound};
            }
        }
    }
    return worst;
}

// Fails the test, with the worst output and `name`, if a convolution is not within its bound.
SPIRA_API bool reference_conv_good(reference_verdict v, const char *name = "convolution",
                                   const char *file = __builtin_FILE(),
                                   int line = __builtin_LINE()) {
    char text[600];
    snprintf(text, sizeof text,
             "%.400s: output %lld is %.9g instead of %.9g: %.3g times its bound %.3g", name,
             (long long)v.at, v.got, v.expected, v.ratio, v.bound);
    return test_check(v.ratio <= 1, file, line, text);
}

// ---- data files ---------------------------------------------------------------------------------

// The whole of data/<name>, empty if there is none. SPIRA_DATA names another folder.
SPIRA_API std::vector<char> reference_file(const char *name) {
    const char *folder = getenv("SPIRA_DATA");
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : "data", name);
    std::vector<char> bytes;
    if (FILE *f = fopen(path, "rb")) {
        char block[1 << 16];
        for (size_t got; (got = fread(block, 1, sizeof block, f)) > 0;) {
            bytes.insert(bytes.end(), block, block + got);
        }
        fclose(f);
    }
    return bytes;
}

// The voxels of a .vox32 file as sorted words of a layout for kernels of up to `reach`.
template <typename W>
SPIRA_API std::vector<W> reference_scan(const char *name, int reach, spira::word_layout *layout) {
    std::vector<char> bytes = reference_file(name);
    std::vector<int32_t> coords(bytes.size() / 4);
    if (!bytes.empty()) {
        memcpy(coords.data(), bytes.data(), coords.size() * 4);
    }
    int hi[3] = {0, 0, 0};
    for (size_t i = 0; i < coords.size(); ++i) {
        hi[i % 3] = std::max(hi[i % 3], (int)coords[i]);
    }
    std::vector<W> words(coords.size() / 3);
    *layout = reference_layout<W>({0, 0, 0}, {hi[0], hi[1], hi[2]}, 1, {16, 16, 16},
                                  {reach, reach, reach});
    for (size_t i = 0; i < words.size(); ++i) {
        spira::voxel v = {0, coords[3 * i], coords[3 * i + 1], coords[3 * i + 2]};
        words[i] = spira::word_pack<W>(layout, v);
    }
    std::sort(words.begin(), words.end());
    return words;
}

#endif
