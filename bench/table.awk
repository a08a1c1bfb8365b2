# bench/table.awk: the benchmarks' JSON lines as the tables of bench/README.md.
#
#     awk -f bench/json.awk -f bench/table.awk out/gpu/bench_*.jsonl                         prints the tables
#     awk -f bench/json.awk -f bench/table.awk out/gpu/bench_*.jsonl bench/README.md         prints the README, filled
#
# The lines come first. In the README, what stands between `<!-- table NAME -->` and `<!-- end -->`
# is replaced, unless there is no line for it. Of two lines for one step and input, the last one
# counts. POSIX awk.

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
        is_ways(table)
}

function is_ways(table) {
    return table == "fig13" || table == "fig15"
}

# The tables of whole networks: a row has the parts of a run.
function is_nets(table) {
    return table == "networks" || table == "table4" || table == "batches"
}

# The name of a network, and of its format where that is not the usual one.
function net_name() {
    return value("net") (value("dtype") == "fp16" ? "" : " " value("dtype"))
}

# Whether the columns are there once for each K.
function has_sizes(table) {
    return table == "growth" || table == "density"
}

# Keeps a line of such a table: a figure, and the row's first cells.
function take_case(table,    key) {
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
    } else if (table == "growth")
        head[key] = value("voxels")
    else
        head[key] = value("density") + 0 " % | " value("voxels")
    if (!(key in seen)) {
        seen[key] = 1
        row[table, ++rows[table]] = key
    }
    cell[key, has_sizes(table) ? value("K") : "-", \
        table == "fig11" ? "t=" value("t") : value("method")] = value("us")
    if (value("method") == "minuet")
        blocks[key] = value("B") ", " value("C")
    gpu = value("gpu")
}

# Keeps a line of a whole network: a figure, the row's first cells and, with the graph, its memory.
function take_net(table,    key, i, part) {
    key = table SUBSEP net_name() SUBSEP value("input") SUBSEP value("K") SUBSEP value("batch")
    if (!(key in seen)) {
        seen[key] = 1
        row[table, ++rows[table]] = key
    }
    gpu = value("gpu")
    head[key] = net_name() " | " value("input")
    if (table != "networks")
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
    if (!(key in seen)) {
        seen[key] = 1
        row["tuning", ++rows["tuning"]] = key
    }
    head[key] = step " | " value("input")
    cell[key, "untuned"] = value("untuned") " | " figure(value("untuned_us"))
    cell[key, "best"] = value("choice") " | " figure(value("us"))
    cell[key, "over"] = sprintf("%.2f", value("over"))
    gpu = value("gpu")
}

# What a line is about, words and input apart.
function step_name(bench,    layout, method) {
    layout = value("layout")
    method = value("method")
    if (bench == "map")
        return "map, K=" value("K") ", " layout
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
    if (value("dataflow") == "hybrid") {
        take_case("fig11")
        return
    }
    if (bench == "tune")
        take_tuned()
    if (bench ~ /^tune/ || bench == "layers")
        return # no table
    if ((value("dataflow") != "" && value("dataflow") != "os") || value("form") != "")
        return # tables of their own
    table = bench == "search" ? "searches" : bench == "net" ? "networks" : bench
    if (is_cases(table)) {
        take_case(table)
        return
    }
    if (is_nets(table)) {
        take_net(table)
        return
    }
    table = bench == "conv" ? "features" : "indexing"
    key = table SUBSEP step_name(bench) SUBSEP value("input")
    if (!(key in seen)) {
        seen[key] = 1
        row[table, ++rows[table]] = key
    }
    if (value("word") == 64) {
        wide[key] = value("us")
    } else {
        target[key] = value("target_us")
        limit[key] = value("limit_us")
        measured[key] = value("us")
    }
    gpu = value("gpu")
}

function source(unit) {
    printf "\n%s%s.\n\n", unit, gpu == "" || gpu == "-" ? "; not measured yet" : " on one " gpu
}

function print_table(table,    i, key, part) {
    source("Microseconds")
    print "| step | input | target | measured | limit |"
    print "|---|---|---:|---:|---:|"
    for (i = 1; i <= rows[table]; ++i) {
        key = row[table, i]
        split(key, part, SUBSEP)
        if (key in measured)
            printf "| %s | %s | %s | %s | %s |\n", part[2], part[3], figure(target[key]), \
                figure(measured[key]), figure(limit[key])
    }
    print ""
}

function print_words(    i, key, part, known, ratio) {
    source("Microseconds")
    print "| step | input | 32-bit words | 64-bit words | ratio |"
    print "|---|---|---:|---:|---:|"
    for (i = 1; i <= rows["indexing"]; ++i) {
        key = row["indexing", i]
        split(key, part, SUBSEP)
        if (!(key in wide))
            continue
        known = measured[key] + 0 > 0 && wide[key] + 0 > 0
        ratio = known ? sprintf("%.2f", wide[key] / measured[key]) : "-"
        printf "| %s | %s | %s | %s | %s |\n", part[2], part[3], figure(measured[key]), \
            figure(wide[key]), ratio
    }
    print ""
}

# A table of cases: the methods are columns, once for each K where K is not in the row. A method
# that was left out has no figure.
function print_cases(table,    heads, left, sizes, size, list, names, name, line, i, k, n) {
    heads["searches"] = "| input | K | word |"
    heads["growth"] = "| voxels |"
    heads["density"] = "| density | voxels |"
    left["searches"] = "|---|---:|---:|"
    left["growth"] = "|---:|"
    left["density"] = "|---:|---:|"
    heads["fig13"] = heads["fig15"] = "| network | input |"
    heads["fig11"] = "| step | input |"
    left["fig11"] = left["fig13"] = left["fig15"] = "|---|---|"
    list["searches"] = "zdelta bsearch minuet hash hash-query grid grid-query"
    list["growth"] = list["density"] = "zdelta bsearch minuet hash grid"
    list["fig11"] = "t=0 t=1 t=2 t=3 t=4 t=5 t=6 t=7"
    list["fig13"] = "bsearch zdelta network-wide graph"
    list["fig15"] = "sequential streams batch"
    names = split(list[table], name, " ")
    sizes = split(has_sizes(table) ? "3 5" : "-", size, " ")
    source("Microseconds")
    line = heads[table]
    for (k = 1; k <= sizes; ++k)
        for (n = 1; n <= names; ++n) {
            line = line " " (size[k] == "-" ? "" : "K=" size[k] " ") name[n] " |"
            left[table] = left[table] "---:|"
        }
    print line (table == "searches" ? " B, C |" : "")
    print left[table] (table == "searches" ? "---:|" : "")
    for (i = 1; i <= rows[table]; ++i) {
        line = "| " head[row[table, i]] " |"
        for (k = 1; k <= sizes; ++k)
            for (n = 1; n <= names; ++n)
                line = line " " figure(cell[row[table, i], size[k], name[n]]) " |"
        print line (table == "searches" ? " " blocks[row[table, i]] " |" : "")
    }
    print ""
}

function print_nets(table,    heads, left, line, key, i) {
    heads["networks"] = "| network | input | target |"
    left["networks"] = "|---|---|---:|"
    heads["table4"] = "| K | batch | input | voxels | word |"
    left["table4"] = "|---:|---:|---|---:|---:|"
    heads["batches"] = "| network | batch | input | voxels | word |"
    left["batches"] = "|---|---:|---|---:|---:|"
    source("Milliseconds and MiB")
    print heads[table] " graph |" (table == "networks" ? " 64-bit words |" : "") \
        " voxelise | index | features | memory |" (table == "networks" ? " target |" : "") \
        " index + features + scratch + parameters |"
    print left[table] "---:|" (table == "networks" ? "---:|" : "") "---:|---:|---:|---:|" \
        (table == "networks" ? "---:|" : "") "---:|"
    for (i = 1; i <= rows[table]; ++i) {
        key = row[table, i]
        line = "| " head[key] " |"
        if (table == "networks")
            line = line " " ms(target[key]) " | " ms(cell[key, "graph"]) " | " \
                ms(wide[key, "graph"]) " |"
        else
            line = line " " ms(cell[key, "graph"]) " |"
        line = line " " ms(cell[key, "voxelize"]) " | " ms(cell[key, "index"]) " | " \
            ms(cell[key, "features"]) " | " (key in memory ? memory[key] : "-") " |"
        print line (table == "networks" ? " " mib(most[key]) " |" : "") " " parts[key] " |"
    }
    print ""
}

function print_tuned(    i, key) {
    source("Microseconds")
    print "| step | input | without tuning | us | best | us | ratio |"
    print "|---|---|---|---:|---|---:|---:|"
    for (i = 1; i <= rows["tuning"]; ++i) {
        key = row["tuning", i]
        print "| " head[key] " | " cell[key, "untuned"] " | " cell[key, "best"] " | " \
            cell[key, "over"] " |"
    }
    print ""
}

function print_named(name) {
    if (name == "words")
        print_words()
    else if (name == "tuning")
        print_tuned()
    else if (is_cases(name))
        print_cases(name)
    else if (is_nets(name))
        print_nets(name)
    else
        print_table(name)
}

/^\{/ && !page {
    take()
    next
}
/^#/ {
    page = 1
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
/^<!-- table [a-z0-9]+ -->/ && rows[$3 == "words" ? "indexing" : $3] {
    print_named($3)
    inside = 1
}
END {
    if (!page) {
        print_named("indexing")
        print_named("words")
        print_named("features")
        others = split("tuning fig11 networks fig13 fig15 table4 batches searches growth density", other, " ")
        for (i = 1; i <= others; ++i)
            if (rows[other[i]])
                print_named(other[i])
    }
}
