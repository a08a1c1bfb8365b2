// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/order.cpp: order.h.
#include "../support/orders.h"
#include "../support/reference.h"

#include <bitset>
#include <map>
#include <set>
#include <string>

using namespace spira;

static order_layout layout_new(int32_t capacity, int32_t volume) {
    return order_layout_new(&memory_host, (capacity + 63) / 64, volume);
}

static status build(const kernel_shape *kernel, const int32_t *map, int32_t count, int32_t capacity,
                    order_layout t, int threshold = 0) {
    size_t bytes = 0;
    CHECK_OK(order_host_workspace(capacity, &bytes));
    order_request r = {};
    r.kernel = *kernel;
    r.threshold = threshold;
    r.map = map;
    r.count = &count;
    r.capacity = capacity;
    r.layout = t;
    return order_build_host(&r, guarded_new<char>((int64_t)bytes), bytes);
}

static kernel_shape kernel_sized(int x, int y, int z) {
    kernel_shape k = kernel_cube(1, 1);
    k.size = {x, y, z};
    return k;
}

// ---- the order from its definition --------------------------------------------------------------

static int sign(int a) {
    return a < 0 ? -1 : a > 0;
}

// The number of a direction: by norm, then by x, y, z.
static int direction_place(triple d) {
    std::vector<std::vector<int>> all;
    for (int x : {-1, 0, 1}) {
        for (int y : {-1, 0, 1}) {
            for (int z : {-1, 0, 1}) {
                all.push_back({abs(x) + abs(y) + abs(z), x, y, z});
            }
        }
    }
    std::sort(all.begin(), all.end());
    const std::vector<int> wanted = {abs(d.x) + abs(d.y) + abs(d.z), d.x, d.y, d.z};
    return (int)(std::find(all.begin(), all.end(), wanted) - all.begin());
}

// A number of an output, as bits: of 24 sectors, the first sector the highest, or of 27 directions
// and above them of five levels.
typedef std::bitset<32> number;

// Whether a comes before b in the reflected Gray code. The code of n bits is the code of n - 1
// bits, then the same backwards with the highest bit set.
static bool gray_before(const number &a, const number &b) {
    bool backwards = false;
    for (size_t bit = a.size(); bit-- > 0;) {
        if (a[bit] != b[bit]) {
            return backwards ? a[bit] : b[bit];
        }
        backwards ^= a[bit];
    }
    return false;
}

// Whether an offset is in a part of the kernel, which gives a sign for each axis, or any.
static bool part_has(const std::string &part, const int (&d)[3]) {
    for (size_t axis = 0; axis < 3; ++axis) {
        const int wanted = part[axis] == '-' ? -1 : part[axis] == '+';
        if (part[axis] != '*' && sign(d[axis]) != wanted) {
            return false;
        }
    }
    return true;
}

// The sectors in their order: the signs of x, y and z, * for any.
static const std::vector<std::string> sectors_in_order = {
    "**-", "**+", "-**", "+**", "*-*", "*+*", //
    "*--", "*-+", "*+-", "*++",               //
    "--*", "-+*", "+-*", "++*",               //
    "-*-", "-*+", "+*-", "+*+",               //
    "-00", "+00", "0-0", "0+0", "00-", "00+",
};

// A column of a map: its direction, and the bits that it sets in the number of an output that has
// it: those of its sectors, or that of its direction.
struct column {
    int place;
    number bits;
};

// The columns of a map: the offsets with a norm below the threshold. few: whether they have up to
// 10 directions, so that each number is a class; sectors: whether bits are of sectors
struct order_columns_of_map {
    std::vector<column> all;
    bool few, sectors;
};

static order_columns_of_map columns_of(const kernel_shape *kernel, int threshold = map_all) {
    const triple size = kernel->size;
    order_columns_of_map c = {};
    std::vector<triple> offsets;
    std::set<int> places;
    for (int x = 0; x < size.x; ++x) {
        for (int y = 0; y < size.y; ++y) {
            for (int z = 0; z < size.z; ++z) {
                const triple d = {size.x % 2 ? x - size.x / 2 : x, size.y % 2 ? y - size.y / 2 : y,
                                  size.z % 2 ? z - size.z / 2 : z};
                if (abs(d.x) + abs(d.y) + abs(d.z) < threshold) {
                    offsets.push_back(d);
                    places.insert(direction_place({sign(d.x), sign(d.y), sign(d.z)}));
                }
            }
        }
    }
    c.few = places.size() <= 10;
    c.sectors = !c.few && triple_equal(size, {3, 3, 3});
    for (const triple &d : offsets) {
        column own = {direction_place({sign(d.x), sign(d.y), sign(d.z)}), {}};
        for (size_t n = 0; n < 24 && c.sectors; ++n) {
            own.bits[23 - n] = part_has(sectors_in_order[n], {d.x, d.y, d.z});
        }
        if (!c.sectors) {
            own.bits.set((size_t)own.place);
        }
        if (!c.sectors && !c.few) { // the level, of five
            const int far = (size.z / 2 + 1) / 2;
            own.bits.set((size_t)(27 + 2 + sign(d.z) * (abs(d.z) > far ? 2 : 1)));
        }
        c.all.push_back(own);
    }
    return c;
}

// The place of a number in the reflected Gray code: a bit is set if the number has an odd number of
// bits from it upwards.
static uint32_t gray_place(const number &of) {
    uint32_t place = 0;
    bool odd = false;
    for (size_t bit = of.size(); bit-- > 0;) {
        odd ^= of[bit];
        place = 2 * place + odd;
    }
    return place;
}

// The rows in the order of order.h: class by class; then runs of 1024 are sorted. A class
// begins at each place of the table, or at each place if there are few directions.
static std::vector<int32_t> order_expected(const kernel_shape *kernel, const int32_t *map,
                                           int32_t count, int threshold) {
    const order_columns_of_map columns = columns_of(kernel, threshold);
    const uint32_t *table = columns.sectors ? order_table_sectors() : order_table_directions();
    std::vector<number> has((size_t)count);
    for (size_t i = 0; i < (size_t)count * columns.all.size(); ++i) {
        const column &own = columns.all[i % columns.all.size()];
        has[i / columns.all.size()] |= map[i] >= 0 ? own.bits : number();
    }
    std::vector<std::pair<long, int32_t>> classes;
    for (int32_t i = 0; i < count; ++i) {
        const uint32_t place = gray_place(has[(size_t)i]);
        const long before =
            std::count_if(table + 1, table + 1024, [=](uint32_t begin) { return begin <= place; });
        classes.push_back({columns.few ? (long)place : before, i});
    }
    std::sort(classes.begin(), classes.end());
    std::vector<int32_t> order;
    for (const std::pair<long, int32_t> &c : classes) {
        order.push_back(c.second);
    }
    for (size_t first = 0; first < order.size(); first += 1024) {
        std::sort(order.begin() + (long)first,
                  order.begin() + (long)std::min(first + 1024, order.size()),
                  [&](int32_t a, int32_t b) {
                      const number &x = has[(size_t)a], &y = has[(size_t)b];
                      return gray_before(x, y) || (!gray_before(y, x) && a < b);
                  });
    }
    return order;
}

// Counts the faults of a row group: one for each wrong entry, one for each offset that it lacks and
// whose sources are written.
static int64_t group_faults(const int32_t *map, const std::vector<int32_t> &order,
                            const order_layout *t, int64_t group) {
    const int64_t volume = t->volume, words = (volume + 31) / 32;
    std::vector<uint32_t> mask((size_t)words, 0);
    std::vector<int32_t> row(64, -1);
    int64_t faults = 0;
    for (size_t p = 0; p < 64; ++p) {
        row[p] = (size_t)group * 64 + p < order.size() ? order[(size_t)group * 64 + p] : -1;
        faults += t->row[group * 64 + (int64_t)p] != row[p];
    }
    for (int64_t k = 0; k < volume; ++k) {
        std::vector<int32_t> taps;
        for (int32_t r : row) {
            taps.push_back(r < 0 ? -1 : map[r * volume + k]);
        }
        const int64_t at = (group * volume + k) * 64;
        if (*std::max_element(taps.begin(), taps.end()) < 0) {
            faults += !guarded_untouched(t->source, at, at + 64);
            continue;
        }
        mask[(size_t)k / 32] |= 1u << k % 32;
        for (size_t p = 0; p < 64; ++p) {
            faults += t->source[at + (int64_t)p] != taps[p];
        }
    }
    for (int64_t w = 0; w < words; ++w) {
        faults += t->mask[group * words + w] != mask[(size_t)w];
    }
    return faults;
}

// The group pairs that have outputs: heavier ones first, then the lower number, in scopes of 4096;
// nothing is written past them. Each direction all of whose bits, but that of its level, are in the
// pair's numbers weighs its share of the columns, or half of it where the numbers lack a level of
// its side of the kernel.
static int64_t schedule_faults(const kernel_shape *kernel, int threshold, int32_t count,
                               const order_layout *t) {
    const std::vector<column> columns = columns_of(kernel, threshold).all;
    const int64_t words = (t->volume + 31) / 32, many = (t->groups + 1) / 2;
    const number sides[2] = {3u << 27, 3u << 30}; // two levels each
    number levels;                                // of all columns
    for (const column &c : columns) {
        levels |= c.bits & (sides[0] | sides[1]);
    }
    std::vector<std::pair<int64_t, int32_t>> wanted;
    for (int32_t pair = 0; pair < (count + 127) / 128; ++pair) {
        number all; // of the pair's outputs together
        for (size_t k = 0; k < columns.size(); ++k) {
            for (int64_t g = 2 * pair; g < std::min(2 * pair + 2, t->groups); ++g) {
                const bool has = t->mask[g * words + (int)k / 32] >> k % 32 & 1;
                all |= has ? columns[k].bits : number();
            }
        }
        std::map<int, int64_t> lie; // columns of the directions that weigh
        std::set<int> halved;
        for (const column &c : columns) {
            lie[c.place] += (c.bits & ~all & number((1u << 27) - 1)).none(); // without levels
            for (const number &side : sides) {
                if ((c.bits & side).any() && (levels & side & ~all).any()) {
                    halved.insert(c.place);
                }
            }
        }
        int64_t weight = 0;
        for (const auto &d : lie) {
            const int64_t share = 254 * d.second / (int64_t)columns.size();
            weight += halved.count(d.first) ? share / 2 : share;
        }
        wanted.push_back({-weight, pair});
    }
    int64_t faults = !guarded_untouched(t->schedule, (int64_t)wanted.size(), many);
    for (size_t first = 0; first < wanted.size(); first += 4096) {
        std::sort(wanted.begin() + (long)first,
                  wanted.begin() + (long)std::min(first + 4096, wanted.size()));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
        faults += t->schedule[i] != wanted[i].second;
    }
    return faults;
}

static int64_t layout_faults(const kernel_shape *kernel, const int32_t *map, int32_t count,
                             const order_layout *t, int threshold = map_all) {
    const std::vector<int32_t> order = order_expected(kernel, map, count, threshold);
    int64_t faults = schedule_faults(kernel, threshold, count, t);
    for (int64_t group = 0; group < t->groups; ++group) {
        faults += group_faults(map, order, t, group);
    }
    return faults;
}

// The rows that a dense product multiplies: 64 for each offset of each row group.
static int64_t layout_multiplied(const order_layout *t) {
    int64_t rows = 0;
    for (int64_t w = 0; w < (int64_t)t->groups * order_words(t->volume); ++w) {
        for (uint32_t bits = t->mask[w]; bits; bits &= bits - 1) {
            rows += order_rows;
        }
    }
    return rows;
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

// ---- directions, sectors and keys ---------------------------------------------------------------

TEST(order_numbers_the_directions) {
    const order_numbers n = order_numbers_make();
    const kernel_shape three = kernel_cube(3, 1), two = kernel_cube(2, 1), five = kernel_cube(5, 1);
    const int offsets[][2] = {{13, 0},  {4, 1},  {10, 2},  {12, 3}, {14, 4}, {16, 5},
                              {22, 6},  {1, 7},  {3, 8},   {5, 9},  {7, 10}, {9, 11},
                              {25, 18}, {0, 19}, {18, 23}, {26, 26}};
    for (const int(&offset)[2] : offsets) {
        CHECK_EQUAL(order_direction(&three, &n, offset[0]), offset[1]);
    }
    CHECK_EQUAL(order_direction(&two, &n, 0), 0);
    CHECK_EQUAL(order_direction(&two, &n, 1), 4);  // (0, 0, 1)
    CHECK_EQUAL(order_direction(&two, &n, 7), 26); // (1, 1, 1)
    CHECK_EQUAL(order_direction(&five, &n, 12), 1);
    CHECK_EQUAL(order_direction(&five, &n, 37), 1); // (-2, 0, 0) and (-1, 0, 0)
    for (int x = 1; x <= kernel_size_max; ++x) {
        for (triple size : {triple{x, 16 - x, 3}, triple{2, x, x}, triple{x, 1, 4}}) {
            kernel_shape k = kernel_sized(size.x, size.y, size.z);
            const std::vector<column> all = columns_of(&k).all;
            for (size_t i = 0; i < all.size(); ++i) {
                CHECK_EQUAL(order_direction(&k, &n, (int)i), all[i].place);
            }
        }
    }
}

TEST(order_keys_are_ranks_of_the_gray_code) {
    for (uint32_t i = 0; i < 100000; ++i) {
        CHECK_EQUAL(order_gray_rank(i ^ i >> 1), i);
    }
    random_state r = random_make(1);
    for (int i = 0; i < 3000; ++i) {
        uint32_t a = random_u32(&r) >> 5, b = i % 2 ? random_u32(&r) >> 5 : a ^ 1u << i % 27;
        CHECK_EQUAL(order_gray_rank(a) < order_gray_rank(b), gray_before(a, b));
        CHECK(order_gray_rank(a) < 1u << 27);
    }
    CHECK_EQUAL(order_gray_rank(1u << 26), (1u << 27) - 1);
    CHECK_EQUAL(order_gray_number((1u << 27) - 1), 1u << 26);
}

// By their definition. No two offsets are in the same sectors.
TEST(order_sectors_are_parts_of_the_kernel) {
    const kernel_shape three = kernel_cube(3, 1);
    const std::vector<column> columns = columns_of(&three).all;
    const order_numbers numbers = order_numbers_make();
    const order_weights weights = order_weights_make(&three, map_all);
    std::set<uint32_t> different;
    uint32_t directions = 0, united = 0;
    REQUIRE(columns.size() == 27);
    for (int k = 0; k < 27; ++k) {
        const int direction = order_direction(&three, &numbers, k);
        const uint32_t sectors = order_bits_of(weights, direction);
        directions |= 1u << direction;
        united |= sectors;
        CHECK_EQUAL(order_sectors_of(directions), united);
        CHECK_EQUAL(sectors, (uint32_t)columns[(size_t)k].bits.to_ulong());
        different.insert(sectors);
    }
    CHECK_EQUAL((int)different.size(), 27);
    for (triple size : {triple{1, 3, 3}, triple{2, 3, 3}, triple{3, 4, 3}, triple{3, 3, 1},
                        triple{2, 2, 2}, triple{1, 1, 1}, triple{5, 5, 5}, triple{3, 3, 5}}) {
        const kernel_shape kernel = kernel_sized(size.x, size.y, size.z);
        const order_weights w = order_weights_make(&kernel, map_all);
        const bool few = columns_of(&kernel).few;
        CHECK_EQUAL(w.keys, few ? order_by_few : order_by_directions);
        for (int d = 0; d < 27; ++d) { // few: its place among those of the map
            const uint32_t lower = few ? w.directions & ((1u << d) - 1) : (1u << d) - 1;
            CHECK_EQUAL(order_bits_of(w, d), 1u << count_bits(lower));
        }
    }
    CHECK_EQUAL(order_weights_make(&three, 3).keys, order_by_sectors); // 19 directions
    CHECK_EQUAL(order_weights_make(&three, 2).keys, order_by_few);     // 7
}

// The sum fits a byte. Up to size 3 all offsets weigh the same.
TEST(order_weights_are_shares) {
    for (int size = 1; size <= kernel_size_max; ++size) {
        const kernel_shape kernel = kernel_cube(size, 1);
        for (int threshold : {1, 2, 3, 5, (int)map_all}) {
            const std::vector<column> all_of = columns_of(&kernel, threshold).all;
            const order_weights w = order_weights_make(&kernel, threshold);
            int all = 0;
            for (int d = 0; d < 27; ++d) {
                const int lie = (int)std::count_if(all_of.begin(), all_of.end(),
                                                   [=](const column &c) { return c.place == d; });
                CHECK_EQUAL((int)w.weight[d], 254 * lie / (int)all_of.size());
                CHECK(size > 3 || lie <= 1);
                CHECK_EQUAL((int)(w.directions >> d & 1), (int)(lie > 0));
                all += w.weight[d];
            }
            CHECK(all <= 254 && all > 254 - 27);
        }
    }
    const kernel_shape three = kernel_cube(3, 1), five = kernel_cube(5, 1);
    for (int d = 0; d < 27; ++d) {
        CHECK_EQUAL((int)order_weights_make(&three, map_all).weight[d], 9);
    }
    CHECK_EQUAL((int)order_weights_make(&five, map_all).weight[1], 4);   // 2 of 125
    CHECK_EQUAL((int)order_weights_make(&five, map_all).weight[26], 16); // 8 of 125
}

// ---- what is built ------------------------------------------------------------------------------

static void check_build(random_state *r, const kernel_shape *kernel, int32_t count,
                        int32_t capacity, int percent, int threshold = map_all) {
    const int volume = (int)columns_of(kernel, threshold).all.size();
    int32_t *map = map_random(r, count, volume, percent); // no rows past the count
    order_layout t = layout_new(capacity, volume);
    CHECK_OK(build(kernel, map, count, capacity, t, threshold));
    CHECK_EQUAL(layout_faults(kernel, map, count, &t, threshold), 0);
    guarded_finish();
}

TEST(order_every_size) {
    random_state r = random_make(2);
    const kernel_shape kernels[] = {kernel_cube(1, 1),      kernel_cube(2, 1), kernel_cube(3, 1),
                                    kernel_sized(1, 3, 11), kernel_cube(4, 1), kernel_cube(5, 1),
                                    kernel_sized(2, 5, 3),  kernel_cube(7, 1)};
    int turn = 0;
    for (const kernel_shape &kernel : kernels) {
        for (int32_t count :
             {0,   1,   2,   3,    31,   32,   33,   62,   63,   64,   65,   127,
              128, 129, 500, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 6001}) {
            const int percents[] = {-1, 50, 5, 90, 20, 100, 0};
            for (int32_t spare : {0, 1, 64, 300}) {
                bool much = (int64_t)count * kernel_volume(&kernel) > (test_quick() ? 3000 : 60000);
                bool runs = count > 1000; // slow to compare
                if (count + spare > 0 && !(much && turn++ % (runs ? 16 : 4))) {
                    check_build(&r, &kernel, count, count + spare, percents[turn++ % 7]);
                }
            }
        }
    }
}

TEST(order_random_kernels) {
    for (int seed = 0; seed < (test_quick() ? 20 : 200); ++seed) {
        random_state r = random_make((uint64_t)seed);
        kernel_shape kernel = reference_random_kernel(&r, seed % 4 ? 4 : 9, 3, {1, 2, 1});
        kernel.transposed = seed % 3 == 0;
        int32_t count = random_int(&r, 0, seed % 4 ? 700 : 200);
        int32_t capacity = std::max(count + random_int(&r, 0, 1) * random_int(&r, 0, 300), 1);
        check_build(&r, &kernel, count, capacity, random_int(&r, -1, 100));
    }
}

// Maps with the columns of each threshold, one of which is above all norms.
TEST(order_every_threshold) {
    random_state r = random_make(7);
    int turn = 0;
    for (kernel_shape kernel :
         {kernel_cube(1, 1), kernel_cube(2, 1), kernel_cube(3, 1), kernel_cube(5, 1),
          kernel_sized(2, 5, 3), kernel_sized(1, 3, 11), kernel_sized(7, 1, 4)}) {
        for (int threshold = 1; threshold <= kernel_norm_max(&kernel) + 2; ++threshold) {
            for (int32_t count : {0, 1, 64, 65, 300}) {
                const int percents[] = {-1, 50, 5, 90};
                kernel.transposed = turn % 3 == 0;
                check_build(&r, &kernel, count, count + 1 + turn % 2 * 70, percents[turn % 4],
                            threshold);
                ++turn;
            }
        }
    }
}

TEST(order_largest_kernel) {
    random_state r = random_make(3);
    const kernel_shape kernel = kernel_cube(kernel_size_max, 1);
    for (int32_t count : {1, 64, 65, 100}) {
        check_build(&r, &kernel, count, count + 1, count == 65 ? 100 : count == 64 ? -1 : 1);
    }
}

// Maps of several runs: half of the rows have the same taps; most rows have few taps; all rows have
// the same; some rows have one of a few others.
TEST(order_classes) {
    random_state r = random_make(9);
    const kernel_shape kernel = kernel_cube(3, 1);
    for (int32_t count : {2049, 4097, 10000}) {
        for (int kind = 0; kind < 4; ++kind) {
            int32_t *map = guarded_new<int32_t>((int64_t)count * 27);
            for (int32_t i = 0; i < count; ++i) {
                for (int k = 0; k < 27; ++k) {
                    bool has = kind == 0   ? i % 2 || random_int(&r, 0, 5) == 0
                               : kind == 1 ? random_int(&r, 0, 2) <= (k == 22)
                               : kind == 2 ? k == 13
                                           : k > 9 || random_int(&r, 0, 300) == k;
                    map[i * 27 + k] = has ? i : -1;
                }
            }
            order_layout t = layout_new(count, 27);
            CHECK_OK(build(&kernel, map, count, count, t));
            CHECK_EQUAL(layout_faults(&kernel, map, count, &t), 0);
            guarded_finish();
        }
    }
}

TEST(order_tables_ascend) {
    for (const uint32_t *table : {order_table_sectors(), order_table_directions()}) {
        CHECK_EQUAL((uintptr_t)table % 16, 0u);
        for (int c = 2; c < order_classes; ++c) {
            CHECK(table[c - 1] > 0 && table[c - 1] < table[c]);
        }
    }
}

// Five outputs and their order, by hand.
TEST(order_by_hand) {
    const kernel_shape kernel = kernel_cube(3, 1);
    int32_t *map = guarded_new<int32_t>(5 * 27);
    std::fill(map, map + 5 * 27, -1);
    map[0 * 27 + 13] = 10, map[0 * 27 + 4] = 11;  // centre and a face: the sectors of the face
    map[1 * 27 + 13] = 20;                        // centre: no sector, rank 0
    map[2 * 27 + 4] = 31;                         // that face: as output 0
    map[3 * 27 + 13] = 40;                        // as output 1
    map[4 * 27 + 13] = 50, map[4 * 27 + 26] = 51; // the last corner: a side of z, after those of x
    order_layout t = layout_new(5, 27);
    REQUIRE_OK(build(&kernel, map, 5, 5, t));
    const int32_t row[] = {1, 3, 0, 2, 4, -1}, centre[] = {20, 40, 10, -1, 50, -1},
                  face[] = {-1, -1, 11, 31, -1, -1}, corner[] = {-1, -1, -1, -1, 51, -1};
    CHECK_EQUAL(t.mask[0], 1u << 4 | 1u << 13 | 1u << 26);
    for (int p = 0; p < 64; ++p) {
        int at = p < 5 ? p : 5;
        CHECK_EQUAL(t.row[p], row[at]);
        CHECK_EQUAL(t.source[13 * 64 + p], centre[at]);
        CHECK_EQUAL(t.source[4 * 64 + p], face[at]);
        CHECK_EQUAL(t.source[26 * 64 + p], corner[at]);
    }
    CHECK(guarded_untouched(t.source, 5 * 64, 13 * 64));
}

// Row groups past the capacity are untouched.
TEST(order_leaves_other_groups_alone) {
    random_state r = random_make(5);
    const kernel_shape kernel = kernel_cube(3, 1);
    int32_t *map = map_random(&r, 200, 27, 50);
    order_layout more = layout_new(1000, 27), same = more;
    same.groups = order_count(260);
    REQUIRE_OK(build(&kernel, map, 200, 260, more));
    CHECK_EQUAL(layout_faults(&kernel, map, 200, &same), 0);
    CHECK(guarded_untouched(more.row, same.groups * 64, more.groups * 64));
    CHECK(guarded_untouched(more.mask, same.groups, more.groups));
    CHECK(guarded_untouched(more.source, same.groups * 27 * 64, more.groups * 27 * 64));
}

// The purpose of the order: few rows are multiplied for each pair, at most `most`, and at least
// `fewest` times fewer than in the order of the voxels.
static void check_scan(const char *name, int size, double most, double fewest) {
    word_layout layout;
    std::vector<uint32_t> words = reference_scan<uint32_t>(name, 16, &layout);
    REQUIRE(!words.empty());
    const kernel_shape kernel = kernel_cube(size, 1);
    const int volume = kernel_volume(&kernel);
    int32_t count = (int32_t)words.size();
    voxel_set<uint32_t> set = {words.data(), &count, count};
    std::vector<int32_t> map((size_t)count * (size_t)volume);
    REQUIRE_OK(map_build_host(&layout, &kernel, set, set, map.data()));
    order_layout t = layout_new(count, volume);
    REQUIRE_OK(build(&kernel, map.data(), count, count, t));
    int64_t pairs = 0, plain = 0;
    for (int32_t first = 0; first < count; first += order_rows) {
        std::vector<char> has((size_t)volume, 0);
        for (int32_t i = first; i < std::min(first + order_rows, count); ++i) {
            for (int k = 0; k < volume; ++k) {
                bool there = map[(size_t)i * (size_t)volume + (size_t)k] >= 0;
                pairs += there;
                has[(size_t)k] |= there;
            }
        }
        plain += order_rows * std::count(has.begin(), has.end(), 1);
    }
    int64_t multiplied = layout_multiplied(&t);
    CHECK(multiplied >= pairs && (double)multiplied < most * (double)pairs);
    CHECK((double)plain > fewest * (double)multiplied);
    if (size == 3) {
        CHECK_EQUAL(layout_faults(&kernel, map.data(), count, &t), 0);
    }
    guarded_finish();
}

TEST(order_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "pcl_room_scan1_2cm.vox32", "lone_star_5cm.vox32");
    check_scan("kitti00_000000_5cm.vox32", 3, 1.56, 2.5);
    if (!test_quick()) {
        check_scan("kitti00_000000_5cm.vox32", 5, 4.2, 2);
        check_scan("pcl_room_scan1_2cm.vox32", 3, 1.7, 2.5);
        check_scan("lone_star_5cm.vox32", 3, 1.56, 2);
    }
}

// ---- sizes --------------------------------------------------------------------------------------

TEST(order_counts) {
    for (int32_t capacity : {1, 63, 64, 65, 127, 128, 129, 1000, INT32_MAX / 2}) {
        int64_t groups = order_count(capacity);
        CHECK(groups * 64 >= capacity && (groups - 1) * 64 < capacity);
    }
    for (int volume : {1, 31, 32, 33, 64, 65, 3375}) {
        CHECK_EQUAL(order_words(volume), volume / 32 + (volume % 32 != 0));
    }
}

// The arrays do not overlap, are aligned, and have the sizes of order.h; counting agrees.
// Also beyond 2^31 entries.
TEST(order_takes_what_it_states) {
    for (int volume : {1, 8, 27, 33, 3375}) {
        for (int32_t capacity : {1, 64, 65, 5000, 20000000}) {
            const int64_t groups = (capacity + 63) / 64;
            workspace count = workspace_begin(nullptr), w = workspace_begin((void *)(size_t)4096);
            order_layout none = order_layout_take(&count, capacity, volume);
            order_layout t = order_layout_take(&w, capacity, volume);
            CHECK(!none.row && !none.mask && !none.source && !none.schedule);
            CHECK_EQUAL(count.used, w.used);
            CHECK(t.groups == groups && t.volume == volume);
            CHECK_EQUAL((char *)t.mask - (char *)t.row, round_up(groups * 64 * 4, 256));
            CHECK_EQUAL((char *)t.source - (char *)t.mask,
                        round_up(groups * ((volume + 31) / 32) * 4, 256));
            const int64_t entries = (char *)t.schedule - (char *)t.source;
            CHECK_EQUAL(entries, round_up(groups * volume * 64 * 4, workspace_alignment));
            CHECK_EQUAL((int64_t)w.used - ((char *)t.schedule - (char *)t.row),
                        round_up((groups + 1) / 2 * 4, workspace_alignment));
        }
    }
    size_t bytes = 0;
    CHECK_OK(order_host_workspace(1000, &bytes));
    CHECK(bytes >= 12000 && bytes <= 12000 + 512);
}

// ---- planted errors -----------------------------------------------------------------------------

TEST(order_planted_errors_are_found) {
    random_state r = random_make(6);
    const int32_t count = 100;
    const kernel_shape kernel = kernel_cube(3, 1);
    int32_t *map = map_random(&r, count, 27, 40);
    for (int32_t i = 0; i < count; ++i) {
        map[i * 27 + 20] = -1; // an offset that nobody has
    }
    order_layout t = layout_new(200, 27);
    REQUIRE_OK(build(&kernel, map, count, 200, t));
    REQUIRE(layout_faults(&kernel, map, count, &t) == 0);
    for (int64_t at : {0, 63, 64, 99, 100, 127, 128, 255}) {
        t.row[at] ^= 1;
        CHECK_EQUAL(layout_faults(&kernel, map, count, &t), 1);
        t.row[at] ^= 1;
    }
    for (int64_t group = 0; group < 4; ++group) {
        t.mask[group] ^= 1u << 20;
        CHECK_EQUAL(layout_faults(&kernel, map, count, &t), 1);
        t.mask[group] ^= 1u << 20;
    }
    for (int64_t at : {0, 63, 26 * 64, 20 * 64 + 5, 27 * 64, (4 * 27 - 1) * 64}) {
        if (test_environment("SPIRA_UNPOISONED") && (at == 20 * 64 + 5 || at > 54 * 64)) {
            continue;
        }
        t.source[at] ^= 1;
        CHECK_EQUAL(layout_faults(&kernel, map, count, &t), 1);
        t.source[at] ^= 1;
    }
    CHECK_EQUAL(layout_faults(&kernel, map, count, &t), 0);
    std::swap(t.row[3], t.row[4]); // another order
    CHECK_EQUAL(layout_faults(&kernel, map, count, &t), 2);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(order_refuses) {
    int32_t count = 10;
    int32_t *map = guarded_new<int32_t>(count * 27);
    std::fill(map, map + count * 27, -1);
    size_t bytes = 0;
    REQUIRE_OK(order_host_workspace(64, &bytes));
    CHECK_STATUS(order_host_workspace(64, nullptr), status_null_pointer);
    CHECK_STATUS(order_host_workspace(0, &bytes), status_bad_size);
    char *scratch = guarded_new<char>((int64_t)bytes);
    order_request good = {};
    good.kernel = kernel_cube(3, 1);
    good.map = map;
    good.count = &count;
    good.capacity = 64;
    good.layout = layout_new(count, 27);
    auto refused = [&](status_code code, const char *subject, auto spoil) {
        order_request bad = good;
        spoil(&bad);
        const status got = order_build_host(&bad, scratch, bytes);
        CHECK_STATUS(got, code);
        CHECK_EQUAL(got.subject, subject);
        return got.detail;
    };
    auto shifted = [](auto *p, int by) { return (decltype(p))((char *)p + by); };
    typedef order_request *request;
    const status_code null = status_null_pointer, odd = status_alignment, size = status_bad_size;
    refused(null, "map", [](request r) { r->map = nullptr; });
    refused(null, "count", [](request r) { r->count = nullptr; });
    refused(null, "layout", [](request r) { r->layout.row = nullptr; });
    refused(null, "layout", [](request r) { r->layout.mask = nullptr; });
    refused(null, "layout", [](request r) { r->layout.source = nullptr; });
    refused(null, "layout", [](request r) { r->layout.schedule = nullptr; });
    refused(odd, "map", [=](request r) { r->map = shifted(r->map, 2); });
    refused(odd, "count", [=](request r) { r->count = shifted(r->count, 2); });
    refused(odd, "layout", [=](request r) { r->layout.row = shifted(r->layout.row, 1); });
    refused(odd, "layout", [=](request r) { r->layout.mask = shifted(r->layout.mask, 1); });
    refused(odd, "layout", [=](request r) { r->layout.source = shifted(r->layout.source, 1); });
    refused(odd, "layout", [=](request r) { r->layout.schedule = shifted(r->layout.schedule, 2); });
    refused(status_unsupported, "compact (on the host)", [=](request r) { r->compact = r->map; });
    for (int edge : {-1, 0, 16}) {
        refused(status_kernel_size, "kernel.size", [=](request r) { r->kernel.size.y = edge; });
    }
    for (int volume : {-1, 0, 8, 26, 28, 3376}) {
        refused(size, "layout.volume", [=](request r) { r->layout.volume = volume; });
    }
    refused(size, "layout.volume", [](request r) { r->kernel = kernel_cube(2, 1); });
    refused(size, "layout.volume", [](request r) { r->threshold = 3; }); // it has all 27
    refused(size, "threshold", [](request r) { r->threshold = -1; });
    const char *groups = "layout.groups (fewer than the capacity has)";
    CHECK_EQUAL(refused(size, groups, [](request r) { r->capacity = 65; }), 1);
    for (int32_t capacity : {0, -1, INT32_MAX}) {
        refused(size, "capacity", [=](request r) { r->capacity = capacity; });
    }
    CHECK_STATUS(order_build_host(nullptr, scratch, bytes), status_null_pointer);
    CHECK_STATUS(order_layout_check(nullptr, 27, count), status_null_pointer);
    CHECK_STATUS(order_build_host(&good, nullptr, bytes), status_null_pointer);
    CHECK_STATUS(order_build_host(&good, scratch, bytes - 1), status_workspace);
    CHECK_STATUS(order_build_host(&good, scratch + 8, bytes), status_alignment);
    CHECK(guarded_untouched(good.layout.row, 0, 64) && guarded_untouched(good.layout.mask, 0, 1));
    CHECK(guarded_untouched(good.layout.source, 0, 64 * 27));
    CHECK_OK(order_build_host(&good, scratch, bytes));
}

// As on the GPU: more rows than the capacity are cut off, fewer than none are none.
TEST(order_clamps_the_count) {
    random_state r = random_make(22);
    const kernel_shape kernel = kernel_cube(3, 1);
    int32_t *map = map_random(&r, 70, 27, 30);
    for (int32_t count : {71, INT32_MAX, -1}) {
        order_layout t = layout_new(70, 27);
        REQUIRE_OK(build(&kernel, map, count, 70, t));
        CHECK_EQUAL(layout_faults(&kernel, map, count < 0 ? 0 : 70, &t), 0);
    }
}
