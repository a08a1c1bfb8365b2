// tests/host/tune.cpp: tuning records: their text there and back, how one is found, two tables
// compared, and the bound that a result is judged by.
#include "../../spira/tune.h"
#include "../support/reference.h"

#include <string>

using namespace spira;

// The initialiser of a record, and the same as text.
#define TABLE_ROW(...)                                                                             \
    static const tune_record table[] = {__VA_ARGS__};                                              \
    static const char table_text[] = #__VA_ARGS__

// A table as it is compiled in: just what tune_write_initialiser writes.
TABLE_ROW({{{90, 132}, {125, 64, 32, 48, spira::numeric_bf16}, 65536, 8, false},
           {spira::tune_dataflow_hybrid_atomic, 0, 0, 0, 3},
           {103125, 213}}, );

static const char line[] =
    "capability=90 multiprocessors=132 volume=27 cin=16 cin2=0 cout=32 type=fp16 outputs=65536 "
    "density=2 deterministic=1 dataflow=os tiles=2 slices=1 split=4 threshold=0 "
    "us=13.912 error=0.213\n";

static tune_record record_of(const char *text) {
    tune_record r = {};
    CHECK_OK(tune_read_line(text, strlen(text), &r));
    return r;
}

static bool records_same(const tune_record *a, const tune_record *b) {
    const tune_values v = tune_values_of(a), w = tune_values_of(b);
    return memcmp(v.of, w.of, sizeof v.of) == 0;
}

// ---- text ---------------------------------------------------------------------------------------

TEST(tune_line_has_each_field) {
    tune_record r = record_of(line);
    CHECK_EQUAL(r.key.gpu.capability, 90);
    CHECK_EQUAL(r.key.gpu.multiprocessors, 132);
    CHECK_EQUAL(r.key.shape.volume, 27);
    CHECK_EQUAL(r.key.shape.cin, 16);
    CHECK_EQUAL(r.key.shape.cin2, 0);
    CHECK_EQUAL(r.key.shape.cout, 32);
    CHECK_EQUAL(r.key.shape.type, numeric_f16);
    CHECK_EQUAL(r.key.outputs, 65536);
    CHECK_EQUAL(r.key.density, 2);
    CHECK_EQUAL(r.key.deterministic, true);
    CHECK_EQUAL(r.choice.dataflow, tune_dataflow_os);
    CHECK_EQUAL(r.choice.tiles, 2);
    CHECK_EQUAL(r.choice.slices, 1);
    CHECK_EQUAL(r.choice.split, 4);
    CHECK_EQUAL(r.choice.threshold, 0);
    CHECK_EQUAL(r.measure.ns, 13912);
    CHECK_EQUAL(r.measure.error, 213);
    char *text = guarded_new<char>(tune_line_most);
    REQUIRE_OK(tune_write_line(&r, text, tune_line_most));
    CHECK_EQUAL(text, line);
}

// Writes a record, reads it with and without its newline, from memory that ends with it.
static void check_round_trip(const tune_record *r) {
    char *text = guarded_new<char>(tune_line_most);
    REQUIRE_OK(tune_write_line(r, text, tune_line_most));
    const size_t length = strlen(text);
    CHECK(length > 100 && length + 1 < tune_line_most && text[length - 1] == '\n');
    for (size_t part : {length, length - 1}) {
        char *exact = guarded_new<char>((int64_t)part);
        memcpy(exact, text, part);
        tune_record back = {};
        CHECK_OK(tune_read_line(exact, part, &back));
        CHECK(records_same(r, &back));
    }
    CHECK_OK(tune_write_initialiser(r, text, tune_line_most));
    CHECK(strlen(text) + 1 < tune_line_most);
    guarded_finish();
}

// Each field at its least and its most, alone and all together; values that do not go together are
// refused, by both sides alike.
TEST(tune_round_trip_at_the_edges) {
    const int threshold = 14; // the field
    int good = 0, refused = 0;
    for (int dataflow = 0; dataflow < tune_dataflows; ++dataflow) {
        for (int field = -1; field < tune_fields; ++field) {
            for (int most = 0; most < 2; ++most) {
                tune_values v = tune_values_of(&table[0]);
                for (int i = 0; i < tune_fields; ++i) {
                    tune_field f = tune_field_of(i);
                    v.of[i] = field >= 0 && i != field ? v.of[i] : most ? f.most : f.least;
                }
                v.of[tune_field_dataflow] = dataflow;
                if (field >= 0 && field != threshold) {
                    v.of[threshold] = tune_is_hybrid((tune_dataflow)dataflow) ? 3 : 0;
                }
                v.of[8] = tune_step(min_of(v.of[8], v.of[2])); // density
                tune_record r = tune_record_of(&v);
                if (status_failed(tune_record_check(&r))) {
                    char text[tune_line_most];
                    CHECK(status_failed(tune_write_line(&r, text, sizeof text)));
                    ++refused;
                } else {
                    check_round_trip(&r);
                    ++good;
                }
            }
        }
    }
    CHECK(good > 120 && refused > 20);
}

TEST(tune_round_trip_of_random_records) {
    random_state random = random_make(5);
    for (int i = 0; i < (test_quick() ? 50 : 2000); ++i) {
        tune_values v;
        for (int f = 0; f < tune_fields; ++f) {
            tune_field field = tune_field_of(f);
            v.of[f] = field.least +
                      (int64_t)(random_u64(&random) % (uint64_t)(field.most - field.least + 1));
        }
        tune_record r = tune_record_of(&v);
        bool os = r.choice.dataflow == tune_dataflow_os;
        r.key.outputs = tune_step(r.key.outputs);
        r.key.density = tune_step(min_of(r.key.density, r.key.shape.volume));
        r.key.deterministic &= tune_is_deterministic(r.choice.dataflow);
        r.choice.threshold =
            tune_is_hybrid(r.choice.dataflow) ? (int)max_of(r.choice.threshold, 1) : 0;
        bool cut = os && r.choice.tiles && r.choice.slices && r.choice.split;
        r.choice.tiles *= cut;
        r.choice.slices *= cut;
        r.choice.split *= cut;
        check_round_trip(&r);
    }
}

// A reader that is given another decimal point, or none at all, must not take it.
TEST(tune_numbers_are_strict) {
    tune_record r;
    const char *const good[] = {"us=13.912", "us=0.001", "us=1000000000.000"};
    const char *const bad[] = {"us=13,912",
                               "us=13",
                               "us=13.9",
                               "us=13.9120",
                               "us=.912",
                               "us=-13.912",
                               "us=0.000",
                               "us=1e3.000",
                               "us=+13.912",
                               "us=1000000000.001",
                               "us=99999999999999999999999999.000"};
    auto read = [&](const char *us) {
        std::string text = line;
        text.replace(text.find("us="), strlen("us=13.912"), us);
        return tune_read_line(text.data(), text.size(), &r);
    };
    for (const char *us : good) {
        CHECK_OK(read(us));
    }
    for (const char *us : bad) {
        status s = read(us);
        CHECK(status_failed(s));
        CHECK_EQUAL(s.subject, "us");
    }
}

// Cut off after any byte, a line is refused, and the field that is not whole is named. Of a line
// that ends within the digits of its last field, the last field.
TEST(tune_refuses_truncated_lines) {
    const size_t whole = strlen(line) - 1;
    for (size_t length = 0; length < whole; ++length) {
        char *text = guarded_new<char>((int64_t)length);
        memcpy(text, line, length);
        tune_record r = table[0];
        status s = tune_read_line(text, length, &r);
        CHECK(status_failed(s));
        CHECK(records_same(&r, &table[0])); // nothing is written
        const char *field = tune_field_of(0).name;
        for (int i = 0; i < tune_fields; ++i) {
            std::string begin = std::string(i ? " " : "") + tune_field_of(i).name + "=";
            field = strstr(line, begin.c_str()) + (i > 0) <= line + length ? tune_field_of(i).name
                                                                           : field;
        }
        // Just before a space the field is whole, and the next one is missing.
        bool next = line[length] == ' ';
        int at = 0;
        while (strcmp(tune_field_of(at).name, field) != 0) {
            ++at;
        }
        // A number that is cut may still be one: then the next field is missing.
        bool named = strcmp(s.subject, field) == 0 ||
                     (at + 1 < tune_fields && strcmp(s.subject, tune_field_of(at + 1).name) == 0);
        CHECK(next ? strcmp(s.subject, tune_field_of(at + 1).name) == 0 : named);
        guarded_finish();
    }
}

// Replaces the value of a field.
static status read_with(const char *field, const char *value) {
    std::string text = line, begin = std::string(field) + "=";
    size_t at = text[0] == field[0] && text.compare(0, begin.size(), begin) == 0
                    ? 0
                    : text.find(" " + begin) + 1;
    size_t end = text.find_first_of(" \n", at);
    text.replace(at + begin.size(), end - at - begin.size(), value);
    tune_record r;
    return tune_read_line(text.data(), text.size(), &r);
}

static void check_named(status s, status_code code, const char *subject) {
    CHECK_STATUS(s, code);
    CHECK_EQUAL(s.subject, subject);
}

TEST(tune_refuses_damaged_fields) {
    for (int i = 0; i < tune_fields; ++i) {
        tune_field f = tune_field_of(i);
        for (const char *value : {"", "x", "-1", " 1", "1x", "0x10"}) {
            status s = read_with(f.name, value);
            // What follows digits belongs to no field: the next one is missing, or the line goes
            // on.
            bool digits = value[0] == '1' || value[0] == '0';
            const char *next = i + 1 < tune_fields ? tune_field_of(i + 1).name : "line";
            CHECK(status_failed(s));
            CHECK(strcmp(s.subject, f.name) == 0 || (digits && strcmp(s.subject, next) == 0));
        }
    }
    check_named(read_with("volume", "0"), status_bad_size, "volume");
    check_named(read_with("volume", "3376"), status_bad_size, "volume");
    check_named(read_with("cin", "4097"), status_bad_size, "cin");
    check_named(read_with("cin2", "99999999999999999999999999"), status_bad_size, "cin2");
    check_named(read_with("type", "fp8"), status_file_format, "type");
    check_named(read_with("type", "fp160"), status_file_format, "type");
    check_named(read_with("outputs", "65535"), status_bad_size, "outputs");
    check_named(read_with("outputs", "2147483648"), status_bad_size, "outputs");
    check_named(read_with("density", "3"), status_bad_size, "density");
    check_named(read_with("density", "32"), status_bad_size, "density"); // volume 27
    check_named(read_with("deterministic", "2"), status_bad_size, "deterministic");
    check_named(read_with("dataflow", "both"), status_file_format, "dataflow");
    for (const char *atomic : {"ws", "hybrid"}) {
        check_named(read_with("dataflow", atomic), status_unsupported,
                    "dataflow (is not deterministic)");
    }
    for (const char *lists : {"ws-det", "hybrid-det"}) { // are not cut
        check_named(read_with("dataflow", lists), status_bad_size, "tiles (slices, split)");
    }
    check_named(read_with("threshold", "2"), status_bad_size, "threshold"); // of hybrids alone
    check_named(read_with("threshold", "43"), status_bad_size, "threshold");
    check_named(read_with("tiles", "1025"), status_bad_size, "tiles");
    check_named(read_with("slices", "0"), status_bad_size, "tiles (slices, split)");
    check_named(read_with("split", "1025"), status_bad_size, "split");
    check_named(read_with("error", "1.001"), status_bad_size, "error");
}

TEST(tune_refuses_damaged_lines) {
    tune_record r;
    auto read = [&](const std::string &text) {
        return tune_read_line(text.data(), text.size(), &r);
    };
    const std::string good(line, strlen(line) - 1);
    CHECK_OK(read(good));
    check_named(read(good + " "), status_file_format, "line");
    check_named(read(good + "\r\n"), status_file_format, "line");
    check_named(read(good + " more=1"), status_file_format, "line");
    check_named(read(" " + good), status_file_format, "capability");
    std::string twice = good;
    twice.replace(twice.find(" cin="), 1, "  ");
    check_named(read(twice), status_file_format, "cin");
    std::string swapped = good; // fields in another order
    swapped.replace(swapped.find("tiles=2 slices=1"), 16, "slices=1 tiles=2");
    check_named(read(swapped), status_file_format, "tiles");
    std::string nul = good;
    nul[nul.find(" cout")] = 0;
    check_named(read(nul), status_file_format, "cout");
    check_named(read(good + std::string(tune_line_most, ' ')), status_capacity, "line");
    check_named(tune_read_line(nullptr, 1, &r), status_null_pointer, "line");
    check_named(tune_read_line(line, 1, nullptr), status_null_pointer, "record");
}

// One byte, changed to any other: refused, or read as what it says; never as what it was.
TEST(tune_sees_each_byte) {
    char *text = guarded_new<char>(tune_line_most);
    const size_t length = strlen(line) - 1;
    const tune_record was = record_of(line);
    int refused = 0, read = 0;
    for (size_t at = 0; at < length; ++at) {
        for (int byte = 0; byte < 256; ++byte) {
            memcpy(text, line, length);
            text[at] = (char)byte;
            tune_record r;
            if (text[at] == line[at]) {
                continue;
            }
            if (status_failed(tune_read_line(text, length, &r))) {
                ++refused;
                continue;
            }
            CHECK(!records_same(&r, &was));
            ++read;
        }
    }
    CHECK(read > 50 && refused > 200 * (int)length);
}

TEST(tune_head_names_the_version) {
    char *text = guarded_new<char>(tune_line_most);
    REQUIRE_OK(tune_write_head(text, tune_line_most));
    CHECK_EQUAL(text, "spira tuning records, version 3\n");
    CHECK_OK(tune_read_head(text, strlen(text)));
    CHECK_OK(tune_read_head(text, strlen(text) - 1));
    const char *const none[] = {"",
                                "\n",
                                "spira tuning records, version",
                                "capability=90",
                                "spira tuning records, version 3 ",
                                "Spira tuning records, version 3",
                                "spira tuning records, version one"};
    for (const char *head : none) {
        check_named(tune_read_head(head, strlen(head)), status_file_format, "version");
    }
    for (int version : {1, 2, 4}) {
        std::string other = "spira tuning records, version " + std::to_string(version) + "\n";
        status s = tune_read_head(other.data(), other.size());
        check_named(s, status_unsupported, "version");
        CHECK_EQUAL(s.detail, version);
    }
}

TEST(tune_writers_refuse) {
    char *text = guarded_new<char>(tune_line_most);
    tune_record r = table[0];
    check_named(tune_write_line(nullptr, text, tune_line_most), status_null_pointer, "record");
    check_named(tune_write_line(&r, nullptr, tune_line_most), status_null_pointer, "text");
    check_named(tune_write_line(&r, text, tune_line_most - 1), status_capacity, "text");
    check_named(tune_write_initialiser(&r, text, tune_line_most - 1), status_capacity, "text");
    check_named(tune_write_head(text, 3), status_capacity, "text");
    r.key.shape.type = (numeric)4;
    check_named(tune_write_line(&r, text, tune_line_most), status_bad_size, "type");
    r = table[0];
    r.choice.dataflow = (tune_dataflow)-1;
    check_named(tune_write_initialiser(&r, text, tune_line_most), status_bad_size, "dataflow");
    r = table[0];
    r.measure.ns = 0; // nothing was measured
    check_named(tune_write_line(&r, text, tune_line_most), status_bad_size, "us");
    CHECK(guarded_untouched(text, 0, tune_line_most));
}

// What the function writes is what is compiled in above.
TEST(tune_initialiser_compiles) {
    char *text = guarded_new<char>(tune_line_most);
    REQUIRE_OK(tune_write_initialiser(&table[0], text, tune_line_most));
    CHECK_EQUAL(text, (std::string(table_text) + "\n").c_str());
    CHECK_EQUAL(table[0].key.shape.cin2, 32);
    CHECK_EQUAL(table[0].choice.dataflow, tune_dataflow_hybrid_atomic);
    CHECK_EQUAL(table[0].choice.threshold, 3);
    CHECK_EQUAL(table[0].measure.ns, 103125);
}

TEST(tune_reads_a_whole_text) {
    char *row = guarded_new<char>(tune_line_most);
    std::string text;
    REQUIRE_OK(tune_write_head(row, tune_line_most));
    text = std::string(row) + "# a GPU\n\n" + line;
    REQUIRE_OK(tune_write_line(&table[0], row, tune_line_most));
    text += row;
    const tune_record first = record_of(line);
    tune_record *records = guarded_new<tune_record>(2);
    int count = -1;
    for (size_t less = 0; less < 2; ++less) { // the last newline may be missing
        char *exact = guarded_new<char>((int64_t)(text.size() - less));
        memcpy(exact, text.data(), text.size() - less);
        REQUIRE_OK(tune_read_text(exact, text.size() - less, records, 2, &count));
        REQUIRE(count == 2);
        CHECK(records_same(&records[0], &first) && records_same(&records[1], &table[0]));
    }
    check_named(tune_read_text(text.data(), text.size(), records, 1, &count), status_capacity,
                "records");
    CHECK_EQUAL(count, 1);
    text += "capability=90\n";
    check_named(tune_read_text(text.data(), text.size(), guarded_new<tune_record>(3), 3, &count),
                status_file_format, "multiprocessors");
    CHECK_EQUAL(count, 2); // the record at fault
    check_named(tune_read_text("", 0, records, 2, &count), status_file_format, "version");
    check_named(tune_read_text(line, strlen(line), records, 2, &count), status_file_format,
                "version");
    check_named(tune_read_text(nullptr, 0, records, 2, &count), status_null_pointer, "text");
    check_named(tune_read_text("", 0, nullptr, 2, &count), status_null_pointer, "records");
    check_named(tune_read_text("", 0, records, 2, nullptr), status_null_pointer, "records");
}

// ---- keys, look-ups, comparison -----------------------------------------------------------------

static const conv_shape shape = shape_make(27, 16, 0, 32, numeric_f16);

static tune_key key_of(int64_t outputs, int64_t pairs) {
    return tune_key_make({90, 132}, &shape, outputs, pairs, false);
}

static tune_choice choice_os(int tiles) {
    tune_choice c = {};
    c.dataflow = tune_dataflow_os;
    c.tiles = tiles;
    c.slices = c.split = 1;
    return c;
}

static tune_record record_at(int64_t outputs, int64_t pairs, int tiles) {
    tune_key key = key_of(outputs, pairs);
    tune_record r = tune_record_begin(&key);
    tune_choice c = choice_os(tiles);
    CHECK(tune_take(&r, &c, 10.0 * tiles, 0.5));
    return r;
}

TEST(tune_keys_have_steps) {
    const int64_t counts[][2] = {
        {0, 1},         {1, 1},         {2, 2},         {3, 2},
        {65535, 32768}, {65536, 65536}, {91766, 65536}, {INT32_MAX / 2, 1 << 29}};
    for (const int64_t *c : counts) {
        CHECK_EQUAL(key_of(c[0], 0).outputs, c[1]);
    }
    CHECK_EQUAL(key_of(91766, 346220).density, 2); // 3.77
    CHECK_EQUAL(key_of(345087, 2533643).density, 4);
    CHECK_EQUAL(key_of(100, 99).density, 1);
    CHECK_EQUAL(key_of(0, 0).density, 1);
    CHECK_EQUAL(key_of(100, 2700).density, 16);
    CHECK_EQUAL(key_of(100, 2700).gpu.multiprocessors, 132);
    CHECK_EQUAL(key_of(100, 2700).shape.cout, 32);
}

TEST(tune_find_takes_the_nearest) {
    const tune_record records[] = {record_at(1 << 16, 1 << 17, 1), record_at(1 << 18, 1 << 20, 2),
                                   record_at(1 << 16, 1 << 18, 4), record_at(1 << 18, 1 << 20, 3)};
    auto found = [&](int outputs, int density, int count = 4) {
        tune_key key = key_of((int64_t)1 << outputs, (int64_t)1 << (outputs + density));
        const tune_record *r = tune_find(records, count, &key);
        return r ? (int)(r - records) : -1;
    };
    CHECK_EQUAL(found(16, 1), 0); // the key itself
    CHECK_EQUAL(found(16, 2), 2);
    CHECK_EQUAL(found(18, 2), 1); // of two with the same key the first
    CHECK_EQUAL(found(16, 2, 1), 0);
    CHECK_EQUAL(found(17, 1), 0); // one step
    CHECK_EQUAL(found(17, 2), 1); // one step from 1 and from 2: the first
    CHECK_EQUAL(found(16, 3), 2);
    CHECK_EQUAL(found(15, 0), 0);  // two steps
    CHECK_EQUAL(found(13, 1), -1); // three
    CHECK_EQUAL(found(21, 2), -1);
    CHECK_EQUAL(found(16, 1, 0), -1);
    tune_key near = key_of(1 << 17, 1 << 18);
    CHECK(tune_find(records, 4, &near) && !tune_find_same(records, 4, &near));
    CHECK(tune_find_same(records, 4, &records[2].key) == records + 2);
}

// A density that is not known is as near as any.
TEST(tune_find_without_a_density) {
    const tune_record records[] = {record_at(1 << 16, 1 << 20, 1), record_at(1 << 18, 1 << 18, 2),
                                   record_at(1 << 18, 1 << 22, 3)};
    tune_key key = key_of(1 << 18, 0);
    key.density = 0;
    CHECK(tune_find(records, 3, &key) == records + 1);
    CHECK(tune_find(records, 1, &key) == records); // two steps
    key.outputs = 1 << 16;
    CHECK(tune_find(records, 3, &key) == records);
    key.outputs = 1 << 21;
    CHECK(tune_find(records, 3, &key) == nullptr);
    tune_record r = records[0];
    r.key.density = 0;
    check_named(tune_record_check(&r), status_bad_size, "density"); // to look up, not to store
}

// Another layer, GPU or promise is not near.
TEST(tune_find_keeps_layers_apart) {
    const tune_record record = record_at(1000, 5000, 1);
    const tune_key key = record.key;
    CHECK(tune_find(&record, 1, &key) == &record);
    for (int field = 0; field < 10; ++field) {
        tune_record other = record;
        tune_values v = tune_values_of(&other);
        int64_t others[] = {v.of[field] * 2 + 1, (int64_t)numeric_bf16, 1};
        v.of[field] = others[field == tune_field_type ? 1 : field == 9 ? 2 : 0];
        other = tune_record_of(&v);
        bool bucket = field == 7 || field == 8; // outputs, density
        CHECK_EQUAL(tune_find(&record, 1, &other.key) != nullptr, bucket);
    }
}

TEST(tune_take_keeps_the_best) {
    const tune_key key = key_of(1000, 5000);
    tune_record r = tune_record_begin(&key);
    const tune_choice a = choice_os(1), b = choice_os(2);
    CHECK(status_failed(tune_record_check(&r))); // nothing is measured yet
    CHECK(!tune_take(&r, &a, 5, 1.0001));        // wrong
    CHECK(!tune_take(&r, &a, 5, INFINITY));
    CHECK(!tune_take(&r, &a, 5, NAN));
    CHECK(!tune_take(&r, &a, 0, 0.5));
    CHECK(!tune_take(&r, &a, NAN, 0.5));
    CHECK_EQUAL(r.measure.ns, 0);
    CHECK(tune_take(&r, &a, 5, 0.2131));
    CHECK_EQUAL(r.measure.ns, 5000);
    CHECK_EQUAL(r.measure.error, 214); // rounded up
    CHECK(!tune_take(&r, &b, 5, 0));   // no quicker
    CHECK(!tune_take(&r, &b, 1, 2));   // quicker, and wrong
    CHECK(tune_same_choice(&r.choice, &a));
    CHECK(tune_take(&r, &b, 4.9994, 1));
    CHECK(tune_same_choice(&r.choice, &b));
    CHECK_EQUAL(r.measure.ns, 4999);
    CHECK_EQUAL(r.measure.error, 1000);
    CHECK_OK(tune_record_check(&r));
    CHECK(tune_take(&r, &a, 1e-9, 0));
    CHECK_OK(tune_record_check(&r));
}

TEST(tune_compare_finds_what_changed) {
    const tune_record before[] = {record_at(1 << 10, 1 << 12, 4), record_at(1 << 11, 1 << 13, 2),
                                  record_at(1 << 12, 1 << 14, 1)};
    const tune_record after[] = {record_at(1 << 12, 1 << 14, 1), record_at(1 << 13, 1 << 14, 1),
                                 record_at(1 << 10, 1 << 12, 2)};
    tune_difference *d = guarded_new<tune_difference>(3);
    REQUIRE(tune_compare(before, 3, after, 3, d) == 2);
    CHECK(d[0].before == before && d[0].after == after + 2);
    CHECK_EQUAL(d[0].ratio, 0.5);
    CHECK(d[0].changed);
    CHECK(d[1].before == before + 2 && d[1].after == after);
    CHECK_EQUAL(d[1].ratio, 1.0);
    CHECK(!d[1].changed);
    CHECK(guarded_untouched(d, 2, 3));
    CHECK_EQUAL(tune_compare(before, 0, after, 3, d), 0);
    CHECK_EQUAL(tune_compare(before, 3, after, 0, d), 0);
}

// ---- judging ------------------------------------------------------------------------------------

// The bound is that of the tests' own reference.
TEST(tune_bound_agrees_with_the_reference) {
    random_state random = random_make(11);
    for (int i = 0; i < 2000; ++i) {
        float bias = 2 * random_float(&random), scale = 4 * random_float(&random),
              shift = random_float(&random);
        conv_epilogue e = {};
        e.bias = i & 1 ? &bias : nullptr;
        e.scale = i & 2 ? &scale : nullptr;
        e.shift = i & 4 ? &shift : nullptr;
        e.act = (activation)random_int(&random, activation_none, activation_count - 1);
        e.slope = 3 * random_float(&random);
        numeric type = (numeric)random_int(&random, numeric_f32, numeric_bf16);
        double magnitude = 50.0 * fabs((double)random_float(&random));
        double sum = magnitude * (double)random_float(&random), residual = 0.25 * (i % 5);
        int64_t terms = random_int(&random, 0, 4000);
        double error = 2.0 * (double)(terms + 4) * (magnitude / (1 << 24) + 0x1p-149);
        reference_value wanted = reference_epilogue(sum, error, &e, 0, residual, type);
        tune_expected got = tune_expect(sum, magnitude, terms, &e, 0, residual, type);
        CHECK(fabs(got.value - wanted.expected) <= 1e-13 * (1 + fabs(wanted.expected)));
        CHECK(fabs(got.bound - wanted.bound) <= 1e-12 * wanted.bound);
        double near = wanted.expected + 0.7 * wanted.bound;
        CHECK(fabs(tune_error(near, got, type) - reference_ratio(near, wanted, type)) < 1e-4);
    }
}

TEST(tune_error_of_what_is_no_number) {
    const tune_expected small = {1, 0.5}, large = {70000, 1};
    CHECK_EQUAL(tune_error(1.5, small, numeric_f16), 1.0);
    CHECK(isinf(tune_error(NAN, small, numeric_f16)));
    CHECK(isinf(tune_error(INFINITY, small, numeric_f16)));
    CHECK_EQUAL(tune_error(INFINITY, large, numeric_f16), 0.0);
    CHECK(isinf(tune_error(-INFINITY, large, numeric_f16)));
    CHECK(isinf(tune_error(INFINITY, large, numeric_bf16)));
    CHECK(isinf(tune_error(1, {NAN, 1}, numeric_f32)));
}

TEST(tune_samples_are_rows) {
    for (int32_t rows : {1, 2, 3, 64, 1000, 91766, INT32_MAX / 2}) {
        for (int32_t samples : {1, 2, 3, 63, 64, 500, 1000}) {
            if (samples > rows) {
                continue;
            }
            int32_t last = -1;
            bool ascend = true;
            for (int32_t i = 0; i < samples; ++i) {
                int32_t row = tune_sample_row(rows, samples, i);
                ascend &= row > last && row < rows;
                last = row;
            }
            CHECK(ascend);
            CHECK_EQUAL(tune_sample_row(rows, samples, 0), 0);
            CHECK(samples == 1 || last == rows - 1);
        }
    }
}
