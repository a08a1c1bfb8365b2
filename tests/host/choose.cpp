// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/choose.cpp: choose.h against plain counting, and its kernels, run on the host.
#include "../support/emulate_numeric.h"

#include "../support/choices.h"

#include "../../spira/choose.cuh"

using namespace spira;

namespace {

template <typename W>
const choices_side<W> by_host = {&memory_host, choose_largest_host_workspace<W>,
                                 choose_largest_host<W>, choose_members_host<W>};

template <typename W>
const choices_side<W> by_kernel = {
    &memory_host, choose_largest_workspace<W>,
    [](const choose_largest_args<W> *a, void *scratch, size_t bytes) {
        return choose_largest<W>(a, scratch, bytes, nullptr);
    },
    [](const choose_members_args<W> *a) { return choose_members<W>(a, nullptr); }};

TEST(choose_host_random) {
    choices_check_random(1, 200, 300, &by_host<uint32_t>);
    choices_check_random(2, 200, 300, &by_host<uint64_t>);
}

TEST(choose_emulated_random) {
    choices_check_random(3, 6, 300, &by_kernel<uint32_t>);
    choices_check_random(4, 6, 300, &by_kernel<uint64_t>);
}

TEST(choose_keys_order_scores) {
    const float descending[] = {INFINITY, 3e38f, 1, 1e-45f, 0, -1e-45f, -1, -3e38f, -INFINITY, NAN};
    for (size_t i = 1; i < sizeof descending / sizeof *descending; ++i) {
        CHECK(choose_key(descending[i - 1]) < choose_key(descending[i]));
    }
    CHECK(choose_key(0.0f) == choose_key(-0.0f));
}

TEST(choose_refuses) {
    random_state r = random_make(5);
    choices_problem<uint32_t> p = choices_random<uint32_t>(&r, 50);
    device_status trouble = {};
    std::vector<uint8_t> mask(p.words.size());
    typedef choose_largest_args<uint32_t> L;
    typedef choose_members_args<uint32_t> M;
    L good = p.largest;
    good.layout = &p.layout;
    good.set = {p.words.data(), &p.count, (int32_t)p.words.size()};
    good.scores = p.scores.data();
    good.type = numeric_f32;
    good.mask = mask.data();
    good.trouble = &trouble;
    CHECK_OK(choose_largest_check(&good));
    const struct {
        void (*spoil)(L *);
        status_code code;
        const char *subject;
    } bad[] = {
        {[](L *a) { a->layout = nullptr; }, status_null_pointer, "layout"},
        {[](L *a) { a->set.count = nullptr; }, status_null_pointer, "set.count"},
        {[](L *a) { a->scores = nullptr; }, status_null_pointer, "scores"},
        {[](L *a) { a->scores = (const char *)a->scores + 2; }, status_alignment, "scores"},
        {[](L *a) { a->mask = nullptr; }, status_null_pointer, "mask"},
        {[](L *a) { a->trouble = nullptr; }, status_null_pointer, "trouble"},
        {[](L *a) { a->type = numeric_any; }, status_unsupported, "type"},
        {[](L *a) { a->channels = 0; }, status_bad_size, "channels"},
        {[](L *a) { a->channel = a->channels; }, status_bad_size, "channel"},
        {[](L *a) { a->most = 0; }, status_bad_size, "most"},
    };
    alignas(256) char scratch[256];
    for (const auto &one : bad) {
        L a = good;
        one.spoil(&a);
        const status s = choose_largest(&a, scratch, sizeof scratch, nullptr);
        CHECK(s.code == one.code && strstr(s.subject, one.subject));
        CHECK(choose_largest_host(&a, scratch, sizeof scratch).code == one.code);
    }
    CHECK(choose_largest(&good, scratch, 1, nullptr).code == status_workspace);
    M members = {};
    members.set = members.other = good.set;
    members.trouble = &trouble;
    CHECK(choose_members(&members, nullptr).code == status_null_pointer);
    members.mask = mask.data();
    CHECK_OK(choose_members_host(&members));
    members.other.words = nullptr;
    CHECK(choose_members(&members, nullptr).code == status_null_pointer);
    CHECK(choose_members_host<uint32_t>(nullptr).code == status_null_pointer);
}

} // namespace
