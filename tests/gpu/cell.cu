// tests/gpu/cell.cu: layouts made of cells on the GPU, byte for byte those of the host loop.
#include "../../spira/cell.cuh"
#include "../support/cells.h"
#include "../support/orders.cuh"
#include "../support/sets.cuh"

using namespace spira;

namespace {

char label[256]; // the case at hand, for the message

// `extra` blocks are more than are needed.
template <typename W>
order_arrays on_host(const cell_scene<W> *s, int32_t capacity, int32_t sources, int32_t extra) {
    const int volume = kernel_volume(&s->kernel);
    const int32_t blocks = order_count(capacity) + extra;
    order_arrays a = order_arrays_make(blocks, volume);
    std::vector<W> outputs = s->outputs, source = s->source;
    int32_t count = (int32_t)outputs.size(), many = (int32_t)source.size();
    outputs.resize((size_t)std::max(capacity, count), word_none<W>());
    source.resize((size_t)std::max(sources, many), word_none<W>());
    cell_request<W> r = {s->kernel,
                         {source.data(), &many, sources},
                         {outputs.data(), &count, capacity},
                         order_arrays_layout(&a)};
    CHECK_OK(cell_order_host(&s->layout, &r));
    return a;
}

// A set of such a capacity that may tell of more words than it holds.
template <typename W>
voxel_set<W> set_make(const std::vector<W> &words, int32_t capacity) {
    std::vector<W> all(words);
    const int32_t told = (int32_t)words.size();
    all.resize((size_t)capacity, word_none<W>());
    return {device_upload(all.data(), capacity), device_upload(&told, 1), capacity};
}

template <typename W>
cell_request<W> request_make(const cell_scene<W> *s, int32_t capacity, int32_t sources,
                             int32_t extra) {
    const int volume = kernel_volume(&s->kernel);
    const int32_t blocks = order_count(capacity) + extra;
    return {s->kernel, set_make(s->source, sources), set_make(s->outputs, capacity),
            order_layout_new(blocks, volume)};
}

void check_same(const order_layout &got, const order_arrays &wanted) {
    CHECK_EQUAL(order_difference(order_arrays_fetch(&got), wanted, label), "");
}

// One case: room beyond the words, or below 0 fewer places than there are words.
template <typename W>
struct job {
    cell_scene<W> scene;
    int32_t room, source_room, extra;
};

// All cases in one go, twice over the same memory.
template <typename W>
void check_jobs(const std::vector<job<W>> &jobs, const word_layout *layout) {
    std::vector<cell_request<W>> requests;
    std::vector<order_arrays> wanted;
    for (const job<W> &j : jobs) {
        const int32_t capacity = std::max((int32_t)j.scene.outputs.size() + j.room, 1);
        const int32_t sources = std::max((int32_t)j.scene.source.size() + j.source_room, 1);
        requests.push_back(request_make(&j.scene, capacity, sources, j.extra));
        wanted.push_back(on_host(&j.scene, capacity, sources, j.extra));
    }
    size_t bytes = 0;
    CHECK_OK(cell_workspace(requests.data(), (int)requests.size(), &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(cell_order(layout, requests.data(), (int)requests.size(), scratch, bytes,
                            stream_get()));
        for (size_t i = 0; i < jobs.size(); ++i) {
            check_same(requests[i].layout, wanted[i]);
        }
    }
    guarded_finish();
}

template <typename W>
void check_counts(uint64_t seed) {
    random_state random = random_make(seed);
    const std::vector<int> all = {0,    1,    31,   32,   63,   64,   65,   127,  128,   129,  500,
                                  1023, 1024, 1025, 2047, 2048, 2049, 4095, 5000, 20000, 66000},
                           few = {0, 1, 64, 129, 1024, 1025, 3000};
    int turn = 0;
    for (int n : test_quick() ? few : all) {
        for (int room : {0, 1, 1500, -1}) {
            const bool inverse = turn / 2 % 2;
            const triple size = turn % 3 ? triple{2, 2, 2} : cell_size_any(&random);
            const triple stride = cell_stride_any(&random, turn % 2);
            job<W> j = {cell_scene_make<W>(&random, inverse, size, stride, n, turn % 4 ? 0 : 9,
                                           turn % 7 < 3 ? 20 : 60),
                        room,
                        turn % 5   ? 0
                        : turn % 2 ? 40
                                   : -(n / 40),
                        turn % 2};
            j.room = std::max(j.room, -(int)j.scene.outputs.size() + 1);
            snprintf(label, sizeof label, "%d outputs of %d, room %d, %d x %d x %d, %d cells, %d",
                     (int)j.scene.outputs.size(), n, room, size.x, size.y, size.z,
                     (int)j.scene.source.size(), j.source_room);
            ++turn;
            check_jobs<W>({j}, &j.scene.layout);
        }
    }
}

DEVICE_TEST(gpu_cell_every_count) {
    check_counts<uint32_t>(1);
    check_counts<uint64_t>(2);
}

// Sixteen at a time, of sizes and strides by turns, with one layout of words.
DEVICE_TEST(gpu_cell_batches) {
    random_state random = random_make(3);
    for (int many : {1, 2, 7, 16}) {
        std::vector<job<uint32_t>> jobs;
        for (int i = 0; i < many; ++i) {
            const int32_t wanted = i % 4 ? random_int(&random, 0, 3000) : i * 64;
            const int step = 1 << i % 3;
            jobs.push_back({cell_scene_make<uint32_t>(&random, i / 2 % 2, {2, 2, i % 2 + 1},
                                                      {step, step, step}, wanted, 0, 32),
                            i % 3 * 100, 0, 0});
        }
        // All are multiples of the largest cell, and have the same bounds.
        const word_layout layout =
            reference_layout<uint32_t>({-32, -32, -32}, {32, 32, 32}, 3, {8, 8, 8}, {8, 8, 8});
        for (job<uint32_t> &j : jobs) {
            for (std::vector<uint32_t> *words : {&j.scene.outputs, &j.scene.source}) {
                for (uint32_t &word : *words) {
                    word = word_pack<uint32_t>(&layout, word_unpack(&j.scene.layout, word));
                }
            }
            j.scene.layout = layout;
        }
        snprintf(label, sizeof label, "%d layouts at once", many);
        check_jobs(jobs, &layout);
    }
}

DEVICE_TEST(gpu_cell_refuses) {
    random_state random = random_make(4);
    const cell_scene<uint32_t> s =
        cell_scene_make<uint32_t>(&random, false, {2, 2, 2}, {1, 1, 1}, 300, 0, 10);
    const int32_t capacity = (int32_t)s.outputs.size();
    const cell_request<uint32_t> good = request_make(&s, capacity, (int32_t)s.source.size(), 0);
    size_t bytes = 0;
    CHECK_OK(cell_workspace(&good, 1, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    const cell_request<uint32_t> *null = nullptr;
    auto run = [&](const cell_request<uint32_t> *r, int many, void *at, size_t given) {
        return cell_order(&s.layout, r, many, at, given, stream_get());
    };
    CHECK_STATUS(cell_workspace(null, 1, &bytes), status_null_pointer);
    CHECK_STATUS(cell_workspace(&good, 1, nullptr), status_null_pointer);
    CHECK_STATUS(run(null, 1, scratch, bytes), status_null_pointer);
    CHECK_STATUS(run(&good, 1, nullptr, bytes), status_null_pointer);
    CHECK_STATUS(run(&good, 1, scratch + 16, bytes), status_alignment);
    CHECK_STATUS(run(&good, 1, scratch, bytes - 1), status_workspace);
    CHECK_STATUS(run(&good, 0, scratch, bytes), status_bad_size);
    CHECK_STATUS(run(&good, cell_requests_max + 1, scratch, bytes), status_bad_size);
    cell_request<uint32_t> bad = good;
    bad.kernel.size = {3, 3, 3};
    CHECK_STATUS(run(&bad, 1, scratch, bytes), status_unsupported);
    check_same(good.layout, order_arrays_make(good.layout.blocks, good.layout.volume));
    CHECK_OK(run(&good, 1, scratch, bytes));
}

} // namespace
