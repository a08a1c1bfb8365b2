// tests/host/sort_steps.cpp: all three steps of the sort (index/sort.cuh), run on the host
// (emulate_hopper.h), against a stable sort: the points of a real scan, where thousands share a
// word, and generated words in long runs.
#include "../support/test.h"

#include "../support/emulate_sort.h"

#include "../../spira/word.h"
#include "../support/detector_scan.h"

#include <algorithm>
#include <vector>

using namespace spira;

namespace {

// What the steps leave.
template <typename W>
struct steps {
    sort_shape shape;
    std::vector<uint32_t> table;
    std::vector<W> split_word, sorted;
    std::vector<int32_t> split_row, order;
    std::vector<sort_key<W>> key;
};

template <typename W>
steps<W> steps_run(const std::vector<W> &words, int bits) {
    const int32_t rows = (int32_t)words.size();
    steps<W> s = {};
    s.shape = sort_shape_make(rows);
    const sort_shape &shape = s.shape;
    const size_t samples = (size_t)(shape.buckets * shape.oversample);
    std::vector<W> sample(samples);
    std::vector<sort_ranks> ranks(samples);
    s.table.resize((size_t)(shape.buckets * shape.blocks));
    s.split_word.resize((size_t)shape.buckets);
    s.split_row.resize((size_t)shape.buckets);
    s.key.resize((size_t)rows);
    s.sorted.assign((size_t)rows + 1, (W)sort_untouched);
    s.order.assign((size_t)rows + 1, sort_untouched);
    const sort_array<W> from = {words.data()};
    const W end = bits < (int)(8 * sizeof(W)) ? (W)((W)1 << bits) : word_none<W>();
    CHECK_OK(kernel_launch(sort_sample_kernel<W, sort_array<W>>, sort_groups * sort_parts,
                           sort_threads, 0, false, 1, nullptr, "sort", from, shape, sample.data(),
                           ranks.data()));
    CHECK(sort_split_bytes<W>(&shape) <= sizeof sort_shared);
    CHECK_OK(kernel_launch(sort_split_kernel<W, sort_array<W>>, (unsigned)shape.blocks,
                           sort_threads, sort_split_bytes<W>(&shape), false, 1, nullptr, "sort",
                           from, shape, (const W *)sample.data(), (const sort_ranks *)ranks.data(),
                           s.split_word.data(), s.split_row.data(), s.table.data(), s.key.data()));
    const bool crowded = sort_is_crowded(&shape);
    const int row = bits_for((uint64_t)rows - 1);
    CHECK_OK(kernel_launch(
        crowded ? sort_buckets_choose<W, sort_crowded_threads>(bits, row)
                : sort_buckets_choose<W, sort_bucket_threads>(bits, row),
        (unsigned)shape.buckets, crowded ? sort_crowded_threads : sort_bucket_threads, 0, false, 1,
        nullptr, "sort", shape, (const uint32_t *)s.table.data(), (const W *)s.split_word.data(),
        (const sort_key<W> *)s.key.data(), end, row, s.sorted.data(), s.order.data()));
    return s;
}

// Whether the words are sorted, stably, and each row is in the bucket of the last splitter that
// does not follow it.
template <typename W>
bool steps_good(const std::vector<W> &words, const steps<W> &s) {
    bool good = sort_is(words, sort_wanted(words), s.sorted, s.order);
    for (int b = 0; b < s.shape.buckets; ++b) {
        for (int k = 0; k < s.shape.blocks; ++k) {
            const uint32_t entry = s.table[(size_t)(b * s.shape.blocks + k)];
            for (uint32_t i = entry >> 16; i < (entry >> 16) + (entry & 0xffff); ++i) {
                const sort_key<W> &key = s.key[(size_t)(k * sort_threads * s.shape.each) + i];
                const auto follows = [&](int splitter) {
                    const W word = s.split_word[(size_t)splitter];
                    return word != key.word ? word > key.word
                                            : s.split_row[(size_t)splitter] > (int32_t)key.row;
                };
                good = good && (b == 0 || !follows(b));
                good = good && (b + 1 == s.shape.buckets || follows(b + 1));
            }
        }
    }
    return good;
}

template <typename W>
void check_steps(const std::vector<W> &words, int bits) {
    emulate::seed = words.size();
    CHECK(steps_good(words, steps_run(words, bits)));
}

// Words in runs of up to `run` equal ones, in random rows; every `none`-th row has none.
template <typename W>
std::vector<W> words_in_runs(random_state *r, int32_t rows, int run, W apart, int none) {
    std::vector<W> words;
    for (W word = 5; (int32_t)words.size() < rows; word = (W)(word + apart)) {
        const int32_t more = (int32_t)min_of(rows - (int32_t)words.size(), random_int(r, 1, run));
        words.insert(words.end(), (size_t)more, word);
    }
    for (int32_t i = rows - 1; i > 0; --i) {
        std::swap(words[(size_t)i], words[(size_t)random_int(r, 0, i)]);
    }
    for (int32_t i = 0; none && i < rows; i += none) {
        words[(size_t)i] = word_none<W>();
    }
    return words;
}

// The words of every `every`-th point of the scan at voxels of `size`, in 64 bits, and those
// outside x, y = -20 .. 20 m as none.
std::vector<uint64_t> scan_words(float size, int64_t every, word_layout *layout) {
    scan::scan_cloud cloud = {0, 0, nullptr, nullptr};
    CHECK_OK(scan::scan_read("data/nuscenes_10sweeps.pcd.bin", &cloud));
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

TEST(sort_steps_find_planted_errors) {
    random_state r = random_make(12);
    const std::vector<uint32_t> words = words_in_runs<uint32_t>(&r, 3000, 50, 977, 0);
    steps<uint32_t> s = steps_run(words, 30);
    CHECK(steps_good(words, s));
    std::swap(s.order[1000], s.order[1001]);
    CHECK(!steps_good(words, s));
}
