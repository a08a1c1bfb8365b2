// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_weights.h: parameters of the examples' networks, read from a blob file
// (spira/blob.h) or generated from a seed, and written to such a file; and files of tuning records.
#ifndef SPIRA_EXAMPLES_SCAN_WEIGHTS_H
#define SPIRA_EXAMPLES_SCAN_WEIGHTS_H

#include "../spira.cuh"
#include "networks.h"
#include "scan_file.h"
#include "scan_side.h"

namespace weights {

// Writes a new file. An existing file is left as it is, and errno says so; after an error no
// partial file remains.
SPIRA_API spira::status file_write(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wbx");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    bool written = fwrite(data, 1, bytes, file) == bytes;
    int error = written ? 0 : errno;
    if (fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    if (!written) {
        remove(path);
    }
    SPIRA_REQUIRE(written, spira::status_file_open, path, error);
    return spira::status_success();
}

// Whether a blob has other parameters for a layer than the layer takes.
SPIRA_API bool is_misfit(const spira::net_plan *plan, const spira::blob *blob, int layer) {
    bool misfit = false;
    for (int kind = 0; kind < (int)spira::net_blob_kinds; ++kind) {
        misfit = misfit || spira::net_blob_misfit(plan, blob, layer, kind);
    }
    return misfit;
}

// How a good blob does not fit a layer: channels of the network's input that it is for, if they are
// others than the plan's; else -1.
SPIRA_API int misfit_of(const spira::net_plan *plan, const spira::blob *b, int layer) {
    const spira::net_layer *l = &plan->layers[layer];
    const int found = blob_find(b, l->name, spira::blob_weight);
    if (found < 0 || spira::net_number(l->source) != spira::net_input || l->source2.plus_two) {
        return -1;
    }
    const int channels = (int)spira::blob_entry_of(b, found).shape[3];
    return channels == plan->limits.channels ? -1 : channels;
}

// Reads the parameters of a plan from a file. misfit: misfit_of, if the blob is good and does not
// fit the network; else 0.
SPIRA_API spira::status read(const char *path, const spira::net_plan *plan, float *params,
                             int *unused, int *misfit) {
    unsigned char *memory;
    int64_t bytes;
    spira::blob blob = {};
    spira::status s = scan::file_load(path, &memory, &bytes);
    s = spira::status_failed(s) ? s : spira::blob_open(memory, (size_t)bytes, &blob);
    s = spira::status_failed(s) ? s : spira::net_blob_read(plan, &blob, params, unused);
    const bool fits = s.code != spira::status_layer || !is_misfit(plan, &blob, (int)s.detail);
    *misfit = fits ? 0 : misfit_of(plan, &blob, (int)s.detail);
    free(memory);
    return s;
}

// Gives layers the formats and ranges of a blob (net_blob_ranges).
SPIRA_API spira::status ranges_read(const char *path, networks::network *net) {
    spira::net_limits limits = {};
    unsigned char *memory;
    int64_t bytes;
    spira::blob blob = {};
    spira::status s = scan::file_load(path, &memory, &bytes);
    s = spira::status_failed(s) ? s : spira::blob_open(memory, (size_t)bytes, &blob);
    s = spira::status_failed(s) ? s
                                : spira::net_blob_ranges(&blob, net->layers, net->count, &limits);
    net->input_range = limits.range;
    free(memory);
    return s;
}

// Makes a network the int8 one that a blob has ranges for, where the options allow it. Returns 0 or
// the exit code.
SPIRA_API int ranges_take(const side::options *o, networks::network *net) {
    networks::network *of = (networks::network *)malloc(sizeof *of);
    *of = *net;
    const spira::status s = o->weights ? ranges_read(o->weights, of) : spira::status_success();
    const int code = spira::status_failed(s) ? side::fail_path("weights", o->weights, net, s)
                                             : side::int8_take(o, of, net);
    if (s.code == spira::status_layer) {
        fprintf(stderr, "Is this blob for another network?\n");
    }
    free(of);
    return code;
}

// Reads a file of tuning records (spira/tune.h) to memory that the caller frees, after an error
// too.
SPIRA_API spira::status records_read(const char *path, spira::tune_record **records, int *count) {
    unsigned char *memory;
    int64_t bytes;
    *records = nullptr;
    *count = 0;
    spira::status s = scan::file_load(path, &memory, &bytes);
    if (!spira::status_failed(s)) {
        const int most = (int)(bytes / 100 + 1); // a record's line is longer
        *records = (spira::tune_record *)malloc((size_t)most * sizeof **records);
        s = spira::tune_read_text((const char *)memory, (size_t)bytes, *records,
                                  *records ? most : 0, count);
    }
    free(memory);
    return s;
}

// Reads the records of --records into the job. The caller frees them, after an error too. Returns 0
// or the exit code.
SPIRA_API int records_new(const side::options *o, side::job *job) {
    if (!o->records) {
        return 0;
    }
    spira::status s = records_read(o->records, &job->records, &job->record_count);
    return spira::status_failed(s) ? side::fail_path("records", o->records, job->net, s) : 0;
}

// Writes the parameters of a plan, as fp32.
SPIRA_API spira::status write(const char *path, const spira::net_plan *plan, const float *params) {
    size_t bytes;
    spira::blob blob = {};
    SPIRA_TRY(spira::net_blob_bytes(plan, spira::numeric_f32, &bytes));
    void *memory = malloc(bytes);
    SPIRA_REQUIRE(memory, spira::status_workspace, "bytes of memory", bytes);
    spira::status s = spira::net_blob_write(plan, params, spira::numeric_f32, memory, bytes, &blob);
    if (!spira::status_failed(s)) {
        s = file_write(path, memory, blob.bytes);
    }
    free(memory);
    return s;
}

// Saves the parameters where the options say. Returns 0 or the exit code.
SPIRA_API int params_save(const side::options *o, const networks::network *net,
                          const spira::net_plan *plan, const float *params) {
    spira::status s = write(o->save_weights, plan, params);
    if (spira::status_failed(s)) {
        return side::fail("saving the weights", net, s);
    }
    printf("weights saved: %s\n", o->save_weights);
    return 0;
}

// Reads or generates the parameters, and saves them if asked to. Returns 0 or the exit code.
SPIRA_API int params_fill(const side::options *o, const networks::network *net,
                          const spira::net_plan *plan, float *params) {
    if (o->weights) {
        int unused = 0;
        int misfit;
        spira::status s = read(o->weights, plan, params, &unused, &misfit);
        if (spira::status_failed(s)) {
            const int code = side::fail_path("weights", o->weights, net, s);
            if (misfit > 0) {
                fprintf(stderr, "The blob is for %d channels: --channels %d\n", misfit, misfit);
            } else if (misfit) {
                fprintf(stderr, "Is this blob for another network?\n");
            }
            return code;
        }
        printf("weights: %s", o->weights);
        if (unused) {
            printf(", %d entries of no layer of %s", unused, o->onnx ? o->onnx : o->net);
        }
        printf("\n");
    } else {
        networks::network_weights(plan, o->seed, params);
        printf("weights: random (seed %u)\n", o->seed);
    }
    return o->save_weights ? params_save(o, net, plan, params) : 0;
}

// Does the same into new memory, which the caller frees, after an error too. All plans of a network
// have the parameters in the same order; `plan` becomes one of them. The network becomes int8 as
// ranges_take says. Returns 0 or the exit code.
SPIRA_API int params_new(const side::options *o, networks::network *net, spira::net_plan *plan,
                         float **params) {
    *params = nullptr;
    const int code = ranges_take(o, net);
    if (code) {
        return code;
    }
    const spira::net_limits limits = side::limits_of(net, 1);
    spira::status s = spira::net_plan_sets(net->layers, net->count, &limits, false, plan);
    if (spira::status_failed(s)) {
        return side::fail("planning the network", net, s);
    }
    *params = (float *)malloc((size_t)plan->params * sizeof(float));
    if (!*params) {
        fprintf(stderr, "no memory for the parameters\n");
        return 1;
    }
    return params_fill(o, net, plan, *params);
}

} // namespace weights

#endif
