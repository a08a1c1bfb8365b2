// tests/host/ring.cpp: the ring of stages of conv/hopper.cuh as a model, where warps come in any
// order and sleep for any time. What goes wrong once in a million tiles on a GPU is found here: it
// is the protocol that is tested, not the kernel.
#include "../support/test.h"

#include <algorithm>
#include <vector>

namespace {

enum { teams = 4, sets_most = 2, groups = 2, group_warps = 4, consumers = groups * group_warps };
enum { patience = 100000 }; // steps in which nobody gets on, until it is said that nobody will

// A barrier as the GPU has it: a wait knows phases by their parity only.
struct model_barrier {
    int count, left, phase;
};

bool barrier_passed(const model_barrier *b, int parity) {
    return (b->phase & 1) != parity;
}

void barrier_arrived(model_barrier *b) {
    if (--b->left == 0) {
        b->left = b->count;
        ++b->phase;
    }
}

struct model_stage {
    model_barrier full, empty;
    int held[2]; // the number that each warp of a team has put there; -1: none
};

struct model_ring {
    int depth, team, sets;   // stages; warps that fill one; sets that take tiles in turns
    bool waits;              // for what was to come to a stage before
    std::vector<int> begin;  // [tiles + 1] number of each tile's first stage
    std::vector<int> wanted; // [numbers] bit g: group g multiplies it
    std::vector<int> given;  // [numbers] warps that have given it back
    std::vector<model_stage> stage;
    model_barrier turn[sets_most][groups];
    int faults;
};

// A warp that fetches or multiplies: what it does next, and how long it sleeps.
struct model_warp {
    bool fetches;
    int set, group, own; // own: of the team
    int number, step;    // of a stage
    int tile, before, turns;
    int asleep;
    bool finished;
};

model_stage *stage_of(model_ring *r, int number) {
    return &r->stage[(size_t)(number % r->depth)];
}

int phase_of(const model_ring *r, int number) {
    return number / r->depth & 1;
}

// One step of a warp of a team: waits twice, fills, arrives. Returns whether it got on.
bool fetch_step(model_ring *r, model_warp *w) {
    model_stage *s = stage_of(r, w->number);
    const int parity = phase_of(r, w->number) ^ 1;
    if (w->step == 0) {
        w->step += !r->waits || barrier_passed(&s->full, parity);
        return w->step > 0;
    }
    if (w->step == 1) {
        w->step += barrier_passed(&s->empty, parity);
        return w->step > 1;
    }
    if (w->step == 2) {
        const int before = w->number - r->depth;
        r->faults += before >= 0 && r->given[(size_t)before] < consumers; // it is still read
        s->held[w->own] = w->number;
        ++w->step;
        return true;
    }
    barrier_arrived(&s->full);
    w->step = 0;
    w->number += teams;
    w->finished = w->number >= r->begin.back();
    return true;
}

void give_back(model_ring *r, int *number) {
    if (*number >= 0) {
        ++r->given[(size_t)*number];
        barrier_arrived(&stage_of(r, *number)->empty);
        *number = -1;
    }
}

// One step of a warp that multiplies: takes the turn, goes from stage to stage, passes the turn,
// and gives its last stage back.
bool multiply_step(model_ring *r, model_warp *w) {
    const int tiles = (int)r->begin.size() - 1;
    if (w->step == 0) {
        const bool takes = r->sets > 1 && w->tile > 0;
        if (takes && !barrier_passed(&r->turn[w->set][w->group], w->turns & 1)) {
            return false;
        }
        w->turns += takes;
        w->number = r->begin[(size_t)w->tile];
        w->step = 1;
        return true;
    }
    if (w->step == 1 && w->number == r->begin[(size_t)w->tile + 1]) {
        if (r->sets > 1) {
            barrier_arrived(&r->turn[1 - w->set][w->group]);
        }
        w->step = 2;
        return true;
    }
    if (w->step == 1) {
        model_stage *s = stage_of(r, w->number);
        if (!barrier_passed(&s->full, phase_of(r, w->number))) {
            return false;
        }
        for (int i = 0; i < r->team; ++i) {
            r->faults += s->held[i] != w->number;
        }
        int own = w->number++;
        give_back(r, &w->before);
        if (r->wanted[(size_t)own] >> w->group & 1) {
            w->before = own;
        } else {
            give_back(r, &own);
        }
        return true;
    }
    give_back(r, &w->before);
    w->tile += r->sets;
    w->step = 0;
    w->finished = w->tile >= tiles;
    return true;
}

model_ring ring_make(random_state *random, int depth, int team, int sets, bool waits) {
    model_ring r = {};
    r.depth = depth;
    r.team = team;
    r.sets = sets;
    r.waits = waits;
    r.begin = {0};
    for (int tiles = random_int(random, 1, 12); tiles > 0; --tiles) {
        r.begin.push_back(r.begin.back() + random_int(random, 1, 9));
    }
    for (int i = 0; i < r.begin.back(); ++i) {
        r.wanted.push_back(random_int(random, 0, 3));
    }
    r.given.assign(r.wanted.size(), 0);
    r.stage.assign((size_t)depth, {{team, team, 0}, {consumers, consumers, 0}, {-1, -1}});
    for (auto &set : r.turn) {
        for (model_barrier &b : set) {
            b = {group_warps, group_warps, 0};
        }
    }
    return r;
}

std::vector<model_warp> warps_make(const model_ring *r) {
    std::vector<model_warp> warps;
    for (int i = 0; i < teams * r->team; ++i) {
        model_warp w = {};
        w.fetches = true;
        w.number = i / r->team;
        w.own = i % r->team;
        w.finished = w.number >= r->begin.back();
        warps.push_back(w);
    }
    for (int i = 0; i < r->sets * consumers; ++i) {
        model_warp w = {};
        w.set = w.tile = i / consumers;
        w.group = i / group_warps % groups;
        w.before = -1;
        w.finished = w.tile + 1 >= (int)r->begin.size();
        warps.push_back(w);
    }
    return warps;
}

// Runs a ring to its end; returns how often something was wrong.
int ring_run(random_state *random, int depth, int team, int sets, bool waits) {
    model_ring r = ring_make(random, depth, team, sets, waits);
    std::vector<model_warp> warps = warps_make(&r);
    const int last = (int)warps.size() - 1;
    int left = 1;
    for (int idle = 0; left && idle < patience; ++idle) {
        model_warp *w = &warps[(size_t)random_int(random, 0, last)];
        if (w->asleep > 0 || w->finished) {
            w->asleep -= w->asleep > 0;
        } else if (w->fetches ? fetch_step(&r, w) : multiply_step(&r, w)) {
            w->asleep = random_int(random, 0, 40) ? 0 : random_int(random, 1, 60);
            idle = 0;
        }
        left = (int)std::count_if(warps.begin(), warps.end(),
                                  [](const model_warp &i) { return !i.finished; });
    }
    return r.faults + (left > 0); // they wait for each other
}

int ring_faults(int depth, int team, int sets, bool waits) {
    random_state random = random_make((uint64_t)(depth * 2 + team));
    int faults = 0;
    for (int run = 0; run < 300; ++run) {
        faults += ring_run(&random, depth, team, sets, waits) > 0;
    }
    return faults;
}

} // namespace

// Two sets wait for what was to come to a stage before, too; one need not.
TEST(ring_stages_are_not_filled_while_they_are_read) {
    for (int depth = 4; depth <= 8; ++depth) {
        for (int team = 1; team <= 2; ++team) {
            CHECK_EQUAL(ring_faults(depth, team, 2, true), 0);
            CHECK_EQUAL(ring_faults(depth, team, 1, false), 0);
        }
    }
}

TEST(ring_of_two_sets_needs_both_waits) {
    for (int team = 1; team <= 2; ++team) {
        CHECK_EQUAL(ring_faults(4, team, 2, false), 0); // a team comes to the same stage again
        CHECK(ring_faults(5, team, 2, false) > 0);
        CHECK(ring_faults(6, team, 2, false) > 0);
    }
}
