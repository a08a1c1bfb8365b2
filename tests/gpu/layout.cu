// tests/gpu/layout.cu: the tiled layout on the GPU, compared with the host loop byte by byte.
#include "../../spira/layout/tile.cuh"
#include "../support/device.cuh"
#include "../support/reference.h"

using namespace spira;

namespace {

char label[256];    // the case at hand, for the message
char finding[1024]; // the first difference

// ---- one run, on either side --------------------------------------------------------------------

struct tiles {
    int32_t count, volume, rows; // tiles, offsets, rows of a tile
    std::vector<int32_t> first, input;
    std::vector<uint16_t> offset;
    std::vector<uint8_t> row;
};

// Fills an array with the poison that device_new_poisoned writes.
template <typename T>
void poison(std::vector<T> *v, int64_t count) {
    v->resize((size_t)count);
    memset(v->data(), guarded_poison, (size_t)count * sizeof(T));
}

tiles tiles_make(int32_t count, int32_t volume, int32_t rows) {
    tiles t;
    t.count = count;
    t.volume = volume;
    t.rows = rows;
    poison(&t.first, (int64_t)count * (volume + 1));
    poison(&t.offset, (int64_t)count * rows * volume / tile_group);
    poison(&t.input, (int64_t)count * rows * volume);
    poison(&t.row, (int64_t)count * rows * volume);
    return t;
}

tile_layout tiles_layout(tiles *t) {
    tile_layout l;
    l.first = t->first.data();
    l.offset = t->offset.data();
    l.input = t->input.data();
    l.row = t->row.data();
    l.tiles = t->count;
    l.volume = t->volume;
    l.rows = t->rows;
    return l;
}

tile_layout device_tiles(int32_t count, int32_t volume, int32_t rows) {
    const int64_t entries = (int64_t)count * rows * volume;
    tile_layout l;
    l.first = device_new_poisoned<int32_t>((int64_t)count * (volume + 1));
    l.offset = device_new_poisoned<uint16_t>(entries / tile_group);
    l.input = device_new_poisoned<int32_t>(entries);
    l.row = device_new_poisoned<uint8_t>(entries);
    l.tiles = count;
    l.volume = volume;
    l.rows = rows;
    return l;
}

// The tiles from `first` on, as many as `t` has.
void device_tiles_fetch_part(const tile_layout *l, int64_t first, tiles *t) {
    const int64_t begin = first * l->rows * l->volume;
    device_copy_out(t->first.data(), l->first + first * (l->volume + 1), (int64_t)t->first.size());
    device_copy_out(t->offset.data(), l->offset + begin / tile_group, (int64_t)t->offset.size());
    device_copy_out(t->input.data(), l->input + begin, (int64_t)t->input.size());
    device_copy_out(t->row.data(), l->row + begin, (int64_t)t->row.size());
}

tiles device_tiles_fetch(const tile_layout *l) {
    tiles t = tiles_make(l->tiles, l->volume, l->rows);
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

// Returns the first difference, or "".
const char *difference(const tiles &got, const tiles &wanted) {
    finding[0] = 0;
    if (got.count != wanted.count || got.volume != wanted.volume || got.rows != wanted.rows) {
        snprintf(finding, sizeof finding, "sizes (%s)", label);
        return finding;
    }
    bool equal = same("first", got.first, wanted.first) &&
                 same("offset", got.offset, wanted.offset) &&
                 same("input", got.input, wanted.input) && same("row", got.row, wanted.row);
    return equal ? "" : finding;
}

// Whether an entry of offset k is valid: padding, or a pair of the map that was not `seen`.
bool tile_holds_entry(const tiles &t, int64_t tile, int64_t k, size_t at,
                      const std::vector<int32_t> &map, int32_t count, std::vector<char> *seen) {
    if (t.input[at] < 0) {
        return t.input[at] == -1 && t.row[at] == t.rows;
    }
    int64_t row = tile * t.rows + t.row[at];
    size_t pair = (size_t)(row * t.volume + k);
    if (t.row[at] >= t.rows || row >= count || map[pair] != t.input[at] || (*seen)[pair]) {
        return false;
    }
    (*seen)[pair] = 1;
    return true;
}

// Whether a layout has each pair of the map once, in its offset's groups, in any order.
bool tiles_hold_map(const tiles &t, const std::vector<int32_t> &map, int32_t count,
                    int32_t capacity) {
    const size_t taps = (size_t)count * (size_t)t.volume;
    std::vector<char> seen(taps, 0);
    for (int64_t tile = 0; tile < tile_count(capacity, t.rows); ++tile) {
        const int32_t *first = t.first.data() + tile * (t.volume + 1);
        const int64_t begin = tile * t.rows * t.volume;
        if (first[0] != 0 || first[t.volume] > t.rows * t.volume / tile_group) {
            return false;
        }
        for (int64_t k = 0; k < t.volume; ++k) {
            if (first[k + 1] < first[k] || first[k + 1] > first[t.volume]) {
                return false;
            }
            for (int64_t at = first[k] * tile_group; at < first[k + 1] * tile_group; ++at) {
                if (t.offset[(size_t)(begin + at) / tile_group] != k ||
                    !tile_holds_entry(t, tile, k, (size_t)(begin + at), map, count, &seen)) {
                    return false;
                }
            }
        }
    }
    for (size_t i = 0; i < taps; ++i) {
        if (seen[i] != (map[i] >= 0)) {
            return false;
        }
    }
    return true;
}

// Builds on both sides and compares; on the device twice, over its own output. extra: tiles beyond
// the capacity; over: how far the device's count exceeds the capacity. Frees all test buffers.
tiles check_both(const std::vector<int32_t> &map, int32_t volume, int32_t rows, int32_t count,
                 int32_t capacity, int32_t extra = 0, int32_t over = 0) {
    int32_t many = tile_count(capacity, rows) + extra, told = count + over;
    tiles wanted = tiles_make(many, volume, rows);
    CHECK_OK(tile_build_host(map.data(), volume, count, capacity, tiles_layout(&wanted)));
    CHECK(tiles_hold_map(wanted, map, count, capacity));
    int32_t *device_map = device_upload(map.data(), (int64_t)map.size());
    int32_t *device_count = device_upload(&told, 1);
    tile_layout layout = device_tiles(many, volume, rows);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(tile_build(device_map, volume, device_count, capacity, layout, stream_get()));
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
    fill_by_offset, // some offsets are rare, some frequent
    fill_alike,     // consecutive rows with the same taps
    fill_residues,  // rows of some residues modulo 4 only
    fills,
};

// A map [capacity, volume]. Rows from `count` on have plausible sources, and must not be read.
std::vector<int32_t> map_random(random_state *random, int volume, int32_t count, int32_t capacity,
                                fill kind) {
    std::vector<int32_t> map((size_t)capacity * (size_t)volume, 12345);
    int alike = random_int(random, 1, 200); // rows in a row with the same taps
    for (int32_t row = 0; row < count; ++row) {
        for (int k = 0; k < volume; ++k) {
            bool has = false;
            switch (kind) {
            case fill_none:
            case fills:
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
            case fill_residues:
                has = (k % 16 >> row % 4 & 1) && random_int(random, 0, 3);
                break;
            }
            map[(size_t)row * (size_t)volume + (size_t)k] =
                has ? random_int(random, 0, 1 << 30) : -1;
        }
    }
    return map;
}

// The tile sizes of a volume, one or two.
std::vector<int32_t> rows_of(int volume) {
    std::vector<int32_t> rows = {tile_rows(volume)};
    if (tile_rows_limit(volume) != rows[0]) {
        rows.push_back(tile_rows_limit(volume));
    }
    return rows;
}

// ---- tests --------------------------------------------------------------------------------------

DEVICE_TEST(gpu_tile_every_size) {
    const int sizes[] = {0,   1,   2,   3,   4,   5,   7,   8,   15,  16,  17,   31,   32,   33,
                         63,  64,  65,  95,  96,  97,  127, 128, 129, 191, 192,  193,  255,  256,
                         257, 511, 512, 513, 639, 640, 641, 895, 896, 897, 1023, 1024, 1025, 4097};
    random_state random = random_make(1);
    int turn = 0;
    for (int n : sizes) {
        for (int volume : {27, 8, 125, 130}) {
            for (int32_t rows : rows_of(volume)) {
                if ((n > 300 && volume != 27) ||
                    (test_quick() && (n > 130 || volume != 27 || turn++ % 3))) {
                    continue;
                }
                for (int room : {0, 1, 300}) {
                    int32_t capacity = n + room > 0 ? n + room : 1;
                    fill kind = (fill)(turn++ % fills);
                    snprintf(label, sizeof label, "%d of %d outputs by %d, %d offsets, fill %d", n,
                             capacity, rows, volume, kind);
                    check_both(map_random(&random, volume, n, capacity, kind), volume, rows, n,
                               capacity);
                }
            }
        }
    }
}

// Volumes around 32, 128 and 256: edges of the tile sizes, of the words of bits, of the pieces.
DEVICE_TEST(gpu_tile_every_volume) {
    random_state random = random_make(2);
    for (int volume : {1,  2,  3,  8,   9,   16,  27,  30,  31,  32,  33,  34,  45,  63,  64, 65,
                       96, 97, 98, 125, 127, 128, 129, 160, 161, 255, 256, 257, 343, 384, 385}) {
        for (int32_t rows : rows_of(volume)) {
            for (int kind = fill_none; kind < fills; ++kind) {
                if (test_quick() &&
                    ((kind != fill_residues && kind % 4) || (volume > 33 && volume != 129))) {
                    continue;
                }
                int32_t n = volume > 100 ? 3 * rows + 5 : 600, capacity = n + kind;
                n = test_quick() ? rows + 3 : n;
                snprintf(label, sizeof label, "%d offsets by %d, fill %d", volume, rows, kind);
                check_both(map_random(&random, volume, n, capacity, (fill)kind), volume, rows, n,
                           capacity);
            }
        }
    }
    for (int volume : {2730, 3374, 3375}) {
        if (!test_quick()) {
            snprintf(label, sizeof label, "%d offsets", volume);
            check_both(map_random(&random, volume, 1030, 1030, fill_sparse), volume, 32, 1030,
                       1030);
            check_both(map_random(&random, volume, 100, 100, fill_all), volume, 32, 100, 100);
        }
    }
}

DEVICE_TEST(gpu_tile_random_maps) {
    for (int seed = 0; seed < (test_quick() ? 8 : 200); ++seed) {
        random_state random = random_make((uint64_t)seed);
        int most = test_quick() ? 60 : 400;
        int volume =
            random_int(&random, 0, 3) ? random_int(&random, 1, 40) : random_int(&random, 1, most);
        int32_t rows = random_int(&random, 0, 1) ? tile_rows(volume) : tile_rows_limit(volume);
        int32_t count = random_int(&random, 0, 1500), room = random_int(&random, 0, 1100);
        int32_t capacity = count + room > 0 ? count + room : 1;
        fill kind = (fill)random_int(&random, fill_none, fills - 1);
        snprintf(label, sizeof label, "seed %d: %d of %d outputs by %d, %d offsets, fill %d", seed,
                 count, capacity, rows, volume, kind);
        check_both(map_random(&random, volume, count, capacity, kind), volume, rows, count,
                   capacity, seed % 4 == 0 ? seed % 7 : 0);
    }
}

// A count above the capacity is clamped.
DEVICE_TEST(gpu_tile_clamps_the_count) {
    random_state random = random_make(5);
    for (int volume : {8, 27, 125, 129}) {
        for (int32_t rows : rows_of(volume)) {
            for (int32_t capacity : {1, 63, 64, 128, 200}) {
                for (int32_t over : {1, 64, 1000}) {
                    if (test_quick() && (over != 64 || volume > 27)) {
                        continue;
                    }
                    snprintf(label, sizeof label, "%d of %d outputs by %d, %d offsets",
                             capacity + over, capacity, rows, volume);
                    check_both(map_random(&random, volume, capacity, capacity, fill_half), volume,
                               rows, capacity, capacity, 3, over);
                }
            }
        }
    }
}

// Maps of real layers. most, most_large: the limit of rows multiplied for each pair, in tiles of
// the usual size and of the largest
template <typename W>
void check_scan(const char *name, int size, double most, double most_large) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    int32_t count = (int32_t)words.size();
    kernel_shape k = kernel_cube(size, 1);
    const int volume = kernel_volume(&k);
    voxel_set<W> set = {words.data(), &count, count};
    std::vector<int32_t> map((size_t)count * (size_t)volume);
    CHECK_OK(map_build_host(&layout, &k, set, set, map.data()));
    int64_t pairs = 0;
    for (int32_t source : map) {
        pairs += source >= 0;
    }
    for (int32_t rows : rows_of(volume)) {
        snprintf(label, sizeof label, "%s, K = %d by %d", name, size, rows);
        tiles t = check_both(map, volume, rows, count, count);
        int64_t groups = 0;
        for (int64_t tile = 0; tile < t.count; ++tile) {
            groups += t.first[(size_t)(tile * (volume + 1) + volume)];
        }
        CHECK(pairs > 0 && groups * tile_group >= pairs);
        CHECK((double)(groups * tile_group) <
              (rows == tile_rows(volume) ? most : most_large) * (double)pairs);
    }
}

DEVICE_TEST(gpu_tile_real_scans) {
    if (reference_file("kitti00_000000_5cm.vox32").empty()) {
        SKIP("no data/");
    }
    check_scan<uint32_t>("kitti00_000000_5cm.vox32", 3, 1.8, 1.4);
    if (!test_quick()) {
        check_scan<uint32_t>("kitti00_000000_5cm.vox32", 5, 2.6, 2.6);
        check_scan<uint32_t>("kitti00_000000_5cm.vox32", 7, 4.5, 4.5);
        check_scan<uint64_t>("lone_star_5cm.vox32", 3, 1.5, 1.25);
    }
}

// More entries than an int can count: tiles * rows * volume passes 2^31.
DEVICE_TEST(gpu_tile_beyond_32_bits) {
    const int32_t rows = 699990, volume = 3375, first = 699904; // the last tile is ragged
    const int32_t many = tile_count(rows, 32);
    size_t free_bytes = 0, all_bytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    if (test_quick() || free_bytes < (size_t)rows * volume * 10 + ((size_t)1 << 30)) {
        SKIP("takes 22 GB of device memory and is not quick");
    }
    int32_t *map = device_new<int32_t>((int64_t)rows * volume);
    tile_layout layout = device_tiles(many, volume, 32);
    // All taps are present, from one row; the last tiles have taps of their own.
    CUDA_CHECK(cudaMemset(map, 1, (size_t)rows * volume * sizeof(int32_t)));
    random_state random = random_make(3);
    std::vector<int32_t> part =
        map_random(&random, volume, rows - first, rows - first, fill_sparse);
    device_copy_in(map + (int64_t)first * volume, part.data(), (int64_t)part.size());
    REQUIRE_OK(tile_build(map, volume, device_upload(&rows, 1), rows, layout, stream_get()));

    tiles wanted = tiles_make(many - first / 32, volume, 32), got = wanted;
    CHECK_OK(
        tile_build_host(part.data(), volume, rows - first, rows - first, tiles_layout(&wanted)));
    device_tiles_fetch_part(&layout, first / 32, &got);
    snprintf(label, sizeof label, "the last tiles");
    CHECK_EQUAL(difference(got, wanted), "");

    std::vector<int32_t> full(96 * (size_t)volume, 0x01010101);
    CHECK_OK(tile_build_host(full.data(), volume, 96, 96, tiles_layout(&wanted)));
    device_tiles_fetch_part(&layout, ((int64_t)1 << 31) / (32 * volume) - 1, &got);
    snprintf(label, sizeof label, "tiles around entry 2^31");
    CHECK_EQUAL(difference(got, wanted), "");
}

DEVICE_TEST(gpu_tile_refuses) {
    int32_t two = 2;
    int32_t *count = device_upload(&two, 1), *map = device_zeros<int32_t>(2 * 27);
    const tile_layout good = device_tiles(1, 27, 64);
    auto start = [&](const int32_t *m, int volume, const int32_t *n, int32_t capacity,
                     tile_layout t) { return tile_build(m, volume, n, capacity, t, stream_get()); };
    CHECK_STATUS(start(nullptr, 27, count, 2, good), status_null_pointer);
    CHECK_STATUS(start(map, 27, nullptr, 2, good), status_null_pointer);
    CHECK_STATUS(start(map, 27, count, 0, good), status_bad_size);
    CHECK_STATUS(start(map, 27, count, -1, good), status_bad_size);
    CHECK_STATUS(start(map, 27, count, INT32_MAX, good), status_bad_size);
    CHECK_STATUS(start(map, 27, count, 65, good), status_capacity); // one row too many
    CHECK_EQUAL(start(map, 27, count, 65, good).detail, 2);
    for (int volume : {-27, 0, 26, 28, 3376}) {
        CHECK_STATUS(start(map, volume, count, 2, good), status_bad_size);
        tile_layout bad = good;
        bad.volume = volume;
        CHECK_STATUS(start(map, 27, count, 2, bad), status_bad_size);
    }
    for (int rows : {-64, 0, 16, 32, 63, 65, 127, 129, 256}) {
        tile_layout bad = good;
        bad.rows = rows;
        CHECK_STATUS(start(map, 27, count, 2, bad), status_bad_size);
    }
    tile_layout large = good, small = good; // tile sizes of other volumes
    large.volume = 33;
    large.rows = 128;
    CHECK_STATUS(start(map, 33, count, 2, large), status_bad_size);
    small.volume = 129;
    CHECK_STATUS(start(map, 129, count, 2, small), status_bad_size);
    for (int pointer = 0; pointer < 4; ++pointer) {
        tile_layout bad = good;
        bad.first = pointer == 0 ? nullptr : bad.first;
        bad.offset = pointer == 1 ? nullptr : bad.offset;
        bad.input = pointer == 2 ? nullptr : bad.input;
        bad.row = pointer == 3 ? nullptr : bad.row;
        CHECK_STATUS(start(map, 27, count, 2, bad), status_null_pointer);
    }
    tile_layout short_of_tiles = good;
    short_of_tiles.tiles = 0;
    CHECK_STATUS(start(map, 27, count, 2, short_of_tiles), status_capacity);
    const int32_t *odd = (const int32_t *)((char *)count + 2);
    CHECK_STATUS(start(map, 27, odd, 2, good), status_alignment);
    CHECK_EQUAL(start(map, 27, odd, 2, good).subject, "count");
    CHECK_EQUAL(start(odd, 27, count, 2, good).subject, "map");
    // Nothing was written.
    CHECK_EQUAL(difference(device_tiles_fetch(&good), tiles_make(1, 27, 64)), "");
}

DEVICE_TEST(gpu_tile_planted_errors_are_found) {
    random_state random = random_make(4);
    const int32_t n = 1500;
    std::vector<int32_t> map = map_random(&random, 27, n, n, fill_half);
    for (int32_t rows : rows_of(27)) {
        tiles wanted = check_both(map, 27, rows, n, n);
        const size_t own = (size_t)rows * 27; // the second tile, its first offset
        REQUIRE(wanted.first[28] == 0 && wanted.first[28 + 1] > 0 && wanted.input[own + 1] >= 0);
        auto found = [&](const tiles &bad, const char *where, bool holds) {
            return strstr(difference(bad, wanted), where) &&
                   tiles_hold_map(bad, map, n, n) == holds;
        };
        tiles bad = wanted;
        ++bad.offset[own / tile_group]; // another offset
        CHECK(found(bad, "offset[", false));
        bad = wanted;
        ++bad.first[28 + 1]; // a group too many
        CHECK(found(bad, "first[29]", false));
        bad = wanted;
        --bad.first[28 + 27]; // the last group is left out
        CHECK(found(bad, "first[55]", false));
        bad = wanted;
        std::swap(bad.row[own], bad.row[own + 1]); // but not their sources
        CHECK(found(bad, "row[", false));
        std::swap(bad.input[own], bad.input[own + 1]); // another order of the same pairs
        CHECK(found(bad, "input[", true));
        bad = wanted;
        bad.input[own] = -1; // a tap is dropped
        CHECK(found(bad, "input[", false));
        bad.row[own] = (uint8_t)rows; // and becomes padding
        CHECK(found(bad, "input[", false));
        bad = wanted;
        bad.input[own] = bad.input[own + 1]; // a pair twice
        bad.row[own] = bad.row[own + 1];
        CHECK(found(bad, "input[", false));
        bad = wanted;
        ++bad.input.back(); // a write past the list
        REQUIRE(bad.first.back() * tile_group < rows * 27);
        CHECK(found(bad, "input[", true));
        // A row too few.
        map.resize((size_t)(n + 1) * 27, 0);
        CHECK(!tiles_hold_map(wanted, map, n + 1, n));
        map.resize((size_t)n * 27);
        int32_t *device_map = device_upload(map.data(), (int64_t)map.size());
        int32_t fewer = n - 1;
        tile_layout layout = device_tiles(tile_count(n, rows), 27, rows);
        REQUIRE_OK(tile_build(device_map, 27, device_upload(&fewer, 1), n, layout, stream_get()));
        CHECK(difference(device_tiles_fetch(&layout), wanted)[0] != 0);
        guarded_finish();
    }
}

} // namespace
