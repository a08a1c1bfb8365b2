// tests/gpu/expand.cu: the outputs that kernels touch, on the GPU, word for word those of the host
// loop, and the maps between the two sets entry for entry.
#include "../../spira/expand.cuh"
#include "../../spira/map.cuh"
#include "../support/device.cuh"
#include "../support/expand.h"

namespace {

char label[256];    // the case at hand, for the message
char finding[1024]; // the first difference

// ---- layers -------------------------------------------------------------------------------------

typedef expand_layer layer;

const layer layers_all[] = {
    layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
    layer_make({3, 3, 3}, {2, 2, 2}, {0, 0, 0}),
    layer_make({3, 3, 3}, {2, 2, 2}, {1, 1, 0}),
    layer_make({1, 1, 3}, {1, 1, 2}, {0, 0, 0}),
    layer_make({2, 2, 2}, {2, 2, 2}, {0, 0, 0}),
    layer_make({3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
    layer_make({5, 5, 5}, {2, 2, 2}, {2, 2, 2}),
    layer_make({3, 3, 3}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}),
    layer_make({3, 3, 3}, {3, 3, 3}, {1, 0, 2}, {2, 1, 3}),
    layer_make({4, 2, 3}, {3, 1, 2}, {1, 1, 0}, {1, 2, 1}),
    layer_make({1, 1, 1}, {2, 2, 2}, {0, 0, 0}),
    layer_make({1, 1, 1}, {1, 1, 1}, {0, 0, 0}),
    layer_make({2, 2, 2}, {1, 1, 1}, {1, 1, 1}),
    layer_make({1, 1, 15}, {1, 1, 4}, {0, 0, 7}),
};
const int layers_count = (int)(sizeof layers_all / sizeof *layers_all);

// What is told of a case where it fails.
void label_layer(const char *what, const layer *l, int64_t rows, int64_t capacity) {
    const kernel_shape *k = &l->kernel;
    const expand_rule *r = &l->rule;
    snprintf(label, sizeof label,
             "%s: %lld rows into %lld; size %d %d %d, ratio %d %d %d, padding %d %d %d, dilation "
             "%d %d %d, spacing %d, extent %d",
             what, (long long)rows, (long long)capacity, k->size.x, k->size.y, k->size.z,
             r->ratio.x, r->ratio.y, r->ratio.z, r->padding.x, r->padding.y, r->padding.z,
             k->dilation.x, k->dilation.y, k->dilation.z, k->stride.x, r->grid.extent.x);
}

// ---- one run, on either side --------------------------------------------------------------------

template <typename W>
struct outcome_with_map {
    device_status trouble;
    int32_t count;
    std::vector<W> words;     // [out capacity]
    std::vector<int32_t> map; // [count, volume]
};

// `count` may lie: more than there is room for.
template <typename W>
outcome_with_map<W> expand_on_host(const word_layout *layout, const layer *l, std::vector<W> words,
                                   int32_t count, int32_t capacity, int32_t out_capacity) {
    outcome_with_map<W> o;
    o.trouble = {};
    o.words.assign((size_t)out_capacity, 0);
    set_pad(&words, capacity);
    voxel_set<W> in = {words.data(), &count, capacity};
    voxel_set<W> out = {o.words.data(), &o.count, out_capacity};
    const expand_args<W> args = {layout, &l->kernel, &l->rule, in, out, &o.trouble};
    size_t bytes = 0;
    CHECK_OK(expand_host_workspace(&args, &bytes));
    CHECK_OK(expand_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    o.map.resize((size_t)o.count * (size_t)kernel_volume(&l->kernel));
    if (!o.map.empty()) { // an empty vector has no pointer to give
        CHECK_OK(map_build_host(layout, &l->kernel, in, out, o.map.data()));
    }
    return o;
}

// Buffers of one run on the device, all of exactly the size that is asked for.
template <typename W>
struct device_run {
    voxel_set<W> in, out;
    device_status *trouble;
    int32_t *map; // [out capacity, volume]
    char *scratch;
    size_t scratch_bytes;
};

// layout: null: the scratch is that for any layout.
template <typename W>
device_run<W> device_run_make(const word_layout *layout, const layer *l, std::vector<W> words,
                              int32_t count, int32_t capacity, int32_t out_capacity) {
    device_run<W> d;
    set_pad(&words, capacity);
    d.in = {device_upload(words.data(), capacity), device_upload(&count, 1), capacity};
    d.out = {device_new<W>(out_capacity), device_new<int32_t>(1), out_capacity};
    d.trouble = device_zeros<device_status>(1);
    d.map = device_new_poisoned<int32_t>((int64_t)out_capacity * kernel_volume(&l->kernel));
    d.scratch_bytes = 0;
    const expand_args<W> args = {layout, &l->kernel, &l->rule, d.in, d.out, d.trouble};
    CHECK_OK(expand_workspace(&args, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    return d;
}

template <typename W>
status device_run_start(const word_layout *layout, const layer *l, const device_run<W> *d,
                        cudaStream_t stream) {
    const expand_args<W> args = {layout, &l->kernel, &l->rule, d->in, d->out, d->trouble};
    SPIRA_TRY(expand((const device_info *)nullptr, &args, d->scratch, d->scratch_bytes, stream));
    return map_build<W>(layout, &l->kernel, d->in, d->out, d->map, stream);
}

template <typename W>
outcome_with_map<W> device_run_fetch(const layer *l, const device_run<W> *d) {
    outcome_with_map<W> o;
    o.trouble = device_value(d->trouble);
    o.count = device_value(d->out.count);
    o.words.resize((size_t)d->out.capacity);
    device_copy_out(o.words.data(), d->out.words, d->out.capacity);
    if (CHECK(o.count >= 0 && o.count <= d->out.capacity)) {
        o.map.resize((size_t)o.count * (size_t)kernel_volume(&l->kernel));
        device_copy_out(o.map.data(), d->map, (int64_t)o.map.size());
    }
    return o;
}

// "" where all is the same; else what is not.
template <typename W>
const char *difference(const outcome_with_map<W> &got, const outcome_with_map<W> &wanted) {
    finding[0] = 0;
    if (got.count != wanted.count || got.words.size() != wanted.words.size()) {
        snprintf(finding, sizeof finding, "count: %d instead of %d (%s)", got.count, wanted.count,
                 label);
        return finding;
    }
    for (size_t i = 0; i < got.words.size(); ++i) {
        if (got.words[i] != wanted.words[i]) {
            snprintf(finding, sizeof finding, "words[%zu]: %llx instead of %llx (%s)", i,
                     (unsigned long long)got.words[i], (unsigned long long)wanted.words[i], label);
            return finding;
        }
    }
    if (memcmp(&got.trouble, &wanted.trouble, sizeof got.trouble) != 0) {
        snprintf(finding, sizeof finding,
                 "trouble: flags %u, range %u, needed %u instead of %u, %u, %u (%s)",
                 got.trouble.flags, got.trouble.first_range, got.trouble.needed,
                 wanted.trouble.flags, wanted.trouble.first_range, wanted.trouble.needed, label);
    } else if (got.map != wanted.map) {
        snprintf(finding, sizeof finding, "map (%s)", label);
    }
    return finding;
}

// Both sides, the device twice: the second run finds scratch and outputs as the first left them.
// Frees all buffers of the test.
template <typename W>
outcome_with_map<W> check_both(const word_layout *layout, const layer *l,
                               const std::vector<W> &words, int32_t count, int32_t capacity,
                               int32_t out_capacity) {
    outcome_with_map<W> wanted = expand_on_host(layout, l, words, count, capacity, out_capacity);
    device_run<W> d =
        device_run_make(count % 2 ? layout : nullptr, l, words, count, capacity, out_capacity);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_run_start(layout, l, &d, stream_get()));
        CHECK_EQUAL(difference(device_run_fetch(l, &d), wanted), "");
    }
    guarded_finish();
    return wanted;
}

// ---- sizes and scenes ---------------------------------------------------------------------------

template <typename W>
void check_every_size() {
    const int sizes[] = {0,    1,    2,    31,   32,   33,   63,    64,   65,  127,
                         128,  129,  240,  255,  256,  257,  511,   512,  513, 1023,
                         1024, 1025, 2047, 2048, 2049, 4097, 10007, 65537};
    random_state random = random_make(1);
    int turn = 0;
    for (int n : sizes) {
        if (test_quick() && n > 300) {
            continue;
        }
        for (int room : {0, 37}) {
            const layer *l = &layers_all[turn++ % layers_count];
            int side = n < 300 ? 6 : n < 3000 ? 14 : 45;
            triple lo = triple_make(-side, -side, -side), hi = triple_make(side, side, side - 3);
            word_layout layout = layout_for<W>(l, lo, hi, 2);
            std::vector<W> words = random_words<W>(&random, &layout, l, lo, hi, n);
            int32_t count = (int32_t)words.size(), capacity = count + room > 0 ? count + room : 1;
            label_layer("sizes", l, count, capacity);
            outcome_with_map<W> o = check_both(&layout, l, words, count, capacity, 8 * capacity);
            status s = device_status_read(&o.trouble);
            CHECK(s.code == status_ok || s.code == status_capacity);
        }
    }
}

DEVICE_TEST(gpu_expand_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

template <typename W>
void check_random_scenes(int scenes) {
    int troubled = 0;
    for (int seed = 0; seed < scenes; ++seed) {
        random_state random = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        layer l = layer_random(&random, 40);
        triple e = l.rule.grid.extent;
        triple hi = triple_make(e.x ? e.x - 1 : 40, e.y ? e.y - 1 : 19, e.z ? e.z - 1 : 11);
        // A quarter has no room for its outputs, another one has voxels off its grid.
        word_layout layout =
            layout_for<W>(&l, {0, 0, 0}, hi, random_int(&random, 1, 5), seed % 4 != 0);
        std::vector<W> words;
        if (seed % 4 == 1) {
            words.resize(300);
            words.resize((size_t)reference_random_set(&random, &layout, layout.lo, layout.hi,
                                                      {1, 1, 1}, 300, words.data()));
        } else {
            words =
                random_words<W>(&random, &layout, &l, {0, 0, 0}, hi, random_int(&random, 0, 1500));
        }
        int32_t count = (int32_t)words.size(), room = random_int(&random, 0, 300);
        int32_t capacity = count + room > 0 ? count + room : 1;
        int32_t out_capacity = random_int(&random, 0, 2) ? 9 * capacity : 1 + count / 2;
        label_layer("random", &l, count, out_capacity);
        outcome_with_map<W> o = check_both(&layout, &l, words, count, capacity, out_capacity);
        troubled += (o.trouble.flags & device_flag_range) != 0;
    }
    CHECK(troubled > scenes / 4 && troubled <= scenes / 2);
}

DEVICE_TEST(gpu_expand_random_scenes) {
    check_random_scenes<uint32_t>(test_quick() ? 8 : 200);
    check_random_scenes<uint64_t>(test_quick() ? 8 : 200);
}

// Voxels at both ends of every field; what has no room is said, with the first row at fault.
template <typename W>
void check_field_ends(int batches) {
    for (layer l : layers_all) {
        triple reach = kernel_reach(&l.kernel);
        word_layout layout =
            reference_layout<W>({-20, -7, -30}, {41, 50, 5}, batches, {1, 1, 1}, reach);
        std::vector<W> words;
        for (int batch = 0; batch < batches; ++batch) {
            for (int x : {layout.lo.x, layout.lo.x + 1, -1, 0, layout.hi.x - 1, layout.hi.x}) {
                for (int y : {layout.lo.y, -1, 0, layout.hi.y}) {
                    for (int z : {layout.lo.z, -1, 0, layout.hi.z - 1, layout.hi.z}) {
                        words.push_back(word_pack<W>(&layout, {batch, x, y, z}));
                    }
                }
            }
        }
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        int32_t count = (int32_t)words.size();
        label_layer("field ends", &l, count, 40 * count);
        outcome_with_map<W> o = check_both(&layout, &l, words, count, count, 40 * count);
        for (int32_t i = 0; i < o.count; ++i) {
            voxel v = word_unpack<W>(&layout, o.words[(size_t)i]);
            CHECK(word_contains(&layout, v));
        }
        l.rule.grid.origin = {-20, -7, -30};
        l.rule.grid.extent = {62, 58, 36}; // and what is off the grid
        label_layer("field ends, extent", &l, count, 40 * count);
        check_both(&layout, &l, words, count, count, 40 * count);
    }
}

DEVICE_TEST(gpu_expand_field_ends) {
    check_field_ends<uint32_t>(1);
    check_field_ends<uint32_t>(4);
    check_field_ends<uint64_t>(1);
    check_field_ends<uint64_t>(9);
}

template <typename W>
void check_capacity() {
    random_state random = random_make(3);
    triple lo = triple_make(0, 0, 0), hi = triple_make(30, 30, 30);
    for (int n : {1, 33, 257, 1025, 4097}) {
        if (test_quick() && n > 300) {
            continue;
        }
        for (int i : {0, 5, 6}) {
            const layer *l = &layers_all[i];
            word_layout layout = layout_for<W>(l, lo, hi, 1);
            std::vector<W> words = random_words<W>(&random, &layout, l, lo, hi, n);
            int32_t count = (int32_t)words.size();
            int32_t all = expand_on_host(&layout, l, words, count, count, 125 * count).count;
            for (int32_t capacity : {all + 1, all, all - 1, all / 2, 1}) {
                if (capacity < 1) {
                    continue;
                }
                label_layer("capacity", l, count, capacity);
                outcome_with_map<W> o = check_both(&layout, l, words, count, count, capacity);
                status s = device_status_read(&o.trouble);
                CHECK_EQUAL(o.count, capacity < all ? capacity : all);
                CHECK_EQUAL(s.code, capacity < all ? status_capacity : status_ok);
                CHECK_EQUAL(s.detail, capacity < all ? all : 0);
            }
            // A capacity far above what can be touched: the tail is filled too.
            check_both(&layout, l, words, count, count, 200 * count + 5000);
            // A count above the capacity.
            label_layer("count", l, count + 100, 125 * count);
            check_both(&layout, l, words, count + 100, count, 125 * count);
        }
    }
}

DEVICE_TEST(gpu_expand_full_capacity_and_one_more) {
    check_capacity<uint32_t>();
    check_capacity<uint64_t>();
}

// ---- real scans ---------------------------------------------------------------------------------

// The encoder of SECOND and CenterPoint, each layer from the outputs of the one before.
template <typename W>
void check_chain(const char *name, bool bounded) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 64, &layout);
    REQUIRE(!words.empty());
    word_need need = word_need_of(layout.lo, layout.hi, 1, {1, 1, 1}, {0, 0, 0});
    expand_grid grid = {{0, 0, 0}, {0, 0, 0}};
    if (bounded) {
        grid.extent = triple_make(layout.hi.x + 1, layout.hi.y + 1, layout.hi.z + 1);
    }
    layer chain[4] = {layers_all[0], layers_all[0], layers_all[2], layers_all[3]};
    triple spacing = {1, 1, 1};
    for (layer &l : chain) {
        l.kernel.stride = spacing;
        l.rule.grid = grid;
        REQUIRE_OK(expand_need(&l.kernel, &l.rule, &need));
        REQUIRE_OK(expand_out(&l.kernel, &l.rule, &grid));
        spacing = triple_multiply(spacing, l.rule.ratio);
    }
    word_layout wide = layout;
    REQUIRE_OK(word_fit(&need, &wide));
    wide = sizeof(W) == 8 ? word_widen(wide) : wide;
    REQUIRE_OK(word_check<W>(&wide));
    for (W &word : words) {
        word = word_pack<W>(&wide, word_unpack(&layout, word));
    }
    for (const layer &l : chain) {
        int32_t n = (int32_t)words.size();
        label_layer(name, &l, n, 3 * n);
        outcome_with_map<W> o = check_both(&wide, &l, words, n, n, 3 * n);
        CHECK_OK(device_status_read(&o.trouble));
        REQUIRE(CHECK(o.count > 0));
        words.assign(o.words.begin(), o.words.begin() + o.count);
    }
}

DEVICE_TEST(gpu_expand_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32");
    if (test_quick()) {
        SKIP("a scan is too large for a sanitizer");
    }
    check_chain<uint64_t>("kitti00_000000_5cm.vox32", true);
    check_chain<uint64_t>("kitti00_000000_5cm.vox32", false);
    check_chain<uint32_t>("lone_star_5cm.vox32", true);
    check_chain<uint64_t>("lone_star_5cm.vox32", false);
    // A growing set: 27 outputs for each input.
    word_layout layout;
    std::vector<uint64_t> words = reference_scan<uint64_t>("kitti00_000000_5cm.vox32", 16, &layout);
    int32_t n = (int32_t)words.size();
    label_layer("growing", &layers_all[5], n, 12 * n);
    outcome_with_map<uint64_t> o = check_both(&layout, &layers_all[5], words, n, n, 12 * n);
    CHECK(o.count > 2 * n);
}

// ---- one graph for all scenes -------------------------------------------------------------------

template <typename W>
void check_replays(const layer *l) {
    const int32_t capacity = 2000, out_capacity = 6000;
    random_state random = random_make(4);
    triple lo = triple_make(-30, -20, -9), hi = triple_make(29, 33, 9);
    word_layout layout = layout_for<W>(l, lo, hi, 3);
    device_run<W> d = device_run_make<W>(&layout, l, {}, 0, capacity, out_capacity);
    CHECK_OK(device_run_start(&layout, l, &d, stream_get())); // loads the kernels
    CHECK(expect_no_cuda_error());
    cudaGraphExec_t replay = stream_capture([&](cudaStream_t stream) {
        CHECK_OK(device_status_clear(d.trouble, stream));
        CHECK_OK(device_run_start(&layout, l, &d, stream));
    });
    REQUIRE(replay != nullptr);
    for (int n : {1200, 0, 1, 2000, 300, 1999, 2, 0, 700}) {
        std::vector<W> words = random_words<W>(&random, &layout, l, lo, hi, n);
        if (n == 300) { // at the very end of the layout, where the kernel has no room
            words[299 % words.size()] =
                word_pack<W>(&layout, {2, layout.hi.x, layout.hi.y, layout.hi.z});
            std::sort(words.begin(), words.end());
        }
        int32_t count = (int32_t)words.size();
        label_layer("replay", l, count, out_capacity);
        outcome_with_map<W> wanted =
            expand_on_host(&layout, l, words, count, capacity, out_capacity);
        set_pad(&words, capacity);
        device_copy_in(d.in.words, words.data(), capacity);
        device_copy_in(d.in.count, &count, 1);
        for (int run = 0; run < 2; ++run) {
            CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
            CUDA_CHECK(cudaStreamSynchronize(stream_get()));
            CHECK_EQUAL(difference(device_run_fetch(l, &d), wanted), "");
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
}

DEVICE_TEST(gpu_expand_graph_replays) {
    check_replays<uint32_t>(&layers_all[0]);
    check_replays<uint64_t>(&layers_all[2]);
    check_replays<uint32_t>(&layers_all[5]);
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_expand_refuses_arguments) {
    const layer l = layers_all[0];
    const word_layout layout =
        reference_layout<uint32_t>({-5, -5, -5}, {20, 20, 20}, 1, {1, 1, 1}, {1, 1, 1});
    const word_layout wide = word_widen(layout);
    std::vector<uint32_t> words = {word_pack<uint32_t>(&layout, {0, 1, 2, 3})};
    const device_run<uint32_t> d = device_run_make<uint32_t>(nullptr, &l, words, 1, 100, 50);
    typedef expand_args<uint32_t> args;
    const args good = {&layout, &l.kernel, &l.rule, d.in, d.out, d.trouble};
    const size_t n = d.scratch_bytes;
    auto start = [&](const args *a, void *scratch, size_t bytes) {
        return expand((const device_info *)nullptr, a, scratch, bytes, stream_get());
    };
    CHECK_STATUS(start(nullptr, d.scratch, n), status_null_pointer);
    CHECK_STATUS(start(&good, nullptr, n), status_null_pointer);
    CHECK_STATUS(start(&good, d.scratch + 1, n), status_alignment);
    size_t least = 0; // with this layout
    CHECK_OK(expand_workspace(&good, &least));
    CHECK(least > 0 && least <= n);
    status s = start(&good, d.scratch, least - 1);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, (int64_t)least);
    const struct {
        status_code code;
        void (*spoil)(args *);
    } bad[] = {
        {status_null_pointer, [](args *a) { a->layout = nullptr; }},
        {status_null_pointer, [](args *a) { a->kernel = nullptr; }},
        {status_null_pointer, [](args *a) { a->rule = nullptr; }},
        {status_null_pointer, [](args *a) { a->trouble = nullptr; }},
        {status_null_pointer, [](args *a) { a->in.words = nullptr; }},
        {status_null_pointer, [](args *a) { a->out.words = nullptr; }},
        {status_null_pointer, [](args *a) { a->in.count = nullptr; }},
        {status_null_pointer, [](args *a) { a->out.count = nullptr; }},
        {status_alignment, [](args *a) { a->in.words = misaligned(a->in.words); }},
        {status_alignment, [](args *a) { a->out.words = misaligned(a->out.words); }},
        {status_alignment, [](args *a) { a->in.count = misaligned(a->in.count); }},
        {status_alignment, [](args *a) { a->out.count = misaligned(a->out.count); }},
        {status_bad_size, [](args *a) { a->in.capacity = 0; }},
        {status_bad_size, [](args *a) { a->out.capacity = -7; }},
    };
    for (auto &b : bad) {
        args a = good;
        b.spoil(&a);
        CHECK_STATUS(start(&a, d.scratch, n), b.code);
    }
    args a = good;
    a.layout = &wide;
    CHECK_STATUS(start(&a, d.scratch, n), status_unsupported);
    CHECK(device_untouched(d.out.words, 0, 50)); // a refused call has done nothing
    CHECK(device_untouched(d.scratch, 0, (int64_t)n));
}

DEVICE_TEST(gpu_expand_refuses_rules) {
    const layer good = layers_all[0];
    expand_args<uint32_t> args = {};
    args.kernel = &good.kernel;
    args.rule = &good.rule;
    args.in.capacity = 100;
    args.out.capacity = 50;
    size_t bytes = 0;
    CHECK_OK(expand_workspace(&args, &bytes));
    CHECK(bytes >= 2 * 800 * sizeof(uint32_t));
    struct {
        status_code code;
        void (*spoil)(layer *);
    } const bad[] = {
        {status_kernel_size, [](layer *l) { l->kernel.size.x = 16; }},
        {status_unsupported, [](layer *l) { l->kernel.transposed = true; }},
        {status_stride, [](layer *l) { l->rule.ratio.y = 0; }},
        {status_stride, [](layer *l) { l->rule.ratio.z = (1 << 20) + 1; }},
        {status_bad_size, [](layer *l) { l->rule.padding.x = -1; }},
        {status_bad_size, [](layer *l) { l->rule.grid.extent.y = -1; }},
        {status_bad_size, [](layer *l) { l->rule.padding.z = 0, l->rule.grid.extent.z = 2; }},
    };
    for (auto &b : bad) {
        layer l = good;
        b.spoil(&l);
        expand_args<uint32_t> spoiled = args;
        spoiled.kernel = &l.kernel;
        spoiled.rule = &l.rule;
        CHECK_STATUS(expand_workspace(&spoiled, &bytes), b.code);
    }
    CHECK_STATUS(expand_workspace(&args, nullptr), status_null_pointer);
    args.in.capacity = (INT32_MAX / 2 - 1) / 8;
    CHECK_OK(expand_workspace(&args, &bytes));
    for (int32_t capacity : {args.in.capacity + 1, 0}) {
        args.in.capacity = capacity;
        CHECK_STATUS(expand_workspace(&args, &bytes), status_bad_size);
    }
    args.in.capacity = 100;
    args.out.capacity = 0;
    CHECK_STATUS(expand_workspace(&args, &bytes), status_bad_size);
}

DEVICE_TEST(gpu_expand_planted_errors_are_found) {
    random_state random = random_make(5);
    triple lo = triple_make(-9, -9, -9), hi = triple_make(9, 9, 9);
    layer l = layers_all[0];
    word_layout layout = layout_for<uint32_t>(&l, lo, hi, 1);
    std::vector<uint32_t> words = random_words<uint32_t>(&random, &layout, &l, lo, hi, 400);
    int32_t n = (int32_t)words.size();
    const outcome_with_map<uint32_t> wanted = expand_on_host(&layout, &l, words, n, n, 2000);
    device_run<uint32_t> d = device_run_make(&layout, &l, words, n, n, 2000);
    REQUIRE_OK(device_run_start(&layout, &l, &d, stream_get()));
    const outcome_with_map<uint32_t> got = device_run_fetch(&l, &d);
    CHECK_EQUAL(difference(got, wanted), "");
    outcome_with_map<uint32_t> bad = got;
    bad.words[3] ^= 1;
    CHECK(strstr(difference(bad, wanted), "words[3]"));
    bad = got;
    bad.words.back() = 0;
    CHECK(strstr(difference(bad, wanted), "words[1999]"));
    bad = got;
    bad.count += 1;
    CHECK(strstr(difference(bad, wanted), "count"));
    bad = got;
    bad.trouble.first_range = 1;
    CHECK(strstr(difference(bad, wanted), "trouble"));
    bad = got;
    bad.map.back() ^= 1;
    CHECK(strstr(difference(bad, wanted), "map"));
    l.rule.padding.z = 0;
    CHECK(difference(got, expand_on_host(&layout, &l, words, n, n, 2000))[0] != 0);
}

} // namespace
