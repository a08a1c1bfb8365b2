// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/order_table.cpp: makes spira/order/table.h: the classes of keys
// (order/key.h).
//
//   g++ -std=c++17 -O2 bench/order_table.cpp -o build/order_table
//   build/order_table data/*.vox32 data/nuscenes*.bin > spira/order/table.h
//
// A table divides the keys of all scenes: the given scans and random voxels; at strides 1 to 8, as
// submanifold layers, as strided layers, and with the columns of a threshold. A scene counts as the
// square root of its rows. Keys that are more frequent than a class have a class of their own; the
// others are divided evenly.
#include "../examples/scan_scene.h"
#include "../spira/map.h"
#include "../spira/order.h"

#include <cmath>
#include <map>
#include <stdio.h>
#include <vector>

using namespace spira;

typedef uint64_t word;
typedef std::vector<word> words;
typedef std::map<uint32_t, double> shares; // of each key

static word_layout layout_of(triple hi) {
    word_need need = {};
    need.hi = hi;
    need.batches = 1;
    need.stride = {16, 16, 16};
    need.reach = {32, 32, 32};
    word_layout layout = {};
    if (status_failed(word_fit(&need, &layout))) {
        fprintf(stderr, "a scene does not fit a word\n");
        exit(1);
    }
    return word_widen(layout);
}

// ---- scenes -------------------------------------------------------------------------------------

// Points in voxels of 5 cm.
static std::vector<int> read(const char *path) {
    std::vector<int> coordinates;
    scan::scan_cloud cloud;
    scan::scan_reason why;
    const scan::scan_options options = {};
    if (status_failed(scan::scan_read(path, &options, &cloud, &why))) {
        fprintf(stderr, "%s\n", why.text);
        exit(1);
    }
    for (int64_t i = 0; i < cloud.rows * 3; ++i) {
        coordinates.push_back(cloud.points
                                  ? (int)floor(cloud.points[i / 3 * cloud.columns + i % 3] / 0.05)
                                  : cloud.voxels[i]);
    }
    scan::scan_free(&cloud);
    for (size_t a = 0; a < 3; ++a) {
        int lowest = coordinates[a];
        for (size_t i = a; i < coordinates.size(); i += 3) {
            lowest = std::min(lowest, coordinates[i]);
        }
        for (size_t i = a; i < coordinates.size(); i += 3) {
            coordinates[i] -= lowest;
        }
    }
    return coordinates;
}

static std::vector<int> random_voxels(int side) {
    std::vector<int> coordinates;
    uint64_t state = 1;
    for (int i = 0; i < 90000 * 3; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        coordinates.push_back((int)((state >> 33) % (uint64_t)(i % 3 == 2 ? 20 : side)));
    }
    return coordinates;
}

// The voxels at a stride, as coordinates of a layout.
static words voxels_at(const std::vector<int> &coordinates, const word_layout *layout, int stride) {
    words all;
    for (size_t i = 0; i < coordinates.size(); i += 3) {
        voxel v = {0, coordinates[i] & -stride, coordinates[i + 1] & -stride,
                   coordinates[i + 2] & -stride};
        all.push_back(word_pack<word>(layout, v));
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

// ---- keys ---------------------------------------------------------------------------------------

static void add_keys(const word_layout *layout, kernel_shape kernel, int threshold,
                     const words &source, const words &outputs, shares *to) {
    int32_t inputs = (int32_t)source.size(), count = (int32_t)outputs.size();
    const voxel_set<word> from = {(word *)source.data(), &inputs, inputs},
                          of = {(word *)outputs.data(), &count, count};
    const int volume = kernel_volume(&kernel);
    const size_t columns = (size_t)kernel_norm_count(&kernel, threshold, volume);
    std::vector<int32_t> all((size_t)count * (size_t)volume), map((size_t)count * columns);
    if (status_failed(map_build_host(layout, &kernel, from, of, all.data()))) {
        fprintf(stderr, "a map cannot be built\n");
        exit(1);
    }
    for (size_t i = 0, to_column = 0; i < all.size(); ++i) {
        if (kernel_norm(&kernel, (int)(i % (size_t)volume)) < threshold) {
            map[to_column++] = all[i];
        }
    }
    std::vector<uint32_t> keys((size_t)count);
    order_host h = {};
    h.request.kernel = kernel;
    h.request.threshold = threshold;
    h.request.map = map.data();
    h.count = count;
    h.keys = keys.data();
    h.weights = order_weights_make(&kernel, threshold);
    order_keys_host(&h);
    for (uint32_t key : keys) {
        (*to)[key] += 1 / sqrt((double)count);
    }
}

static void add_scene(const std::vector<int> &coordinates, int size, shares *to) {
    triple hi = {0, 0, 0};
    for (size_t i = 0; i < coordinates.size(); i += 3) {
        hi.x = std::max(hi.x, coordinates[i]);
        hi.y = std::max(hi.y, coordinates[i + 1]);
        hi.z = std::max(hi.z, coordinates[i + 2]);
    }
    const word_layout layout = layout_of(hi);
    for (int stride = 1; stride <= 8; stride *= 2) {
        const words own = voxels_at(coordinates, &layout, stride);
        const kernel_shape kernel = kernel_cube(size, stride);
        add_keys(&layout, kernel, map_all, own, own, to);
        if (stride < 8) {
            add_keys(&layout, kernel, map_all, own, voxels_at(coordinates, &layout, 2 * stride),
                     to);
        }
        if (stride < 4) {
            add_keys(&layout, kernel, 3, own, own, to);
        }
    }
}

// ---- classes ------------------------------------------------------------------------------------

// The keys that begin classes, if a class has this share of the rows.
static std::vector<uint32_t> divide(const shares &keys, double share) {
    std::vector<uint32_t> begins;
    double sum = 0;
    bool behind = false; // a key with a class of its own
    for (const auto &key : keys) {
        const bool own = key.second >= share;
        if (key.first && (own || behind || sum + key.second > share)) {
            begins.push_back(key.first);
            sum = 0;
        }
        sum += key.second;
        behind = own;
    }
    return begins;
}

static void print_table(const shares &keys, const char *name) {
    double all = 0, low = 0;
    for (const auto &key : keys) {
        all += key.second;
    }
    double high = all;
    for (int step = 0; step < 60; ++step) {
        const double share = (low + high) / 2;
        (divide(keys, share).size() < order_classes ? high : low) = share;
    }
    std::vector<uint32_t> begins = divide(keys, high);
    begins.insert(begins.begin(), 0);
    begins.resize(order_classes, UINT32_MAX);
    printf("// The least key of each class.\nSPIRA_BOTH const uint32_t *order_table_%s() {\n",
           name);
    printf("    alignas(16) static const uint32_t table[order_classes] = {");
    for (size_t i = 0; i < begins.size(); ++i) {
        printf("%s0x%x", i % 8 ? ", " : i ? ",\n        " : "\n        ", begins[i]);
    }
    printf("};\n    return table;\n}\n\n");
}

int main(int count, char **argument) {
    shares by_sectors, by_directions;
    std::vector<std::vector<int>> scenes;
    for (int i = 1; i < count; ++i) {
        scenes.push_back(read(argument[i]));
    }
    for (int side : {1800, 900, 250, 80}) {
        scenes.push_back(random_voxels(side));
    }
    for (const auto &scene : scenes) {
        add_scene(scene, 3, &by_sectors);
        add_scene(scene, 5, &by_directions);
    }
    printf("// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors\n"
           "// spira/order/table.h: the classes of keys (order/key.h), made by\n"
           "// bench/order_table.cpp.\n"
           "#ifndef SPIRA_ORDER_TABLE_H\n#define SPIRA_ORDER_TABLE_H\n\n"
           "#include \"key.h\"\n\nnamespace spira {\n\n");
    print_table(by_sectors, "sectors");
    print_table(by_directions, "directions");
    printf("// Returns the table of a map that has not few directions.\n"
           "SPIRA_BOTH const uint32_t *order_table(order_keys keys) {\n"
           "    return keys == order_by_sectors ? order_table_sectors() : "
           "order_table_directions();\n}\n\n} // namespace spira\n\n#endif\n");
}
