// tests/gpu/exchange.cu: kernel maps in the forms of other engines, written on the GPU, equal the
// maps that each engine would build from the same voxels.
#include "../../spira/downsample.h"
#include "../../spira/exchange.cuh"
#include "../../spira/map.cuh"
#include "../support/device.cuh"
#include "../support/reference_exchange.h"

using namespace spira;

namespace {

const engine_memory memory = {
    [](int64_t count) { return device_new<int32_t>(count); },
    [](int32_t *to, const int32_t *from, int64_t count) {
        if (count) {
            device_copy_out(to, from, count);
        }
    },
    [](const int32_t *p, int64_t from, int64_t count) { return device_untouched(p, from, count); },
};

char label[256]; // the current case, for messages

void label_kernel(const char *what, const kernel_shape &k) {
    snprintf(label, sizeof label, "%s, kernel %dx%dx%d, dilation %d %d %d, stride %d %d %d%s", what,
             k.size.x, k.size.y, k.size.z, k.dilation.x, k.dilation.y, k.dilation.z, k.stride.x,
             k.stride.y, k.stride.z, k.transposed ? ", transposed" : "");
}

void check_same_forms(const engine_forms &got, const engine_forms &wanted,
                      int line = __builtin_LINE()) {
    const char *difference = engine_difference(got, wanted);
    char text[512];
    snprintf(text, sizeof text, "%s (%s)", difference, label);
    test_check(!*difference, __FILE__, line, text);
}

void check_trouble(device_status got, device_status wanted, int line = __builtin_LINE()) {
    char text[400];
    snprintf(text, sizeof text, "flags %u, needed %u instead of %u, %u (%s)", got.flags, got.needed,
             wanted.flags, wanted.needed, label);
    test_check(engine_same_trouble(got, wanted), __FILE__, line, text);
}

// ---- one map, in all forms ----------------------------------------------------------------------

// A set in device memory of exactly its capacity.
template <typename W>
voxel_set<W> set_upload(const std::vector<W> &words, int32_t room) {
    int32_t count = (int32_t)words.size(), capacity = std::max(count + room, 1);
    std::vector<W> all = words;
    all.resize((size_t)capacity, word_none<W>());
    return {device_upload(all.data(), capacity), device_upload(&count, 1), capacity};
}

// A map and its forms in device memory, in buffers of exactly their sizes.
template <typename W>
struct device_layer {
    word_layout layout;
    kernel_shape kernel;
    voxel_set<W> source, outputs;
    engine_limits limits;
    map_lists pairs;
    engine_buffers buffers;
    device_status *trouble;
    char *scratch;
    size_t bytes;
};

template <typename W>
device_layer<W> layer_make(const word_layout *layout, const kernel_shape *kernel,
                           voxel_set<W> source, voxel_set<W> outputs, engine_limits limits) {
    device_layer<W> l = {};
    int volume = kernel_volume(kernel);
    l.layout = *layout;
    l.kernel = *kernel;
    l.source = source;
    l.outputs = outputs;
    l.limits = limits;
    l.pairs = {device_new<int32_t>(volume + 1), device_new<int32_t>(limits.pairs),
               device_new<int32_t>(limits.pairs), limits.pairs};
    l.buffers = engine_buffers_make(&memory, kernel->size, limits);
    l.trouble = device_new<device_status>(1);
    CHECK_OK(map_lists_workspace(kernel, outputs.capacity, &l.bytes));
    l.scratch = device_new<char>((int64_t)l.bytes);
    return l;
}

template <typename W>
status layer_run(const device_layer<W> *l, cudaStream_t stream) {
    const kernel_shape *k = &l->kernel;
    SPIRA_TRY(device_status_clear(l->trouble, stream));
    const map_request<W> request = {*k, l->source, l->outputs,
                                    map_forms_none(0, false, l->trouble)};
    SPIRA_TRY(map_build_lists(&l->layout, &request, &l->pairs, l->scratch, l->bytes, stream));
    for (const exchange_lists &to : l->buffers.to) {
        SPIRA_TRY(exchange(&l->pairs, &to, l->trouble, stream));
    }
    return status_success();
}

// Compares with what the engines would have. A limit of -1 is just enough. Frees all buffers.
template <typename W>
engine_forms check_words(const word_layout *layout, const kernel_shape *kernel,
                         const std::vector<W> &source, const std::vector<W> *outputs, int32_t room,
                         engine_limits limits = {-1, -1}) {
    const std::vector<W> &to = outputs ? *outputs : source; // null: a submanifold layer
    engine_forms wanted =
        engine_forms_make(kernel, engine_unpack(layout, source.data(), (int32_t)source.size()),
                          engine_unpack(layout, to.data(), (int32_t)to.size()), &limits);
    voxel_set<W> in = set_upload(source, room), out = outputs ? set_upload(to, room) : in;
    device_layer<W> l = layer_make(layout, kernel, in, out, limits);
    CHECK_OK(layer_run(&l, stream_get()));
    check_same_forms(engine_buffers_read(&memory, &l.buffers), wanted);
    check_trouble(device_value(l.trouble), engine_trouble(wanted, limits));
    guarded_finish();
    return wanted;
}

// ---- scenes and kernels -------------------------------------------------------------------------

struct kernel_case {
    triple size, dilation;
};

const kernel_case kernels[] = {
    {{1, 1, 1}, {1, 1, 1}}, {{3, 3, 3}, {1, 1, 1}}, {{2, 2, 2}, {1, 1, 1}}, {{5, 5, 5}, {1, 1, 1}},
    {{3, 2, 1}, {1, 1, 1}}, {{1, 3, 5}, {1, 1, 1}}, {{4, 2, 3}, {1, 1, 1}}, {{2, 3, 5}, {1, 1, 1}},
    {{4, 4, 2}, {1, 1, 1}}, {{1, 1, 9}, {1, 1, 1}}, {{3, 3, 3}, {2, 2, 2}}, {{5, 3, 2}, {1, 2, 3}},
    {{2, 2, 2}, {2, 1, 2}}, {{3, 1, 7}, {3, 1, 1}}, {{7, 7, 7}, {1, 1, 1}},
};

template <typename W>
std::vector<W> words_random(random_state *random, const word_layout *layout, triple lo, triple hi,
                            triple stride, int32_t wanted) {
    std::vector<W> words((size_t)wanted + 1);
    int32_t count =
        wanted ? reference_random_set<W>(random, layout, lo, hi, stride, wanted, words.data()) : 0;
    words.resize((size_t)count);
    return words;
}

template <typename W>
void check_every_kernel() {
    random_state random = random_make(sizeof(W));
    const triple lo = {-9, -6, 2}, hi = {19, 18, 17};
    for (const kernel_case &c : kernels) {
        for (bool transposed : {false, true}) {
            triple stride = transposed ? triple{2, 1, 3} : triple{1, 1, 1};
            kernel_shape k = {c.size, c.dilation, stride, transposed};
            word_layout l = reference_layout<W>(lo, hi, 2, stride, kernel_reach(&k));
            for (int32_t n : {0, 1, 2, 33, 1100, 3000}) {
                if (test_quick() && (n > 33 || test_thinned(17))) {
                    continue;
                }
                std::vector<W> words = words_random<W>(&random, &l, lo, hi, stride, n);
                std::vector<W> others = words_random<W>(&random, &l, lo, hi, stride, n / 2);
                label_kernel("random set", k);
                check_words(&l, &k, words, (const std::vector<W> *)nullptr, n % 5);
                label_kernel("other outputs", k);
                check_words(&l, &k, words, &others, n % 3);
            }
        }
    }
}

DEVICE_TEST(gpu_exchange_every_kernel) {
    check_every_kernel<uint32_t>();
    check_every_kernel<uint64_t>();
}

// Sizes around thread blocks, chunks and groups of lanes.
template <typename W>
void check_every_size() {
    random_state random = random_make(2);
    const triple lo = {0, 0, 0}, hi = {15, 15, 15};
    const int sizes[] = {3,   7,   8,   9,   31,  32,  33,   63,   64,   65,   127,
                         128, 129, 255, 256, 257, 511, 1023, 1024, 1025, 2047, 2049};
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{1, 1, 1}, triple{3, 3, 4}}) {
        kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        word_layout l = reference_layout<W>(lo, hi, 1, {1, 1, 1}, {3, 3, 3});
        for (int n : sizes) {
            if (test_quick() && n > 65) {
                continue;
            }
            std::vector<W> words = words_random<W>(&random, &l, lo, hi, {1, 1, 1}, n);
            for (int room : {0, 1, 1100}) { // thread blocks without outputs
                if (test_thinned(23)) {
                    continue;
                }
                label_kernel("every size", k);
                check_words(&l, &k, words, (const std::vector<W> *)nullptr, room);
            }
        }
    }
}

DEVICE_TEST(gpu_exchange_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

template <typename W>
std::vector<W> floored(const word_layout *layout, const std::vector<W> &words, triple stride) {
    std::vector<W> coarse;
    for (W word : words) {
        coarse.push_back(downsample_word(layout, word, stride, downsample_by_mask(stride)));
    }
    std::sort(coarse.begin(), coarse.end());
    coarse.erase(std::unique(coarse.begin(), coarse.end()), coarse.end());
    return coarse;
}

// A strided layer and its inverse, which have the same pairs.
template <typename W>
void check_strides() {
    random_state random = random_make(3);
    const triple lo = {-20, -9, 3}, hi = {12, 15, 20};
    for (triple up : {triple{2, 2, 2}, triple{3, 1, 2}}) {
        for (const kernel_case &c : kernels) {
            kernel_shape k = {c.size, c.dilation, {1, 1, 1}, false}, back = k;
            back.transposed = true;
            word_layout l = reference_layout<W>(lo, hi, 2, up, kernel_reach(&k));
            std::vector<W> fine =
                words_random<W>(&random, &l, lo, hi, {1, 1, 1}, test_quick() ? 60 : 2500);
            std::vector<W> coarse = floored(&l, fine, up);
            label_kernel("strided", k);
            engine_forms down = check_words(&l, &k, fine, &coarse, 2);
            label_kernel("inverse", back);
            engine_forms inverse = check_words(&l, &back, coarse, &fine, 0);
            CHECK_EQUAL(down.pairs, inverse.pairs);
        }
    }
}

DEVICE_TEST(gpu_exchange_strided_and_inverse) {
    check_strides<uint32_t>();
    check_strides<uint64_t>();
}

// With many offsets few thread blocks share a list, and each moves several chunks.
DEVICE_TEST(gpu_exchange_large_kernels) {
    random_state random = random_make(4);
    const triple lo = {0, 0, 0}, hi = {39, 39, 39};
    for (triple size : {triple{15, 15, 15}, triple{14, 15, 13}, triple{9, 15, 3}}) {
        kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        word_layout l = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, kernel_reach(&k));
        for (int n : {1, 40, 9000}) {
            if (test_quick() && n > 1) {
                continue;
            }
            label_kernel("large kernel", k);
            check_words(&l, &k, words_random<uint32_t>(&random, &l, lo, hi, {1, 1, 1}, n),
                        (const std::vector<uint32_t> *)nullptr, 1);
        }
    }
}

// ---- capacities ---------------------------------------------------------------------------------

DEVICE_TEST(gpu_exchange_full_and_one_more) {
    random_state random = random_make(5);
    const triple lo = {0, 0, 0}, hi = {12, 12, 12};
    const std::vector<uint32_t> *same = nullptr;
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 3, 2}, triple{1, 1, 1}}) {
        kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        word_layout l = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, {2, 1, 1});
        for (int n : {2, 50, 1500}) {
            if (test_quick() && n > 50) {
                continue;
            }
            std::vector<uint32_t> words = words_random<uint32_t>(&random, &l, lo, hi, {1, 1, 1}, n);
            label_kernel("capacity", k);
            engine_forms f = check_words(&l, &k, words, same, 0);
            int32_t pairs = (int32_t)f.pairs, longest = (int32_t)f.longest;
            REQUIRE(longest >= 2 && pairs >= 2);
            check_words(&l, &k, words, same, 0, {pairs, longest - 1});
            check_words(&l, &k, words, same, 0, {pairs, 1});
            check_words(&l, &k, words, same, 3, {pairs, longest + 3});
            check_words(&l, &k, words, same, 0, {pairs + 5, longest - 1});
        }
    }
}

// More pairs than the lists had room for: the lists are empty, and so are the forms made of them.
DEVICE_TEST(gpu_exchange_of_lists_that_did_not_fit) {
    random_state random = random_make(6);
    const triple lo = {0, 0, 0}, hi = {9, 9, 9};
    kernel_shape k = kernel_cube(3, 1);
    label_kernel("lists that did not fit", k);
    word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<uint32_t> words = words_random<uint32_t>(&random, &layout, lo, hi, {1, 1, 1}, 300);
    engine_limits limits = {-1, -1};
    engine_voxels voxels = engine_unpack(&layout, words.data(), 300);
    engine_forms wanted = engine_forms_make(&k, voxels, voxels, &limits);
    limits.pairs -= 1;
    voxel_set<uint32_t> set = set_upload(words, 0);
    device_layer<uint32_t> l = layer_make(&layout, &k, set, set, limits);
    REQUIRE_OK(layer_run(&l, stream_get()));
    engine_forms got = engine_buffers_read(&memory, &l.buffers), none = wanted;
    none.part[engine_indice_pairs].assign(wanted.part[engine_indice_pairs].size(), -1);
    none.part[engine_indice_pair_num].assign(27, 0);
    none.part[engine_nbsizes].assign(27, 0);
    none.part[engine_begin].assign(28, 0);
    none.part[engine_nbmaps] = none.part[engine_in] = none.part[engine_out] = {};
    check_same_forms(got, none);
    CHECK_EQUAL(device_value(l.trouble).needed, (uint32_t)wanted.pairs);
}

// Begins that disagree with the arrays: nothing is read or written out of bounds.
DEVICE_TEST(gpu_exchange_of_lists_that_disagree) {
    const int32_t begins[][4] = {{0, 9, 9, 9}, {-5, 2, 4, INT32_MAX}, {4, 0, 4, 0}, {0, 4, 0, 4}};
    for (const auto &begin : begins) {
        engine_buffers b = engine_buffers_make(&memory, {1, 1, 3}, {4, 5});
        const int32_t rows[4] = {7, 7, 7, 7};
        const map_lists pairs = {device_upload(begin, 4), device_upload(rows, 4),
                                 device_upload(rows, 4), 4};
        for (const exchange_lists &to : b.to) {
            CHECK_OK(exchange(&pairs, &to, device_zeros<device_status>(1), stream_get()));
        }
        engine_forms f = engine_buffers_read(&memory, &b);
        CHECK(f.part[engine_begin].back() <= 4 && f.part[engine_nbmaps].size() <= 8);
        guarded_finish();
    }
}

// ---- real scans ---------------------------------------------------------------------------------

template <typename W>
void check_real_scan(const char *name, int size, int64_t pairs) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    kernel_shape k = kernel_cube(size, 1);
    label_kernel(name, k);
    int32_t count = (int32_t)words.size();
    engine_forms f =
        check_words(&layout, &k, words, (const std::vector<W> *)nullptr, 0, {-1, count});
    CHECK_EQUAL(f.pairs, pairs);
    CHECK_EQUAL(f.longest, count); // the centre
    kernel_shape half = kernel_cube(2, 1), back = half;
    back.transposed = true;
    std::vector<W> coarse = floored(&layout, words, {2, 2, 2});
    label_kernel(name, half);
    CHECK_EQUAL(check_words(&layout, &half, words, &coarse, 100).pairs, count);
    label_kernel(name, back);
    CHECK_EQUAL(check_words(&layout, &back, coarse, &words, 100).pairs, count);
}

DEVICE_TEST(gpu_exchange_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32");
    check_real_scan<uint32_t>("kitti00_000000_5cm.vox32", 3, 346220);
    if (!test_quick()) {
        check_real_scan<uint64_t>("kitti00_000000_5cm.vox32", 5, 847344);
        check_real_scan<uint32_t>("lone_star_5cm.vox32", 3, 2533643);
    }
}

// ---- a graph ------------------------------------------------------------------------------------

// One graph for a capacity; scenes of other sizes, one of them too dense for the stride.
template <typename W>
void check_replays(kernel_shape k) {
    const triple lo = {0, 0, 0}, hi = {19, 19, 19};
    const int32_t capacity = 2000;
    random_state random = random_make(9);
    word_layout layout = reference_layout<W>(lo, hi, 2, {1, 1, 1}, kernel_reach(&k));
    voxel_set<W> set = set_upload(words_random<W>(&random, &layout, lo, hi, {1, 1, 1}, 50), 1950);
    engine_limits limits = {capacity * kernel_volume(&k), 1500};
    device_layer<W> l = layer_make(&layout, &k, set, set, limits);
    cudaGraphExec_t replay =
        stream_capture([&](cudaStream_t stream) { CHECK_OK(layer_run(&l, stream)); });
    REQUIRE(replay != nullptr);
    int64_t overflows = 0;
    for (int n : {700, 0, 2000, 1, 1999, 1200, 33}) {
        snprintf(label, sizeof label, "replay with %d voxels", n);
        std::vector<W> words = words_random<W>(&random, &layout, lo, hi, {1, 1, 1}, n);
        engine_voxels voxels = engine_unpack(&layout, words.data(), n);
        words.resize((size_t)capacity, word_none<W>());
        device_copy_in(set.words, words.data(), capacity);
        device_copy_in(set.count, &n, 1);
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        engine_forms wanted = engine_forms_make(&k, voxels, voxels, &limits);
        check_same_forms(engine_buffers_read(&memory, &l.buffers, false), wanted);
        check_trouble(device_value(l.trouble), engine_trouble(wanted, limits));
        overflows += device_value(l.trouble).flags != 0;
    }
    CHECK(overflows >= 1 && overflows <= 5);
    CUDA_CHECK(cudaGraphExecDestroy(replay));
}

DEVICE_TEST(gpu_exchange_graph_replays) {
    check_replays<uint32_t>(kernel_cube(3, 1));
    check_replays<uint64_t>({{2, 3, 4}, {1, 1, 1}, {1, 1, 1}, false});
}

// ---- errors -------------------------------------------------------------------------------------

// What exchange_host refuses, too; nothing is launched.
DEVICE_TEST(gpu_exchange_refuses) {
    int32_t *p = device_new<int32_t>(100);
    const map_lists pairs = {p, p, p, 10};
    device_status *trouble = device_zeros<device_status>(1);
    const exchange_lists good = exchange_minkowski({3, 3, 3}, p, p, p),
                         bad = exchange_spconv({3, 3, 3}, 0, p, p);
    CHECK_STATUS(exchange(nullptr, &good, trouble, stream_get()), status_null_pointer);
    CHECK_STATUS(exchange(&pairs, nullptr, trouble, stream_get()), status_null_pointer);
    CHECK_STATUS(exchange(&pairs, &good, nullptr, stream_get()), status_null_pointer);
    CHECK_STATUS(exchange(&pairs, &bad, trouble, stream_get()), status_bad_size);
    CHECK(device_untouched(p, 0, 100));
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_exchange_planted_errors_are_found) {
    random_state random = random_make(10);
    const triple lo = {0, 0, 0}, hi = {9, 9, 9};
    kernel_shape k = {{3, 1, 5}, {1, 1, 1}, {1, 1, 1}, false}, turned = k;
    word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {1, 1, 1}, {2, 2, 2});
    std::vector<uint32_t> words = words_random<uint32_t>(&random, &layout, lo, hi, {1, 1, 1}, 200);
    engine_voxels voxels = engine_unpack(&layout, words.data(), 200);
    engine_limits limits = {-1, -1};
    engine_forms wanted = engine_forms_make(&k, voxels, voxels, &limits);
    voxel_set<uint32_t> set = set_upload(words, 0);
    device_layer<uint32_t> l = layer_make(&layout, &k, set, set, limits);
    REQUIRE_OK(layer_run(&l, stream_get()));
    engine_forms got = engine_buffers_read(&memory, &l.buffers);
    CHECK_EQUAL(engine_difference(got, wanted), "");
    for (int p = 0; p < engine_parts; ++p) {
        engine_forms bad = got;
        bad.part[p].back() ^= 1;
        CHECK(*engine_difference(bad, wanted) != 0);
    }
    // Lists written in the order of another kernel.
    turned.size = {5, 1, 3};
    const exchange_lists other =
        exchange_minkowski(turned.size, l.buffers.part[engine_begin], l.buffers.part[engine_in],
                           l.buffers.part[engine_out]);
    REQUIRE_OK(exchange(&l.pairs, &other, l.trouble, stream_get()));
    CHECK(strstr(engine_difference(engine_buffers_read(&memory, &l.buffers), wanted), "begin["));
}

} // namespace
