// tests/host/order_kernels.cpp: the kernels of order.cuh, run on the host
// (emulate_hopper.h), against the host loop: the same bytes, with the entries that neither writes.
#include "../support/devices.h"
#include "../support/reference.h"

#include "../support/emulate_hopper.h"

#include "../../spira/order.cuh"

namespace spira {
thread_local int32_t order_taps[order_put_threads * (order_word_bits + 1)];
}

using namespace spira;

namespace {

const device_info device = device_made(90, 1, 232448, false);

// ---- maps ---------------------------------------------------------------------------------------

enum fill { fill_none, fill_all, fill_sparse, fill_by_offset, fill_alike, fills };

struct scene {
    kernel_shape kernel;
    int threshold;
    int32_t count, capacity, told; // told: the count in memory, which may exceed the capacity
    fill kind;
    bool compact;
};

scene scene_make(triple size, int32_t count, int32_t capacity, fill kind, bool compact) {
    scene s = {};
    s.kernel = kernel_cube(1, 1);
    s.kernel.size = size;
    s.threshold = map_all;
    s.count = s.told = count;
    s.capacity = capacity;
    s.kind = kind;
    s.compact = compact && compact_takes(&s.kernel);
    return s;
}

bool scene_has(random_state *random, const scene *s, int volume, int32_t row, int k) {
    switch (s->kind) {
    case fill_all:
        return true;
    case fill_sparse:
        return random_int(random, 0, 19) == 0;
    case fill_by_offset:
        return random_int(random, 0, volume) <= k;
    case fill_alike:
        return (row % 7 + k) % 3 == 0;
    default:
        return false;
    }
}

// A layout, its map and the map's compact form. Each array is a guarded buffer of its exact size.
struct arrays {
    order_layout layout;
    int32_t volume;
    int32_t *map, *compact, *count;
};

order_layout layout_new(int32_t groups, int32_t volume) {
    order_layout t;
    t.row = guarded_new<int32_t>((int64_t)groups * order_rows);
    t.mask = guarded_new<uint32_t>((int64_t)groups * order_words(volume));
    t.source = guarded_new<int32_t>((int64_t)groups * volume * order_rows);
    t.schedule = guarded_new<int32_t>(order_pairs(groups));
    t.groups = groups;
    t.volume = volume;
    return t;
}

// Taps that the compact form cannot hold are removed from the map. Rows past the count are garbage.
arrays arrays_make(random_state *random, const scene *s, int32_t extra) {
    arrays a;
    a.volume = kernel_norm_count(&s->kernel, s->threshold, kernel_volume(&s->kernel));
    a.map = guarded_new<int32_t>((int64_t)s->capacity * a.volume);
    for (int32_t row = 0; row < s->count; ++row) {
        int32_t next = random_int(random, 0, 1 << 20);
        for (int k = 0; k < a.volume; ++k) {
            const bool has = scene_has(random, s, a.volume, row, k);
            a.map[(int64_t)row * a.volume + k] = has ? next++ : -1;
        }
    }
    a.compact = nullptr;
    if (s->compact) {
        const int K = s->kernel.size.x, plane = K * K;
        a.compact = (int32_t *)round_up(
            (int64_t)guarded_new<int32_t>(compact_total(K, s->capacity) + 4), compact_alignment);
        for (int64_t i = 0; i < (int64_t)s->count * K; ++i) {
            int32_t *taps = a.map + i * plane;
            int32_t *record =
                a.compact + compact_at(K, s->capacity, (int)(i % K), (int32_t)(i / K));
            compact_record_put(taps, K, record);
            for (int c = 0; c < plane; ++c) {
                taps[c] = compact_source(record, K, c);
            }
        }
    }
    a.count = guarded_new<int32_t>(1);
    *a.count = s->told;
    a.layout = layout_new(order_count(s->capacity) + extra, a.volume);
    return a;
}

order_request request_of(const scene *s, const arrays *a) {
    order_request r = {};
    r.kernel = s->kernel;
    r.threshold = s->threshold;
    r.map = a->compact ? nullptr : a->map;
    r.compact = a->compact;
    r.count = a->count;
    r.capacity = s->capacity;
    r.layout = a->layout;
    return r;
}

template <typename T>
bool same(const T *a, const T *b, int64_t count) {
    return memcmp(a, b, (size_t)count * sizeof(T)) == 0;
}

const char *difference(const order_layout &a, const order_layout &b) {
    const int64_t groups = a.groups;
    return !same(a.row, b.row, groups * order_rows)                      ? "row"
           : !same(a.mask, b.mask, groups * order_words(a.volume))       ? "mask"
           : !same(a.source, b.source, groups * a.volume * order_rows)   ? "source"
           : !same(a.schedule, b.schedule, order_pairs((int32_t)groups)) ? "schedule"
                                                                         : "";
}

order_layout on_host(const scene *s, const arrays *a) {
    const order_layout t = layout_new(a->layout.groups, a->volume);
    const size_t bytes = order_host_workspace(s->capacity);
    order_request r = request_of(s, a);
    r.map = a->map;
    r.compact = nullptr;
    r.layout = t;
    CHECK_OK(order_build_host(&r, guarded_new<char>((int64_t)bytes), bytes));
    return t;
}

// ---- what the previous kernel still writes ------------------------------------------------------

// Until a kernel has waited for the previous one, the scratch is garbage, but for the tickets of
// the third, which the first has cleared; and so are the maps until the first kernel has. What is
// hidden here comes back then.
struct hidden {
    char *at;
    std::vector<char> kept;
};

std::vector<hidden> hiding; // the scratch, the tickets, maps and counts

size_t hidden_now() {
    auto launched = [](auto *kernel) { return emulate::launched.count((const void *)kernel) > 0; };
    return launched(order_group_kernel<0>)   ? 1
           : launched(order_class_kernel<0>) ? 2
                                             : hiding.size();
}

void hide() {
    for (size_t i = 0; i < hidden_now(); ++i) {
        hidden &h = hiding[i];
        h.kept.assign(h.at, h.at + h.kept.size());
        memset(h.at, 0x5b, h.kept.size());
    }
}

void show() {
    for (size_t i = 0; i < hidden_now(); ++i) {
        std::copy(hiding[i].kept.begin(), hiding[i].kept.end(), hiding[i].at);
    }
}

// ---- a test -------------------------------------------------------------------------------------

// Builds the layouts of all scenes in one call, by the kernels, twice over the same memory: with
// thread blocks that begin in the order of their numbers, and in any order. Compares them with the
// host's. extra: row groups beyond the capacity
void check_scenes(const std::vector<scene> &scenes, int32_t extra = 0) {
    random_state random = random_make(emulate::seed + 1);
    std::vector<arrays> all;
    std::vector<order_request> requests;
    for (const scene &s : scenes) {
        all.push_back(arrays_make(&random, &s, extra));
        requests.push_back(request_of(&s, &all.back()));
    }
    const int maps = (int)scenes.size();
    size_t bytes = 0;
    REQUIRE_OK(order_workspace(requests.data(), maps, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    const size_t tickets = workspace_alignment; // the first array
    hiding = {{scratch + tickets, std::vector<char>(bytes - tickets)},
              {scratch, std::vector<char>(tickets)}};
    for (size_t i = 0; i < all.size(); ++i) {
        const int64_t total = (int64_t)scenes[i].capacity * all[i].volume;
        const int64_t compact = compact_total(scenes[i].kernel.size.x, scenes[i].capacity);
        hiding.push_back({(char *)all[i].count, std::vector<char>(sizeof(int32_t))});
        hiding.push_back(
            all[i].compact ? hidden{(char *)all[i].compact, std::vector<char>((size_t)compact * 4)}
                           : hidden{(char *)all[i].map, std::vector<char>((size_t)total * 4)});
    }
    std::vector<order_layout> wanted;
    for (size_t i = 0; i < all.size(); ++i) {
        wanted.push_back(on_host(&scenes[i], &all[i]));
    }
    for (int run = 0; run < 2; ++run) {
        emulate::launched.clear();
        emulate::seed += 1;
        emulate::admission = run ? emulate::shuffled : emulate::first_first;
        emulate::side_by_side = run ? 1 : 1 + emulate::seed / 2 % 3;
        emulate::previous = {hide, show};
        requests[0].programmatic = run == 0;
        CHECK_OK(order_build(&device, requests.data(), maps, scratch, bytes, nullptr));
        emulate::previous = {};
        for (size_t i = 0; i < all.size(); ++i) {
            CHECK_EQUAL(difference(all[i].layout, wanted[i]), "");
        }
    }
    emulate::side_by_side = 1;
    guarded_finish();
}

} // namespace

TEST(order_kernels_every_size) {
    for (int32_t count : {0, 1, 65, 1024, 1025}) {
        check_scenes({scene_make({3, 3, 3}, count, count ? count : 1, fill_by_offset, true)});
    }
    check_scenes({scene_make({3, 3, 3}, 2100, 3300, fill_sparse, true)}, 3);
}

TEST(order_kernels_every_kernel) {
    for (triple size : {triple{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {1, 3, 11}, {4, 4, 4}}) {
        check_scenes({scene_make(size, 200, 270, fill_by_offset, false)});
    }
    check_scenes({scene_make({5, 5, 5}, 1100, 1100, fill_by_offset, true)});
}

TEST(order_kernels_every_fill) {
    for (fill kind : {fill_none, fill_all, fill_alike}) {
        check_scenes({scene_make({3, 3, 3}, 1300, 1300, kind, true)});
    }
}

// Maps of all kinds in one call, an empty one too; and a count beyond the capacity.
TEST(order_kernels_many_maps) {
    std::vector<scene> scenes = {scene_make({2, 2, 2}, 1100, 1200, fill_by_offset, false),
                                 scene_make({3, 3, 3}, 300, 300, fill_by_offset, true),
                                 scene_make({3, 3, 3}, 700, 900, fill_alike, false),
                                 scene_make({3, 3, 3}, 0, 10, fill_all, true),
                                 scene_make({1, 3, 13}, 150, 150, fill_sparse, false),
                                 scene_make({5, 5, 5}, 90, 300, fill_by_offset, true),
                                 scene_make({1, 1, 3}, 64, 64, fill_all, false)};
    scenes[1].told = 1 << 30;
    scenes[2].threshold = 2;
    check_scenes(scenes, 1);
}

// The tickets of a map: each run, and behind those of each scope its schedule.
TEST(order_kernels_schedules_come_behind_their_runs) {
    for (int32_t runs : {1, 2, 511, 512, 513, 1023, 1024, 1025, 5000}) {
        int32_t next = 0, ticket = 0;
        for (int32_t scope = 0; next < runs; ++scope) {
            const int32_t end = std::min(next + order_scope_runs, runs);
            for (; next <= end; ++next, ++ticket) {
                const order_role role = order_find_role(ticket, runs);
                CHECK_EQUAL(role.scope, scope);
                CHECK_EQUAL(role.run, next < end ? next : -1);
            }
            --next;
        }
        order_request request = {};
        request.kernel = kernel_cube(3, 1);
        request.capacity = runs * order_run;
        CHECK_EQUAL(order_batch_make(&request, 1).units[order_by_ticket], ticket);
    }
}

// The keys of compact maps are found in another way than others.
TEST(order_kernels_keys) {
    random_state random = random_make(9);
    for (int i = 0; i < 5000; ++i) {
        uint32_t has = (uint32_t)random_int(&random, 0, (1 << order_directions) - 1);
        has &= i % 3 ? (uint32_t)random_int(&random, 0, (1 << order_directions) - 1) : ~0u;
        uint32_t directions = 0;
        for (int k = 0; k < order_directions; ++k) {
            directions |= has >> k & 1 ? 1u << order_number(k) : 0;
        }
        CHECK_EQUAL(order_offsets_key(has), order_key(true, directions));
        const uint32_t key = order_key(false, directions);
        CHECK_EQUAL(key ^ key >> 1, directions);
    }
}

TEST(order_kernels_planted_errors_are_found) {
    random_state random = random_make(5);
    const scene s = scene_make({3, 3, 3}, 500, 500, fill_by_offset, true);
    const arrays a = arrays_make(&random, &s, 0);
    const order_layout one = on_host(&s, &a), other = on_host(&s, &a);
    CHECK_EQUAL(difference(one, other), "");
    std::swap(other.row[3], other.row[4]);
    CHECK_EQUAL(difference(one, other), "row");
    std::swap(other.row[3], other.row[4]);
    other.schedule[1] ^= 1;
    CHECK_EQUAL(difference(one, other), "schedule");
    guarded_finish();
}
