// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/tune.cu: the choices for a layer. Nothing is launched: no GPU is needed. That each
// computes the layer is tested where it is computed: conv.cu (all sizes), pairs.cu, hybrid.cu.
#include "../../spira/conv_hybrid.cuh"
#include "../../spira/map.cuh"
#include "../../spira/tune.cuh"
#include "../support/devices.h"
#include "../support/problems.h"

using namespace problems;

namespace {

const device_info hopper = device_made(90, 132, 232448, true),
                  plain = device_made(90, 132, 232448, false),
                  ampere = device_made(80, 108, 166912, false),
                  turing = device_made(75, 68, 65536, false);
const device_info *const devices[] = {&hopper, &plain, &ampere, &turing};

tune_key key_make(const device_info *d, conv_shape s, int64_t outputs, int64_t density,
                  bool deterministic) {
    return tune_key_make(d, &s, outputs, outputs * density, deterministic);
}

// Some kernel with so many offsets, as near to a cube as there is.
kernel_shape kernel_of(int volume) {
    kernel_shape kernel = kernel_cube(1, 1);
    for (int x = 1; x * x * x <= volume; ++x) {
        for (int y = x; y * y <= volume / x; ++y) {
            const int z = volume / (x * y);
            if (x * y * z == volume && z <= kernel_size_max) {
                kernel.size = {x, y, z};
            }
        }
    }
    CHECK_EQUAL(kernel_volume(&kernel), volume);
    return kernel;
}

bool is_hybrid(const tune_choice &c) {
    return c.dataflow >= tune_dataflow_hybrid_atomic;
}

int dataflows_of(const std::vector<tune_choice> &choices) {
    int found = 0;
    for (const tune_choice &c : choices) {
        found |= 1 << c.dataflow;
    }
    return found;
}

std::vector<tune_choice> candidates_of(const tune_key *key, int32_t capacity,
                                       const device_info *d) {
    tune_choice *choices = guarded_new<tune_choice>(tune_candidates_most);
    const kernel_shape kernel = kernel_of(key->shape.volume);
    int count = tune_candidates(d, key, &kernel, capacity, choices);
    CHECK(count > 0 && count <= tune_candidates_most);
    return std::vector<tune_choice>(choices, choices + count);
}

// Each threshold that divides the offsets is there, once in each form.
void check_thresholds(const tune_key *key, const std::vector<tune_choice> &all) {
    const kernel_shape kernel = kernel_of(key->shape.volume);
    int hybrids = 0;
    for (const tune_choice &c : all) {
        const int dense = map_os_columns(&kernel, c.threshold, false);
        CHECK(!is_hybrid(c) || (dense > 0 && dense < key->shape.volume));
        hybrids += is_hybrid(c);
    }
    CHECK_EQUAL(hybrids, kernel_norm_max(&kernel) * (key->deterministic ? 1 : 2));
}

// All fit, can be written down, and none is there twice; the first is the one without tuning.
void check_candidates(const tune_key *key, int32_t capacity, const device_info *d) {
    std::vector<tune_choice> all = candidates_of(key, capacity, d);
    tune_choice guess = tune_choose(d, nullptr, 0, key, capacity);
    CHECK(tune_same_choice(&all[0], &guess));
    for (size_t i = 0; i < all.size(); ++i) {
        CHECK(tune_choice_fits(&key->shape, d, &all[i]));
        tune_record r = {*key, all[i], 1};
        CHECK_OK(tune_record_check(&r));
        for (size_t j = 0; j < i; ++j) {
            CHECK(!tune_same_choice(&all[i], &all[j]));
        }
    }
    int wanted = 1 << tune_dataflow_os;
    for (int flow = tune_dataflow_atomic; flow < tune_dataflows && key->shape.volume > 1; ++flow) {
        const bool takes = !key->deterministic || tune_is_deterministic((tune_dataflow)flow);
        wanted |= takes ? 1 << flow : 0;
    }
    CHECK_EQUAL(dataflows_of(all), wanted);
    check_thresholds(key, all);
    guarded_finish();
}

TEST(gpu_tune_candidates_fit) {
    for (const device_info *d : devices) {
        for (numeric type : numerics) {
            for (int volume : {1, 8, 27, 33, 125, 343}) {
                for (int channels : {1, 16, 32, 64, 96, 256, 1024}) {
                    for (int32_t outputs : {1, 3000, 345087}) {
                        conv_shape s = shape_make(volume, channels, channels / 3, channels, type);
                        int density = volume < 8 ? 1 : 7;
                        tune_key key = key_make(d, s, outputs, density, outputs == 3000);
                        check_candidates(&key, outputs, d);
                    }
                }
            }
        }
    }
}

// Without a record: output-stationary, cut as conv cuts it.
TEST(gpu_tune_without_a_record_is_what_conv_does) {
    const conv_shape s = shape_make(125, 64, 0, 64, numeric_f16);
    for (bool deterministic : {false, true}) {
        for (const device_info *d : devices) {
            const tune_key key = key_make(d, s, 91766, 9, deterministic);
            const tune_choice c = tune_choose(d, nullptr, 0, &key, 91766);
            const conv_sizes size = conv_sizes_choose(&s, 91766, d);
            CHECK_EQUAL(c.dataflow, tune_dataflow_os);
            CHECK(c.tiles == size.tiles && c.slices == size.slices && c.split == size.split);
        }
    }
}

// A record is used if the program can; else, or without one, there is no tuning.
TEST(gpu_tune_choose_takes_what_fits) {
    const conv_shape s = shape_make(27, 64, 0, 64, numeric_f16);
    tune_key key = key_make(&hopper, s, 91766, 3, false);
    const conv_sizes one = {1, 1, 1, 1}, two = {1, 2, 1, 1}, many = {64, 64, 1, 1};
    const tune_choice lists = {tune_dataflow_ordered, 0, 0, 0, 0},
                      both = {tune_dataflow_hybrid_atomic, 0, 0, 0, 2},
                      slim = tune_choice_cut(&one), both_take = tune_choice_cut(&two),
                      wrong = tune_choice_cut(&many);
    auto chosen = [&](const tune_choice &c, const device_info *d, int count) {
        tune_record r = {key, c, 1000};
        tune_choice got = tune_choose(d, &r, count, &key, 91766);
        tune_choice guess = tune_choose(d, nullptr, 0, &key, 91766);
        CHECK(tune_same_choice(&got, &c) || tune_same_choice(&got, &guess));
        return tune_same_choice(&got, &c);
    };
    CHECK(chosen(lists, &hopper, 1) && chosen(lists, &plain, 1));
    CHECK(chosen(both, &hopper, 1) && chosen(both, &turing, 1));
    CHECK(!chosen(lists, &hopper, 0) && !chosen(both, &hopper, 0));
    CHECK(chosen(slim, &hopper, 1) && !chosen(slim, &plain, 1)); // of Hopper's kernel alone
    CHECK(chosen(both_take, &plain, 1) && chosen(both_take, &hopper, 1));
    CHECK(!chosen(wrong, &plain, 1));
    tune_key other = key;
    other.shape.cout = 65;
    tune_record r = {other, lists, 1000};
    CHECK_EQUAL(tune_choose(&plain, &r, 1, &key, 91766).dataflow, tune_dataflow_os);
}

} // namespace
