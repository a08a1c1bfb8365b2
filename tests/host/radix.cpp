// tests/host/radix.cpp: the kernels of index/radix.cuh, run on the host (emulate.h), against a
// stable sort.
#include "../support/radix.h"

#include "../support/emulate.h"

#include "../../spira/index/radix.cuh"

using namespace spira;

namespace {

// Sorts in memory that is exactly as large as was asked for, and is not clean.
template <typename W>
bool sorts(const std::vector<W> &words, int first_bit, int bits, bool with_rows) {
    const int32_t rows = (int32_t)words.size();
    radix_scratch<W> s;
    workspace w = workspace_begin(nullptr);
    radix_carve(&w, rows, with_rows, &s);
    const size_t bytes = w.used;
    std::vector<char> memory(bytes + 2 * workspace_alignment, (char)0xa5);
    char *base = (char *)round_up((int64_t)(uintptr_t)memory.data(), workspace_alignment);
    w = workspace_begin(base);
    radix_carve(&w, rows, with_rows, &s);
    CHECK_EQUAL(w.used, bytes);
    std::vector<W> sorted((size_t)rows + 1, (W)77);
    std::vector<int32_t> order((size_t)rows + 1, 77);
    std::copy(words.begin(), words.end(), radix_input(&s, sorted.data(), first_bit, bits));
    CHECK_OK(with_rows ? radix_sort<true>(&s, sorted.data(), order.data(), first_bit, bits, nullptr)
                       : radix_sort<false>(&s, sorted.data(), nullptr, first_bit, bits, nullptr));
    const std::vector<int32_t> wanted = order_wanted(words, first_bit, bits);
    bool same = sorted.back() == (W)77 && order.back() == 77;
    for (size_t i = 0; i < wanted.size(); ++i) {
        same = same && sorted[i] == words[(size_t)wanted[i]];
        same = same && order[i] == (with_rows ? wanted[i] : 77);
    }
    return same && base[bytes] == (char)0xa5;
}

template <typename W>
void check_sizes(std::initializer_list<int> sizes, int first_bit, int bits) {
    random_state random = random_make(sizeof(W));
    unsigned turn = 0;
    for (int rows : sizes) {
        const words_kind kind = (words_kind)(turn % words_kinds);
        emulate::seed = turn;
        emulate::side_by_side = 1 + turn % 3;
        CHECK(sorts(words_make<W>(&random, kind, rows), first_bit, bits, turn % 2));
        ++turn;
    }
    emulate::side_by_side = 1;
}

} // namespace

TEST(radix_sorts_every_size) {
    const int tile = radix_tile;
    check_sizes<uint32_t>({1, 2, 31, 33, 256, 511, 513, 4000}, 0, 9);
    check_sizes<uint32_t>({tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1}, 3, 14);
    check_sizes<uint64_t>({1, 513, tile, tile + 1, 2 * tile + 5}, 30, 41);
}

TEST(radix_sorts_every_range_of_bits) {
    random_state random = random_make(9);
    for (int bits : {0, 1, 7, 8, 9, 17, 32}) {
        CHECK(sorts(words_make<uint32_t>(&random, words_random, 700), 0, bits, bits % 2));
    }
    for (int bits : {32, 33, 63, 64}) {
        CHECK(sorts(words_make<uint64_t>(&random, words_few, 600), bits - 5, bits, false));
    }
    CHECK(sorts(words_make<uint64_t>(&random, words_random, 600), 0, 64, true));
}

// Each kind of words, by tiles that run side by side and wait for each other.
TEST(radix_looks_back_at_tiles_that_run) {
    random_state random = random_make(10);
    for (int kind : {words_random, words_few, words_all_ones}) {
        emulate::seed = (uint64_t)kind;
        emulate::side_by_side = 4;
        const std::vector<uint32_t> words =
            words_make<uint32_t>(&random, (words_kind)kind, 5 * radix_tile - 9);
        CHECK(sorts(words, 24, 32, true));
    }
    emulate::side_by_side = 1;
}

// Digits cover the range, and none is wider than there are counters.
TEST(radix_digits_cover_the_range) {
    for (int first = 0; first <= 64; ++first) {
        for (int bits = first; bits <= 64; ++bits) {
            const radix_digits_of d = radix_digits_make(first, bits);
            CHECK(d.passes >= 1 && d.passes <= radix_passes_max && d.width <= radix_digit_bits);
            CHECK_EQUAL(d.passes, max_of(ceil_div(bits - first, radix_digit_bits), 1));
            int next = d.first_bit;
            for (int pass = 0; pass < d.passes; ++pass) {
                const radix_digit digit = radix_digit_of_pass(d, pass);
                CHECK(digit.shift == next && digit.shift < 64);
                CHECK(bits == first || digit.mask > 0);
                next += count_bits(digit.mask);
            }
            CHECK_EQUAL(next, bits > first ? bits : 0);
        }
    }
}
