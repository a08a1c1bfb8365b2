// tests/host/sort_apart.cpp: buckets of the sort (index/sort_bucket.cuh) whose words are too far
// apart to be packed with their rows, run on the host (emulate_hopper.h), against a stable sort.
#include "../support/test.h"

#include "../support/emulate_sort.h"

#include <algorithm>
#include <vector>

using namespace spira;

namespace {

enum { far_bits = 63 };

// Sorts words by two buckets, the second from place `half` of the order on. row: bits of a row.
// Returns whether the result is that of a stable sort.
template <int threads = sort_bucket_threads>
bool sorts(random_state *r, const std::vector<uint64_t> &words, int32_t half, int bits = far_bits,
           int row = 20) {
    const int32_t rows = (int32_t)words.size(), blocks = (int32_t)ceil_div(rows, sort_threads);
    const std::vector<int32_t> wanted = sort_wanted(words);
    std::vector<int32_t> place((size_t)rows);
    for (int32_t i = 0; i < rows; ++i) {
        place[(size_t)wanted[(size_t)i]] = i;
    }
    sort_shape shape = {};
    shape.rows = rows;
    shape.each = 1;
    shape.blocks = blocks;
    shape.buckets = 2;
    std::vector<uint32_t> table((size_t)(2 * blocks));
    std::vector<sort_key<uint64_t>> key((size_t)rows);
    const uint64_t split_word[2] = {0, words[(size_t)wanted[(size_t)half]]};
    for (int32_t k = 0; k < blocks; ++k) {
        std::vector<int32_t> own;
        for (int32_t i = k * sort_threads; i < min_of(rows, (k + 1) * sort_threads); ++i) {
            own.push_back(i);
        }
        for (size_t i = own.size(); i > 1; --i) { // in any order within a bucket
            std::swap(own[i - 1], own[(size_t)random_int(r, 0, (int)i - 1)]);
        }
        const auto second = std::stable_partition(
            own.begin(), own.end(), [&](int32_t row) { return place[(size_t)row] < half; });
        const uint32_t first = (uint32_t)(second - own.begin());
        table[(size_t)k] = first;
        table[(size_t)(blocks + k)] = first << 16 | (uint32_t)(own.size() - first);
        for (size_t i = 0; i < own.size(); ++i) {
            const int32_t row = own[i];
            key[(size_t)(k * sort_threads) + i] = {words[(size_t)row], (uint64_t)row};
        }
    }
    std::vector<uint64_t> sorted((size_t)rows + 1, sort_untouched);
    std::vector<int32_t> order((size_t)rows + 1, sort_untouched);
    CHECK_OK(kernel_launch(sort_buckets_choose<uint64_t, threads>(bits, row), 2u, threads, 0, false,
                           1, nullptr, "sort", shape, table.data(), split_word, key.data(),
                           (uint64_t)1 << bits, row, sorted.data(), order.data()));
    return sort_is(words, wanted, sorted, order);
}

// Words over the whole range, in clusters of up to `near` words that share their upper bits; every
// `same`-th word repeats one before it.
std::vector<uint64_t> words_far_apart(random_state *r, int32_t rows, int near, int same) {
    std::vector<uint64_t> words = {1};
    while ((int32_t)words.size() < rows) {
        const uint64_t base = ((uint64_t)random_int(r, 0, INT32_MAX - 1) << 31) + 17;
        for (int n = random_int(r, 1, near); n > 0 && (int32_t)words.size() < rows; --n) {
            words.push_back(base + (uint64_t)random_int(r, 0, 3));
        }
        if (random_int(r, 1, same) == same) {
            words.back() = words[(size_t)random_int(r, 0, (int)words.size() - 1)];
        }
    }
    words.resize((size_t)rows);
    for (size_t i = words.size(); i > 1; --i) {
        std::swap(words[i - 1], words[(size_t)random_int(r, 0, (int)i - 1)]);
    }
    return words;
}

} // namespace

// Around the edges of groups of keys and of what a thread sorts in registers; clusters that are
// ordered one by one, and clusters that are too long for it.
TEST(sort_apart) {
    random_state r = random_make(5);
    for (int32_t rows : {1, 2, 31, 33, 64, 257, 1024, 1500, 2048, 2300}) {
        for (int near : {1, 4, 9, 40}) {
            emulate::seed = (uint64_t)(rows + near);
            std::vector<uint64_t> words = words_far_apart(&r, rows, near, 3);
            CHECK(sorts(&r, words, rows / 3));
            for (int32_t i = 0; i < rows; i += rows / 7 + 1) {
                words[(size_t)i] = word_none<uint64_t>();
            }
            CHECK(sorts(&r, words, rows / 2));
        }
    }
}

// Buckets of 8, 16 and more keys a thread, for either kernel.
TEST(sort_apart_full_buckets) {
    random_state r = random_make(6);
    for (int32_t rows : {1023, 1024, 1025, 2047, 2048, 2049}) {
        for (int near : {1, 40}) {
            CHECK(sorts(&r, words_far_apart(&r, rows + 1, near, 9), 1));
            CHECK(sorts<sort_crowded_threads>(&r, words_far_apart(&r, 2 * rows + 1, near, 9), 1));
        }
    }
}

// Up to `most` rows of each word, all of whose bits are random: distances whose lower bits the keys
// have no room for.
std::vector<uint64_t> words_scattered(random_state *r, int32_t rows, int most, int bits) {
    std::vector<uint64_t> words;
    while ((int32_t)words.size() < rows) {
        const uint64_t word = random_u64(r) >> (64 - bits) >> (random_int(r, 0, 4) ? 0 : bits / 2);
        const int32_t more = min_of(random_int(r, 1, most), rows - (int32_t)words.size());
        words.insert(words.end(), (size_t)more, word);
    }
    for (size_t i = words.size(); i > 1; --i) {
        std::swap(words[i - 1], words[(size_t)random_int(r, 0, (int)i - 1)]);
    }
    return words;
}

// Voxels of many rows. A fifth lie in the lowest part of the range, close to each other.
TEST(sort_scattered_rows) {
    random_state r = random_make(7);
    for (int bits : {44, 45, 55, 62, 63}) {
        for (int most : {1, 2, 4, 5, 6, 90}) {
            emulate::seed = (uint64_t)(bits + most);
            CHECK(sorts(&r, words_scattered(&r, 700, most, bits), 1, bits));
            CHECK(sorts(&r, words_scattered(&r, 1300, most, bits), 60, bits));
        }
    }
}

// A bucket of words close to each other beside one of words far apart: its distances have `near`
// bits, around the edge of what fits 32 bits beside rows and beside the numbers of runs.
TEST(sort_apart_with_a_close_bucket) {
    random_state r = random_make(10);
    for (int near : {0, 20, 31, 38, 40, 41, 42, 43, 44}) {
        for (int most : {1, 3, 90}) {
            emulate::seed = (uint64_t)(near + most);
            std::vector<uint64_t> words = words_scattered(&r, 700, most, 55);
            for (size_t i = 0; i < words.size(); i += 1 + (i % 3 == 0)) {
                words[i] = words[i] >> (55 - near);
            }
            words[0] = (uint64_t)1 << near; // begins the second bucket
            const std::vector<int32_t> wanted = sort_wanted(words);
            int32_t half = 1;
            while (half + 1 < 700 && words[(size_t)wanted[(size_t)half]] >> near == 0) {
                ++half;
            }
            CHECK(sorts(&r, words, half, 55, 12));
        }
    }
}

// Words and rows of 63 bits or more together: below, no distance has a bit more than fits.
TEST(sort_apart_is_chosen) {
    random_state r = random_make(8);
    CHECK(!sort_may_be_apart(43, 20) && sort_may_be_apart(44, 20) && sort_may_be_apart(64, 1));
    for (int row : {9, 12}) {
        for (int bits = 62 - row; bits <= 65 - row; ++bits) {
            std::vector<uint64_t> words = words_scattered(&r, 300, 3, bits);
            for (size_t i = 0; i < words.size(); i += 9) {
                words[i] = word_none<uint64_t>(); // as far from 0 as any
            }
            words[1] = 0;
            words[2] = ((uint64_t)1 << bits) - 2;
            CHECK(sorts(&r, words, 0, bits, row));
        }
    }
}

TEST(sort_apart_finds_planted_errors) {
    random_state r = random_make(9);
    const std::vector<uint64_t> words = words_scattered(&r, 300, 3, 62);
    CHECK(sorts(&r, words, 1, 62));
    CHECK(!sorts(&r, words, 1, 62, 7)); // places need more bits
    CHECK(!sorts(&r, words, 1, 48));    // above the highest word
}
