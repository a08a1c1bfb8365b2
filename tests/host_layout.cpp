// tests/host_layout.cpp: layout.h.
#include "reference.h"

#include "../spira/layout.h"

using namespace spira;

static tile_layout layout_new(int32_t capacity, int32_t volume) {
    workspace w = workspace_begin(nullptr);
    tile_layout_take(&w, capacity, volume);
    w = workspace_begin(guarded_new<char>((int64_t)w.used));
    return tile_layout_take(&w, capacity, volume);
}

// Where a slot stands in the order that its scope was sorted into.
static int slot_order(int slot) {
    return slot / tile_rows * tile_rows + tile_slot_order(slot % tile_rows);
}

// How many promises one tile breaks: its steps are the offsets that some row has, ascending, with
// the groups that have them and every source; nothing is written behind them.
static int64_t tile_faults(const int32_t *map, int32_t count, const tile_layout *t, int64_t tile) {
    const int64_t volume = t->volume, end = (tile + 1) * volume;
    int64_t faults = 0, at = tile * volume;
    for (int64_t k = 0; k < volume; ++k) {
        int32_t expected[tile_rows];
        uint32_t groups = 0;
        for (int64_t s = 0; s < tile_rows; ++s) {
            int32_t row = t->row[tile * tile_rows + s];
            expected[s] = row >= 0 && row < count ? map[row * volume + k] : -1;
            groups |= (uint32_t)(expected[s] >= 0) << (s / tile_group);
        }
        if (groups) {
            faults += t->step[at].offset != k || t->step[at].groups != groups;
            for (int64_t s = 0; s < tile_rows; ++s) {
                faults += t->index[at * tile_rows + s] != expected[s];
            }
            ++at;
        }
    }
    return faults + (t->steps[tile] != at - tile * volume) + !guarded_untouched(t->step, at, end) +
           !guarded_untouched(t->index, at * tile_rows, end * tile_rows);
}

// How many of a layout's promises are broken. map [count, volume].
static int64_t layout_faults(const int32_t *map, int32_t count, const tile_layout *t) {
    int64_t faults = 0;
    std::vector<int> seen((size_t)count);
    for (int64_t slot = 0; slot < (int64_t)t->tiles * tile_rows; ++slot) {
        int32_t row = t->row[slot];
        if (row == -1) {
            continue;
        }
        if (row < 0 || row >= count || row / tile_scope != slot / tile_scope) {
            ++faults; // no row, or one of another scope
        } else {
            ++seen[(size_t)row];
        }
    }
    faults += (int64_t)seen.size() - std::count(seen.begin(), seen.end(), 1);
    for (int64_t tile = 0; tile < t->tiles; ++tile) {
        faults += tile_faults(map, count, t, tile);
    }
    return faults;
}

// A map in which each offset is there with its own chance.
static void map_random(random_state *r, int64_t rows, int volume, int32_t *map) {
    for (int64_t i = 0; i < rows * volume; ++i) {
        bool there = random_int(r, 0, volume) > i % volume;
        map[i] = there ? random_int(r, 0, 1 << 20) : -1;
    }
}

static kernel_shape shape_of(triple size) {
    kernel_shape k = kernel_cube(1, 1);
    k.size = size;
    return k;
}

TEST(layout_holds_every_pair_once) {
    random_state r = random_make(1);
    const triple sizes[] = {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {1, 1, 3}, {5, 5, 5}, {2, 4, 4}};
    for (triple size : sizes) {
        kernel_shape k = shape_of(size);
        int volume = kernel_volume(&k);
        for (int32_t count : {0, 1, 7, 8, 9, 63, 64, 65, 1023, 1024, 1025, 2048, 3000}) {
            for (int32_t spare : {0, 1, 2000}) {
                if (count + spare == 0 || (spare == 2000 && volume > 27)) {
                    continue;
                }
                int32_t capacity = count + spare;
                int32_t *map = guarded_new<int32_t>((int64_t)count * volume);
                map_random(&r, count, volume, map);
                tile_layout t = layout_new(capacity, volume);
                CHECK_EQUAL(t.tiles, (capacity + 1023) / 1024 * 4);
                REQUIRE_OK(tile_build_host(&k, map, count, capacity, t));
                CHECK_EQUAL(layout_faults(map, count, &t), 0);
                guarded_finish();
            }
        }
    }
}

TEST(layout_largest_kernel) {
    random_state r = random_make(2);
    kernel_shape k = kernel_cube(15, 1);
    const int32_t count = 70;
    int32_t *map = guarded_new<int32_t>((int64_t)count * 3375);
    map_random(&r, count, 3375, map);
    tile_layout t = layout_new(count, 3375);
    REQUIRE_OK(tile_build_host(&k, map, count, count, t));
    CHECK_EQUAL(layout_faults(map, count, &t), 0);
}

// All or none: keys of all ones must not be taken for padding.
TEST(layout_full_and_empty_maps) {
    for (int there = 0; there < 2; ++there) {
        for (triple size : {triple{2, 4, 4}, triple{5, 5, 5}, triple{3, 3, 3}}) {
            kernel_shape k = shape_of(size);
            int volume = kernel_volume(&k);
            const int32_t count = 100;
            int32_t *map = guarded_new<int32_t>((int64_t)count * volume);
            std::fill(map, map + (int64_t)count * volume, there ? 7 : -1);
            tile_layout t = layout_new(count, volume);
            REQUIRE_OK(tile_build_host(&k, map, count, count, t));
            CHECK_EQUAL(layout_faults(map, count, &t), 0);
            for (int32_t slot = 0; slot < t.tiles * tile_rows; ++slot) {
                int at = slot_order(slot); // equal keys keep their order
                CHECK_EQUAL(t.row[slot], at < count ? at : -1);
            }
        }
    }
}

// Padding stands at the end of a scope.
TEST(layout_padding_comes_last) {
    random_state r = random_make(3);
    kernel_shape k = kernel_cube(3, 1);
    const int32_t count = 1024 + 130;
    int32_t *map = guarded_new<int32_t>((int64_t)count * 27);
    map_random(&r, count, 27, map);
    tile_layout t = layout_new(count, 27);
    REQUIRE_OK(tile_build_host(&k, map, count, count, t));
    for (int32_t slot = 0; slot < t.tiles * tile_rows; ++slot) {
        CHECK_EQUAL(t.row[slot] < 0, slot_order(slot) >= count);
    }
}

// Each fault that the check looks for is planted, and found.
TEST(layout_check_finds_planted_faults) {
    random_state r = random_make(4);
    kernel_shape k = kernel_cube(3, 1);
    const int32_t count = 1500;
    int32_t *map = guarded_new<int32_t>((int64_t)count * 27);
    map_random(&r, count, 27, map);
    tile_layout t = layout_new(count, 27);
    REQUIRE_OK(tile_build_host(&k, map, count, count, t));
    REQUIRE(layout_faults(map, count, &t) == 0);
    for (int i = 0; i < 100; ++i) {
        int32_t *row = std::find(t.row, t.row + t.tiles * tile_rows, random_int(&r, 0, count - 1));
        const int32_t kept = *row;
        *row = -1;
        CHECK(layout_faults(map, count, &t) > 0);
        *row = kept == 0 ? 1 : kept - 1;
        CHECK(layout_faults(map, count, &t) > 0);
        *row = kept;
        int64_t tile = random_int(&r, 0, (count - 1) / tile_rows);
        REQUIRE(t.steps[tile] > 1 && t.steps[tile] <= 27);
        int64_t step = tile * 27 + random_int(&r, 0, t.steps[tile] - 1);
        int32_t *index = &t.index[step * tile_rows + random_int(&r, 0, tile_rows - 1)];
        ++*index;
        CHECK_EQUAL(layout_faults(map, count, &t), 1);
        --*index;
        tile_step right = t.step[step];
        t.step[step].groups ^= 1u << random_int(&r, 0, tile_rows / tile_group - 1);
        CHECK_EQUAL(layout_faults(map, count, &t), 1);
        t.step[step] = right;
        t.step[step].offset += random_int(&r, 0, 1) ? 1 : -1;
        CHECK_EQUAL(layout_faults(map, count, &t), 1);
        t.step[step] = right;
        t.steps[tile] += random_int(&r, 0, 1) ? 1 : -1;
        CHECK_EQUAL(layout_faults(map, count, &t), 1);
        REQUIRE_OK(tile_build_host(&k, map, count, count, t));
    }
    CHECK_EQUAL(layout_faults(map, count, &t), 0);
}

// What lies behind a tile's steps is the caller's, as it was.
TEST(layout_check_finds_writes_behind_the_steps) {
    random_state r = random_make(6);
    kernel_shape k = kernel_cube(3, 1);
    const int32_t count = tile_rows + 36; // the tiles from the third on have no steps at all
    int32_t *map = guarded_new<int32_t>((int64_t)count * 27);
    map_random(&r, count, 27, map);
    for (int32_t row = 0; row < count; ++row) {
        map[row * 27 + 26] = -1;
    }
    tile_layout t = layout_new(count, 27);
    REQUIRE_OK(tile_build_host(&k, map, count, count, t));
    REQUIRE(layout_faults(map, count, &t) == 0);
    for (int64_t tile = 0; tile < t.tiles && !test_environment("SPIRA_UNPOISONED"); ++tile) {
        REQUIRE(t.steps[tile] == 0 || (tile < 2 && t.steps[tile] <= 26));
        for (int64_t step : {tile * 27 + t.steps[tile], tile * 27 + 26}) {
            tile_step kept = t.step[step];
            t.step[step].groups = 0;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            t.step[step] = kept;
            int32_t *index = &t.index[step * tile_rows + random_int(&r, 0, tile_rows - 1)];
            int32_t source = *index;
            *index = -1;
            CHECK_EQUAL(layout_faults(map, count, &t), 1);
            *index = source;
        }
    }
    CHECK_EQUAL(layout_faults(map, count, &t), 0);
}

// Sorting by offsets is there to leave work out; a plain order of this map leaves out little.
TEST(layout_gathers_rows_that_look_alike) {
    random_state r = random_make(5);
    kernel_shape k = kernel_cube(3, 1);
    const int32_t count = 1024;
    int32_t *map = guarded_new<int32_t>((int64_t)count * 27);
    int64_t pairs = 0, work = 0, plain = 0;
    for (int32_t row = 0; row < count; ++row) { // two kinds of rows, at random
        bool one = random_int(&r, 0, 1);
        for (int i = 0; i < 27; ++i) {
            bool there = i == 13 || (one ? i < 6 : i > 20);
            map[row * 27 + i] = there ? row : -1;
            pairs += there;
        }
    }
    tile_layout t = layout_new(count, 27);
    REQUIRE_OK(tile_build_host(&k, map, count, count, t));
    for (int64_t tile = 0; tile < t.tiles; ++tile) {
        for (int32_t i = 0; i < t.steps[tile]; ++i) {
            for (uint32_t bits = t.step[tile * 27 + i].groups; bits; bits &= bits - 1) {
                work += tile_group;
            }
        }
    }
    for (int64_t group = 0; group < count / tile_group; ++group) {
        for (int i = 0; i < 27; ++i) {
            bool there = false;
            for (int j = 0; j < tile_group; ++j) {
                there = there || map[(group * tile_group + j) * 27 + i] >= 0;
            }
            plain += there ? tile_group : 0;
        }
    }
    CHECK(work >= pairs && work <= pairs + 8 * 27);
    CHECK(plain > pairs * 3 / 2);
}

// As layout.h says it, the other way round: where row n of a tile's order goes.
TEST(layout_deals_groups_to_quarters) {
    std::vector<int> order(tile_rows);
    for (int slot = 0; slot < tile_rows; ++slot) {
        order[(size_t)slot] = tile_slot_order(slot);
    }
    for (int n = 0; n < tile_rows; ++n) {
        int quarter = n / 8 % 4, i = n / 32;
        CHECK_EQUAL(order[(size_t)((quarter * 8 + i) * 8 + n % 8)], n);
    }
}

TEST(layout_keys_rank_by_distance) {
    for (triple size : {triple{3, 3, 3}, triple{2, 4, 4}, triple{5, 5, 5}, triple{15, 15, 15}}) {
        kernel_shape k = shape_of(size);
        int volume = kernel_volume(&k);
        tile_key key = tile_key_make(&k);
        std::vector<int> used(32);
        for (int i = 0; i < volume; ++i) {
            REQUIRE(key.bit[i] < 32);
            ++used[key.bit[i]];
            for (int j = 0; j < volume && volume < 200; ++j) {
                if (kernel_norm(&k, i) > kernel_norm(&k, j)) {
                    CHECK(key.bit[i] >= key.bit[j]); // the far ones are rare: high bits
                }
            }
        }
        for (int bit = 0; bit < 32; ++bit) {
            if (volume <= 32) {
                CHECK_EQUAL(used[(size_t)bit], bit < volume ? 1 : 0);
            } else {
                CHECK(used[(size_t)bit] >= volume / 32 && used[(size_t)bit] <= volume / 32 + 1);
            }
        }
    }
}

TEST(layout_refuses) {
    kernel_shape good = kernel_cube(3, 1), k = good;
    const int32_t count = 10;
    int32_t *map = guarded_new<int32_t>(count * 27);
    std::fill(map, map + count * 27, -1);
    const tile_layout t = layout_new(count, 27);
    tile_layout bad;
    CHECK_STATUS(tile_build_host(nullptr, map, count, count, t), status_null_pointer);
    CHECK_STATUS(tile_build_host(&k, nullptr, count, count, t), status_null_pointer);
    bad = t;
    bad.row = nullptr;
    CHECK_STATUS(tile_build_host(&k, map, count, count, bad), status_null_pointer);
    bad = t;
    bad.steps = nullptr;
    CHECK_STATUS(tile_build_host(&k, map, count, count, bad), status_null_pointer);
    bad = t;
    bad.step = nullptr;
    CHECK_STATUS(tile_build_host(&k, map, count, count, bad), status_null_pointer);
    bad = t;
    bad.index = nullptr;
    CHECK_STATUS(tile_build_host(&k, map, count, count, bad), status_null_pointer);
    bad = t;
    bad.volume = 26;
    CHECK_STATUS(tile_build_host(&k, map, count, count, bad), status_bad_size);
    bad = t;
    bad.tiles = 3;
    status s = tile_build_host(&k, map, count, count, bad);
    CHECK_STATUS(s, status_capacity);
    CHECK_EQUAL(s.detail, 4);
    CHECK_STATUS(tile_build_host(&k, map, count, 1025, t), status_capacity);
    CHECK_STATUS(tile_build_host(&k, map, count, 0, t), status_bad_size);
    CHECK_STATUS(tile_build_host(&k, map, count, -1, t), status_bad_size);
    CHECK_STATUS(tile_build_host(&k, map, -1, count, t), status_bad_size);
    CHECK_STATUS(tile_build_host(&k, map, count + 1, count, t), status_bad_size);
    k.size.y = 16;
    CHECK_STATUS(tile_build_host(&k, map, count, count, t), status_kernel_size);
    CHECK(guarded_untouched(t.row, 0, t.tiles * tile_rows));
    CHECK(guarded_untouched(t.steps, 0, t.tiles));
    CHECK(guarded_untouched(t.step, 0, t.tiles * 27));
    CHECK_OK(tile_build_host(&good, map, count, count, t));
}
