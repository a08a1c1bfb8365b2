# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# bench/table.awk: the benchmarks' JSON lines as the tables of bench/README.md and README.md. POSIX awk.
#
#     awk -f bench/json.awk -f bench/table.awk bench/peers.jsonl out/gpu/bench_*.jsonl
#         prints the tables
#     awk -f bench/json.awk -f bench/table.awk bench/peers.jsonl out/gpu/bench_*.jsonl bench/README.md
#         prints the README, filled
#
# The lines come first. In the README, what stands between `<!-- table NAME -->` and `<!-- end -->`
# is replaced, unless there is no line for it. Of two lines for one step and input, the last one
# counts. A line of bench "stamp" says at which commit the lines after it were measured; a table names
# the commits and the GPU of its lines. Behind a stamp of arch 90 are lines of code for plain sm_90:
# they have a table of their own. Lines of bench "peer" are figures of other engines.

# ---- the tables ---------------------------------------------------------------------------------

# A table's figures and its columns, parted by ";". A column is TITLE~FORMAT NAME: the cell NAME (that
# of the title if there is no name) in us, ms, mib, as text, or as text with "-" for none. Columns
# without a format are the row's head. TITLE< is aligned to the left.
function define(table, unit, columns) {
    units[table] = unit
    columns_of[table] = columns
}

# Adds a column of times for each of the methods.
function define_methods(table, methods, prefix,    n, i, name) {
    n = split(methods, name, " ")
    for (i = 1; i <= n; ++i)
        columns_of[table] = columns_of[table] ";" prefix name[i] "~us"
}

function define_all(    run, searches, n, i, name) {
    run = ";voxelise~ms voxelize;index~ms;features~ms"
    searches = "zdelta bsearch minuet hash grid"
    order = "measured encoders indexing words features widths portable dataflows tuning fig11 grouping networks " \
        "deployed fig13 fig15 table4 batches detectors searches minuet growth density norms scenes"
    define("measured", "Microseconds, fp16,", "step<;KITTI, 91,766 voxels~text kitti;best peer~text kitti peer;" \
        "survey, 345,087 voxels~text survey;best peer~text survey peer")
    define("encoders", "Milliseconds and MiB, fp16, one graph,", "network<;ms~text;MiB~text;" \
        "spconv: wall (busy), ms~text spconv;MiB~text spconv MiB")
    define("indexing", "Microseconds", "step<;input<;target~us;measured~us;limit~us")
    define("features", "Microseconds", columns_of["indexing"])
    define("widths", "Microseconds, fp16,", "layer<;KITTI, 91,766 voxels~us kitti00_000000_5cm;survey, 345,087 voxels~us lone_star_5cm")
    define("words", "Microseconds", "step<;input<;32-bit words~us narrow;64-bit words~us wide;ratio~dash")
    define("portable", "Microseconds", "step<;input<;target~us;plain sm_90~us plain;sm_90a~us own;best peer~us peer")
    define("dataflows", "Microseconds, fp16,", "step<;input<;output-stationary~us os;weight-stationary~us ws")
    define("tuning", "Microseconds", "step<;input<;without tuning<~text untuned;us~us untuned us;best<~text;us~us;ratio~text")
    define("fig11", "Microseconds", "step<;input<")
    define_methods("fig11", "0 1 2 3 4 5 6 7", "t=")
    define("grouping", "Microseconds, fp16,", "step<;input<;each~us;adaptive~us;padding, launches~dash adaptive launches;" \
        "sorted~us;padding, launches~dash sorted launches")
    define("networks", "Milliseconds and MiB", "network<;input<;target~ms;graph~ms;64-bit words~ms wide" run \
        ";memory~dash;target~mib most;index + features + scratch + parameters~text parts")
    define("deployed", "Milliseconds and MiB", "network<;input<;voxels;best peer, wall (busy)~dash peer;target~ms;graph~ms" run \
        ";peer\047s memory~dash peer memory;memory~dash;index + features + scratch + parameters~text parts")
    define("fig13", "Microseconds", "network<;input<")
    define_methods("fig13", "bsearch zdelta network-wide graph")
    define("fig15", "Microseconds", "network<;input<")
    define_methods("fig15", "sequential streams batch")
    define("table4", "Milliseconds and MiB", "K;batch;input<;voxels;word;graph~ms" run \
        ";memory~dash;index + features + scratch + parameters~text parts")
    define("batches", "Milliseconds and MiB", "network<" substr(columns_of["table4"], 2))
    define("detectors", "Microseconds", "step<;input<;measured~us")
    define("searches", "Microseconds", "input<;K;word")
    define_methods("searches", searches)
    columns_of["searches"] = columns_of["searches"] ";B, C~text blocks"
    define("minuet", "Microseconds", "input<;K;fastest B, C~text best;us~us least;slowest B, C~text worst;us~us most")
    define("growth", "Microseconds", "voxels")
    define("density", "Microseconds", "density;voxels")
    n = split("growth density", name, " ")
    for (i = 1; i <= n; ++i) {
        define_methods(name[i], searches, "K=3 ")
        define_methods(name[i], searches, "K=5 ")
    }
    define("norms", "Percent of the outputs", "input<;K")
    define_methods("norms", "0 1 2 3 4 5 6")
    define("scenes", "Time over that of as many voxels, interpolated by pairs, the worst of all sizes,", "step<;word")
    define("gradients", "Microseconds", "layer<;input<;target~us;both~us;of the input~us input gradient;" \
        "of the weights~us weight gradient;best peer, both~us peer;of the bias~us bias gradient;" \
        "weights and bias~us weight and bias gradient;weights for the input\047s~us input gradient, weights")
}

# ---- numbers ------------------------------------------------------------------------------------

function figure(us) {
    return us == "" || us == "-" ? "-" : sprintf(us + 0 < 100 ? "%.1f" : "%.0f", us)
}

function ms(us) {
    return us == "" || us == "-" ? "-" : sprintf(us + 0 < 10000 ? "%.2f" : "%.1f", us / 1000)
}

function mib(bytes) {
    return bytes == "" ? "-" : sprintf(bytes + 0 < 10485760 ? "%.1f" : "%.0f", bytes / 1048576)
}

# 14990 as 14,990; one decimal below 100.
function grouped(us,    text) {
    if (us == "" || us + 0 < 100)
        return figure(us)
    text = sprintf("%.0f", us)
    return length(text) < 4 ? text : \
        substr(text, 1, length(text) - 3) "," substr(text, length(text) - 2)
}

function formatted(format, content) {
    return format == "us" ? figure(content) : format == "ms" ? ms(content) : \
        format == "mib" ? mib(content) : format == "dash" && content == "" ? "-" : content
}

# ---- keeping lines ------------------------------------------------------------------------------

# The row of a table: its first cells, and where the line is from. Returns its key.
function row_of(table, key, text) {
    key = table SUBSEP key
    head[key] = text
    if (!(key in seen)) {
        seen[key] = 1
        row[table, ++rows[table]] = key
    }
    gpus[table] = value("gpu")
    add_commit(table, commit)
    return key
}

# The row of a step and the input, whose first cells they are; or another name for the step.
function step_row(table, step, name) {
    return row_of(table, step SUBSEP value("input"), (name == "" ? step : name) " | " value("input"))
}

function add_commit(table, name) {
    if (name == "" || (table, name) in stamped)
        return
    stamped[table, name] = 1
    commits[table] = commits[table] (commits[table] == "" ? "" : ", ") name
}

# The name of a network, and of its format where that is not the usual one.
function net_name() {
    return value("net") (value("dtype") == "fp16" ? "" : " " value("dtype"))
}

function layer_name() {
    return value("cin") "," value("cout") "," value("K")
}

# What a line is about, words and input apart.
function step_name(bench,    layout, method) {
    layout = value("layout")
    method = value("method")
    if (bench == "map" || (bench == "scenes" && layout != ""))
        return "map, K=" value("K") ", " layout
    if (bench == "dense")
        return "dense map, " layout ", " method
    if (bench == "downsample" || (bench == "scenes" && method == "downsample"))
        return "downsample by 2"
    if (bench == "sort" && method == "pack+sort")
        return "pack + sort"
    if (bench == "group")
        return method " " layer_name() ", " value("pass")
    if (bench == "join" || bench == "scenes" || bench == "sort")
        return method
    if (bench == "expand")
        return "expand, " method
    if (bench == "index")
        return "index of " value("net") ", " layout
    return layer_name() " " value("dtype")
}

# A search, by its method.
function take_search(    key) {
    key = value("input") " | " value("K") " | " value("word")
    key = row_of("searches", key, key)
    cell[key, value("method")] = value("us")
    if (value("method") == "minuet")
        cell[key, "blocks"] = value("B") ", " value("C")
}

# A search of a scene of growing size, or density.
function take_growth(table,    text) {
    text = (table == "growth" ? "" : value("density") + 0 " % | ") value("voxels")
    cell[row_of(table, value("input"), text), "K=" value("K") " " value("method")] = value("us")
}

# A whole network: a figure and, with the graph, its memory.
function take_net(table,    key, text, method, i, part) {
    method = value("method")
    text = net_name() " | " value("input")
    if (table == "deployed")
        text = text " | " value("voxels")
    else if (table != "networks")
        text = (table == "table4" ? value("K") : net_name()) " | " value("batch") " | " \
            value("input") " | " value("voxels") " | " value("word")
    key = row_of(table, net_name() SUBSEP value("input") SUBSEP value("K") SUBSEP value("batch"), text)
    if (table == "networks" && value("word") == 64) {
        if (method == "graph")
            cell[key, "wide"] = value("us")
        return
    }
    cell[key, method] = value("us")
    if (method != "graph")
        return
    cell[key, "target"] = value("target_us")
    cell[key, "most"] = value("target_bytes")
    cell[key, "memory"] = mib(value("bytes"))
    split("index feature scratch parameter", part, " ")
    for (i = 1; i <= 4; ++i)
        cell[key, "parts"] = (i == 1 ? "" : cell[key, "parts"] " + ") mib(value(part[i] "_bytes"))
}

# A tuned layer: the best choice, and the one without tuning.
function take_tuned(    key) {
    key = step_row("tuning", step_name("conv") (value("deterministic") ? ", deterministic" : ""))
    cell[key, "untuned"] = value("untuned")
    cell[key, "untuned us"] = value("untuned_us")
    cell[key, "best"] = value("choice")
    cell[key, "us"] = value("us")
    cell[key, "ratio"] = sprintf("%.2f", value("over"))
}

# A layer in one dataflow: "os" or "ws". Without "ws" there is no row.
function take_dataflow(    key) {
    key = "dataflows" SUBSEP step_name("conv") SUBSEP value("input")
    if (value("dataflow") != "os" || key in seen)
        key = step_row("dataflows", step_name("conv"), layer_name())
    cell[key, value("dataflow")] = value("us")
}

# A layer by gather, cuBLAS and scatter.
function take_grouping(    key) {
    key = step_row("grouping", step_name("conv"), layer_name())
    cell[key, value("rule")] = value("us")
    cell[key, value("rule") " launches"] = sprintf("%.2f, %d", value("padding"), value("launches"))
}

# Minuet's search with given block sizes: the fastest and the slowest remain.
function take_minuet(    key, us) {
    us = value("us") + 0
    key = value("input") " | " value("K")
    key = row_of("minuet", key, key)
    if (!((key, "least") in cell) || us < cell[key, "least"]) {
        cell[key, "least"] = us
        cell[key, "best"] = value("B") ", " value("C")
    }
    if (us > cell[key, "most"] + 0) {
        cell[key, "most"] = us
        cell[key, "worst"] = value("B") ", " value("C")
    }
}

# A generated scene: the worst ratio over all sizes, and the pairs per output.
function take_scene(    key, scene, ratio) {
    scene = value("input")
    key = step_name("scenes") " | " value("word")
    key = row_of("scenes", key, key)
    if (!(scene in scene_seen)) {
        scene_seen[scene] = 1
        scene_of[++scenes] = scene
    }
    if (value("layout") == "os")
        pairs["scenes", value("K"), scene] = value("pairs") / value("voxels")
    ratio = value("ratio") + 0
    if (ratio > most[key, scene] + 0)
        cell[key, scene] = sprintf("%.2f", most[key, scene] = ratio)
    if (scene != "uniform" && ratio > most[key] + 0) {
        most[key] = ratio
        cell[key, "worst"] = sprintf("%.2f (%s, %s)", ratio, scene, value("voxels"))
    }
}

# A step of its own: "narrow" words, or "wide" ones where there are no others.
function take_step(table,    key, words) {
    key = step_row(table, step_name(value("bench")))
    words = value("word") == 64 ? "wide" : "narrow"
    cell[key, words] = value("us")
    cell[key, words " target"] = value("target_us")
    cell[key, words " limit"] = value("limit_us")
}

# Code for plain sm_90, which every GPU but Hopper's runs like: a layer, or a network.
function take_plain(bench,    step) {
    if (bench == "net" && value("method") == "graph" && value("word") == 32)
        step = net_name()
    else if (bench == "conv" && value("dataflow") == "os" && value("form") == "")
        step = step_name("conv")
    else
        return
    cell[step_row("portable", step), "plain"] = value("us")
}

# Another engine: for each step and input the fastest remains.
function take_peer(    key) {
    key = value("step") SUBSEP value("input")
    if (!(key in peer) || value("us") + 0 < peer[key] + 0) {
        peer[key] = value("us")
        peer_busy[key] = value("busy_us")
        peer_mib[key] = value("mib")
        peer_engine[key] = value("engine")
    }
}

# Keeps a line: rows of each table stand in the order of their first line.
function take(    bench, flow) {
    bench = value("bench")
    flow = value("dataflow")
    if (bench == "stamp") {
        commit = value("commit")
        quick += value("quick")
        plain = value("arch") == "90"
    } else if (bench == "peer")
        take_peer()
    else if (bench ~ /-target$/)
        goal[bench, value("step"), value("input")] = value("us")
    else if (plain)
        take_plain(bench)
    else if (bench == "tune")
        take_tuned()
    else if (bench == "scenes")
        take_scene()
    else if (bench == "minuet")
        take_minuet()
    else if (bench == "widths")
        cell[row_of("widths", layer_name(), layer_name()), value("input")] = value("us")
    else if (bench == "grad")
        cell[step_row("gradients", step_name("conv")), value("pass")] = value("us")
    else if (bench == "search")
        take_search()
    else if (bench == "growth" || bench == "density")
        take_growth(bench)
    else if (bench == "norms")
        cell[row_of("norms", value("input") SUBSEP value("K"), value("input") " | " value("K")), value("t")] = \
            value("density")
    else if (bench == "fig13" || bench == "fig15")
        cell[step_row(bench, net_name()), value("method")] = value("us")
    else if (bench == "net" || bench == "table4" || bench == "batches")
        take_net(bench != "net" ? bench : is_deployed(value("net")) ? "deployed" : "networks")
    else if (flow == "hybrid")
        cell[step_row("fig11", step_name("conv")), "t=" value("t")] = value("us")
    else if (flow == "gather-gemm-scatter") {
        if (value("dtype") == "fp16")
            take_grouping()
    } else if (bench !~ /^(tune.*|layers|subdivide|prune)$/ && value("form") == "") {
        if (flow != "" && value("dtype") == "fp16")
            take_dataflow()
        if (flow == "os" || flow == "")
            take_step(bench == "conv" || bench == "group" ? "features" : bench == "dense" || bench == "join" ? "detectors" : "indexing")
    }
}

# ---- what needs all lines -----------------------------------------------------------------------

# The time of a step in one of its tables; "" if there is none.
function measured(step, input,    key) {
    if (("features", step, input) in seen)
        return cell["features", step, input, "narrow"]
    if (("indexing", step, input) in seen)
        return cell["indexing", step, input, "narrow"]
    key = step SUBSEP input SUBSEP "" SUBSEP "1"
    return ("networks", key) in seen ? cell["networks", key, "graph"] : cell["deployed", key, "graph"]
}

# Steps with words of 64 bits have a table of their own, and are in the first one if no others fit.
function finish_steps(table,    i, key, words) {
    for (i = 1; i <= rows[table]; ++i) {
        key = row[table, i]
        words = (key, "narrow") in cell ? "narrow" : "wide"
        if (table == "indexing" && (key, "wide") in cell)
            row["words", ++rows["words"]] = key
        if (cell[key, "narrow"] > 0 && cell[key, "wide"] > 0)
            cell[key, "ratio"] = sprintf("%.2f", cell[key, "wide"] / cell[key, "narrow"])
        suffix[table, key] = words == "wide" ? ", 64 bits" : ""
        cell[key, "measured"] = cell[key, words]
        cell[key, "target"] = cell[key, words " target"]
        cell[key, "limit"] = cell[key, words " limit"]
    }
}

# Targets and other engines beside the rows of a table.
function finish_peers(table,    i, key, part, other) {
    for (i = 1; i <= rows[table]; ++i) {
        key = row[table, i]
        split(key, part, SUBSEP)
        other = part[2] (table == "gradients" ? ", gradients" : "") SUBSEP part[3]
        if (table == "deployed") {
            cell[key, "peer memory"] = peer_mib[other]
            if (other in peer)
                cell[key, "peer"] = peer_engine[other] " " ms(peer[other]) \
                    (peer_busy[other] == "" ? "" : " (" ms(peer_busy[other]) ")")
            continue
        }
        cell[key, "peer"] = peer[other]
        cell[key, "target"] = goal[(table == "portable" ? "plain" : "grad") "-target", part[2], part[3]]
        cell[key, "own"] = measured(part[2], part[3])
        cell[key, "both"] = cell[key, "input gradient"] + cell[key, "weight gradient"]
    }
}

# The columns of the scenes, and the pairs of each.
function finish_scenes(    n, K, key) {
    for (n = 1; n <= scenes; ++n)
        if (scene_of[n] != "uniform")
            columns_of["scenes"] = columns_of["scenes"] ";" scene_of[n] "~dash"
    columns_of["scenes"] = columns_of["scenes"] ";worst~dash"
    for (K = 3; K <= 5; K += 2) {
        if (!(("scenes", K, "uniform") in pairs))
            continue
        row["scenes", ++rows["scenes"]] = key = "scenes" SUBSEP K
        head[key] = "pairs per output, K=" K " | -"
        for (n = 1; n <= scenes; ++n)
            cell[key, scene_of[n]] = sprintf("%.1f", pairs["scenes", K, scene_of[n]])
        cell[key, "worst"] = "uniform: " cell[key, "uniform"]
    }
}

# What another engine takes, with the digits that it was measured with.
function peer_text(step, input,    us) {
    us = peer[step, input]
    return us == "" ? "-" : us + 0 < 1000 ? us : grouped(us)
}

# A row of the first table of README.md.
function add_measured(text, step,    key) {
    row["measured", ++all_measured] = key = "measured" SUBSEP step
    head[key] = text
    cell[key, "kitti"] = grouped(measured(step, kitti))
    cell[key, "survey"] = grouped(measured(step, survey))
    cell[key, "kitti peer"] = peer_text(step, kitti)
    cell[key, "survey peer"] = peer_text(step, survey)
    unknown["measured"] += measured(step, kitti) == "" || measured(step, survey) == ""
}

# A row of the second one: a network from a scan on, beside spconv from voxels on.
function add_encoder(text, net, input,    key, from) {
    row["encoders", ++all_encoders] = key = "encoders" SUBSEP net
    from = "deployed" SUBSEP net SUBSEP input SUBSEP "" SUBSEP "1"
    head[key] = text
    cell[key, "ms"] = ms(cell[from, "graph"])
    cell[key, "MiB"] = cell[from, "memory"]
    cell[key, "spconv"] = ms(peer[net, input]) " (" ms(peer_busy[net, input]) ")"
    cell[key, "spconv MiB"] = peer_mib[net, input]
    unknown["encoders"] += cell[from, "graph"] == ""
}

# The tables of README.md: half a table is not written.
function finish_readme(    n, name, i, m, part) {
    kitti = "kitti00_000000_5cm"
    survey = "lone_star_5cm"
    add_measured("kernel map `[voxels, 27]`, size 3", "map, K=3, os")
    add_measured("the layout that `conv` reads, its map included", "map, K=3, ordered")
    add_measured("filtered pair lists, size 3", "map, K=3, ws")
    add_measured("pack and sort raw coordinates", "pack + sort")
    add_measured("convolution, 16 to 16 channels, size 3", "16,16,3 fp16")
    add_measured("convolution, 64 to 64", "64,64,3 fp16")
    add_measured("convolution, 128 to 128", "128,128,3 fp16")
    add_measured("SparseResNet21, raw coordinates to features, one graph", "SparseResNet21")
    add_measured("MinkUNet42, the same", "MinkUNet42")
    add_encoder("VoxelBackBone8x (SECOND), points to dense map", "VoxelBackBone8x", "nuscenes_10sweeps.pcd")
    add_encoder("SpMiddleResNetFHD (CenterPoint), the same", "SpMiddleResNetFHD", "nuscenes_10sweeps.pcd")
    add_encoder("SpUNet-v1m1, voxels to features of 20 classes", "SpUNet-v1m1", kitti)
    rows["measured"] = unknown["measured"] ? 0 : all_measured
    rows["encoders"] = unknown["encoders"] ? 0 : all_encoders
    gpus["measured"] = gpus["networks"]
    gpus["encoders"] = gpus["deployed"]
    commits["encoders"] = commits["deployed"]
    n = split("indexing features networks", name, " ")
    for (i = 1; i <= n; ++i)
        for (m = split(commits[name[i]], part, ", "); m > 0; --m)
            add_commit("measured", part[m])
}

function finish() {
    finished = 1
    finish_readme()
    finish_steps("indexing")
    finish_steps("features")
    finish_steps("detectors")
    finish_peers("portable")
    finish_peers("gradients")
    finish_peers("deployed")
    finish_scenes()
    gpus["words"] = gpus["indexing"]
    commits["words"] = commits["indexing"]
}

# ---- printing -----------------------------------------------------------------------------------

function print_table(table,    columns, column, part, titles, under, kind, from, i, c, key, line, left) {
    printf "\n%s", units[table]
    if (gpus[table] == "" || gpus[table] == "-")
        printf "; not measured yet.\n\n"
    else
        printf " on one %s%s%s.\n\n", gpus[table], (commits[table] ? ", commit " commits[table] : ""), \
            (quick ? "; a quick run" : "")
    columns = split(columns_of[table], column, ";")
    titles = under = "|"
    for (c = 1; c <= columns; ++c) {
        split(column[c], part, "~")
        left = sub(/<$/, "", part[1])
        titles = titles " " part[1] " |"
        under = under (left ? "---|" : "---:|")
        kind[c] = part[2]
        sub(/ .*/, "", kind[c])
        from[c] = substr(part[2], length(kind[c]) + 2)
        from[c] = from[c] == "" ? part[1] : from[c]
    }
    print titles
    print under
    for (i = 1; i <= rows[table]; ++i) {
        key = row[table, i]
        line = "| " head[key] suffix[table, key] " |"
        for (c = 1; c <= columns; ++c)
            if (kind[c] != "")
                line = line " " formatted(kind[c], cell[key, from[c]]) " |"
        print line
    }
    print ""
}

BEGIN {
    define_all()
}
/^\{/ && !page {
    take()
    next
}
/^#/ {
    page = 1
}
!finished {
    finish()
}
/^<!-- end -->/ {
    inside = 0
}
!page || inside {
    next
}
{
    print
}
/^<!-- table [a-z0-9]+ -->/ && rows[$3] {
    print_table($3)
    inside = 1
}
END {
    if (page)
        exit
    finish()
    tables = split(order, table, " ")
    for (i = 1; i <= tables; ++i)
        if (rows[table[i]])
            print_table(table[i])
}
