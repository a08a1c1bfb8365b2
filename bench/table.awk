# bench/table.awk: the benchmarks' JSON lines as the tables of bench/README.md and README.md. POSIX awk.
#
#     awk -f bench/json.awk -f bench/table.awk -f bench/table_print.awk bench/peers.jsonl out/gpu/bench_*.jsonl
#         prints the tables
#     awk -f bench/json.awk -f bench/table.awk -f bench/table_print.awk bench/peers.jsonl out/gpu/bench_*.jsonl bench/README.md
#         prints the README, filled
#
# The lines come first. In the README, what stands between `<!-- table NAME -->` and `<!-- end -->`
# is replaced, unless there is no line for it. Of two lines for one step and input, the last one
# counts. A line of bench "stamp" says at which commit the lines after it were measured; a table names
# the commits and the GPU of its lines. Behind a stamp of arch 90 are lines of code for plain sm_90:
# they have a table of their own. Lines of bench "peer" are figures of other engines.
#
# This file keeps what the tables need; table_print.awk prints them.

function figure(us) {
    return us == "" || us == "-" ? "-" : sprintf(us + 0 < 100 ? "%.1f" : "%.0f", us)
}

function ms(us) {
    return us == "" || us == "-" ? "-" : sprintf(us + 0 < 10000 ? "%.2f" : "%.1f", us / 1000)
}

function mib(bytes) {
    return bytes == "" ? "-" : sprintf(bytes + 0 < 10485760 ? "%.1f" : "%.0f", bytes / 1048576)
}

# The tables whose rows are cases and whose columns are the methods: the searches of
# bench/search_*.cuh, the ways of bench/net_ways.cuh, or thresholds.
function is_cases(table) {
    return table == "searches" || table == "growth" || table == "density" || table == "fig11" || \
        table == "norms" || is_ways(table)
}

function is_ways(table) {
    return table == "fig13" || table == "fig15"
}

# The tables of whole networks: a row has the parts of a run.
function is_nets(table) {
    return table == "networks" || table == "deployed" || table == "table4" || table == "batches"
}

# The name of a network, and of its format where that is not the usual one.
function net_name() {
    return value("net") (value("dtype") == "fp16" ? "" : " " value("dtype"))
}

# Whether the columns are there once for each K.
function has_sizes(table) {
    return table == "growth" || table == "density"
}

# Adds a row to a table, once, and notes where the line is from.
function add_row(table, key) {
    if (!(key in seen)) {
        seen[key] = 1
        row[table, ++rows[table]] = key
    }
    gpus[table] = value("gpu")
    if (commit != "" && !((table, commit) in stamped)) {
        stamped[table, commit] = 1
        commits[table] = commits[table] (commits[table] == "" ? "" : ", ") commit
    }
}

# Keeps a line of such a table: a figure, and the row's first cells.
function take_case(table,    key, column) {
    key = table SUBSEP value("input")
    if (table == "searches") {
        key = key SUBSEP value("K") SUBSEP value("word")
        head[key] = value("input") " | " value("K") " | " value("word")
    } else if (is_ways(table)) {
        key = key SUBSEP net_name()
        head[key] = net_name() " | " value("input")
    } else if (table == "fig11") {
        key = key SUBSEP step_name("conv")
        head[key] = step_name("conv") " | " value("input")
    } else if (table == "norms") {
        key = key SUBSEP value("K")
        head[key] = value("input") " | " value("K")
    } else if (table == "growth")
        head[key] = value("voxels")
    else
        head[key] = value("density") + 0 " % | " value("voxels")
    add_row(table, key)
    column = table == "fig11" ? "t=" value("t") : table == "norms" ? value("t") : value("method")
    cell[key, has_sizes(table) ? value("K") : "-", column] = \
        value(table == "norms" ? "density" : "us")
    if (value("method") == "minuet")
        blocks[key] = value("B") ", " value("C")
}

# Keeps a line of a whole network: a figure, the row's first cells and, with the graph, its memory.
function take_net(table,    key, i, part) {
    key = table SUBSEP net_name() SUBSEP value("input") SUBSEP value("K") SUBSEP value("batch")
    add_row(table, key)
    head[key] = net_name() " | " value("input")
    if (table == "deployed")
        head[key] = head[key] " | " value("voxels")
    else if (table != "networks")
        head[key] = (table == "table4" ? value("K") : net_name()) " | " value("batch") " | " \
            value("input") " | " value("voxels") " | " value("word")
    else if (value("word") == 64) {
        wide[key, value("method")] = value("us")
        return
    }
    cell[key, value("method")] = value("us")
    if (value("method") != "graph")
        return
    target[key] = value("target_us")
    most[key] = value("target_bytes")
    memory[key] = mib(value("bytes"))
    split("index feature scratch parameter", part, " ")
    for (i = 1; i <= 4; ++i)
        parts[key] = (i == 1 ? "" : parts[key] " + ") mib(value(part[i] "_bytes"))
}

# Keeps a line of a tuned layer: the best choice, and the one without tuning.
function take_tuned(    key, step) {
    step = step_name("conv") (value("deterministic") ? ", deterministic" : "")
    key = "tuning" SUBSEP step SUBSEP value("input")
    add_row("tuning", key)
    head[key] = step " | " value("input")
    cell[key, "untuned"] = value("untuned") " | " figure(value("untuned_us"))
    cell[key, "best"] = value("choice") " | " figure(value("us"))
    cell[key, "over"] = sprintf("%.2f", value("over"))
}

# Keeps a line of a layer in one dataflow: "os" or "ws".
function take_dataflow(    key) {
    key = "dataflows" SUBSEP step_name("conv") SUBSEP value("input")
    if (value("dataflow") != "os" || key in seen)
        add_row("dataflows", key)
    head[key] = value("cin") "," value("cout") "," value("K") " | " value("input")
    cell[key, value("dataflow")] = value("us")
}

# Keeps a line of a layer by gather, cuBLAS and scatter.
function take_grouping(    key, rule) {
    key = "grouping" SUBSEP step_name("conv") SUBSEP value("input")
    add_row("grouping", key)
    head[key] = value("cin") "," value("cout") "," value("K") " | " value("input")
    rule = value("rule")
    cell[key, rule] = value("us")
    cell[key, rule, "padding"] = value("padding")
    cell[key, rule, "launches"] = value("launches")
}

# Keeps a line of Minuet's search with given block sizes: the fastest and the slowest remain.
function take_minuet(    key, us) {
    key = "minuet" SUBSEP value("input") SUBSEP value("K")
    us = value("us") + 0
    add_row("minuet", key)
    head[key] = value("input") " | " value("K")
    if (!((key, "least") in cell) || us < cell[key, "least"]) {
        cell[key, "least"] = us
        cell[key, "best"] = value("B") ", " value("C")
    }
    if (us > cell[key, "most"] + 0) {
        cell[key, "most"] = us
        cell[key, "worst"] = value("B") ", " value("C")
    }
}

# Keeps a line of a generated scene: the worst ratio over all sizes, and the pairs per output.
function take_scene(    key, scene, ratio) {
    scene = value("input")
    key = "scenes" SUBSEP step_name("scenes") SUBSEP value("word")
    add_row("scenes", key)
    head[key] = step_name("scenes") " | " value("word")
    if (!(scene in scene_seen)) {
        scene_seen[scene] = 1
        scene_of[++scenes] = scene
    }
    if (value("layout") == "os")
        scene_pairs[scene, value("K")] = value("pairs") / value("voxels")
    ratio = value("ratio") + 0
    if (ratio > cell[key, scene] + 0)
        cell[key, scene] = ratio
    if (scene != "uniform" && ratio > cell[key, "worst"] + 0) {
        cell[key, "worst"] = ratio
        cell[key, "where"] = scene ", " value("voxels")
    }
}

# Keeps a line of code for plain sm_90, which every GPU but Hopper's runs like: a layer, or a network.
function take_plain(    step, key) {
    if (value("bench") == "net" && value("method") == "graph" && value("word") == 32)
        step = net_name()
    else if (value("bench") == "conv" && value("dataflow") == "os" && value("form") == "")
        step = step_name("conv")
    else
        return
    key = "portable" SUBSEP step SUBSEP value("input")
    add_row("portable", key)
    head[key] = step " | " value("input")
    cell[key, "plain"] = value("us")
}

# Keeps a line of a layer's gradients: one of the steps that bench_grad times.
function take_gradient(    key) {
    key = "gradients" SUBSEP step_name("conv") SUBSEP value("input")
    add_row("gradients", key)
    head[key] = step_name("conv") " | " value("input")
    cell[key, value("pass")] = value("us")
}

# Keeps a line of another engine: for each step and input the fastest remains.
function take_peer(    key) {
    key = value("step") SUBSEP value("input")
    if (!(key in peer) || value("us") + 0 < peer[key] + 0) {
        peer[key] = value("us")
        peer_busy[key] = value("busy_us")
        peer_mib[key] = value("mib")
        peer_engine[key] = value("engine")
    }
}

# What a line is about, words and input apart.
function step_name(bench,    layout, method) {
    layout = value("layout")
    method = value("method")
    if (bench == "map" || (bench == "scenes" && layout != ""))
        return "map, K=" value("K") ", " layout
    if (bench == "dense")
        return "dense map, " layout ", " method
    if (bench == "join")
        return method
    if (bench == "scenes")
        return method == "downsample" ? "downsample by 2" : method
    if (bench == "sort")
        return method == "pack+sort" ? "pack + sort" : method
    if (bench == "downsample")
        return "downsample by 2"
    if (bench == "expand")
        return "expand, " method
    if (bench == "index")
        return "index of " value("net") ", " layout
    return value("cin") "," value("cout") "," value("K") " " value("dtype")
}

# Keeps a line: rows of each table stand in the order of their first line.
function take(    bench, table, key) {
    bench = value("bench")
    if (bench == "stamp") {
        commit = value("commit")
        quick += value("quick")
        plain = value("arch") == "90"
    } else if (bench == "peer")
        take_peer()
    else if (bench == "plain-target")
        plain_target[value("step"), value("input")] = value("us")
    else if (bench == "grad-target")
        gradient_target[value("step"), value("input")] = value("us")
    else if (plain) {
        take_plain()
        return
    }
    if (bench == "tune")
        take_tuned()
    else if (bench == "scenes")
        take_scene()
    else if (bench == "minuet")
        take_minuet()
    else if (bench == "grad")
        take_gradient()
    else if (value("dataflow") == "hybrid")
        take_case("fig11")
    else if (value("dataflow") == "gather-gemm-scatter" && value("dtype") == "fp16")
        take_grouping()
    if (value("dataflow") ~ /^(os|ws)$/ && value("dtype") == "fp16" && value("form") == "")
        take_dataflow()
    if (bench ~ /^(tune.*|layers|stamp|peer|plain-target|grad-target|scenes|minuet|grad)$/)
        return # other tables, or none
    if ((value("dataflow") != "" && value("dataflow") != "os") || value("form") != "")
        return
    table = bench == "search" ? "searches" : bench != "net" ? bench : \
        is_deployed(value("net")) ? "deployed" : "networks"
    if (is_cases(table)) {
        take_case(table)
        return
    }
    if (is_nets(table)) {
        take_net(table)
        return
    }
    table = bench == "conv" ? "features" : bench == "dense" || bench == "join" ? "detectors" : \
        "indexing"
    key = table SUBSEP step_name(bench) SUBSEP value("input")
    add_row(table, key)
    if (value("word") == 64) {
        wide[key] = value("us")
        wide_target[key] = value("target_us")
        wide_limit[key] = value("limit_us")
    } else {
        target[key] = value("target_us")
        limit[key] = value("limit_us")
        measured[key] = value("us")
    }
}

