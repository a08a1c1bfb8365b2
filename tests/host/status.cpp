// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/status.cpp: status.h, device.h, workspace.h and base/integer.h.
#include "../support/devices.h"
#include "../support/test.h"

#include "../../spira/base/integer.h"
#include "../../spira/conv.h"
#include "../../spira/workspace.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

using namespace spira;

// ---- status -------------------------------------------------------------------------------------

TEST(status_has_a_sentence_for_each_code) {
    const char *unknown = status_string((status_code)31); // the largest value of the enum's range
    CHECK_EQUAL(unknown, "an unknown status");
    CHECK_EQUAL(status_string(status_ok), "success");
    for (int a = 0; a <= status_cuda; ++a) {
        const char *text = status_string((status_code)a);
        REQUIRE(text != nullptr);
        CHECK(strlen(text) > 3);
        CHECK(strcmp(text, unknown) != 0);
        for (int b = 0; b < a; ++b) {
            CHECK(strcmp(text, status_string((status_code)b)) != 0);
        }
    }
}

TEST(status_ok_alone_is_no_failure) {
    CHECK(!status_failed(status_success()));
    for (int code = 1; code <= status_cuda; ++code) {
        CHECK(status_failed(status_make((status_code)code, "x")));
    }
    status s = status_make(status_bits, "layout", 3);
    CHECK_EQUAL(s.code, status_bits);
    CHECK_EQUAL(s.subject, "layout");
    CHECK_EQUAL(s.detail, 3);
    CHECK_EQUAL(status_make(status_bits, "layout").detail, 0);
}

TEST(status_text_names_subject_and_detail) {
    char text[200];
    CHECK_EQUAL(status_text(status_make(status_bad_size, "count", -7), text, sizeof text),
                (char *)text);
    CHECK_EQUAL((const char *)text, "count: a size that is not allowed: -7");
    status_text(status_make(status_file_format, "a.bin", INT64_MAX), text, sizeof text);
    CHECK(strstr(text, "9223372036854775807") != nullptr);
    status_text(status_make(status_bits, nullptr, 0), text, sizeof text);
    CHECK_EQUAL(text[0], '?');
    for (int code = 0; code <= status_cuda; ++code) {
        const char *sentence = status_string((status_code)code);
        status_text(status_make((status_code)code, "word", 42), text, sizeof text);
        CHECK_EQUAL(std::string(text), std::string("word: ") + sentence + ": 42");
        // A detail of 0 is a row, an axis, a layer or a size; otherwise there is none.
        status_text(status_make((status_code)code, "word", 0), text, sizeof text);
        const bool ends =
            strstr("row axis index", strrchr(sentence, ' ') ? strrchr(sentence, ' ') + 1 : "-") ||
            code == status_bad_size || code == status_kernel_size || code == status_stride;
        CHECK_EQUAL(std::string(text), std::string("word: ") + sentence + (ends ? ": 0" : ""));
    }
    CHECK_EQUAL(std::string(status_text(status_success(), text, sizeof text)), "success");
    CHECK_EQUAL(std::string(status_text(status_make(status_null_pointer, "in"), text, sizeof text)),
                "in: a null pointer");
}

// Whatever is out of its limits is named with them, and with its axis.
TEST(status_text_names_limits_and_axis) {
    const auto said = [](status s) {
        char text[200];
        return std::string(status_text(s, text, sizeof text));
    };
    kernel_shape kernel = kernel_cube(3, 1);
    kernel.stride.y = 0;
    CHECK_EQUAL(said(kernel_check(&kernel)),
                "kernel.stride.y (1 to 1048576): an unsupported stride: 0");
    kernel = kernel_cube(3, 1);
    kernel.size.z = 17;
    CHECK_EQUAL(said(kernel_check(&kernel)),
                "kernel.size.z (1 to 15): an unsupported kernel size: 17");
    const conv_shape shape = {27, 16, 0, 5000, numeric_f16};
    CHECK_EQUAL(said(conv_shape_check(&shape)),
                "shape.cout (1 to 4096): a size that is not allowed: 5000");
    CHECK_EQUAL(said(size_check(-1, 0, INT64_MAX, "rows")),
                "rows (at least 0): a size that is not allowed: -1");
    CHECK_EQUAL(said(status_on_axis(status_make(status_bad_size, "extent (too small)", 2), 0)),
                "extent.x (too small): a size that is not allowed: 2");
    CHECK_EQUAL(said(size_check(4, 5, 5, "volume")),
                "volume (must be 5): a size that is not allowed: 4");
    CHECK_OK(status_on_axis(size_check(5, 5, 5, "rows"), 2));
    CHECK_STATUS(size_check(6, 5, 5, "rows"), status_bad_size);
    CHECK_STATUS(size_check(4, 5, 5, "rows"), status_bad_size);
}

TEST(status_text_is_cut_and_terminated) {
    status s = status_make(status_workspace, "workspace", 4096);
    char whole[200];
    status_text(s, whole, sizeof whole);
    size_t length = strlen(whole);
    for (size_t size = 0; size <= length + 2; ++size) {
        char *text = guarded_new<char>((int64_t)size); // writing past the size breaks a sentinel
        CHECK(status_text(s, text, size) == text);
        if (size) {
            size_t kept = size - 1 < length ? size - 1 : length;
            CHECK_EQUAL(strlen(text), kept);
            CHECK_EQUAL(memcmp(text, whole, kept), 0);
        }
        CHECK_EQUAL(guarded_check(text), guarded_intact);
    }
    CHECK(status_text(s, nullptr, 0) == nullptr);
    CHECK(status_text(s, nullptr, 10) == nullptr);
}

static status require_positive(int value) {
    SPIRA_REQUIRE(value > 0, status_bad_size, "value", value);
    return status_success();
}

static status try_twice(int first, int second, int *reached) {
    *reached = 0;
    SPIRA_TRY(require_positive(first));
    *reached = 1;
    SPIRA_TRY(require_positive(second));
    *reached = 2;
    return status_success();
}

TEST(status_try_returns_the_first_failure) {
    int reached;
    CHECK_OK(try_twice(1, 1, &reached));
    CHECK_EQUAL(reached, 2);
    CHECK_STATUS(try_twice(-5, 1, &reached), status_bad_size);
    CHECK_EQUAL(reached, 0);
    status s = try_twice(1, -6, &reached);
    CHECK_STATUS(s, status_bad_size);
    CHECK_EQUAL(reached, 1);
    CHECK_EQUAL(s.subject, "value");
    CHECK_EQUAL(s.detail, -6);
}

// ---- device status ------------------------------------------------------------------------------

TEST(device_status_of_zeros_is_success) {
    device_status s;
    memset(&s, 0, sizeof s); // how callers clear it
    CHECK_OK(device_status_read(&s));
    CHECK_STATUS(device_status_read(nullptr), status_null_pointer);
}

// Each flag keeps its own first row, or the largest need, and is read by its own code.
TEST(device_status_keeps_each_trouble_apart) {
    device_status all = {};
    uint32_t flags = 0;
    for (const device_flag_row &f : device_flag_table) {
        const bool count = f.flag == device_flag_capacity;
        device_status s = {};
        for (uint32_t row : {7u, 3u, 9u, 3u}) { // in any order
            device_status_note(&s, f.flag, row);
        }
        status read = device_status_read(&s);
        CHECK_STATUS(read, f.code);
        CHECK_EQUAL(read.subject, f.subject);
        CHECK_EQUAL(read.detail, count ? 9 : 3);
        CHECK_EQUAL(s.flags, (uint32_t)f.flag);
        CHECK_EQUAL((flags & s.flags) | (s.flags & (s.flags - 1)), 0u); // a bit of its own
        flags |= s.flags;
        for (const device_flag_row &other : device_flag_table) {
            CHECK((*device_status_field(&s, other.flag) == 0) == (other.flag != f.flag));
            CHECK((other.code == f.code) == (other.flag == f.flag));
        }
        for (uint32_t row : {0u, 1u, UINT32_MAX - 1, UINT32_MAX}) { // the ends, each alone
            device_status t = {};
            device_status_note(&t, f.flag, row);
            CHECK_STATUS(device_status_read(&t), f.code);
            CHECK_EQUAL(device_status_read(&t).detail, row);
        }
        device_status_note(&all, f.flag, (uint32_t)f.flag);
    }
    // All of them, the gravest first. Nothing hides an exceeded capacity.
    int at = 0;
    for (const device_flag_row &f : device_flag_table) {
        status read = device_status_next(&all, &at);
        CHECK_STATUS(read, f.code);
        CHECK_EQUAL(read.detail, f.flag);
    }
    CHECK_OK(device_status_next(&all, &at));
    CHECK_OK(device_status_next(&all, &at)); // and no further
    CHECK_STATUS(device_status_read(&all), status_capacity);
}

TEST(device_status_that_nobody_cleared) {
    device_status s;
    memset(&s, 0xff, sizeof s);
    int at = 0, read = 0;
    for (status found; status_failed(found = device_status_next(&s, &at)); ++read) {
        CHECK((found.code == status_unsupported) == (at == (int)std::size(device_flag_table) + 1));
    }
    CHECK_EQUAL(read, (int)std::size(device_flag_table) + 1);
    memset(&s, 0, sizeof s);
    s.flags = 1u << 31;
    CHECK_STATUS(device_status_read(&s), status_unsupported);
    CHECK_STATUS(device_status_next(&s, nullptr), status_null_pointer);
}

// ---- pointers -----------------------------------------------------------------------------------

TEST(pointer_check_names_what_is_wrong) {
    char *memory = guarded_new<char>(64);
    for (size_t alignment : {1, 2, 4, 8, 16, 256}) {
        CHECK_OK(pointer_check(memory, alignment, "x"));
        status s = pointer_check(nullptr, alignment, "x");
        CHECK_STATUS(s, status_null_pointer);
        CHECK_EQUAL(s.subject, "x");
        if (alignment > 1) {
            s = pointer_check(memory + alignment / 2, alignment, "y");
            CHECK_STATUS(s, status_alignment);
            CHECK_EQUAL(s.detail, (int64_t)alignment);
            CHECK_EQUAL(s.subject, "y");
        }
    }
}

// ---- device_info --------------------------------------------------------------------------------

TEST(device_info_differs_in_every_member) {
    const device_info made = device_made(90, 132, 227 << 10, true);
    CHECK(device_info_equal(&made, &made));
    device_info other[5] = {made, made, made, made, made};
    other[0].capability = 80;
    other[1].multiprocessors = 114;
    other[2].shared_max = 163 << 10;
    other[3].hopper = false;
    other[4].programmatic = false;
    for (const device_info &d : other) {
        CHECK(!device_info_equal(&made, &d));
        CHECK(!device_info_equal(&d, &made));
    }
}

TEST(device_info_advises_where_hopper_kernels_are_missing) {
    const device_info good = device_made(90, 132, 227 << 10, true);
    const device_info plain = device_made(90, 132, 227 << 10, false);
    const device_info ampere = device_made(80, 108, 163 << 10, false);
    CHECK(device_info_advice(&good) == nullptr);
    CHECK(device_info_advice(&ampere) == nullptr);
    const char *advice = device_info_advice(&plain);
    REQUIRE(advice != nullptr);
    CHECK(strstr(advice, "compute_90a") != nullptr);
}

// ---- workspace ----------------------------------------------------------------------------------

struct carved {
    char *bytes;      // [a]
    double *reals;    // [b]
    uint32_t *counts; // [c]
};

static size_t carve(void *base, carved *c, int64_t a, int64_t b, int64_t n) {
    workspace w = workspace_begin(base);
    c->bytes = workspace_take<char>(&w, a);
    c->reals = workspace_take<double>(&w, b);
    c->counts = workspace_take<uint32_t>(&w, n);
    return w.used;
}

TEST(workspace_counts_what_it_carves) {
    int64_t sizes[] = {0, 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000};
    for (int64_t a : sizes) {
        for (int64_t b : sizes) {
            for (int64_t n : sizes) {
                carved counted, real;
                size_t needed = carve(nullptr, &counted, a, b, n);
                CHECK(!counted.bytes && !counted.reals && !counted.counts);
                CHECK_EQUAL(needed % workspace_alignment, 0u);

                char *memory = guarded_new<char>((int64_t)needed);
                REQUIRE(carve(memory, &real, a, b, n) == needed);
                CHECK_EQUAL((uintptr_t)real.bytes % workspace_alignment, 0u);
                CHECK_EQUAL((uintptr_t)real.reals % workspace_alignment, 0u);
                CHECK_EQUAL((uintptr_t)real.counts % workspace_alignment, 0u);

                // All of each array may be written, and they do not touch each other.
                memset(real.bytes, 1, (size_t)a);
                memset(real.reals, 2, (size_t)b * sizeof(double));
                memset(real.counts, 3, (size_t)n * sizeof(uint32_t));
                bool apart = true;
                for (int64_t i = 0; i < a; ++i) {
                    apart = apart && real.bytes[i] == 1;
                }
                for (int64_t i = 0; i < b * (int64_t)sizeof(double); ++i) {
                    apart = apart && ((char *)real.reals)[i] == 2;
                }
                CHECK(apart);
                CHECK_EQUAL(guarded_check(memory), guarded_intact);
                guarded_finish(); // frees the buffer: 1728 follow each other
            }
        }
    }
}

TEST(workspace_counts_past_32_bits) {
    workspace w = workspace_begin(nullptr);
    CHECK(workspace_take<double>(&w, (int64_t)1 << 31) == nullptr);
    CHECK(workspace_take<char>(&w, 1) == nullptr);
    CHECK_EQUAL(w.used, ((size_t)1 << 34) + workspace_alignment);
}

TEST(workspace_refuses_what_is_no_room) {
    char *memory = guarded_new<char>(2048);
    const struct {
        char *base;
        size_t bytes, needed;
        status_code code;
        int64_t detail;
    } cases[] = {{memory, 1024, 1024, status_ok, 0},
                 {memory, 1025, 1024, status_ok, 0},
                 {memory + 256, 1024, 1024, status_ok, 0},
                 {nullptr, 0, 0, status_ok, 0}, // nothing is needed
                 {memory, 1023, 1024, status_workspace, 1024},
                 {memory, 0, 1, status_workspace, 1},
                 {nullptr, 1024, 1024, status_null_pointer, 0},
                 {nullptr, 0, 1, status_null_pointer, 0}};
    for (const auto &c : cases) {
        const status s = workspace_check(c.base, c.bytes, c.needed);
        CHECK_STATUS(s, c.code);
        CHECK_EQUAL(s.detail, c.detail);
        CHECK(!status_failed(s) || !strcmp(s.subject, "scratch"));
    }
    CHECK_EQUAL(workspace_check(memory, 1023, 1024, "packed").subject, "packed");
    for (int shift : {1, 2, 4, 16, 64, 128, 255}) {
        status s = workspace_check(memory + shift, 2048 - (size_t)shift, 256);
        CHECK_STATUS(s, status_alignment);
        CHECK_EQUAL(s.detail, workspace_alignment);
    }
}

// ---- integers -----------------------------------------------------------------------------------

TEST(integer_triples) {
    triple a = triple_make(1, -2, 3), b = triple_make(4, 5, -6);
    CHECK(triple_equal(a, a));
    CHECK(!triple_equal(a, triple_make(0, -2, 3)));
    CHECK(!triple_equal(a, triple_make(1, 2, 3)));
    CHECK(!triple_equal(a, triple_make(1, -2, 4)));
    CHECK(triple_equal(triple_multiply(a, b), triple_make(4, -10, -18)));
}

TEST(integer_rounds_up) {
    for (int64_t b = 1; b <= 20; ++b) {
        for (int64_t a = 0; a <= 100; ++a) {
            int64_t q = ceil_div(a, b);
            CHECK(q * b >= a && (q - 1) * b < a);
            CHECK_EQUAL(round_up(a, b), q * b);
        }
    }
    int64_t large = (int64_t)1 << 40;
    CHECK_EQUAL(ceil_div(large + 1, 2), large / 2 + 1);
    CHECK_EQUAL(round_up(large + 1, 256), large + 256);
}

TEST(integer_floors_negatives_down) {
    for (int64_t step = 1; step <= 20; ++step) {
        for (int64_t a = -100; a <= 100; ++a) {
            int64_t f = floor_to(a, step);
            CHECK_EQUAL(f % step, 0);
            CHECK(f <= a && a < f + step);
        }
    }
    CHECK_EQUAL(floor_to(-1, 2), -2);
    CHECK_EQUAL(floor_to(-2, 2), -2);
    CHECK_EQUAL(floor_to(-3, 2), -4);
    CHECK_EQUAL(floor_to(INT32_MIN, 16), (int64_t)INT32_MIN);
    CHECK_EQUAL(floor_to((int64_t)INT32_MIN - 1, 16), (int64_t)INT32_MIN - 16);
}

TEST(integer_knows_powers_of_two) {
    for (int shift = 0; shift < 63; ++shift) {
        int64_t p = (int64_t)1 << shift;
        CHECK(is_power_of_two(p));
        CHECK(!is_power_of_two(-p));
        CHECK(shift < 2 || !is_power_of_two(p - 1));
        CHECK(shift < 1 || !is_power_of_two(p + 1));
    }
    CHECK(!is_power_of_two(0));
    CHECK(!is_power_of_two(INT64_MIN));
    CHECK(!is_power_of_two(INT64_MAX));
}

TEST(integer_counts_bits) {
    CHECK_EQUAL(bits_for(0), 0);
    for (int bits = 1; bits <= 63; ++bits) {
        uint64_t p = (uint64_t)1 << bits;
        CHECK_EQUAL(bits_for(p - 1), bits);
        CHECK_EQUAL(bits_for(p), bits + 1);
    }
    CHECK_EQUAL(bits_for(UINT64_MAX), 64);
}

// A search of the tree with elements 2, 4, 6 ... returns the number of elements <= key.
TEST(integer_places_a_list_in_a_search_tree) {
    for (int leaves = 1; leaves <= 1024; leaves *= 2) {
        std::vector<int> tree((size_t)leaves, -1);
        for (int b = 1; b < leaves; ++b) {
            const int at = tree_node(leaves, b);
            CHECK(at > 0 && at < leaves);
            CHECK_EQUAL(tree[(size_t)at], -1); // each node holds one element
            tree[(size_t)at] = 2 * b;
        }
        for (int key = 0; key <= 2 * leaves; ++key) {
            int node = 1;
            while (node < leaves) {
                node = 2 * node + (tree[(size_t)node] <= key ? 1 : 0);
            }
            CHECK_EQUAL(node - leaves, std::min(key / 2, leaves - 1));
        }
    }
}

TEST(integer_orders) {
    int64_t values[] = {INT64_MIN, -5, -1, 0, 1, 5, INT64_MAX};
    for (int64_t a : values) {
        for (int64_t b : values) {
            CHECK_EQUAL(min_of(a, b), b < a ? b : a);
            CHECK_EQUAL(max_of(a, b), b > a ? b : a);
            CHECK(min_of(a, b) <= max_of(a, b));
        }
    }
}
