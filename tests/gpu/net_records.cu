// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/net_records.cu: tuning records in device plans: which ones a plan takes. Planning
// launches nothing, so these tests run without a GPU, for GPUs that the machine may not have.
#include "../support/devices.h"
#include "../support/net_i8.h"
#include "../support/net_records.cuh"

using namespace nets;

namespace {

const device_info hopper = device_made(90, 132, 232448, true),
                  ampere = device_made(80, 108, 166912, false),
                  turing = device_made(75, 68, 65536, false);

} // namespace

// Without a GPU: what is taken, on all devices.
TEST(gpu_net_plan_takes_records) {
    for (const device_info *d : {&hopper, &ampere, &turing}) {
        for (numeric type : {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32, numeric_i8}) {
            const bool int8 = type == numeric_i8;
            for (const char *name : {"zoo", "MinkUNet42"}) {
                for (int turn = 0; turn < 4; ++turn) {
                    network n;
                    net_plan none, tuned;
                    network_named(name, &n);
                    net_limits limits = limits_make(&n, int8 ? numeric_f16 : type, 5000, false);
                    if (int8) {
                        net_formats_i8(n.layers, n.count);
                        i8net::ranges_make(&n, &limits);
                    }
                    REQUIRE_OK(plan_for(&n, &limits, d, &none));
                    CHECK_EQUAL(check_choices(&none, d), 0);
                    const std::vector<tune_record> records = records_of(&none, d, turn);
                    limits.records = records.data();
                    limits.record_count = (int)records.size();
                    REQUIRE_OK(plan_for(&n, &limits, d, &tuned));
                    CHECK(!tuned.limits.records); // not kept
                    CHECK_EQUAL(check_choices(&tuned, d), (int)records.size());
                }
            }
        }
    }
}

// A record that does not fit is left alone.
TEST(gpu_net_plan_leaves_records_alone) {
    network n;
    net_plan plan;
    network_named("MinkUNet42", &n);
    net_limits limits = limits_make(&n, numeric_tf32, 5000, false);
    REQUIRE_OK(plan_for(&n, &limits, &ampere, &plan));
    const net_plan none = plan;
    auto layer_named = [&](const char *name) {
        int i = 0;
        while (strcmp(n.layers[i].name, name) != 0) {
            ++i;
        }
        return i;
    };
    const int low = layer_named("dec4.1.conv2"), up = layer_named("dec4.1.conv1");
    REQUIRE(none.step[low].map == none.step[up].map);
    auto planned = [&](std::vector<tune_record> records, const device_info *d) {
        limits.records = records.data();
        limits.record_count = (int)records.size();
        status s = plan_for(&n, &limits, d, &plan);
        limits.records = nullptr;
        limits.record_count = 0;
        return s;
    };
    const tune_choice small = choice_made(1, 2, 1), large = choice_made(1, 3, 1),
                      wrong = choice_made(64, 64, 1), foreign = choice_made(1, 1, 4);
    const tune_record low_small = record_of(&none, low, &ampere, 9000, small),
                      up_large = record_of(&none, up, &ampere, 9000, large),
                      up_small = record_of(&none, up, &ampere, 9000, small);
    REQUIRE_OK(planned({low_small}, &ampere));
    CHECK(tune_same_choice(&plan.step[low].choice, &small) && choice_none(&plan.step[up].choice));
    REQUIRE_OK(planned({low_small, up_large}, &ampere));
    CHECK(tune_same_choice(&plan.step[low].choice, &small));
    CHECK(tune_same_choice(&plan.step[up].choice, &large));
    for (const tune_choice &c : {wrong, foreign}) { // of other sizes, of another program
        REQUIRE_OK(planned({record_of(&none, up, &ampere, 9000, c)}, &ampere));
        CHECK_EQUAL(check_choices(&plan, &ampere), 0);
    }
    REQUIRE_OK(planned({low_small, up_large}, &turing)); // another GPU
    CHECK_EQUAL(check_choices(&plan, &turing), 0);
    tune_record other = up_large; // bits that may differ
    other.key.deterministic = false;
    REQUIRE_OK(planned({other}, &ampere));
    CHECK_EQUAL(check_choices(&plan, &ampere), 0);
    other = up_large;
    other.key.outputs *= 8; // too far away
    REQUIRE_OK(planned({other}, &ampere));
    CHECK_EQUAL(check_choices(&plan, &ampere), 0);
    // Pairs that are known choose among densities.
    tune_record dense = up_small, sparse = up_large;
    dense.key.density = 16;
    sparse.key.density = 1;
    REQUIRE_OK(planned({dense, sparse}, &ampere));
    CHECK(tune_same_choice(&plan.step[up].choice, &small)); // the first
    n.layers[up].pairs = 5000;
    REQUIRE_OK(planned({dense, sparse}, &ampere));
    CHECK(tune_same_choice(&plan.step[up].choice, &large));
    REQUIRE_OK(planned({dense}, &ampere));
    CHECK(choice_none(&plan.step[up].choice));
}

TEST(gpu_net_plan_refuses_records) {
    network n;
    net_plan plan;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 5000, false);
    REQUIRE_OK(plan_for(&n, &limits, &hopper, &plan));
    int layer = n.count - 1;
    while (!net_is_conv(&n.layers[layer])) {
        --layer;
    }
    tune_record record = {};
    for (tune_dataflow other : {tune_dataflow_ordered, tune_dataflow_hybrid_ordered}) {
        tune_choice choice = {};
        choice.dataflow = other;
        choice.threshold = other == tune_dataflow_ordered ? 0 : 2;
        record = record_of(&plan, layer, &hopper, 5000, choice);
        limits.records = &record;
        limits.record_count = 1;
        net_plan same;
        REQUIRE_OK(plan_for(&n, &limits, &hopper, &same)); // left alone: by rules
        CHECK(memcmp(&same.step[layer].choice, &plan.step[layer].choice, sizeof(tune_choice)) == 0);
    }
    record.choice = choice_made(1, 0, 1);
    status s = plan_for(&n, &limits, &hopper, &plan);
    CHECK_STATUS(s, status_bad_size);
    CHECK_EQUAL(s.subject, "tiles (slices, split)");
    limits.record_count = 0;
    CHECK_OK(plan_for(&n, &limits, &hopper, &plan));
}
