// tests/host/group.cpp: gemm/group.h. What each rule must give is worked out apart from the code.
#include "../support/test.h"

#include "../../spira/gemm/group.h"

#include <algorithm>
#include <math.h>
#include <vector>

using namespace spira;

namespace {

struct grouped {
    status said;
    ggs_groups groups;
    std::vector<int32_t> order; // as long as there are products
    std::vector<ggs_group> group;
};

// Runs a rule into memory of exactly the size that it is given.
grouped group_make(const ggs_grouping *g, const std::vector<int32_t> &sizes) {
    grouped r;
    int volume = (int)sizes.size();
    r.groups = {};
    r.groups.order = guarded_new<int32_t>(volume);
    r.groups.group = guarded_new<ggs_group>(volume);
    r.said = ggs_group_offsets(g, sizes.data(), volume, &r.groups);
    if (!status_failed(r.said)) {
        r.order.assign(r.groups.order, r.groups.order + r.groups.products);
        r.group.assign(r.groups.group, r.groups.group + r.groups.count);
    }
    return r;
}

ggs_grouping grouping(ggs_rule rule, double waste = 0.1, int32_t small = INT32_MAX,
                      bool mirrored = false) {
    ggs_grouping g = {rule, waste, small, mirrored};
    return g;
}

// How many promises that hold for every rule are broken.
int group_faults(const ggs_grouping *g, const std::vector<int32_t> &sizes, const grouped *r) {
    int faults = 0;
    int64_t rows = 0, real = 0;
    int32_t next = 0;
    std::vector<int> seen(sizes.size());
    for (const ggs_group &group : r->group) {
        faults += group.first != next || group.count < 1;
        next = group.first + group.count;
        int64_t sum = 0;
        int32_t most = 0;
        for (int32_t i = group.first; i < next; ++i) {
            int32_t k = r->order[(size_t)i], size = sizes[(size_t)k];
            ++seen[(size_t)k];
            sum += size;
            most = std::max(most, size);
            bool ascending = i == group.first || r->order[(size_t)i - 1] < k;
            faults += size == 0 || !ascending;
        }
        real += sum;
        if (group.kind == ggs_kind_grouped) {
            faults += group.rows != 0 || group.count < 2 || g->rule != ggs_rule_grouped;
            rows += sum;
            continue;
        }
        int64_t all = (int64_t)group.rows * group.count;
        rows += all;
        faults += group.rows != most || (group.count > 1) != (group.kind == ggs_kind_batch);
        faults += group.count > 1 && (g->rule == ggs_rule_each || g->rule == ggs_rule_grouped);
        faults += group.count > 1 && (double)(all - sum) > g->waste * (double)all;
        faults += group.count > 1 && most >= g->small;
    }
    for (size_t k = 0; k < sizes.size(); ++k) {
        faults += seen[k] != (sizes[k] > 0);
    }
    return faults + (next != r->groups.products) + (rows != r->groups.rows) +
           (real != r->groups.real_rows);
}

grouped group_check(ggs_grouping g, const std::vector<int32_t> &sizes) {
    grouped r = group_make(&g, sizes);
    CHECK_OK(r.said);
    CHECK_EQUAL(group_faults(&g, sizes, &r), 0);
    return r;
}

// Which offsets are in group i.
std::vector<int32_t> members(const grouped *r, size_t i) {
    const ggs_group &g = r->group[i];
    return std::vector<int32_t>(r->order.begin() + g.first, r->order.begin() + g.first + g.count);
}

bool has_members(const grouped *r, size_t i, std::vector<int32_t> wanted) {
    return i < r->group.size() && members(r, i) == wanted;
}

const ggs_rule rules[] = {ggs_rule_each, ggs_rule_adaptive, ggs_rule_sorted, ggs_rule_grouped};

// ---- each rule ----------------------------------------------------------------------------------

TEST(group_each_has_a_call_for_every_offset) {
    grouped r = group_check(grouping(ggs_rule_each, 1.0), {5, 0, 5, 7, 0, 1});
    REQUIRE(r.group.size() == 4);
    CHECK(has_members(&r, 0, {0}) && has_members(&r, 1, {2}));
    CHECK(has_members(&r, 2, {3}) && has_members(&r, 3, {5}));
    CHECK_EQUAL(r.groups.rows, 18);
    CHECK_EQUAL(ggs_padding_ratio(&r.groups), 1.0);
}

TEST(group_grouped_has_one_call_and_no_padding) {
    grouped r = group_check(grouping(ggs_rule_grouped), {5, 0, 500, 7, 0, 1});
    REQUIRE(r.group.size() == 1);
    CHECK_EQUAL(r.group[0].kind, ggs_kind_grouped);
    CHECK(has_members(&r, 0, {0, 2, 3, 5}));
    CHECK_EQUAL(r.groups.rows, 513);
    CHECK_EQUAL(r.groups.real_rows, 513);
    r = group_check(grouping(ggs_rule_grouped), {0, 9, 0});
    REQUIRE(r.group.size() == 1);
    CHECK_EQUAL(r.group[0].kind, ggs_kind_one); // nothing to group
}

// 10 10 | 20 ... : 10 and 20 waste 10 + 10 of 60 = 1/3; 20 and 18 waste 2 of 40.
TEST(group_adaptive_takes_neighbours_in_the_order_of_the_offsets) {
    std::vector<int32_t> sizes = {10, 10, 20, 18, 0, 19, 5};
    grouped r = group_check(grouping(ggs_rule_adaptive, 0.2), sizes);
    REQUIRE(r.group.size() == 3);
    CHECK(has_members(&r, 0, {0, 1}));
    CHECK(has_members(&r, 1, {2, 3, 5}));
    CHECK(has_members(&r, 2, {6}));
    CHECK_EQUAL(r.group[1].rows, 20);
    CHECK_EQUAL(r.groups.rows, 20 + 60 + 5);
    CHECK_EQUAL(r.groups.real_rows, 82);

    // Exactly a third is allowed, a little less is not.
    CHECK(has_members(&r, 0, {0, 1}));
    r = group_check(grouping(ggs_rule_adaptive, 1.0 / 3), {10, 10, 20});
    CHECK_EQUAL(r.group.size(), 1u);
    r = group_check(grouping(ggs_rule_adaptive, 0.333), {10, 10, 20});
    CHECK_EQUAL(r.group.size(), 2u);
}

// Batches are for small products: S rows or more go alone, without padding.
TEST(group_adaptive_computes_large_products_one_by_one) {
    std::vector<int32_t> sizes = {100, 100, 100, 7, 8};
    grouped r = group_check(grouping(ggs_rule_adaptive, 0.2, 100), sizes);
    REQUIRE(r.group.size() == 4);
    CHECK(has_members(&r, 0, {0}) && has_members(&r, 1, {1}) && has_members(&r, 2, {2}));
    CHECK(has_members(&r, 3, {3, 4}));
    CHECK_EQUAL(r.groups.rows, 316);
    r = group_check(grouping(ggs_rule_adaptive, 0.2, 101), sizes);
    CHECK_EQUAL(r.group.size(), 2u);
    r = group_check(grouping(ggs_rule_adaptive, 1.0, 0), sizes);
    CHECK_EQUAL(r.group.size(), 5u);
}

// A submanifold layer: the lists of an offset and its mirror are as long, and stand together.
TEST(group_adaptive_mirrored_pairs_offsets_with_their_mirrors) {
    std::vector<int32_t> sizes = {3, 40, 5, 0, 5, 40, 3}; // the centre is multiplied elsewhere
    grouped r = group_check(grouping(ggs_rule_adaptive, 0, INT32_MAX, true), sizes);
    REQUIRE(r.group.size() == 3);
    CHECK(has_members(&r, 0, {0, 6}) && has_members(&r, 1, {1, 5}) && has_members(&r, 2, {2, 4}));
    CHECK_EQUAL(r.groups.rows, r.groups.real_rows);
    r = group_check(grouping(ggs_rule_adaptive, 0), sizes);
    CHECK_EQUAL(r.group.size(), 5u); // without it, only the two around the centre are alike
    r = group_check(grouping(ggs_rule_adaptive, 0, INT32_MAX, true), {4, 4, 4, 4});
    CHECK(has_members(&r, 0, {0, 1, 2, 3}));
    ggs_grouping bad = grouping(ggs_rule_adaptive, 0, INT32_MAX, true);
    CHECK_STATUS(group_make(&bad, {3, 40, 5, 0, 5, 40, 2}).said, status_bad_size);
    bad.rule = ggs_rule_sorted; // which does not ask for it
    CHECK_OK(group_make(&bad, {3, 40, 5, 0, 5, 40, 2}).said);
}

// By size: 100 95 | 60 58 | 10, whatever the order of the offsets.
TEST(group_sorted_takes_neighbours_in_the_order_of_the_sizes) {
    std::vector<int32_t> sizes = {58, 100, 10, 60, 0, 95};
    grouped r = group_check(grouping(ggs_rule_sorted, 0.1), sizes);
    REQUIRE(r.group.size() == 3);
    CHECK(has_members(&r, 0, {1, 5}));
    CHECK(has_members(&r, 1, {0, 3}));
    CHECK(has_members(&r, 2, {2}));
    CHECK_EQUAL(r.groups.rows, 200 + 120 + 10);
    CHECK_EQUAL(r.groups.real_rows, 323);
    CHECK(fabs(ggs_padding_ratio(&r.groups) - 330.0 / 323) < 1e-12);
}

// The same sizes scattered: the sorted rule needs fewer calls than the adaptive one.
TEST(group_sorted_needs_fewer_calls_than_adaptive) {
    random_state random = random_make(5);
    int sorted = 0, adaptive = 0;
    for (int i = 0; i < 50; ++i) {
        std::vector<int32_t> sizes(27);
        for (int32_t &s : sizes) {
            s = random_int(&random, 1, 1000);
        }
        sorted += (int)group_check(grouping(ggs_rule_sorted, 0.15), sizes).group.size();
        adaptive += (int)group_check(grouping(ggs_rule_adaptive, 0.15), sizes).group.size();
    }
    CHECK(sorted * 2 < adaptive);
}

// ---- edges --------------------------------------------------------------------------------------

TEST(group_no_pairs_no_groups) {
    for (ggs_rule rule : rules) {
        for (size_t volume : {1u, 2u, 27u, 3375u}) {
            grouped r = group_check(grouping(rule), std::vector<int32_t>(volume, 0));
            CHECK_EQUAL(r.groups.count, 0);
            CHECK_EQUAL(r.groups.products, 0);
            CHECK_EQUAL(r.groups.rows, 0);
            CHECK_EQUAL(ggs_padding_ratio(&r.groups), 1.0);
        }
    }
}

TEST(group_one_offset) {
    for (ggs_rule rule : rules) {
        for (int32_t size : {1, 1000, INT32_MAX / 2}) {
            grouped r = group_check(grouping(rule), {size});
            REQUIRE(r.group.size() == 1);
            CHECK_EQUAL(r.group[0].kind, ggs_kind_one);
            CHECK_EQUAL(r.groups.rows, size);
        }
    }
}

TEST(group_equal_sizes_make_one_batch) {
    for (ggs_rule rule : {ggs_rule_adaptive, ggs_rule_sorted}) {
        for (double waste : {0.0, 0.5, 1.0}) {
            grouped r = group_check(grouping(rule, waste), std::vector<int32_t>(125, 77));
            REQUIRE(r.group.size() == 1);
            CHECK_EQUAL(r.group[0].count, 125);
            CHECK_EQUAL(r.group[0].kind, ggs_kind_batch);
            CHECK_EQUAL(r.groups.rows, r.groups.real_rows);
        }
    }
}

TEST(group_waste_of_0_batches_equal_sizes_only) {
    grouped r = group_check(grouping(ggs_rule_adaptive, 0), {4, 4, 5, 4, 4});
    CHECK_EQUAL(r.group.size(), 3u);
    r = group_check(grouping(ggs_rule_sorted, 0), {4, 4, 5, 4, 4});
    REQUIRE(r.group.size() == 2);
    CHECK(has_members(&r, 0, {2}) && has_members(&r, 1, {0, 1, 3, 4}));
    CHECK_EQUAL(r.groups.rows, r.groups.real_rows);
}

TEST(group_waste_of_1_batches_everything) {
    for (ggs_rule rule : {ggs_rule_adaptive, ggs_rule_sorted}) {
        grouped r = group_check(grouping(rule, 1), {1, 0, 1000000, 3});
        REQUIRE(r.group.size() == 1);
        CHECK_EQUAL(r.group[0].rows, 1000000);
        CHECK_EQUAL(r.groups.rows, 3000000);
    }
}

TEST(group_random_sizes_keep_the_promises) {
    random_state random = random_make(11);
    for (int i = 0; i < (test_quick() ? 200 : 5000); ++i) {
        std::vector<int32_t> sizes((size_t)random_int(&random, 1, 130));
        int most = 1 << random_int(&random, 0, 16), holes = random_int(&random, 0, 90);
        for (int32_t &s : sizes) {
            s = random_int(&random, 0, 99) < holes ? 0 : random_int(&random, 1, most);
        }
        bool mirrored = random_int(&random, 0, 2) == 0;
        for (size_t k = 0; mirrored && k < sizes.size() / 2; ++k) {
            sizes[sizes.size() - 1 - k] = sizes[k];
        }
        const double wastes[] = {0, 0.01, 0.1, 0.3, 0.9, 1};
        const int32_t smalls[] = {0, 1, most / 2, INT32_MAX};
        for (ggs_rule rule : rules) {
            grouped r = group_check(grouping(rule, wastes[random_int(&random, 0, 5)],
                                             smalls[random_int(&random, 0, 3)], mirrored),
                                    sizes);
            CHECK(r.groups.count <= r.groups.products);
        }
        guarded_finish();
    }
}

// By size, a batch ends only where the next product would waste too much.
TEST(group_sorted_batches_are_as_long_as_they_may_be) {
    random_state random = random_make(12);
    for (int i = 0; i < 300; ++i) {
        std::vector<int32_t> sizes((size_t)random_int(&random, 2, 130));
        for (int32_t &s : sizes) {
            s = random_int(&random, 1, 1 << random_int(&random, 1, 12));
        }
        double waste = random_int(&random, 0, 10) * 0.05;
        grouped r = group_check(grouping(ggs_rule_sorted, waste), sizes);
        for (size_t j = 0; j + 1 < r.group.size(); ++j) {
            int64_t all = (int64_t)r.group[j].rows * (r.group[j].count + 1);
            int64_t sum = r.group[j + 1].rows; // the largest that is left
            for (int32_t k : members(&r, j)) {
                sum += sizes[(size_t)k];
            }
            CHECK((double)(all - sum) > waste * (double)all);
        }
        guarded_finish();
    }
}

// ---- places -------------------------------------------------------------------------------------

// Rows of the members follow each other without gaps, at one distance in a batch.
TEST(group_places_follow_each_other) {
    random_state random = random_make(13);
    for (int i = 0; i < 300; ++i) {
        std::vector<int32_t> sizes((size_t)random_int(&random, 1, 40));
        for (int32_t &s : sizes) {
            s = random_int(&random, 0, 3) ? random_int(&random, 1, 50) : 0;
        }
        for (ggs_rule rule : rules) {
            grouped r = group_check(grouping(rule, 0.4), sizes);
            int32_t *row = guarded_new<int32_t>((int64_t)sizes.size());
            ggs_group_place(&r.groups, sizes.data(), (int)sizes.size(), row);
            int64_t at = 0;
            for (const ggs_group &g : r.group) {
                for (int32_t m = g.first; m < g.first + g.count; ++m) {
                    int32_t k = r.order[(size_t)m];
                    CHECK_EQUAL(row[k], at);
                    at += g.kind == ggs_kind_grouped ? sizes[(size_t)k] : g.rows;
                }
            }
            CHECK_EQUAL(at, r.groups.rows);
        }
        guarded_finish();
    }
}

TEST(group_direct_product_comes_last) {
    std::vector<int32_t> sizes = {7, 0, 7}; // the middle is left out, and then added
    for (ggs_rule rule : rules) {
        grouped r = group_check(grouping(rule, 0), sizes);
        int32_t gathered = (int32_t)r.groups.rows, before = r.groups.count;
        ggs_group_direct(&r.groups, 1, 30);
        const ggs_group *last = r.groups.group + r.groups.count - 1;
        CHECK_EQUAL(r.groups.count, before + 1);
        CHECK_EQUAL(r.groups.products, 3);
        CHECK_EQUAL(last->kind, ggs_kind_direct);
        CHECK_EQUAL(r.groups.order[last->first], 1);
        CHECK_EQUAL(r.groups.rows, 44);
        int32_t row[3];
        ggs_group_place(&r.groups, sizes.data(), 3, row);
        CHECK_EQUAL(row[1], gathered);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

TEST(group_refuses) {
    std::vector<int32_t> sizes = {1, 2, 3};
    ggs_groups out = {};
    out.order = guarded_new<int32_t>(3);
    out.group = guarded_new<ggs_group>(3);
    ggs_grouping good = grouping(ggs_rule_sorted), g = good;
    CHECK_STATUS(ggs_group_offsets(nullptr, sizes.data(), 3, &out), status_null_pointer);
    CHECK_STATUS(ggs_group_offsets(&good, nullptr, 3, &out), status_null_pointer);
    CHECK_STATUS(ggs_group_offsets(&good, sizes.data(), 3, nullptr), status_null_pointer);
    ggs_groups none = out;
    none.order = nullptr;
    CHECK_STATUS(ggs_group_offsets(&good, sizes.data(), 3, &none), status_null_pointer);
    none = out;
    none.group = nullptr;
    CHECK_STATUS(ggs_group_offsets(&good, sizes.data(), 3, &none), status_null_pointer);
    CHECK_STATUS(ggs_group_offsets(&good, sizes.data(), 0, &out), status_bad_size);
    CHECK_STATUS(ggs_group_offsets(&good, sizes.data(), 3376, &out), status_bad_size);
    for (double waste : {-0.01, 1.01, (double)NAN, (double)INFINITY}) {
        g.waste = waste;
        CHECK_STATUS(ggs_group_offsets(&g, sizes.data(), 3, &out), status_bad_size);
    }
    g = good;
    g.small = -1;
    CHECK_STATUS(ggs_group_offsets(&g, sizes.data(), 3, &out), status_bad_size);
    g = good;
    g.rule = (ggs_rule)4;
    CHECK_STATUS(ggs_group_offsets(&g, sizes.data(), 3, &out), status_unsupported);
    CHECK(guarded_untouched(out.order, 0, 3) && guarded_untouched(out.group, 0, 3));
    sizes[1] = -1;
    CHECK_STATUS(ggs_group_offsets(&good, sizes.data(), 3, &out), status_bad_size);
}

// Padding may pass what can be counted, where the pairs do not.
TEST(group_refuses_too_many_rows) {
    ggs_grouping all = grouping(ggs_rule_sorted, 1);
    std::vector<int32_t> sizes(3000, 1);
    sizes[7] = 1 << 20;
    CHECK_STATUS(group_make(&all, sizes).said, status_bad_size);
    ggs_grouping some = grouping(ggs_rule_sorted, 0.1);
    CHECK_OK(group_make(&some, sizes).said);
}

// ---- the test, tested ---------------------------------------------------------------------------

TEST(group_planted_faults_are_found) {
    ggs_grouping g = grouping(ggs_rule_sorted, 0.2);
    std::vector<int32_t> sizes = {50, 10, 48, 9, 0, 9};
    const grouped good = group_make(&g, sizes);
    REQUIRE_OK(good.said);
    REQUIRE(good.group.size() == 2);
    CHECK_EQUAL(group_faults(&g, sizes, &good), 0);
    grouped bad = good;
    std::swap(bad.order[0], bad.order[1]); // weights in any order
    CHECK(group_faults(&g, sizes, &bad) > 0);
    bad = good;
    bad.order[0] = bad.order[1]; // an offset twice, another one lost
    CHECK(group_faults(&g, sizes, &bad) > 0);
    bad = good;
    bad.group[1].rows += 1; // padding that nobody needs
    CHECK(group_faults(&g, sizes, &bad) > 0);
    bad = good;
    bad.group[0].count += 1; // all of them overlap
    CHECK(group_faults(&g, sizes, &bad) > 0);
    bad = good;
    bad.groups.rows -= 1;
    CHECK(group_faults(&g, sizes, &bad) > 0);
    ggs_grouping strict = grouping(ggs_rule_sorted, 0.01);
    CHECK(group_faults(&strict, sizes, &good) > 0); // more waste than was allowed
    ggs_grouping small = grouping(ggs_rule_sorted, 0.2, 50);
    CHECK(group_faults(&small, sizes, &good) > 0); // a batch of large products
}

} // namespace
