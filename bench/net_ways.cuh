// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/net_ways.cuh: other ways than net_run's to build the kernel maps of a network.
//
// "fig13", a whole run:
//   bsearch       separate launches; each layer builds its set unless an earlier layer has, then
//                 its own map by a binary search for each output and offset
//   zdelta        the same with the z-delta search
//   network-wide  separate launches; all sets, then all maps in few launches, shared by the layers
//   graph         the same in one graph
// "fig15", sets and maps alone: "sequential" (a launch for each map), "streams" (on 4 streams, each
// map after its sets), "batch" (up to 16 maps in a launch).
//
// All ways write output-stationary maps; they differ in the search and in its order. The
// convolutions read layouts that net_index has written before, so no way's time includes the
// conversion of a map to a layout. The figures compare the ways with each other, not with net_run,
// which writes these layouts and only the maps that it needs for them or for pooling.
#ifndef SPIRA_BENCH_NET_WAYS_CUH
#define SPIRA_BENCH_NET_WAYS_CUH

#include "net_check.cuh"
#include "search_query.cuh"

enum { net_streams = 4 };

template <typename W>
struct net_maps {
    const net_work<W> *work;
    bool bsearch; // a binary search for each output and offset, not the z-delta search
    int32_t *os[spira::net_maps_max];         // [outputs, volume]
    const int32_t *host[spira::net_maps_max]; // what must be in them
    cudaStream_t stream[net_streams];
    cudaEvent_t set[spira::net_sets_max], done[net_streams];
};

// One bar of a figure.
struct net_way {
    int part; // bench_part_fig13: a whole run; bench_part_fig15: the index alone
    const char *method;
    bench_step step; // of net_maps
    bool bsearch;
    bool captured; // in a graph; else launched one by one
};

// ---- pieces -------------------------------------------------------------------------------------

// One set, from its parent.
template <typename W>
static spira::status net_set_step(const net_work<W> *w, int set, cudaStream_t stream) {
    const spira::net_plan *p = w->plan;
    int from = p->set[set].parent;
    const spira::downsample_args<W> args = {&p->layout,          net_set(w, from),
                                            p->set[from].stride, p->set[set].stride,
                                            net_set(w, set),     w->scene.trouble};
    return spira::downsample(&p->gpu, &args, w->memory + p->scratch, p->scratch_bytes, stream);
}

template <typename W>
static spira::status net_all_sets(const net_work<W> *w, cudaStream_t stream) {
    for (int i = 1; i < w->plan->sets; ++i) {
        SPIRA_TRY(net_set_step(w, i, stream));
    }
    return spira::status_success();
}

template <typename W>
static spira::map_request<W> net_request(const net_maps<W> *m, int map) {
    const spira::net_map *at = &m->work->plan->map[map];
    spira::map_request<W> r = {};
    r.kernel = at->kernel;
    r.source = net_set(m->work, at->source);
    r.outputs = net_set(m->work, at->outputs);
    r.forms = spira::map_forms_os(m->os[map]);
    return r;
}

// One map, in a launch of its own.
template <typename W>
static spira::status net_map_step(const net_maps<W> *m, int map, cudaStream_t stream) {
    const spira::word_layout *layout = &m->work->plan->layout;
    spira::map_request<W> r = net_request(m, map);
    if (!m->bsearch) {
        return spira::map_build(layout, &r.kernel, r.source, r.outputs, r.forms.os, stream);
    }
    search_case<W> c = {*layout, r.kernel, {r.outputs, {}}, r.forms.os};
    search_bsearch<W> finder = {r.source.words, r.source.count, r.source.capacity};
    return search_query(&c, finder, stream);
}

// ---- Figure 13: one idea after the other --------------------------------------------------------

// Without planning: each layer builds its set, unless an earlier layer has built it, then its own
// map and its features.
template <typename W>
static spira::status net_layerwise_step(void *context, cudaStream_t stream) {
    const net_maps<W> *m = (const net_maps<W> *)context;
    const spira::net_plan *p = m->work->plan;
    bool made[spira::net_sets_max] = {true};
    SPIRA_TRY(net_voxelize_step<W>((void *)m->work, stream));
    for (int i = 0; i < p->layer_count; ++i) {
        const spira::net_step *step = &p->step[i];
        if (!made[step->set]) {
            made[step->set] = true;
            SPIRA_TRY(net_set_step(m->work, step->set, stream));
        }
        if (step->map != spira::net_none) {
            SPIRA_TRY(net_map_step(m, step->map, stream));
        }
        SPIRA_TRY(net_layer_step(m->work, i, false, stream));
    }
    return spira::status_success();
}

// ---- Figure 15: the index of a network ----------------------------------------------------------

// Each set, then each map, one after the other.
template <typename W>
static spira::status net_sequential_step(void *context, cudaStream_t stream) {
    const net_maps<W> *m = (const net_maps<W> *)context;
    SPIRA_TRY(net_all_sets(m->work, stream));
    for (int i = 0; i < m->work->plan->maps; ++i) {
        SPIRA_TRY(net_map_step(m, i, stream));
    }
    return spira::status_success();
}

// Maps are launched round robin on a few streams, each as soon as its sets are there.
template <typename W>
static spira::status net_streams_step(void *context, cudaStream_t stream) {
    const net_maps<W> *m = (const net_maps<W> *)context;
    const spira::net_plan *p = m->work->plan;
    int streams = p->maps < net_streams ? p->maps : (int)net_streams;
    for (int i = 0; i < p->sets; ++i) {
        SPIRA_TRY(i ? net_set_step(m->work, i, stream) : spira::status_success());
        SPIRA_TRY(spira::status_from_cuda(cudaEventRecord(m->set[i], stream), "a set"));
    }
    for (int i = 0; i < p->maps; ++i) {
        cudaStream_t side = m->stream[i % streams];
        const spira::net_map *map = &p->map[i]; // sets are made in the order of their numbers
        int last = map->source > map->outputs ? map->source : map->outputs;
        SPIRA_TRY(spira::status_from_cuda(cudaStreamWaitEvent(side, m->set[last], 0), "fork"));
        SPIRA_TRY(net_map_step(m, i, side));
    }
    for (int i = 0; i < streams; ++i) {
        SPIRA_TRY(spira::status_from_cuda(cudaEventRecord(m->done[i], m->stream[i]), "maps"));
        SPIRA_TRY(spira::status_from_cuda(cudaStreamWaitEvent(stream, m->done[i], 0), "join"));
    }
    return spira::status_success();
}

// All sets, then all maps in few launches, as net_index does.
template <typename W>
static spira::status net_batch_step(void *context, cudaStream_t stream) {
    const net_maps<W> *m = (const net_maps<W> *)context;
    spira::map_request<W> request[spira::net_maps_max];
    SPIRA_TRY(net_all_sets(m->work, stream));
    for (int i = 0; i < m->work->plan->maps; ++i) {
        request[i] = net_request(m, i);
    }
    return spira::map_build_batch(bench_gpu(), &m->work->plan->layout, request, m->work->plan->maps,
                                  stream);
}

// Figure 13 again: the index first, each map once, then all features.
template <typename W>
static spira::status net_indexed_step(void *context, cudaStream_t stream) {
    const net_maps<W> *m = (const net_maps<W> *)context;
    SPIRA_TRY(net_voxelize_step<W>((void *)m->work, stream));
    SPIRA_TRY(net_batch_step<W>(context, stream));
    return net_features_step<W>((void *)m->work, stream);
}

// ---- memory and checks --------------------------------------------------------------------------

template <typename W>
static int64_t net_map_elements(const net_work<W> *w, int map) {
    const spira::net_map *m = &w->plan->map[map];
    return (int64_t)*w->sets[m->outputs].count * m->volume;
}

template <typename W>
static void net_maps_open(bench_session *s, const net_work<W> *w, net_maps<W> *m) {
    m->work = w;
    for (int i = 0; i < w->plan->maps; ++i) {
        const spira::net_map *at = &w->plan->map[i];
        int32_t *host = bench_host<int32_t>(&s->pool, net_map_elements(w, i));
        BENCH_TRY(spira::map_build_host(&w->plan->layout, &at->kernel, w->sets[at->source],
                                        w->sets[at->outputs], host));
        m->host[i] = host;
        m->os[i] = bench_device<int32_t>(&s->pool, net_map_elements(w, i));
    }
    for (int i = 0; i < net_streams; ++i) {
        BENCH_CUDA(cudaStreamCreateWithFlags(&m->stream[i], cudaStreamNonBlocking));
        BENCH_CUDA(cudaEventCreateWithFlags(&m->done[i], cudaEventDisableTiming));
    }
    for (int i = 0; i < w->plan->sets; ++i) {
        BENCH_CUDA(cudaEventCreateWithFlags(&m->set[i], cudaEventDisableTiming));
    }
}

template <typename W>
static void net_maps_close(net_maps<W> *m) {
    for (int i = 0; i < net_streams; ++i) {
        BENCH_CUDA(cudaStreamDestroy(m->stream[i]));
        BENCH_CUDA(cudaEventDestroy(m->done[i]));
    }
    for (int i = 0; i < m->work->plan->sets; ++i) {
        BENCH_CUDA(cudaEventDestroy(m->set[i]));
    }
}

// Runs a way and compares sets, maps and, of fig13, the last features.
template <typename W>
static void net_way_check(bench_session *s, net_maps<W> *m, const net_way *way) {
    const net_work<W> *w = m->work;
    for (int i = 0; i < w->plan->maps; ++i) {
        BENCH_CUDA(cudaMemsetAsync(m->os[i], bench_poison,
                                   (size_t)net_map_elements(w, i) * sizeof(int32_t), s->stream));
    }
    net_check_step(s, w, way->step, m, way->captured, way->part == bench_part_fig13);
    for (int i = 0; i < w->plan->maps; ++i) {
        bench_check_same(&s->pool, m->host[i], (const int32_t *)m->os[i], net_map_elements(w, i),
                         w->label, "kernel maps");
    }
}

// fig13 is timed as its caller sees it, fig15 as what it adds to a chain inside a graph.
template <typename W>
static bench_time net_way_time(bench_session *s, net_maps<W> *m, const net_way *way) {
    int runs = net_runs(s);
    return way->part == bench_part_fig15 ? bench_measure(s->stream, way->step, m)
           : way->captured ? bench_wall_graph(s->stream, way->step, m, runs, net_part_us)
                           : bench_repeat(s->stream, way->step, m, runs, net_part_us, false);
}

// Times the selected ways, after net_index. `bytes` of fig15 are those of the maps.
template <typename W>
static void net_ways_run(bench_session *s, const net_work<W> *w) {
    static const net_way ways[] = {
        {bench_part_fig13, "bsearch", net_layerwise_step<W>, true, false},
        {bench_part_fig13, "zdelta", net_layerwise_step<W>, false, false},
        {bench_part_fig13, "network-wide", net_indexed_step<W>, false, false},
        {bench_part_fig13, "graph", net_indexed_step<W>, false, true},
        {bench_part_fig15, "sequential", net_sequential_step<W>, false, true},
        {bench_part_fig15, "streams", net_streams_step<W>, false, true},
        {bench_part_fig15, "batch", net_batch_step<W>, false, true},
    };
    net_maps<W> m = {};
    net_maps_open(s, w, &m);
    for (const net_way &way : ways) {
        if (!bench_wants(&s->options, way.part)) {
            continue;
        }
        m.bsearch = way.bsearch;
        net_way_check(s, &m, &way);
        bench_row row = net_row(bench_part_names[way.part], w);
        row.layout = "os";
        row.method = way.method;
        for (int i = 0; i < w->plan->maps && way.part == bench_part_fig15; ++i) {
            row.bytes += net_map_elements(w, i) * (int64_t)sizeof(int32_t);
        }
        row.time = net_way_time(s, &m, &way);
        bench_print(s, &row);
    }
    net_maps_close(&m);
}

#endif
