// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/sort.cpp: the sort (index/sort.cuh), run on the host (emulate_hopper.h), against a
// stable sort: the points of a real scan, where thousands share a word, and generated words in long
// runs; in buckets as the sort has them, and in few large ones.
#include "../support/test.h"

#include "../support/emulate_sort.h"

#include "../../spira/word.h"
#include "../support/detector_scan.h"

#include <algorithm>
#include <vector>

using namespace spira;

namespace {

// What the steps leave, in memory that is exactly as large as was asked for, and is not clean.
template <typename W>
struct steps {
    sort_scratch<W> scratch;
    std::vector<char> memory;
    char *base;
    size_t bytes;
    std::vector<W> sorted;
    std::vector<int32_t> order;
};

template <typename W>
steps<W> steps_make(int32_t rows) {
    steps<W> s = {};
    workspace w = workspace_begin(nullptr);
    sort_carve(&w, rows, &s.scratch);
    s.bytes = w.used;
    s.memory.assign(s.bytes + 2 * workspace_alignment, (char)0xa5);
    s.base = (char *)round_up((int64_t)(uintptr_t)s.memory.data(), workspace_alignment);
    w = workspace_begin(s.base);
    sort_carve(&w, rows, &s.scratch);
    s.sorted.assign((size_t)rows + 1, (W)sort_untouched);
    s.order.assign((size_t)rows + 1, sort_untouched);
    CHECK(sort_split_bytes<W>(&s.scratch.steps.shape) <= sizeof sort_shared);
    return s;
}

template <typename W>
steps<W> steps_run(const std::vector<W> &words, int bits) {
    steps<W> s = steps_make<W>((int32_t)words.size());
    CHECK_OK(sort_source(sort_array<W>{words.data()}, bits, s.sorted.data(), s.order.data(),
                         &s.scratch, nullptr));
    CHECK_EQUAL(s.base[s.bytes], (char)0xa5);
    return s;
}

// Whether all rows were sorted together.
template <typename W>
bool steps_overflow(const steps<W> &s) {
    return *s.scratch.steps.overflow.drawn != 0;
}

// Whether the words are sorted, stably, and each row is in the bucket of the last splitter that
// does not follow it.
template <typename W>
bool steps_good(const std::vector<W> &words, int bits, const steps<W> &s) {
    bool good = sort_is(words, sort_wanted(words), s.sorted, s.order);
    const sort_steps<W> &left = s.scratch.steps;
    if (sort_takes_radix(left.shape.rows, bits) || steps_overflow(s)) {
        return good;
    }
    std::vector<std::pair<W, int32_t>> sample;
    for (int i = 0; i < left.shape.buckets * left.shape.oversample; ++i) {
        const int32_t row = sort_sample_row(&left.shape, i);
        sample.push_back({words[(size_t)row], row});
    }
    std::sort(sample.begin(), sample.end());
    for (int b = 0; b < left.shape.buckets; ++b) {
        const std::pair<W, int32_t> &splitter = sample[(size_t)(b * left.shape.oversample)];
        good = good && left.split_word[b] == splitter.first;
        good = good && left.split_row[b] == splitter.second;
        for (int k = 0; k < left.shape.blocks; ++k) {
            const uint32_t entry = left.table[b * left.shape.blocks + k];
            for (uint32_t i = entry >> 16; i < (entry >> 16) + (entry & 0xffff); ++i) {
                const sort_key<W> &key =
                    left.key[(uint32_t)(k * sort_threads * left.shape.each) + i];
                const auto follows = [&](int splitter) {
                    const W word = left.split_word[splitter];
                    return word != key.word ? word > key.word
                                            : left.split_row[splitter] > (int32_t)key.row;
                };
                good = good && (b == 0 || !follows(b));
                good = good && (b + 1 == left.shape.buckets || follows(b + 1));
            }
        }
    }
    return good;
}

template <typename W>
void check_steps(const std::vector<W> &words, int bits) {
    emulate::seed = words.size();
    CHECK(steps_good(words, bits, steps_run(words, bits)));
}

// The words of every `every`-th point of the scan at voxels of `size`, in 64 bits, and those
// outside x, y = -20 .. 20 m as none.
std::vector<uint64_t> scan_words(float size, int64_t every, word_layout *layout) {
    const scan::scan_options options = {};
    scan::scan_cloud cloud;
    scan::scan_reason why;
    CHECK_OK(scan::scan_read("data/nuscenes_10sweeps.pcd.bin", &options, &cloud, &why));
    const int32_t most = (int32_t)(20 / size);
    word_need need = {};
    need.lo = {-most, -most, -most};
    need.hi = {most, most, most};
    need.batches = 1;
    need.stride = need.reach = {16, 16, 16};
    CHECK_OK(word_fit(&need, layout));
    std::vector<uint64_t> words;
    for (int64_t i = 0; i < cloud.rows; i += every) {
        int32_t at[3];
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
            at[a] = (int32_t)floorf(cloud.points[i * cloud.columns + a] / size);
            inside = inside && at[a] >= -most && at[a] <= most;
        }
        words.push_back(inside ? word_pack<uint64_t>(layout, {0, at[0], at[1], at[2]})
                               : word_none<uint64_t>());
    }
    scan::scan_free(&cloud);
    return words;
}

} // namespace

// Points that repeat a voxel, hundreds of them one after another, and rows of none: in words of
// both widths.
TEST(sort_of_a_scan) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    word_layout layout;
    const std::vector<uint64_t> words = scan_words(0.1f, 2, &layout);
    CHECK(word_bits(&layout) <= 32);
    check_steps(std::vector<uint32_t>(words.begin(), words.end()), word_bits(&layout));
    check_steps(scan_words(0.1f, 13, &layout), word_bits(&layout));
}

TEST(sort_of_runs) {
    random_state r = random_make(11);
    for (int32_t rows : {1, 385, 1025, 9000}) {
        for (int run : {1, 30, 30000}) {
            check_steps(words_in_runs<uint32_t>(&r, rows, run, 977, run % 2 ? 3 : 0), 30);
        }
    }
    check_steps(words_in_runs<uint64_t>(&r, 9000, 900, 1 << 20, 2), 45);
    // The highest word, and none; none alone.
    std::vector<uint32_t> words = words_in_runs<uint32_t>(&r, 5000, 1, 3, 2);
    for (size_t i = 1; i < words.size(); i += 2) {
        words[i] = word_none<uint32_t>() - 1 - (uint32_t)(i % 3);
    }
    check_steps(words, 32);
    check_steps(std::vector<uint32_t>(3000, word_none<uint32_t>()), 30);
    check_steps(std::vector<uint64_t>(3000, 7), 30);
}

// Rows that are samples share a word, the others do not: one bucket has nearly all keys. No thread
// block may have more than its share of them to do: all draw tiles of the same size. The thread
// blocks begin in any order, some at a time.
TEST(sort_of_words_that_evade_the_samples) {
    random_state r = random_make(13);
    for (int32_t rows : {3000, 9000}) {
        for (bool wide : {false, true}) {
            emulate::side_by_side = wide ? 1 : 3;
            emulate::seed = (uint64_t)rows;
            std::vector<uint64_t> words;
            for (int32_t i = 0; i < rows; ++i) {
                words.push_back((uint64_t)random_int(&r, 2, 1 << 29) << (wide ? 12 : 0));
            }
            const sort_shape shape = sort_shape_make(rows);
            for (int s = 0; s < shape.buckets * shape.oversample; ++s) {
                words[(size_t)sort_sample_row(&shape, s)] = 1;
            }
            const int bits = wide ? 42 : 30;
            if (wide) {
                const steps<uint64_t> s = steps_run(words, bits);
                CHECK(steps_overflow(s) && steps_good(words, bits, s));
            } else {
                const std::vector<uint32_t> narrow(words.begin(), words.end());
                const steps<uint32_t> s = steps_run(narrow, bits);
                CHECK(steps_overflow(s) && steps_good(narrow, bits, s));
            }
        }
    }
    emulate::side_by_side = 1;
}

// Words and rows of 64 bits or more together take the radix sort; one bit less does not.
TEST(sort_of_words_far_apart) {
    random_state r = random_make(8);
    const int32_t rows = 600; // 10 bits
    for (int bits : {53, 54, 64}) {
        CHECK_EQUAL(sort_takes_radix(rows, bits), bits >= 54);
        std::vector<uint64_t> words;
        for (int32_t i = 0; i < rows; ++i) {
            words.push_back(random_u64(&r) >> (64 - bits) >> (i % 5 ? 0 : bits / 2));
        }
        words[1] = 0;
        words[2] = ((uint64_t)1 << (bits - 1)) - 1 + (((uint64_t)1 << (bits - 1)) - 1);
        words[3] = words[4] = word_none<uint64_t>(); // as far from 0 as any
        check_steps(words, bits);
    }
}

// Sorts in at most so many buckets. Returns whether that is right.
template <typename W>
bool sorts_in_buckets(const std::vector<W> &words, int bits, int buckets) {
    const int32_t rows = (int32_t)words.size();
    steps<W> s = steps_make<W>(rows);
    sort_steps<W> &steps = s.scratch.steps;
    sort_shape *shape = &steps.shape;
    shape->buckets = (int32_t)min_of(buckets, shape->buckets);
    shape->oversample = sort_oversample_least;
    shape->inverse = 65536 / (uint32_t)shape->oversample + 1;
    shape->step = ((uint64_t)rows << 32) / (uint64_t)(shape->buckets * shape->oversample);
    const sort_array<W> from = {words.data()};
    const sort_target<W> to = sort_target_make(rows, bits, s.sorted.data(), s.order.data());
    CHECK_OK(sort_launch(from, steps, to, nullptr));
    return steps_good(words, bits, s);
}

template <typename W>
void check_runs(int32_t rows, int run, W apart, int bits) {
    random_state r = random_make((uint64_t)rows * 31 + (uint64_t)run);
    emulate::seed = (uint64_t)rows;
    const std::vector<W> words = words_in_runs<W>(&r, rows, run, apart, rows % 2 ? 5 : 0);
    CHECK(sorts_in_buckets<W>(words, bits, 1 + rows % 2));
}

// Runs shorter and longer than a warp, all rows of one word, around the edges of groups of 32 keys
// and of what a thread block sorts in registers; and one bucket that is too large.
TEST(sort_of_large_buckets) {
    for (int32_t rows : {1, 2, 31, 33, 64, 129, 400, 1024, 1025, 2048, 2050}) {
        for (int run : {1, 9, 40, 4000}) {
            if (rows < 1000 || run != 9) {
                check_runs<uint32_t>(rows, run, 977, 30);
                check_runs<uint64_t>(rows, run, 977, 45);
            }
        }
    }
}

// Words whose lower bits are kept beside the row: runs of keys with equal upper bits that differ.
TEST(sort_of_wide_ranges) {
    for (int32_t rows : {33, 257, 700}) {
        check_runs<uint32_t>(rows, 40, 3, 31);
        random_state r = random_make((uint64_t)rows);
        std::vector<uint32_t> words = words_in_runs<uint32_t>(&r, rows, 9, 1, 0);
        words[7] = 0x7ffffff0u; // all others share their upper bits
        CHECK(sorts_in_buckets<uint32_t>(words, 31, 1));
        CHECK(sorts_in_buckets<uint32_t>(words, 31, 2));
        std::vector<uint64_t> wide = words_in_runs<uint64_t>(&r, rows, 40, 1, 5);
        wide[3] = (uint64_t)1 << 40; // too wide for 32 bits
        CHECK(sorts_in_buckets<uint64_t>(wide, 45, 1));
        // The lower bits of the distances fit beside the rows, but not beside the runs.
        wide = words_in_runs<uint64_t>(&r, rows, 40, (uint64_t)1 << 34, 0);
        CHECK(sorts_in_buckets<uint64_t>(wide, 42, 1));
    }
}
