// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/net_records.cuh: tuning records for the convolutions of a plan, and what a plan has
// taken of them.
#ifndef SPIRA_TESTS_NET_RECORDS_CUH
#define SPIRA_TESTS_NET_RECORDS_CUH

#include "nets.cuh"

namespace nets {

inline tune_choice choice_made(int tiles, int slices, int split) {
    tune_choice c = {};
    c.dataflow = tune_dataflow_os;
    c.tiles = tiles;
    c.slices = slices;
    c.split = split;
    return c;
}

// A deterministic record of a convolution of a plan. pairs 0: any density.
inline tune_record record_of(const net_plan *p, int layer, const device_info *d, int64_t pairs,
                             tune_choice choice) {
    const net_step *step = &p->step[layer];
    tune_key key = tune_key_make(d, &step->shape, p->set[step->set].capacity, pairs, true);
    return {key, choice, 1000};
}

// Some way to compute a layer that is not the one without records, where there is one.
inline tune_choice choice_of(const net_plan *p, int layer, const device_info *d, int turn) {
    static conv_sizes sizes[conv_sizes_most];
    const net_step *step = &p->step[layer];
    const conv_shape *s = &step->shape;
    const int count = conv_sizes_list(s, d, sizes);
    CHECK(count > 0);
    return tune_choice_cut(&sizes[(turn * 7 + layer) % count]);
}

// The first half of planning for a device that is not there.
inline status plan_for(const network *n, const net_limits *limits, const device_info *d,
                       net_plan *p) {
    SPIRA_TRY(net_plan_sets(n->layers, n->count, limits, true, p));
    p->gpu = *d;
    return net_plan_choices(limits, d, p);
}

// A record for each convolution.
inline std::vector<tune_record> records_of(const net_plan *p, const device_info *d, int turn) {
    std::vector<tune_record> records;
    for (int i = 0; i < p->layer_count; ++i) {
        if (net_is_conv(&p->layers[i])) {
            tune_choice choice = choice_of(p, i, d, turn);
            records.push_back(record_of(p, i, d, p->limits.voxels, choice));
        }
    }
    return records;
}

inline bool choice_none(const tune_choice *c) {
    const tune_choice none = {};
    return tune_same_choice(c, &none);
}

// What a plan takes fits the layer. Returns how many layers take one.
inline int check_choices(const net_plan *p, const device_info *d) {
    int taken = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        const tune_choice *c = &step->choice;
        if (choice_none(c)) {
            continue;
        }
        const conv_sizes sizes = tune_sizes(c);
        CHECK(net_is_conv(&p->layers[i]));
        CHECK(!c->tiles || conv_sizes_fit(&step->shape, d, &sizes));
        ++taken;
    }
    return taken;
}

} // namespace nets

#endif
