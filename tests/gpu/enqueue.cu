// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/enqueue.cu: the example in the shape of a TensorRT plugin: it equals net_run, and
// refuses bad input.
#include "../support/device.cuh"

#define main enqueue_main
#include "../../examples/enqueue.cu"
#undef main

namespace {

plugin_record record_make() {
    return plugin_record_make("MinkUNet42", {-50, -50, -10}, {50, 50, 10});
}

} // namespace

DEVICE_TEST(enqueue_is_net_run) {
    fflush(stdout);
    CHECK_OK(test_quick() ? runtime_all(500, {600, 5000}) : runtime_all(20000, {30000, 35000}));
}

DEVICE_TEST(enqueue_workspace_is_enough) {
    plugin *p = guarded_new<plugin>(1);
    pool m = {};
    bindings b;
    frame f = {};
    size_t small, large;
    plugin_record record = record_make();
    record.dims = {300, 200};
    REQUIRE_OK(plugin_create(&record, p));
    CHECK_OK(plugin_workspace(p, {300, 200}, &small));
    CHECK_OK(plugin_workspace(p, {3000, 2000}, &large));
    CHECK(small < large);
    CHECK_EQUAL(p->record.dims.points, 300); // asking has configured nothing
    int32_t rows;
    int channels;
    CHECK_OK(plugin_shape(p, &rows, &channels));
    CHECK_EQUAL(rows, 200); // the last layer is on the input's set
    CHECK_EQUAL(channels, 96);
    // The workspace has exactly the bytes asked for, between sentinels.
    CHECK_OK(frame_new(150, {20, 20, 10}, &f));
    CHECK_OK(bindings_new(p, &f, &m, &b));
    char *workspace = device_new_poisoned<char>((int64_t)small);
    CHECK_OK(plugin_pack(p, b.params, b.in[input_weights], nullptr));
    CHECK_EQUAL(plugin_enqueue(p, b.in, b.out, workspace, nullptr), 0);
    CHECK(expect_no_cuda_error());
    CHECK_EQUAL(device_value((const int32_t *)b.out[output_count]), 150);
    pool_free(&m);
    free(f.coords);
    free(f.values);
}

// The dense map follows from the extent: that of the table, or that of another range.
DEVICE_TEST(enqueue_takes_an_extent) {
    plugin *p = guarded_new<plugin>(1);
    plugin_record record = plugin_record_make("VoxelBackBone8x", {0, 0, 0}, {255, 255, 31});
    record.dims = {300, 200};
    int32_t cells;
    int channels;
    REQUIRE_OK(plugin_create(&record, p));
    CHECK_OK(plugin_shape(p, &cells, &channels));
    CHECK_EQUAL(cells, 180 * 180);
    record.extent = {1408, 1600, 41}; // KITTI
    REQUIRE_OK(plugin_create(&record, p));
    CHECK_OK(plugin_shape(p, &cells, &channels));
    CHECK_EQUAL(cells, 200 * 176);
    CHECK_EQUAL(channels, 256);
}

// The status tensor reports what only the device can see; the call itself succeeds.
DEVICE_TEST(enqueue_reports_a_capacity_that_is_exceeded) {
    plugin *p = guarded_new<plugin>(1);
    pool m = {};
    bindings b;
    frame f = {};
    plugin_record record = record_make();
    record.dims = {300, 100};
    REQUIRE_OK(plugin_create(&record, p));
    CHECK_OK(frame_new(150, {20, 20, 10}, &f));
    CHECK_OK(bindings_new(p, &f, &m, &b));
    CHECK_OK(plugin_pack(p, b.params, b.in[input_weights], nullptr));
    size_t bytes = 0;
    CHECK_OK(plugin_workspace(p, {300, 100}, &bytes));
    char *workspace = device_new_poisoned<char>((int64_t)bytes);
    CHECK_EQUAL(plugin_enqueue(p, b.in, b.out, workspace, nullptr), 0);
    CHECK(expect_no_cuda_error());
    spira::device_status trouble = device_value((const spira::device_status *)b.out[output_status]);
    spira::status s = spira::device_status_read(&trouble);
    CHECK_STATUS(s, spira::status_capacity);
    CHECK_EQUAL(s.detail, 150);
    CHECK_EQUAL(device_value((const int32_t *)b.out[output_count]), 100);
    pool_free(&m);
    free(f.coords);
    free(f.values);
}

DEVICE_TEST(enqueue_refuses) {
    plugin *p = guarded_new<plugin>(1);
    plugin_record record = record_make();
    char *any = device_new<char>(256);
    const void *in[inputs] = {any, any, any, any};
    void *out[outputs] = {any, any, any, any};
    REQUIRE_OK(plugin_create(&record, p));
    int32_t rows;
    int channels;
    CHECK_STATUS(plugin_shape(p, &rows, &channels), spira::status_bad_size); // not configured
    CHECK_EQUAL(plugin_enqueue(p, in, out, any, nullptr), (int)spira::status_bad_size);
    CHECK_OK(plugin_configure(p, {300, 200}));
    CHECK_OK(plugin_accept(p, 0));
    CHECK_OK(plugin_accept(p, 300));
    CHECK_STATUS(plugin_accept(p, 301), spira::status_capacity);
    CHECK_EQUAL(plugin_enqueue(p, in, out, nullptr, nullptr), (int)spira::status_null_pointer);
    for (int i = 0; i < inputs; ++i) {
        in[i] = nullptr;
        CHECK_EQUAL(plugin_enqueue(p, in, out, any, nullptr), (int)spira::status_null_pointer);
        in[i] = any;
    }
    for (int i = 0; i < outputs; ++i) {
        out[i] = nullptr;
        CHECK_EQUAL(plugin_enqueue(p, in, out, any, nullptr), (int)spira::status_null_pointer);
        out[i] = any;
    }
    CHECK(device_untouched(any, 0, 256)); // nothing was launched
    CHECK_STATUS(plugin_configure(p, {0, 200}), spira::status_bad_size);
    CHECK_STATUS(plugin_configure(p, {300, 0}), spira::status_bad_size);
    CHECK_EQUAL(plugin_enqueue(p, in, out, any, nullptr), (int)spira::status_bad_size);
    strcpy(record.net, "NoNet");
    CHECK_STATUS(plugin_create(&record, p), spira::status_unsupported);
    record = record_make();
    record.type = spira::numeric_bf16; // not compiled
    CHECK_STATUS(plugin_create(&record, p), spira::status_unsupported);
}
