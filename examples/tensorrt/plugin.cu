// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/tensorrt/plugin.cu: the TensorRT plugin SpiraNet: one node of an engine that runs a
// whole sparse network (node.cuh), for TensorRT 10 and 11.
//   make tensorrt TENSORRT=folder of NvInfer.h    builds build/tensorrt/libspira_tensorrt.so
// Load it with IPluginRegistry::loadLibrary, trtexec --staticPlugins or --dynamicPlugins, or
// dlopen it and register what getCreators returns.
//
//   attribute          what                                        without it
//   model              path of an .onnx file or a blob; read while the engine is built
//   net                table of networks.h that the blob is for    model is an .onnx file
//   input              "points" or "voxels"                        points
//   output             "map" or "set"                              map
//   max_points, max_voxels   rows of the input, voxels of the finest set
//   range, voxel       6 and 3 floats in metres, x, y, z           nuScenes'
//   order              of coordinates: "zyx" or "xyz"              zyx
//   layout, type       of the map: "NCHW" or "NHWC", "fp16" or "fp32"   NCHW, fp16
//   precision          "fp16": of all layers; "model": int8 where the model has ranges   model
//   device             capability, multiprocessors, shared bytes of a thread block, for a build
//                      without a GPU
//
//   inputs    points [n, c] float (x, y, z first), or features [n, c] float and coordinates
//             [n, 3 or 4] int32; then, optional, count [1] int32: how many rows are valid
//   outputs   map [1, channels, height, width] (or channels last); or features [rows, channels]
//             fp16, coordinates [rows, 4] int32 and rows, a size tensor; then status [11] int32, a
//             spira::device_status
//
// A plan file holds a record and the model's bytes. Weights are packed when a context attaches, for
// the GPU that it is on.
#include "node.cuh"
#include "plugin.h"

namespace {

using namespace plugins;

const char *const plugin_name = "SpiraNet";
enum { status_words = sizeof(spira::device_status) / sizeof(int32_t) };

// ---- the plugin ---------------------------------------------------------------------------------

struct plugin final : base<plugin> {
    node::node n;
    bool counted; // the last input is the count
    PluginField fields[2];
    PluginFieldCollection collection;

    const char *name() const {
        return plugin_name;
    }

    const node::record &record() const {
        return n.r;
    }

    bool voxels() const {
        return n.r.o.voxels;
    }

    // Outputs in front of the status.
    int32_t results() const {
        return n.r.o.set ? 3 : 1;
    }

    // The type of a tensor: inputs, then outputs.
    DataType type_of(int32_t pos, int32_t inputs) const {
        const int32_t floats = 1; // the first input; of voxels the second is coordinates
        if (pos < inputs) {
            return pos < floats ? DataType::kFLOAT : DataType::kINT32;
        }
        const DataType out = n.r.o.fp32 ? DataType::kFLOAT : DataType::kHALF;
        return pos == inputs ? out : DataType::kINT32;
    }

    bool inputs_good(int32_t inputs) const {
        const int32_t least = voxels() ? 2 : 1;
        return inputs == least || inputs == least + 1;
    }

    // ---- while an engine is built ----

    int32_t getNbOutputs() const noexcept override {
        return results() + 1;
    }

    int32_t getOutputDataTypes(DataType *out, int32_t outputs, DataType const *in,
                               int32_t inputs) const noexcept override {
        if (!inputs_good(inputs) || outputs != getNbOutputs()) {
            return say(voxels() ? "expected 2 or 3 inputs: features, coordinates, count"
                                : "expected 1 or 2 inputs: points, count");
        }
        for (int32_t i = 0; i < inputs; ++i) {
            if (in[i] != type_of(i, inputs)) {
                return say(i ? "coordinates and count are int32" : "the first input is float");
            }
        }
        for (int32_t i = 0; i < outputs; ++i) {
            out[i] = type_of(inputs + i, inputs);
        }
        return 0;
    }

    int32_t getOutputShapes(DimsExprs const *, int32_t, DimsExprs const *, int32_t, DimsExprs *out,
                            int32_t outputs, IExprBuilder &b) noexcept override {
        const node::source *s = n.from.get();
        if (outputs != getNbOutputs()) {
            return 1;
        }
        if (n.r.o.set) {
            const IDimensionExpr *most = b.constant(s->rows);
            const IDimensionExpr *rows = b.declareSizeTensor(2, *most, *most);
            shape_set(&out[0], {rows, b.constant(s->channels)});
            shape_set(&out[1], {rows, b.constant(4)});
            out[2].nbDims = 0;
        } else {
            const IDimensionExpr *c = b.constant(s->channels), *h = b.constant(s->height),
                                 *w = b.constant(s->width), *one = b.constant(1);
            if (n.r.o.channels_last) {
                shape_set(&out[0], {one, h, w, c});
            } else {
                shape_set(&out[0], {one, c, h, w});
            }
        }
        shape_set(&out[results()], {b.constant(status_words)});
        return 0;
    }

    bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const *io, int32_t inputs,
                                   int32_t) noexcept override {
        return io[pos].desc.format == TensorFormat::kLINEAR &&
               io[pos].desc.type == type_of(pos, inputs);
    }

    // The columns that the graph gives. rows: at most
    int32_t accept(Dims const &rows, Dims const *coords) const {
        if (rows.nbDims != 2 || (coords && coords->nbDims != 2)) {
            return say("rows and coordinates are [n, columns]");
        }
        return code_of(node::node_accept(&n, (int32_t)rows.d[0], (int32_t)rows.d[1],
                                         coords ? (int32_t)coords->d[1] : 0));
    }

    int32_t configurePlugin(DynamicPluginTensorDesc const *in, int32_t,
                            DynamicPluginTensorDesc const *, int32_t) noexcept override {
        return accept(in[0].max, voxels() ? &in[1].max : nullptr);
    }

    size_t getWorkspaceSize(DynamicPluginTensorDesc const *, int32_t,
                            DynamicPluginTensorDesc const *, int32_t) const noexcept override {
        return (size_t)n.r.workspace;
    }

    // ---- while it runs ----

    int32_t onShapeChange(PluginTensorDesc const *in, int32_t inputs, PluginTensorDesc const *,
                          int32_t) noexcept override {
        counted = inputs > (voxels() ? 2 : 1);
        const int32_t code = accept(in[0].dims, voxels() ? &in[1].dims : nullptr);
        return code ? code : code_of(node::node_prepare(&n));
    }

    int32_t enqueue(PluginTensorDesc const *in, PluginTensorDesc const *, void const *const *inputs,
                    void *const *outputs, void *workspace, cudaStream_t stream) noexcept override {
        const int last = results();
        node::tensors t = {};
        t.rows = (const float *)inputs[0];
        t.n = (int32_t)in[0].dims.d[0];
        t.columns = (int32_t)in[0].dims.d[1];
        t.coords = voxels() ? (const int32_t *)inputs[1] : nullptr;
        t.coord_columns = voxels() ? (int32_t)in[1].dims.d[1] : 0;
        t.count = counted ? (const int32_t *)inputs[voxels() ? 2 : 1] : nullptr;
        t.out = outputs[0];
        t.out_coords = last > 1 ? (int32_t *)outputs[1] : nullptr;
        t.out_count = last > 1 ? (int32_t *)outputs[2] : nullptr;
        t.trouble = (spira::device_status *)outputs[last];
        return code_of(node::node_launch(&n, &t, workspace, stream));
    }

    IPluginV3 *attachToContext(IPluginResourceContext *) noexcept override {
        plugin *p = new (std::nothrow) plugin(*this);
        if (p && code_of(node::node_prepare(&p->n))) {
            delete p;
            return nullptr;
        }
        return p;
    }

    PluginFieldCollection const *getFieldsToSerialize() noexcept override {
        const std::vector<char> &model = n.from->model;
        fields[0] = PluginField("record", &n.r, PluginFieldType::kUNKNOWN, (int32_t)sizeof n.r);
        fields[1] =
            PluginField("model", model.data(), PluginFieldType::kUNKNOWN, (int32_t)model.size());
        collection = {2, fields};
        return &collection;
    }
};

// ---- attributes ---------------------------------------------------------------------------------

// One of two words; *to: whether it is the second.
bool field_either(PluginField const &f, const char *first, const char *second, int32_t *to) {
    const std::string text = field_text(f);
    *to = text == second;
    return f.type == PluginFieldType::kCHAR && (text == first || text == second);
}

bool field_take(PluginField const &f, node::options *o, std::string *model) {
    const std::string name = f.name;
    if (name == "model" || name == "net") {
        if (f.type != PluginFieldType::kCHAR) {
            return false;
        }
        const std::string text = field_text(f);
        if (name == "model") {
            *model = text;
            return true;
        }
        snprintf(o->net, sizeof o->net, "%s", text.c_str());
        return text.size() < sizeof o->net;
    }
    if (name == "device") {
        return field_ints(f, o->device);
    }
    return name == "input"        ? field_either(f, "points", "voxels", &o->voxels)
           : name == "output"     ? field_either(f, "map", "set", &o->set)
           : name == "order"      ? field_either(f, "zyx", "xyz", &o->xyz)
           : name == "layout"     ? field_either(f, "NCHW", "NHWC", &o->channels_last)
           : name == "type"       ? field_either(f, "fp16", "fp32", &o->fp32)
           : name == "precision"  ? field_either(f, "model", "fp16", &o->floats)
           : name == "max_points" ? field_int(f, 0, &o->max_points)
           : name == "max_voxels" ? field_int(f, 0, &o->max_voxels)
           : name == "range"      ? field_floats(f, 6, o->range)
           : name == "voxel"      ? field_floats(f, 3, o->voxel)
                                  : false;
}

// ---- the creator --------------------------------------------------------------------------------

// Makes the network of p->n.from, whose model is there, and says in which formats it runs.
bool network_take(plugin *p, const node::options *o, const std::shared_ptr<node::source> &s) {
    scan::scan_reason why;
    if (code_of(node::source_make(o, s.get(), &why))) {
        return false;
    }
    char text[80];
    snprintf(text, sizeof text, "SpiraNet: %d of %d layers in int8, the others in fp16",
             node::int8_layers(s.get()), s->net.count);
    (void)say(text, ILogger::Severity::kINFO);
    p->n.from = s;
    return true;
}

// The plan, for the GPU here or the one that the attributes name.
bool planned(plugin *p) {
    const int32_t *named = p->n.r.o.device;
    spira::device_info gpu = {};
    const spira::status s = spira::device_info_query(&gpu);
    if (spira::status_failed(s)) {
        gpu.capability = named[0];
        gpu.multiprocessors = named[1];
        gpu.shared_max = named[2];
        gpu.hopper = named[0] == 90;
        gpu.programmatic = named[0] >= 90;
        if (!named[0]) {
            return code_of(s) == 0;
        }
    }
    return code_of(node::node_plan(&gpu, &p->n)) == 0;
}

bool plugin_build(PluginFieldCollection const *fc, plugin *p) {
    const std::shared_ptr<node::source> s(new node::source());
    node::options o = {};
    std::string path;
    for (int32_t i = 0; i < fc->nbFields; ++i) {
        if (!field_take(fc->fields[i], &o, &path)) {
            return !say((std::string("attribute ") + fc->fields[i].name +
                         ": not one that the head of plugin.cu names, or of another type")
                            .c_str());
        }
    }
    scan::table file = {};
    scan::scan_reason why;
    const bool read = !code_of(scan::table_load(path.c_str(), &file, &why));
    if (read && file.bytes > INT32_MAX) {
        scan::table_free(&file);
        return !say("model: above 2 GB");
    }
    if (read) {
        s->model.assign((char *)file.data, (char *)file.data + file.bytes);
    }
    scan::table_free(&file);
    p->n.r = node::record_make(&o, s->model);
    return read && network_take(p, &o, s) && planned(p);
}

bool plugin_restore(PluginFieldCollection const *fc, plugin *p) {
    const std::shared_ptr<node::source> s(new node::source());
    const PluginField *record = nullptr;
    for (int32_t i = 0; i < fc->nbFields; ++i) {
        const PluginField &f = fc->fields[i];
        record = !strcmp(f.name, "record") ? &f : record;
        if (!strcmp(f.name, "model")) {
            s->model.assign((const char *)f.data, (const char *)f.data + f.length);
        }
    }
    scan::scan_reason why;
    return !code_of(node::record_read(record ? record->data : nullptr,
                                      record ? (size_t)record->length : 0, s->model, &p->n.r,
                                      &why)) &&
           network_take(p, &p->n.r.o, s);
}

struct creator final : IPluginCreatorV3One {
    IPluginV3 *createPlugin(AsciiChar const *, PluginFieldCollection const *fc,
                            TensorRTPhase phase) noexcept override {
        plugin *p = new (std::nothrow) plugin();
        const bool good =
            p && fc &&
            (phase == TensorRTPhase::kBUILD ? plugin_build(fc, p) : plugin_restore(fc, p));
        if (!good) {
            delete p;
            return nullptr;
        }
        return p;
    }

    PluginFieldCollection const *getFieldNames() noexcept override {
        static const PluginField names[] = {
            {"model", nullptr, PluginFieldType::kCHAR, 0},
            {"net", nullptr, PluginFieldType::kCHAR, 0},
            {"input", nullptr, PluginFieldType::kCHAR, 0},
            {"output", nullptr, PluginFieldType::kCHAR, 0},
            {"order", nullptr, PluginFieldType::kCHAR, 0},
            {"layout", nullptr, PluginFieldType::kCHAR, 0},
            {"type", nullptr, PluginFieldType::kCHAR, 0},
            {"precision", nullptr, PluginFieldType::kCHAR, 0},
            {"max_points", nullptr, PluginFieldType::kINT32, 1},
            {"max_voxels", nullptr, PluginFieldType::kINT32, 1},
            {"range", nullptr, PluginFieldType::kFLOAT32, 6},
            {"voxel", nullptr, PluginFieldType::kFLOAT32, 3},
            {"device", nullptr, PluginFieldType::kINT32, 3},
        };
        static const PluginFieldCollection all = {sizeof names / sizeof *names, names};
        return &all;
    }

    AsciiChar const *getPluginName() const noexcept override {
        return plugin_name;
    }

    AsciiChar const *getPluginVersion() const noexcept override {
        return "1";
    }

    AsciiChar const *getPluginNamespace() const noexcept override {
        return "";
    }
};

creator the_creator;

} // namespace

// What IPluginRegistry::loadLibrary looks for.
extern "C" __attribute__((visibility("default"))) nvinfer1::IPluginCreatorInterface *const *
getCreators(int32_t &count) {
    nvinfer1::IPluginCreatorInterface *const *more = plugins::autoware_creators();
    static nvinfer1::IPluginCreatorInterface *const all[] = {&the_creator, more[0], more[1],
                                                             more[2], more[3]};
    count = 5;
    return all;
}

extern "C" __attribute__((visibility("default"))) void
setLoggerFinder(nvinfer1::ILoggerFinder *finder) {
    plugins::logger_finder = finder;
}
