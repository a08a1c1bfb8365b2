// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/tensorrt/autoware.cuh: the nodes of Autoware's .onnx files one by one, for a runtime
// that builds the unchanged graph: a pair node makes the kernel map of a layer, a product node
// computes the layer from it.
//
//   pairs_plan_make     once: what the attributes of GetIndicePairs(ImplicitGemm) mean
//   pairs_rows,         sizes of the outputs, from those of the inputs
//   pairs_words
//   pairs_launch        a frame: indices of the outputs, and the map in a form of spira's own
//   product_launch      a frame: ImplicitGemm or IndiceConv, with its bias and activation
//
// Neither allocates, waits or reads anything back, so both may be captured in a graph. Sizes depend
// on those of the inputs alone: a strided layer has room for as many outputs as its inputs may
// touch, at most pairs_form.output_bound. Rows behind its true outputs repeat row 0, indices and
// features alike: whatever is computed row by row stays equal, and a scatter by the indices writes
// the same value to the same place again.
#ifndef SPIRA_EXAMPLES_TENSORRT_AUTOWARE_CUH
#define SPIRA_EXAMPLES_TENSORRT_AUTOWARE_CUH

#include "../../spira.cuh"

namespace autoware {

typedef uint64_t word; // for every extent

// The attributes of a pair node, in the file's order of axes.
struct pairs_form {
    int32_t ksize[3], stride[3], padding[3], dilation[3];
    int32_t spatial_shape[3]; // of the inputs
    int32_t subm;
    int32_t output_bound; // the most outputs of a strided layer; 0: output_bound_usual
};

enum { output_bound_usual = 256000 }; // that of Autoware's own plugin

struct pairs_plan {
    spira::kernel_shape kernel;
    spira::expand_rule rule;  // of a strided layer
    spira::expand_grid grid;  // of its outputs
    spira::word_layout words; // of both sets
    bool subm;
    int volume;    // offsets of the kernel
    int32_t bound; // the most outputs of a strided layer
    int32_t touch; // outputs that one input may touch
};

static inline spira::triple triple_of(const int32_t v[3]) {
    return spira::triple_make(v[0], v[1], v[2]);
}

static inline spira::status pairs_plan_make(const pairs_form *f, pairs_plan *p) {
    *p = {};
    p->kernel = {triple_of(f->ksize), triple_of(f->dilation), spira::triple_make(1, 1, 1), false};
    p->rule.ratio = triple_of(f->stride);
    p->rule.padding = triple_of(f->padding);
    p->rule.grid.extent = triple_of(f->spatial_shape);
    p->subm = f->subm != 0;
    SPIRA_TRY(spira::kernel_check(&p->kernel));
    p->volume = spira::kernel_volume(&p->kernel);
    const spira::triple e = p->rule.grid.extent;
    SPIRA_REQUIRE(e.x >= 1 && e.y >= 1 && e.z >= 1, spira::status_bad_size, "spatial_shape",
                  spira::min_of(spira::min_of(e.x, e.y), e.z));
    spira::word_need need = {};
    need.hi = spira::triple_make(e.x - 1, e.y - 1, e.z - 1);
    need.batches = 1;
    need.stride = need.reach = spira::triple_make(1, 1, 1);
    if (p->subm) { // padding means nothing: the kernel is centred
        const spira::triple one = spira::triple_make(1, 1, 1), k = p->kernel.size;
        SPIRA_REQUIRE(spira::triple_equal(p->rule.ratio, one), spira::status_stride,
                      "stride (of a submanifold layer: 1)", 0);
        SPIRA_REQUIRE(k.x % 2 && k.y % 2 && k.z % 2, spira::status_kernel_size,
                      "ksize (of a submanifold layer: odd)", 0);
        need.reach = spira::kernel_reach(&p->kernel);
        SPIRA_TRY(spira::word_fit(&need, &p->words));
        p->words = spira::word_widen(p->words);
        return spira::status_success();
    }
    spira::expand_axes axes;
    SPIRA_TRY(spira::expand_axes_make(&p->kernel, &p->rule, &axes));
    SPIRA_TRY(spira::expand_out(&p->kernel, &p->rule, &p->grid));
    SPIRA_TRY(spira::expand_need(&p->kernel, &p->rule, &need));
    need.stride = p->rule.ratio;
    p->touch = axes.most;
    const spira::triple o = p->grid.extent;
    const int32_t bound = f->output_bound ? f->output_bound : output_bound_usual;
    SPIRA_TRY(spira::size_check(bound, 1, INT32_MAX / 64, "output_bound"));
    p->bound = (int32_t)fmin((double)bound, (double)o.x * o.y * o.z);
    SPIRA_TRY(spira::word_fit(&need, &p->words));
    p->words = spira::word_widen(p->words);
    return spira::status_success();
}

// Rows of the outputs for n rows of the inputs, the largest number that is used.
static inline int32_t pairs_rows(const pairs_plan *p, int32_t n) {
    return p->subm ? n : (int32_t)spira::min_of((int64_t)n * p->touch, p->bound);
}

// ---- what one node hands to the next ------------------------------------------------------------

// What is in the tensor of pairs: no pair table, but the layout that convolutions read, whose
// sources and rows are those of the file's tensors.
struct pairs_tensor {
    int32_t *count; // [1] true outputs
    int32_t *same;  // [rows] the row that holds a row's values: itself, or 0 or an earlier one; -1:
                    // none, zeros
    spira::order_layout layout;
};

static inline pairs_tensor pairs_tensor_take(spira::workspace *w, int32_t rows, int volume) {
    pairs_tensor t;
    t.count = spira::workspace_take<int32_t>(w, 1);
    t.same = spira::workspace_take<int32_t>(w, rows);
    t.layout = spira::order_layout_take(w, rows, volume);
    return t;
}

// int32 words of that tensor: whole * groups of 64 rows + more. Runtimes compute it from sizes that
// they do not know yet.
struct pairs_size {
    int64_t whole, more;
};

static inline pairs_size pairs_words(int volume) {
    return {3 * 64 + 64 * (int64_t)volume + spira::order_words(volume), 5 * 64};
}

// ---- the pair node ------------------------------------------------------------------------------

// The tensors of a frame, in device memory.
struct pairs_args {
    const int32_t *indices; // [n, 4] batch index (0), then the file's axes
    int32_t n;              //
    int32_t *out_indices;   // [pairs_rows, 4]
    void *pairs;            // [pairs_words], aligned to 256
    int32_t *out_count; // [1] true outputs; of a strided layer more than rows if some are cut off
};

// Where everything is in the workspace.
struct pairs_arrays {
    spira::device_status *trouble;
    int32_t *n, *xyz; // [1], [n, 3]
    spira::voxel_set<word> in, out;
    spira::voxel_rows rows;
    spira::expand_args<word> expand;
    spira::voxel_input input;
    spira::order_request order;
    void *scratch; // of one step after the other
    size_t scratch_bytes;
};

static inline spira::status pairs_carve(const pairs_plan *p, int32_t n, void *workspace,
                                        pairs_arrays *a, size_t *bytes) {
    const int32_t rows = pairs_rows(p, n), nothing[3] = {};
    size_t needed[3] = {};
    spira::workspace w = spira::workspace_begin(workspace);
    *a = {};
    a->trouble = spira::workspace_take<spira::device_status>(&w, 1);
    a->n = spira::workspace_take<int32_t>(&w, 1);
    a->xyz = spira::workspace_take<int32_t>(&w, (int64_t)n * 3);
    a->in = {spira::workspace_take<word>(&w, n), spira::workspace_take<int32_t>(&w, 1), n};
    a->rows.voxel = spira::workspace_take<int32_t>(&w, n);
    a->rows.order = spira::workspace_take<int32_t>(&w, n);
    a->rows.begin = spira::workspace_take<int32_t>(&w, (int64_t)n + 1);
    a->input.coords = workspace ? a->xyz : nothing;
    a->input.count = workspace ? a->n : nothing;
    a->input.rows = n;
    a->input.columns = 3;
    a->input.extent = p->rule.grid.extent;
    SPIRA_TRY(spira::voxelize_workspace<word>(&a->input, n, &needed[0]));
    a->out = a->in;
    if (!p->subm) {
        a->out = {spira::workspace_take<word>(&w, rows), spira::workspace_take<int32_t>(&w, 1),
                  rows};
        a->expand = {&p->words, &p->kernel, &p->rule, a->in, a->out, a->trouble};
        SPIRA_TRY(spira::expand_workspace(&a->expand, &needed[1]));
    }
    a->order.kernel = p->kernel;
    a->order.count = a->out.count;
    a->order.capacity = rows;
    if (spira::compact_takes(&p->kernel)) {
        a->order.compact =
            spira::workspace_take<int32_t>(&w, spira::compact_total(p->kernel.size.x, rows));
    } else {
        a->order.map = spira::workspace_take<int32_t>(&w, (int64_t)rows * p->volume);
    }
    SPIRA_TRY(spira::order_workspace(&a->order, 1, &needed[2]));
    a->scratch_bytes = std::max(needed[0], std::max(needed[1], needed[2]));
    a->scratch = spira::workspace_take<char>(&w, (int64_t)a->scratch_bytes);
    *bytes = w.used;
    return spira::status_success();
}

// Bytes of workspace for up to n rows.
static inline spira::status pairs_workspace(const pairs_plan *p, int32_t n, size_t *bytes) {
    pairs_arrays a;
    return pairs_carve(p, std::max(n, 1), nullptr, &a, bytes);
}

// xyz of indices. A row of another batch is out of the extent.
static __global__ void pairs_read_kernel(const int32_t *indices, int32_t n, int32_t *xyz,
                                         int32_t *count) {
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i == 0) {
        *count = n;
    }
    for (int k = 0; i < n && k < 3; ++k) {
        xyz[(int64_t)i * 3 + k] = indices[(int64_t)i * 4] ? -1 : indices[(int64_t)i * 4 + 1 + k];
    }
}

struct pairs_write_args {
    spira::word_layout words;
    spira::voxel_set<word> in, out;
    spira::voxel_rows rows; // of the inputs
    spira::device_status *trouble;
    spira::triple origin, ratio;
    bool subm;
    int32_t capacity; // rows of the outputs
    pairs_tensor to;
    int32_t *out_indices, *out_count;
};

// Writes which rows are the same, indices of a strided layer, and the counts.
static __global__ void pairs_write_kernel(pairs_write_args a) {
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int32_t count = spira::voxel_set_count(a.out);
    if (i == 0) {
        const bool cut = !a.subm && (a.trouble->flags & spira::device_flag_capacity);
        *a.to.count = count;
        *a.out_count = cut ? (int32_t)a.trouble->needed : count;
    }
    if (i >= a.capacity) {
        return;
    }
    if (a.subm) { // rows of one voxel have its first row's values
        const int32_t voxel = a.rows.voxel[i];
        a.to.same[i] = voxel < 0 ? -1 : a.rows.order[a.rows.begin[voxel]];
        return;
    }
    a.to.same[i] = i < count ? i : count ? 0 : -1;
    spira::voxel v = {0, a.origin.x, a.origin.y, a.origin.z};
    if (count) {
        v = spira::word_unpack<word>(&a.words, a.out.words[i < count ? i : 0]);
    }
    const int32_t row[4] = {0, (v.x - a.origin.x) / a.ratio.x, (v.y - a.origin.y) / a.ratio.y,
                            (v.z - a.origin.z) / a.ratio.z};
    for (int k = 0; k < 4; ++k) {
        a.out_indices[(int64_t)i * 4 + k] = row[k];
    }
}

// Brings the layout from places in sorted sets to rows of the file's tensors.
static __global__ void pairs_renumber_kernel(pairs_write_args a) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const spira::order_layout &t = a.to.layout;
    const int32_t in = spira::voxel_set_count(a.in), out = spira::voxel_set_count(a.out);
    const int64_t used = spira::round_up(out, spira::order_rows);
    if (i < used * t.volume) {
        const int32_t source = t.source[i]; // unspecified of offsets that no row has
        if (source >= 0 && source < in) {
            t.source[i] = a.rows.order[a.rows.begin[source]];
        }
    }
    if (a.subm && i < used && t.row[i] >= 0) {
        t.row[i] = a.rows.order[a.rows.begin[t.row[i]]];
    }
}

// Launches a frame.
static inline spira::status pairs_launch(const spira::device_info *gpu, const pairs_plan *p,
                                         const pairs_args *args, void *workspace,
                                         cudaStream_t stream) {
    const int32_t rows = pairs_rows(p, args->n);
    SPIRA_REQUIRE(args->out_count, spira::status_null_pointer, "count", 0);
    if (!args->n) { // tensors without elements
        return spira::status_from_cuda(cudaMemsetAsync(args->out_count, 0, 4, stream), "count");
    }
    SPIRA_REQUIRE(args->indices && args->out_indices && args->pairs && workspace,
                  spira::status_null_pointer, "tensors", 0);
    pairs_arrays a;
    size_t bytes;
    SPIRA_TRY(pairs_carve(p, args->n, workspace, &a, &bytes));
    spira::workspace w = spira::workspace_begin(args->pairs);
    const pairs_tensor to = pairs_tensor_take(&w, rows, p->volume);
    const auto over = [&](int64_t threads, const char *name) {
        return spira::launch_config{(unsigned)spira::ceil_div(threads, 256), 256, stream, name};
    };
    SPIRA_TRY(spira::device_status_clear(a.trouble, stream));
    SPIRA_TRY(spira::kernel_launch(pairs_read_kernel, over(args->n, "indices"), args->indices,
                                   args->n, a.xyz, a.n));
    const spira::voxelize_args<word> voxels = {&p->words, &a.input, a.in, a.rows, a.trouble};
    SPIRA_TRY((spira::voxelize<word, spira::voxel_limits_any>(&voxels, a.scratch, a.scratch_bytes,
                                                              stream)));
    if (!p->subm) {
        SPIRA_TRY(spira::expand(gpu, &a.expand, a.scratch, a.scratch_bytes, stream));
    }
    a.order.layout = to.layout;
    spira::map_forms forms = a.order.compact
                                 ? spira::map_forms_compact((int32_t *)a.order.compact, a.trouble)
                                 : spira::map_forms_os((int32_t *)a.order.map);
    SPIRA_TRY((spira::map_build_forms<word, spira::map_kinds_layout>(&p->words, &p->kernel, a.in,
                                                                     a.out, &forms, stream)));
    SPIRA_TRY(spira::order_build(gpu, &a.order, 1, a.scratch, a.scratch_bytes, stream));
    const pairs_write_args write = {p->words,          a.in,           a.out,   a.rows, a.trouble,
                                    p->grid.origin,    p->rule.ratio,  p->subm, rows,   to,
                                    args->out_indices, args->out_count};
    SPIRA_TRY(spira::kernel_launch(pairs_write_kernel, over(rows, "indices"), write));
    SPIRA_TRY(spira::kernel_launch(
        pairs_renumber_kernel, over(spira::round_up(rows, spira::order_rows) * p->volume, "pairs"),
        write));
    return p->subm ? spira::status_from_cuda(cudaMemcpyAsync(args->out_indices, args->indices,
                                                             (size_t)rows * 16,
                                                             cudaMemcpyDeviceToDevice, stream),
                                             "indices")
                   : spira::status_success();
}

// ---- the product node ---------------------------------------------------------------------------

struct product_form {
    int32_t activation; // a spira::activation
    float slope;        // of activation_leaky
};

// Sizes and formats of a node's tensors.
struct product_shape {
    int32_t n, rows; // of the features, of the outputs
    int volume, cin, cout;
    bool half;             // features, filters and outputs are fp16; else float, multiplied in TF32
    bool bias, bias_float; // there is one; it is float
};

struct product_args {
    const void *features, *filters; // [n, cin]; [cout, volume, cin]
    void *pairs;                    // of pairs_launch
    const void *bias;               // [cout]
    void *out;                      // [rows, cout]
};

struct product_arrays {
    float *weight; // [volume, cin, cout]
    float *bias;   // [cout]
    void *packed;
    size_t packed_bytes;
};

static inline spira::conv_shape product_conv(const product_shape *s) {
    spira::conv_shape c = {};
    c.volume = s->volume;
    c.cin = s->cin;
    c.cout = s->cout;
    c.type = s->half ? spira::numeric_f16 : spira::numeric_tf32;
    return c;
}

// Carves the workspace, whose size is *bytes. Null: only counts.
static inline spira::status product_carve(const spira::device_info *gpu, const product_shape *s,
                                          void *workspace, product_arrays *a, size_t *bytes) {
    const spira::conv_shape shape = product_conv(s);
    spira::workspace w = spira::workspace_begin(workspace);
    SPIRA_TRY(spira::conv_weights_bytes(gpu, &shape, &a->packed_bytes));
    a->weight = spira::workspace_take<float>(&w, (int64_t)s->volume * s->cin * s->cout);
    a->bias = spira::workspace_take<float>(&w, s->cout);
    a->packed = spira::workspace_take<char>(&w, (int64_t)a->packed_bytes);
    *bytes = w.used;
    return spira::status_success();
}

static inline spira::status product_workspace(const spira::device_info *gpu, const product_shape *s,
                                              size_t *bytes) {
    product_arrays a;
    return product_carve(gpu, s, nullptr, &a, bytes);
}

struct product_weights_args {
    product_shape s;
    const void *filters, *bias;
    product_arrays to;
};

template <typename T>
__device__ float product_float(const void *from, int64_t i) {
    return (float)((const T *)from)[i];
}

// Filters [cout, volume, cin] and bias, as packing and epilogue read them.
template <typename T>
__global__ void product_weights_kernel(product_weights_args a) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t c = i % a.s.cout, in = i / a.s.cout % a.s.cin, k = i / a.s.cout / a.s.cin;
    if (k < a.s.volume) {
        a.to.weight[i] = product_float<T>(a.filters, (c * a.s.volume + k) * a.s.cin + in);
    }
    if (i < a.s.cout && a.s.bias) {
        a.to.bias[i] =
            a.s.bias_float ? product_float<float>(a.bias, i) : product_float<T>(a.bias, i);
    }
}

// Copies the rows that are the same as another one; zeros for rows of no voxel. A warp looks at 32
// rows.
template <typename T>
__global__ void product_fill_kernel(const int32_t *same, int32_t rows, int channels, T *out) {
    const int32_t first = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32;
    const int32_t lane = (int32_t)threadIdx.x % 32, own = first + lane;
    const int32_t from = own < rows ? same[own] : own;
    for (unsigned left = __ballot_sync(~0u, from != own); left; left &= left - 1) {
        const int at = __ffs((int)left) - 1;
        const int64_t source = __shfl_sync(~0u, from, at);
        for (int c = lane; c < channels; c += 32) {
            out[(int64_t)(first + at) * channels + c] =
                source < 0 ? (T)0.0f : out[source * channels + c];
        }
    }
}

template <spira::numeric format, typename T>
static spira::status product_launch_as(const spira::device_info *gpu, const product_form *f,
                                       const product_weights_args *a, const product_args *args,
                                       cudaStream_t stream) {
    const product_shape *s = &a->s;
    const auto over = [&](int64_t threads, const char *name) {
        return spira::launch_config{(unsigned)spira::ceil_div(threads, 256), 256, stream, name};
    };
    SPIRA_TRY(spira::kernel_launch(product_weights_kernel<T>,
                                   over((int64_t)s->volume * s->cin * s->cout, "filters"), *a));
    const spira::conv_shape shape = product_conv(s);
    const spira::conv_weights weights = {a->to.weight, a->to.packed, a->to.packed_bytes, nullptr};
    SPIRA_TRY(spira::conv_weights_pack<format>(gpu, &shape, &weights, stream));
    spira::workspace w = spira::workspace_begin(args->pairs);
    const pairs_tensor from = pairs_tensor_take(&w, s->rows, s->volume);
    const spira::conv_map map = spira::conv_map_of_order(&from.layout, from.count, s->rows);
    spira::conv_args c = {};
    c.shape = shape;
    c.map = &map;
    c.in = args->features;
    c.weights = a->to.packed;
    c.epilogue.bias = s->bias ? a->to.bias : nullptr;
    c.epilogue.act = (spira::activation)f->activation;
    c.epilogue.slope = f->slope;
    c.out = args->out;
    SPIRA_TRY(spira::conv<format>(gpu, &c, stream));
    return spira::kernel_launch(product_fill_kernel<T>, over(s->rows, "rows"),
                                (const int32_t *)from.same, s->rows, s->cout, (T *)args->out);
}

// Launches a frame: packs the filters, multiplies, and repeats rows. Filters are read in each
// frame: they may be a tensor like any other.
static inline spira::status product_launch(const spira::device_info *gpu, const product_form *f,
                                           const product_shape *s, const product_args *args,
                                           void *workspace, cudaStream_t stream) {
    if (!s->rows) {
        return spira::status_success();
    }
    SPIRA_REQUIRE(args->features && args->filters && args->pairs && args->out && workspace &&
                      (args->bias || !s->bias),
                  spira::status_null_pointer, "tensors", 0);
    product_weights_args a = {*s, args->filters, args->bias, {}};
    size_t bytes;
    SPIRA_TRY(product_carve(gpu, s, workspace, &a.to, &bytes));
    return s->half ? product_launch_as<spira::numeric_f16, __half>(gpu, f, &a, args, stream)
                   : product_launch_as<spira::numeric_tf32, float>(gpu, f, &a, args, stream);
}

} // namespace autoware

#endif
