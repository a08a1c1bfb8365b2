// tests/host/plane.cpp: the kernels of index/plane_*.cuh and compact.cuh, run on the host
// (emulate_plane.h), against the host loops: scenes whose windows fit their buffer, and scenes
// whose windows are sampled.
#include "../support/emulate_plane.h"
#include "../support/reference.h"

#include "../../bench/scenes.h"
#include "../../spira/index/compact.cuh"
#include "../../spira/index/plane_pairs_small.cuh"

using namespace spira;

namespace {

enum : int32_t { untouched = 0x7a7a7a7a };

// A layer: its words, and what stands behind them.
template <typename W>
struct layer {
    word_layout layout;
    kernel_shape kernel;
    std::vector<W> source, outputs; // with garbage behind the counts
    int32_t sources, count;
    map_request<W> request() {
        map_request<W> r = {};
        r.kernel = kernel;
        r.source = {source.data(), &sources, (int32_t)source.size()};
        r.outputs = {outputs.data(), &count, (int32_t)outputs.size()};
        return r;
    }
};

template <typename W>
layer<W> layer_make(const word_layout *layout, kernel_shape kernel, std::vector<W> source,
                    std::vector<W> outputs, int32_t room = 3) {
    layer<W> l = {
        *layout, kernel, source, outputs, (int32_t)source.size(), (int32_t)outputs.size()};
    for (int32_t i = 0; i < room; ++i) {
        l.source.push_back(source.empty() ? 0 : source[(size_t)i % source.size()]);
        l.outputs.push_back(outputs.empty() ? 0 : outputs[(size_t)i % outputs.size()]);
    }
    return l;
}

template <typename W, int K>
void check_os(layer<W> *l, bool half) {
    map_request<W> r = l->request();
    const int64_t columns = map_columns(&l->kernel, half);
    r.outputs = half ? r.source : r.outputs;
    std::vector<int32_t> got(l->outputs.size() * (size_t)columns, untouched), wanted = got;
    r.forms = map_forms_os(wanted.data());
    r.forms.half = half;
    REQUIRE_OK(map_build_forms_host(&l->layout, &l->kernel, r.source, r.outputs, &r.forms));
    r.forms.os = got.data();
    const map_request<W> *one = &r;
    const auto launch = half ? map_plane_launch<W, K, true> : map_plane_launch<W, K, false>;
    REQUIRE_OK(launch(&l->layout, &one, 1, false, nullptr));
    CHECK(got == wanted);
}

template <typename W, int K>
void check_compact(layer<W> *l) {
    map_request<W> r = l->request();
    const int32_t capacity = r.outputs.capacity;
    std::vector<int32_t> got((size_t)compact_total(K, capacity), untouched), wanted = got;
    device_status trouble = {}, host_trouble = {};
    r.forms = map_forms_compact(wanted.data(), &host_trouble);
    REQUIRE_OK(map_build_forms_host(&l->layout, &l->kernel, r.source, r.outputs, &r.forms));
    r.forms = map_forms_compact(got.data(), &trouble);
    const map_request<W> *one = &r;
    REQUIRE_OK((map_compact_launch<W, K>(&l->layout, &one, 1, false, nullptr)));
    int64_t wrong = 0;
    for (int plane = 0; plane < K; ++plane) {
        for (int32_t o = 0; o < capacity; ++o) {
            const int64_t at = compact_at(K, capacity, plane, o);
            for (int c = 0; c < K * K && o < l->count; ++c) {
                wrong += compact_source(&got[(size_t)at], K, c) !=
                         compact_source(&wanted[(size_t)at], K, c);
            }
            for (int64_t i = at; i < at + K + 1 && o >= l->count; ++i) {
                wrong += got[(size_t)i] != untouched;
            }
        }
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(trouble.flags, host_trouble.flags);
}

template <typename W, int K>
void check_pairs(layer<W> *l) {
    map_request<W> r = l->request();
    const int32_t capacity = K * K * K * (l->count + 1);
    std::vector<int32_t> begin((size_t)(K * K * K + 1), untouched), host_begin = begin;
    std::vector<int32_t> in((size_t)capacity, untouched), host_in = in, out = in, host_out = in;
    device_status trouble = {}, host_trouble = {};
    const map_pairs host = {host_begin.data(), host_in.data(), host_out.data(), capacity};
    const map_pairs pairs = {begin.data(), in.data(), out.data(), capacity};
    REQUIRE_OK(map_build_pairs_host(&l->layout, &l->kernel, r.source, r.outputs,
                                    (const map_forms *)nullptr, host, &host_trouble));
    workspace w = workspace_begin(nullptr);
    map_plane_lists_take<K>(&w, r.outputs.capacity);
    std::vector<uint4> scratch((size_t)ceil_div((int64_t)w.used, 16) + workspace_alignment / 16);
    memset(scratch.data(), 0xa5, scratch.size() * sizeof(uint4));
    void *aligned = (void *)round_up((int64_t)(uintptr_t)scratch.data(), workspace_alignment);
    if (K == 3 && map_bundles(K, r.outputs.capacity)) {
        REQUIRE_OK(map_small_pairs_launch(&l->layout, &r, pairs, &trouble, aligned, nullptr));
    } else {
        REQUIRE_OK(
            (map_plane_pairs_launch<W, K>(&l->layout, &r, pairs, &trouble, aligned, nullptr)));
    }
    CHECK(begin == host_begin);
    CHECK(in == host_in);
    CHECK(out == host_out);
    CHECK_EQUAL(trouble.flags, 0u);
}

// All forms of one size.
template <typename W, int K>
void check_size(layer<W> *l, triple stride, bool same) {
    l->kernel = {{K, K, K}, {1, 1, 1}, stride, false};
    check_os<W, K>(l, false);
    if (same) {
        check_os<W, K>(l, true);
    }
    check_compact<W, K>(l);
    check_pairs<W, K>(l);
}

// All forms of both sizes.
template <typename W>
void check_layer(const word_layout *layout, const std::vector<W> &source,
                 const std::vector<W> &outputs, triple stride = {1, 1, 1}) {
    emulate::seed += 1;
    layer<W> l = layer_make(layout, {}, source, outputs);
    const bool same = source == outputs;
    check_size<W, 3>(&l, stride, same);
    check_size<W, 5>(&l, stride, same);
}

// The words of voxels, sorted.
template <typename W>
std::vector<W> words_of(const word_layout *layout, const std::vector<voxel> &voxels) {
    std::vector<W> words;
    for (const voxel &v : voxels) {
        CHECK(word_contains(layout, v));
        words.push_back(word_pack<W>(layout, v));
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    return words;
}

std::vector<voxel> box(triple lo, triple hi) {
    std::vector<voxel> voxels;
    for (int x = lo.x; x <= hi.x; ++x) {
        for (int y = lo.y; y <= hi.y; ++y) {
            for (int z = lo.z; z <= hi.z; ++z) {
                voxels.push_back({0, x, y, z});
            }
        }
    }
    return voxels;
}

// Every `step`-th word.
template <typename W>
std::vector<W> some_of(const std::vector<W> &words, size_t step) {
    std::vector<W> some;
    for (size_t i = 0; i < words.size(); i += step) {
        some.push_back(words[i]);
    }
    return some;
}

// ---- generated scenes ---------------------------------------------------------------------------

template <typename W>
void check_scene(scenes_kind kind, int64_t voxels) {
    std::vector<int32_t> at((size_t)voxels * 3);
    REQUIRE_OK(scenes_make(kind, 8 * (int)sizeof(W), voxels, at.data()));
    triple hi = {0, 0, 0};
    std::vector<voxel> all;
    for (size_t i = 0; i < at.size(); i += 3) {
        all.push_back({0, at[i], at[i + 1], at[i + 2]});
        hi = {std::max(hi.x, at[i]), std::max(hi.y, at[i + 1]), std::max(hi.z, at[i + 2])};
    }
    const word_layout layout = reference_layout<W>({0, 0, 0}, hi, 1, {2, 2, 2}, {8, 8, 8});
    const std::vector<W> words = words_of<W>(&layout, all);
    check_layer(&layout, words, words);
}

template <typename W>
void check_scenes() {
    const int64_t voxels[scenes_kinds] = {300, 2600, 400, 400, 1100, 300, 700};
    for (int kind = 0; kind < scenes_kinds; ++kind) {
        check_scene<W>((scenes_kind)kind, voxels[kind]);
    }
}

} // namespace

TEST(plane_scenes_32) {
    check_scenes<uint32_t>();
}

TEST(plane_scenes_64) {
    check_scenes<uint64_t>();
}

// ---- counts -------------------------------------------------------------------------------------

template <typename W>
static void check_counts() {
    // Dense enough in y and z for windows that are sampled, in 64 bits also wide apart.
    const int far = sizeof(W) == 8 ? 1 << 20 : 200;
    const word_layout layout =
        reference_layout<W>({0, 0, 0}, {far, 1 << 9, 1 << 9}, 1, {1, 1, 1}, {4, 4, 4});
    std::vector<voxel> all = box({3, 0, 0}, {3, 40, 40});
    all.push_back({0, far, 7, 7});
    for (int x = 4; x < 100; x += 3) {
        all.push_back({0, x * (far / 200), x, 3});
    }
    const std::vector<W> words = words_of<W>(&layout, all);
    for (int n : {0, 1, 33, 64, 129, 200}) {
        const std::vector<W> last(words.end() - n, words.end());
        const std::vector<W> first(words.begin(), words.begin() + n);
        check_layer(&layout, words, last);
        check_layer(&layout, first, first);
        check_layer(&layout, last, some_of(words, 19));
        check_layer(&layout, words, some_of(words, n ? words.size() / (size_t)n + 1 : 5000));
    }
}

TEST(plane_counts_32) {
    check_counts<uint32_t>();
}

TEST(plane_counts_64) {
    check_counts<uint64_t>();
}

// ---- long windows -------------------------------------------------------------------------------

// Windows of more than 65,536 words, and rows that are as far from each other: positions of pairs
// with leaps, and planes that are searched again.
template <typename W>
static void check_long_windows() {
    const word_layout layout =
        reference_layout<W>({0, 0, 0}, {5, 1500, 30000}, 1, {1, 1, 1}, {2, 2, 2});
    const std::vector<W> wide = words_of<W>(&layout, box({2, 0, 0}, {2, 400, 400}));
    check_layer(&layout, wide, some_of(wide, 499));
    const std::vector<W> high = words_of<W>(&layout, box({1, 3, 0}, {2, 8, 29999}));
    check_layer(&layout, high, some_of(high, 997));
    const std::vector<W> most = words_of<W>(&layout, box({2, 0, 0}, {2, 1450, 1479}));
    check_layer(&layout, most, some_of(most, 9973));
    std::vector<W> few(most.begin(), most.begin() + 60);
    few.insert(few.end(), most.end() - 60, most.end());
    check_layer(&layout, most, few);
}

TEST(plane_long_windows_32) {
    check_long_windows<uint32_t>();
}

TEST(plane_long_windows_64) {
    check_long_windows<uint64_t>();
}

// Windows around each length at which the samples change. Along y the words are as far apart as
// 64-bit words can be.
template <typename W>
static void check_lengths(int step_y) {
    const word_layout layout = reference_layout<W>(
        {0, 0, 0}, {3, 600 * step_y, step_y > 1 ? 8000 : 3}, 1, {1, 1, 1}, {2, 2, 2});
    for (int n : {225, 235, 245, 250, 256, 262, 275, 430, 440, 450, 454, 455, 456, 457,
                  458, 460, 470, 490, 500, 505, 510, 515, 520, 530, 540, 560, 580}) {
        std::vector<voxel> all;
        for (int i = 0; i < n; ++i) {
            all.push_back({0, 1, i * step_y, 3});
        }
        const std::vector<W> words = words_of<W>(&layout, all);
        std::vector<W> few(words.begin(), words.begin() + 20);
        few.insert(few.end(), words.end() - 20, words.end());
        layer<W> l = layer_make(&layout, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false}, words, few);
        emulate::seed += 1;
        check_os<W, 3>(&l, false);
        l.kernel.size = {5, 5, 5};
        check_os<W, 5>(&l, false);
    }
}

TEST(plane_window_lengths) {
    check_lengths<uint32_t>(1);
    check_lengths<uint64_t>(1);
    check_lengths<uint64_t>(4000);
}

// The scan between search and move, for a cube of size 3.
TEST(plane_many_outputs) {
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {63, 63, 63}, 1, {1, 1, 1}, {2, 2, 2});
    std::vector<uint32_t> words = words_of<uint32_t>(&layout, box({5, 0, 0}, {5, 39, 39}));
    layer<uint32_t> l = layer_make(&layout, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, false}, words,
                                   some_of(words, 3), 196608);
    check_pairs<uint32_t, 3>(&l);
}

// ---- off the lattice ----------------------------------------------------------------------------

// Sources, outputs or both off the lattice of the kernel's stride: rows with gaps.
template <typename W>
static void check_lattice(int stride) {
    const triple by = {stride, stride, stride};
    const word_layout layout =
        reference_layout<W>({0, 0, 0}, {90, 90, 90}, 1, by, {2 * stride, 2 * stride, 2 * stride});
    random_state random = random_make((uint64_t)stride);
    std::vector<voxel> on, off;
    for (int i = 0; i < 330; ++i) {
        const voxel v = {0, random_int(&random, 0, 3), random_int(&random, 0, 14),
                         random_int(&random, 0, 14)};
        on.push_back({0, v.x * stride, v.y * stride, v.z * stride});
        off.push_back({0, v.x * stride, v.y * stride, random_int(&random, 0, 14 * stride)});
    }
    const std::vector<W> even = words_of<W>(&layout, on), any = words_of<W>(&layout, off);
    check_layer(&layout, even, even, by);
    check_layer(&layout, any, any, by);
    check_layer(&layout, even, any, by);
    check_layer(&layout, any, even, by);
}

TEST(plane_off_the_lattice) {
    for (int stride : {2, 4}) {
        check_lattice<uint32_t>(stride);
        check_lattice<uint64_t>(stride);
    }
}
