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

# The tables whose rows are cases and whose columns are the searches of bench/search_*.cuh.
function is_cases(table) {
    return table == "searches" || table == "growth" || table == "density"
}

# Keeps a line of such a table: a figure, and the row's first cells.
function take_case(table,    key) {
    key = table SUBSEP value("input")
    if (table == "searches") {
        key = key SUBSEP value("K") SUBSEP value("word")
        head[key] = value("input") " | " value("K") " | " value("word")
    } else if (table == "growth")
        head[key] = value("voxels")
    else
        head[key] = value("density") + 0 " % | " value("voxels")
    if (!(key in seen)) {
        seen[key] = 1
        row[table, ++rows[table]] = key
    }
    cell[key, table == "searches" ? "-" : value("K"), value("method")] = value("us")
    if (value("method") == "minuet")
        blocks[key] = value("B") ", " value("C")
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
    if (bench == "index")
        return "index of " value("net") ", " layout
    if (bench == "net")
        return value("net") (value("dtype") == "" ? "" : " " value("dtype"))
    return value("cin") "," value("cout") "," value("K") " " value("dtype")
}

# Keeps a line: rows of each table stand in the order of their first line.
function take(    bench, table, key) {
    bench = value("bench")
    if ((value("dataflow") != "" && value("dataflow") != "os") || value("form") != "")
        return # tables of their own
    if (bench == "search" || bench == "growth" || bench == "density") {
        take_case(bench == "search" ? "searches" : bench)
        return
    }
    table = bench == "conv" ? "features" : bench == "net" ? "networks" : "indexing"
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

function source() {
    printf "\nMicroseconds%s.\n\n", gpu == "" || gpu == "-" ? "; not measured yet" : " on one " gpu
}

function print_table(table,    i, key, part) {
    source()
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
    source()
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

# Such a table: the searches are columns, once for each K where K is not in the row. A search that
# was left out has no figure.
function print_cases(table,    heads, left, sizes, size, names, name, line, i, k, n) {
    heads["searches"] = "| input | K | word |"
    heads["growth"] = "| voxels |"
    heads["density"] = "| density | voxels |"
    left["searches"] = "|---|---:|---:|"
    left["growth"] = "|---:|"
    left["density"] = "|---:|---:|"
    names = split(table == "searches" ? "zdelta bsearch minuet hash hash-query grid grid-query" \
                                      : "zdelta bsearch minuet hash grid", name, " ")
    sizes = split(table == "searches" ? "-" : "3 5", size, " ")
    source()
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

function print_named(name) {
    if (name == "words")
        print_words()
    else if (is_cases(name))
        print_cases(name)
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
/^<!-- table [a-z]+ -->/ && rows[$3 == "words" ? "indexing" : $3] {
    print_named($3)
    inside = 1
}
END {
    if (!page) {
        print_named("indexing")
        print_named("words")
        print_named("features")
        if (rows["networks"])
            print_named("networks")
        if (rows["searches"])
            print_named("searches")
        if (rows["growth"])
            print_named("growth")
        if (rows["density"])
            print_named("density")
    }
}
