# bench/table_print.awk: prints the tables that table.awk has kept, one function a kind of table.

# What a table's figures are, and where they are from.
function source(unit, table) {
    printf "\n%s", unit
    if (gpus[table] == "" || gpus[table] == "-") {
        printf "; not measured yet.\n\n"
        return
    }
    printf " on one %s%s%s.\n\n", gpus[table], (commits[table] ? ", commit " commits[table] : ""), \
        (quick ? "; a quick run" : "")
}

function print_table(table,    i, key, part) {
    source("Microseconds", table)
    print "| step | input | target | measured | limit |"
    print "|---|---|---:|---:|---:|"
    for (i = 1; i <= rows[table]; ++i) {
        key = row[table, i]
        split(key, part, SUBSEP)
        if (key in measured)
            printf "| %s | %s | %s | %s | %s |\n", part[2], part[3], figure(target[key]), \
                figure(measured[key]), figure(limit[key])
        else # a scan that needs 64-bit words
            printf "| %s | %s, 64 bits | %s | %s | %s |\n", part[2], part[3], \
                figure(wide_target[key]), figure(wide[key]), figure(wide_limit[key])
    }
    print ""
}

function print_words(    i, key, part, known, ratio) {
    source("Microseconds", "indexing")
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
    heads["norms"] = "| input | K |"
    left["norms"] = "|---|---:|"
    list["norms"] = "0 1 2 3 4 5 6"
    list["fig11"] = "t=0 t=1 t=2 t=3 t=4 t=5 t=6 t=7"
    list["fig13"] = "bsearch zdelta network-wide graph"
    list["fig15"] = "sequential streams batch"
    names = split(list[table], name, " ")
    sizes = split(has_sizes(table) ? "3 5" : "-", size, " ")
    source(table == "norms" ? "Percent of the outputs" : "Microseconds", table)
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
    source("Milliseconds and MiB", table)
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

# The networks of detectors beside another engine, which starts from voxels, not from points.
function print_deployed(    i, key, part, other) {
    source("Milliseconds and MiB", "deployed")
    print "| network | input | voxels | best peer, wall (busy) | target | graph | voxelise | index " \
        "| features | peer\047s memory | memory | index + features + scratch + parameters |"
    print "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for (i = 1; i <= rows["deployed"]; ++i) {
        key = row["deployed", i]
        split(key, part, SUBSEP)
        other = part[2] SUBSEP part[3]
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", head[key], \
            (other in peer ? peer_engine[other] " " ms(peer[other]) \
                (peer_busy[other] == "" ? "" : " (" ms(peer_busy[other]) ")") : "-"), \
            ms(target[key]), ms(cell[key, "graph"]), ms(cell[key, "voxelize"]), \
            ms(cell[key, "index"]), ms(cell[key, "features"]), \
            (peer_mib[other] == "" ? "-" : peer_mib[other]), \
            (key in memory ? memory[key] : "-"), parts[key]
    }
    print ""
}

function print_tuned(    i, key) {
    source("Microseconds", "tuning")
    print "| step | input | without tuning | us | best | us | ratio |"
    print "|---|---|---|---:|---|---:|---:|"
    for (i = 1; i <= rows["tuning"]; ++i) {
        key = row["tuning", i]
        print "| " head[key] " | " cell[key, "untuned"] " | " cell[key, "best"] " | " \
            cell[key, "over"] " |"
    }
    print ""
}

function print_dataflows(    i, key) {
    source("Microseconds, fp16,", "dataflows")
    print "| step | input | output-stationary | weight-stationary |"
    print "|---|---|---:|---:|"
    for (i = 1; i <= rows["dataflows"]; ++i) {
        key = row["dataflows", i]
        printf "| %s | %s | %s |\n", head[key], figure(cell[key, "os"]), figure(cell[key, "ws"])
    }
    print ""
}

# Code for plain sm_90 beside that with Hopper's own instructions.
function print_portable(    i, key, part, own) {
    source("Microseconds", "portable")
    print "| step | input | target | plain sm_90 | sm_90a | best peer |"
    print "|---|---|---:|---:|---:|---:|"
    for (i = 1; i <= rows["portable"]; ++i) {
        key = row["portable", i]
        split(key, part, SUBSEP)
        own = measured_figure("features", part[2], part[3])
        own = own == "" ? measured_figure("networks", part[2], part[3]) : own
        own = own == "" ? measured_figure("deployed", part[2], part[3]) : own
        printf "| %s | %s | %s | %s | %s |\n", head[key], figure(plain_target[part[2], part[3]]), \
            figure(cell[key, "plain"]), figure(own), figure(peer[part[2], part[3]])
    }
    print ""
}

# The gradients of a layer. The target and the peer are about both together, the bias left out.
function print_gradients(    i, key, part, other, both) {
    source("Microseconds", "gradients")
    print "| layer | input | target | both | of the input | of the weights | best peer, both " \
        "| of the bias | weights for the input\047s |"
    print "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for (i = 1; i <= rows["gradients"]; ++i) {
        key = row["gradients", i]
        split(key, part, SUBSEP)
        both = cell[key, "input gradient"] + cell[key, "weight gradient"]
        other = peer[part[2] ", gradients", part[3]]
        printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", head[key], \
            figure(gradient_target[part[2], part[3]]), figure(both), \
            figure(cell[key, "input gradient"]), figure(cell[key, "weight gradient"]), \
            figure(other), figure(cell[key, "bias gradient"]), \
            figure(cell[key, "input gradient, weights"])
    }
    print ""
}

function print_detectors(    i, key, part) {
    source("Microseconds", "detectors")
    print "| step | input | measured |"
    print "|---|---|---:|"
    for (i = 1; i <= rows["detectors"]; ++i) {
        key = row["detectors", i]
        split(key, part, SUBSEP)
        printf "| %s | %s | %s |\n", part[2], part[3], figure(measured[key])
    }
    print ""
}

function print_grouping(    i, key, n, names, name, line, text) {
    source("Microseconds, fp16,", "grouping")
    print "| step | input | each | adaptive | padding, launches | sorted | padding, launches |"
    print "|---|---|---:|---:|---:|---:|---:|"
    names = split("each adaptive sorted", name, " ")
    for (i = 1; i <= rows["grouping"]; ++i) {
        key = row["grouping", i]
        line = "| " head[key] " |"
        for (n = 1; n <= names; ++n) {
            line = line " " figure(cell[key, name[n]]) " |"
            text = cell[key, name[n]] == "" ? "-" : sprintf("%.2f, %d", \
                cell[key, name[n], "padding"], cell[key, name[n], "launches"])
            line = line (n > 1 ? " " text " |" : "")
        }
        print line
    }
    print ""
}

function print_minuet(    i, key) {
    source("Microseconds", "minuet")
    print "| input | K | fastest B, C | us | slowest B, C | us |"
    print "|---|---:|---:|---:|---:|---:|"
    for (i = 1; i <= rows["minuet"]; ++i) {
        key = row["minuet", i]
        printf "| %s | %s | %s | %s | %s |\n", head[key], cell[key, "best"], \
            figure(cell[key, "least"]), cell[key, "worst"], figure(cell[key, "most"])
    }
    print ""
}

# The worst ratio of each stage: for each scene, then over all scenes.
function print_scenes(    i, n, key, line, left, K) {
    source("Time over that of as many voxels, interpolated by pairs, the worst of all sizes,", "scenes")
    line = "| step | word |"
    left = "|---|---:|"
    for (n = 1; n <= scenes; ++n)
        if (scene_of[n] != "uniform") {
            line = line " " scene_of[n] " |"
            left = left "---:|"
        }
    print line " worst |"
    print left "---:|"
    for (i = 1; i <= rows["scenes"]; ++i) {
        key = row["scenes", i]
        line = "| " head[key] " |"
        for (n = 1; n <= scenes; ++n)
            if (scene_of[n] != "uniform")
                line = line " " ratio_text(cell[key, scene_of[n]]) " |"
        print line " " ratio_text(cell[key, "worst"]) " (" cell[key, "where"] ") |"
    }
    for (K = 3; K <= 5; K += 2) {
        if (!(("uniform", K) in scene_pairs))
            continue
        line = "| pairs per output, K=" K " | - |"
        for (n = 1; n <= scenes; ++n)
            if (scene_of[n] != "uniform")
                line = line " " sprintf("%.1f", scene_pairs[scene_of[n], K]) " |"
        print line " uniform: " sprintf("%.1f", scene_pairs["uniform", K]) " |"
    }
    print ""
}

function ratio_text(ratio) {
    return ratio == "" ? "-" : sprintf("%.2f", ratio)
}

# ---- the table of README.md ---------------------------------------------------------------------

# 14990 as 14,990; one decimal below 100.
function grouped(us,    text) {
    if (us == "" || us + 0 < 100)
        return figure(us)
    text = sprintf("%.0f", us)
    return length(text) < 4 ? text : \
        substr(text, 1, length(text) - 3) "," substr(text, length(text) - 2)
}

# What another engine takes, with the digits that it was measured with.
function peer_text(step, input,    us) {
    us = peer[step, input]
    return us == "" ? "-" : us + 0 < 1000 ? us : grouped(us)
}

function measured_figure(table, step, input) {
    return is_nets(table) ? cell[table, step, input, "", "1", "graph"] : \
        measured[table, step, input]
}

# Lists the rows: a text, the table and the step of the figure, parted by "|".
function measured_rows(line) {
    line[1] = "kernel map `[voxels, 27]`, size 3|indexing|map, K=3, os"
    line[2] = "the layout that `conv` reads, its map included|indexing|map, K=3, ordered"
    line[3] = "filtered pair lists, size 3|indexing|map, K=3, ws"
    line[4] = "pack and sort raw coordinates|indexing|pack + sort"
    line[5] = "convolution, 16 to 16 channels, size 3|features|16,16,3 fp16"
    line[6] = "convolution, 64 to 64|features|64,64,3 fp16"
    line[7] = "convolution, 128 to 128|features|128,128,3 fp16"
    line[8] = "SparseResNet21, raw coordinates to features, one graph|networks|SparseResNet21"
    line[9] = "MinkUNet42, the same|networks|MinkUNet42"
    return 9
}

function print_measured(    lines, line, part, kitti, survey, i) {
    kitti = "kitti00_000000_5cm"
    survey = "lone_star_5cm"
    lines = measured_rows(line)
    measured_source()
    print "| step | KITTI, 91,766 voxels | best peer | survey, 345,087 voxels | best peer |"
    print "|---|---:|---:|---:|---:|"
    for (i = 1; i <= lines; ++i) {
        split(line[i], part, "|")
        printf "| %s | %s | %s | %s | %s |\n", part[1], \
            grouped(measured_figure(part[2], part[3], kitti)), peer_text(part[3], kitti), \
            grouped(measured_figure(part[2], part[3], survey)), peer_text(part[3], survey)
    }
    print ""
}

# The commits of its three tables, each once.
function measured_source(    name, i, n, j, part, one, all) {
    split("indexing features networks", name, " ")
    for (i = 1; i <= 3; ++i) {
        n = split(commits[name[i]], part, ", ")
        for (j = 1; j <= n; ++j)
            if (!(part[j] in one)) {
                one[part[j]] = 1
                all = all (all == "" ? "" : ", ") part[j]
            }
    }
    gpus["measured"] = gpus["networks"]
    commits["measured"] = all
    source("Microseconds, fp16,", "measured")
}

# Whether all that the table of README.md needs is there: half a table is not written.
function measured_known(    lines, line, part, i) {
    lines = measured_rows(line)
    for (i = 1; i <= lines; ++i) {
        split(line[i], part, "|")
        if (measured_figure(part[2], part[3], "kitti00_000000_5cm") == "" || \
            measured_figure(part[2], part[3], "lone_star_5cm") == "")
            return 0
    }
    return 1
}

# The second table of README.md: networks from a scan on, beside spconv from voxels on.
function encoder_rows(line) {
    line[1] = "VoxelBackBone8x (SECOND), points to dense map|VoxelBackBone8x|nuscenes_10sweeps.pcd"
    line[2] = "SpMiddleResNetFHD (CenterPoint), the same|SpMiddleResNetFHD|nuscenes_10sweeps.pcd"
    line[3] = "SpUNet-v1m1, voxels to features of 20 classes|SpUNet-v1m1|kitti00_000000_5cm"
    return 3
}

function print_encoders(    lines, line, part, key, i) {
    lines = encoder_rows(line)
    gpus["encoders"] = gpus["deployed"]
    commits["encoders"] = commits["deployed"]
    source("Milliseconds and MiB, fp16, one graph,", "encoders")
    print "| network | ms | MiB | spconv: wall (busy), ms | MiB |"
    print "|---|---:|---:|---:|---:|"
    for (i = 1; i <= lines; ++i) {
        split(line[i], part, "|")
        key = "deployed" SUBSEP part[2] SUBSEP part[3] SUBSEP "" SUBSEP "1"
        printf "| %s | %s | %s | %s (%s) | %s |\n", part[1], ms(cell[key, "graph"]), memory[key], \
            ms(peer[part[2], part[3]]), ms(peer_busy[part[2], part[3]]), peer_mib[part[2], part[3]]
    }
    print ""
}

function encoders_known(    lines, line, part, i) {
    lines = encoder_rows(line)
    for (i = 1; i <= lines; ++i) {
        split(line[i], part, "|")
        if (measured_figure("deployed", part[2], part[3]) == "")
            return 0
    }
    return 1
}

# ---- by name ------------------------------------------------------------------------------------

function is_known(name) {
    return name == "measured" ? measured_known() : name == "encoders" ? encoders_known() : rows[name == "words" ? "indexing" : name] > 0
}

function print_named(name) {
    if (name == "words")
        print_words()
    else if (name == "tuning")
        print_tuned()
    else if (name == "dataflows")
        print_dataflows()
    else if (name == "grouping")
        print_grouping()
    else if (name == "portable")
        print_portable()
    else if (name == "gradients")
        print_gradients()
    else if (name == "detectors")
        print_detectors()
    else if (name == "minuet")
        print_minuet()
    else if (name == "scenes")
        print_scenes()
    else if (name == "measured")
        print_measured()
    else if (name == "encoders")
        print_encoders()
    else if (is_cases(name))
        print_cases(name)
    else if (name == "deployed")
        print_deployed()
    else if (is_nets(name))
        print_nets(name)
    else
        print_table(name)
}

# ---- rules --------------------------------------------------------------------------------------

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
/^<!-- table [a-z0-9]+ -->/ && is_known($3) {
    print_named($3)
    inside = 1
}
END {
    if (!page) {
        others = split("measured encoders indexing words features portable dataflows tuning fig11 grouping networks " \
            "deployed fig13 fig15 table4 batches detectors searches minuet growth density norms scenes", other, " ")
        for (i = 1; i <= others; ++i)
            if (is_known(other[i]))
                print_named(other[i])
    }
}
