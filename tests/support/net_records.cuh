// tests/support/net_records.cuh: tuning records for the convolutions of a plan, and what a plan has
// taken of them.
#ifndef SPIRA_TESTS_NET_RECORDS_CUH
#define SPIRA_TESTS_NET_RECORDS_CUH

#include "nets.cuh"

namespace nets {

inline tune_choice choice_made(int rows, int tiles, int slices, int split) {
    tune_choice c = {};
    c.dataflow = tune_dataflow_os;
    c.rows = rows;
    c.tiles = tiles;
    c.slices = slices;
    c.split = split;
    return c;
}

// A deterministic record of a convolution of a plan. pairs 0: any density.
inline tune_record record_of(const net_plan *p, int layer, const device_info *d, int64_t pairs,
                             tune_choice choice) {
    const net_step *step = &p->step[layer];
    tune_key key =
        tune_key_make(tune_gpu_of(d), &step->shape, p->set[step->set].capacity, pairs, true);
    return {key, choice, {1000, 0}};
}

// Some way to compute a layer that is not the one without records, where there is one.
inline tune_choice choice_of(const net_plan *p, int layer, const device_info *d, int turn) {
    static conv_sizes sizes[conv_sizes_most];
    const net_step *step = &p->step[layer];
    const conv_shape *s = &step->shape;
    const conv_kernel kernel = conv_kernel_of(s, d);
    int rows = conv_kernel_form(kernel) == conv_form_order ? 0
               : turn % 2 || step->map == net_none         ? tile_rows(s->volume)
                                                           : tile_rows_limit(s->volume);
    if (kernel == conv_kernel_exact) {
        return choice_made(rows, 0, 0, 0);
    }
    int count = conv_sizes_list(s, rows, d, sizes);
    CHECK(count > 0);
    return tune_choice_cut(rows, &sizes[(turn * 7 + layer) % count]);
}

// The first half of planning for a device that is not there.
inline status plan_for(const network *n, const net_limits *limits, const device_info *d,
                       net_plan *p) {
    SPIRA_TRY(net_plan_sets(n->layers, n->count, limits, true, p));
    net_plan_forms(p, d);
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

// What a plan takes fits the layer and the tiles of its map. Returns how many layers take one.
inline int check_choices(const net_plan *p, const device_info *d) {
    int taken = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        const tune_choice *c = &step->choice;
        if (choice_none(c)) {
            continue;
        }
        const bool tiled = conv_kernel_form(conv_kernel_of(&step->shape, d)) == conv_form_tiles;
        const conv_sizes sizes = tune_sizes(c);
        int rows = step->map == net_none ? tile_rows(1) : p->map[step->map].rows;
        CHECK(net_is_conv(&p->layers[i]));
        CHECK_EQUAL(c->rows, tiled ? rows : 0);
        CHECK(!c->tiles || conv_sizes_fit(&step->shape, rows, d, &sizes));
        ++taken;
    }
    return taken;
}

} // namespace nets

#endif
