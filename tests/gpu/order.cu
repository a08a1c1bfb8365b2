// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/order.cu: the ordered layout on the GPU, compared with the host loop byte by byte.
#include "../../spira/order.cuh"
#include "../support/gpu.cuh"
#include "../support/orders.h"
#include "../support/sets.cuh"

using namespace spira;

namespace {

char label[256]; // the test case, for messages

typedef order_scene scene;
typedef order_arrays arrays;

// ---- one run ------------------------------------------------------------------------------------

const char *difference(const arrays &got, const arrays &wanted) {
    return order_difference(got, wanted, label);
}

struct scratch {
    char *memory;
    size_t bytes;
};

scratch scratch_make(const std::vector<order_request> &requests) {
    scratch s = {nullptr, 0};
    CHECK_OK(order_workspace(requests.data(), (int)requests.size(), &s.bytes));
    s.memory = device_new<char>((int64_t)s.bytes);
    return s;
}

status requests_build(const std::vector<order_request> &requests, const scratch *s,
                      cudaStream_t stream) {
    return order_build(gpu(), requests.data(), (int)requests.size(), s->memory, s->bytes, stream);
}

// Builds on both sides and compares; on the device twice, over its own output and scratch: with
// programmatic launches where the device can, then without. Frees all test buffers.
void check_requests(std::vector<scene> scenes, int32_t extra, bool compact) {
    std::vector<order_request> requests;
    std::vector<arrays> wanted;
    for (scene &s : scenes) {
        requests.push_back(order_request_make(&memory_device, &s, extra, compact));
        wanted.push_back(order_arrays_on_host(&s, extra));
    }
    scratch memory = scratch_make(requests);
    device_info plain = *gpu();
    plain.programmatic = false;
    for (const device_info *device : {gpu(), (const device_info *)&plain}) {
        CHECK_OK(order_build(device, requests.data(), (int)requests.size(), memory.memory,
                             memory.bytes, stream_get()));
        for (size_t i = 0; i < scenes.size(); ++i) {
            CHECK_EQUAL(
                difference(order_arrays_fetch(&memory_device, &requests[i].layout), wanted[i]), "");
        }
    }
    guarded_finish();
}

// From full maps, then from compact ones if some map can be compact.
void check_both(const std::vector<scene> &scenes, int32_t extra = 0) {
    check_requests(scenes, extra, false);
    if (std::any_of(scenes.begin(), scenes.end(),
                    [](const scene &s) { return order_scene_can_be_compact(&s); })) {
        check_requests(scenes, extra, true);
    }
}

// ---- tests --------------------------------------------------------------------------------------

const triple sizes[] = {{1, 1, 1}, {2, 2, 2}, {3, 3, 3},  {1, 3, 11}, {4, 4, 4}, {5, 5, 5},
                        {2, 5, 3}, {7, 7, 7}, {1, 1, 15}, {13, 5, 1}, {2, 4, 4}};

DEVICE_TEST(gpu_order_every_size) {
    random_state random = random_make(1);
    int turn = 0, number = 0;
    const int rooms[] = {0, 1, 300};
    const std::vector<int> all = {0,   1,    2,    15,   16,   17,   31,   32,   33,   47,  48,
                                  62,  63,   64,   65,   127,  128,  129,  255,  256,  257, 640,
                                  641, 1023, 1024, 1025, 2047, 2048, 2049, 4097, 20000},
                           few = {0, 1, 31, 33, 63, 64, 65, 128, 129};
    for (int n : test_quick() ? few : all) {
        for (triple size : sizes) {
            const int volume = size.x * size.y * size.z;
            if ((n > 700 && volume > 64) || (test_quick() && volume > 130)) {
                continue;
            }
            if (test_quick() && number++ % 4) { // still with each count and kernel
                continue;
            }
            const int room = rooms[turn / order_fills % 3];
            int32_t capacity = n + room > 0 ? n + room : 1;
            order_fill kind = (order_fill)(turn++ % order_fills);
            snprintf(label, sizeof label, "%d of %d outputs, %d x %d x %d, fill %d", n, capacity,
                     size.x, size.y, size.z, kind);
            check_both({order_scene_make(&random, size, n, capacity, kind)}, room % 2);
        }
    }
}

DEVICE_TEST(gpu_order_every_kernel) {
    random_state random = random_make(2);
    for (int x = 1; x <= kernel_size_max; ++x) {
        for (triple size : {triple{x, 16 - x, 2}, triple{2, x, x}, triple{x, 1, 4}}) {
            for (int kind = fill_none; kind < order_fills; ++kind) {
                if (test_quick() && (x > 4 || kind % 3)) {
                    continue;
                }
                snprintf(label, sizeof label, "%d x %d x %d, fill %d", size.x, size.y, size.z,
                         kind);
                check_both({order_scene_make(&random, size, 150 + kind, 200, (order_fill)kind)});
            }
        }
    }
    if (!test_quick()) {
        for (order_fill kind : {fill_sparse, fill_all, fill_by_offset}) {
            snprintf(label, sizeof label, "the largest kernel, fill %d", kind);
            check_both({order_scene_make(&random, {15, 15, 15}, 200, 230, kind)});
        }
    }
}

// Maps with the columns of each threshold, alone and of all thresholds together.
DEVICE_TEST(gpu_order_every_threshold) {
    random_state random = random_make(10);
    int turn = 0;
    for (triple size : {sizes[1], sizes[2], sizes[5], sizes[6], sizes[3], triple{9, 9, 9}}) {
        kernel_shape kernel = kernel_cube(1, 1);
        kernel.size = size;
        std::vector<scene> all;
        for (int threshold = 1; threshold <= kernel_norm_max(&kernel) + 2; ++threshold) {
            if (test_quick() && threshold % 3 != 2) {
                continue;
            }
            const int32_t counts[] = {0, 1, 64, 65, 300, 1000};
            int32_t count = counts[turn % 6];
            order_fill kind = (order_fill)(turn++ % order_fills);
            all.push_back(order_scene_make(&random, size, count, count + turn % 3 * 40 + 1, kind,
                                           turn % 5 ? threshold : 0));
            snprintf(label, sizeof label, "%d x %d x %d, t = %d, %d outputs, fill %d", size.x,
                     size.y, size.z, all.back().threshold, count, kind);
            check_both({all.back()}, turn % 2);
        }
        all.resize(std::min(all.size(), (size_t)order_maps_max), all[0]);
        snprintf(label, sizeof label, "%d x %d x %d, all thresholds", size.x, size.y, size.z);
        check_both(all);
    }
}

// A count above the capacity is clamped.
DEVICE_TEST(gpu_order_clamps_the_count) {
    random_state random = random_make(3);
    for (int32_t capacity : {1, 63, 64, 128, 200}) {
        for (int32_t over : {1, 64, 1000, INT32_MAX / 2}) {
            if (test_thinned(3)) {
                continue;
            }
            std::vector<scene> scenes;
            for (triple size : {sizes[1], sizes[2], sizes[5]}) {
                scenes.push_back(order_scene_make(&random, size, capacity, capacity, fill_half));
                scenes.back().told += scenes.size() == 3 ? 0 : over;
            }
            snprintf(label, sizeof label, "%d of %d outputs", capacity + over, capacity);
            check_both(scenes, 3);
        }
    }
}

// Random maps of a batch, some of them empty.
std::vector<scene> scenes_random(random_state *random, int maps, int32_t most) {
    std::vector<scene> scenes;
    for (int m = 0; m < maps; ++m) {
        triple size = sizes[random_int(random, 0, 9)];
        int32_t few = size.x * size.y * size.z > 130 ? most / 10 : most;
        int32_t count = random_int(random, 0, 3) ? random_int(random, 0, few) : 0;
        int32_t capacity =
            std::max(count + random_int(random, 0, 1) * random_int(random, 0, 200), 1);
        order_fill kind = (order_fill)random_int(random, fill_none, order_fills - 1);
        scenes.push_back(order_scene_make(random, size, count, capacity, kind));
        scenes.back().told += count == capacity && m % 3 == 0 ? m : 0;
    }
    return scenes;
}

DEVICE_TEST(gpu_order_many_maps) {
    for (int maps : {1, 2, 3, 5, 8, 9, 15, 16}) {
        if (test_quick() && maps % 7 != 2) {
            continue;
        }
        for (int seed = 0; seed < (test_quick() ? 1 : 3); ++seed) {
            random_state random = random_make((uint64_t)(maps * 100 + seed));
            const int32_t most = test_quick() ? 200 : seed < 1 ? 5000 : 1000;
            snprintf(label, sizeof label, "%d maps, seed %d", maps, seed);
            check_both(scenes_random(&random, maps, most), seed % 2);
        }
    }
}

// Capacities of many runs; counts around the ends of the first runs.
DEVICE_TEST(gpu_order_room_for_many_runs) {
    random_state random = random_make(11);
    int turn = 0;
    for (int32_t capacity : {1024, 2048, 2049, 10000, 20480}) {
        std::vector<scene> scenes;
        for (int32_t count :
             {0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 9999, 20480}) {
            if (count <= capacity && !(test_quick() && count > 2049) && !test_thinned(4)) {
                order_fill kind = (order_fill)(turn++ % order_fills);
                scenes.push_back(order_scene_make(&random, sizes[turn % 3], count, capacity, kind));
                snprintf(label, sizeof label, "%d of %d outputs, fill %d", count, capacity, kind);
                check_both({scenes.back()});
            }
        }
        snprintf(label, sizeof label, "all counts up to %d outputs", capacity);
        check_both(scenes);
    }
}

// Group pairs of many weights and of few; maps of one word of columns and of more.
DEVICE_TEST(gpu_order_schedules) {
    random_state random = random_make(12);
    for (int32_t count : {1, 128, 129, 16 * 128, 2048 * 8 + 1, 60000}) {
        std::vector<scene> scenes;
        for (triple size : {triple{3, 3, 3}, triple{5, 5, 5}, triple{2, 2, 2}, triple{1, 3, 11}}) {
            if (count < 2100 || (size.x < 5 && !test_quick())) {
                scene s = order_scene_make(&random, size, count, count + 200, fill_none);
                const int volume = order_scene_columns(&s);
                for (int64_t i = 0; i < (int64_t)count * volume; ++i) {
                    int own = (int)(i / volume % 37 * volume / 37); // columns at most
                    bool has = i % volume <= own && random_int(&random, 0, 7);
                    s.map[(size_t)i] = has ? (int32_t)i : -1;
                }
                scenes.push_back(s);
                snprintf(label, sizeof label, "%d rows, %d columns", count, volume);
                check_both({s});
            }
        }
        if (scenes.size()) {
            snprintf(label, sizeof label, "%d rows, all kernels", count);
            check_both(scenes);
        }
    }
}

// Many runs, and more than a scope of pairs; one map, and many.
DEVICE_TEST(gpu_order_many_rows) {
    if (test_quick()) {
        SKIP("large");
    }
    random_state random = random_make(5);
    const int32_t scope = order_scope * 2 * order_rows;
    for (int32_t count : {100001, scope - 5, scope, scope + 1, 2 * scope + 70001}) {
        for (order_fill kind : {fill_half, fill_alike, fill_last}) {
            if (count > 2 * scope && kind == fill_last) {
                continue;
            }
            triple size = count > scope / 2 ? triple{1, 2, 2} : triple{3, 3, 3};
            snprintf(label, sizeof label, "%d rows, fill %d", count, kind);
            check_both({order_scene_make(&random, size, count, count + 5, kind)});
        }
    }
    std::vector<scene> scenes;
    for (int m = 0; m < order_maps_max; ++m) {
        triple size = sizes[m % 3];
        order_fill kind = m == 15 ? fill_last : (order_fill)(m % order_fills);
        scenes.push_back(
            order_scene_make(&random, m == 15 ? sizes[2] : size, 18000 + m, 20000, kind));
    }
    snprintf(label, sizeof label, "16 maps of many rows");
    check_both(scenes);
}

// ---- maps of layers -----------------------------------------------------------------------------

// A map of map_build_host. room: rows beyond the count
template <typename W>
scene scene_of_layer(const word_layout *layout, const kernel_shape *kernel, std::vector<W> source,
                     std::vector<W> outputs, int32_t room) {
    int32_t sources = (int32_t)source.size(), count = (int32_t)outputs.size();
    scene s = order_scene_empty(kernel, 0, count, count + room);
    s.map.resize((size_t)s.capacity * (size_t)kernel_volume(kernel), 12345);
    voxel_set<W> from = {source.data(), &sources, sources}, to = {outputs.data(), &count, count};
    CHECK_OK(map_build_host(layout, kernel, from, to, s.map.data()));
    return s;
}

template <typename W>
void check_scan(const char *name, std::initializer_list<int> kernels) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    std::vector<scene> scenes;
    for (int size : kernels) {
        kernel_shape kernel = kernel_cube(size, 1);
        scenes.push_back(scene_of_layer(&layout, &kernel, words, words, size == 3 ? 0 : 1000));
        snprintf(label, sizeof label, "%s, K = %d", name, size);
        check_both({scenes.back()});
    }
    snprintf(label, sizeof label, "%s, all kernels", name);
    check_both(scenes);
}

DEVICE_TEST(gpu_order_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32");
    if (test_quick()) {
        SKIP("large");
    }
    check_scan<uint32_t>("kitti00_000000_5cm.vox32", {3, 2, 5});
    check_scan<uint64_t>("lone_star_5cm.vox32", {3});
}

// ---- graphs -------------------------------------------------------------------------------------

// Replaces the scene of a request, in the same memory.
void request_refill(const order_request *r, scene *s) {
    if (r->compact) {
        order_scene_compact(s);
        device_copy_in((int32_t *)r->compact, s->compact.data(), (int64_t)s->compact.size());
    } else {
        device_copy_in((int32_t *)r->map, s->map.data(), (int64_t)s->map.size());
    }
    device_copy_in((int32_t *)r->count, &s->told, 1);
    CUDA_CHECK(cudaMemset(r->layout.source, guarded_poison,
                          (size_t)r->layout.groups * (size_t)r->layout.volume * order_rows *
                              sizeof(int32_t)));
    CUDA_CHECK(cudaMemset(r->layout.schedule, guarded_poison,
                          (size_t)order_pairs(r->layout.groups) * sizeof(int32_t)));
    CUDA_CHECK(cudaDeviceSynchronize());
}

// One graph, replayed with scenes of other sizes.
void check_replays(const std::vector<triple> &kernels, int32_t capacity, bool compact) {
    random_state random = random_make(7);
    std::vector<scene> scenes;
    std::vector<order_request> requests;
    for (triple size : kernels) {
        scenes.push_back(order_scene_make(&random, size, 100, capacity, fill_half));
        requests.push_back(order_request_make(&memory_device, &scenes.back(), 0, compact));
    }
    scratch memory = scratch_make(requests);
    cudaGraphExec_t replay = stream_capture(
        [&](cudaStream_t stream) { CHECK_OK(requests_build(requests, &memory, stream)); });
    REQUIRE(replay != nullptr);
    for (int32_t count : {100, capacity, 0, 1, capacity - 1, 64, capacity}) {
        for (size_t i = 0; i < kernels.size(); ++i) {
            int32_t own = i % 2 ? capacity - count : count;
            order_fill kind = (order_fill)random_int(&random, fill_none, order_fills - 1);
            scenes[i] = order_scene_make(&random, kernels[i], own, capacity, kind);
            request_refill(&requests[i], &scenes[i]);
        }
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        for (size_t i = 0; i < kernels.size(); ++i) {
            snprintf(label, sizeof label, "map %zu, replayed with %d rows", i, count);
            CHECK_EQUAL(difference(order_arrays_fetch(&memory_device, &requests[i].layout),
                                   order_arrays_on_host(&scenes[i], 0)),
                        "");
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_order_replays) {
    for (bool compact : {false, true}) {
        check_replays({{3, 3, 3}}, 500, compact);
        check_replays({{3, 3, 3}, {2, 2, 2}, {5, 5, 5}}, 1000, compact);
        if (!test_quick()) {
            check_replays({{3, 3, 3}, {2, 2, 2}}, 130000, compact);
        }
    }
}

// ---- sizes and errors ---------------------------------------------------------------------------

// The map and the sources have more entries than an int can count.
DEVICE_TEST(gpu_order_beyond_32_bits) {
    const int32_t rows = 699990, volume = 3375, none = 100, own = 650000;
    const int64_t taps = (int64_t)rows * volume;
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)taps * 8 + ((size_t)1 << 30)) {
        SKIP("takes 20 GB of device memory and is not quick");
    }
    // The last rows have no taps, so they come first. All others have all taps; one row has sources
    // of its own.
    int32_t *map = device_new<int32_t>(taps);
    CUDA_CHECK(cudaMemset(map, 1, (size_t)taps * sizeof(int32_t)));
    CUDA_CHECK(cudaMemset(map + taps - (int64_t)none * volume, 0xff,
                          (size_t)none * volume * sizeof(int32_t)));
    std::vector<int32_t> numbers;
    for (int32_t k = 0; k < volume; ++k) {
        numbers.push_back(k);
    }
    device_copy_in(map + (int64_t)own * volume, numbers.data(), volume);
    const int32_t many = order_count(rows);
    order_request request = {};
    request.kernel = kernel_cube(15, 1);
    request.map = map;
    request.count = device_upload(&rows, 1);
    request.capacity = rows;
    request.layout.row = device_new<int32_t>((int64_t)many * order_rows);
    request.layout.mask = device_new<uint32_t>((int64_t)many * order_words(volume));
    request.layout.source = device_new<int32_t>((int64_t)many * volume * order_rows);
    request.layout.schedule = device_new<int32_t>(order_pairs(many));
    request.layout.groups = many;
    request.layout.volume = volume;
    scratch memory = scratch_make({request});
    REQUIRE_OK(requests_build({request}, &memory, stream_get()));
    const int32_t *row = device_fetch(request.layout.row, (int64_t)many * order_rows);
    for (int32_t p = 0; p < many * order_rows; ++p) {
        CHECK_EQUAL(row[p], p < none ? rows - none + p : p < rows ? p - none : -1);
    }
    for (int64_t group : {(int64_t)1, ((int64_t)1 << 31) / (64 * volume),
                          (int64_t)(own + none) / order_rows, (int64_t)many - 1}) {
        const int32_t *source = device_fetch(request.layout.source + group * volume * order_rows,
                                             (int64_t)volume * order_rows);
        for (int64_t i = 0; i < (int64_t)volume * order_rows; ++i) {
            int64_t place = group * order_rows + i % order_rows;
            CHECK_EQUAL(source[i], place < none || place >= rows ? -1
                                   : place == own + none         ? (int32_t)(i / order_rows)
                                                                 : 0x01010101);
        }
    }
}

// What a request is refused for is tested on the host (order_refuses), which shares the check.
DEVICE_TEST(gpu_order_refuses) {
    random_state random = random_make(8);
    scene s = order_scene_make(&random, {3, 3, 3}, 10, 10, fill_half);
    const std::vector<order_request> good = {order_request_make(&memory_device, &s, 0, false),
                                             order_request_make(&memory_device, &s, 0, false)};
    const scratch memory = scratch_make(good);
    auto refused = [&](status_code code, const char *subject, auto spoil) {
        std::vector<order_request> bad = good;
        spoil(&bad[1]); // the second request, with the first a good one
        const status got = requests_build(bad, &memory, stream_get());
        CHECK_STATUS(got, code);
        CHECK_EQUAL(got.subject, subject);
    };
    alignas(16) static int32_t compact[8];
    auto compacted = [](order_request *r, int32_t *from) {
        r->map = nullptr;
        r->compact = from;
    };
    refused(status_bad_size, "capacity (of all maps)",
            [](order_request *r) { r->capacity = INT32_MAX / 2; });
    refused(status_alignment, "compact", [&](order_request *r) { compacted(r, compact + 2); });
    refused(status_unsupported, "map (beside its compact form)",
            [](order_request *r) { r->compact = compact; });
    for (triple wrong : {triple{1, 3, 9}, triple{9, 3, 1}}) { // of the same volume
        refused(status_unsupported, "compact (of such a map)", [=](order_request *r) {
            compacted(r, compact);
            r->kernel.size = wrong;
        });
    }
    auto start = [&](const device_info *device, const order_request *requests, int maps, void *at,
                     size_t bytes) {
        return order_build(device, requests, maps, at, bytes, stream_get());
    };
    const std::vector<order_request> many((size_t)17, good[0]);
    for (int maps : {-1, 0, 17}) {
        CHECK_STATUS(start(gpu(), many.data(), maps, memory.memory, memory.bytes), status_bad_size);
    }
    CHECK_STATUS(start(gpu(), nullptr, 1, memory.memory, memory.bytes), status_null_pointer);
    CHECK_STATUS(start(nullptr, good.data(), 2, memory.memory, memory.bytes), status_null_pointer);
    CHECK_STATUS(start(gpu(), good.data(), 2, memory.memory, memory.bytes - 1), status_workspace);
    CHECK_STATUS(start(gpu(), good.data(), 2, nullptr, memory.bytes), status_null_pointer);
    CHECK_STATUS(start(gpu(), good.data(), 2, memory.memory + 8, memory.bytes), status_alignment);
    CHECK_STATUS(order_workspace(good.data(), 1, nullptr), status_null_pointer);
    // Nothing was written.
    for (const order_request &r : good) {
        CHECK_EQUAL(difference(order_arrays_fetch(&memory_device, &r.layout),
                               order_arrays_make(order_count(s.capacity), order_scene_columns(&s))),
                    "");
    }
    CHECK_OK(requests_build(good, &memory, stream_get()));
}

} // namespace
