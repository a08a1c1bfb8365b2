// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/ptv3.cpp: the table of examples/ptv3.h against the network written out, block by
// block, in double: its formulas, and the names that its parameters have.
#include "../support/net_plans.h"

#include <array>
#include <map>
#include <string>

namespace {

// Rows of features, and the cell of each: in units of the level.
struct level {
    std::vector<std::array<int, 3>> cell;
    std::map<std::array<int, 3>, int> row;
};

struct rows {
    int channels;
    std::vector<double> at;
};

struct model {
    const net_plan *plan;
    const float *params;
};

level level_make(const std::map<std::array<int, 3>, int> &cells) {
    level l;
    for (const auto &one : cells) {
        l.row[one.first] = (int)l.cell.size();
        l.cell.push_back(one.first);
    }
    return l;
}

std::array<int, 3> parent_of(std::array<int, 3> cell) {
    for (int &x : cell) {
        x = (int)floor_to(x, 2) / 2;
    }
    return cell;
}

level coarser(const level *fine) {
    std::map<std::array<int, 3>, int> cells;
    for (const auto &cell : fine->cell) {
        cells[parent_of(cell)] = 0;
    }
    return level_make(cells);
}

double gelu(double x) {
    return 0.5 * x * (1 + erf(x / sqrt(2.0)));
}

int layer_of(const model *m, const std::string &name) {
    for (int i = 0; i < m->plan->layer_count; ++i) {
        if (name == m->plan->layers[i].name) {
            return i;
        }
    }
    test_check(false, __FILE__, __LINE__, name.c_str());
    return 0;
}

// A convolution with what the layer has of bias and batch norm.
rows conv(const model *m, const std::string &name, const level *l, const rows &x, int size) {
    const int layer = layer_of(m, name), half = size / 2;
    const net_params at = net_params_of(m->plan, layer);
    const int cout = m->plan->step[layer].channels;
    rows y = {cout, std::vector<double>(l->cell.size() * (size_t)cout)};
    for (size_t o = 0; o < l->cell.size(); ++o) {
        double *const out = &y.at[o * (size_t)cout];
        for (int k = 0; k < size * size * size; ++k) {
            const auto found = l->row.find({l->cell[o][0] + k / (size * size) - half,
                                            l->cell[o][1] + k / size % size - half,
                                            l->cell[o][2] + k % size - half});
            for (int i = 0; found != l->row.end() && i < x.channels; ++i) {
                const float *w = m->params + at.weight + ((int64_t)k * x.channels + i) * cout;
                for (int c = 0; c < cout; ++c) {
                    out[c] += x.at[(size_t)(found->second * x.channels + i)] * (double)w[c];
                }
            }
        }
        for (int c = 0; c < cout; ++c) {
            out[c] += at.bias < 0 ? 0 : m->params[at.bias + c];
            out[c] =
                at.scale < 0 ? out[c] : out[c] * m->params[at.scale + c] + m->params[at.shift + c];
        }
    }
    return y;
}

rows each(rows x, double (*f)(double)) {
    for (double &v : x.at) {
        v = f(v);
    }
    return x;
}

rows sum(rows x, const rows &y) {
    for (size_t i = 0; i < x.at.size(); ++i) {
        x.at[i] += y.at[i];
    }
    return x;
}

rows layer_norm(const model *m, const std::string &name, rows x) {
    const net_params at = net_params_of(m->plan, layer_of(m, name));
    for (size_t o = 0; o < x.at.size(); o += (size_t)x.channels) {
        double mean = 0, variance = 0;
        for (int c = 0; c < x.channels; ++c) {
            mean += x.at[o + (size_t)c] / x.channels;
        }
        for (int c = 0; c < x.channels; ++c) {
            variance += pow(x.at[o + (size_t)c] - mean, 2) / x.channels;
        }
        for (int c = 0; c < x.channels; ++c) {
            double *const v = &x.at[o + (size_t)c];
            *v = (*v - mean) / sqrt(variance + 1e-5) * m->params[at.scale + c] +
                 m->params[at.shift + c];
        }
    }
    return x;
}

rows block(const model *m, const std::string &name, const level *l, rows x) {
    const rows position = conv(m, name + ".cpe.1", l, conv(m, name + ".cpe.0", l, x, 3), 1);
    x = sum(x, layer_norm(m, name + ".cpe.2", position));
    const rows inner = conv(m, name + ".mlp.0.fc1", l, layer_norm(m, name + ".norm2.0", x), 1);
    return sum(x, conv(m, name + ".mlp.0.fc2", l, each(inner, gelu), 1));
}

// The largest of each cell's rows, batch norm and GELU.
rows down(const model *m, const std::string &name, const level *fine, const level *coarse,
          const rows &x) {
    const rows y = conv(m, name + ".down.proj", fine, x, 1);
    const net_params at = net_params_of(m->plan, layer_of(m, name + ".down.norm"));
    rows most = {y.channels, std::vector<double>(coarse->cell.size() * (size_t)y.channels, -1e30)};
    for (size_t o = 0; o < fine->cell.size(); ++o) {
        const int row = coarse->row.at(parent_of(fine->cell[o]));
        for (int c = 0; c < y.channels; ++c) {
            double *const to = &most.at[(size_t)(row * y.channels + c)];
            *to = std::max(*to, y.at[o * (size_t)y.channels + (size_t)c]);
        }
    }
    for (size_t i = 0; i < most.at.size(); ++i) {
        const int c = (int)i % y.channels;
        most.at[i] = gelu(most.at[i] * m->params[at.scale + c] + m->params[at.shift + c]);
    }
    return most;
}

rows up(const model *m, const std::string &name, const level *fine, const level *coarse,
        const rows &x, const rows &skip) {
    const rows from = each(conv(m, name + ".up.proj.0", coarse, x, 1), gelu);
    rows y = each(conv(m, name + ".up.proj_skip.0", fine, skip, 1), gelu);
    for (size_t o = 0; o < fine->cell.size(); ++o) {
        const int row = coarse->row.at(parent_of(fine->cell[o]));
        for (int c = 0; c < y.channels; ++c) {
            y.at[o * (size_t)y.channels + (size_t)c] += from.at[(size_t)(row * y.channels + c)];
        }
    }
    return y;
}

rows network_written_out(const model *m, const networks::ptv3_sizes *sizes, const level *finest,
                         const rows &input) {
    using networks::ptv3_stages;
    level l[ptv3_stages] = {*finest};
    rows skip[ptv3_stages];
    rows x = each(conv(m, "embedding.stem.conv", finest, input, sizes->stem), gelu);
    for (int s = 0; s < ptv3_stages; ++s) {
        const std::string stage = "enc.enc" + std::to_string(s);
        if (s) {
            l[s] = coarser(&l[s - 1]);
            x = down(m, stage, &l[s - 1], &l[s], x);
        }
        for (int b = 0; b < sizes->blocks[s]; ++b) {
            x = block(m, stage + ".block" + std::to_string(b), &l[s], x);
        }
        skip[s] = x;
    }
    for (int s = ptv3_stages - 2; s >= 0; --s) {
        const std::string stage = "dec.dec" + std::to_string(s);
        x = up(m, stage, &l[s], &l[s + 1], x, skip[s]);
        for (int b = 0; b < sizes->up[s]; ++b) {
            x = block(m, stage + ".block" + std::to_string(b), &l[s], x);
        }
    }
    return x;
}

} // namespace

TEST(ptv3_is_the_network_written_out) {
    const networks::ptv3_sizes sizes = {
        5, {4, 8, 8, 12, 16}, {1, 1, 1, 2, 1}, {6, 8, 8, 12}, {1, 2, 1, 1}, 4};
    const int32_t voxels = 300;
    network n;
    networks::network_ptv3(&n, &sizes);
    const word_layout layout = reference_net_layout<uint32_t>(&n, {-9, -4, 0}, {9, 8, 7}, 1);
    random_state r = random_make(12);
    std::vector<uint32_t> words(voxels);
    REQUIRE(CHECK_EQUAL(
        reference_random_set(&r, &layout, {-9, -4, 0}, {9, 8, 7}, {1, 1, 1}, voxels, words.data()),
        voxels));
    rows input = {n.input_channels, {}};
    std::vector<float> features((size_t)(voxels * n.input_channels));
    reference_random_values(&r, numeric_f32, 1, voxels * n.input_channels, features.data());
    input.at.assign(features.begin(), features.end());

    std::unique_ptr<net_plan> plan(new net_plan);
    const net_limits limits = limits_make(voxels, n.input_channels);
    REQUIRE_OK(net_plan_host<uint32_t>(n.layers, n.count, &layout, &limits, plan.get()));
    std::vector<float> params((size_t)plan->params);
    networks::network_weights(plan.get(), 3, params.data());
    networks::ptv3_identity(plan.get(), params.data());
    int32_t count = voxels;
    device_status trouble = {};
    net_run_args<uint32_t> run = {};
    run.input = {words.data(), &count, voxels};
    run.features = features.data();
    run.loaded = params.data();
    run.trouble = &trouble;
    run.memory = guarded_new<char>((int64_t)plan->workspace_bytes);
    run.bytes = plan->workspace_bytes;
    REQUIRE_OK(net_run_host(plan.get(), &run));
    CHECK_OK(device_status_read(&trouble));

    const model m = {plan.get(), params.data()};
    std::map<std::array<int, 3>, int> cells;
    for (const uint32_t w : words) { // ascending, as the map is
        const voxel v = word_unpack<uint32_t>(&layout, w);
        cells[{v.x, v.y, v.z}] = 0;
    }
    const level finest = level_make(cells);
    const rows wanted = network_written_out(&m, &sizes, &finest, input);
    const net_result<uint32_t> out = net_output(plan.get(), n.count - 1, &run);
    REQUIRE(CHECK_EQUAL(*out.set.count, voxels) && CHECK_EQUAL(out.channels, wanted.channels));
    double error = 0, all = 0;
    for (size_t i = 0; i < wanted.at.size(); ++i) {
        error += pow(((const float *)out.features)[i] - wanted.at[i], 2);
        all += pow(wanted.at[i], 2);
    }
    CHECK(all > 1 && sqrt(error / all) < 1e-5);
    guarded_finish();
}

// Its layers, under names that are whole.
TEST(ptv3_has_its_layers) {
    network n;
    REQUIRE(networks::network_make("PTv3-conv", &n));
    std::unique_ptr<net_plan> plan(new net_plan);
    const net_limits limits = limits_make(100, n.input_channels);
    REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, false, plan.get()));
    CHECK_EQUAL(n.count, 1 + 22 * 6 + 4 * 3 + 4 * 3);
    CHECK_EQUAL(plan->step[n.count - 1].channels, 64);
    for (int i = 0; i < n.count; ++i) {
        CHECK(strlen(n.names[i]) < 31);
    }
}
