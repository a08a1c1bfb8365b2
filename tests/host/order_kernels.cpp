// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/order_kernels.cpp: the kernels of order.cuh, run on the host
// (emulate_hopper.h), against the host loop: the same bytes, with the entries that neither writes.
#include "../support/devices.h"
#include "../support/orders.h"
#include "../support/reference.h"

#include "../support/emulate_hopper.h"

#include "../../spira/order.cuh"

namespace spira {
thread_local int32_t order_taps[order_put_threads * (order_word_bits + 1)];
}

using namespace spira;

namespace {

const device_info device = device_made(90, 1, 232448, false);

typedef order_scene scene;

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
void check_scenes(std::vector<scene> scenes, int32_t extra = 0) {
    std::vector<order_request> requests;
    std::vector<order_arrays> wanted;
    hiding.clear();
    for (scene &s : scenes) {
        wanted.push_back(order_arrays_on_host(&s, extra));
        requests.push_back(order_request_make(&memory_host, &s, extra, !s.compact.empty()));
    }
    const int maps = (int)scenes.size();
    const size_t tickets = workspace_alignment; // the first array
    size_t bytes = 0;
    REQUIRE_OK(order_workspace(requests.data(), maps, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    auto hidden_array = [](const void *at, size_t size) {
        hiding.push_back({(char *)at, std::vector<char>(size)});
    };
    hidden_array(scratch + tickets, bytes - tickets);
    hidden_array(scratch, tickets);
    for (size_t i = 0; i < scenes.size(); ++i) {
        const order_request *r = &requests[i];
        hidden_array(r->count, sizeof *r->count);
        hidden_array(r->compact ? r->compact : r->map,
                     4 * (r->compact ? scenes[i].compact : scenes[i].map).size());
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
        for (size_t i = 0; i < scenes.size(); ++i) {
            const order_arrays got = order_arrays_fetch(&memory_host, &requests[i].layout);
            CHECK_EQUAL(order_difference(got, wanted[i], "on the host"), "");
        }
    }
    emulate::side_by_side = 1;
    guarded_finish();
}

scene scene_make(triple size, int32_t count, int32_t capacity, order_fill fill, bool compact,
                 int threshold = 0) {
    random_state random = random_make(emulate::seed + (uint64_t)count);
    scene s = order_scene_make(&random, size, count, capacity, fill, threshold);
    if (compact) {
        order_scene_compact(&s);
    }
    return s;
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
        check_scenes({scene_make(size, 65, 71, fill_by_offset, false)});
    }
    check_scenes({scene_make({5, 5, 5}, 1100, 1100, fill_by_offset, true)});
    for (triple size : {triple{7, 7, 7}, {3, 3, 15}, {13, 13, 13}}) { // compact, of large kernels
        check_scenes({scene_make(size, 130, 200, fill_by_offset, true)}, 1);
        check_scenes({scene_make(size, 65, 65, fill_sparse, true)});
    }
}

TEST(order_kernels_every_fill) {
    for (order_fill kind : {fill_none, fill_all, fill_alike}) {
        check_scenes({scene_make({3, 3, 3}, 1300, 1300, kind, true)});
    }
}

// Each row has all taps on some levels: pairs of row groups in the same directions differ in
// weight.
TEST(order_kernels_levels) {
    for (triple size : {triple{5, 5, 5}, {3, 3, 7}}) {
        scene s = scene_make(size, 1400, 1400, fill_all, false);
        const int volume = kernel_volume(&s.kernel);
        for (size_t i = 0; i < s.map.size(); ++i) {
            const size_t row = i / (size_t)volume, levels = 1 + row % 11 * 12 % 31;
            s.map[i] = levels >> i % (size_t)volume % (size_t)size.z & 1 ? s.map[i] : -1;
        }
        if (order_scene_can_be_compact(&s)) {
            order_scene_compact(&s);
        }
        check_scenes({s});
    }
}

// Maps of all kinds in one call, an empty one too; and a count beyond the capacity.
TEST(order_kernels_many_maps) {
    std::vector<scene> scenes = {scene_make({2, 2, 2}, 1100, 1200, fill_by_offset, false),
                                 scene_make({3, 3, 3}, 300, 300, fill_by_offset, true),
                                 scene_make({3, 3, 3}, 700, 900, fill_alike, false, 2),
                                 scene_make({3, 3, 3}, 0, 10, fill_all, true),
                                 scene_make({1, 3, 13}, 150, 150, fill_sparse, false),
                                 scene_make({5, 5, 5}, 90, 300, fill_by_offset, true),
                                 scene_make({7, 7, 7}, 130, 130, fill_by_offset, true),
                                 scene_make({1, 1, 3}, 64, 64, fill_all, false)};
    scenes[1].told = scenes[6].told = 1 << 30;
    check_scenes(scenes, 1);
    CHECK_EQUAL(emulate::launched.size(), 6);
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

// The keys of compact maps are found in another way than others: from the offsets of a kernel of
// size 3, to which planes of size 5 are folded.
TEST(order_kernels_keys) {
    random_state random = random_make(9);
    for (int i = 0; i < 5000; ++i) {
        uint32_t has = (uint32_t)random_int(&random, 0, (1 << order_directions) - 1);
        has &= i % 3 ? (uint32_t)random_int(&random, 0, (1 << order_directions) - 1) : ~0u;
        uint32_t directions = 0;
        for (int k = 0; k < order_directions; ++k) {
            directions |= has >> k & 1 ? 1u << order_number(k) : 0;
        }
        CHECK_EQUAL(order_offsets_key(has), order_gray_rank(order_sectors_of(directions)));
        CHECK_EQUAL(order_directions_of(has), directions);
    }
    for (int c = 0; c < 25; ++c) {
        const int y = c / 5, z = c % 5, side[] = {0, 0, 1, 2, 2};
        CHECK_EQUAL(order_fold(1u << c), 1u << (side[y] * 3 + side[z]));
        CHECK_EQUAL(order_fold_levels(1u << c), 1u << z);
        CHECK_EQUAL(order_fold(1u << c | 1u << 12), 1u << (side[y] * 3 + side[z]) | 1u << 4);
    }
}

TEST(order_kernels_planted_errors_are_found) {
    const scene s = scene_make({3, 3, 3}, 500, 500, fill_by_offset, true);
    const order_arrays one = order_arrays_on_host(&s, 0);
    order_arrays other = one;
    CHECK_EQUAL(order_difference(one, other, ""), "");
    std::swap(other.row[3], other.row[4]);
    CHECK(strstr(order_difference(other, one, ""), "row[3]") != nullptr);
    other = one;
    other.schedule[1] ^= 1;
    CHECK(strstr(order_difference(other, one, ""), "schedule[1]") != nullptr);
    guarded_finish();
}
