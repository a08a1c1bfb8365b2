// tests/support/join_grad_problems.h: problems for the tests of join_sum_grad: source rows of
// several sets, each of one voxel or of none.
#ifndef SPIRA_TESTS_JOIN_GRAD_PROBLEMS_H
#define SPIRA_TESTS_JOIN_GRAD_PROBLEMS_H

#include "../../spira/join_grad.h"
#include "reference.h"

struct join_grad_problem {
    spira::join_sum_grad_args args;    // without pointers
    std::vector<int32_t> begin, order; // of join_rows
    std::vector<int32_t> voxel;        // of each source row; -1: none
    int32_t voxels;
    std::vector<char> out_grad; // as stored
};

[[maybe_unused]] static join_grad_problem join_grad_problem_make(random_state *r, int most) {
    const spira::numeric types[] = {spira::numeric_f32, spira::numeric_tf32, spira::numeric_f16,
                                    spira::numeric_bf16};
    join_grad_problem p = {};
    p.voxels = random_int(r, 0, most);
    p.args.sets = random_int(r, 1, spira::join_sets_max);
    p.args.channels = random_int(r, 0, 1) ? random_int(r, 1, 20) : 8 * random_int(r, 1, 5);
    p.args.type = types[random_int(r, 0, 3)];
    p.args.out_capacity = p.voxels + random_int(r, 1, 9);
    for (int s = 0; s < p.args.sets; ++s) {
        p.args.capacity[s] = random_int(r, 1, most);
        for (int32_t i = 0; i < p.args.capacity[s]; ++i) {
            p.voxel.push_back(p.voxels && random_int(r, 0, 4) ? random_int(r, 0, p.voxels - 1)
                                                              : -1);
        }
    }
    std::vector<std::vector<int32_t>> rows((size_t)p.voxels);
    for (size_t i = 0; i < p.voxel.size(); ++i) {
        if (p.voxel[i] >= 0) {
            rows[(size_t)p.voxel[i]].push_back((int32_t)i);
        }
    }
    p.begin.push_back(0);
    for (const std::vector<int32_t> &own : rows) {
        p.order.insert(p.order.end(), own.begin(), own.end());
        p.begin.push_back((int32_t)p.order.size());
    }
    p.order.resize(p.voxel.size(), -1);
    p.begin.resize((size_t)p.args.out_capacity + 1, -1);
    const int64_t values = (int64_t)p.args.out_capacity * p.args.channels;
    std::vector<float> value((size_t)values);
    reference_random_values(r, p.args.type, 1, values, value.data());
    p.out_grad.resize((size_t)(values * spira::numeric_size(p.args.type)));
    reference_store(p.args.type, value.data(), values, p.out_grad.data());
    return p;
}

// Whether `got` is the gradient of a set: the bytes of the row's voxel, or zeros.
[[maybe_unused]] static bool join_grad_good(const join_grad_problem *p, int set, const char *got) {
    const size_t row = (size_t)(p->args.channels * spira::numeric_size(p->args.type));
    int32_t base = 0;
    for (int s = 0; s < set; ++s) {
        base += p->args.capacity[s];
    }
    const std::vector<char> zeros(row);
    for (int32_t i = 0; i < p->args.capacity[set]; ++i) {
        const int32_t voxel = p->voxel[(size_t)(base + i)];
        const char *wanted = voxel < 0 ? zeros.data() : p->out_grad.data() + (size_t)voxel * row;
        if (memcmp(got + (size_t)i * row, wanted, row) != 0) {
            return false;
        }
    }
    return true;
}

#endif
