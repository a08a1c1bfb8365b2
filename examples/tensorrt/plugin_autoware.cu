// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/tensorrt/plugin_autoware.cu: TensorRT plugins under the names of Autoware's, so that an
// engine is built from an unchanged .onnx file with this library in place of theirs (autoware.cuh):
//
//   GetIndicePairsImplicitGemm, GetIndicePairs   submanifold and strided layers, batch_size 1
//   ImplicitGemm, IndiceConv                     float (TF32) or fp16; bias; act_type 0, 1 and 3
//
// Nodes of precision 1 run in the format of their features. Tensors of pairs hold a form of spira's
// own: a pair node and its product node come from the same library. All sizes follow from those of
// the inputs: there is no size tensor, so an engine of these nodes can be captured in a graph.
// output_bound, an attribute that files may add, or the environment's SPIRA_OUTPUT_BOUND while the
// engine is built: the most outputs of a strided layer; 256000 without it.
#include "autoware.cuh"
#include "plugin.h"

#include <stdlib.h>

namespace {

using namespace plugins;

enum kind : int32_t { pairs_implicit, pairs_native, product_implicit, product_native };

const char *const kind_names[] = {"GetIndicePairsImplicitGemm", "GetIndicePairs", "ImplicitGemm",
                                  "IndiceConv"};

enum : uint32_t { record_magic = 0x4e505053, record_version = 1 }; // "SPPN"

// What a plan file keeps of a node.
struct node_record {
    uint32_t magic, version, bytes;
    int32_t kind;
    autoware::pairs_form pairs;
    autoware::product_form product;
    spira::device_info gpu; // that the workspace was planned for
};

// What both kinds of nodes have.
template <typename P>
struct node : base<P> {
    node_record r;
    PluginField field;
    PluginFieldCollection collection;

    const char *name() const {
        return kind_names[r.kind];
    }

    const node_record &record() const {
        return r;
    }

    int32_t onShapeChange(PluginTensorDesc const *, int32_t, PluginTensorDesc const *,
                          int32_t) noexcept override {
        return 0;
    }

    IPluginV3 *attachToContext(IPluginResourceContext *) noexcept override {
        spira::device_info gpu;
        if (code_of(spira::device_info_query(&gpu))) {
            return nullptr;
        }
        if (!spira::device_info_equal(&gpu, &r.gpu)) {
            say("the engine was built for another GPU model: build it on this one");
            return nullptr;
        }
        return this->clone();
    }

    PluginFieldCollection const *getFieldsToSerialize() noexcept override {
        field = PluginField("record", &r, PluginFieldType::kUNKNOWN, (int32_t)sizeof r);
        collection = {1, &field};
        return &collection;
    }
};

// ---- pair nodes ---------------------------------------------------------------------------------

struct pairs_node final : node<pairs_node> {
    autoware::pairs_plan plan;

    int32_t getNbOutputs() const noexcept override {
        return r.kind == pairs_implicit ? 5 : 4;
    }

    int32_t getOutputDataTypes(DataType *out, int32_t outputs, DataType const *in,
                               int32_t inputs) const noexcept override {
        if (inputs != 1 || in[0] != DataType::kINT32 || outputs != getNbOutputs()) {
            return say("a pair node has one input: indices [n, 4], int32");
        }
        std::fill(out, out + outputs, DataType::kINT32);
        return 0;
    }

    int32_t getOutputShapes(DimsExprs const *in, int32_t, DimsExprs const *, int32_t,
                            DimsExprs *out, int32_t outputs, IExprBuilder &b) noexcept override {
        if (in[0].nbDims != 2 || outputs != getNbOutputs()) {
            return say("indices are [n, 4]");
        }
        const auto of = [&](DimensionOperation what, IDimensionExpr const *x, int64_t y) {
            return b.operation(what, *x, *b.constant(y));
        };
        IDimensionExpr const *rows = in[0].d[0];
        if (!plan.subm) { // pairs_rows
            rows = of(DimensionOperation::kMIN, of(DimensionOperation::kPROD, rows, plan.touch),
                      plan.bound);
        }
        const autoware::pairs_size size = autoware::pairs_words(plan.volume);
        IDimensionExpr const *words = of(
            DimensionOperation::kSUM,
            of(DimensionOperation::kPROD, of(DimensionOperation::kCEIL_DIV, rows, 64), size.whole),
            size.more);
        shape_set(&out[0], {rows, b.constant(4)});
        shape_set(&out[1], {words});
        if (r.kind == pairs_implicit) { // masks and argsort: the second tells the product its rows
            shape_set(&out[2], {rows, b.constant(1)});
            shape_set(&out[3], {rows});
        } else {
            shape_set(&out[2], {b.constant(plan.volume)});
        }
        shape_set(&out[outputs - 1], {});
        return 0;
    }

    bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const *io, int32_t,
                                   int32_t) noexcept override {
        return io[pos].desc.format == TensorFormat::kLINEAR &&
               io[pos].desc.type == DataType::kINT32;
    }

    int32_t configurePlugin(DynamicPluginTensorDesc const *in, int32_t,
                            DynamicPluginTensorDesc const *, int32_t) noexcept override {
        return in[0].max.nbDims == 2 && in[0].max.d[1] == 4 ? 0 : say("indices are [n, 4]");
    }

    size_t getWorkspaceSize(DynamicPluginTensorDesc const *in, int32_t,
                            DynamicPluginTensorDesc const *, int32_t) const noexcept override {
        size_t bytes = 0;
        code_of(autoware::pairs_workspace(&plan, (int32_t)in[0].max.d[0], &bytes));
        return bytes;
    }

    int32_t enqueue(PluginTensorDesc const *in, PluginTensorDesc const *, void const *const *inputs,
                    void *const *outputs, void *workspace, cudaStream_t stream) noexcept override {
        const autoware::pairs_args args = {(const int32_t *)inputs[0], (int32_t)in[0].dims.d[0],
                                           (int32_t *)outputs[0], outputs[1],
                                           (int32_t *)outputs[getNbOutputs() - 1]};
        return code_of(autoware::pairs_launch(&r.gpu, &plan, &args, workspace, stream));
    }
};

// ---- product nodes ------------------------------------------------------------------------------

struct product_node final : node<product_node> {
    int32_t getNbOutputs() const noexcept override {
        return 1;
    }

    // Whether an input is of the type of the features, or an array of integers.
    static bool is_typed(int32_t pos) {
        return pos < 2 || pos > 4;
    }

    int32_t getOutputDataTypes(DataType *out, int32_t outputs, DataType const *in,
                               int32_t inputs) const noexcept override {
        if (inputs < 5 || inputs > (r.kind == product_implicit ? 7 : 5) || outputs != 1) {
            return say("expected 5 inputs, 6 with a bias, 7 of precision 1");
        }
        if (in[0] != DataType::kHALF && in[0] != DataType::kFLOAT) {
            return say("features are float or fp16");
        }
        out[0] = in[0];
        return 0;
    }

    int32_t getOutputShapes(DimsExprs const *in, int32_t inputs, DimsExprs const *, int32_t,
                            DimsExprs *out, int32_t, IExprBuilder &) noexcept override {
        if (inputs < 5 || in[0].nbDims != 2 || in[1].nbDims != 5) {
            return say("features are [n, channels], filters [cout, 3 sizes, channels]");
        }
        shape_set(out, {in[r.kind == product_implicit ? 4 : 0].d[0], in[1].d[0]});
        return 0;
    }

    bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const *io, int32_t inputs,
                                   int32_t) noexcept override {
        const DataType type = io[pos].desc.type, first = io[0].desc.type;
        const bool floats = type == DataType::kHALF || type == DataType::kFLOAT;
        const bool scales = inputs == 7 && (pos == 5 || pos == 6); // of precision 1
        const bool good = pos == 0        ? floats
                          : scales        ? type == DataType::kFLOAT
                          : pos >= inputs ? type == first
                          : is_typed(pos) ? type == first
                                          : type == DataType::kINT32;
        return good && io[pos].desc.format == TensorFormat::kLINEAR;
    }

    // Reads sizes from those of the inputs. dims(i), type(i): of input i
    template <typename D, typename T>
    spira::status shape_of(int32_t inputs, D dims, T type, autoware::product_shape *s) const {
        const Dims f = dims(1), features = dims(0);
        const bool implicit = r.kind == product_implicit;
        SPIRA_REQUIRE(f.nbDims == 5 && features.nbDims == 2 && features.d[1] == f.d[4],
                      spira::status_bad_size, "filters ([cout, 3 sizes, channels of the features])",
                      f.d[f.nbDims - 1]);
        s->n = (int32_t)features.d[0];
        s->rows = (int32_t)(implicit ? dims(4).d[0] : features.d[0]);
        s->volume = (int)(f.d[1] * f.d[2] * f.d[3]);
        s->cin = (int)f.d[4];
        s->cout = (int)f.d[0];
        s->half = type(0) == DataType::kHALF;
        s->bias = inputs > 5;
        s->bias_float = inputs > 6;
        const autoware::pairs_size size = autoware::pairs_words(s->volume);
        const int64_t words = (s->rows + 63) / 64 * size.whole + size.more;
        SPIRA_REQUIRE(dims(2).nbDims == 1 && dims(2).d[0] == words, spira::status_bad_size,
                      "pairs (not of a pair node of this library with the filters' sizes)",
                      dims(2).d[0]);
        return spira::status_success();
    }

    spira::status shape_of(DynamicPluginTensorDesc const *in, int32_t inputs,
                           autoware::product_shape *s) const {
        return shape_of(
            inputs, [=](int i) { return in[i].max; }, [=](int i) { return in[i].desc.type; }, s);
    }

    int32_t configurePlugin(DynamicPluginTensorDesc const *in, int32_t inputs,
                            DynamicPluginTensorDesc const *, int32_t) noexcept override {
        autoware::product_shape s = {};
        return code_of(shape_of(in, inputs, &s));
    }

    size_t getWorkspaceSize(DynamicPluginTensorDesc const *in, int32_t inputs,
                            DynamicPluginTensorDesc const *, int32_t) const noexcept override {
        size_t bytes = 0;
        autoware::product_shape s = {};
        spira::status good = shape_of(in, inputs, &s);
        good = spira::status_failed(good) ? good : autoware::product_workspace(&r.gpu, &s, &bytes);
        code_of(good);
        return bytes;
    }

    int32_t inputs_now = 0;

    int32_t onShapeChange(PluginTensorDesc const *in, int32_t inputs, PluginTensorDesc const *,
                          int32_t) noexcept override {
        inputs_now = inputs;
        autoware::product_shape s = {};
        return code_of(shape_of(
            inputs, [=](int i) { return in[i].dims; }, [=](int i) { return in[i].type; }, &s));
    }

    int32_t enqueue(PluginTensorDesc const *in, PluginTensorDesc const *, void const *const *inputs,
                    void *const *outputs, void *workspace, cudaStream_t stream) noexcept override {
        autoware::product_shape s = {};
        const spira::status good = shape_of(
            inputs_now, [=](int i) { return in[i].dims; }, [=](int i) { return in[i].type; }, &s);
        const autoware::product_args args = {inputs[0], inputs[1], (void *)inputs[2],
                                             s.bias ? inputs[inputs_now - 1] : nullptr, outputs[0]};
        return code_of(
            spira::status_failed(good)
                ? good
                : autoware::product_launch(&r.gpu, &r.product, &s, &args, workspace, stream));
    }
};

// ---- attributes ---------------------------------------------------------------------------------

// Takes an attribute. Returns null, or what was expected.
const char *pairs_take(PluginField const &f, autoware::pairs_form *p) {
    const struct {
        const char *name;
        int32_t *to;
    } triples[] = {{"ksize", p->ksize},
                   {"stride", p->stride},
                   {"padding", p->padding},
                   {"dilation", p->dilation},
                   {"spatial_shape", p->spatial_shape}};
    int32_t value = 0;
    for (const auto &t : triples) {
        if (!strcmp(f.name, t.name)) {
            return field_ints(f, t.to) ? nullptr : "three numbers, 0 or more";
        }
    }
    const bool known = field_int(f, 0, &value);
    if (!strcmp(f.name, "subm") || !strcmp(f.name, "output_bound")) {
        *(f.name[0] == 's' ? &p->subm : &p->output_bound) = value;
        return known ? nullptr : "a number, 0 or more";
    }
    if (!strcmp(f.name, "batch_size")) {
        return known && value == 1 ? nullptr : "1";
    }
    return strcmp(f.name, "transpose") || (known && !value) ? nullptr : "0"; // others: no meaning
}

const char *product_take(PluginField const &f, autoware::product_form *p) {
    int32_t act = 0;
    float value = 0;
    if (!strcmp(f.name, "act_type")) {
        const bool good = field_int(f, 0, &act) && (act == 0 || act == 1 || act == 3);
        p->activation = act == 0   ? spira::activation_none
                        : act == 1 ? spira::activation_relu
                                   : spira::activation_leaky;
        return good ? nullptr : "0 (none), 1 (ReLU) or 3 (leaky)";
    }
    if (!strcmp(f.name, "act_alpha")) {
        return field_floats(f, 1, &p->slope) ? nullptr : "a float";
    }
    const bool one = !strcmp(f.name, "output_scale");
    return !one || (field_floats(f, 1, &value) && value == 1) ? nullptr : "1";
}

// The GPU here; without one an H100, so that graphs can be parsed anywhere.
spira::device_info gpu_here() {
    spira::device_info gpu = {};
    if (spira::status_failed(spira::device_info_query(&gpu))) {
        gpu.capability = 90;
        gpu.multiprocessors = 132;
        gpu.shared_max = 232448;
        gpu.hopper = gpu.programmatic = true;
    }
    return gpu;
}

bool record_build(PluginFieldCollection const *fc, node_record *r) {
    const char *bound = getenv("SPIRA_OUTPUT_BOUND");
    const bool pairs = r->kind == pairs_implicit || r->kind == pairs_native;
    r->pairs.output_bound = bound ? atoi(bound) : 0;
    std::fill(r->pairs.stride, r->pairs.stride + 3, 1);
    std::fill(r->pairs.dilation, r->pairs.dilation + 3, 1);
    for (int32_t i = 0; i < fc->nbFields; ++i) {
        const PluginField &f = fc->fields[i];
        const char *expected = pairs ? pairs_take(f, &r->pairs) : product_take(f, &r->product);
        if (expected) {
            return !say((std::string(kind_names[r->kind]) + ", attribute " + f.name +
                         ": expected " + expected)
                            .c_str());
        }
    }
    r->magic = record_magic;
    r->version = record_version;
    r->bytes = (uint32_t)sizeof *r;
    r->gpu = gpu_here();
    return true;
}

bool record_restore(PluginFieldCollection const *fc, node_record *r) {
    const int32_t kind = r->kind;
    const PluginField *f = fc->nbFields == 1 ? &fc->fields[0] : nullptr;
    if (!f || strcmp(f->name, "record") || f->length != (int32_t)sizeof *r) {
        return !say("plan file: its record is not one of this version: build the engine again");
    }
    memcpy((void *)r, f->data, sizeof *r);
    const bool good = r->magic == record_magic && r->version == record_version &&
                      r->bytes == sizeof *r && r->kind == kind;
    return good || !say("plan file: its record is not one of this version: build the engine again");
}

// ---- creators -----------------------------------------------------------------------------------

bool finish(pairs_node *p) {
    return !code_of(autoware::pairs_plan_make(&p->r.pairs, &p->plan));
}

bool finish(product_node *) {
    return true;
}

template <typename P>
IPluginV3 *node_create(kind kind, PluginFieldCollection const *fc, TensorRTPhase phase) {
    P *p = new (std::nothrow) P();
    if (!p || !fc) {
        delete p;
        return nullptr;
    }
    memset((void *)&p->r, 0, sizeof p->r); // padding, too: equal nodes have equal bytes
    p->r.kind = kind;
    const bool read =
        phase == TensorRTPhase::kBUILD ? record_build(fc, &p->r) : record_restore(fc, &p->r);
    if (!read || !finish(p)) {
        delete p;
        return nullptr;
    }
    return p;
}

struct creator final : IPluginCreatorV3One {
    const kind what;

    explicit creator(kind k) : what(k) {}

    IPluginV3 *createPlugin(AsciiChar const *, PluginFieldCollection const *fc,
                            TensorRTPhase phase) noexcept override {
        const bool pairs = what == pairs_implicit || what == pairs_native;
        return pairs ? node_create<pairs_node>(what, fc, phase)
                     : node_create<product_node>(what, fc, phase);
    }

    PluginFieldCollection const *getFieldNames() noexcept override {
        static const PluginField of_pairs[] = {
            {"batch_size", nullptr, PluginFieldType::kINT32, 1},
            {"dilation", nullptr, PluginFieldType::kINT32, 3},
            {"ksize", nullptr, PluginFieldType::kINT32, 3},
            {"padding", nullptr, PluginFieldType::kINT32, 3},
            {"spatial_shape", nullptr, PluginFieldType::kINT32, 3},
            {"stride", nullptr, PluginFieldType::kINT32, 3},
            {"subm", nullptr, PluginFieldType::kINT32, 1},
            {"transpose", nullptr, PluginFieldType::kINT32, 1},
            {"output_bound", nullptr, PluginFieldType::kINT32, 1},
        };
        static const PluginField of_products[] = {
            {"act_type", nullptr, PluginFieldType::kINT32, 1},
            {"act_alpha", nullptr, PluginFieldType::kFLOAT32, 1},
            {"output_scale", nullptr, PluginFieldType::kFLOAT32, 1},
        };
        static const PluginFieldCollection pairs = {9, of_pairs}, products = {3, of_products},
                                           none = {0, nullptr};
        return what == product_implicit ? &products : what == product_native ? &none : &pairs;
    }

    AsciiChar const *getPluginName() const noexcept override {
        return kind_names[what];
    }

    AsciiChar const *getPluginVersion() const noexcept override {
        return "1";
    }

    AsciiChar const *getPluginNamespace() const noexcept override {
        return "";
    }
};

} // namespace

nvinfer1::IPluginCreatorInterface *const *plugins::autoware_creators() {
    static creator all[] = {creator(pairs_implicit), creator(pairs_native),
                            creator(product_implicit), creator(product_native)};
    static nvinfer1::IPluginCreatorInterface *const pointers[] = {&all[0], &all[1], &all[2],
                                                                  &all[3]};
    return pointers;
}
