// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/tensorrt/runtime.h: a stand-in for TensorRT's runtime, compiled against its headers: it
// calls a plugin's methods in TensorRT's order, and refuses what TensorRT would refuse.
#ifndef SPIRA_TESTS_TENSORRT_RUNTIME_H
#define SPIRA_TESTS_TENSORRT_RUNTIME_H

#include <NvInfer.h>

#include <algorithm>
#include <memory>
#include <stdio.h>
#include <string>
#include <vector>

namespace standin {

using namespace nvinfer1;

// What plugins log, and how often.
struct logger : ILogger, ILoggerFinder {
    std::string last;

    void log(Severity, AsciiChar const *text) noexcept override {
        last = text;
    }

    ILogger *findLogger() override {
        return this;
    }
};

// ---- expressions of sizes -----------------------------------------------------------------------

struct expression : IDimensionExpr {
    struct inner : apiv::VDimensionExpr {
        int64_t value;
        bool size;

        bool isConstant() const override {
            return !size;
        }

        int64_t getConstantValue() const override {
            return value;
        }

        bool isSizeTensor() const override {
            return size;
        }
    } in;

    expression(int64_t value, bool size) {
        in.value = value;
        in.size = size;
        mImpl = &in;
    }
};

struct expressions : IExprBuilder {
    struct inner : apiv::VExprBuilder {
        std::vector<std::unique_ptr<expression>> all;
        int size_output = -1; // the output that a plugin named as its size tensor

        IDimensionExpr const *add(int64_t value, bool size) {
            all.emplace_back(new expression(value, size));
            return all.back().get();
        }

        IDimensionExpr const *constant(int64_t value) override {
            return add(value, false);
        }

        IDimensionExpr const *operation(DimensionOperation what, IDimensionExpr const &a,
                                        IDimensionExpr const &b) override {
            const int64_t x = a.getConstantValue(), y = b.getConstantValue();
            return what == DimensionOperation::kSUM        ? add(x + y, false)
                   : what == DimensionOperation::kPROD     ? add(x * y, false)
                   : what == DimensionOperation::kMIN      ? add(std::min(x, y), false)
                   : what == DimensionOperation::kCEIL_DIV ? add((x + y - 1) / y, false)
                                                           : nullptr;
        }

        IDimensionExpr const *declareSizeTensor(int32_t output, IDimensionExpr const &,
                                                IDimensionExpr const &upper) override {
            size_output = output;
            return add(upper.getConstantValue(), true);
        }
    } in;

    expressions() {
        mImpl = &in;
    }
};

// ---- a built node -------------------------------------------------------------------------------

struct plan_field {
    std::string name;
    std::vector<char> data;
};

// What a plan file has of a node.
struct plan {
    std::vector<plan_field> fields;
    std::vector<DataType> types;           // of inputs and outputs
    std::vector<std::vector<int64_t>> out; // the largest sizes of the outputs
    size_t workspace;
};

template <typename T>
T *capability(IPluginV3 *p, PluginCapabilityType type) {
    return static_cast<T *>(p->getCapabilityInterface(type));
}

inline IPluginV3OneBuild *build_of(IPluginV3 *p) {
    return capability<IPluginV3OneBuild>(p, PluginCapabilityType::kBUILD);
}

inline IPluginV3OneRuntime *runtime_of(IPluginV3 *p) {
    return capability<IPluginV3OneRuntime>(p, PluginCapabilityType::kRUNTIME);
}

inline Dims dims_of(const std::vector<int64_t> &sizes) {
    Dims d = {};
    d.nbDims = (int32_t)sizes.size();
    std::copy(sizes.begin(), sizes.end(), d.d);
    return d;
}

inline int64_t volume_of(const std::vector<int64_t> &sizes) {
    int64_t n = 1;
    for (int64_t s : sizes) {
        n *= s;
    }
    return n;
}

inline size_t bytes_of(DataType type) {
    return type == DataType::kHALF ? 2 : 4;
}

inline DynamicPluginTensorDesc desc_of(DataType type, const std::vector<int64_t> &most) {
    DynamicPluginTensorDesc d = {};
    d.desc.type = type;
    d.desc.format = TensorFormat::kLINEAR;
    d.desc.dims = d.min = d.opt = d.max = dims_of(most);
    return d;
}

// The formats that a plugin takes: linear ones of the types that it named, and no others.
inline bool formats_good(IPluginV3OneBuild *b, std::vector<DynamicPluginTensorDesc> io, int inputs,
                         int outputs) {
    for (int i = 0; i < inputs + outputs; ++i) {
        if (!b->supportsFormatCombination(i, io.data(), inputs, outputs)) {
            return false;
        }
        const DynamicPluginTensorDesc kept = io[(size_t)i];
        io[(size_t)i].desc.format = TensorFormat::kCHW32;
        bool wrong = b->supportsFormatCombination(i, io.data(), inputs, outputs);
        io[(size_t)i] = kept;
        io[(size_t)i].desc.type = DataType::kINT8;
        wrong = wrong || b->supportsFormatCombination(i, io.data(), inputs, outputs);
        io[(size_t)i] = kept;
        if (wrong) {
            return false;
        }
    }
    return true;
}

// Builds: every method of the build interface, in TensorRT's order. in: types and the largest
// sizes of the inputs. Returns false if a method failed.
inline bool node_build(IPluginV3 *original, const std::vector<DynamicPluginTensorDesc> &in,
                       plan *made) {
    const std::unique_ptr<IPluginV3> p(original->clone());
    if (!p || !capability<IPluginV3OneCore>(p.get(), PluginCapabilityType::kCORE)) {
        return false;
    }
    IPluginV3OneBuild *b = build_of(p.get());
    const int inputs = (int)in.size(), outputs = b->getNbOutputs();
    std::vector<DataType> types;
    for (const DynamicPluginTensorDesc &d : in) {
        types.push_back(d.desc.type);
    }
    std::vector<DataType> out_types((size_t)outputs);
    if (b->getOutputDataTypes(out_types.data(), outputs, types.data(), inputs)) {
        return false;
    }
    expressions e;
    std::vector<DimsExprs> in_shapes((size_t)inputs), out_shapes((size_t)outputs);
    for (int i = 0; i < inputs; ++i) {
        const Dims &most = in[(size_t)i].max; // for the largest sizes of the outputs
        in_shapes[(size_t)i].nbDims = most.nbDims;
        for (int d = 0; d < most.nbDims; ++d) {
            in_shapes[(size_t)i].d[d] = e.constant(most.d[d]);
        }
    }
    if (b->getOutputShapes(in_shapes.data(), inputs, nullptr, 0, out_shapes.data(), outputs, e)) {
        return false;
    }
    std::vector<DynamicPluginTensorDesc> io = in;
    for (int i = 0; i < outputs; ++i) {
        std::vector<int64_t> sizes;
        for (int d = 0; d < out_shapes[(size_t)i].nbDims; ++d) {
            sizes.push_back(out_shapes[(size_t)i].d[d]->getConstantValue());
        }
        made->out.push_back(sizes);
        io.push_back(desc_of(out_types[(size_t)i], sizes));
        types.push_back(out_types[(size_t)i]);
    }
    const int size = e.in.size_output; // a size tensor is int32 and has no sizes
    if (size >= 0 && (size >= outputs || !made->out[(size_t)size].empty() ||
                      out_types[(size_t)size] != DataType::kINT32)) {
        return false;
    }
    const DynamicPluginTensorDesc *out = io.data() + inputs;
    if (!formats_good(b, io, inputs, outputs) || b->getNbTactics() != 0 ||
        b->configurePlugin(io.data(), inputs, out, outputs)) {
        return false;
    }
    made->types = types;
    made->workspace = b->getWorkspaceSize(io.data(), inputs, out, outputs);
    PluginFieldCollection const *fields = runtime_of(p.get())->getFieldsToSerialize();
    for (int32_t i = 0; i < fields->nbFields; ++i) {
        const PluginField &f = fields->fields[i];
        made->fields.push_back({f.name, {(const char *)f.data, (const char *)f.data + f.length}});
    }
    return b->getTimingCacheID() != nullptr;
}

inline IPluginV3 *create(IPluginCreatorV3One *c, const std::vector<PluginField> &fields,
                         TensorRTPhase phase) {
    const PluginFieldCollection all = {(int32_t)fields.size(), fields.data()};
    return c->createPlugin("node", &all, phase);
}

// The plugin of a plan file.
inline IPluginV3 *restore(IPluginCreatorV3One *c, const plan *from) {
    std::vector<PluginField> fields;
    for (const plan_field &f : from->fields) {
        fields.emplace_back(f.name.c_str(), f.data.data(), PluginFieldType::kUNKNOWN,
                            (int32_t)f.data.size());
    }
    return create(c, fields, TensorRTPhase::kRUNTIME);
}

} // namespace standin

#endif
