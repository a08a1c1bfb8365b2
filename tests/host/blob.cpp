// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/blob.cpp: the format of blob.h.
#include "../support/blobs.h"

#include <math.h>
#include <vector>

using namespace blobs;
using namespace spira;

// ---- the format ---------------------------------------------------------------------------------

TEST(blob_checksum_is_crc32) {
    CHECK_EQUAL(blob_checksum("123456789", 9), 0xcbf43926u);
    CHECK_EQUAL(blob_checksum("", 0), 0u);
    CHECK_EQUAL(blob_checksum("a", 1), 0xe8b7be43u);
    CHECK_EQUAL(crc_of("123456789", 9), 0xcbf43926u);
}

TEST(blob_reads_what_is_written_by_hand) {
    std::string file = blob_by_hand(example, example_count);
    blob b = {};
    REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    REQUIRE(b.entries == example_count);
    CHECK_EQUAL(b.bytes, file.size());
    for (int i = 0; i < example_count; ++i) {
        const item *t = &example[i];
        blob_entry e = blob_entry_of(&b, i);
        CHECK_EQUAL((const char *)e.name, t->name);
        CHECK_EQUAL(e.kind, t->kind);
        CHECK_EQUAL(e.type, t->type);
        CHECK(!memcmp(e.shape, t->shape, sizeof e.shape));
        CHECK_EQUAL(e.offset % 256, 0u);
        CHECK_EQUAL(blob_find(&b, t->name, (blob_kind)t->kind), i);
        int64_t elements = (int64_t)elements_of(t);
        float *values = guarded_new<float>(elements);
        REQUIRE_OK(blob_load(&b, i, values));
        for (int64_t n = 0; n < elements; ++n) {
            CHECK_EQUAL(values[n], value_of(t, (uint64_t)n));
        }
    }
    CHECK_EQUAL(blob_find(&b, "down.1", blob_bias), -1);
    CHECK_EQUAL(blob_find(&b, "down.", blob_weight), -1);
    CHECK_EQUAL(blob_find(&b, "down.12", blob_weight), -1);
    CHECK_EQUAL(blob_find(&b, "", blob_weight), -1);
    CHECK_EQUAL(blob_find(&b, std::string(100, 'x').c_str(), blob_weight), -1);
}

TEST(blob_writes_the_format_to_the_byte) {
    std::string file = blob_by_hand(example, example_count);
    blob_writer count = {}, w = {};
    REQUIRE_OK(blob_write_begin(nullptr, 0, example_count, &count));
    char *memory = guarded_new<char>((int64_t)file.size());
    REQUIRE_OK(blob_write_begin(memory, file.size(), example_count, &w));
    for (int i = 0; i < example_count; ++i) {
        const item *t = &example[i];
        std::vector<float> values;
        for (uint64_t n = 0; n < elements_of(t); ++n) {
            values.push_back(value_of(t, n));
        }
        CHECK_OK(
            blob_add(&count, t->name, (blob_kind)t->kind, (numeric)t->type, t->shape, nullptr));
        REQUIRE_OK(
            blob_add(&w, t->name, (blob_kind)t->kind, (numeric)t->type, t->shape, values.data()));
        CHECK_EQUAL(count.used, w.used);
    }
    blob b = {};
    REQUIRE_OK(blob_write_end(&w, &b));
    CHECK_EQUAL(count.used, file.size());
    CHECK_EQUAL(b.bytes, file.size());
    CHECK(!memcmp(memory, file.data(), file.size()));
}

TEST(blob_without_entries) {
    char *memory = guarded_new<char>(32);
    blob_writer w = {};
    blob b = {};
    REQUIRE_OK(blob_write_begin(memory, 32, 0, &w));
    REQUIRE_OK(blob_write_end(&w, &b));
    CHECK_EQUAL(b.bytes, 32u);
    CHECK_EQUAL(blob_find(&b, "a", blob_weight), -1);
    CHECK(blob_by_hand(example, 0) == std::string(memory, 32));
}

TEST(blob_names_up_to_63_bytes) {
    std::string longest(63, 'n'), other = longest;
    other[62] = 'm';
    item items[] = {{longest.c_str(), 0, 0, {1, 1, 1, 1, 1}},
                    {other.c_str(), 0, 0, {1, 1, 1, 1, 1}}};
    std::string file = blob_by_hand(items, 2);
    blob b = {};
    REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    CHECK_EQUAL(blob_find(&b, longest.c_str(), blob_weight), 0);
    CHECK_EQUAL(blob_find(&b, other.c_str(), blob_weight), 1);
    CHECK_EQUAL(blob_find(&b, (longest + "n").c_str(), blob_weight), -1);
}

TEST(blob_with_gaps_is_read) {
    std::string file = blob_by_hand(example, example_count);
    char *last = &file[32 + 112 * (example_count - 1)];
    uint64_t at = get(last + 96, 8), bytes = get(last + 104, 8);
    file.insert((size_t)at, 512, 'x');
    last = &file[32 + 112 * (example_count - 1)];
    put(last + 96, at + 512, 8);
    put(&file[16], file.size(), 8);
    sign(&file[0], file.size());
    blob b = {};
    REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    float value;
    CHECK_EQUAL(bytes, 2u);
    REQUIRE_OK(blob_load(&b, example_count - 1, &value));
    CHECK_EQUAL(value, value_of(&example[example_count - 1], 0));
}

TEST(blob_holds_4096_entries) {
    std::vector<std::string> names;
    std::vector<item> items;
    for (int i = 0; i < 4096; ++i) {
        names.push_back("layer" + std::to_string(i));
    }
    for (int i = 0; i < 4096; ++i) {
        items.push_back({names[(size_t)i].c_str(), 0, 2, {1, 1, 1, 1, 1}});
    }
    blob b = {};
    std::string file = blob_by_hand(items.data(), 4096);
    REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    CHECK_EQUAL(blob_find(&b, "layer4095", blob_weight), 4095);
    blob_writer w = {};
    CHECK_STATUS(blob_write_begin(nullptr, 0, 4097, &w), status_bad_size);
}

// ---- damage -------------------------------------------------------------------------------------
// Damaged blobs are refused, and nothing is read past their end.

// detail: -1: any.
static void check_refused(const char *memory, size_t bytes, const char *words, int64_t detail,
                          int line = __builtin_LINE()) {
    blob b = {};
    const status s = blob_open(memory, bytes, &b);
    char text[200];
    snprintf(text, sizeof text, "expected \"%s\", %lld, got \"%s\", %lld", words, (long long)detail,
             s.subject, (long long)s.detail);
    test_check(s.code == status_file_format && says(s, words) &&
                   (detail < 0 || s.detail == detail) && !b.base && !b.bytes && !b.entries,
               __FILE__, line, text);
}

TEST(blob_cut_short_anywhere_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    size_t index = 32 + 112 * example_count;
    for (size_t bytes = 0; bytes < file.size(); ++bytes) {
        copied memory(file, bytes);
        check_refused(memory.data, bytes,
                      bytes < 32      ? "header is cut"
                      : bytes < index ? "index is cut"
                                      : "data are cut",
                      (int64_t)bytes);
    }
}

// The same with a header that agrees with the length.
TEST(blob_cut_short_and_signed_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    for (size_t bytes = 32; bytes < file.size(); ++bytes) {
        copied memory(file, bytes);
        put(memory.data + 16, bytes, 8);
        sign(memory.data, bytes);
        blob b = {};
        status s = blob_open(memory.data, bytes, &b);
        CHECK_STATUS(s, status_file_format);
        CHECK(says(s, "index is cut") || says(s, "beyond the end") || says(s, "larger than"));
    }
}

TEST(blob_too_long_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    for (size_t more : {1, 8, 256, 4096}) {
        std::string longer = file + std::string(more, '\0');
        copied memory(longer, longer.size());
        check_refused(memory.data, longer.size(), "longer than its header", -1);
        put(memory.data + 16, longer.size(), 8);
        sign(memory.data, longer.size());
        check_refused(memory.data, longer.size(), "after the last data", -1);
    }
}

TEST(blob_with_any_bit_flipped_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    size_t index = 32 + 112 * example_count;
    for (size_t bit = 0; bit < 8 * index; ++bit) {
        copied memory(file, file.size());
        memory.data[bit / 8] = (char)(memory.data[bit / 8] ^ 1 << bit % 8);
        check_refused(memory.data, file.size(), "", -1);
    }
}

TEST(blob_with_any_datum_flipped_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    blob b = {};
    float values[64];
    for (int i = 0; i < example_count; ++i) {
        const char *e = &file[(size_t)(32 + 112 * i)];
        size_t at = (size_t)get(e + 96, 8), bytes = (size_t)get(e + 104, 8);
        for (size_t bit = 8 * at; bit < 8 * (at + bytes); ++bit) {
            copied memory(file, file.size());
            memory.data[bit / 8] = (char)(memory.data[bit / 8] ^ 1 << bit % 8);
            REQUIRE_OK(blob_open(memory.data, file.size(), &b));
            for (int j = 0; j < example_count; ++j) {
                status s = blob_load(&b, j, values);
                CHECK_EQUAL(s.code, j == i ? status_file_format : status_ok);
                CHECK(j != i || (s.detail == i && says(s, "checksum")));
            }
        }
    }
}

TEST(blob_with_a_bad_field_says_which) {
    static const struct {
        int at, bytes; // of the field; from 32 on in record 2 of the index
        uint64_t value;
        int64_t detail; // -1: any
        const char *words;
    } bad[] = {
        {0, 1, 'S', 0, "does not start"},
        {7, 1, 0, 0, "does not start"},
        {8, 4, 0, 0, "unsupported version"},
        {8, 4, 3, 3, "unsupported version"},
        {8, 4, 0x01000000, 0x01000000, "unsupported version"},
        {16, 8, 0, -1, "longer than"},
        {16, 8, UINT64_MAX, -1, "cut short"},
        {24, 4, 0, -1, "after the last data"},
        {24, 4, 4, -1, "after the last data"},
        {24, 4, 4097, 4097, "more than 4096"},
        {24, 4, UINT32_MAX, UINT32_MAX, "more than 4096"},
        {28, 4, 0, 0, "112 bytes"},
        {28, 4, 128, 128, "112 bytes"},
        {32 + 0, 1, 0, 2, "no name"},
        {32 + 6, 1, 'x', 2, "after the end of a name"},
        {32 + 63, 1, 'x', 2, "after the end of a name"},
        {32 + 64, 4, 7, 2, "unknown kind"},
        {32 + 64, 4, 5, 2, "not fp32"},
        {32 + 64, 4, UINT32_MAX, 2, "unknown kind"},
        {32 + 64, 4, 3, 3, "repeated name"}, // found at the second entry
        {32 + 64, 4, 1, 2, "repeated name"},
        {32 + 68, 4, 1, 2, "unknown type"}, // tf32
        {32 + 68, 4, 4, 2, "unknown type"},
        {32 + 68, 4, UINT32_MAX, 2, "unknown type"},
        {32 + 68, 4, 0, 2, "does not match the shape"},
        {32 + 72, 4, 0, 2, "without elements"},
        {32 + 72, 4, 2, 2, "not a vector"},
        {32 + 76, 4, 0, 2, "without elements"},
        {32 + 80, 4, UINT32_MAX, 2, "larger than"},
        {32 + 84, 4, 3, 2, "not a vector"},
        {32 + 88, 4, 0, 2, "without elements"},
        {32 + 88, 4, 2, 2, "does not match the shape"},
        {32 + 88, 4, 4, 2, "does not match the shape"},
        {32 + 88, 4, UINT32_MAX, 2, "larger than"},
        {32 + 96, 8, 0, 2, "overlap"}, // the header
        {32 + 96, 8, 512, 2, "overlap"},
        {32 + 96, 8, 1024 + 255, 2, "not aligned"},
        {32 + 96, 8, 1024 + 4, 2, "not aligned"},
        {32 + 96, 8, (uint64_t)1 << 40, 2, "beyond the end"},
        {32 + 96, 8, UINT64_MAX - 255, 2, "beyond the end"},
        {32 + 104, 8, 0, 2, "does not match the shape"},
        {32 + 104, 8, 7, 2, "does not match the shape"},
        {32 + 104, 8, UINT64_MAX, 2, "does not match the shape"},
    };
    std::string file = blob_by_hand(example, example_count);
    for (auto f : bad) {
        copied memory(file, file.size());
        put(memory.data + (f.at < 32 ? f.at : f.at + 224), f.value, f.bytes);
        sign(memory.data, get(memory.data + 24, 4) > 4096 ? 0 : file.size());
        check_refused(memory.data, file.size(), f.words, f.detail);
    }
}

// Blobs with ranges are of version 2, others as they were.
TEST(blob_with_ranges_is_version_2) {
    const item ranges[] = {{"stem", 0, 2, {3, 1, 2, 2, 3}},
                           {"stem", 4, 0, {1, 1, 1, 1, 1}},
                           {"stem", 5, 0, {1, 1, 1, 1, 3}},
                           {"stem", 6, 0, {1, 1, 1, 1, 1}}};
    const std::string file = blob_by_hand(ranges, 4);
    CHECK_EQUAL(get(&file[8], 4), 2u);
    char *memory = guarded_new<char>((int64_t)file.size());
    blob_writer w = {};
    REQUIRE_OK(blob_write_begin(memory, file.size(), 4, &w));
    for (const item &t : ranges) {
        std::vector<float> values;
        for (uint64_t n = 0; n < elements_of(&t); ++n) {
            values.push_back(value_of(&t, n));
        }
        REQUIRE_OK(
            blob_add(&w, t.name, (blob_kind)t.kind, (numeric)t.type, t.shape, values.data()));
    }
    blob b = {};
    REQUIRE_OK(blob_write_end(&w, &b));
    CHECK(!memcmp(memory, file.data(), file.size()));
    const struct {
        size_t at; // in the file
        uint64_t value;
        int64_t detail;
        const char *words;
    } bad[] = {{8, 1, 1, "version 1"},
               {32 + 112 + 88, 3, 1, "more than one number"},
               {32 + 3 * 112 + 88, 2, 3, "more than one number"},
               {32 + 2 * 112 + 84, 3, 2, "not a vector"},
               {32 + 2 * 112 + 68, 2, 2, "not fp32"}};
    for (const auto &f : bad) {
        copied damaged(file, file.size());
        put(damaged.data + f.at, f.value, 4);
        sign(damaged.data, file.size());
        check_refused(damaged.data, file.size(), f.words, f.detail);
    }
}

TEST(blob_name_that_does_not_end) {
    std::string file = blob_by_hand(example, example_count);
    memset(&file[32 + 112], 'n', 64);
    sign(&file[0], file.size());
    check_refused(exact(file.data(), file.size()), file.size(), "without an end", 1);
}

TEST(blob_shape_whose_product_wraps_is_refused) {
    // 2^64 * 18 elements: 18 if the product wraps. The others wrap to the right number of bytes.
    const uint32_t shapes[][5] = {{1u << 31, 1u << 31, 4, 2, 9},
                                  {1u << 16, 1u << 16, 1u << 16, 1u << 16, 36},
                                  {1u << 31, 1u << 31, 1, 1, 36},
                                  {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};
    std::string file = blob_by_hand(example, example_count);
    for (auto shape : shapes) {
        copied memory(file, file.size());
        for (int d = 0; d < 5; ++d) {
            put(memory.data + 32 + 72 + 4 * d, shape[d], 4);
        }
        sign(memory.data, file.size());
        check_refused(memory.data, file.size(), "larger than", -1);
    }
}

TEST(blob_offset_whose_end_wraps_is_refused) {
    item t = {"a", 0, 0, {1, 1, 1, 8, 16}}; // 512 bytes
    std::string file = blob_by_hand(&t, 1);
    for (uint64_t offset : {UINT64_MAX - 255, UINT64_MAX - 511, (uint64_t)1 << 63}) {
        put(&file[32 + 96], offset, 8);
        sign(&file[0], file.size());
        check_refused(exact(file.data(), file.size()), file.size(), "beyond the end", 0);
    }
}

// Random bytes in the index, with a correct checksum: accepted entries can be loaded, and nothing
// reads past the end.
TEST(blob_with_random_damage_reads_no_further) {
    std::string file = blob_by_hand(example, example_count);
    random_state r = random_make(9);
    int opened = 0, rounds = test_quick() ? 3000 : 30000;
    for (int round = 0; round < rounds; ++round) {
        copied memory(file, file.size());
        for (int n = random_int(&r, 1, 3); n > 0; --n) {
            int at = random_int(&r, 32, 32 + 112 * example_count - 1);
            int bits = random_int(&r, 0, 7);
            memory.data[at] =
                (char)(random_int(&r, 0, 1) ? memory.data[at] ^ 1 << bits : random_int(&r, 0, 255));
        }
        sign(memory.data, file.size());
        blob b = {};
        if (!status_failed(blob_open(memory.data, file.size(), &b))) {
            ++opened;
            for (int i = 0; i < b.entries; ++i) {
                blob_entry e = blob_entry_of(&b, i);
                std::vector<float> values((size_t)e.bytes / (e.type ? 2 : 4));
                bool good = !status_failed(blob_load(&b, i, values.data()));
                CHECK(!good || float_is_finite(values[0]));
            }
        }
    }
    CHECK(opened > 0 && opened < rounds);
}

TEST(blob_load_refuses_what_is_not_finite) {
    for (uint32_t type : {0u, 2u, 3u}) {
        for (float f : {HUGE_VALF, -HUGE_VALF, NAN}) {
            item t = {"a", 0, type, {1, 1, 1, 1, 3}};
            std::string file = blob_by_hand(&t, 1);
            char *e = &file[32];
            int width = type ? 2 : 4;
            size_t at = (size_t)get(e + 96, 8);
            put(&file[at + 2 * (size_t)width],
                type == 0   ? float_bits(f)
                : type == 2 ? f16_from_float(f)
                            : bf16_from_float(f),
                width);
            put(e + 92, crc_of(&file[at], 3 * (size_t)width), 4);
            sign(&file[0], file.size());
            blob b = {};
            float *values = guarded_new<float>(3);
            REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
            CHECK(says(blob_load(&b, 0, values), "NaN"));
        }
    }
}

// ---- arguments ----------------------------------------------------------------------------------

TEST(blob_reading_names_bad_arguments) {
    std::string file = blob_by_hand(example, example_count);
    char *memory = exact(file.data(), file.size());
    blob b = {};
    float values[64];
    CHECK_STATUS(blob_open(nullptr, 32, &b), status_null_pointer);
    CHECK_STATUS(blob_open(memory, file.size(), nullptr), status_null_pointer);
    CHECK_STATUS(blob_open(memory + 1, file.size() - 1, &b), status_alignment);
    CHECK_STATUS(blob_open(memory + 4, file.size() - 4, &b), status_alignment);
    REQUIRE_OK(blob_open(memory, file.size(), &b));
    CHECK_STATUS(blob_load(nullptr, 0, values), status_null_pointer);
    CHECK_STATUS(blob_load(&b, 0, nullptr), status_null_pointer);
    CHECK_STATUS(blob_load(&b, 0, (float *)((char *)values + 2)), status_alignment);
    CHECK_STATUS(blob_load(&b, -1, values), status_bad_size);
    CHECK_STATUS(blob_load(&b, example_count, values), status_bad_size);
}

TEST(blob_writing_names_bad_arguments) {
    const uint32_t shape[5] = {1, 1, 1, 1, 2}, none[5] = {1, 1, 0, 1, 2},
                   matrix[5] = {1, 1, 1, 2, 2};
    const uint32_t huge[5] = {1u << 31, 1u << 31, 1, 1, 1};
    const float values[2] = {1, 2};
    char *memory = guarded_new<char>(1024);
    blob_writer w = {};
    blob b = {};
    CHECK_STATUS(blob_write_begin(memory, 1024, 2, nullptr), status_null_pointer);
    CHECK_STATUS(blob_write_begin(memory + 4, 1020, 2, &w), status_alignment);
    CHECK_STATUS(blob_write_begin(memory, 1024, -1, &w), status_bad_size);
    status s = blob_write_begin(memory, 32 + 2 * 112 - 1, 2, &w);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, 32 + 2 * 112);
    CHECK(guarded_untouched(memory, 0, 1024));
    REQUIRE_OK(blob_write_begin(memory, 519, 2, &w));
    const numeric f32 = numeric_f32;
    CHECK_STATUS(blob_add(nullptr, "a", blob_weight, f32, shape, values), status_null_pointer);
    CHECK_STATUS(blob_add(&w, nullptr, blob_weight, f32, shape, values), status_null_pointer);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, f32, nullptr, values), status_null_pointer);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, f32, shape, nullptr), status_null_pointer);
    const float *odd = (const float *)((const char *)values + 1);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, f32, shape, odd), status_alignment);
    CHECK_STATUS(blob_add(&w, "", blob_weight, f32, shape, values), status_bad_size);
    CHECK_STATUS(blob_add(&w, std::string(64, 'a').c_str(), blob_weight, f32, shape, values),
                 status_bad_size);
    CHECK_STATUS(blob_add(&w, "a", blob_kinds, f32, shape, values), status_file_format);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, numeric_tf32, shape, values), status_file_format);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, (numeric)4, shape, values), status_file_format);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, f32, none, values), status_file_format);
    CHECK_STATUS(blob_add(&w, "a", blob_weight, f32, huge, values), status_file_format);
    CHECK_STATUS(blob_add(&w, "a", blob_bias, f32, matrix, values), status_file_format);
    CHECK(guarded_untouched(memory, 0, 1024));
    REQUIRE_OK(blob_add(&w, "a", blob_weight, f32, shape, values));
    CHECK_STATUS(blob_write_end(&w, &b), status_bad_size); // one announced entry is missing
    s = blob_add(&w, "b", blob_weight, f32, shape, values);
    CHECK_STATUS(s, status_workspace); // one byte short
    CHECK_EQUAL(s.detail, 520);
    CHECK(guarded_untouched(memory, 519, 1024));
    w.bytes = 520;
    REQUIRE_OK(blob_add(&w, "b", blob_weight, f32, shape, values));
    CHECK_STATUS(blob_add(&w, "c", blob_weight, f32, shape, values), status_bad_size);
    CHECK_STATUS(blob_write_end(nullptr, &b), status_null_pointer);
    CHECK_STATUS(blob_write_end(&w, nullptr), status_null_pointer);
    REQUIRE_OK(blob_write_end(&w, &b));
    CHECK_EQUAL(b.bytes, 520u);
    CHECK(guarded_untouched(memory, 520, 1024));
}

TEST(blob_writer_finds_a_repeated_name) {
    const uint32_t shape[5] = {1, 1, 1, 1, 1};
    const float value = 1;
    for (const char *second : {"a", "b"}) {
        char *memory = guarded_new<char>(1024);
        blob_writer w = {};
        blob b = {};
        REQUIRE_OK(blob_write_begin(memory, 1024, 2, &w));
        REQUIRE_OK(blob_add(&w, "a", blob_scale, numeric_f32, shape, &value));
        REQUIRE_OK(blob_add(&w, second, blob_scale, numeric_f32, shape, &value));
        CHECK_EQUAL(status_failed(blob_write_end(&w, &b)), *second == 'a');
    }
}

TEST(blob_writer_refuses_what_a_type_cannot_hold) {
    const uint32_t shape[5] = {1, 1, 1, 1, 3};
    const struct {
        float value;
        numeric type;
        bool good;
    } cases[] = {{65504, numeric_f16, true},  {65536, numeric_f16, false},
                 {3e38f, numeric_f32, true},  {3.4e38f, numeric_bf16, false},
                 {3e38f, numeric_bf16, true}, {-HUGE_VALF, numeric_f32, false},
                 {NAN, numeric_bf16, false},  {1e-30f, numeric_f16, true}};
    for (auto c : cases) {
        const float values[3] = {0, 1, c.value};
        char *memory = guarded_new<char>(1024);
        blob_writer w = {};
        REQUIRE_OK(blob_write_begin(memory, 1024, 1, &w));
        status s = blob_add(&w, "a", blob_weight, c.type, shape, values);
        CHECK_EQUAL(s.code, c.good ? status_ok : status_not_finite);
        CHECK(c.good || s.detail == 2);
    }
}
