// tests/host/layout.cpp: layout/tile.h.
#include "../support/reference.h"

#include "../../spira/layout/tile.h"

using namespace spira;

// Each array is a buffer of its own, of exactly the size that layout/tile.h states.
static tile_layout layout_new(int32_t capacity, int32_t volume, int32_t rows) {
    const int64_t tiles = (capacity + rows - 1) / rows, entries = tiles * rows * volume;
    tile_layout t;
    t.first = guarded_new<int32_t>(tiles * (volume + 1));
    t.offset = guarded_new<uint16_t>(entries / 16);
    t.input = guarded_new<int32_t>(entries);
    t.row = guarded_new<uint8_t>(entries);
    t.tiles = (int32_t)tiles;
    t.volume = volume;
    t.rows = rows;
    return t;
}

// The tile sizes of a volume, one or two.
static std::vector<int> rows_of(int volume) {
    return volume <= 32    ? std::vector<int>{64, 128}
           : volume <= 128 ? std::vector<int>{64}
                           : std::vector<int>{32};
}

// What a tile's list should be. The rows that have an offset form four queues, by row % 4, which
// are served round robin.
struct list {
    std::vector<int32_t> first, offset, input, row;
};

static list list_expected(const int32_t *map, int32_t count, int volume, int rows, int64_t tile) {
    list l;
    const int64_t begin = tile * rows, end = std::min(begin + rows, (int64_t)count);
    for (int k = 0; k < volume; ++k) {
        l.first.push_back((int32_t)l.offset.size());
        std::vector<int64_t> queue[4];
        for (int64_t o = begin; o < end; ++o) {
            if (map[o * volume + k] >= 0) {
                queue[(o - begin) % 4].push_back(o);
            }
        }
        for (size_t round = 0; round < (size_t)rows / 4; ++round) {
            for (const std::vector<int64_t> &q : queue) {
                if (round < q.size()) {
                    l.input.push_back(map[q[round] * volume + k]);
                    l.row.push_back((int32_t)(q[round] - begin));
                }
            }
        }
        l.input.resize((l.input.size() + 15) / 16 * 16, -1);
        l.row.resize(l.input.size(), rows);
        l.offset.resize(l.input.size() / 16, k);
    }
    l.first.push_back((int32_t)l.offset.size());
    return l;
}

// Counts the wrong entries of an array.
template <typename T>
static int64_t array_faults(const T *got, const std::vector<int32_t> &expected) {
    int64_t faults = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        faults += got[i] != expected[i];
    }
    return faults;
}

// Counts the faults of a tile: one for each wrong entry, one for each array that is written past
// the list.
static int64_t tile_faults(const int32_t *map, int32_t count, const tile_layout *t, int64_t tile) {
    const int64_t begin = tile * t->rows * t->volume, end = begin + t->rows * t->volume;
    const list l = list_expected(map, count, t->volume, t->rows, tile);
    const int64_t used = begin + (int64_t)l.input.size();
    return array_faults(t->first + tile * (t->volume + 1), l.first) +
           array_faults(t->offset + begin / 16, l.offset) +
           array_faults(t->input + begin, l.input) + array_faults(t->row + begin, l.row) +
           !guarded_untouched(t->offset, used / 16, end / 16) +
           !guarded_untouched(t->input, used, end) + !guarded_untouched(t->row, used, end);
}

// Counts the faults of a layout. map [count, volume]
static int64_t layout_faults(const int32_t *map, int32_t count, const tile_layout *t) {
    int64_t faults = 0;
    for (int64_t tile = 0; tile < t->tiles; ++tile) {
        faults += tile_faults(map, count, t, tile);
    }
    return faults;
}

// Recovers the map of a layout. Returns the number of pairs that occur twice or belong to no row.
static int64_t layout_map(const tile_layout *t, int32_t count, std::vector<int32_t> *map) {
    int64_t wrong = 0;
    map->assign((size_t)count * (size_t)t->volume, -1);
    for (int64_t tile = 0; tile < t->tiles; ++tile) {
        const int32_t *first = t->first + tile * (t->volume + 1);
        for (int k = 0; k < t->volume; ++k) {
            for (int64_t i = first[k] * 16; i < first[k + 1] * 16; ++i) {
                int64_t at = tile * t->rows * t->volume + i, row = tile * t->rows + t->row[at];
                if (t->input[at] < 0) {
                    continue; // padding
                }
                if (t->row[at] >= t->rows || row >= count ||
                    (*map)[(size_t)(row * t->volume + k)] >= 0) {
                    ++wrong;
                } else {
                    (*map)[(size_t)(row * t->volume + k)] = t->input[at];
                }
            }
        }
    }
    return wrong;
}

static int64_t layout_groups(const tile_layout *t) {
    int64_t groups = 0;
    for (int64_t tile = 0; tile < t->tiles; ++tile) {
        groups += t->first[tile * (t->volume + 1) + t->volume];
    }
    return groups;
}

// A map in which each tap exists with probability `percent`; negative: each offset has its own
// probability.
static int32_t *map_random(random_state *r, int64_t rows, int volume, int percent) {
    int32_t *map = guarded_new<int32_t>(rows * volume);
    for (int64_t i = 0; i < rows * volume; ++i) {
        bool there =
            percent < 0 ? random_int(r, 0, volume) > i % volume : random_int(r, 0, 99) < percent;
        map[i] = there ? random_int(r, 0, 1 << 30) : -1;
    }
    return map;
}

// ---- what is built ------------------------------------------------------------------------------

static void check_build(random_state *r, int32_t count, int32_t capacity, int volume, int rows,
                        int percent) {
    int32_t *map = map_random(r, count, volume, percent); // no rows past the count
    tile_layout t = layout_new(capacity, volume, rows);
    CHECK_OK(tile_build_host(map, volume, count, capacity, t));
    std::vector<int32_t> back;
    if (CHECK_EQUAL(layout_faults(map, count, &t), 0)) { // the lists end where they should
        CHECK_EQUAL(layout_map(&t, count, &back), 0);
        CHECK(std::equal(back.begin(), back.end(), map));
    }
    guarded_finish();
}

TEST(layout_holds_every_pair_once) {
    random_state r = random_make(1);
    int turn = 0;
    for (int volume : {1, 2, 8, 27, 32, 33, 64, 125, 128, 129, 257, 343}) {
        for (int rows : rows_of(volume)) {
            for (int32_t count :
                 {0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,  32,  33,  47, 48,
                  49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 193, 255, 256, 257, 300}) {
                const int percents[] = {-1, 50, 5, 90, 20};
                for (int32_t spare : {0, 1, 300}) {
                    bool much = (int64_t)(count + spare) * volume > (test_quick() ? 5000 : 20000);
                    if (count + spare > 0 && !(much && turn++ % 4)) {
                        check_build(&r, count, count + spare, volume, rows, percents[turn++ % 5]);
                    }
                }
            }
        }
    }
}

TEST(layout_random_maps) {
    for (int seed = 0; seed < (test_quick() ? 20 : 300); ++seed) {
        random_state r = random_make((uint64_t)seed);
        int volume = random_int(&r, 0, 3) ? random_int(&r, 1, 40) : random_int(&r, 1, 400);
        std::vector<int> all = rows_of(volume);
        int rows = all[(size_t)random_int(&r, 0, (int)all.size() - 1)];
        int32_t count = random_int(&r, 0, 700);
        int32_t capacity = std::max(count + random_int(&r, 0, 1) * random_int(&r, 0, 300), 1);
        check_build(&r, count, capacity, volume, rows, random_int(&r, -1, 100));
    }
}

TEST(layout_largest_kernel) {
    random_state r = random_make(2);
    for (int32_t count : {1, 31, 32, 33, 70}) {
        check_build(&r, count, count + 1, kernel_volume_max, 32, count == 33 ? 100 : -1);
    }
}

// A full map: rows in order, padding only after the last. An empty map: no groups.
TEST(layout_full_and_empty_maps) {
    for (int volume : {1, 27, 33, 125, 129}) {
        for (int rows : rows_of(volume)) {
            for (int there = 0; there < 2; ++there) {
                const int32_t count = 3 * rows + 10;
                int32_t *map = guarded_new<int32_t>((int64_t)count * volume);
                for (int64_t i = 0; i < (int64_t)count * volume; ++i) {
                    map[i] = there ? (int32_t)(i % 1000) : -1;
                }
                tile_layout t = layout_new(count, volume, rows);
                REQUIRE_OK(tile_build_host(map, volume, count, count, t));
                CHECK_EQUAL(layout_faults(map, count, &t), 0);
                CHECK_EQUAL(layout_groups(&t), there ? volume * (3 * rows / 16 + 1) : 0);
                for (int i = 0; i < rows * volume && there; ++i) {
                    CHECK_EQUAL(t.row[i], i % rows);
                }
            }
        }
    }
}

// A map of one offset and its list, by hand.
TEST(layout_rows_are_interleaved) {
    const int there[] = {0, 1, 2, 4, 5, 8, 12, 16, 19, 20, 24, 28, 32, 36, 40, 44, 48, 63};
    const int order[] = {0, 1, 2, 19, 4, 5, 63, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48};
    for (int rows : {64, 128}) {
        int32_t *map = guarded_new<int32_t>(64);
        std::fill(map, map + 64, -1);
        for (int row : there) {
            map[row] = 100 + row;
        }
        tile_layout t = layout_new(64, 1, rows);
        REQUIRE_OK(tile_build_host(map, 1, 64, 64, t));
        CHECK_EQUAL(t.first[0], 0);
        CHECK_EQUAL(t.first[1], 2);
        for (int i = 0; i < 32; ++i) {
            CHECK_EQUAL(t.row[i], i < 18 ? order[i] : rows);
            CHECK_EQUAL(t.input[i], i < 18 ? 100 + order[i] : -1);
        }
        CHECK(t.offset[0] == 0 && t.offset[1] == 0);
        CHECK(guarded_untouched(t.input, 32, rows) && guarded_untouched(t.row, 32, rows));
        guarded_finish();
    }
}

// Positions are those of a list, each once. As long as all four residues have pairs left, any four
// neighbours have four residues.
TEST(layout_places_are_a_list) {
    random_state r = random_make(3);
    for (int i = 0; i < 2000; ++i) {
        int pairs[tile_residues], all = 0, least = 32;
        for (int &p : pairs) {
            p = random_int(&r, 0, i % 3 ? 32 : 3);
            all += p;
            least = std::min(least, p);
        }
        std::vector<int> residue((size_t)all, -1), rank((size_t)all, -1);
        for (int own = 0; own < tile_residues; ++own) {
            for (int n = 0; n < pairs[own]; ++n) {
                int at = tile_pair_place(n, own, pairs);
                REQUIRE(at >= 0 && at < all);
                CHECK_EQUAL(residue[(size_t)at], -1);
                residue[(size_t)at] = own;
                rank[(size_t)at] = n;
            }
        }
        for (size_t at = 0; at + 1 < residue.size(); ++at) {
            int next = rank[at + 1] * tile_residues + residue[at + 1];
            CHECK(next > rank[at] * tile_residues + residue[at]);
            if ((int)at + 4 <= least * tile_residues) {
                CHECK_EQUAL(residue[at], (int)at % 4);
            }
        }
    }
}

// The purpose of larger tiles: the same pairs in fewer groups.
TEST(layout_larger_tiles_pad_less) {
    random_state r = random_make(5);
    for (int percent : {3, 15, 40}) {
        const int32_t count = 1000;
        int32_t *map = map_random(&r, count, 27, percent);
        int64_t pairs = std::count_if(map, map + count * 27, [](int32_t s) { return s >= 0; });
        tile_layout small = layout_new(count, 27, 64), large = layout_new(count, 27, 128);
        REQUIRE_OK(tile_build_host(map, 27, count, count, small));
        REQUIRE_OK(tile_build_host(map, 27, count, count, large));
        CHECK(layout_groups(&large) < layout_groups(&small));
        CHECK(layout_groups(&large) * tile_group >= pairs);
        CHECK(layout_groups(&small) <= (pairs + 15ll * 27 * small.tiles) / 16);
    }
}

// Tiles past the capacity are untouched.
TEST(layout_leaves_other_tiles_alone) {
    random_state r = random_make(6);
    for (int rows : {64, 128}) {
        int32_t *map = map_random(&r, 200, 27, 50);
        tile_layout more = layout_new(1000, 27, rows), same = layout_new(260, 27, rows);
        REQUIRE_OK(tile_build_host(map, 27, 200, 260, more));
        REQUIRE_OK(tile_build_host(map, 27, 200, 260, same));
        for (int64_t tile = 0; tile < same.tiles; ++tile) {
            CHECK_EQUAL(tile_faults(map, 200, &more, tile), 0);
        }
        CHECK(guarded_untouched(more.first, same.tiles * 28, more.tiles * 28));
        const int64_t entries = rows * 27;
        CHECK(guarded_untouched(more.offset, same.tiles * entries / 16, more.tiles * entries / 16));
        CHECK(guarded_untouched(more.input, same.tiles * entries, more.tiles * entries));
        CHECK(guarded_untouched(more.row, same.tiles * entries, more.tiles * entries));
    }
}

// ---- sizes --------------------------------------------------------------------------------------

TEST(layout_rows_of_a_tile) {
    for (int volume = 1; volume <= kernel_volume_max; ++volume) {
        std::vector<int> all = rows_of(volume);
        CHECK_EQUAL(tile_rows(volume), all.front());
        CHECK_EQUAL(tile_rows_limit(volume), all.back());
        for (int rows = -1; rows <= 260; ++rows) {
            CHECK_EQUAL(tile_rows_valid(rows, volume),
                        std::find(all.begin(), all.end(), rows) != all.end());
        }
        // Whole groups; a row, and the padding's `rows`, fit a byte.
        CHECK(all.back() % tile_group == 0 && all.back() <= tile_rows_most && all.back() < 256);
    }
}

TEST(layout_counts_tiles) {
    for (int rows : {32, 64, 128}) {
        for (int32_t capacity : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, INT32_MAX / 2}) {
            int64_t tiles = tile_count(capacity, rows);
            CHECK(tiles * rows >= capacity && (tiles - 1) * rows < capacity);
        }
    }
}

// The arrays of a layout do not overlap, are aligned, and have the sizes of layout/tile.h; counting
// agrees. Also beyond 2^31 entries.
TEST(layout_takes_what_it_states) {
    struct {
        int32_t capacity, volume, rows;
    } const cases[] = {{1, 1, 64},     {1, 1, 128},    {64, 27, 64},    {65, 27, 64},
                       {300, 32, 128}, {100, 125, 64}, {1000, 343, 32}, {700000, 3375, 32}};
    for (auto &c : cases) {
        workspace w = workspace_begin(nullptr);
        tile_layout t = tile_layout_take(&w, c.capacity, c.volume, c.rows);
        CHECK(!t.first && !t.offset && !t.input && !t.row);
        const int64_t tiles = (c.capacity + c.rows - 1) / c.rows,
                      entries = tiles * c.rows * c.volume;
        const int64_t bytes[] = {tiles * (c.volume + 1) * 4, entries / 16 * 2, entries * 4,
                                 entries};
        int64_t sum = 0;
        for (int64_t b : bytes) {
            sum += (b + 255) / 256 * 256;
        }
        CHECK_EQUAL((int64_t)w.used, sum);
        CHECK_EQUAL(tile_begin(&t, tiles), entries);
        CHECK_EQUAL(tile_begin(&t, tiles - 1), entries - c.rows * c.volume);
        if (w.used > (size_t)1 << 24) {
            continue;
        }
        char *memory = guarded_new<char>((int64_t)w.used);
        w = workspace_begin(memory);
        t = tile_layout_take(&w, c.capacity, c.volume, c.rows);
        CHECK_EQUAL(t.tiles, tiles);
        CHECK_EQUAL(t.volume, c.volume);
        CHECK_EQUAL(t.rows, c.rows);
        CHECK_OK(tile_layout_check(&t, c.volume, c.capacity));
        const char *at[] = {(char *)t.first, (char *)t.offset, (char *)t.input, (char *)t.row};
        for (int i = 0; i < 4; ++i) {
            CHECK_EQUAL((uintptr_t)at[i] % 256, 0u);
            CHECK(at[i] >= memory && at[i] + bytes[i] <= memory + w.used);
            for (int j = 0; j < i; ++j) {
                CHECK(at[i] >= at[j] + bytes[j] || at[j] >= at[i] + bytes[i]);
            }
        }
        guarded_finish();
    }
}

// ---- the check, checked -------------------------------------------------------------------------

// Planted faults are found; a fault in one entry counts as one.
TEST(layout_check_finds_planted_faults) {
    for (int rows : {64, 128}) {
        random_state r = random_make(4);
        const int32_t count = 700;
        int32_t *map = map_random(&r, count, 27, -1);
        tile_layout t = layout_new(count, 27, rows);
        REQUIRE_OK(tile_build_host(map, 27, count, count, t));
        REQUIRE(layout_faults(map, count, &t) == 0);
        for (int i = 0; i < 40; ++i) {
            int64_t tile = random_int(&r, 0, t.tiles - 1), begin = tile * rows * 27;
            int32_t *first = t.first + tile * 28;
            REQUIRE(first[27] > 1 && first[27] <= rows * 27 / 16);
            int64_t at = begin + random_int(&r, 0, first[27] * 16 - 1);
            std::vector<int32_t> back;
            bool pair = t.input[at] >= 0;

            t.input[at] ^= 1; // another source; padding: a false pair
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            CHECK(!pair || (layout_map(&t, count, &back) == 0 &&
                            !std::equal(back.begin(), back.end(), map)));
            t.input[at] ^= 1;
            t.row[at] ^= 1; // another row
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            t.row[at] ^= 1;
            t.offset[at / 16] ^= 1;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            t.offset[at / 16] ^= 1;
            int32_t *start = first + random_int(&r, 0, 27);
            *start += random_int(&r, 0, 1) ? 1 : -1;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            REQUIRE_OK(tile_build_host(map, 27, count, count, t));

            // A pair twice, instead of the next one; two pairs exchanged.
            if (pair && at % 16 < 15 && t.input[at + 1] >= 0) {
                int32_t input = t.input[at + 1];
                uint8_t row = t.row[at + 1];
                t.input[at + 1] = t.input[at];
                t.row[at + 1] = t.row[at];
                CHECK_EQUAL(layout_faults(map, count, &t), 2);
                CHECK_EQUAL(layout_map(&t, count, &back), 1);
                t.input[at] = input;
                t.row[at] = row;
                CHECK_EQUAL(layout_faults(map, count, &t), 4); // the same map, in another order
                CHECK(layout_map(&t, count, &back) == 0 &&
                      std::equal(back.begin(), back.end(), map));
                REQUIRE_OK(tile_build_host(map, 27, count, count, t));
            }
        }
        CHECK_EQUAL(layout_faults(map, count, &t), 0);
        CHECK(layout_faults(map, count - 1, &t) > 0); // a row too many
        guarded_finish();
    }
}

// Entries past a tile's list are untouched.
TEST(layout_check_finds_writes_past_the_list) {
    random_state r = random_make(7);
    const int32_t count = 64 + 36; // the tiles from the third on have no pairs at all
    int32_t *map = map_random(&r, count, 27, -1);
    for (int32_t row = 0; row < count; ++row) {
        map[row * 27 + 26] = -1;
    }
    tile_layout t = layout_new(400, 27, 64);
    REQUIRE_OK(tile_build_host(map, 27, count, 400, t));
    REQUIRE(layout_faults(map, count, &t) == 0);
    CHECK_EQUAL(t.tiles, 7);
    for (int64_t tile = 0; tile < t.tiles && !test_environment("SPIRA_UNPOISONED"); ++tile) {
        int64_t used = t.first[tile * 28 + 27] * 16, begin = tile * 64 * 27;
        REQUIRE((used > 0) == (tile < 2) && used <= 64 * 26);
        for (int64_t at : {begin + used, begin + 64 * 27 - 1}) {
            t.offset[at / 16] ^= 1;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            t.offset[at / 16] ^= 1;
            t.input[at] ^= 1;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            t.input[at] ^= 1;
            t.row[at] ^= 1;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            t.row[at] ^= 1;
        }
    }
    CHECK_EQUAL(layout_faults(map, count, &t), 0);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(layout_refuses) {
    const int32_t count = 10;
    int32_t *map = guarded_new<int32_t>(count * 27);
    std::fill(map, map + count * 27, -1);
    const tile_layout t = layout_new(count, 27, 64);
    tile_layout bad = t;
    CHECK_STATUS(tile_build_host(nullptr, 27, count, count, t), status_null_pointer);
    bad.first = nullptr;
    CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_null_pointer);
    bad = t;
    bad.offset = nullptr;
    CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_null_pointer);
    bad = t;
    bad.input = nullptr;
    CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_null_pointer);
    bad = t;
    bad.row = nullptr;
    CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_null_pointer);
    CHECK_STATUS(tile_layout_check(nullptr, 27, count), status_null_pointer);
    bad = t;
    bad.input = (int32_t *)((char *)bad.input + 2);
    CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_alignment);
    bad = t;
    bad.offset = (uint16_t *)((char *)bad.offset + 1);
    CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_alignment);
    const int32_t *odd = (const int32_t *)((char *)map + 1);
    CHECK_STATUS(tile_build_host(odd, 27, count, count, t), status_alignment);
    CHECK_EQUAL(tile_build_host(odd, 27, count, count, t).subject, "map");
    CHECK_STATUS(tile_check(map, 27, count, nullptr), status_null_pointer);
    for (int volume : {-1, 0, 26, 28, 3375, 3376}) {
        CHECK_STATUS(tile_build_host(map, volume, count, count, t), status_bad_size);
        bad = t;
        bad.volume = volume;
        CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_bad_size);
    }
    bad.volume = kernel_volume_max + 1; // though both agree
    CHECK_STATUS(tile_build_host(map, bad.volume, count, count, bad), status_bad_size);
    for (int rows : {-64, 0, 1, 16, 32, 48, 63, 65, 96, 127, 129, 192, 256}) {
        bad = t;
        bad.rows = rows;
        CHECK_STATUS(tile_build_host(map, 27, count, count, bad), status_bad_size);
    }
    bad = t;
    bad.volume = 33;
    bad.rows = 128;
    CHECK_STATUS(tile_build_host(map, 33, count, count, bad), status_bad_size);
    bad.volume = 129;
    bad.rows = 64;
    CHECK_STATUS(tile_build_host(map, 129, count, count, bad), status_bad_size);
    bad = t;
    bad.tiles = 0;
    status s = tile_build_host(map, 27, count, count, bad);
    CHECK_STATUS(s, status_capacity);
    CHECK_EQUAL(s.detail, 1);
    s = tile_build_host(map, 27, count, 65, t); // one row too many
    CHECK_STATUS(s, status_capacity);
    CHECK_EQUAL(s.detail, 2);
    CHECK_STATUS(tile_build_host(map, 27, count, 0, t), status_bad_size);
    CHECK_STATUS(tile_build_host(map, 27, count, -1, t), status_bad_size);
    CHECK_STATUS(tile_build_host(map, 27, count, INT32_MAX, t), status_bad_size);
    CHECK_STATUS(tile_build_host(map, 27, -1, count, t), status_bad_size);
    CHECK_STATUS(tile_build_host(map, 27, count + 1, count, t), status_bad_size);
    CHECK(guarded_untouched(t.first, 0, 28));
    CHECK(guarded_untouched(t.offset, 0, 64 * 27 / 16));
    CHECK(guarded_untouched(t.input, 0, 64 * 27));
    CHECK(guarded_untouched(t.row, 0, 64 * 27));
    CHECK_OK(tile_build_host(map, 27, count, 64, t));
}
