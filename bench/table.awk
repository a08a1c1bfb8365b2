# bench/table.awk: the benchmarks' JSON lines as the tables of bench/README.md.
#
#     awk -f bench/table.awk out/gpu/bench_*.jsonl                         prints the tables
#     awk -f bench/table.awk out/gpu/bench_*.jsonl bench/README.md         prints the README, filled
#
# The lines come first. In the README, what stands between `<!-- table NAME -->` and `<!-- end -->`
# is replaced. Of two lines for one step and input, the last one counts. POSIX awk.

# The value of a key in the line at hand, without quotes; "" if it is not there.
function value(key,    at, rest) {
    at = index($0, "\"" key "\":")
    if (!at)
        return ""
    rest = substr($0, at + length(key) + 3)
    sub(/^ */, "", rest)
    if (substr(rest, 1, 1) == "\"")
        return substr(rest, 2, index(substr(rest, 2), "\"") - 1)
    sub(/[,}].*/, "", rest)
    return rest
}

function figure(us) {
    return us == "" || us == "-" ? "-" : sprintf(us + 0 < 100 ? "%.1f" : "%.0f", us)
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

function print_named(name) {
    if (name == "words")
        print_words()
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
/^<!-- table [a-z]+ -->/ {
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
    }
}
