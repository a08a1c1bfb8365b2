// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/quantize.cu: makes an int8 network. It runs scans through the network as it is, records
// the magnitudes of all features, chooses ranges by the error of the network's output, and writes a
// blob with them (spira/net_blob.h). A table says of each layer its range, its scale, and how far
// its features are from those of the network as it is.
//
// Under nvcc the network runs on the GPU, in fp16; under a plain C++ compiler on the host, in fp32.
// An .onnx file of libspconv that has ranges keeps them: nothing is calibrated.
#include "engine_frames.h"
#include "quantize_table.h"
#include "scan_onnx.h"
#include "scan_scene.h"
#include "scan_weights.h"

#include <memory>

namespace quantize {

struct settings {
    side::options side;
    std::vector<std::string> scans;
    int streets;       // simulated ones, if there are no scans
    int frames, check; // at most so many for calibration; so many behind them to check
    int method;        // method_count: the best
    double share;      // of method_percentile
    bool first;        // the layers that read the input are int8, too
    std::vector<const char *> floats; // names, or their beginnings, of layers that stay as they are
};

// A frame, and the class of each row if it is known.
struct sample {
    engine::frame frame;
    std::vector<int32_t> labels;
};

typedef uint64_t word;

static int usage() {
    printf("usage: quantize [--net NAME] [--weights FILE | --onnx FILE] --save-weights FILE\n"
           "                [--scan FILE|FOLDER]... [--streets N] [--frames N] [--check N]\n"
           "                [--method best|maximum|percentile|squares] [--percentile 99.99]\n"
           "                [--float NAME]... [--first] [--voxel X[,Y,Z]] [--range X0,...,Z1]\n"
           "                [--channels N] [--classes N] [--columns N] [--seed N]\n"
           "without --weights and --onnx: random weights\n"
           "--scan: scans to calibrate with; without one, --streets simulated streets (8)\n"
           "--frames, --check: so many scans calibrate (16); so many of the last are left out of\n"
           "         that, and show what int8 loses (4)\n"
           "--method: how ranges are chosen; best: by the error of the network's output\n"
           "--float: a layer, or all whose names begin so, that stays as it is\n"
           "--first: the layers that read the network's input become int8, too\n"
           "NAME: %s\n",
           networks::network_names);
    return 0;
}

static bool count_take(const char *value, int *to) {
    char *end;
    const long n = strtol(value, &end, 10);
    *to = (int)n;
    return !*end && n >= 1 && n <= 100000;
}

static bool parse(int argc, char **argv, settings *s) {
    s->side = side::options_standard();
    s->streets = 8;
    s->frames = 16;
    s->check = 4;
    s->method = method_count;
    s->share = 0.9999;
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
        if (!strcmp(name, "--first")) {
            s->first = true;
            continue;
        }
        const char *value = side::option_value(argc, argv, &i);
        if (!value) {
            return false;
        }
        bool good = true;
        if (!strcmp(name, "--scan")) {
            engine::paths_add(value, &s->scans);
        } else if (!strcmp(name, "--onnx")) {
            s->side.onnx = value;
        } else if (!strcmp(name, "--float")) {
            s->floats.push_back(value);
        } else if (!strcmp(name, "--streets")) {
            good = count_take(value, &s->streets);
        } else if (!strcmp(name, "--frames")) {
            good = count_take(value, &s->frames);
        } else if (!strcmp(name, "--check")) {
            good = count_take(value, &s->check);
        } else if (!strcmp(name, "--percentile")) {
            s->share = strtod(value, nullptr) / 100;
            good = s->share > 0.5 && s->share <= 1;
        } else if (!strcmp(name, "--method")) {
            s->method = 0;
            while (s->method < method_count && strcmp(value, method_name(s->method))) {
                ++s->method;
            }
            good = s->method < method_count || !strcmp(value, "best");
        } else if (!side::option_take(&s->side, name, value)) {
            return false;
        }
        if (!good) {
            fprintf(stderr, "%s does not take %s\n", name, value);
            return false;
        }
    }
    const char *wrong = !s->side.save_weights             ? "--save-weights is missing"
                        : s->side.onnx && s->side.weights ? "--weights: --onnx has weights"
                                                          : nullptr;
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
    }
    return !wrong;
}

// ---- frames -------------------------------------------------------------------------------------

// The samples of the settings: scans, or simulated streets with the classes of their points.
static std::vector<sample> samples_take(const settings *s, const networks::network *net) {
    std::vector<sample> samples;
    const size_t most = (size_t)(s->frames + s->check);
    int64_t bad = 0;
    if (!s->scans.empty()) {
        for (engine::frame &f : engine::frames_take(net, &s->side, s->scans, &bad)) {
            if (f.count > 0 && samples.size() < most) {
                samples.push_back({std::move(f), {}});
            }
        }
        return samples;
    }
    for (int i = 0; i < s->streets + s->check; ++i) {
        scan::scan_cloud cloud;
        int32_t *labels = nullptr;
        sample one = {};
        const uint32_t seed = s->side.seed + (uint32_t)i;
        one.frame.path = "street " + std::to_string(seed);
        if (!spira::status_failed(scan::scan_scene_street(seed, &cloud, &labels)) &&
            !spira::status_failed(engine::frame_make(net, &s->side, &cloud, &one.frame))) {
            if (net->scores && one.frame.outside == 0) {
                one.labels.assign(labels, labels + one.frame.count);
            }
            samples.push_back(std::move(one));
        }
        scan::scan_free(&cloud);
        free(labels);
    }
    return samples;
}

// The word layout of a frame, and what it is voxelised from.
static spira::status frame_fit(const networks::network *net, const engine::frame *f, side::job *j) {
    spira::word_need need = {};
    j->input = {};
    j->input.points = f->rows.data();
    j->input.rows = f->count;
    j->input.columns = engine::row_columns(net);
    networks::network_voxels(net, &j->input);
    if (!networks::network_ranged(net)) {
        float lo[3], hi[3];
        for (int a = 0; a < 3; ++a) {
            lo[a] = hi[a] = f->rows[(size_t)a];
            for (int32_t i = 1; i < f->count; ++i) {
                const float at = f->rows[(size_t)(i * j->input.columns + a)];
                lo[a] = at < lo[a] ? at : lo[a];
                hi[a] = at > hi[a] ? at : hi[a];
            }
        }
        SPIRA_TRY(spira::voxel_bounds(lo, hi, j->input.size, j->input.origin, &need));
    }
    SPIRA_TRY(spira::net_need(net->layers, net->count, &net->grid, &need));
    need.batches = 1;
    SPIRA_TRY(spira::word_fit(&need, &j->layout));
    j->layout = j->layout.bits == 32 ? spira::word_widen(j->layout) : j->layout;
    return spira::status_success();
}

// The class of each voxel; empty if it is not known.
static std::vector<int32_t> frame_truth(const sample *s, const side::prepared<word> *p,
                                        int classes) {
    std::vector<int32_t> truth;
    if (!s->labels.empty()) {
        const int32_t voxels = *p->set.count;
        std::vector<int32_t> votes((size_t)voxels * (size_t)classes);
        truth.resize((size_t)voxels);
        scan::labels_vote(p->bookkeeping.voxel, s->labels.data(), s->frame.count, voxels, classes,
                          votes.data(), truth.data());
    }
    return truth;
}

// ---- one frame ----------------------------------------------------------------------------------

// Runs a frame through the network as it is, and records all its features.
static spira::status frame_calibrate(table *t, const side::job *j, const side::prepared<word> *p,
                                     const spira::net_limits *limits) {
    runner<word> r;
    SPIRA_TRY(runner_start(j, t->net, limits, p, t->params, &r));
    for (int i = -1; i < t->net->count; ++i) {
        SPIRA_TRY(i < 0 ? spira::status_success() : runner_layer(&r, i));
        const std::vector<float> features = runner_fetch(&r, i);
        histogram_add(&t->seen[(size_t)(1 + i)], features.data(), (int64_t)features.size());
    }
    return runner_end(&r);
}

// Bytes of a network's features on a GPU, whose plan lets them share memory, without those of a
// dense map. limits: of a frame
static int64_t feature_bytes(const networks::network *net, spira::net_limits limits,
                             spira::net_plan *plan) {
    const int count = net->count - (net->layers[net->count - 1].op == spira::net_dense);
    limits.type = spira::numeric_f16;
    if (spira::status_failed(spira::net_plan_sets(net->layers, count, &limits, true, plan))) {
        return 0; // said where it is planned to run
    }
    for (int i = 0; i < count; ++i) {
        spira::net_place_features(plan, i, 0);
    }
    return (int64_t)plan->feature_bytes;
}

// Runs a frame through both networks, layer by layer, and adds what int8 loses.
static spira::status frame_compare(const table *t, const side::job *j,
                                   const side::prepared<word> *p, spira::net_limits limits,
                                   const sample *s, losses *l) {
    std::unique_ptr<networks::network> net(new networks::network);
    runner<word> floats, int8;
    std::vector<float> params, a, b;
    SPIRA_TRY(runner_start(j, t->net, &limits, p, t->params, &floats));
    table_make(t, net.get(), &limits.range);
    ++l->frames;
    l->feature_bytes[0] += feature_bytes(t->net, limits, int8.plan);
    l->feature_bytes[1] += feature_bytes(net.get(), limits, int8.plan);
    SPIRA_TRY(spira::net_plan_sets(net->layers, net->count, &limits, false, int8.plan));
    SPIRA_TRY(table_params(t, floats.plan, int8.plan, &params));
    SPIRA_TRY(runner_start(j, net.get(), &limits, p, params.data(), &int8));
    for (int i = 0; i < t->net->count; ++i) {
        SPIRA_TRY(runner_layer(&floats, i));
        SPIRA_TRY(runner_layer(&int8, i));
        a = runner_fetch(&floats, i);
        b = runner_fetch(&int8, i);
        SPIRA_REQUIRE(a.size() == b.size(), spira::status_bad_size, "features", i);
        error_add(&l->layer[(size_t)i], a.data(), b.data(), (int64_t)a.size());
    }
    if (t->net->scores) {
        const int classes = floats.plan->step[t->net->count - 1].channels;
        losses_classes(l, a, b, classes, frame_truth(s, p, classes));
    }
    SPIRA_TRY(runner_end(&floats));
    return runner_end(&int8);
}

// Prepares a frame, and calls f(job, voxels, limits) with it. *plan: scratch
template <typename F>
static spira::status frame_run(const table *t, const sample *s, const settings *o,
                               spira::net_plan *plan, F f) {
    side::job j = {};
    j.chosen = &o->side;
    j.net = t->net;
    j.plan = plan;
    SPIRA_TRY(frame_fit(t->net, &s->frame, &j));
    side::prepared<word> p = side::prepared_new<word>(&j);
    int32_t voxels[spira::net_sets_max];
    spira::net_limits limits = {};
    spira::status done = side::prepare(&j, &p);
    if (!spira::status_failed(done)) {
        p.set.capacity = *p.set.count;
        limits = side::job_limits(&j, p.set.capacity);
        done = side::measure_sets(&j, &p, &limits, voxels);
    }
    done = spira::status_failed(done) ? done : f(&j, &p, &limits);
    side::prepared_free(&p);
    return done;
}

// ---- all frames ---------------------------------------------------------------------------------

// The last samples, which are checked: at least one, and none of the others if there are enough.
static size_t check_from(const std::vector<sample> &samples, const settings *s) {
    const size_t check = (size_t)s->check;
    return samples.size() > check ? samples.size() - check : 0;
}

static spira::status calibrate(table *t, const std::vector<sample> &samples, const settings *s,
                               spira::net_plan *plan) {
    const size_t from = check_from(samples, s), count = from ? from : samples.size();
    t->seen.assign((size_t)t->net->count + 1, histogram{});
    for (size_t i = 0; i < count; ++i) {
        side::progress("calibrating with scan", (int)i, (int)count);
        SPIRA_TRY(frame_run(t, &samples[i], s, plan,
                            [&](side::job *j, side::prepared<word> *p, spira::net_limits *limits) {
                                return frame_calibrate(t, j, p, limits);
                            }));
    }
    side::progress("calibrating with scan", (int)count, (int)count);
    return spira::status_success();
}

static spira::status compare(const table *t, const std::vector<sample> &samples, const settings *s,
                             spira::net_plan *plan, losses *l) {
    const size_t from = check_from(samples, s);
    *l = {};
    l->layer.resize((size_t)t->net->count);
    for (size_t i = from; i < samples.size(); ++i) {
        side::progress("checking scan", (int)(i - from), (int)(samples.size() - from));
        SPIRA_TRY(frame_run(t, &samples[i], s, plan,
                            [&](side::job *j, side::prepared<word> *p, spira::net_limits *limits) {
                                return frame_compare(t, j, p, *limits, &samples[i], l);
                            }));
    }
    side::progress("checking scan", (int)(samples.size() - from), (int)(samples.size() - from));
    return spira::status_success();
}

// Takes the ranges of the method that is chosen, or of the one with the least error of the output.
static spira::status choose(table *t, const std::vector<sample> &samples, const settings *s,
                            spira::net_plan *plan, losses *l) {
    int best = s->method;
    double least = -INFINITY;
    for (int m = 0; m < method_count && s->method == method_count; ++m) {
        table_choose(t, m, s->share);
        SPIRA_TRY(compare(t, samples, s, plan, l));
        const double found = decibels(l->layer.back());
        printf("method %-10s  output %6.2f dB\n", method_name(m), found);
        best = found > least ? m : best;
        least = found > least ? found : least;
    }
    table_choose(t, best, s->share);
    printf("ranges: %s\n", method_name(best));
    return compare(t, samples, s, plan, l);
}

// ---- what is printed and written ----------------------------------------------------------------

static void print_table(const table *t, const spira::net_plan *plan, const losses *l) {
    printf("\n%-24s %-6s %-6s %12s %12s %9s\n", "layer", "sums", "stored", "range", "scale",
           "SNR dB");
    for (int i = 0; i < plan->layer_count; ++i) {
        const spira::net_step *step = &plan->step[i];
        const bool int8 = step->type == spira::numeric_i8;
        const bool sums = t->int8[i];
        const char *own = spira::numeric_name(float_type);
        printf("%-24s %-6s %-6s", t->net->layers[i].name, sums ? "int8" : own, int8 ? "int8" : own);
        if (int8) {
            printf(" %12.5g %12.5g", (double)(step->scale * 127), (double)step->scale);
        } else {
            printf(" %12s %12s", "-", "-");
        }
        printf(" %9.2f\n", decibels(l->layer[(size_t)i]));
    }
}

static void print_losses(const table *t, const losses *l) {
    const error &e = l->layer.back();
    printf("\noutput: %.2f dB, PSNR %.2f dB, relative error %.4f", decibels(e),
           e.noise > 0 ? 10 * log10(e.peak * e.peak * (double)e.count / e.noise) : 999.0,
           e.signal > 0 ? sqrt(e.noise / e.signal) : 0.0);
    if (l->voxels) {
        printf("; %.2f %% of %lld voxels keep their class",
               100 * (double)l->same / (double)l->voxels, (long long)l->voxels);
    }
    printf("\n");
    const double mib = 1.0 / (1 << 20) / (double)(l->frames ? l->frames : 1);
    const double half = (double)l->feature_bytes[0], eight = (double)l->feature_bytes[1];
    printf("features of voxels on a GPU: %.1f MiB in fp16, %.1f MiB in int8: %.0f %%\n", half * mib,
           eight * mib, 100 * eight / (half > 0 ? half : 1));
    if (l->labelled) {
        const int classes = t->net->layers[t->net->count - 1].channels;
        const double own = scan::labels_mean_iou(&l->float_match, classes),
                     int8 = scan::labels_mean_iou(&l->int8_match, classes);
        printf("mean IoU: %.4f in %s, %.4f in int8: %+.2f points\n", own,
               spira::numeric_name(float_type), int8, 100 * (int8 - own));
    }
}

// Writes the quantised blob.
static spira::status table_write(const table *t, const char *path, const spira::net_plan *floats,
                                 spira::net_plan *plan, networks::network *net) {
    spira::net_limits limits = side::limits_of(t->net, 1);
    std::vector<float> params;
    table_make(t, net, &limits.range);
    for (int i = 0; i < net->count; ++i) {
        net->layers[i].capacity = 0;
    }
    SPIRA_TRY(spira::net_plan_sets(net->layers, net->count, &limits, false, plan));
    SPIRA_TRY(table_params(t, floats, plan, &params));
    return weights::write(path, plan, params.data());
}

// Everything behind the network and its parameters. Returns the exit code.
static int run(const settings *s, table *t, const spira::net_plan *floats) {
    const std::unique_ptr<spira::net_plan> plan(new spira::net_plan);
    const std::unique_ptr<networks::network> net(new networks::network);
    const std::vector<sample> samples = samples_take(s, t->net);
    losses l = {};
    if (samples.empty()) {
        fprintf(stderr, "no scan to calibrate with\n");
        return 1;
    }
    printf("%zu scans, of which the last %zu are checked\n", samples.size(),
           samples.size() - check_from(samples, s));
    spira::status done = spira::status_success();
    if (t->file) {
        printf("ranges: those of %s\n", s->side.onnx);
        done = compare(t, samples, s, plan.get(), &l);
    } else {
        table_formats(t, s->first, s->floats);
        done = calibrate(t, samples, s, plan.get());
        done = spira::status_failed(done) ? done : choose(t, samples, s, plan.get(), &l);
    }
    if (spira::status_failed(done)) {
        return side::fail("quantising", t->net, done);
    }
    done = table_write(t, s->side.save_weights, floats, plan.get(), net.get());
    if (spira::status_failed(done)) {
        return side::fail("writing the blob", t->net, done);
    }
    print_table(t, plan.get(), &l);
    print_losses(t, &l);
    printf("quantised weights saved: %s\n", s->side.save_weights);
    return 0;
}

} // namespace quantize

int main(int argc, char **argv) {
    quantize::settings s = {};
    if (side::help_asked(argc, argv)) {
        return quantize::usage();
    }
    if (!quantize::parse(argc, argv, &s)) {
        return side::arguments_refuse("quantize");
    }
    side::options o = s.side;
    o.save_weights = nullptr; // those are of the network as it is
    o.floats = true;          // whatever has been calibrated before
    o.int8 = false;
    const std::unique_ptr<networks::network> net(new networks::network());
    const std::unique_ptr<spira::net_plan> plan(new spira::net_plan());
    const std::unique_ptr<onnx::model> model(new onnx::model());
    float *params = nullptr;
    int code;
    if (o.onnx) {
        code = side::onnx_network(&o, model.get(), net.get());
        code = code ? code : side::onnx_params(&o, model.get(), net.get(), plan.get(), &params);
    } else {
        code = side::network_take(&o, net.get());
        code = code ? code : side::range_choose(&o, net.get());
        code = code ? code : weights::params_new(&o, net.get(), plan.get(), &params);
    }
    if (!code) {
        quantize::table t = {};
        t.net = net.get();
        t.params = params;
        if (o.onnx) {
            (void)quantize::table_from_file(&t, model.get());
        }
        code = quantize::run(&s, &t, plan.get());
    }
    free(params);
    return code;
}
