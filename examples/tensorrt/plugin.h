// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/tensorrt/plugin.h: what the plugins of this folder have in common, for TensorRT 10
// and 11.
#ifndef SPIRA_EXAMPLES_TENSORRT_PLUGIN_H
#define SPIRA_EXAMPLES_TENSORRT_PLUGIN_H

#include "../../spira/status.h"

#include <NvInfer.h>

#include <algorithm>
#include <new>
#include <stdio.h>
#include <string.h>
#include <string>

namespace plugins {

using namespace nvinfer1;

static_assert(NV_TENSORRT_MAJOR >= 10, "IPluginV3 came with TensorRT 10");

inline ILoggerFinder *logger_finder;

// Says what is wrong. Returns 1, what methods return on failure.
inline int32_t say(const char *text, ILogger::Severity severity = ILogger::Severity::kERROR) {
    ILogger *logger = logger_finder ? logger_finder->findLogger() : nullptr;
    if (logger) {
        logger->log(severity, text);
    } else {
        fprintf(stderr, "spira: %s\n", text);
    }
    return 1;
}

// 0, or 1 with the sentence of a failure.
inline int32_t code_of(spira::status s) {
    char text[512];
    return spira::status_failed(s) ? say(spira::status_text(s, text, sizeof text)) : 0;
}

// The creators of plugin_autoware.cu: four of them.
IPluginCreatorInterface *const *autoware_creators();

inline uint64_t hash_of(const void *data, size_t bytes) { // FNV-1a
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < bytes; ++i) {
        h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
    }
    return h;
}

// A plugin P, which has name() and record(): plain data that a plan file keeps, and equal nodes
// share their timings by. P is its own copy.
template <typename P>
struct base : IPluginV3, IPluginV3OneCore, IPluginV3OneBuild, IPluginV3OneRuntime {
    char id[64];

    const P &self() const {
        return static_cast<const P &>(*this);
    }

    IPluginCapability *getCapabilityInterface(PluginCapabilityType type) noexcept override {
        switch (type) {
        case PluginCapabilityType::kCORE:
            return static_cast<IPluginV3OneCore *>(this);
        case PluginCapabilityType::kBUILD:
            return static_cast<IPluginV3OneBuild *>(this);
        case PluginCapabilityType::kRUNTIME:
            return static_cast<IPluginV3OneRuntime *>(this);
        }
        return nullptr;
    }

    IPluginV3 *clone() noexcept override {
        return new (std::nothrow) P(self());
    }

    AsciiChar const *getPluginName() const noexcept override {
        return self().name();
    }

    AsciiChar const *getPluginVersion() const noexcept override {
        return "1";
    }

    AsciiChar const *getPluginNamespace() const noexcept override {
        return "";
    }

    char const *getTimingCacheID() noexcept override {
        const auto &r = self().record();
        snprintf(id, sizeof id, "%s_%016llx", self().name(),
                 (unsigned long long)hash_of(&r, sizeof r));
        return id;
    }

    static void shape_set(DimsExprs *to, std::initializer_list<IDimensionExpr const *> dims) {
        to->nbDims = (int32_t)dims.size();
        std::copy(dims.begin(), dims.end(), to->d);
    }
};

// ---- attributes ---------------------------------------------------------------------------------

inline std::string field_text(PluginField const &f) { // not always zero-terminated
    const char *text = (const char *)f.data;
    return std::string(text, strnlen(text, (size_t)f.length));
}

inline bool field_int(PluginField const &f, int32_t i, int32_t *to) {
    const bool wide = f.type == PluginFieldType::kINT64;
    if ((!wide && f.type != PluginFieldType::kINT32) || i >= f.length) {
        return false;
    }
    const int64_t value = wide ? ((const int64_t *)f.data)[i] : ((const int32_t *)f.data)[i];
    *to = (int32_t)value;
    return value >= 0 && value <= INT32_MAX;
}

inline bool field_ints(PluginField const &f, int32_t to[3]) {
    return f.length == 3 && field_int(f, 0, &to[0]) && field_int(f, 1, &to[1]) &&
           field_int(f, 2, &to[2]);
}

inline bool field_floats(PluginField const &f, int32_t count, float *to) {
    const bool good = f.type == PluginFieldType::kFLOAT32 && f.length == count;
    memcpy(to, f.data, good ? (size_t)count * sizeof(float) : 0);
    return good;
}

} // namespace plugins

#endif
