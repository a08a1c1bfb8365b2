// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/radix.cu: the radix sort, against a stable sort on the host. (tests/host/radix.cpp runs
// the same kernels on the host.)
#include "../support/device.cuh"
#include "../support/radix.h"

namespace {

template <typename W>
void check_case(random_state *r, words_kind kind, int32_t rows, int first_bit, int bits,
                bool with_rows, int runs = 2) {
    char label[100];
    snprintf(label, sizeof label, "%d words of kind %d, bits %d to %d of %d, %s", rows, (int)kind,
             first_bit, bits, 8 * (int)sizeof(W), with_rows ? "with rows" : "alone");
    radix_check({&memory_device, stream_get(), first_bit, bits, with_rows, runs},
                words_make<W>(r, kind, rows), label);
}

template <typename W>
void check_sizes(std::initializer_list<int> sizes) {
    random_state random = random_make(sizeof(W));
    const int all = 8 * (int)sizeof(W);
    const int widths[] = {all, 20, 9, 27};
    unsigned turn = 0;
    for (int rows : sizes) {
        for (int kind = 0; kind < words_kinds; ++kind, ++turn) {
            check_case<W>(&random, (words_kind)kind, rows, 0, widths[turn % 4], turn % 2);
            check_case<W>(&random, (words_kind)kind, rows, all - widths[turn % 4], all,
                          !(turn % 2));
        }
    }
}

} // namespace

DEVICE_TEST(gpu_radix_every_size) {
    const int tile = radix_tile;
    if (test_quick()) {
        check_sizes<uint32_t>({1, 33, tile + 1});
        return;
    }
    check_sizes<uint32_t>({1, 2, 31, 32, 33, 511, 512, 513, tile - 1, tile, tile + 1, 2 * tile,
                           2 * tile + 1, 10 * tile - 1});
    check_sizes<uint64_t>({1, 33, 513, tile - 1, tile, tile + 1, 7 * tile + 100});
}

DEVICE_TEST(gpu_radix_every_range_of_bits) {
    random_state random = random_make(3);
    for (int first = 0; first < 32; first += test_quick() ? 13 : 1) {
        for (int bits : {first, first + 1, first + 7, first + 8, first + 9, 32}) {
            if (bits <= 32) {
                check_case<uint32_t>(&random, words_random, 5000, first, bits, bits % 2);
            }
        }
    }
    for (int bits = 0; bits <= 64; bits += test_quick() ? 16 : 1) {
        check_case<uint64_t>(&random, words_random, 5000, 0, bits, true);
        check_case<uint64_t>(&random, words_random, 5000, bits / 2, bits, false);
    }
}

// More tiles than run at once, many times over: each run looks back at other moments.
DEVICE_TEST(gpu_radix_large) {
    if (test_quick()) {
        SKIP("large");
    }
    random_state random = random_make(4);
    for (words_kind kind : {words_random, words_few, words_all_ones, words_high}) {
        check_case<uint32_t>(&random, kind, (1 << 20) + 1, 0, 32, true, 10);
        check_case<uint32_t>(&random, kind, 300007, 5, 29, false, 10);
        check_case<uint64_t>(&random, kind, 3000001, 0, 48, true, 5);
        check_case<uint64_t>(&random, kind, 1 << 21, 3, 44, false, 5);
    }
    check_case<uint32_t>(&random, words_random, 20000003, 0, 32, true, 2);
}
