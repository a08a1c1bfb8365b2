// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/gemm.cpp: gemm/: what each rule must group is worked out apart from the code; the
// kernels of plans and runs are emulated, with products by a host loop, against sums in double.
#include "../support/emulate_numeric.h"

#include "../support/emulate_layers.h"

#include "../../spira/gemm/copy.cuh"
#include "../../spira/gemm/lists.cuh"

using namespace problems;

namespace {

// ---- grouping -----------------------------------------------------------------------------------

struct grouped {
    status said;
    ggs_groups groups;
    std::vector<int32_t> order; // as long as there are products
    std::vector<ggs_group> group;
};

// Runs a rule into memory of exactly the size that it is given.
grouped group_make(ggs_grouping g, const std::vector<int32_t> &sizes) {
    grouped r;
    int volume = (int)sizes.size();
    r.groups = {};
    r.groups.order = guarded_new<int32_t>(volume);
    r.groups.row = guarded_new<int32_t>(volume);
    r.groups.group = guarded_new<ggs_group>(volume);
    r.said = ggs_group_offsets(&g, sizes.data(), volume, &r.groups);
    if (!status_failed(r.said)) {
        r.order.assign(r.groups.order, r.groups.order + r.groups.products);
        r.group.assign(r.groups.group, r.groups.group + r.groups.count);
    }
    return r;
}

// How many promises that hold for every rule are broken.
int group_faults(ggs_grouping g, const std::vector<int32_t> &sizes, const grouped *r) {
    int faults = 0;
    int64_t at = 0, real = 0; // rows of members follow each other without gaps
    int32_t next = 0;
    std::vector<int> seen(sizes.size());
    for (const ggs_group &group : r->group) {
        faults += group.first != next || group.count < 1;
        next = group.first + group.count;
        int64_t sum = 0;
        int32_t most = 0;
        for (int32_t i = group.first; i < next; ++i) {
            int32_t k = r->order[(size_t)i], size = sizes[(size_t)k];
            bool ascending = i == group.first || r->order[(size_t)i - 1] < k;
            faults += size == 0 || !ascending || r->groups.row[k] != at;
            ++seen[(size_t)k];
            at += group.rows;
            sum += size;
            most = std::max(most, size);
        }
        real += sum;
        const int64_t all = (int64_t)group.rows * group.count;
        faults += group.rows != most;
        faults += group.count > 1 && g.rule == ggs_rule_each;
        faults += group.count > 1 && (double)(all - sum) > g.waste * (double)all;
        faults += group.count > 1 && most >= g.batched_below;
    }
    for (size_t k = 0; k < sizes.size(); ++k) {
        faults += seen[k] != (sizes[k] > 0);
    }
    return faults + (next != r->groups.products) + (at != r->groups.rows) +
           (real != r->groups.real_rows);
}

// Which offsets are in each group.
typedef std::vector<std::vector<int32_t>> offsets;

offsets group_members(const grouped *r) {
    offsets all;
    for (const ggs_group &g : r->group) {
        const auto first = r->order.begin() + g.first;
        all.push_back(std::vector<int32_t>(first, first + g.count));
    }
    return all;
}

grouped group_check(ggs_grouping g, const std::vector<int32_t> &sizes) {
    grouped r = group_make(g, sizes);
    CHECK_OK(r.said);
    CHECK_EQUAL(group_faults(g, sizes, &r), 0);
    return r;
}

const ggs_rule rules[] = {ggs_rule_each, ggs_rule_adaptive, ggs_rule_sorted};
const int32_t any = INT32_MAX;

TEST(group_rules) {
    const struct {
        ggs_grouping grouping;
        std::vector<int32_t> sizes;
        offsets groups;
    } cases[] = {
        {{ggs_rule_each, 1, any}, {5, 0, 5, 7, 0, 1}, {{0}, {2}, {3}, {5}}},
        // 10 and 20 waste 10 + 10 of 60, a third; 20 and 18 waste 2 of 40
        {{ggs_rule_adaptive, 0.2, any}, {10, 10, 20, 18, 0, 19, 5}, {{0, 1}, {2, 3, 5}, {6}}},
        {{ggs_rule_adaptive, 1.0 / 3, any}, {10, 10, 20}, {{0, 1, 2}}},
        {{ggs_rule_adaptive, 0.333, any}, {10, 10, 20}, {{0, 1}, {2}}},
        // batches are for small products
        {{ggs_rule_adaptive, 0.2, 100}, {100, 100, 100, 7, 8}, {{0}, {1}, {2}, {3, 4}}},
        {{ggs_rule_adaptive, 0.2, 101}, {100, 100, 100, 7, 8}, {{0, 1, 2}, {3, 4}}},
        {{ggs_rule_adaptive, 1, 0}, {100, 100, 7}, {{0}, {1}, {2}}},
        // a submanifold layer: an offset and its mirror have as many pairs, and stand together
        {{ggs_rule_adaptive, 0, any}, {3, 40, 5, 0, 5, 40, 3}, {{0, 6}, {1, 5}, {2, 4}}},
        {{ggs_rule_adaptive, 0, any}, {3, 40, 5, 0, 5, 40, 2}, {{0}, {1}, {2, 4}, {5}, {6}}},
        {{ggs_rule_adaptive, 0, any}, {4, 4, 4, 4}, {{0, 1, 2, 3}}},
        // by size, whatever the order of the offsets: 100 95, 60 58, 10
        {{ggs_rule_sorted, 0.1, any}, {58, 100, 10, 60, 0, 95}, {{1, 5}, {0, 3}, {2}}},
        {{ggs_rule_adaptive, 0, any}, {4, 4, 5, 4, 3}, {{0, 1}, {2}, {3}, {4}}},
        {{ggs_rule_sorted, 0, any}, {4, 4, 5, 4, 4}, {{2}, {0, 1, 3, 4}}},
        {{ggs_rule_sorted, 1, any}, {1, 0, 1000000, 3}, {{0, 2, 3}}},
        {{ggs_rule_sorted, 0.1, any}, {0, 0}, {}},
        {{ggs_rule_sorted, 0.1, any}, {INT32_MAX / 2}, {{0}}},
    };
    for (const auto &c : cases) {
        const grouped r = group_check(c.grouping, c.sizes);
        CHECK(group_members(&r) == c.groups);
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
        const int32_t smalls[] = {0, 1, most / 2, any};
        for (ggs_rule rule : rules) {
            group_check(
                {rule, wastes[random_int(&random, 0, 5)], smalls[random_int(&random, 0, 3)]},
                sizes);
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
        grouped r = group_check({ggs_rule_sorted, waste, any}, sizes);
        const offsets members = group_members(&r);
        for (size_t j = 0; j + 1 < members.size(); ++j) {
            int64_t all = (int64_t)r.group[j].rows * (r.group[j].count + 1);
            int64_t sum = r.group[j + 1].rows; // the largest that is left
            for (int32_t k : members[j]) {
                sum += sizes[(size_t)k];
            }
            CHECK((double)(all - sum) > waste * (double)all);
        }
        guarded_finish();
    }
}

TEST(group_refuses) {
    std::vector<int32_t> sizes = {1, 2, 3};
    grouped good = group_make({ggs_rule_sorted, 0.1, any}, sizes);
    const auto refused = [&](status_code code, auto spoil) {
        ggs_grouping g = {ggs_rule_sorted, 0.1, any};
        ggs_groups out = good.groups;
        const int32_t *given = sizes.data();
        int volume = 3;
        spoil(&g, &given, &volume, &out);
        CHECK_STATUS(ggs_group_offsets(&g, given, volume, &out), code);
    };
    typedef ggs_grouping *G;
    typedef const int32_t **S;
    typedef ggs_groups *O;
    CHECK_STATUS(ggs_group_offsets(nullptr, sizes.data(), 3, &good.groups), status_null_pointer);
    CHECK_STATUS(group_make({(ggs_rule)3, 0.1, any}, sizes).said, status_unsupported);
    CHECK_STATUS(group_make({(ggs_rule)-1, 0.1, any}, sizes).said, status_unsupported);
    CHECK_STATUS(group_make({ggs_rule_sorted, 0.1, -1}, sizes).said, status_bad_size);
    CHECK_STATUS(group_make({ggs_rule_sorted, 0.1, any}, {1, -1}).said, status_bad_size);
    for (double waste : {-0.01, 1.01, (double)NAN, (double)INFINITY}) {
        CHECK_STATUS(group_make({ggs_rule_sorted, waste, any}, sizes).said, status_bad_size);
    }
    refused(status_null_pointer, [](G, S s, int *, O) { *s = nullptr; });
    refused(status_null_pointer, [](G, S, int *, O o) { o->order = nullptr; });
    refused(status_null_pointer, [](G, S, int *, O o) { o->row = nullptr; });
    refused(status_null_pointer, [](G, S, int *, O o) { o->group = nullptr; });
    refused(status_bad_size, [](G, S, int *v, O) { *v = 0; });
    refused(status_bad_size, [](G, S, int *v, O) { *v = kernel_volume_max + 1; });
    std::vector<int32_t> many(3000, 1); // padding may pass what can be counted
    many[7] = 1 << 20;
    CHECK_STATUS(group_make({ggs_rule_sorted, 1, any}, many).said, status_bad_size);
    CHECK_OK(group_make({ggs_rule_sorted, 0.1, any}, many).said);
}

TEST(group_planted_faults_are_found) {
    ggs_grouping g = {ggs_rule_sorted, 0.2, any};
    std::vector<int32_t> sizes = {50, 10, 48, 9, 0, 9};
    const grouped good = group_check(g, sizes);
    REQUIRE(good.group.size() == 2);
    const auto found = [&](auto spoil) {
        grouped bad = good;
        spoil(&bad);
        return group_faults(g, sizes, &bad) > 0;
    };
    typedef grouped *at;
    CHECK(found([](at b) { std::swap(b->order[0], b->order[1]); })); // weights in any order
    CHECK(found([](at b) { b->order[0] = b->order[1]; }));           // one twice, another lost
    CHECK(found([](at b) { b->group[1].rows += 1; }));               // padding that nobody needs
    CHECK(found([](at b) { b->group[0].count += 1; }));              // both overlap
    CHECK(found([](at b) { b->groups.rows -= 1; }));
    CHECK(group_faults({ggs_rule_sorted, 0.01, any}, sizes, &good) > 0); // more waste than allowed
    CHECK(group_faults({ggs_rule_sorted, 0.2, 50}, sizes, &good) > 0);   // large products
}

// ---- plans and runs -----------------------------------------------------------------------------

// How the lists of a layer are planned.
struct {
    ggs_grouping grouping = {ggs_rule_sorted, 0.5, any};
    bool stale; // they have pairs of inputs and outputs that are not there
} planned;

// The pair lists of a map. Stale: of more rows on either side than there are.
map_lists lists_put(const problem *p) {
    const int32_t inputs = std::max(p->inputs, 1);
    std::vector<int32_t> begin(1, 0), input, output;
    const auto add = [&](int32_t in, int32_t out) {
        input.push_back(in);
        output.push_back(out);
    };
    for (int k = 0; k < p->shape.volume; ++k) {
        for (int32_t o = 0; o < p->outputs; ++o) {
            const int32_t source = p->map[(size_t)(o * p->shape.volume + k)];
            if (planned.stale && o % 3 == k % 3) {
                add(inputs + o, o);
                add(-1 - o, o);
                add(0, -1 - o);
            }
            if (source >= 0) {
                add(source, o);
            }
        }
        for (int32_t o = 0; planned.stale && o < p->outputs; ++o) {
            add(o % inputs, p->outputs + o);
        }
        begin.push_back((int32_t)input.size());
    }
    input.push_back(INT32_MAX); // lists have a capacity of one at least
    output.push_back(INT32_MAX);
    return {array_put(begin), array_put(input), array_put(output), (int32_t)input.size()};
}

// The lists of one side, by a stable sort on the host.
template <bool in>
status side_put(const map_lists &pairs, ggs_layer *l) {
    ggs_lists *to = in ? &l->in : &l->out;
    const int32_t rows = in ? l->inputs : l->outputs;
    int32_t *place = guarded_new<int32_t>(l->pairs);
    uint32_t *key = guarded_new<uint32_t>(l->pairs), *sorted = guarded_new<uint32_t>(l->pairs);
    to->begin = guarded_new<int32_t>(rows + 1);
    to->place = guarded_new<int32_t>(l->pairs);
    SPIRA_TRY(
        kernel_launch(ggs_key_kernel<in>, {3, ggs_threads, nullptr, ""}, pairs, *l, place, key));
    std::vector<int32_t> order((size_t)l->pairs);
    for (size_t i = 0; i < order.size(); ++i) {
        order[i] = (int32_t)i;
    }
    std::stable_sort(order.begin(), order.end(), [=](auto a, auto b) { return key[a] < key[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
        sorted[i] = key[order[i]];
        to->place[i] = place[order[i]];
    }
    return kernel_launch(ggs_begin_kernel<>,
                         {(unsigned)rows / ggs_threads + 1, ggs_threads, nullptr, ""}, sorted,
                         l->pairs, rows, to->begin);
}

// What cuBLAS does. Batches go by the pointers.
template <typename E>
void products_on_host(const ggs_run_params &p) {
    const ggs_groups *groups = &p.layer.groups;
    const int channels = ggs_shape_channels(&p.layer.shape), cout = p.layer.shape.cout;
    for (const ggs_group *g = groups->group; g < groups->group + groups->count; ++g) {
        for (int32_t i = g->first; i < g->first + g->count; ++i) {
            const int32_t k = groups->order[i];
            const int64_t row = groups->row[k];
            const bool one = g->count == 1;
            const void *w =
                one ? (const char *)p.conv.weights + k * p.weight_bytes : p.weight_at[i];
            const void *x = one ? p.gathered + row * p.chunks * ggs_chunk : p.gathered_at[i];
            float *to = one ? p.product + row * p.pitch : (float *)p.product_at[i];
            for (int64_t at = 0; at < (int64_t)g->rows * cout; ++at) {
                float sum = 0;
                for (int64_t c = 0; c < channels; ++c) {
                    sum += element_to_float(((const E *)x)[at / cout * channels + c]) *
                           element_to_float(((const E *)w)[c * cout + at % cout]);
                }
                to[at / cout * p.pitch + at % cout] = sum;
            }
        }
    }
}

// The kernels: see emulate_layers.h.
struct gemm {
    static constexpr conv_kernel kernel = conv_kernel_exact; // its sizes are not read
    enum { depth_least = 1, depth_most = 1, floats = true };
    static const device_info device;

    template <typename tag>
    static status run(tag, const conv_params &t, const layer *l) {
        typedef typename tag::element E;
        const problem *p = &l->joined.main;
        ggs_request r = {};
        r.shape = p->shape;
        r.pairs = lists_put(p);
        r.inputs = std::max(p->inputs, 1);
        r.count = t.count;
        r.outputs = t.capacity;
        r.grouping = planned.grouping;
        SPIRA_TRY(ggs_request_check(&r));
        const int volume = p->shape.volume;
        int32_t *host = guarded_new<int32_t>(7 * volume + 2); // ggs_host_size
        std::copy_n(r.pairs.begin, volume + 1, host);
        host[volume + 1] = *r.count;
        ggs_layer plan = {};
        SPIRA_TRY(ggs_plan_groups(&r, host, &plan));
        plan.row_of = plan.groups.row;
        plan.offset_of = plan.groups.order;
        SPIRA_TRY(side_put<true>(r.pairs, &plan));
        SPIRA_TRY(side_put<false>(r.pairs, &plan));
        workspace w = workspace_begin(nullptr);
        ggs_run_take(&w, &plan);
        w = workspace_begin(aligned_alloc(256, w.used + 256));
        memset(w.base, 0xff, w.used + 256);
        ggs_run_params all = ggs_run_take(&w, &plan);
        all.conv = t;
        const dim3 gather = ggs_grid(plan.inputs, all.chunks);
        const dim3 scatter = ggs_grid(plan.outputs, all.pitch / 4);
        SPIRA_TRY(kernel_launch(ggs_gather_kernel<E>, {gather, ggs_threads, nullptr, ""}, all));
        products_on_host<E>(all);
        const status done = plan.outputs ? kernel_launch(ggs_scatter_kernel<E>,
                                                         {scatter, ggs_threads, nullptr, ""}, all)
                                         : status_success();
        free(w.base);
        return done;
    }
};

const device_info gemm::device = device_made(75, 2, 64 * 1024, false);

} // namespace

namespace problems {

template <>
const void *weights_put<gemm>(const conv_shape *s, bool, const std::vector<float> &weight) {
    const int64_t total = (int64_t)s->volume * ggs_shape_channels(s) * s->cout;
    char *packed = guarded_new<char>(total * numeric_size(s->type));
    const conv_pack_request r = {&gemm::device, *s, gemm::kernel, s->cin + s->cin2,
                                 weight.data(), 0,  packed,       &weights_trouble};
    CHECK_OK(numeric_dispatch<numeric_any>(s->type, [&](auto tag) {
        return conv_pack_launch(&r, total, 0, ggs_pack_kernel<typename decltype(tag)::element>,
                                nullptr);
    }));
    return packed;
}

} // namespace problems

namespace {

// A random layer, and a random way to plan it.
layer layer_planned(random_state *random) {
    const int edges[] = {1, 3, 4, 8, 12, 16, 17, 33, 64, 70};
    layer l = {};
    const numeric type = numerics[random_int(random, 0, 3)];
    const conv_shape s = shape_random(random, random_int(random, 1, 20), type, edges);
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 150) : 0;
    l.joined = joined_make(random, s, 0, 0, random_int(random, 0, 100), outputs,
                           random_int(random, 1, 50));
    l.joined.main.identity = false;
    problem_fill_lists(random, &l.joined.main, 60);
    problem_fill_any_epilogue(random, &l.joined.main);
    if (random_int(random, 0, 1)) {
        problem_move(random, &l.joined.main);
    }
    l.in_place = random_int(random, 0, 1);
    l.seed = (uint64_t)random_int(random, 0, 1 << 30);
    const int32_t smalls[] = {0, 20, any, any};
    planned.grouping = {rules[random_int(random, 0, 2)], random_int(random, 0, 4) / 4.0,
                        smalls[random_int(random, 0, 3)]};
    return l;
}

void check_random_layers(bool stale, int layers) {
    for (int seed = 0; seed < layers; ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_planned(&random);
        planned.stale = stale;
        REQUIRE(layer_check<gemm>(&l, stale ? "stale" : "random", seed % 4 ? 1 : 2));
    }
    planned = {};
}

} // namespace

TEST(gemm_emulated_random_layers) {
    check_random_layers(false, test_quick() ? 16 : 64);
}

// Lists of more inputs and outputs than there are: nothing is read or written beyond the arrays,
// and the other pairs give what they do without them.
TEST(gemm_emulated_lists_that_disagree_with_their_counts) {
    check_random_layers(true, test_quick() ? 16 : 64);
}

TEST(gemm_emulated_starts_that_do_not_ascend) {
    const int32_t bad[][4] = {{1, 12, 24, 36}, {0, 12, 11, 36}, {0, 12, 24, 37}, {0, 12, 24, -1}};
    ggs_request r = {};
    r.shape = shape_make(3, 4, 0, 4, numeric_f32);
    r.pairs.capacity = 36;
    r.outputs = 12;
    r.grouping = planned.grouping;
    for (auto &begin : bad) {
        int32_t *host = guarded_new<int32_t>(7 * 3 + 2);
        std::copy_n(begin, 4, host);
        host[4] = 12;
        ggs_layer l = {};
        CHECK_STATUS(ggs_plan_groups(&r, host, &l), status_bad_size);
        guarded_finish();
    }
}

TEST(gemm_emulated_negative_counts) {
    layers_negative_counts<gemm>(shape_make(5, 20, 0, 40, numeric_f16), {1, 1, 1, 1});
}

TEST(gemm_emulated_weights_beyond_the_format) {
    for (numeric type : numerics) {
        layers_weights_beyond<gemm>(type, 9, 20);
    }
}

TEST(gemm_emulated_planted_errors_are_found) {
    for (numeric type : numerics) {
        layers_planted_errors<gemm>(type, {1, 1, 1, 1}, 9);
    }
}
