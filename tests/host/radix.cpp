// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/radix.cpp: the kernels of index/radix.cuh, run on the host (emulate.h), against a
// stable sort.
#include "../support/test.h"

#include "../support/emulate.h"

#include "../support/radix.h"

namespace {

template <typename W>
void sorts(const std::vector<W> &words, int first_bit, int bits, bool with_rows) {
    radix_check({&memory_host, nullptr, first_bit, bits, with_rows, 1}, words);
}

template <typename W>
void check_sizes(std::initializer_list<int> sizes, int first_bit, int bits) {
    random_state random = random_make(sizeof(W));
    unsigned turn = 0;
    for (int rows : sizes) {
        const words_kind kind = (words_kind)(turn % words_kinds);
        emulate::seed = turn;
        emulate::side_by_side = 1 + turn % 3;
        sorts(words_make<W>(&random, kind, rows), first_bit, bits, turn % 2);
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
        sorts(words_make<uint32_t>(&random, words_random, 700), 0, bits, bits % 2);
    }
    for (int bits : {32, 33, 63, 64}) {
        sorts(words_make<uint64_t>(&random, words_few, 600), bits - 5, bits, false);
    }
    sorts(words_make<uint64_t>(&random, words_random, 600), 0, 64, true);
}

// Each kind of words, by tiles that run side by side and wait for each other.
TEST(radix_looks_back_at_tiles_that_run) {
    random_state random = random_make(10);
    for (int kind : {words_random, words_few, words_all_ones}) {
        emulate::seed = (uint64_t)kind;
        emulate::side_by_side = 4;
        const std::vector<uint32_t> words =
            words_make<uint32_t>(&random, (words_kind)kind, 5 * radix_tile - 9);
        sorts(words, 24, 32, true);
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
