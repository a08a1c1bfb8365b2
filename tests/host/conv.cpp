// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/conv.cpp: conv.h against a dense convolution in double, and reference.h itself.
#include "../support/reference.h"

#include "../../spira/downsample.h"

using namespace spira;

// ---- the dense convolution ----------------------------------------------------------------------

// Voxels of a small box as arrays over all of its cells: the input's features and where it has any.
struct dense_grid {
    triple lo, n; // the box, with room for every offset around it
    int batches, channels;
    std::vector<double> value;  // [batches, n.x, n.y, n.z, channels]
    std::vector<char> occupied; // [batches, n.x, n.y, n.z]
};

static int64_t dense_cell(const dense_grid &g, voxel v) {
    int x = v.x - g.lo.x, y = v.y - g.lo.y, z = v.z - g.lo.z;
    bool inside = x >= 0 && y >= 0 && z >= 0 && x < g.n.x && y < g.n.y && z < g.n.z;
    return inside ? (((int64_t)v.batch * g.n.x + x) * g.n.y + y) * g.n.z + z : -1;
}

// What every output should be: sums, sums of absolute values, and how many products are in each.
struct dense_result {
    std::vector<double> sum, magnitude; // [outputs, cout]
    std::vector<int64_t> terms;         // [outputs]
};

// A layer: two sets, a kernel and its map, features and weights.
struct layer {
    word_layout layout;
    kernel_shape kernel;
    std::vector<voxel> inputs, outputs;
    std::vector<int32_t> map; // [outputs, volume]
    conv_shape shape;
    std::vector<float> in, in2, weight, expanded; // expanded: in and in2 side by side
    const float *in2_or_null() const {
        return shape.cin2 ? in2.data() : nullptr;
    }
    int32_t count() const {
        return (int32_t)outputs.size();
    }
    conv_host_args args() const {
        return {shape, in.data(), in2_or_null(), weight.data(), map.data(), count()};
    }
};

static dense_result dense_conv(const layer &l) {
    const int cin = l.shape.cin + l.shape.cin2, cout = l.shape.cout;
    const triple reach = kernel_reach(&l.kernel);
    dense_grid g = {{INT32_MAX, INT32_MAX, INT32_MAX}, {1, 1, 1}, l.layout.batches, cin, {}, {}};
    triple hi = {INT32_MIN, INT32_MIN, INT32_MIN};
    for (const std::vector<voxel> *set : {&l.inputs, &l.outputs}) {
        for (voxel v : *set) {
            g.lo = {std::min(g.lo.x, v.x), std::min(g.lo.y, v.y), std::min(g.lo.z, v.z)};
            hi = {std::max(hi.x, v.x), std::max(hi.y, v.y), std::max(hi.z, v.z)};
        }
    }
    g.lo = {g.lo.x - reach.x, g.lo.y - reach.y, g.lo.z - reach.z};
    g.n = {hi.x + reach.x - g.lo.x + 1, hi.y + reach.y - g.lo.y + 1, hi.z + reach.z - g.lo.z + 1};
    const size_t cells = (size_t)g.batches * (size_t)g.n.x * (size_t)g.n.y * (size_t)g.n.z;
    g.value.resize(cells * (size_t)cin);
    g.occupied.resize(cells);
    for (size_t i = 0; i < l.inputs.size(); ++i) {
        size_t cell = (size_t)dense_cell(g, l.inputs[i]);
        g.occupied[cell] = 1;
        for (size_t c = 0; c < (size_t)cin; ++c) {
            g.value[cell * (size_t)cin + c] = (double)l.expanded[i * (size_t)cin + c];
        }
    }
    dense_result d;
    d.sum.resize(l.outputs.size() * (size_t)cout);
    d.magnitude.resize(d.sum.size());
    d.terms.resize(l.outputs.size());
    const triple n = l.kernel.size;
    auto at = [](int i, int size, int dilation, int stride) {
        return (size % 2 ? i - size / 2 : i) * dilation * stride;
    };
    for (size_t o = 0; o < l.outputs.size(); ++o) {
        for (int x = 0; x < n.x; ++x) {
            for (int y = 0; y < n.y; ++y) {
                for (int z = 0; z < n.z; ++z) {
                    int dx = at(x, n.x, l.kernel.dilation.x, l.kernel.stride.x);
                    int dy = at(y, n.y, l.kernel.dilation.y, l.kernel.stride.y);
                    int dz = at(z, n.z, l.kernel.dilation.z, l.kernel.stride.z);
                    voxel v = l.outputs[o];
                    v = l.kernel.transposed ? voxel{v.batch, v.x - dx, v.y - dy, v.z - dz}
                                            : voxel{v.batch, v.x + dx, v.y + dy, v.z + dz};
                    int64_t cell = dense_cell(g, v);
                    if (cell < 0 || !g.occupied[(size_t)cell]) {
                        continue;
                    }
                    d.terms[o] += cin;
                    const double *a = &g.value[(size_t)(cell * cin)];
                    const float *w =
                        &l.weight[(size_t)((x * n.y + y) * n.z + z) * (size_t)cin * (size_t)cout];
                    for (int i = 0; i < cin; ++i) {
                        for (int c = 0; c < cout; ++c) {
                            double product = a[i] * (double)w[i * cout + c];
                            d.sum[o * (size_t)cout + (size_t)c] += product;
                            d.magnitude[o * (size_t)cout + (size_t)c] += fabs(product);
                        }
                    }
                }
            }
        }
    }
    return d;
}

// The worst error of sums [outputs, cout], in units of c * terms * epsilon * sum |a||w|.
template <typename Sum>
static double dense_ratio(const dense_result &d, const Sum *got, double epsilon) {
    size_t cout = d.terms.empty() ? 1 : d.sum.size() / d.terms.size();
    double worst = 0;
    for (size_t i = 0; i < d.sum.size(); ++i) {
        double bound = 2.0 * (double)(d.terms[i / cout] + 4) * epsilon * d.magnitude[i] + 1e-300;
        double ratio = fabs((double)got[i] - d.sum[i]) / bound;
        worst = ratio <= worst ? worst : ratio; // NaN is worst of all
    }
    return worst;
}

// ---- layers -------------------------------------------------------------------------------------

enum layer_kind { layer_submanifold, layer_strided, layer_inverse };

static void layer_channels(random_state *r, layer *l, int cin, int cin2, int cout, numeric type) {
    l->shape = {kernel_volume(&l->kernel), cin, cin2, cout, type};
    const size_t rows = l->inputs.size(), all = (size_t)(cin + cin2);
    l->in.resize(rows * (size_t)cin);
    l->in2.resize(rows * (size_t)cin2);
    l->weight.resize((size_t)l->shape.volume * all * (size_t)cout);
    l->expanded.resize(rows * all);
    for (std::vector<float> *array : {&l->in, &l->in2, &l->weight}) {
        reference_random_values(r, type, 1, (int64_t)array->size(), array->data());
        for (float &f : *array) {
            f = numeric_operand(type, f);
        }
    }
    for (size_t i = 0; i < rows; ++i) {
        for (size_t c = 0; c < all; ++c) {
            l->expanded[i * all + c] = c < (size_t)cin ? l->in[i * (size_t)cin + c]
                                                       : l->in2[i * (size_t)cin2 + c - (size_t)cin];
        }
    }
}

// `up` is the stride between the two sets.
static layer layer_make(random_state *r, layer_kind kind, kernel_shape kernel, triple up,
                        int32_t voxels) {
    layer l;
    triple lo = {-5, -9, 0}, hi = {5, 3, 9}, stride = triple_multiply(kernel.stride, up);
    kernel.transposed = kind == layer_inverse;
    l.kernel = kernel;
    l.layout = reference_layout<uint32_t>(lo, hi, 2, stride, kernel_reach(&kernel));
    uint32_t *fine = guarded_new<uint32_t>(voxels), *coarse = guarded_new<uint32_t>(voxels);
    int32_t fine_count = reference_random_set(r, &l.layout, lo, hi, kernel.stride, voxels, fine);
    int32_t coarse_count = 0;
    voxel_set<uint32_t> fine_set = {fine, &fine_count, voxels};
    voxel_set<uint32_t> coarse_set = {coarse, &coarse_count, voxels};
    device_status trouble = {};
    const downsample_args<uint32_t> args = {&l.layout, fine_set, {}, stride, coarse_set, &trouble};
    size_t bytes = 0;
    CHECK_OK(downsample_host_workspace(fine_set, &bytes));
    CHECK_OK(downsample_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    voxel_set<uint32_t> in = kind == layer_inverse ? coarse_set : fine_set;
    voxel_set<uint32_t> out = kind == layer_strided ? coarse_set : fine_set;
    l.map.resize((size_t)*out.count * (size_t)kernel_volume(&kernel));
    CHECK_OK(map_build_host(&l.layout, &kernel, in, out, l.map.data()));
    for (int32_t i = 0; i < *in.count; ++i) {
        l.inputs.push_back(word_unpack(&l.layout, in.words[i]));
    }
    for (int32_t i = 0; i < *out.count; ++i) {
        l.outputs.push_back(word_unpack(&l.layout, out.words[i]));
    }
    layer_channels(r, &l, 1, 0, 1, numeric_f32);
    return l;
}

static const conv_epilogue epilogue_none = {};

static float *conv_new(const layer &l, const conv_epilogue *e) {
    float *out = guarded_new<float>((int64_t)l.count() * l.shape.cout);
    const conv_host_args args = l.args();
    CHECK_OK(conv_host(&args, e, out));
    return out;
}

static reference_verdict judge(const layer &l, const conv_epilogue *e, const void *out) {
    return reference_conv_check(
        {l.shape, l.in.data(), l.in2_or_null(), l.weight.data(), l.map.data(), l.count()},
        (int64_t)l.inputs.size(), e, out);
}

// conv_sum_host in float and in double, and conv_host, against the dense convolution.
static void check_layer(const layer &l) {
    dense_result d = dense_conv(l);
    float *out = conv_new(l, &epilogue_none);
    CHECK(dense_ratio(d, out, 0x1p-24) <= 1);
    CHECK(reference_conv_good(judge(l, &epilogue_none, out)));
    double *sum = guarded_new<double>((int64_t)l.count() * l.shape.cout);
    const conv_host_args args = l.args();
    REQUIRE_OK(conv_sum_host(&args, sum));
    CHECK(dense_ratio(d, sum, 0x1p-53) <= 1);
}

struct layer_case {
    layer_kind kind;
    kernel_shape kernel;
    triple up;
};

static const layer_case cases[] = {
    {layer_submanifold, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false}, {1, 1, 1}},
    {layer_submanifold, {{5, 5, 5}, {1, 1, 1}, {1, 1, 1}, false}, {1, 1, 1}},
    {layer_submanifold, {{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, false}, {1, 1, 1}},
    {layer_submanifold, {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}, false}, {1, 1, 1}},
    {layer_submanifold, {{1, 1, 3}, {1, 1, 1}, {1, 1, 1}, false}, {1, 1, 1}},
    {layer_submanifold, {{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, false}, {1, 1, 1}},
    {layer_submanifold, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, false}, {1, 1, 1}},
    {layer_strided, {{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, false}, {2, 2, 2}},
    {layer_strided, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false}, {2, 2, 2}},
    {layer_strided, {{3, 3, 3}, {2, 1, 3}, {1, 1, 1}, false}, {2, 2, 2}},
    {layer_strided, {{1, 1, 3}, {1, 1, 1}, {1, 1, 1}, false}, {1, 1, 2}},
    {layer_strided, {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}, false}, {3, 3, 3}},
    {layer_inverse, {{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, false}, {2, 2, 2}},
    {layer_inverse, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false}, {2, 2, 2}},
    {layer_inverse, {{5, 2, 3}, {1, 1, 2}, {1, 1, 1}, false}, {4, 2, 2}},
};

static const int channel_sizes[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70};

static int channels_random(random_state *r) {
    return channel_sizes[random_int(r, 0, 16)];
}

TEST(conv_agrees_with_a_dense_convolution) {
    random_state r = random_make(1);
    for (const layer_case &c : cases) {
        for (int32_t voxels : {1, 63, 65, 300}) {
            layer l = layer_make(&r, c.kind, c.kernel, c.up, voxels);
            for (int i = 0; i < (test_quick() ? 1 : 3); ++i) {
                layer_channels(&r, &l, channels_random(&r), 0, channels_random(&r), numeric_f32);
                check_layer(l);
            }
            guarded_finish();
        }
    }
}

TEST(conv_two_sources_are_a_concatenation) {
    random_state r = random_make(3);
    for (const layer_case &c : cases) {
        layer l = layer_make(&r, c.kind, c.kernel, c.up, 120);
        for (int i = 0; i < 4; ++i) {
            layer_channels(&r, &l, channels_random(&r), channels_random(&r), channels_random(&r),
                           numeric_f32);
            check_layer(l);
            layer joined = l; // the dense sums are those of the joined features; so are these
            joined.in = l.expanded;
            joined.shape.cin = l.shape.cin + l.shape.cin2;
            joined.shape.cin2 = 0;
            dense_result d = dense_conv(l);
            CHECK(dense_ratio(d, conv_new(joined, &epilogue_none), 0x1p-24) <= 1);
        }
        guarded_finish();
    }
}

TEST(conv_identity_needs_no_map) {
    random_state r = random_make(4);
    layer l = layer_make(&r, layer_submanifold, kernel_cube(1, 1), {1, 1, 1}, 130);
    for (int cin2 : {0, 5}) {
        layer_channels(&r, &l, 17, cin2, 9, numeric_f32);
        float *with = conv_new(l, &epilogue_none);
        float *without = guarded_new<float>((int64_t)l.count() * 9);
        conv_host_args args = l.args();
        args.map = nullptr;
        REQUIRE_OK(conv_host(&args, &epilogue_none, without));
        CHECK(std::equal(with, with + (int64_t)l.count() * 9, without));
        check_layer(l);
    }
}

TEST(conv_of_nothing) {
    const conv_shape s = shape_make(27, 4, 0, 4, numeric_f32);
    float in[4] = {}, weight[27 * 16] = {}, *out = guarded_new<float>(0);
    int32_t map[27];
    conv_host_args args = {s, in, nullptr, weight, map, 0};
    REQUIRE_OK(conv_host(&args, &epilogue_none, out));
    std::fill(map, map + 27, -1); // an output without any source
    in[0] = NAN;
    float sum[4] = {1, 2, 3, 4};
    args.outputs = 1;
    REQUIRE_OK(conv_host(&args, &epilogue_none, sum));
    CHECK(sum[0] == 0 && sum[1] == 0 && sum[2] == 0 && sum[3] == 0);
}

// ---- epilogue -----------------------------------------------------------------------------------

// A residual in the storage type, null where there is none.
struct epilogue_arrays {
    std::vector<float> bias, scale, shift, residual;
    std::vector<char> stored;
};

static epilogue_arrays epilogue_random(random_state *r, const layer &l) {
    epilogue_arrays a;
    const numeric type = l.shape.type;
    for (std::vector<float> *v : {&a.bias, &a.scale, &a.shift}) {
        v->resize((size_t)l.shape.cout);
        reference_random_values(r, numeric_f32, 2, l.shape.cout, v->data());
    }
    const int64_t total = (int64_t)l.count() * l.shape.cout;
    a.residual.resize((size_t)total);
    reference_random_values(r, type, 3, total, a.residual.data());
    a.stored.resize((size_t)(total * numeric_size(type)));
    reference_store(type, a.residual.data(), total, a.stored.data());
    return a;
}

static conv_epilogue epilogue_of(const epilogue_arrays &a, int parts, int act) {
    return {parts & 1 ? a.bias.data() : nullptr,
            parts & 2 ? a.scale.data() : nullptr,
            parts & 4 ? a.shift.data() : nullptr,
            parts & 8 ? a.stored.data() : nullptr,
            (activation)act,
            0.1f};
}

TEST(conv_epilogue_in_all_combinations) {
    random_state r = random_make(5);
    layer l = layer_make(&r, layer_submanifold, kernel_cube(3, 1), {1, 1, 1}, 100);
    layer_channels(&r, &l, 9, 4, 17, numeric_f32);
    epilogue_arrays a = epilogue_random(&r, l);
    dense_result d = dense_conv(l);
    for (int parts = 0; parts < 16; ++parts) {
        for (int act = 0; act < activation_count; ++act) {
            conv_epilogue e = epilogue_of(a, parts, act);
            float *out = conv_new(l, &e);
            CHECK(reference_conv_good(judge(l, &e, out)));
            for (size_t i = 0; act < 3 && i < d.sum.size(); ++i) { // and once more, spelled out
                size_t c = i % 17;
                double v = d.sum[i] + (parts & 1 ? (double)a.bias[c] : 0.0);
                v = v * (parts & 2 ? (double)a.scale[c] : 1.0);
                v = v + (parts & 4 ? (double)a.shift[c] : 0.0);
                v = v + (parts & 8 ? (double)a.residual[i] : 0.0);
                v = act == 1 ? fmax(v, 0.0) : act == 2 && v < 0 ? v * (double)0.1f : v;
                CHECK(fabs((double)out[i] - v) <= 1e-4);
            }
        }
    }
}

TEST(conv_epilogue_order) {
    const float bias = 1, scale = 3, shift = -4;
    conv_epilogue e = {};
    e.bias = &bias;
    e.scale = &scale;
    e.shift = &shift;
    e.slope = 0.5f;
    CHECK_EQUAL(epilogue_apply(2, &e, 0, -10), -5.0f); // (2 + 1) * 3 - 4 - 10
    CHECK_EQUAL(reference_epilogue(2, 0, &e, 0, -10, numeric_f32).expected, -5.0);
    e.act = activation_relu;
    CHECK_EQUAL(epilogue_apply(2, &e, 0, -10), 0.0f);
    CHECK_EQUAL(epilogue_apply(2, &e, 0, 10), 15.0f);
    CHECK_EQUAL(reference_epilogue(2, 0, &e, 0, -10, numeric_f32).expected, 0.0);
    e.act = activation_leaky;
    CHECK_EQUAL(epilogue_apply(2, &e, 0, -10), -2.5f);
    CHECK_EQUAL(epilogue_apply(2, &e, 0, 10), 15.0f);
    CHECK_EQUAL(reference_epilogue(2, 0, &e, 0, -10, numeric_f32).expected, -2.5);
    e = {};
    for (float x : {-30.0f, -5.0f, -0.7f, 0.0f, 1e-4f, 0.7f, 5.0f, 200.0f, -200.0f}) {
        const double y = (double)x; // of the definitions
        e.act = activation_silu;
        CHECK(fabs((double)epilogue_apply(x, &e, 0, 0) - y / (1 + exp(-y))) <= 1e-6 * fabs(y));
        e.act = activation_gelu;
        CHECK(fabs((double)epilogue_apply(x, &e, 0, 0) - y / 2 * erfc(-y / sqrt(2.0))) <=
              1e-6 * fabs(y));
        e.act = activation_gelu_tanh;
        const double u = sqrt(2 / M_PI) * (y + 0.044715 * y * y * y);
        CHECK(fabs((double)epilogue_apply(x, &e, 0, 0) - y / 2 * (1 + tanh(u))) <= 1e-6 * fabs(y));
    }
}

// ReLU must not turn a NaN into a zero; no output but those that read it has it.
TEST(conv_shows_nan) {
    random_state r = random_make(6);
    layer l = layer_make(&r, layer_submanifold, kernel_cube(3, 1), {1, 1, 1}, 200);
    layer_channels(&r, &l, 8, 0, 5, numeric_f32);
    const size_t bad = 77;
    l.in[bad * 8 + 3] = NAN;
    for (int act = 0; act < activation_count; ++act) {
        conv_epilogue e = {};
        e.act = (activation)act;
        e.slope = 0.1f;
        float *out = conv_new(l, &e);
        int touched = 0;
        for (int32_t o = 0; o < l.count(); ++o) {
            const int32_t *taps = &l.map[(size_t)o * 27];
            bool reads = std::find(taps, taps + 27, (int32_t)bad) != taps + 27;
            touched += reads;
            for (int c = 0; c < 5; ++c) {
                CHECK_EQUAL((bool)isnan(out[o * 5 + c]), reads);
            }
        }
        CHECK(touched > 1 && touched < 28);
        CHECK(reference_conv_good(judge(l, &e, out)));
        for (int32_t o = 0; o < l.count(); ++o) { // a NaN that is hidden is found out
            if (isnan(out[o * 5])) {
                out[o * 5] = 0;
                CHECK(!(judge(l, &e, out).ratio <= 1));
                break;
            }
        }
    }
}

// ---- the check itself ---------------------------------------------------------------------------

// What a kernel of the type would write: rounded operands, fp32 sums, one rounding.
static std::vector<char> conv_stored(const layer &l, const conv_epilogue *e) {
    const int64_t total = (int64_t)l.count() * l.shape.cout;
    const numeric type = l.shape.type;
    std::vector<float> sum((size_t)total);
    const conv_host_args args = l.args();
    CHECK_OK(conv_sum_host(&args, sum.data()));
    std::vector<char> out((size_t)(total * numeric_size(type)));
    for (int64_t i = 0; i < total; ++i) {
        float residual = e->residual ? numeric_load(type, e->residual, i) : 0;
        float value = epilogue_apply(sum[(size_t)i], e, (int)(i % l.shape.cout), residual);
        numeric_store(type, out.data(), i, value);
    }
    return out;
}

// Operands are rounded inside of the check, so that callers may hand over what they began with.
TEST(reference_rounds_operands) {
    random_state r = random_make(8);
    for (numeric type : {numeric_tf32, numeric_f16, numeric_bf16}) {
        layer l = layer_make(&r, layer_submanifold, kernel_cube(3, 1), {1, 1, 1}, 80);
        layer_channels(&r, &l, 8, 0, 8, type);
        std::vector<char> out = conv_stored(l, &epilogue_none);
        layer loose = l;
        for (std::vector<float> *array : {&loose.in, &loose.weight}) {
            for (float &f : *array) { // moved, by less than the type can tell
                f = f * (1 + 0.3f * (float)numeric_epsilon(type));
            }
        }
        CHECK(reference_conv_good(judge(loose, &epilogue_none, out.data())));
        loose.shape.type = numeric_f32;
        std::vector<float> wide((size_t)l.count() * 8);
        for (size_t i = 0; i < wide.size(); ++i) {
            wide[i] = numeric_load(type, out.data(), (int64_t)i);
        }
        CHECK(!(judge(loose, &epilogue_none, wide.data()).ratio <= 1));
    }
}

// Sums in fp16 look right for most outputs, and are not.
TEST(reference_finds_half_sums) {
    random_state r = random_make(10);
    layer l = layer_make(&r, layer_submanifold, kernel_cube(3, 1), {1, 1, 1}, 300);
    layer_channels(&r, &l, 32, 0, 4, numeric_f16);
    std::vector<char> out = conv_stored(l, &epilogue_none);
    CHECK(judge(l, &epilogue_none, out.data()).ratio <= 1);
    for (int64_t i = 0; i < (int64_t)l.count() * 4; ++i) {
        float sum = 0;
        for (int64_t k = 0; k < 27; ++k) {
            int64_t source = l.map[(size_t)(i / 4 * 27 + k)];
            for (int64_t j = 0; j < 32 && source >= 0; ++j) {
                float product =
                    l.in[(size_t)(source * 32 + j)] * l.weight[(size_t)((k * 32 + j) * 4 + i % 4)];
                sum = numeric_stored(numeric_f16, sum + product);
            }
        }
        numeric_store(numeric_f16, out.data(), i, sum);
    }
    CHECK(judge(l, &epilogue_none, out.data()).ratio > 1);
}

// A single wrong output, anywhere, by little more than its bound.
TEST(reference_judges_by_the_worst_output) {
    random_state r = random_make(11);
    layer l = layer_make(&r, layer_submanifold, kernel_cube(3, 1), {1, 1, 1}, 200);
    for (numeric type : {numeric_f32, numeric_f16, numeric_bf16}) {
        layer_channels(&r, &l, 8, 0, 8, type);
        std::vector<char> good = conv_stored(l, &epilogue_none);
        for (int i = 0; i < 20; ++i) {
            int64_t at = random_int(&r, 0, l.count() * 8 - 1);
            std::vector<char> out = good;
            float value = numeric_load(type, out.data(), at);
            float error = type == numeric_f32 ? 1e-3f : (float)numeric_epsilon(type) * 4;
            numeric_store(type, out.data(), at, value + error * (fabsf(value) + 1));
            reference_verdict v = judge(l, &epilogue_none, out.data());
            CHECK(v.ratio > 1);
            CHECK_EQUAL(v.at, at);
            numeric_store(type, out.data(), at, NAN);
            v = judge(l, &epilogue_none, out.data());
            CHECK(v.ratio > 1);
            CHECK_EQUAL(v.at, at);
        }
    }
}

// Beyond the largest half there is infinity, and nothing else.
TEST(reference_takes_overflow) {
    const conv_shape s = shape_make(1, 1, 0, 1, numeric_f16);
    const float in = 60000, weight = 2;
    uint16_t out = 0x7c00;
    auto ratio = [&] {
        return reference_conv_check({s, &in, nullptr, &weight, nullptr, 1}, 1, &epilogue_none, &out)
            .ratio;
    };
    CHECK(ratio() <= 1);
    out = 0xfc00;
    CHECK(ratio() > 1);
    out = 0x7bff; // 65504
    CHECK(ratio() > 1);
    out = 0x7e00; // NaN
    CHECK(ratio() > 1);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(conv_refuses) {
    std::vector<float> in(4), in2(2), weight(27 * 6 * 3), out_of(3);
    std::vector<int32_t> map(27, -1);
    const conv_shape shape = shape_make(27, 4, 2, 3, numeric_f32);
    struct call {
        conv_host_args args;
        conv_epilogue epilogue;
        float *out;
    };
    const call good = {
        {shape, in.data(), in2.data(), weight.data(), map.data(), 1}, epilogue_none, out_of.data()};
    auto run = [](const call &c) { return conv_host(&c.args, &c.epilogue, c.out); };
    CHECK_OK(run(good));
    static const struct {
        status_code code;
        void (*spoil)(call *);
    } bad[] = {
        {status_null_pointer, [](call *c) { c->args.in = nullptr; }},
        {status_null_pointer, [](call *c) { c->args.in2 = nullptr; }},
        {status_null_pointer, [](call *c) { c->args.weight = nullptr; }},
        {status_null_pointer, [](call *c) { c->args.map = nullptr; }},
        {status_null_pointer, [](call *c) { c->out = nullptr; }},
        {status_bad_size, [](call *c) { c->args.outputs = -1; }},
        {status_unsupported, [](call *c) { c->out = (float *)c->args.in; }},
        {status_unsupported, [](call *c) { c->out = (float *)c->args.in2; }},
        {status_unsupported, [](call *c) { c->epilogue.residual = c->out; }},
        {status_unsupported, [](call *c) { c->epilogue.act = (activation)-1; }},
        {status_unsupported, [](call *c) { c->epilogue.act = activation_count; }},
        {status_unsupported, [](call *c) { c->args.shape.type = (numeric)-1; }},
        {status_unsupported, [](call *c) { c->args.shape.type = (numeric)4; }},
    };
    for (const auto &b : bad) {
        call c = good;
        b.spoil(&c);
        CHECK_STATUS(run(c), b.code);
    }
    CHECK_STATUS(conv_host(nullptr, &epilogue_none, good.out), status_null_pointer);
    CHECK_STATUS(conv_host(&good.args, nullptr, good.out), status_null_pointer);
    for (int size : {0, -1, conv_channels_max + 1, INT32_MAX}) {
        for (int conv_shape::*member :
             {&conv_shape::volume, &conv_shape::cin, &conv_shape::cin2, &conv_shape::cout}) {
            call c = good;
            c.args.shape.*member = size;
            const status refused = run(c);
            const bool none = member == &conv_shape::cin2 && size == 0; // one source
            CHECK_STATUS(refused, none ? status_ok : status_bad_size);
            CHECK_EQUAL(refused.detail, none ? 0 : size);
        }
    }
}
