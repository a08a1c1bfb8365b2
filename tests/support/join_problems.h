// tests/support/join_problems.h: problems for the tests of unions and projections, and what comes
// of them, by a table of coordinates.
#ifndef SPIRA_TESTS_JOIN_PROBLEMS_H
#define SPIRA_TESTS_JOIN_PROBLEMS_H

#include "reference.h"
#include "sets.h"

#include "../../spira/join.h"

#include <array>
#include <map>

// Sets and their features as they are stored.
template <typename W>
struct join_problem {
    spira::word_layout layout;
    int sets;
    spira::join_axis axis;
    int at;
    std::vector<W> words[spira::join_sets_max]; // [capacity]
    int32_t count[spira::join_sets_max];        // may be above the capacity, or negative
    int32_t out_capacity;
    int channels;
    spira::numeric type;
    std::vector<char> features[spira::join_sets_max]; // [capacity, channels]
    int off; // elements by which the arrays of features are off 256 bytes
    char label[256];

    int32_t capacity(int s) const {
        return (int32_t)words[s].size();
    }
    int32_t voxels(int s) const {
        return (int32_t)spira::max_of(spira::min_of(count[s], capacity(s)), 0);
    }
    int32_t total() const {
        int32_t all = 0;
        for (int s = 0; s < sets; ++s) {
            all += capacity(s);
        }
        return all;
    }
    // Without pointers.
    spira::join_args<W> args() const {
        spira::join_args<W> a = {};
        a.layout = &layout;
        a.sets = sets;
        a.axis = axis;
        a.at = at;
        for (int s = 0; s < sets; ++s) {
            a.set[s].capacity = capacity(s);
        }
        a.out.capacity = out_capacity;
        return a;
    }
};

// A set with other words behind the first `voxels`.
template <typename W>
void join_problem_fill(random_state *r, join_problem<W> *p, int s, spira::triple lo,
                       spira::triple hi, int stride, int32_t wanted, int32_t room) {
    p->words[s].resize((size_t)wanted + 1);
    const int32_t have = reference_random_set(r, &p->layout, lo, hi, {stride, stride, stride},
                                              wanted, p->words[s].data());
    p->words[s].resize((size_t)have);
    p->count[s] = have;
    set_pad(&p->words[s], (int32_t)spira::max_of(have + room, 1));
    const int64_t values = (int64_t)p->capacity(s) * p->channels;
    std::vector<float> value((size_t)values);
    reference_random_values(r, p->type, 30, values, value.data());
    p->features[s].resize((size_t)(values * spira::numeric_size(p->type)));
    reference_store(p->type, value.data(), values, p->features[s].data());
}

template <typename W>
join_problem<W> join_problem_make(random_state *r, int sets, spira::join_axis axis, int32_t most,
                                  int room) {
    const spira::numeric types[] = {spira::numeric_f32, spira::numeric_tf32, spira::numeric_f16,
                                    spira::numeric_bf16};
    join_problem<W> p = {};
    const int wide = sizeof(W) == 8 ? 200 : 12;
    spira::triple lo = {random_int(r, -wide, 0), random_int(r, -9, 0), random_int(r, -9, 0)};
    spira::triple hi = {random_int(r, 0, wide), random_int(r, 0, 9), random_int(r, 0, 9)};
    p.layout = reference_layout<W>(lo, hi, random_int(r, 1, 3), {1, 1, 1}, {1, 1, 1});
    p.sets = sets;
    p.axis = axis;
    const int dropped = axis - spira::join_axis_x;
    p.at = dropped < 0 ? 77
                       : random_int(r, spira::triple_at(p.layout.lo, dropped),
                                    spira::triple_at(p.layout.hi, dropped));
    p.channels = random_int(r, 0, 1) ? random_int(r, 1, 20) : 8 * random_int(r, 1, 5);
    p.type = types[random_int(r, 0, 3)];
    p.off = random_int(r, 0, 1) * random_int(r, 1, 3);
    for (int s = 0; s < sets; ++s) {
        const int stride = 1 << random_int(r, 0, 2);
        const double cells = reference_cells(&p.layout, lo, hi, {stride, stride, stride});
        const int32_t wanted =
            random_int(r, 0, 4) ? (int32_t)std::min((double)random_int(r, 1, most), cells) : 0;
        join_problem_fill(r, &p, s, lo, hi, stride, wanted, random_int(r, 0, room));
    }
    const int32_t total = p.total();
    p.out_capacity = (int32_t)spira::max_of(total + random_int(r, -total / 2, 5), 1);
    snprintf(p.label, sizeof p.label, "%d sets, axis %d at %d, %d rows into %d, %d channels of %s",
             sets, axis, p.at, total, p.out_capacity, p.channels, spira::numeric_name(p.type));
    return p;
}

// What the two functions leave behind.
template <typename W>
struct join_outcome {
    int32_t count;
    spira::device_status trouble;
    std::vector<W> words;              // [out_capacity]
    std::vector<int32_t> begin, order; // [count + 1], [begin[count]]
    std::vector<char> sums;            // [count, channels] as stored
};

template <typename W>
bool join_outcomes_equal(const join_outcome<W> *a, const join_outcome<W> *b) {
    return a->count == b->count && memcmp(&a->trouble, &b->trouble, sizeof a->trouble) == 0 &&
           a->words == b->words && a->begin == b->begin && a->order == b->order &&
           a->sums == b->sums;
}

// The sums of one voxel's rows, in their order.
template <typename W>
void join_expect_sums(const join_problem<W> *p, const std::vector<std::array<int32_t, 2>> *rows,
                      std::vector<char> *sums) {
    const int size = spira::numeric_size(p->type);
    for (int c = 0; c < p->channels; ++c) {
        float sum = 0;
        for (size_t i = 0; i < rows->size(); ++i) {
            const float x = spira::numeric_load(p->type, p->features[(*rows)[i][0]].data(),
                                                (int64_t)(*rows)[i][1] * p->channels + c);
            sum = i ? sum + x : x;
        }
        char element[4];
        spira::numeric_store(p->type, element, 0, sum);
        sums->insert(sums->end(), element, element + size);
    }
}

// The outcome by a table of coordinates, with the rows of each in the order in which they come.
template <typename W>
join_outcome<W> join_expected(const join_problem<W> *p) {
    typedef std::array<int, 4> key;
    std::map<key, std::vector<std::array<int32_t, 2>>> table; // of (set, row)
    join_outcome<W> o = {};
    int32_t bases[spira::join_sets_max] = {};
    for (int s = 0; s < p->sets; ++s) {
        bases[s] = s ? bases[s - 1] + p->capacity(s - 1) : 0;
        if (p->count[s] > p->capacity(s)) {
            o.trouble.flags |= spira::device_flag_capacity;
            o.trouble.needed = std::max(o.trouble.needed, (uint32_t)p->count[s]);
        }
        for (int32_t i = 0; i < p->voxels(s); ++i) {
            const spira::voxel v = spira::word_unpack(&p->layout, p->words[s][(size_t)i]);
            key k = {v.batch, v.x, v.y, v.z};
            if (p->axis != spira::join_axis_none) {
                k[(size_t)p->axis] = p->at; // 0: batch
            }
            table[k].push_back({s, i});
        }
    }
    o.words.assign((size_t)p->out_capacity, spira::word_none<W>());
    o.begin.push_back(0);
    for (const auto &entry : table) {
        if (o.count == p->out_capacity) {
            o.trouble.flags |= spira::device_flag_capacity;
            o.trouble.needed = std::max(o.trouble.needed, (uint32_t)table.size());
            break;
        }
        const key &k = entry.first;
        o.words[(size_t)o.count++] = spira::word_pack<W>(&p->layout, {k[0], k[1], k[2], k[3]});
        for (const std::array<int32_t, 2> &row : entry.second) {
            o.order.push_back(bases[row[0]] + row[1]);
        }
        o.begin.push_back((int32_t)o.order.size());
        join_expect_sums(p, &entry.second, &o.sums);
    }
    return o;
}

#endif
