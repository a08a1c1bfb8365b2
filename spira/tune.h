// spira/tune.h: tuning records: how a layer was computed fastest, stored, compared and looked up.
//
// A record (conv/tune_record.h) has a key (layer, counts, GPU), a choice (dataflow, sizes,
// threshold) and a measurement. A table of records is an array of the caller's.
//
//   tune_find                          the record of a layer, for net_plan_device or tune_choose
//   tune_read_text, tune_write_line    tables as text (conv/tune_text.h)
//   tune_write_initialiser             a table as C++, to be compiled in
//   tune_record_begin, tune_take       keep the fastest correct choice of a measurement
//   tune_compare                       what changed between two tables
//
// tune.cuh lists the choices of a layer, runs one and judges its result. The loop that measures
// them belongs to the caller; bench/tune.cu is one.
#ifndef SPIRA_TUNE_H
#define SPIRA_TUNE_H

#include "conv/tune_error.h"
#include "conv/tune_record.h"
#include "conv/tune_text.h"

namespace spira {

// Records that are further away from a key are not used for it.
enum { tune_distance_most = 2 };

// Returns the record for a key, or null: of the records of the same layer, the nearest by
// tune_distance, at most tune_distance_most steps away. The first of several that are equally near.
SPIRA_API const tune_record *tune_find(const tune_record *records, int count, const tune_key *key) {
    const tune_record *found = nullptr;
    int least = tune_distance_most + 1;
    for (int i = 0; i < count; ++i) {
        const tune_key *k = &records[i].key;
        int distance = tune_same_layer(k, key) ? tune_distance(k, key) : least;
        if (distance < least) {
            found = records + i;
            least = distance;
        }
    }
    return found;
}

// Returns the record of exactly this key, or null.
SPIRA_API const tune_record *tune_find_same(const tune_record *records, int count,
                                            const tune_key *key) {
    const tune_record *found = tune_find(records, count, key);
    return found && tune_distance(&found->key, key) == 0 ? found : nullptr;
}

// ---- measuring ----------------------------------------------------------------------------------

// A record without a measurement.
SPIRA_API tune_record tune_record_begin(const tune_key *key) {
    tune_record r = {};
    r.key = *key;
    return r;
}

// Stores a choice in the record if its result is correct and it is faster than the record's choice.
//
// us       time of one run
// error    largest error of the result, as a multiple of its bound (tune_judge in tune.cuh)
// Returns whether it was stored.
SPIRA_API bool tune_take(tune_record *best, const tune_choice *choice, double us, double error) {
    bool good = error >= 0 && error <= 1 && us > 0 && us < 1e9;
    int64_t ns = good ? max_of((int64_t)(us * 1000 + 0.5), 1) : 0;
    if (!good || (best->measure.ns && best->measure.ns <= ns)) {
        return false;
    }
    best->choice = *choice;
    best->measure.ns = ns;
    best->measure.error = (int32_t)ceil(error * 1000);
    return true;
}

// ---- two tables ---------------------------------------------------------------------------------

// A key that two tables have.
struct tune_difference {
    const tune_record *before, *after;
    double ratio; // time after over time before
    bool changed; // another choice
};

// Compares the records of keys that two tables have.
//
// outputs  differences [before_count], in the order of `before`; they point into the tables
// Returns their number.
SPIRA_API int tune_compare(const tune_record *before, int before_count, const tune_record *after,
                           int after_count, tune_difference *differences) {
    int count = 0;
    for (int i = 0; i < before_count; ++i) {
        const tune_record *b = before + i, *a = tune_find_same(after, after_count, &b->key);
        if (a) {
            differences[count++] = {b, a, (double)a->measure.ns / (double)b->measure.ns,
                                    !tune_same_choice(&b->choice, &a->choice)};
        }
    }
    return count;
}

} // namespace spira

#endif
