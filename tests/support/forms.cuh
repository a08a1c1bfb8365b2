// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/forms.cuh: the forms of a kernel map on the GPU, and what the host makes of them
// (reference_forms.h).
#ifndef SPIRA_TESTS_FORMS_CUH
#define SPIRA_TESTS_FORMS_CUH

#include "reference_forms.h"
#include "sets.cuh"

#include "../../spira/map.cuh"

using namespace spira;

// A layer in device memory and the scratch of its lists, of exactly the sizes needed.
template <typename W>
struct device_layer {
    forms_layer<W> l;
    char *scratch;
    size_t scratch_bytes;
};

template <typename W>
device_layer<W> layer_make(const forms_scene<W> *s, const forms_wish *wish, int32_t room = 0) {
    device_layer<W> d = {forms_layer_make(s, wish, room, &memory_device), nullptr, 0};
    if (wish->pairs) {
        CHECK_OK(map_lists_workspace(&s->kernel, d.l.outputs.capacity, &d.scratch_bytes));
        d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    }
    return d;
}

template <typename W>
status layer_build(const device_layer<W> *d, cudaStream_t stream) {
    const forms_layer<W> *l = &d->l;
    map_forms forms = forms_of(l);
    if (!l->wish.pairs) {
        return map_build_forms<W>(&l->layout, &l->kernel, l->source, l->outputs, &forms, stream);
    }
    const map_request<W> request = forms_request_of(l);
    const map_lists pairs = forms_pairs_of(l);
    return map_build_lists(&l->layout, &request, &pairs, d->scratch, d->scratch_bytes, stream);
}

// In scratch of its own.
template <typename W>
status layer_build_alone(const forms_layer<W> *l) {
    device_layer<W> d = {*l, nullptr, 0};
    if (l->wish.pairs &&
        !status_failed(map_lists_workspace(&l->kernel, l->outputs.capacity, &d.scratch_bytes))) {
        d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    }
    return layer_build(&d, stream_get());
}

// Restores the state after layer_make. The scratch keeps what the last run wrote.
template <typename W>
void layer_clean(const forms_layer<W> *l) {
    device_status before = forms_trouble();
    device_copy_in(l->trouble, &before, 1);
    for (int p = 0; p < forms_parts && !test_environment("SPIRA_UNPOISONED"); ++p) {
        forms_place at = forms_place_of(l, p, 0);
        if (l->part[p]) {
            CUDA_CHECK(cudaMemset(l->part[p], guarded_poison, (size_t)(at.rows * at.pitch) * 4));
        }
    }
    CUDA_CHECK(cudaDeviceSynchronize());
}

// Another scene of the same kernel, in the same buffers.
template <typename W>
void layer_refill(forms_layer<W> *l, const forms_scene<W> *s) {
    set_refill(&l->source, s->source);
    if (!s->same) {
        set_refill(&l->outputs, s->outputs);
    }
    l->count = (int32_t)s->outputs.size();
    layer_clean(l);
}

// Fails the test with the first difference between a layer in device memory and the host's result.
template <typename W>
void check_layer(const forms_layer<W> *l, const forms_result *wanted, const char *label) {
    forms_result got = forms_fetch(l, &memory_device);
    CHECK_EQUAL(forms_difference(&got, wanted, label), "");
}

// Builds a wish on both sides and compares. Frees all buffers of the test.
template <typename W>
void check_wish(const forms_scene<W> *s, forms_wish wish, int32_t room = 0) {
    char label[256];
    snprintf(label, sizeof label, "%s, threshold %d%s", s->name, wish.threshold,
             wish.half ? ", half" : "");
    forms_result wanted = forms_on_host(s, &wish, room);
    device_layer<W> d = layer_make(s, &wish, room);
    CHECK_OK(layer_build(&d, stream_get()));
    check_layer(&d.l, &wanted, label);
    guarded_finish();
}

#endif
