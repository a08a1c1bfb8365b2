// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/sort.cu: the sort of words and their rows, against a stable sort on the host.
#include "../support/sets.cuh"
#include "../support/sort_array.h"

using namespace spira;

namespace {

char label[128];    // the case at hand, for the message
char finding[1024]; // the first difference

// ---- what there is to sort ----------------------------------------------------------------------

enum words_kind {
    words_random,
    words_few,
    words_two,
    words_equal,
    words_all_none,
    words_none_behind, // as those of a frame that does not fill its capacity
    words_none_among,
    words_ascending,
    words_descending,
    words_samples_small, // all other rows fall in the last bucket
    words_samples_large, // in the first
    words_samples_apart, // in the one in the middle
    words_clusters,
    words_periodic,  // with the period of the samples
    words_pairs,     // of rows side by side
    words_apart,     // pairs of rows in different segments
    words_runs,      // longer than a warp
    words_long_runs, // than a bucket
    words_kinds,
};

// The highest word that a layout of `bits` has: a voxel is never all ones.
template <typename W>
W word_top(int bits) {
    return (W)((((W)1 << (bits - 1)) - 1) * 2);
}

// In [low, high], both included.
template <typename W>
W word_random(random_state *r, W low, W high) {
    W span = (W)(high - low + 1);
    return (W)(low + (span ? (W)(random_u64(r) % span) : (W)random_u64(r)));
}

// The rows of the samples, ascending; none where there are no buckets.
std::vector<int32_t> sample_rows(int32_t rows) {
    sort_shape shape = sort_shape_make(rows);
    std::vector<int32_t> found;
    for (int s = 0; s < shape.buckets * shape.oversample; ++s) {
        found.push_back(sort_sample_row(&shape, s));
    }
    return found;
}

std::vector<bool> sampled_rows(int32_t rows) {
    std::vector<bool> sampled((size_t)rows);
    for (int32_t row : sample_rows(rows)) {
        sampled[(size_t)row] = true;
    }
    return sampled;
}

// Keys of the last bucket of words_samples_small: all but the samples in front of its splitter.
int32_t rows_of_last_bucket(int32_t rows) {
    sort_shape shape = sort_shape_make(rows);
    return rows - (shape.buckets - 1) * shape.oversample;
}

template <typename W>
W word_of_kind(random_state *r, words_kind kind, int32_t row, int32_t rows, W top) {
    const W far = (W)(top / 3 * 2);
    switch (kind) {
    case words_few:
        return (W)(top / 7 * (W)random_int(r, 0, 6));
    case words_two:
        return random_int(r, 0, 1) ? top : 0;
    case words_equal:
        return (W)(top / 5 * 3);
    case words_all_none:
        return word_none<W>();
    case words_none_behind:
        return row < rows / 5 ? word_random<W>(r, 0, top) : word_none<W>();
    case words_none_among:
        return random_int(r, 0, 1) ? word_random<W>(r, 0, top) : word_none<W>();
    case words_samples_small:
        return word_random<W>(r, far, top);
    case words_samples_large:
    case words_samples_apart:
        return word_random<W>(r, top / 3, (W)(top / 3 + top / 5));
    case words_clusters: {
        W middle = (W)(top / 16 * (W)random_int(r, 1, 15));
        return (W)(middle + (W)random_int(r, 0, 999) % (top / 16 + 1));
    }
    case words_pairs:
    case words_runs:
    case words_long_runs: {
        const int32_t run = kind == words_pairs ? 2 : kind == words_runs ? 45 : 777;
        return (W)(top / (W)(rows / run + 1) * (W)((row / run * 7919ll) % (rows / run + 1)));
    }
    case words_apart:
        return (W)(top / (W)(rows / 2 + 1) * (W)(row % (rows / 2 + 1)));
    case words_periodic:
        return (W)(top / (sort_bucket - 1) * (W)(row % sort_bucket));
    default:
        return word_random<W>(r, 0, top);
    }
}

template <typename W>
std::vector<W> words_make(random_state *r, words_kind kind, int32_t rows, int bits) {
    const W top = word_top<W>(bits), third = (W)(top / 3);
    std::vector<W> words((size_t)rows);
    std::vector<bool> sampled = sampled_rows(rows);
    for (int32_t i = 0; i < rows; ++i) {
        W word = word_of_kind<W>(r, kind, i, rows, top);
        if (sampled[(size_t)i] &&
            (kind == words_samples_small || (kind == words_samples_apart && random_int(r, 0, 1)))) {
            word = word_random<W>(r, 0, (W)(third - 1));
        } else if (sampled[(size_t)i] &&
                   (kind == words_samples_large || kind == words_samples_apart)) {
            word = word_random<W>(r, (W)(third * 2), top);
        }
        words[(size_t)i] = word;
    }
    if (kind == words_random) { // no bit to spare
        words[(size_t)random_int(r, 0, rows - 1)] = top;
    } else if (kind == words_ascending || kind == words_descending) {
        std::sort(words.begin(), words.end());
    }
    if (kind == words_descending) {
        std::reverse(words.begin(), words.end());
    }
    return words;
}

// ---- one run ------------------------------------------------------------------------------------

// Buffers of one run on the device: `room` elements more than the outputs have, and scratch of
// exactly what was counted.
template <typename W>
struct device_run {
    W *words, *sorted;
    int32_t *order;
    int32_t rows, room;
    sort_scratch<W> scratch;
};

template <typename W>
device_run<W> device_run_make(const std::vector<W> &words, int32_t room) {
    device_run<W> d;
    d.rows = (int32_t)words.size();
    d.room = room;
    d.words = device_upload(words.data(), d.rows);
    d.sorted = device_new<W>(d.rows + room);
    d.order = device_new<int32_t>(d.rows + room);
    workspace w = workspace_begin(nullptr);
    sort_carve(&w, d.rows, &d.scratch);
    CHECK(d.scratch.steps.key == nullptr && d.scratch.radix.key == nullptr);
    const size_t bytes = w.used;
    w = workspace_begin(device_new<char>((int64_t)bytes));
    sort_carve(&w, d.rows, &d.scratch);
    CHECK_EQUAL(w.used, bytes);
    return d;
}

template <typename W>
status device_run_start(device_run<W> *d, int bits, cudaStream_t stream) {
    return sort_source(sort_array<W>{d->words}, bits, d->sorted, d->order, &d->scratch, stream);
}

// "" if a run left the words in this order; else what it did not.
template <typename W>
const char *difference(const device_run<W> *d, const std::vector<W> &words,
                       const std::vector<int32_t> &wanted) {
    std::vector<W> sorted(words.size());
    std::vector<int32_t> order(words.size());
    device_copy_out(sorted.data(), d->sorted, d->rows);
    device_copy_out(order.data(), d->order, d->rows);
    finding[0] = 0;
    for (size_t i = 0; i < words.size(); ++i) {
        const W word = words[(size_t)wanted[i]];
        if (sorted[i] != word || order[i] != wanted[i]) {
            snprintf(finding, sizeof finding,
                     "[%zu]: %llx of row %d instead of %llx of row %d (%s)", i,
                     (unsigned long long)sorted[i], order[i], (unsigned long long)word, wanted[i],
                     label);
            break;
        }
    }
    return finding;
}

// Both sides, the device twice: the second run finds scratch and outputs as the first left them.
// Frees all buffers of the test.
template <typename W>
void check_words(const std::vector<W> &words, int bits, int32_t room) {
    const std::vector<int32_t> wanted = sort_wanted(words);
    device_run<W> d = device_run_make(words, room);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_run_start(&d, bits, stream_get()));
        CHECK_EQUAL(difference(&d, words, wanted), "");
    }
    std::vector<W> after(words.size());
    device_copy_out(after.data(), d.words, d.rows);
    CHECK(after == words);
    CHECK(device_untouched(d.sorted, d.rows, d.rows + room));
    CHECK(device_untouched(d.order, d.rows, d.rows + room));
    guarded_finish();
}

template <typename W>
void check_kind(random_state *r, words_kind kind, int32_t rows, int bits) {
    snprintf(label, sizeof label, "%d rows of kind %d, %d of %d bits", rows, (int)kind, bits,
             8 * (int)sizeof(W));
    check_words(words_make<W>(r, kind, rows, bits), bits, rows % 2 ? 0 : 77);
}

// ---- tests --------------------------------------------------------------------------------------

// Each kind at each size; the widths take turns.
template <typename W>
void check_sizes(std::initializer_list<int> sizes, std::initializer_list<int> widths) {
    random_state random = random_make(sizeof(W));
    size_t turn = 0;
    for (int rows : sizes) {
        for (int kind = 0; kind < words_kinds; ++kind) {
            check_kind<W>(&random, (words_kind)kind, rows, widths.begin()[turn++ % widths.size()]);
        }
    }
}

template <typename W>
void check_all_sizes(std::initializer_list<int> widths) {
    if (test_quick()) {
        check_sizes<W>({1, 33, 257, 1025}, widths);
        return;
    }
    check_sizes<W>({1,    2,    3,    7,    8,    9,    31,   32,    33,    255,  256,
                    257,  258,  511,  512,  513,  767,  768,  769,   1023,  1024, 1025,
                    2047, 2048, 2049, 4095, 4096, 4097, 8193, 10240, 10241, 33000},
                   widths);
}

DEVICE_TEST(gpu_sort_every_size) {
    check_all_sizes<uint32_t>({20, 31, 32});
    check_all_sizes<uint64_t>({20, 31, 32, 33, 40, 48, 63, 64});
}

// Sizes at which a thread takes one row more, the number of buckets or segments stops growing, and
// the radix sort takes over.
DEVICE_TEST(gpu_sort_large) {
    if (test_quick()) {
        SKIP("large");
    }
    const int full = sort_buckets_max * sort_bucket;
    check_sizes<uint32_t>(
        {131071, 131072, 262145, full, full + 1, sort_rows_max - 1, sort_rows_max + 1, 1000000},
        {20, 31, 32});
    check_sizes<uint64_t>({131073, 262144, full + 1, 393217, sort_rows_max, sort_rows_max + 1},
                          {33, 20, 64, 40, 31, 48, 32, 63});
    check_sizes<uint64_t>({sort_rows_max + 1}, {48});
}

// Nearly all rows have one of two words, `spread` apart: one is a splitter and the other the next.
template <typename W>
void check_spread(random_state *r, W low, W spread, int32_t rows, int bits) {
    std::vector<W> words;
    for (int i = 0; i < rows; ++i) {
        int which = random_int(r, 0, 99);
        words.push_back(which < 48   ? low
                        : which < 96 ? (W)(low + spread)
                        : which < 98 ? word_random<W>(r, low, (W)(low + spread))
                                     : word_none<W>());
    }
    snprintf(label, sizeof label, "%d rows, words %llx apart", rows, (unsigned long long)spread);
    check_words(words, bits, 0);
}

// The spread takes all bits beside the number of a key, or beside its row; one less; one more.
DEVICE_TEST(gpu_sort_spread_of_a_bucket) {
    random_state random = random_make(2);
    for (int bits : {22, 23, 24, 25, 32, 43, 44, 45, 46, 47, 48, 53}) {
        for (int more : {-2, -1, 0, 1}) {
            const uint64_t spread = ((uint64_t)1 << bits) + (uint64_t)more;
            for (int rows : {400, 401, 402, 403, 3000, 3001}) {
                if (test_quick() && rows != 402) {
                    continue;
                }
                check_spread<uint64_t>(&random, 5000000000ull, spread, rows, 54);
                if (bits < 31) {
                    check_spread<uint32_t>(&random, 70000u, (uint32_t)spread, rows, 31);
                }
            }
        }
    }
}

// One bucket, whose words take all bits beside the number of a key, and one more.
template <typename W>
void check_width_of_a_bucket() {
    random_state random = random_make(7);
    for (int rows : {1, 2, 3, 4, 5, 16, 17, 128, 129, 255, 256}) {
        for (int bits = 22; bits <= 32; ++bits) {
            for (words_kind kind : {words_random, words_few, words_none_among, words_apart}) {
                if (!test_quick() || bits % 8 == 0) {
                    check_kind<W>(&random, kind, rows, bits);
                }
            }
        }
    }
}

DEVICE_TEST(gpu_sort_width_of_a_bucket) {
    check_width_of_a_bucket<uint32_t>();
    check_width_of_a_bucket<uint64_t>();
}

// Around the edges of what a block sorts in registers, and beyond them.
template <typename W>
void check_bucket_sizes() {
    random_state random = random_make(3);
    for (int keys : {255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 5000}) {
        int32_t rows = keys;
        while (rows_of_last_bucket(rows) < keys) {
            ++rows;
        }
        CHECK_EQUAL(rows_of_last_bucket(rows), keys);
        check_kind<W>(&random, words_samples_small, rows, 20);
        check_kind<W>(&random, words_samples_small, rows, 32);
    }
}

DEVICE_TEST(gpu_sort_bucket_sizes) {
    check_bucket_sizes<uint32_t>();
    check_bucket_sizes<uint64_t>();
}

// Microseconds of a sort: the least of some runs.
template <typename W>
float sort_time(const std::vector<W> &words, int bits) {
    device_run<W> d = device_run_make(words, 0);
    cudaEvent_t begin, end;
    float least = 1e9f;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    for (int run = 0; run < 20; ++run) {
        float ms = 0;
        CUDA_CHECK(cudaEventRecord(begin, stream_get()));
        CHECK_OK(device_run_start(&d, bits, stream_get()));
        CUDA_CHECK(cudaEventRecord(end, stream_get()));
        CUDA_CHECK(cudaEventSynchronize(end));
        CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
        least = ms < least ? ms : least;
    }
    CHECK_EQUAL(difference(&d, words, sort_wanted(words)), "");
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    guarded_finish();
    return 1000 * least;
}

// Time is bounded by sizes: words that evade the samples, so that one bucket has nearly all keys,
// take at most four times as long as random ones.
template <typename W>
void check_time(int32_t rows, int bits) {
    random_state random = random_make(12);
    std::vector<W> words = words_make<W>(&random, words_random, rows, bits);
    const float usual = sort_time(words, bits);
    const std::vector<bool> sampled = sampled_rows(rows);
    for (size_t i = 0; i < words.size(); ++i) {
        words[i] = sampled[i] ? 1 : words[i] > 1 ? words[i] : 2;
    }
    const float slow = sort_time(words, bits);
    printf("sort of %d words of %d bits: %.1f us, where they evade the samples %.1f us\n", rows,
           8 * (int)sizeof(W), usual, slow);
    CHECK(slow <= 4 * usual);
}

DEVICE_TEST(gpu_sort_time_is_bounded_by_sizes) {
    if (test_quick()) {
        SKIP("timing");
    }
    check_time<uint32_t>(100000, 30);
    check_time<uint64_t>(100000, 42);
    check_time<uint32_t>(sort_rows_max, 32);
    check_time<uint64_t>(sort_rows_max, 43);
}

// How rows are divided, at sizes around those where that changes.
TEST(sort_shapes) {
    for (int32_t edge : {1, 256, 1024, 131072, 262144, sort_buckets_max * sort_bucket, 393216,
                         (int)sort_rows_max}) {
        for (int32_t rows = edge > 2 ? edge - 2 : 1; rows <= edge + 2; ++rows) {
            sort_shape s = sort_shape_make(rows);
            CHECK_EQUAL(s.buckets > 0, rows <= sort_rows_max);
            if (!s.buckets) {
                continue;
            }
            const int64_t stretch = (int64_t)sort_threads * s.each;
            CHECK(s.each >= 1 && s.each <= sort_most_rows && s.blocks <= sort_blocks);
            CHECK(stretch * s.blocks >= rows && stretch * (s.blocks - 1) < rows);
            CHECK(s.buckets * s.oversample <= sort_samples);
            CHECK(sort_split_bytes<uint64_t>(&s) <= 48 * 1024 - 512); // and what is static
            std::vector<int32_t> samples = sample_rows(rows);
            CHECK(std::is_sorted(samples.begin(), samples.end()));
            CHECK(samples.front() >= 0 && samples.back() < rows);
        }
    }
}

// Captured once and replayed on other words, on scratch and outputs that the run before left.
template <typename W>
void check_replays(int32_t rows, int bits) {
    random_state random = random_make(4);
    device_run<W> d = device_run_make(words_make<W>(&random, words_random, rows, bits), 0);
    CHECK_OK(device_run_start(&d, bits, stream_get())); // kernels are loaded at their first launch
    cudaGraphExec_t replay =
        stream_capture([&](cudaStream_t stream) { CHECK_OK(device_run_start(&d, bits, stream)); });
    REQUIRE(replay != nullptr);
    for (words_kind kind : {words_none_behind, words_samples_small, words_random, words_all_none,
                            words_few, words_clusters}) {
        std::vector<W> words = words_make<W>(&random, kind, rows, bits);
        device_copy_in(d.words, words.data(), rows);
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        snprintf(label, sizeof label, "replay of %d rows, kind %d", rows, (int)kind);
        CHECK_EQUAL(difference(&d, words, sort_wanted(words)), "");
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_sort_replays) {
    check_replays<uint32_t>(1000, 20);
    check_replays<uint64_t>(777, 48);
    if (!test_quick()) {
        check_replays<uint32_t>(200000, 32);
        check_replays<uint64_t>(sort_rows_max + 1, 40);
    }
}

} // namespace
