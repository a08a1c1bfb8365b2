// tests/host/sort.cpp: the last step of the sort (index/sort_bucket.cuh), run on the host
// (emulate.h), against a stable sort: buckets with runs of equal words, long ones too.
#include "../support/test.h"

#include "../support/emulate_sort.h"

#include <algorithm>
#include <vector>

using namespace spira;

namespace {

// What split leaves: the keys of each segment, bucket by bucket, in any order within a bucket.
template <typename W>
struct split_rows {
    sort_shape shape;
    std::vector<int32_t> keys; // of each bucket
    std::vector<uint32_t> table;
    std::vector<W> split_word;
    std::vector<sort_key<W>> key;
};

// sorted: rows in the order that is wanted; first [buckets]: where the buckets begin in it.
template <typename W>
split_rows<W> split_make(random_state *r, const std::vector<W> &words,
                         const std::vector<int32_t> &sorted, const std::vector<int32_t> &first,
                         int32_t each) {
    split_rows<W> s = {};
    const int32_t rows = (int32_t)words.size(), segment = sort_threads * each;
    s.shape.rows = rows;
    s.shape.each = each;
    s.shape.blocks = (int32_t)ceil_div(rows, segment);
    s.shape.buckets = (int32_t)first.size();
    s.table.resize((size_t)(s.shape.blocks * s.shape.buckets));
    s.key.resize((size_t)rows);
    std::vector<int> bucket((size_t)rows);
    for (size_t b = 0; b < first.size(); ++b) {
        s.split_word.push_back(words[(size_t)sorted[(size_t)first[b]]]);
        const int32_t end = b + 1 < first.size() ? first[b + 1] : rows;
        s.keys.push_back(end - first[b]);
        for (int32_t i = first[b]; i < end; ++i) {
            bucket[(size_t)sorted[(size_t)i]] = (int)b;
        }
    }
    for (int32_t k = 0; k < s.shape.blocks; ++k) {
        std::vector<int32_t> own;
        for (int32_t row = k * segment; row < min_of(rows, (k + 1) * segment); ++row) {
            own.push_back(row);
        }
        for (size_t i = own.size(); i > 1; --i) {
            std::swap(own[i - 1], own[(size_t)random_int(r, 0, (int)i - 1)]);
        }
        std::stable_sort(own.begin(), own.end(), [&](int32_t a, int32_t b) {
            return bucket[(size_t)a] < bucket[(size_t)b];
        });
        int32_t at = 0;
        for (size_t b = 0; b < first.size(); ++b) {
            const int32_t start = at;
            for (; at < (int32_t)own.size() && bucket[(size_t)own[(size_t)at]] == (int)b; ++at) {
                const int32_t row = own[(size_t)at];
                s.key[(size_t)(k * segment + at)] = {words[(size_t)row], (W)row};
            }
            s.table[b * (size_t)s.shape.blocks + (size_t)k] =
                (uint32_t)start << 16 | (uint32_t)(at - start);
        }
    }
    return s;
}

// Sorts buckets that begin at the places `first`. Returns whether the result is that of a stable
// sort.
template <typename W, int threads>
bool sorts(random_state *r, const std::vector<W> &words, std::vector<int32_t> first, int bits,
           int32_t each) {
    const int32_t rows = (int32_t)words.size();
    const std::vector<int32_t> wanted = sort_wanted(words);
    split_rows<W> s = split_make(r, words, wanted, first, each);
    std::vector<W> sorted((size_t)rows + 1, (W)sort_untouched);
    std::vector<int32_t> order((size_t)rows + 1, sort_untouched);
    sort_steps<W> steps = {};
    steps.shape = s.shape;
    std::vector<char> memory((size_t)rows * 64 + (1 << 20), (char)0xa5);
    workspace w = workspace_begin((void *)round_up((int64_t)(uintptr_t)memory.data(), 256));
    sort_carve_overflow(&w, &steps.shape, &steps.overflow);
    std::fill_n(steps.overflow.memory, sort_overflow_words(steps.shape.buckets), 0);
    std::copy(s.keys.begin(), s.keys.end(), steps.overflow.keys);
    steps.table = s.table.data();
    steps.split_word = s.split_word.data();
    steps.key = s.key.data();
    sort_target<W> to = {};
    to.end = bits < (int)(8 * sizeof(W)) ? (W)((W)1 << bits) : word_none<W>();
    to.bits = bits;
    to.row = bits_for((uint64_t)rows - 1);
    to.sorted = sorted.data();
    to.order = order.data();
    CHECK_OK(kernel_launch(sort_buckets_kernel<W, threads>,
                           {(unsigned)s.shape.buckets, threads, nullptr, "sort"}, steps, to));
    return sort_is(words, wanted, sorted, order);
}

template <typename W>
void check_runs(int32_t rows, int run, W apart, int bits) {
    random_state r = random_make((uint64_t)rows * 31 + (uint64_t)run);
    emulate::seed = (uint64_t)rows;
    std::vector<int32_t> first = {0};
    if (rows > 600) { // a bucket of some hundred rows, too, in the middle of a run or not
        first.push_back(rows - 333);
    }
    const std::vector<W> words = words_in_runs<W>(&r, rows, run, apart, rows % 2 ? 5 : 0);
    CHECK((sorts<W, sort_bucket_threads>(&r, words, first, bits, 1 + rows % 3)));
}

} // namespace

// Runs shorter and longer than a warp, all rows of one word, around the edges of groups of 32 keys
// and of what a thread block sorts in registers.
TEST(sort_buckets_with_runs) {
    for (int32_t rows : {1, 2, 31, 32, 33, 64, 127, 129, 257, 400, 1024, 1025, 2048, 2381}) {
        for (int run : {1, 2, 9, 40, 700, 4000}) {
            if (rows < 1000 || run == 1 || run == 40 || run == 4000) {
                check_runs<uint32_t>(rows, run, 977, 30);
                check_runs<uint64_t>(rows, run, 977, 45);
            }
        }
    }
}

// Words whose lower bits are kept beside the row: runs of keys with equal upper bits that differ.
TEST(sort_buckets_of_wide_ranges) {
    for (int32_t rows : {33, 257, 700}) {
        check_runs<uint32_t>(rows, 40, 3, 31);
        random_state r = random_make((uint64_t)rows);
        std::vector<uint32_t> words = words_in_runs<uint32_t>(&r, rows, 9, 1, 0);
        words[7] = 0x7ffffff0u; // all others share their upper bits
        CHECK((sorts<uint32_t, sort_bucket_threads>(&r, words, {0}, 31, 1)));
        CHECK((sorts<uint32_t, sort_crowded_threads>(&r, words, {0, rows / 2}, 31, 4)));
        std::vector<uint64_t> wide = words_in_runs<uint64_t>(&r, rows, 40, 1, 5);
        wide[3] = (uint64_t)1 << 40; // too wide for 32 bits
        CHECK((sorts<uint64_t, sort_bucket_threads>(&r, wide, {0}, 45, 1)));
        // The lower bits of the distances fit beside the rows, but not beside the runs.
        wide = words_in_runs<uint64_t>(&r, rows, 40, (uint64_t)1 << 34, 0);
        CHECK((sorts<uint64_t, sort_bucket_threads>(&r, wide, {0}, 42, 1)));
    }
}

TEST(sort_buckets_find_planted_errors) {
    random_state r = random_make(9);
    std::vector<uint32_t> words = words_in_runs<uint32_t>(&r, 300, 50, 977, 0);
    CHECK((sorts<uint32_t, sort_bucket_threads>(&r, words, {0}, 30, 1)));
    CHECK(!(sorts<uint32_t, sort_bucket_threads>(&r, words, {0}, 8, 1))); // above the highest word
}
