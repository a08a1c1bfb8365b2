// tests/host/sort_apart.cpp: buckets of the sort (index/sort_bucket.cuh) whose words are too far
// apart to be packed with their rows, run on the host (emulate_hopper.h), against a stable sort.
#include "../support/test.h"

#include "../support/emulate_sort.h"

#include <algorithm>
#include <vector>

using namespace spira;

namespace {

enum { far_bits = 63 };

// Sorts words by two buckets of two segments each, the second from place `half` of the order on.
// Returns whether the result is that of a stable sort.
bool sorts(random_state *r, const std::vector<uint64_t> &words, int32_t half) {
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
    CHECK_OK(kernel_launch(sort_buckets_kernel<uint64_t, sort_bucket_threads>, 2u,
                           sort_bucket_threads, 0, false, 1, nullptr, "sort", shape, table.data(),
                           split_word, key.data(), (uint64_t)1 << far_bits, 20, sorted.data(),
                           order.data()));
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

// Around the edges of groups of keys and of what a thread block sorts in registers; clusters that
// are ordered one by one, and clusters that are too long for it.
TEST(sort_apart) {
    random_state r = random_make(5);
    for (int32_t rows : {1, 2, 31, 33, 64, 257, 1024, 1500, 2048, 2300}) {
        for (int near : {1, 9, 40}) {
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
