// tests/gpu_layout.cu: the tiled layout on the GPU, byte for byte that of the host loop.
#include "../spira/layout.cuh"
#include "device.cuh"
#include "reference.h"

using namespace spira;

namespace {

// Non-blocking: work that strays to the default stream is not ordered with it, and is missed.
cudaStream_t stream_get() {
    static cudaStream_t stream = nullptr;
    if (!stream) {
        CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    return stream;
}

char label[256];    // the case at hand, for the message
char finding[1024]; // the first difference

// ---- one run, on either side --------------------------------------------------------------------

struct tiles {
    int32_t count, volume; // tiles, offsets
    std::vector<int32_t> row, steps, index;
    std::vector<tile_step> step;
};

// What is not written stays as it is here, on both sides.
template <typename T>
void poison(std::vector<T> *v, size_t count) {
    v->resize(count);
    memset(v->data(), guarded_poison, count * sizeof(T));
}

tiles tiles_make(int32_t count, int32_t volume) {
    tiles t;
    t.count = count;
    t.volume = volume;
    poison(&t.row, (size_t)count * tile_rows);
    poison(&t.steps, (size_t)count);
    poison(&t.step, (size_t)count * (size_t)volume);
    poison(&t.index, (size_t)count * (size_t)volume * tile_rows);
    return t;
}

tile_layout tiles_layout(tiles *t) {
    tile_layout l = {t->row.data(),   t->steps.data(), t->step.data(),
                     t->index.data(), t->count,        t->volume};
    return l;
}

template <typename T>
T *device_poisoned(int64_t count) {
    T *p = device_new<T>(count);
    CUDA_CHECK(cudaMemset(p, guarded_poison, (size_t)count * sizeof(T)));
    CUDA_CHECK(cudaDeviceSynchronize());
    return p;
}

tile_layout device_tiles(int32_t count, int32_t volume) {
    tile_layout l = {device_poisoned<int32_t>((int64_t)count * tile_rows),
                     device_poisoned<int32_t>(count),
                     device_poisoned<tile_step>((int64_t)count * volume),
                     device_poisoned<int32_t>((int64_t)count * volume * tile_rows),
                     count,
                     volume};
    return l;
}

// The part from `first` on that fits `t`.
void device_tiles_fetch_part(const tile_layout *l, int64_t first, tiles *t) {
    device_copy_out(t->row.data(), l->row + first * tile_rows, (int64_t)t->row.size());
    device_copy_out(t->steps.data(), l->steps + first, (int64_t)t->steps.size());
    device_copy_out(t->step.data(), l->step + first * l->volume, (int64_t)t->step.size());
    device_copy_out(t->index.data(), l->index + first * l->volume * tile_rows,
                    (int64_t)t->index.size());
}

tiles device_tiles_fetch(const tile_layout *l) {
    tiles t = tiles_make(l->tiles, l->volume);
    device_tiles_fetch_part(l, 0, &t);
    return t;
}

template <typename T>
bool same(const char *name, const std::vector<T> &got, const std::vector<T> &wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) {
        if (got[i] != wanted[i]) {
            snprintf(finding, sizeof finding, "%s[%zu]: %d instead of %d (%s)", name, i,
                     (int)got[i], (int)wanted[i], label);
            return false;
        }
    }
    return true;
}

bool same_steps(const std::vector<tile_step> &got, const std::vector<tile_step> &wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) {
        if (memcmp(&got[i], &wanted[i], sizeof(tile_step)) != 0) {
            snprintf(finding, sizeof finding, "step[%zu]: %d, %08x instead of %d, %08x (%s)", i,
                     got[i].offset, got[i].groups, wanted[i].offset, wanted[i].groups, label);
            return false;
        }
    }
    return true;
}

// "" where all is the same; else what is not.
const char *difference(const tiles &got, const tiles &wanted) {
    finding[0] = 0;
    if (got.count != wanted.count || got.volume != wanted.volume) {
        snprintf(finding, sizeof finding, "sizes (%s)", label);
        return finding;
    }
    bool equal = same("row", got.row, wanted.row) && same("steps", got.steps, wanted.steps) &&
                 same_steps(got.step, wanted.step) && same("index", got.index, wanted.index);
    return equal ? "" : finding;
}

// One tile: its steps name each offset that some slot has, and hold all taps of its rows.
bool tile_holds_rows(const tiles &t, int32_t tile, const std::vector<int32_t> &map) {
    const int32_t *row = t.row.data() + (size_t)tile * tile_rows;
    size_t at = (size_t)tile * (size_t)t.volume;
    size_t end = at + (size_t)t.steps[(size_t)tile];
    for (int k = 0; k < t.volume; ++k) {
        bool listed = at < end && t.step[at].offset == k;
        uint32_t groups = 0;
        for (int slot = 0; slot < tile_rows; ++slot) {
            int32_t wanted =
                row[slot] < 0 ? -1 : map[(size_t)row[slot] * (size_t)t.volume + (size_t)k];
            groups |= (uint32_t)(wanted >= 0) << (slot / tile_group);
            if (listed && t.index[at * tile_rows + (size_t)slot] != wanted) {
                return false;
            }
        }
        if (groups != (listed ? t.step[at].groups : 0)) {
            return false;
        }
        at += listed;
    }
    return at == end;
}

// What a convolution needs of a layout, whatever its order: each output once, and all its taps.
bool tiles_hold_map(const tiles &t, const std::vector<int32_t> &map, int32_t count) {
    std::vector<char> seen((size_t)count, 0);
    int32_t found = 0;
    for (int32_t row : t.row) {
        if (row < -1 || row >= count || (row >= 0 && seen[(size_t)row])) {
            return false;
        }
        if (row >= 0) {
            seen[(size_t)row] = 1;
            ++found;
        }
    }
    for (int32_t tile = 0; tile < t.count; ++tile) {
        if (t.steps[(size_t)tile] < 0 || t.steps[(size_t)tile] > t.volume ||
            !tile_holds_rows(t, tile, map)) {
            return false;
        }
    }
    return found == count;
}

// Both sides, the device twice over its own output. `extra` scopes are more than are needed.
// Frees all buffers of the test.
tiles check_both(const kernel_shape *kernel, const std::vector<int32_t> &map, int32_t count,
                 int32_t capacity, int32_t extra = 0) {
    int32_t volume = kernel_volume(kernel), many = tile_count(capacity) + extra * tile_scope_tiles;
    tiles wanted = tiles_make(many, volume);
    CHECK_OK(tile_build_host(kernel, map.data(), count, capacity, tiles_layout(&wanted)));
    CHECK(tiles_hold_map(wanted, map, count));
    int32_t *device_map = device_upload(map.data(), (int64_t)map.size());
    int32_t *device_count = device_upload(&count, 1);
    tile_layout layout = device_tiles(many, volume);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(tile_build(kernel, device_map, device_count, capacity, layout, stream_get()));
        CHECK_EQUAL(difference(device_tiles_fetch(&layout), wanted), "");
    }
    guarded_finish();
    return wanted;
}

// ---- maps ---------------------------------------------------------------------------------------

enum fill {
    fill_none,
    fill_all,
    fill_sparse,
    fill_half,
    fill_by_offset, // some offsets are hardly ever there, some nearly always
    fill_alike,     // stretches of rows with the same taps
    fill_kinds,     // few kinds of rows, in turn: ties keep their order
};

// A map [capacity, volume] of which `count` rows are real; the others look real and must not be
// read.
std::vector<int32_t> map_random(random_state *random, int volume, int32_t count, int32_t capacity,
                                fill kind) {
    std::vector<int32_t> map((size_t)capacity * (size_t)volume, 12345);
    int alike = random_int(random, 1, 200); // rows in a row with the same taps
    for (int32_t row = 0; row < count; ++row) {
        for (int k = 0; k < volume; ++k) {
            bool has = false;
            switch (kind) {
            case fill_none:
                break;
            case fill_all:
                has = true;
                break;
            case fill_sparse:
                has = random_int(random, 0, 19) == 0;
                break;
            case fill_half:
                has = random_int(random, 0, 1) == 0;
                break;
            case fill_by_offset:
                has = random_int(random, 0, volume) <= k;
                break;
            case fill_alike:
                has = (row / alike + k) % 3 == 0;
                break;
            case fill_kinds:
                has = (row % 5) * k % 4 == 1;
                break;
            }
            map[(size_t)row * (size_t)volume + (size_t)k] =
                has ? random_int(random, 0, 1 << 30) : -1;
        }
    }
    return map;
}

kernel_shape kernel_make(triple size) {
    kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
    return k;
}

// Volumes around 32, the bits of the sorting key, and around what a block stages at a time.
const triple volumes_all[] = {{1, 1, 1}, {2, 1, 1},  {2, 2, 2},  {3, 3, 1}, {1, 2, 5},
                              {2, 3, 3}, {3, 3, 3},  {2, 15, 1}, {2, 4, 4}, {3, 11, 1},
                              {5, 7, 1}, {1, 3, 15}, {4, 4, 4},  {5, 5, 5}, {7, 7, 7}};

// ---- tests --------------------------------------------------------------------------------------

DEVICE_TEST(gpu_tile_every_size) {
    const int sizes[] = {0,   1,    2,    7,    8,    9,    31,   32,   33,   63,
                         64,  65,   127,  128,  129,  255,  256,  257,  511,  512,
                         513, 1023, 1024, 1025, 1087, 1089, 2047, 2048, 2049, 4097};
    random_state random = random_make(1);
    int turn = 0;
    for (int n : sizes) {
        for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 5, 5}}) {
            if (test_quick() && (n > 130 || size.x > 3)) {
                continue;
            }
            kernel_shape k = kernel_make(size);
            for (int room : {0, 1, 1500}) {
                int32_t capacity = n + room > 0 ? n + room : 1;
                fill kind = (fill)(turn++ % 7);
                snprintf(label, sizeof label, "%d of %d rows, %d offsets, fill %d", n, capacity,
                         kernel_volume(&k), kind);
                check_both(&k, map_random(&random, kernel_volume(&k), n, capacity, kind), n,
                           capacity);
            }
        }
    }
}

DEVICE_TEST(gpu_tile_every_volume) {
    random_state random = random_make(2);
    for (triple size : volumes_all) {
        kernel_shape k = kernel_make(size);
        int volume = kernel_volume(&k);
        for (int kind = fill_none; kind <= fill_kinds; ++kind) {
            if (test_quick() && (kind % 3 || volume > 40)) {
                continue;
            }
            int32_t n = volume > 100 ? 1100 : 2100, capacity = n + kind;
            snprintf(label, sizeof label, "%d offsets, fill %d", volume, kind);
            check_both(&k, map_random(&random, volume, n, capacity, (fill)kind), n, capacity);
        }
    }
    if (!test_quick()) {
        for (triple size : {triple{15, 15, 15}, triple{14, 13, 15}}) {
            kernel_shape k = kernel_make(size);
            int volume = kernel_volume(&k);
            snprintf(label, sizeof label, "%d offsets", volume);
            check_both(&k, map_random(&random, volume, 1030, 1030, fill_sparse), 1030, 1030);
            check_both(&k, map_random(&random, volume, 100, 100, fill_all), 100, 100);
        }
    }
}

DEVICE_TEST(gpu_tile_random_maps) {
    for (int seed = 0; seed < (test_quick() ? 8 : 200); ++seed) {
        random_state random = random_make((uint64_t)seed);
        kernel_shape k = reference_random_kernel(&random, 5, 2, {1, 1, 1});
        k.transposed = random_int(&random, 0, 1) != 0;
        int32_t count = random_int(&random, 0, 1500), room = random_int(&random, 0, 1100);
        int32_t capacity = count + room > 0 ? count + room : 1;
        fill kind = (fill)random_int(&random, fill_none, fill_kinds);
        snprintf(label, sizeof label, "seed %d: %d of %d rows, %d offsets, fill %d", seed, count,
                 capacity, kernel_volume(&k), kind);
        check_both(&k, map_random(&random, kernel_volume(&k), count, capacity, kind), count,
                   capacity, seed % 4 == 0);
    }
}

// Maps of real layers: what the order is for. Groups of rows that look alike leave zeros out.
template <typename W>
void check_scan(const char *name, int size) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    int32_t count = (int32_t)words.size();
    kernel_shape k = kernel_cube(size, 1);
    voxel_set<W> set = {words.data(), &count, count};
    std::vector<int32_t> map((size_t)count * (size_t)kernel_volume(&k));
    CHECK_OK(map_build_host(&layout, &k, set, set, map.data()));
    snprintf(label, sizeof label, "%s, K = %d", name, size);
    tiles t = check_both(&k, map, count, count);
    int64_t pairs = 0, groups = 0;
    for (int32_t source : map) {
        pairs += source >= 0;
    }
    for (int32_t tile = 0; tile < t.count; ++tile) {
        for (int32_t i = 0; i < t.steps[(size_t)tile]; ++i) {
            uint32_t bits = t.step[(size_t)tile * (size_t)t.volume + (size_t)i].groups;
            for (; bits; bits &= bits - 1) {
                ++groups;
            }
        }
    }
    // Rows that are multiplied for each pair; sorted outputs without this order take 7 and more.
    CHECK(pairs > 0 && groups * tile_group < (size == 3 ? 2.25 : 3.75) * (double)pairs);
}

DEVICE_TEST(gpu_tile_real_scans) {
    if (reference_file("kitti00_000000_5cm.vox32").empty()) {
        SKIP("no data/");
    }
    check_scan<uint32_t>("kitti00_000000_5cm.vox32", 3);
    if (!test_quick()) {
        check_scan<uint32_t>("kitti00_000000_5cm.vox32", 5);
        check_scan<uint64_t>("lone_star_5cm.vox32", 3);
    }
}

// More entries than an int can count: tiles * volume * 64 passes 2^31.
DEVICE_TEST(gpu_tile_beyond_32_bits) {
    const int32_t rows = 700000;
    kernel_shape k = kernel_make({15, 15, 15});
    const int64_t volume = kernel_volume(&k), many = tile_count(rows);
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)(rows * volume * 9) + ((size_t)1 << 30)) {
        SKIP("takes 21 GB of device memory and is not quick");
    }
    int32_t *map = device_new<int32_t>(rows * volume);
    tile_layout layout = device_tiles((int32_t)many, (int32_t)volume);
    // All taps are there, all from one row, but for those of the last scope.
    CUDA_CHECK(cudaMemset(map, 1, (size_t)(rows * volume) * sizeof(int32_t)));
    const int32_t scope = (rows - 1) / tile_scope, first = scope * tile_scope;
    const int32_t scope_rows = rows - first; // the last, ragged one: far beyond 2^31
    random_state random = random_make(3);
    std::vector<int32_t> part =
        map_random(&random, (int)volume, scope_rows, scope_rows, fill_sparse);
    device_copy_in(map + first * volume, part.data(), (int64_t)part.size());
    REQUIRE_OK(tile_build(&k, map, device_upload(&rows, 1), rows, layout, stream_get()));

    tiles wanted = tiles_make(tile_scope_tiles, (int32_t)volume), got = wanted;
    CHECK_OK(tile_build_host(&k, part.data(), scope_rows, scope_rows, tiles_layout(&wanted)));
    for (int32_t &row : wanted.row) {
        row += row >= 0 ? first : 0;
    }
    device_tiles_fetch_part(&layout, (int64_t)scope * tile_scope_tiles, &got);
    snprintf(label, sizeof label, "the last scope");
    CHECK_EQUAL(difference(got, wanted), "");
}

DEVICE_TEST(gpu_tile_refuses) {
    kernel_shape k = kernel_make({3, 3, 3});
    int32_t two = 2;
    int32_t *count = device_upload(&two, 1), *map = device_zeros<int32_t>(2 * 27);
    const tile_layout good = device_tiles(tile_count(2), 27);
    auto start = [&](const kernel_shape *kernel, const int32_t *m, const int32_t *n,
                     int32_t capacity,
                     tile_layout t) { return tile_build(kernel, m, n, capacity, t, stream_get()); };
    CHECK_STATUS(start(nullptr, map, count, 2, good), status_null_pointer);
    CHECK_STATUS(start(&k, nullptr, count, 2, good), status_null_pointer);
    CHECK_STATUS(start(&k, map, nullptr, 2, good), status_null_pointer);
    CHECK_STATUS(start(&k, map, count, 0, good), status_bad_size);
    CHECK_STATUS(start(&k, map, count, -1, good), status_bad_size);
    CHECK_STATUS(start(&k, map, count, INT32_MAX, good), status_bad_size);
    CHECK_STATUS(start(&k, map, count, 1025, good), status_capacity); // one row too many
    CHECK_EQUAL(start(&k, map, count, 1025, good).detail, 2 * tile_scope_tiles);
    kernel_shape other = kernel_make({3, 3, 1}), none = kernel_make({3, 3, 0});
    CHECK_STATUS(start(&other, map, count, 2, good), status_bad_size);
    CHECK_STATUS(start(&none, map, count, 2, good), status_kernel_size);
    for (int pointer = 0; pointer < 4; ++pointer) {
        tile_layout bad = good;
        bad.row = pointer == 0 ? nullptr : bad.row;
        bad.steps = pointer == 1 ? nullptr : bad.steps;
        bad.step = pointer == 2 ? nullptr : bad.step;
        bad.index = pointer == 3 ? nullptr : bad.index;
        CHECK_STATUS(start(&k, map, count, 2, bad), status_null_pointer);
    }
    tile_layout few = good;
    few.tiles = tile_count(2) - 1;
    CHECK_STATUS(start(&k, map, count, 2, few), status_capacity);
    // Nothing has been done.
    CHECK_EQUAL(difference(device_tiles_fetch(&good), tiles_make(good.tiles, 27)), "");
}

DEVICE_TEST(gpu_tile_planted_errors_are_found) {
    random_state random = random_make(4);
    kernel_shape k = kernel_make({3, 3, 3});
    std::vector<int32_t> map = map_random(&random, 27, 1500, 1500, fill_half);
    tiles wanted = check_both(&k, map, 1500, 1500);
    tiles bad = wanted;
    bad.step[30].groups ^= 0x10; // a group is left out, or one too many
    CHECK(strstr(difference(bad, wanted), "step[30]"));
    CHECK(!tiles_hold_map(bad, map, 1500));
    bad = wanted;
    ++bad.step[30].offset; // another offset
    CHECK(strstr(difference(bad, wanted), "step[30]"));
    CHECK(!tiles_hold_map(bad, map, 1500));
    bad = wanted;
    --bad.steps[1]; // the last offset is left out
    CHECK(strstr(difference(bad, wanted), "steps[1]"));
    CHECK(!tiles_hold_map(bad, map, 1500));
    bad = wanted;
    std::swap(bad.row[3], bad.row[4]); // but not their taps
    CHECK(strstr(difference(bad, wanted), "row[3]"));
    CHECK(!tiles_hold_map(bad, map, 1500));
    bad = wanted;
    *std::find_if(bad.index.begin(), bad.index.end(), [](int32_t i) { return i >= 0; }) = -1;
    CHECK(strstr(difference(bad, wanted), "index[")); // a tap is dropped
    CHECK(!tiles_hold_map(bad, map, 1500));
    // A row too few.
    CHECK(!tiles_hold_map(wanted, map, 1501));
    int32_t *device_map = device_upload(map.data(), (int64_t)map.size());
    int32_t fewer = 1499;
    tile_layout layout = device_tiles(tile_count(1500), 27);
    REQUIRE_OK(tile_build(&k, device_map, device_upload(&fewer, 1), 1500, layout, stream_get()));
    CHECK(difference(device_tiles_fetch(&layout), wanted)[0] != 0);
}

} // namespace
