// tests/host/blob.cpp: blob.h and net_blob.h: the format, and parameters from it and to it; the
// files of the scan example, in build/tmp.
#include "../support/reference_net.h"

#include "../../examples/scan_weights.h"
#include "../../spira/blob.h"
#include "../../spira/net_blob.h"

#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

using namespace spira;

namespace {

// ---- blobs, put together here from the description of the format
// ---------------------------------

struct item {
    const char *name;
    uint32_t kind, type;
    uint32_t shape[5];
};

// The example of most tests: three types, all kinds, two weights, one of them of a single byte
// pair.
const item example[] = {
    {"stem", 0, 0, {3, 1, 2, 2, 3}},   {"stem", 1, 0, {1, 1, 1, 1, 3}},
    {"stem", 2, 3, {1, 1, 1, 1, 3}},   {"stem", 3, 2, {1, 1, 1, 1, 3}},
    {"down.1", 0, 2, {1, 1, 1, 1, 1}},
};
enum { example_count = sizeof example / sizeof *example };

void put(char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
        at[i] = (char)(value >> 8 * i);
    }
}

uint64_t get(const char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
        value |= (uint64_t)(unsigned char)at[i] << 8 * i;
    }
    return value;
}

// CRC-32 bit by bit.
uint32_t crc_of(const char *data, size_t bytes) {
    uint32_t sum = ~0u;
    for (size_t i = 0; i < bytes * 8; ++i) {
        uint32_t bit = ((uint32_t)(unsigned char)data[i / 8] >> i % 8 ^ sum) & 1;
        sum = sum >> 1 ^ (bit ? 0xedb88320u : 0);
    }
    return ~sum;
}

// The header's checksum, made right for what stands in memory.
void sign(char *blob, size_t bytes) {
    size_t end = 32 + 112 * (size_t)get(blob + 24, 4);
    if (bytes >= end) {
        put(blob + 12, crc_of(blob + 16, end - 16), 4);
    }
}

uint64_t elements_of(const item *t) {
    return (uint64_t)t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3] * t->shape[4];
}

// Element n of an item, exact in all types.
float value_of(const item *t, uint64_t n) {
    return (float)((int)(n * 7 + t->kind * 3) % 31 - 15) / 8;
}

std::string blob_by_hand(const item *items, int count) {
    std::string blob((size_t)(32 + 112 * count), '\0');
    memcpy(&blob[0], "spirablb", 8);
    put(&blob[8], 1, 4);
    put(&blob[24], (uint64_t)count, 4);
    put(&blob[28], 112, 4);
    for (int i = 0; i < count; ++i) {
        const item *t = &items[i];
        blob.resize((blob.size() + 255) / 256 * 256, '\0');
        uint64_t at = blob.size(), elements = elements_of(t), width = t->type ? 2 : 4;
        blob.resize((size_t)(at + elements * width), '\0');
        for (uint64_t n = 0; n < elements; ++n) {
            float f = value_of(t, n);
            put(&blob[(size_t)(at + n * width)],
                t->type == 0   ? float_bits(f)
                : t->type == 2 ? f16_from_float(f)
                               : bf16_from_float(f),
                (int)width);
        }
        char *e = &blob[(size_t)(32 + 112 * i)];
        memcpy(e, t->name, strlen(t->name));
        put(e + 64, t->kind, 4);
        put(e + 68, t->type, 4);
        for (int d = 0; d < 5; ++d) {
            put(e + 72 + 4 * d, t->shape[d], 4);
        }
        put(e + 92, crc_of(&blob[(size_t)at], (size_t)(elements * width)), 4);
        put(e + 96, at, 8);
        put(e + 104, elements * width, 8);
    }
    put(&blob[16], blob.size(), 8);
    sign(&blob[0], blob.size());
    return blob;
}

// A copy of exactly this size, between sentinels, or between the red zones of a sanitizer.
char *exact(const char *data, size_t bytes) {
    char *copy = guarded_new<char>((int64_t)bytes);
    memcpy(copy, data, bytes);
    return copy;
}

// Blobs of changing sizes, each freed at once: for loops that are long.
struct copied {
    char *data;

    copied(const std::string &blob, size_t bytes) : data(nullptr) {
        if (posix_memalign((void **)&data, 256, bytes ? bytes : 1)) {
            abort();
        }
        memcpy(data, blob.data(), bytes);
    }
    copied(const copied &) = delete;
    ~copied() {
        free(data);
    }
};

bool says(status s, const char *words) {
    return status_failed(s) && strstr(s.subject, words) != nullptr;
}

// ---- networks -----------------------------------------------------------------------------------

// Strides 1, 2 and 1, two sources, a bias, a norm, both and neither; a pooling layer without a
// name.
void network_mixed(networks::network *n) {
    n->count = 0;
    n->input_channels = 3;
    int a = reference_net_plain(n, net_input, 5, {3, 1, 2}, {1, 1, 1});
    n->layers[a].bias = true;
    int b = networks::network_conv(n, "down", a, 4, 2, 2);
    int c = reference_net_pool(n, net_pool_max, b, {3, 3, 3}, {1, 1, 1});
    n->layers[c].name = nullptr;
    int d = networks::network_conv(n, "up", c, 6, 2, 2);
    n->layers[d].transposed = true;
    n->layers[d].bias = true;
    int e = networks::network_conv(n, "both", d, 2, 1, 1);
    n->layers[e].source2 = a;
    n->layers[e].norm = false;
}
enum { mixed_plain, mixed_down, mixed_pool, mixed_up, mixed_both };

status plan_of(const networks::network *n, net_plan *plan) {
    net_limits limits = {};
    limits.voxels = 10;
    limits.channels = n->input_channels;
    return net_plan_sets(n->layers, n->count, &limits, false, plan);
}

// The plan of network_mixed, its parameters, and its blob.
struct mixed {
    networks::network net;
    net_plan plan;
    std::vector<float> params;
    std::vector<float> got;
    char *memory;
    size_t bytes;
    blob b = {};
};

std::unique_ptr<mixed> mixed_new(numeric type) {
    std::unique_ptr<mixed> m(new mixed);
    network_mixed(&m->net);
    CHECK_OK(plan_of(&m->net, &m->plan));
    random_state r = random_make(4);
    for (int64_t i = 0; i < m->plan.params; ++i) {
        m->params.push_back(random_float(&r));
    }
    m->got.resize(m->params.size());
    CHECK_OK(net_blob_bytes(&m->plan, type, &m->bytes));
    m->memory = guarded_new<char>((int64_t)m->bytes);
    CHECK_OK(net_blob_write(&m->plan, m->params.data(), type, m->memory, m->bytes, &m->b));
    return m;
}

// Parameters on their way through a blob; `unused` is -1 after an error.
status mixed_read(mixed *m, const blob *b, int *unused) {
    *unused = -1;
    return net_blob_read(&m->plan, b, m->got.data(), unused);
}

// The fault of a blob by hand: the layer and words of its text.
void check_misfit(mixed *m, const std::vector<item> &items, int layer, const char *words,
                  int line) {
    std::string file = blob_by_hand(items.data(), (int)items.size());
    copied memory(file, file.size());
    blob b = {};
    int unused;
    CHECK_OK(blob_open(memory.data, file.size(), &b));
    status s = mixed_read(m, &b, &unused);
    char text[256];
    snprintf(text, sizeof text, "layer %d, \"%s\": got %d, layer %d, \"%s\"", layer, words,
             (int)s.code, (int)s.detail, s.subject);
    test_check(s.code == status_layer && s.detail == layer && says(s, words), __FILE__, line, text);
    CHECK_EQUAL(unused, -1);
}

// What a blob for network_mixed holds.
const item mixed_items[] = {
    {"plain", 0, 0, {3, 1, 2, 3, 5}}, {"plain", 1, 0, {1, 1, 1, 1, 5}},
    {"down", 0, 0, {2, 2, 2, 5, 4}},  {"down", 2, 0, {1, 1, 1, 1, 4}},
    {"down", 3, 0, {1, 1, 1, 1, 4}},  {"up", 0, 0, {2, 2, 2, 4, 6}},
    {"up", 1, 0, {1, 1, 1, 1, 6}},    {"up", 2, 0, {1, 1, 1, 1, 6}},
    {"up", 3, 0, {1, 1, 1, 1, 6}},    {"both", 0, 0, {1, 1, 1, 11, 2}},
};
const int mixed_layer[] = {0, 0, 1, 1, 1, 3, 3, 3, 3, 4};

std::vector<item> mixed_list() {
    return std::vector<item>(mixed_items, mixed_items + sizeof mixed_items / sizeof *mixed_items);
}

} // namespace

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
    for (int i = 0; i < 4097; ++i) {
        names.push_back("layer" + std::to_string(i));
    }
    for (int i = 0; i < 4097; ++i) {
        items.push_back({names[(size_t)i].c_str(), 0, 2, {1, 1, 1, 1, 1}});
    }
    blob b = {};
    std::string file = blob_by_hand(items.data(), 4096);
    REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    CHECK_EQUAL(blob_find(&b, "layer4095", blob_weight), 4095);
    file = blob_by_hand(items.data(), 4097);
    status s = blob_open(exact(file.data(), file.size()), file.size(), &b);
    CHECK_STATUS(s, status_file_format);
    CHECK_EQUAL(s.detail, 4097);
    blob_writer w = {};
    CHECK_STATUS(blob_write_begin(nullptr, 0, 4097, &w), status_bad_size);
}

// ---- damage: nothing of it passes, and nothing is read beyond the end
// ----------------------------

TEST(blob_cut_short_anywhere_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    size_t index = 32 + 112 * example_count;
    for (size_t bytes = 0; bytes < file.size(); ++bytes) {
        copied memory(file, bytes);
        blob b = {};
        status s = blob_open(memory.data, bytes, &b);
        CHECK_STATUS(s, status_file_format);
        CHECK(says(s, bytes < 32      ? "header is cut"
                      : bytes < index ? "index is cut"
                                      : "data are cut"));
        CHECK_EQUAL(s.detail, (int64_t)bytes);
        CHECK(!b.base && !b.bytes && !b.entries);
    }
}

// The same where the header has been made to agree with the length.
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
    blob b = {};
    for (size_t more : {1, 8, 256, 4096}) {
        std::string longer = file + std::string(more, '\0');
        copied memory(longer, longer.size());
        CHECK(says(blob_open(memory.data, longer.size(), &b), "longer than its header"));
        put(memory.data + 16, longer.size(), 8);
        sign(memory.data, longer.size());
        CHECK(says(blob_open(memory.data, longer.size(), &b), "behind the last data"));
    }
}

TEST(blob_with_any_bit_flipped_is_refused) {
    std::string file = blob_by_hand(example, example_count);
    size_t index = 32 + 112 * example_count;
    for (size_t bit = 0; bit < 8 * index; ++bit) {
        copied memory(file, file.size());
        memory.data[bit / 8] = (char)(memory.data[bit / 8] ^ 1 << bit % 8);
        blob b = {};
        CHECK_STATUS(blob_open(memory.data, file.size(), &b), status_file_format);
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
        {8, 4, 0, 0, "a version"},
        {8, 4, 2, 2, "a version"},
        {8, 4, 0x01000000, 0x01000000, "a version"},
        {16, 8, 0, -1, "longer than"},
        {16, 8, UINT64_MAX, -1, "cut short"},
        {24, 4, 0, -1, "behind the last data"},
        {24, 4, 4, -1, "behind the last data"},
        {24, 4, 4097, 4097, "more than 4096"},
        {24, 4, UINT32_MAX, UINT32_MAX, "more than 4096"},
        {28, 4, 0, 0, "112 bytes"},
        {28, 4, 128, 128, "112 bytes"},
        {32 + 0, 1, 0, 2, "no name"},
        {32 + 6, 1, 'x', 2, "behind the end of a name"},
        {32 + 63, 1, 'x', 2, "behind the end of a name"},
        {32 + 64, 4, 4, 2, "unknown kind"},
        {32 + 64, 4, UINT32_MAX, 2, "unknown kind"},
        {32 + 64, 4, 3, 3, "there twice"}, // found at the second of the two
        {32 + 64, 4, 1, 2, "there twice"},
        {32 + 68, 4, 1, 2, "unknown type"}, // tf32
        {32 + 68, 4, 4, 2, "unknown type"},
        {32 + 68, 4, UINT32_MAX, 2, "unknown type"},
        {32 + 68, 4, 0, 2, "not those of the shape"},
        {32 + 72, 4, 0, 2, "without elements"},
        {32 + 72, 4, 2, 2, "no vector"},
        {32 + 76, 4, 0, 2, "without elements"},
        {32 + 80, 4, UINT32_MAX, 2, "larger than"},
        {32 + 84, 4, 3, 2, "no vector"},
        {32 + 88, 4, 0, 2, "without elements"},
        {32 + 88, 4, 2, 2, "not those of the shape"},
        {32 + 88, 4, 4, 2, "not those of the shape"},
        {32 + 88, 4, UINT32_MAX, 2, "larger than"},
        {32 + 96, 8, 0, 2, "overlap"}, // the header
        {32 + 96, 8, 512, 2, "overlap"},
        {32 + 96, 8, 1024 + 255, 2, "not aligned"},
        {32 + 96, 8, 1024 + 4, 2, "not aligned"},
        {32 + 96, 8, (uint64_t)1 << 40, 2, "beyond the end"},
        {32 + 96, 8, UINT64_MAX - 255, 2, "beyond the end"},
        {32 + 104, 8, 0, 2, "not those of the shape"},
        {32 + 104, 8, 7, 2, "not those of the shape"},
        {32 + 104, 8, UINT64_MAX, 2, "not those of the shape"},
    };
    std::string file = blob_by_hand(example, example_count);
    for (auto f : bad) {
        copied memory(file, file.size());
        put(memory.data + (f.at < 32 ? f.at : f.at + 224), f.value, f.bytes);
        sign(memory.data, get(memory.data + 24, 4) > 4096 ? 0 : file.size());
        blob b = {};
        status s = blob_open(memory.data, file.size(), &b);
        char text[200];
        snprintf(text, sizeof text, "field %d = %llu: expected \"%s\", %lld, got \"%s\", %lld",
                 f.at, (unsigned long long)f.value, f.words, (long long)f.detail, s.subject,
                 (long long)s.detail);
        test_check(s.code == status_file_format && says(s, f.words) &&
                       (f.detail < 0 || s.detail == f.detail) && !b.base,
                   __FILE__, __LINE__, text);
    }
}

TEST(blob_name_that_does_not_end) {
    std::string file = blob_by_hand(example, example_count);
    memset(&file[32 + 112], 'n', 64);
    sign(&file[0], file.size());
    blob b = {};
    status s = blob_open(exact(file.data(), file.size()), file.size(), &b);
    CHECK(says(s, "does not end"));
    CHECK_EQUAL(s.detail, 1);
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
        blob b = {};
        CHECK(says(blob_open(memory.data, file.size(), &b), "larger than"));
    }
}

TEST(blob_offset_whose_end_wraps_is_refused) {
    item t = {"a", 0, 0, {1, 1, 1, 8, 16}}; // 512 bytes
    std::string file = blob_by_hand(&t, 1);
    for (uint64_t offset : {UINT64_MAX - 255, UINT64_MAX - 511, (uint64_t)1 << 63}) {
        put(&file[32 + 96], offset, 8);
        sign(&file[0], file.size());
        blob b = {};
        status s = blob_open(exact(file.data(), file.size()), file.size(), &b);
        CHECK(says(s, "beyond the end"));
        CHECK_EQUAL(s.detail, 0);
    }
}

// Index bytes at random, signed: what is accepted can be loaded, and nothing reads beyond the end.
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
    CHECK_STATUS(blob_write_end(&w, &b), status_bad_size); // one was announced and not added
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

// ---- the parameters of networks -----------------------------------------------------------------

TEST(net_blob_round_trips_networks) {
    for (const char *name : {"SparseResNet21", "MinkUNet42"}) {
        std::unique_ptr<networks::network> n(new networks::network);
        std::unique_ptr<net_plan> plan(new net_plan);
        REQUIRE(networks::network_make(name, n.get()));
        REQUIRE_OK(plan_of(n.get(), plan.get()));
        float *params = guarded_new<float>(plan->params), *got = guarded_new<float>(plan->params);
        networks::network_weights(plan.get(), 7, params);
        size_t bytes;
        blob b = {};
        int unused;
        REQUIRE_OK(net_blob_bytes(plan.get(), numeric_f32, &bytes));
        char *memory = guarded_new<char>((int64_t)bytes);
        REQUIRE_OK(net_blob_write(plan.get(), params, numeric_f32, memory, bytes, &b));
        CHECK_EQUAL(b.bytes, bytes);
        REQUIRE_OK(net_blob_read(plan.get(), &b, got, &unused));
        CHECK_EQUAL(unused, 0);
        CHECK(!memcmp(params, got, (size_t)plan->params * sizeof(float)));
        if (test_quick()) {
            break;
        }
    }
}

TEST(net_blob_rounds_weights_alone) {
    for (numeric type : {numeric_f32, numeric_f16, numeric_bf16}) {
        auto m = mixed_new(type);
        int unused;
        REQUIRE_OK(mixed_read(m.get(), &m->b, &unused));
        CHECK_EQUAL(unused, 0);
        for (int i = 0; i < m->plan.layer_count; ++i) {
            if (!net_is_conv(&m->plan.layers[i])) {
                continue;
            }
            net_params at = net_params_of(&m->plan, i);
            for (int64_t p = at.weight; p < at.end; ++p) {
                float f = m->params[(size_t)p];
                CHECK_EQUAL(m->got[(size_t)p], p < at.vectors ? numeric_stored(type, f) : f);
            }
        }
    }
}

TEST(net_blob_finds_entries_in_any_order) {
    auto m = mixed_new(numeric_f32);
    std::vector<item> items = mixed_list(), reversed(items.rbegin(), items.rend());
    std::string a = blob_by_hand(items.data(), (int)items.size());
    std::string z = blob_by_hand(reversed.data(), (int)items.size());
    blob b = {};
    int unused;
    REQUIRE_OK(blob_open(exact(a.data(), a.size()), a.size(), &b));
    REQUIRE_OK(mixed_read(m.get(), &b, &unused));
    std::vector<float> forward = m->got;
    REQUIRE_OK(blob_open(exact(z.data(), z.size()), z.size(), &b));
    REQUIRE_OK(mixed_read(m.get(), &b, &unused));
    CHECK(forward == m->got);
    for (size_t t = 0; t < items.size(); ++t) { // each entry stands where net_params says
        net_params at = net_params_of(&m->plan, mixed_layer[t]);
        const int64_t place[] = {at.weight, at.bias, at.scale, at.shift};
        for (uint64_t n = 0; n < elements_of(&items[t]); ++n) {
            CHECK_EQUAL(forward[(size_t)(place[items[t].kind] + (int64_t)n)],
                        value_of(&items[t], n));
        }
    }
}

TEST(net_blob_counts_entries_of_no_layer) {
    auto m = mixed_new(numeric_f32);
    std::vector<item> items = mixed_list();
    items.insert(items.begin(), {"head", 0, 0, {1, 1, 1, 2, 7}});
    items.push_back({"head", 1, 2, {1, 1, 1, 1, 7}});
    std::string file = blob_by_hand(items.data(), (int)items.size());
    blob b = {};
    int unused;
    REQUIRE_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    REQUIRE_OK(mixed_read(m.get(), &b, &unused));
    CHECK_EQUAL(unused, 2);
}

TEST(net_blob_names_what_is_lacking) {
    auto m = mixed_new(numeric_f32);
    static const char *const words[] = {"lacks its weight", "lacks its bias", "lacks its scale",
                                        "lacks its shift"};
    for (size_t t = 0; t < mixed_list().size(); ++t) {
        std::vector<item> items = mixed_list();
        uint32_t kind = items[t].kind;
        items.erase(items.begin() + (int)t);
        check_misfit(m.get(), items, mixed_layer[t], words[kind], __LINE__);
    }
}

TEST(net_blob_names_what_is_not_wanted) {
    auto m = mixed_new(numeric_f32);
    const struct {
        item more;
        int layer;
        const char *words;
    } cases[] = {{{"plain", 2, 0, {1, 1, 1, 1, 5}}, mixed_plain, "has no norm"},
                 {{"plain", 3, 0, {1, 1, 1, 1, 5}}, mixed_plain, "has no norm"},
                 {{"down", 1, 0, {1, 1, 1, 1, 4}}, mixed_down, "has none"},
                 {{"both", 1, 2, {1, 1, 1, 1, 2}}, mixed_both, "has none"}};
    for (auto c : cases) {
        std::vector<item> items = mixed_list();
        items.push_back(c.more);
        check_misfit(m.get(), items, c.layer, c.words, __LINE__);
    }
}

TEST(net_blob_names_another_shape) {
    auto m = mixed_new(numeric_f32);
    static const char *const words[] = {"cin + cin2, cout]", "its bias", "its scale", "its shift"};
    for (size_t t = 0; t < mixed_list().size(); ++t) {
        for (int d = 0; d < 5; ++d) {
            std::vector<item> items = mixed_list();
            items[t].shape[d] += 1;
            if (items[t].kind == 0 || d == 4) {
                check_misfit(m.get(), items, mixed_layer[t], words[items[t].kind], __LINE__);
            }
        }
    }
    std::vector<item> items = mixed_list();
    std::swap(items[0].shape[0], items[0].shape[2]); // the same volume
    check_misfit(m.get(), items, mixed_plain, "its weight", __LINE__);
    items = mixed_list();
    std::swap(items[5].shape[3], items[5].shape[4]); // cin and cout
    check_misfit(m.get(), items, mixed_up, "its weight", __LINE__);
}

TEST(net_blob_names_the_layer_with_damaged_data) {
    auto m = mixed_new(numeric_bf16);
    for (int i = 0; i < m->b.entries; ++i) {
        blob_entry e = blob_entry_of(&m->b, i);
        char *last = m->memory + e.offset + e.bytes - 1;
        *last = (char)(*last ^ 1);
        int unused;
        status s = mixed_read(m.get(), &m->b, &unused);
        CHECK_STATUS(s, status_layer);
        CHECK_EQUAL(s.detail, mixed_layer[i]);
        CHECK(says(s, "checksum"));
        *last = (char)(*last ^ 1);
    }
}

TEST(net_blob_wants_names_of_their_own) {
    auto m = mixed_new(numeric_f32);
    std::string longest(63, 'n'), longer(64, 'n');
    const struct {
        const char *name;
        const char *words; // null: good
    } cases[] = {{nullptr, "no name"},
                 {"", "no name"},
                 {longer.c_str(), "63 bytes"},
                 {"plain", "earlier layer"},
                 {longest.c_str(), nullptr}};
    for (auto c : cases) {
        m->net.layers[mixed_up].name = c.name;
        int unused;
        size_t bytes;
        status read = mixed_read(m.get(), &m->b, &unused);
        status size = net_blob_bytes(&m->plan, numeric_f32, &bytes);
        CHECK_STATUS(read, status_layer);
        CHECK_EQUAL(read.detail, (int64_t)mixed_up);
        CHECK(says(read, c.words ? c.words : "lacks"));
        CHECK_STATUS(size, c.words ? status_layer : status_ok);
    }
}

TEST(net_blob_names_bad_arguments) {
    auto m = mixed_new(numeric_f32);
    int unused;
    size_t bytes;
    float *got = m->got.data();
    const float *params = m->params.data();
    const numeric f32 = numeric_f32;
    CHECK_STATUS(net_blob_read(nullptr, &m->b, got, &unused), status_null_pointer);
    CHECK_STATUS(net_blob_read(&m->plan, nullptr, got, &unused), status_null_pointer);
    CHECK_STATUS(net_blob_read(&m->plan, &m->b, nullptr, &unused), status_null_pointer);
    CHECK_STATUS(net_blob_read(&m->plan, &m->b, got, nullptr), status_null_pointer);
    CHECK_STATUS(net_blob_bytes(nullptr, f32, &bytes), status_null_pointer);
    CHECK_STATUS(net_blob_bytes(&m->plan, f32, nullptr), status_null_pointer);
    CHECK_STATUS(net_blob_bytes(&m->plan, numeric_tf32, &bytes), status_file_format);
    blob b = {};
    char *memory = guarded_new<char>((int64_t)m->bytes - 1);
    CHECK_STATUS(net_blob_write(nullptr, params, f32, memory, m->bytes, &b), status_null_pointer);
    CHECK_STATUS(net_blob_write(&m->plan, nullptr, f32, memory, m->bytes, &b), status_null_pointer);
    CHECK_STATUS(net_blob_write(&m->plan, params, f32, nullptr, m->bytes, &b), status_null_pointer);
    CHECK_STATUS(net_blob_write(&m->plan, params, f32, memory, m->bytes, nullptr),
                 status_null_pointer);
    status s = net_blob_write(&m->plan, params, f32, memory, m->bytes - 1, &b);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, (int64_t)m->bytes);
}

// What stands in a blob does not depend on the side or the capacities of the plan.
TEST(net_blob_is_the_same_for_every_plan) {
    auto m = mixed_new(numeric_f32);
    std::unique_ptr<net_plan> other(new net_plan);
    net_limits limits = {};
    limits.voxels = 12345;
    limits.channels = m->net.input_channels;
    limits.type = numeric_f16;
    REQUIRE_OK(net_plan_sets(m->net.layers, m->net.count, &limits, true, other.get()));
    REQUIRE(other->params == m->plan.params);
    int unused;
    REQUIRE_OK(net_blob_read(other.get(), &m->b, m->got.data(), &unused));
    CHECK(m->got == m->params);
}

// ---- files of the example -----------------------------------------------------------------------

TEST(weights_in_files_are_never_overwritten) {
    const char *path = "build/tmp/weights.blob", *none = "build/tmp/no_such.blob";
    mkdir("build", 0777);
    mkdir("build/tmp", 0777);
    remove(path);
    auto m = mixed_new(numeric_f32);
    int unused;
    REQUIRE_OK(weights::write(path, &m->plan, m->params.data()));
    REQUIRE_OK(weights::read(path, &m->plan, m->got.data(), &unused));
    CHECK(m->got == m->params);
    std::vector<float> others(m->params.size(), 1.0f);
    status s = weights::write(path, &m->plan, others.data());
    CHECK_STATUS(s, status_file_open);
    CHECK_EQUAL(s.detail, EEXIST);
    REQUIRE_OK(weights::read(path, &m->plan, m->got.data(), &unused));
    CHECK(m->got == m->params);
    CHECK_STATUS(weights::read(none, &m->plan, m->got.data(), &unused), status_file_open);
    CHECK_STATUS(weights::read("build/tmp", &m->plan, m->got.data(), &unused), status_file_open);
    REQUIRE_OK(scan::scan_write_bytes(path, "", 0));
    CHECK_STATUS(weights::read(path, &m->plan, m->got.data(), &unused), status_file_empty);
    REQUIRE_OK(scan::scan_write_bytes(path, m->memory, (int64_t)m->bytes - 1));
    CHECK_STATUS(weights::read(path, &m->plan, m->got.data(), &unused), status_file_format);
    remove(path);
}

// Of what cannot be written as a whole nothing is left, so that it can be tried again.
TEST(weights_are_written_whole_or_not) {
    const char *path = "build/tmp/half.blob";
    mkdir("build", 0777);
    mkdir("build/tmp", 0777);
    remove(path);
    const std::vector<char> bytes(100000, 'x');
    rlimit before;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit less = {50000, before.rlim_max};
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &less) == 0);
    const status s = weights::file_write(path, bytes.data(), bytes.size());
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    CHECK_STATUS(s, status_file_open);
    CHECK_EQUAL(s.detail, EFBIG);
    CHECK_OK(weights::file_write(path, bytes.data(), bytes.size()));
    remove(path);
}
