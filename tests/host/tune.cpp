// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/tune.cpp: tuning records: their text there and back, and how one is found.
#include "../../spira/tune.h"
#include "../support/reference.h"

#include <string>

using namespace spira;

static const device_info gpu = {90, 132, 232448, true, true, nullptr};
static const conv_shape shape = shape_make(27, 16, 0, 32, numeric_f16);

static const char line[] =
    "capability=90 multiprocessors=132 volume=27 cin=16 cin2=0 cout=32 type=2 deterministic=1 "
    "outputs=65536 density=2 dataflow=0 tiles=2 slices=1 split=4 threshold=0 ns=13912\n";

static tune_record record_at(int64_t outputs, int64_t pairs, tune_choice choice, int ns = 1000) {
    return {tune_key_make(&gpu, &shape, outputs, pairs, tune_is_deterministic(choice.dataflow)),
            choice, ns};
}

static tune_record record_cut(int64_t outputs, int64_t pairs) {
    return record_at(outputs, pairs, {tune_dataflow_os, 2, 1, 4, 0}, 13912);
}

static bool records_same(const tune_record *a, const tune_record *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

// Reads a text from memory that ends with it. Nothing behind the records that are read is written.
static status read_text(const std::string &text, std::vector<tune_record> *records,
                        int capacity = 4) {
    char *exact = guarded_new<char>((int64_t)text.size());
    tune_record *array = guarded_new<tune_record>(capacity);
    int count = -1;
    memcpy(exact, text.data(), text.size());
    const status s = tune_read_text(exact, text.size(), array, capacity, &count);
    CHECK(guarded_untouched(array, count, capacity));
    records->assign(array, array + count);
    guarded_finish();
    return s;
}

static status read_lines(const std::string &lines) {
    std::vector<tune_record> records;
    return read_text(SPIRA_TUNE_HEAD + lines, &records);
}

static std::string written(const tune_record *records, int count) {
    const size_t size = (size_t)(count + 1) * tune_line_most;
    char *text = guarded_new<char>((int64_t)size);
    CHECK_OK(tune_write_text(records, count, text, size));
    return text;
}

static void check_named(status s, status_code code, const char *subject) {
    CHECK_STATUS(s, code);
    CHECK_EQUAL(s.subject, subject);
}

// ---- text ---------------------------------------------------------------------------------------

TEST(tune_text_has_each_member) {
    const tune_record records[] = {
        record_cut(91766, 200000),
        record_at(1000, 5000, {tune_dataflow_hybrid_atomic, 0, 0, 0, 3})};
    const std::string text = written(records, 2), head = SPIRA_TUNE_HEAD;
    CHECK_EQUAL(text.substr(0, head.size() + strlen(line)).c_str(), (head + line).c_str());
    std::vector<tune_record> read;
    REQUIRE_OK(read_text(text, &read));
    REQUIRE(read.size() == 2);
    CHECK(records_same(&read[0], &records[0]) && records_same(&read[1], &records[1]));
    CHECK_EQUAL(written(records, 0).c_str(), SPIRA_TUNE_HEAD);
    REQUIRE_OK(read_text(head, &read));
    CHECK(read.empty());
}

// Members from their least to their most. What does not go together is refused by both sides.
TEST(tune_round_trip_of_random_records) {
    random_state random = random_make(5);
    int refused = 0;
    for (int i = 0; i < (test_quick() ? 200 : 4000); ++i) {
        tune_values v = tune_values_of(&(const tune_record &)record_cut(1 << 16, 1 << 17));
        const int most[tune_members] = {
            tune_most,         tune_most,         kernel_volume_max,   conv_channels_max,
            conv_channels_max, conv_channels_max, numeric_bf16,        1,
            tune_most,         tune_most,         tune_dataflows - 1,  tune_most,
            tune_most,         tune_most,         tune_threshold_most, tune_most};
        for (int m = 0; m < tune_members; ++m) {
            const int which = random_int(&random, 0, 8);
            v.of[m] = which == 0   ? most[m]
                      : which == 1 ? 0
                      : which < 5  ? v.of[m]
                                   : random_int(&random, 0, most[m]);
        }
        tune_record r;
        memcpy(&r, &v, sizeof r);
        char text[2 * tune_line_most];
        if (status_failed(tune_record_check(&r))) {
            CHECK(status_failed(tune_write_text(&r, 1, text, sizeof text)));
            ++refused;
            continue;
        }
        const std::string whole = written(&r, 1);
        std::vector<tune_record> back;
        CHECK(whole.size() < sizeof(SPIRA_TUNE_HEAD) + tune_line_most);
        CHECK_OK(read_text(whole, &back));
        CHECK(back.size() == 1 && records_same(&r, &back[0]));
        guarded_finish();
    }
    CHECK(refused > 50);
}

// Cut off after any byte, a text is refused by the member that is not whole, and the records before
// it are read.
TEST(tune_refuses_truncated_texts) {
    const std::string whole = std::string(SPIRA_TUNE_HEAD) + line + line;
    const size_t head = strlen(SPIRA_TUNE_HEAD), one = strlen(line);
    for (size_t length = 0; length < whole.size(); ++length) {
        std::vector<tune_record> records;
        const status s = read_text(whole.substr(0, length), &records);
        const size_t lines = length < head ? 0 : (length - head) / one;
        CHECK_EQUAL(records.size(), lines);
        if (length == head || length == head + one) {
            CHECK_OK(s);
            continue;
        }
        CHECK_STATUS(s, status_file_format);
        const char *at = line;
        int member = 0;
        for (; length >= head && member + 1 < tune_members; ++member) {
            const char *space = strchr(at, ' ') + 1;
            if (line + (length - head) % one < space) {
                break;
            }
            at = space;
        }
        CHECK_EQUAL(s.subject, length < head ? "version" : tune_name(member));
    }
}

// One byte, changed to any other: refused, or read as what it says; never as what it was.
TEST(tune_sees_each_byte) {
    const std::string whole = std::string(SPIRA_TUNE_HEAD) + line;
    const tune_record was = record_cut(91766, 200000);
    int refused = 0, read = 0;
    for (size_t at = 0; at < whole.size(); ++at) {
        for (int byte = 0; byte < 256; ++byte) {
            std::string text = whole;
            text[at] = (char)byte;
            tune_record r = {};
            int count = 0;
            if (text[at] == whole[at]) {
                continue;
            }
            if (status_failed(tune_read_text(text.data(), text.size(), &r, 1, &count))) {
                ++refused;
                continue;
            }
            CHECK(count == 1 && !records_same(&r, &was));
            ++read;
        }
    }
    CHECK(read > 50 && refused > 200 * (int)strlen(line));
}

TEST(tune_refuses_damaged_members) {
    auto with = [](const char *member, const char *value) {
        std::string text = line, begin = std::string(member) + "=";
        const size_t at = begin == "capability=" ? 0 : text.find(" " + begin) + 1;
        const size_t end = text.find_first_of(" \n", at);
        return read_lines(text.replace(at + begin.size(), end - at - begin.size(), value));
    };
    CHECK_OK(with("cin2", "4096"));
    for (int i = 0; i < tune_members; ++i) {
        for (const char *value : {"", "x", "-1", " 1", "1x", "0x10", "+1", "1.0", "1 "}) {
            const status s = with(tune_name(i), value);
            const bool after = strcmp(value, "1 ") == 0 && i + 1 < tune_members;
            check_named(s, status_file_format, tune_name(i + after));
        }
        for (const char *value : {"1000000000", "4294967297", "99999999999999999999999999"}) {
            check_named(with(tune_name(i), value), status_bad_size, tune_name(i));
        }
    }
    const struct {
        const char *member, *value;
        status_code code;
        const char *subject;
    } cases[] = {
        {"volume", "0", status_bad_size, "shape.volume"},
        {"volume", "3376", status_bad_size, "shape.volume"},
        {"cin", "4097", status_bad_size, "shape.cin"},
        {"type", "5", status_unsupported, "shape.type"},
        {"deterministic", "2", status_bad_size, "deterministic"},
        {"outputs", "0", status_bad_size, "outputs (density)"},
        {"density", "0", status_bad_size, "outputs (density)"},
        {"dataflow", "5", status_unsupported, "dataflow"},
        {"dataflow", "1", status_unsupported, "dataflow (is not deterministic)"},
        {"dataflow", "3", status_unsupported, "dataflow (is not deterministic)"},
        {"dataflow", "2", status_bad_size, "tiles (slices, split)"},
        {"dataflow", "4", status_bad_size, "tiles (slices, split)"},
        {"slices", "0", status_bad_size, "tiles (slices, split)"},
        {"threshold", "2", status_bad_size, "threshold"},
    };
    for (const auto &c : cases) {
        check_named(with(c.member, c.value), c.code, c.subject);
    }
    tune_record r = record_cut(1000, 5000); // int8: by conv alone
    r.key.shape.type = numeric_i8;
    CHECK_OK(tune_record_check(&r));
    r.choice = {tune_dataflow_ordered, 0, 0, 0, 0};
    check_named(tune_record_check(&r), status_unsupported, "dataflow (of an int8 layer)");
}

TEST(tune_refuses_damaged_texts) {
    const std::string good = line;
    auto changed = [&](const char *from, const char *to) {
        std::string text = good;
        return read_lines(text.replace(text.find(from), strlen(from), to));
    };
    check_named(changed("\n", " \n"), status_file_format, "ns");
    check_named(changed("\n", "\r\n"), status_file_format, "ns");
    check_named(changed("\n", " more=1\n"), status_file_format, "ns");
    check_named(changed(" cin=", "  cin="), status_file_format, "cin");
    check_named(changed("tiles=2 slices=1", "slices=1 tiles=2"), status_file_format, "tiles");
    check_named(read_lines(" " + good), status_file_format, "capability");
    check_named(read_lines("\n" + good), status_file_format, "capability");
    std::vector<tune_record> none;
    for (const char *head :
         {"", "\n", "spira tuning records, version", "capability=90",
          "spira tuning records, version 3\n", "spira tuning records, version 44\n"}) {
        check_named(read_text(head + good, &none), status_file_format, "version");
    }
    check_named(read_text(SPIRA_TUNE_HEAD + good + good, &none, 1), status_capacity, "records");
    CHECK_EQUAL(none.size(), (size_t)1);
}

TEST(tune_text_refuses_arguments) {
    char *text = guarded_new<char>(2 * tune_line_most);
    tune_record r = record_cut(1000, 5000);
    int count;
    check_named(tune_write_text(nullptr, 1, text, 2 * tune_line_most), status_null_pointer,
                "records");
    check_named(tune_write_text(&r, 1, nullptr, 2 * tune_line_most), status_null_pointer, "text");
    check_named(tune_write_text(&r, 1, text, 2 * tune_line_most - 1), status_capacity, "text");
    check_named(tune_write_text(&r, -1, text, 2 * tune_line_most), status_capacity, "text");
    CHECK(guarded_untouched(text, 0, 2 * tune_line_most));
    check_named(tune_record_check(nullptr), status_null_pointer, "record");
    check_named(tune_layer_check(nullptr, &r.key), status_null_pointer, "record (key)");
    check_named(tune_layer_check(&r, nullptr), status_null_pointer, "record (key)");
    CHECK(!tune_find(nullptr, 1, &r.key) && !tune_find(&r, 1, nullptr));
    check_named(tune_read_text(nullptr, 0, &r, 1, &count), status_null_pointer, "text");
    check_named(tune_read_text("", 0, nullptr, 1, &count), status_null_pointer, "records");
    check_named(tune_read_text("", 0, &r, 1, nullptr), status_null_pointer, "records");
}

// ---- keys and look-ups --------------------------------------------------------------------------

TEST(tune_keys_have_steps) {
    const int64_t counts[][2] = {
        {0, 1},         {1, 1},         {2, 2},         {3, 2},
        {65535, 32768}, {65536, 65536}, {91766, 65536}, {INT32_MAX, 1 << 29}};
    for (const int64_t *c : counts) {
        CHECK_EQUAL(tune_key_make(&gpu, &shape, c[0], 0, false).outputs, c[1]);
    }
    const int64_t pairs[][3] = {
        {91766, 346220, 2}, {345087, 2533643, 4}, {100, 99, 1}, {0, 0, 1}, {100, 2700, 16}};
    for (const int64_t *c : pairs) {
        CHECK_EQUAL(tune_key_make(&gpu, &shape, c[0], c[1], false).density, c[2]);
    }
}

TEST(tune_find_takes_the_nearest) {
    const tune_record records[] = {record_cut(1 << 16, 1 << 17), record_cut(1 << 18, 1 << 20),
                                   record_cut(1 << 16, 1 << 18), record_cut(1 << 18, 1 << 20),
                                   record_cut(1 << 24, 1 << 28), record_cut(1 << 26, 1 << 26)};
    const struct {
        int outputs, density, count, found; // powers of two; density -1: unknown
    } cases[] = {
        {16, 1, 6, 0},  // the key itself
        {16, 2, 6, 2},  //
        {18, 2, 6, 1},  // of two with the same key the first
        {16, 2, 1, 0},  //
        {17, 1, 6, 0},  // one step
        {17, 2, 6, 1},  // one step from 1 and from 2: the first
        {16, 3, 6, 2},  //
        {15, 0, 6, 0},  // two steps
        {13, 1, 6, -1}, // three
        {21, 2, 4, -1}, //
        {16, 1, 0, -1}, //
        {26, 4, 6, 4},  // two steps; the outputs alone would be
        {26, -1, 6, 5}, //
        {24, -1, 6, 4}, //
        {29, -1, 6, -1},
    };
    for (const auto &c : cases) {
        tune_key key = records[0].key;
        key.outputs = 1 << c.outputs;
        key.density = c.density < 0 ? 0 : 1 << c.density;
        const tune_record *r = tune_find(records, c.count, &key);
        CHECK_EQUAL(r ? (int)(r - records) : -1, c.found);
    }
}

// A record of another GPU, layer or promise is refused by the name of what differs; whatever the
// counts are.
TEST(tune_find_keeps_layers_apart) {
    const tune_record record = record_cut(1000, 5000);
    CHECK(tune_find(&record, 1, &record.key) == &record);
    for (int member = 0; member < tune_members; ++member) {
        tune_values v = tune_values_of(&record);
        tune_record other;
        v.of[member] = v.of[member] * 2 + 1;
        memcpy(&other, &v, sizeof other);
        const bool layer = member < tune_members_layer;
        CHECK_EQUAL(tune_find(&record, 1, &other.key) == nullptr, layer);
        if (layer) {
            check_named(tune_layer_check(&record, &other.key), status_unsupported,
                        tune_name(member));
        }
    }
}
