// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_blob.cpp: net_blob.h: parameters of networks from a blob and to one; the files of
// the scan example (examples/scan_weights.h), in build/tmp.
#include "../support/blobs.h"
#include "../support/reference_net.h"

#include "../../examples/scan_weights.h"
#include "../../spira/net_blob.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace blobs;
using namespace spira;

namespace {

// ---- networks -----------------------------------------------------------------------------------

// Strides 1, 2 and 1; two sources; a bias, a norm, both, neither; a pooling layer without a name.
void network_mixed(networks::network *n) {
    networks::network_begin(n, 3);
    int a = reference_net_plain(n, net_input, 5, {3, 1, 2}, {1, 1, 1});
    n->layers[a].bias = true;
    int b = networks::network_conv(n, "down", a, 4, 2, 2);
    int c = reference_net_pool(n, net_pool_max, b, {3, 3, 3}, {1, 1, 1});
    n->layers[c].name = nullptr;
    int d = networks::network_conv(n, "up", c, 6, 2, 2);
    n->layers[d].transposed = true;
    n->layers[d].bias = true;
    int e = networks::network_conv(n, "both", d, 2, 1, 1);
    n->layers[e].source2 = net_from(a);
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

// Reads a blob to m->got. *unused is -1 after an error.
status mixed_read(mixed *m, const blob *b, int *unused) {
    *unused = -1;
    return net_blob_read(&m->plan, b, m->got.data(), unused);
}

// Opens and reads a blob by hand.
status mixed_read_by_hand(mixed *m, const std::vector<item> &items, int *unused) {
    const std::string file = blob_by_hand(items.data(), (int)items.size());
    blob b = {};
    CHECK_OK(blob_open(exact(file.data(), file.size()), file.size(), &b));
    return mixed_read(m, &b, unused);
}

// Checks the error of a blob by hand: its layer, and words of its subject.
void check_misfit(mixed *m, const std::vector<item> &items, int layer, const char *words,
                  int line) {
    int unused;
    const status s = mixed_read_by_hand(m, items, &unused);
    char text[256];
    snprintf(text, sizeof text, "layer %d, \"%s\": got %d, layer %d, \"%s\"", layer, words,
             (int)s.code, (int)s.detail, s.subject);
    test_check(s.code == status_layer && s.detail == layer && says(s, words), __FILE__, line, text);
    CHECK_EQUAL(unused, -1);
}

// The entries of a blob for network_mixed.
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

// ---- the parameters of networks -----------------------------------------------------------------

TEST(net_blob_round_trips_networks) {
    for (const char *name : {"SparseResNet21", "MinkUNet42"}) {
        std::unique_ptr<networks::network> n(new networks::network);
        std::unique_ptr<net_plan> plan(new net_plan);
        REQUIRE(networks::network_make(name, n.get()));
        REQUIRE_OK(plan_of(n.get(), plan.get()));
        float *params = guarded_new<float>(plan->params), *got = guarded_new<float>(plan->params);
        networks::network_weights(plan.get(), 7, params);
        size_t bytes = 0;
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
    int unused;
    REQUIRE_OK(mixed_read_by_hand(m.get(), items, &unused));
    std::vector<float> forward = m->got;
    REQUIRE_OK(mixed_read_by_hand(m.get(), reversed, &unused));
    CHECK(forward == m->got);
    for (size_t t = 0; t < items.size(); ++t) { // each entry goes where net_params says
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
    int unused;
    REQUIRE_OK(mixed_read_by_hand(m.get(), items, &unused));
    CHECK_EQUAL(unused, 2);
}

TEST(net_blob_names_what_is_lacking) {
    auto m = mixed_new(numeric_f32);
    static const char *const words[] = {"has no weight", "has no bias", "has no scale",
                                        "has no shift"};
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
    static const char *const words[] = {"", "its bias", "its scale", "its shift"};
    static const char *const sizes[] = {"another size.x", "another size.y", "another size.z",
                                        "other input channels", "other output channels"};
    for (size_t t = 0; t < mixed_list().size(); ++t) {
        for (int d = 0; d < 5; ++d) {
            std::vector<item> items = mixed_list();
            items[t].shape[d] += 1;
            if (items[t].kind == 0 || d == 4) {
                const char *named = items[t].kind ? words[items[t].kind] : sizes[d];
                check_misfit(m.get(), items, mixed_layer[t], named, __LINE__);
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
        CHECK(says(read, c.words ? c.words : "has no"));
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
    float *odd = (float *)((char *)got + 2);
    CHECK_STATUS(net_blob_read(&m->plan, &m->b, odd, &unused), status_alignment);
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

// The content of a blob does not depend on the side or the capacities of the plan.
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

// The path of a file that is not there yet.
static const char *fresh_file() {
    const char *path = "build/tmp/weights.blob";
    mkdir("build", 0777);
    mkdir("build/tmp", 0777);
    remove(path);
    return path;
}

TEST(weights_in_files_are_never_overwritten) {
    const char *path = fresh_file();
    auto m = mixed_new(numeric_f32);
    int unused, misfit;
    const auto read = [&](const char *from) {
        return weights::read(from, &m->plan, m->got.data(), &unused, &misfit);
    };
    REQUIRE_OK(weights::write(path, &m->plan, m->params.data()));
    REQUIRE_OK(read(path));
    CHECK(m->got == m->params && !misfit);
    std::vector<float> others(m->params.size(), 1.0f);
    status s = weights::write(path, &m->plan, others.data());
    CHECK_STATUS(s, status_file_open);
    CHECK_EQUAL(s.detail, EEXIST);
    REQUIRE_OK(read(path));
    CHECK(m->got == m->params);
    CHECK_STATUS(read("build/tmp/no_such.blob"), status_file_open);
    CHECK_STATUS(read("build/tmp"), status_file_open);
    REQUIRE_OK(scan::scan_write_bytes(path, "", 0));
    CHECK_STATUS(read(path), status_file_empty);
    REQUIRE_OK(scan::scan_write_bytes(path, m->memory, (int64_t)m->bytes - 1));
    CHECK_STATUS(read(path), status_file_format);
    remove(path);
}

TEST(weights_of_another_network_are_told_from_damaged_ones) {
    auto m = mixed_new(numeric_f32);
    std::vector<item> other = mixed_list(), wider = other;
    other[0].shape[4] += 1;
    wider[0].shape[3] += 2; // the first layer reads an input of 3 channels
    std::string damaged((const char *)m->memory, m->bytes);
    damaged.back() ^= 1;
    const struct {
        std::string file;
        int misfit;
    } cases[] = {{blob_by_hand(other.data(), (int)other.size()), -1},
                 {blob_by_hand(wider.data(), (int)wider.size()), 5},
                 {damaged, 0}};
    for (const auto &c : cases) {
        const char *path = fresh_file();
        int unused, misfit;
        REQUIRE_OK(scan::scan_write_bytes(path, c.file.data(), (int64_t)c.file.size()));
        CHECK_STATUS(weights::read(path, &m->plan, m->got.data(), &unused, &misfit), status_layer);
        CHECK_EQUAL(misfit, c.misfit);
        remove(path);
    }
}

// A file that cannot be written completely is removed, so that the caller can try again.
TEST(weights_are_written_whole_or_not) {
    const char *path = fresh_file();
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
