# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# bench/figures.awk: chooses what a picture shows, out of the benchmarks' JSON lines. POSIX awk.
#
#     awk -v figure=conv -f bench/json.awk -f bench/plot.awk -f bench/figures.awk \
#         bench/peers.jsonl build/figures/full/*.jsonl >bench/figures/conv.svg
#     awk -v figure=list -f bench/json.awk -f bench/plot.awk -f bench/figures.awk    the names
#
# Prints nothing and fails with status 3 where no line belongs to the figure. Figures of other engines
# (bench "peer") are drawn only beside own ones of the same input. A line of bench "stamp" says at which
# commit the lines after it were measured; the picture names all commits of its lines.

# The line at hand is drawn: notes its GPU and commit. Returns 1.
function drawn() {
    gpu = value("gpu") == "" ? gpu : value("gpu")
    note_commit(commit)
    return 1
}

function note_commit(name) {
    if (name == "" || name in stamped)
        return
    stamped[name] = 1
    commits = commits (commits == "" ? "" : ", ") name
}

function is(bench) {
    return value("bench") == bench
}

function layer() {
    return value("cin") "," value("cout") "," value("K")
}

function mib(bytes) {
    return bytes / 1048576
}

# A panel for an input: its name; the one with its size if the line has it.
function input_panel(    name) {
    name = value("input")
    if (!(name in panel_title))
        panel_title[name] = name (value("voxels") == "" ? "" : ", " value("voxels") " voxels")
    return panel_title[name]
}

# ---- other engines ------------------------------------------------------------------------------

# Keeps a figure of another engine until it is known which inputs are drawn.
function keep_peer() {
    ++peers
    peer_step[peers] = value("step")
    peer_input[peers] = value("input")
    peer_engine[peers] = value("engine") == "Spira" ? "Spira, the authors' kernels" : value("engine")
    peer_us[peers] = value("us")
    peer_busy[peers] = value("busy_us")
}

# Draws the peers of the steps in category_name [step], beside own points.
function add_peers(category_name,    i, place, name) {
    for (i = 1; i <= peers; ++i) {
        place = panel_title[peer_input[i]]
        name = category_name[peer_step[i]]
        if (place == "" || name == "" || !(name in category_of))
            continue
        if (peer_busy[i] == "") {
            plot_series(peer_engine[i], "hollow")
            plot_point(place, peer_engine[i], name, peer_us[i])
        } else {
            plot_series(peer_engine[i] ", wall", "hollow")
            plot_series(peer_engine[i] ", busy", "hollow")
            plot_point(place, peer_engine[i] ", wall", name, peer_us[i] / 1000)
            plot_point(place, peer_engine[i] ", busy", name, peer_busy[i] / 1000)
        }
    }
}

# ---- figures: what is set up, then what a line adds ---------------------------------------------

# Sets a figure up: its title, note and axes, and its series, STYLE NAME each, parted by ";".
function describe(name, title, text, x, x_label, y, y_label, series,    n, i, one, style) {
    names = names (names == "" ? "" : " ") name
    if (figure != name)
        return
    head = title
    note = text
    plot_x(x, x_label)
    plot_y(y, y_label)
    n = split(series, one, ";")
    for (i = 1; i <= n; ++i) {
        style = one[i]
        sub(/ .*/, "", style)
        plot_series(substr(one[i], length(style) + 2), style)
    }
}

function describe_all(    us, peers_too, searches) {
    us = "microseconds"
    peers_too = "Hollow marks: other engines on the same GPU. Bars: target"
    searches = "line zdelta;line bsearch;line minuet;line hash;line grid"
    describe("maps", "Voxel indexing", "32-bit words where they do. " peers_too "s.", \
        "names", "", "log", us, "dots spira;tick target")
    describe("conv", "One convolution, fp16", "Channels in, channels out, kernel size. " peers_too " and limit.", \
        "names", "", "log", us, "dots spira;dash cuBLAS over the valid pairs, gathered before;tick target")
    describe("widths", "One convolution over its channels, fp16", "As many channels out as in, in steps of 4.", \
        "linear", "channels", "linear", us)
    describe("portable", "One convolution, fp16, without Hopper's own instructions", \
        "Code for plain sm_90: what other GPUs run. " peers_too "s.", \
        "names", "", "log", us, "dots spira, plain sm_90;dots spira, sm_90a;tick target")
    describe("networks", "Whole networks, fp16: raw coordinates to features", \
        "spira: one CUDA graph. Others: wall time, and the sum of their kernels (busy). Bars: targets.", \
        "names", "", "log", "milliseconds", "dots spira;tick target")
    describe("deployed", "Deployed networks, fp16: a scan to a dense map or features", \
        "spira: one CUDA graph. Others: wall time, and the sum of their kernels (busy). Bars: targets.", \
        "names", "", "log", "milliseconds", "dots spira;tick target")
    describe("searches", "Voxel searches compared", \
        "After Figure 12 of the Spira paper. The submanifold kernel map from sorted 32-bit words.", \
        "names", "", "log", us, "dots zdelta;dots bsearch;dots minuet;dots hash;dots grid")
    describe("growth", "Voxel searches: growth", "Random scenes, about 4 pairs per output for K = 3.", \
        "log", "voxels", "log", us, searches)
    describe("density", "Voxel searches: density", "Random scenes of 200 x 200 x 200 cells.", \
        "log", "voxels per 100 cells", "log", us, searches)
    describe("thresholds", "Thresholds of the hybrid dataflow, fp16", \
        "After Figure 11 of the Spira paper. t = 0: all offsets weight-stationary; the last t: all output-stationary.", \
        "linear", "threshold t: offsets with an L1 norm below it are output-stationary", "log", us, \
        "line 16,16;line 32,32;line 64,64;line 128,128;line 256,256")
    describe("ideas", "One idea after the other: a whole run, fp16", \
        "After Figure 13 of the Spira paper. The first three are launched one by one, the last is a CUDA graph.", \
        "names", "", "log", us, "dots bsearch;dots zdelta;dots network-wide;dots graph")
    describe("indexing", "Indexing a network: all sets but the first, all maps", \
        "After Figure 15 of the Spira paper. Within a CUDA graph, output-stationary maps.", \
        "names", "", "log", us, "dots sequential;dots streams;dots batch")
    describe("sizes", "SparseResNet21 with kernels of size K, fp16", \
        "After Table 4 of the Spira paper. One CUDA graph from raw coordinates to features.", \
        "names", "", "log", "", "dots 1 scan;dots 4 scans")
    describe("batches", "Batches, fp16", "One CUDA graph from raw coordinates to features.", \
        "log2", "scans of a batch", "log", "", "line SparseResNet21;line MinkUNet42")
    describe("scenes", "Generated scenes: time over that of as many voxels, interpolated by pairs", \
        "The worse of 32- and 64-bit words. A dense cube has seven times as many pairs to write.", \
        "log", "voxels", "log", "times as many voxels' time", \
        "line walls x;line walls y;line walls z;line half;line scattered;line dense;" \
        "line tracks;line showers")
    describe("minuet", "Minuet's search over its block sizes", \
        "B words of a source block (a line each), C queries at a time. 32-bit words.", \
        "log2", "C, queries at a time", "log", us, \
        "line B = 64;line B = 128;line B = 256;line B = 512;line B = 1024;line B = 2048")
    describe("grouping", "Gather, cuBLAS and scatter: how the products are grouped, fp16", \
        "After TorchSparse (adaptive) and Minuet (sorted sizes). Channels in, channels out, kernel size.", \
        "names", "", "log", us, "dots each offset;dots adaptive groups;dots sorted groups;tick spira's convolution")
    describe("norms", "Density by L1 norm", \
        "After Figure 3b of the Spira paper. The share of the offsets with a norm of t that have a source.", \
        "linear", "L1 norm t", "linear", "percent")
    describe("dataflows", "Dataflows of one convolution, fp16", \
        "Channels in, channels out, kernel size. Maps, lists and layouts are ready.", \
        "names", "", "log", us, "dots output-stationary;dots weight-stationary")
    if (figure == "sizes" || figure == "batches") {
        plot_own_y("time", "milliseconds")
        plot_own_y("memory", "MiB")
    }
    if (figure == "scenes")
        plot_rule(1.3, "1.3")
}

# The step of a map or a set, as maps.svg names it; "" if it is not shown.
function map_step() {
    if (is("map") && value("K") < 7)
        return value("layout") == "os" ? "map K=" value("K") : \
            value("layout") == "ws" ? "lists K=" value("K") : ""
    if (is("sort"))
        return value("method") == "pack+sort" ? "pack + sort" : ""
    return is("downsample") ? "downsample" : ""
}

# How a product is grouped.
function grouping_name() {
    return value("rule") == "each" ? "each offset" : value("rule") " groups"
}

# Adds the line at hand to the figure, where it belongs to it.
function take(    step, us, plain, name) {
    if (portable && figure != "portable")
        return
    us = value("us") + 0
    plain = value("form") == "" && value("dtype") == "fp16"
    step = ""
    if (figure == "maps")
        step = map_step()
    if (step != "" && value("word") == 64) {
        keep("wide", step, value("input") ", " value("voxels") " voxels, 64-bit words")
        step = ""
    }
    if (step != "" && drawn()) {
        plot_point(input_panel(), "spira", step, us)
        plot_point(input_panel(), "target", step, value("target_us"))
    }
    if (figure == "conv" && is("conv") && value("dataflow") == "os" && plain && drawn()) {
        plot_point(input_panel(), "spira", layer(), us)
        plot_point(input_panel(), "target", layer(), value("target_us"))
        plot_point(input_panel(), "cuBLAS over the valid pairs, gathered before", layer(), \
            value("limit_us"))
    }
    if ((figure == "networks" || figure == "deployed") && is("net") && value("method") == "graph" && \
        (is_deployed(value("net")) ? figure == "deployed" : \
            figure == "networks" && value("word") == 32) && plain && drawn()) {
        plot_point(input_panel(), "spira", value("net"), us / 1000)
        plot_point(input_panel(), "target", value("net"), value("target_us") / 1000)
    }
    if (figure == "searches" && is("search") && value("word") == 32 && drawn())
        plot_point(input_panel(), value("method"), "K=" value("K"), us)
    if ((figure == "growth" || figure == "density") && is(figure) && drawn())
        plot_point("K = " value("K"), value("method"), \
            value(figure == "growth" ? "voxels" : "density"), us)
    if (figure == "thresholds" && value("dataflow") == "hybrid" && plain && drawn())
        plot_point(value("input") ", K = " value("K"), value("cin") "," value("cout"), value("t"), us)
    if ((figure == "ideas" && is("fig13") || figure == "indexing" && is("fig15")) && drawn())
        plot_point(input_panel(), value("method"), value("net"), us)
    if (figure == "sizes" && is("table4") && value("method") == "graph" && drawn()) {
        name = value("batch") == 1 ? "1 scan" : "4 scans"
        plot_point("time", name, "K=" value("K"), us / 1000)
        plot_point("memory", name, "K=" value("K"), mib(value("bytes")))
    }
    if (figure == "batches" && is("batches") && value("method") == "graph" && drawn()) {
        plot_point("time", value("net"), value("batch"), us / 1000)
        plot_point("memory", value("net"), value("batch"), mib(value("bytes")))
    }
    if (figure == "scenes" && is("scenes") && value("input") != "uniform")
        take_scene(value("method") == "map" ? \
            scene_form(value("layout")) ", K = " value("K") : value("method"))
    if (figure == "minuet" && is("minuet") && drawn())
        plot_point(value("input") ", K = " value("K"), "B = " value("B"), value("C"), us)
    if (figure == "grouping" && value("dataflow") == "gather-gemm-scatter" && plain && drawn())
        plot_point(input_panel(), grouping_name(), layer(), us)
    if (figure == "portable" && portable && is("conv") && value("dataflow") == "os" && plain && drawn())
        plot_point(input_panel(), "spira, plain sm_90", layer(), us)
    if (!portable && is("conv") && value("dataflow") == "os" && plain)
        keep("conv", layer())
    if (figure == "norms" && is("norms") && drawn()) {
        plot_series(value("input"), "line")
        plot_point("K = " value("K"), value("input"), value("t"), value("density"))
    }
    if (figure == "widths" && is("widths") && value("cin") + 0 <= 128 && drawn()) {
        plot_series(value("input"), "line")
        plot_point("K = " value("K"), value("input"), value("cin"), us)
    }
    if (figure == "dataflows" && plain && value("dataflow") == "ws" && drawn())
        plot_point(input_panel(), "weight-stationary", layer(), us)
}

# Keeps a point until all lines are known: a "conv" that two figures draw beside others of the same
# layer, or a step on "wide" words, which is drawn if the scan has no other words.
function keep(kind, step, title) {
    ++kept
    kept_kind[kept] = kind
    kept_step[kept] = step
    kept_title[kept] = title
    kept_input[kept] = value("input")
    kept_us[kept] = value("us")
    kept_goal[kept] = value("target_us")
    kept_commit[kept] = commit
}

function add_kept(kind, name,    i, known) {
    for (i = 1; i <= kept; ++i) {
        known = kept_input[i] in panel_title
        if (kept_kind[i] != kind || (kind == "wide" ? known : !known || !(kept_step[i] in category_of)))
            continue
        if (known)
            kept_title[i] = panel_title[kept_input[i]]
        plot_point(kept_title[i], name, kept_step[i], kept_us[i])
        if (kind == "wide")
            plot_point(kept_title[i], "target", kept_step[i], kept_goal[i])
        note_commit(kept_commit[i])
    }
}

function scene_form(layout) {
    return layout == "os" ? "map" : layout == "ws" ? "lists" : layout " map"
}

# The worse of both words.
function take_scene(panel,    key) {
    key = panel SUBSEP value("input") SUBSEP value("voxels")
    if (panel ~ /^(half|compact|voxelize)/ || panel == "ordered map, K = 5" || !drawn())
        return
    if (value("ratio") + 0 > worst[key] + 0)
        worst[key] = value("ratio")
    plot_point(panel, value("input"), value("voxels"), worst[key])
}

# What can be drawn only when all lines are known.
function finish_figure(    named, i, n, name) {
    if (figure == "maps") {
        add_kept("wide", "spira")
        named["map, K=3, os"] = "map K=3"
        named["map, K=5, os"] = "map K=5"
        named["map, K=3, ws"] = "lists K=3"
        named["map, K=5, ws"] = "lists K=5"
        named["pack + sort"] = "pack + sort"
        named["downsample by 2"] = "downsample"
    }
    if (figure == "conv" || figure == "portable")
        for (i = 1; i <= categories; ++i)
            named[category[i] " fp16"] = category[i]
    if (figure == "networks" || figure == "deployed")
        for (i = 1; i <= categories; ++i)
            named[category[i]] = category[i]
    add_peers(named)
    if (figure == "portable") {
        add_kept("conv", "spira, sm_90a")
        for (i = 1; i <= targets; ++i)
            if (goal_input[i] in panel_title && named[goal_step[i]] != "")
                plot_point(panel_title[goal_input[i]], "target", named[goal_step[i]], goal_us[i])
    }
    if (figure == "grouping")
        add_kept("conv", "spira's convolution")
    if (figure == "dataflows")
        add_kept("conv", "output-stationary")
}

BEGIN {
    describe_all()
    if (figure == "list") {
        print names
        exit
    }
}
/^\{/ && is("stamp") {
    commit = value("commit")
    quick += value("quick")
    portable = value("arch") == "90"
    next
}
/^\{/ && is("peer") {
    keep_peer()
    next
}
/^\{/ && is("plain-target") {
    goal_step[++targets] = value("step")
    goal_input[targets] = value("input")
    goal_us[targets] = value("us")
    next
}
/^\{/ {
    take()
}
END {
    if (figure == "list")
        exit
    finish_figure()
    if (!plot_draw(head, note, "spira " (commits == "" ? "" : commits ", ") gpu \
        (quick ? ", quick run" : "")))
        exit 3
}
