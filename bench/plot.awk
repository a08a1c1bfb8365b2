# bench/plot.awk: the JSON lines of bench/growth.cu, or those of bench/conv.cu over the thresholds of
# the hybrid dataflow, as an SVG picture, one panel for each K.
#
#     awk -f bench/json.awk -f bench/plot.awk out/gpu/bench_growth.jsonl >bench/growth.svg
#     awk -v bench=density -f bench/json.awk -f bench/plot.awk out/gpu/bench_growth.jsonl >bench/density.svg
#
#     awk -v bench=fig11 -v input=kitti00_000000_5cm -f bench/json.awk -f bench/plot.awk \
#         out/gpu/bench_fig11.jsonl >bench/fig11.svg
#
# Microseconds over voxels, over the density in percent, or over the threshold (fp16, one input); both
# axes are logarithmic, that of the threshold is not, and the panels share the one of time. Of two
# lines for one point, the last one counts. POSIX awk.

function escape(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}

# ---- data ---------------------------------------------------------------------------------------

# Keeps a point. The points of a line stand in ascending order of x.
function take(K, method, x, us,    line, i) {
    line = K SUBSEP method
    if (!((line, x) in time)) {
        for (i = points[line]++; i > 0 && at[line, i] > x; --i)
            at[line, i + 1] = at[line, i]
        at[line, i + 1] = x
    }
    time[line, x] = us
    panel[K] = 1
    if (low_x == "" || x < low_x)
        low_x = x
    if (high_x == "" || x > high_x)
        high_x = x
    if (!low_us || us < low_us)
        low_us = us
    if (us > high_us)
        high_us = us
}

# ---- scales -------------------------------------------------------------------------------------

function log10(a) {
    return log(a) / log(10)
}

# The largest whole number that is not above a, or the smallest that is not below.
function whole(a, up,    i) {
    i = int(a)
    return up ? (i < a ? i + 1 : i) : (i > a ? i - 1 : i)
}

function to_x(x) {
    if (bench == "fig11")
        return 12 + (width - 24) * (x - low_x) / (high_x - low_x + 1e-9)
    return 12 + (width - 24) * (log10(x) - log10(low_x)) / (log10(high_x / low_x) + 1e-9)
}

function to_y(us) {
    return height * (decade_high - log10(us)) / (decade_high - decade_low)
}

# 10000 as 10k, 5000000 as 5M.
function short(a) {
    return a >= 1000000 ? a / 1000000 "M" : a >= 1000 ? a / 1000 "k" : a ""
}

# ---- drawing ------------------------------------------------------------------------------------

function text(x, y, anchor, string) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, \
        escape(string)
}

function stroke(x1, y1, x2, y2, class) {
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, \
        y2, class
}

# A mark of its own for each line, so that nobody has to tell colours apart.
function mark(n, x, y) {
    printf "<path class=\"mark\" fill=\"%s\" d=\"M%.1f %.1f%s\"/>\n", color[n], x, y, shape[n]
}

# A threshold is a whole number.
function draw_thresholds(    t) {
    for (t = low_x; t <= high_x; ++t) {
        stroke(to_x(t), 0, to_x(t), height, "grid")
        stroke(to_x(t), height, to_x(t), height + 6, "axis")
        text(to_x(t), height + 20, "middle", t "")
    }
}

# Grid and labels of a panel: decades, and 2 to 9 of each as short ticks.
function draw_axes(named,    d, i, a) {
    for (d = decade_low; d <= decade_high; ++d) {
        stroke(0, to_y(10 ^ d), width, to_y(10 ^ d), "grid")
        if (named)
            text(-8, to_y(10 ^ d) + 4, "end", short(10 ^ d))
    }
    if (bench == "fig11")
        draw_thresholds()
    for (d = whole(log10(low_x), 0); bench != "fig11" && d <= whole(log10(high_x), 1); ++d)
        for (i = 1; i <= 9; ++i) {
            a = i * 10 ^ d
            if (a < low_x * 0.999 || a > high_x * 1.001)
                continue
            stroke(to_x(a), height, to_x(a), height + (i == 1 ? 6 : 3), "axis")
            if (i == 1)
                stroke(to_x(a), 0, to_x(a), height, "grid")
            if (i == 1 || i == 2 || i == 5)
                text(to_x(a), height + 20, "middle", short(a) (bench == "density" ? " %" : ""))
        }
    stroke(0, 0, 0, height, "axis")
    stroke(0, height, width, height, "axis")
}

function draw_line(K, n,    line, i, x, path) {
    line = K SUBSEP method[n]
    for (i = 1; i <= points[line]; ++i) {
        x = at[line, i]
        path = path sprintf("%s%.1f %.1f", i == 1 ? "M" : "L", to_x(x), to_y(time[line, x]))
    }
    if (!points[line])
        return
    printf "<path class=\"line\" stroke=\"%s\" d=\"%s\"/>\n", color[n], path
    for (i = 1; i <= points[line]; ++i)
        mark(n, to_x(at[line, i]), to_y(time[line, at[line, i]]))
}

function draw_legend(    n, x) {
    for (n = 1; n <= methods; ++n) {
        x = 110 * (n - 1)
        printf "<path class=\"line\" stroke=\"%s\" d=\"M%d -44h24\"/>\n", color[n], x
        mark(n, x + 12, -44)
        text(x + 30, -40, "start", method[n])
    }
}

function draw(    K, drawn, n, left) {
    left = 64
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 440\" width=\"900\" " \
        "height=\"440\" font-family=\"sans-serif\" font-size=\"12\">\n"
    print "<style>.grid{stroke:#e4e4e4}.axis{stroke:#444}.line{fill:none;stroke-width:2}" \
        ".mark{stroke:#fff;stroke-width:.8}</style>"
    print "<rect width=\"900\" height=\"440\" fill=\"#fff\"/>"
    for (K = 3; K <= 7; K += 2) {
        if (!(K in panel) || drawn == 2)
            continue
        printf "<g transform=\"translate(%d 78)\">\n", left + drawn * 420
        if (!drawn) {
            draw_legend()
            text(0, -60, "start", title ", microseconds" (gpu ? ", " gpu : ""))
        }
        text(width / 2, -12, "middle", "K = " K)
        draw_axes(!drawn)
        for (n = methods; n >= 1; --n)
            draw_line(K, n)
        text(width / 2, height + 42, "middle", \
            bench == "density" ? "voxels per cell, 200 x 200 x 200 cells" : \
            bench == "fig11" ? "threshold t" : "voxels")
        print "</g>"
        ++drawn
    }
    print "</svg>"
}

BEGIN {
    width = 390
    height = 290
    if (bench == "")
        bench = "growth"
    title = bench == "fig11" ? "Convolution (cin,cout), fp16, " input : "Kernel map"
    methods = split(bench == "fig11" ? "16,16 32,32 64,64 128,128 256,256" : \
        "zdelta bsearch minuet hash grid", method, " ")
    split("#d55e00 #0072b2 #009e73 #b65a92 #5b5b5b", color, " ")
    shape[1] = "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"
    shape[2] = "m-4 -4h8v8h-8z"
    shape[3] = "m0 -5l5 9h-10z"
    shape[4] = "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"
    shape[5] = "m0 5l5 -9h-10z"
}
/^\{/ && bench == "fig11" && value("dataflow") == "hybrid" && value("dtype") == "fp16" && \
    value("input") == input && value("us") + 0 > 0 {
    take(value("K"), value("cin") "," value("cout"), value("t") + 0, value("us") + 0)
    gpu = value("gpu")
}
/^\{/ && value("bench") == bench && value("us") + 0 > 0 {
    take(value("K"), value("method"), \
        (bench == "density" ? value("density") : value("voxels")) + 0, value("us") + 0)
    gpu = value("gpu")
}
END {
    if (high_x == "") {
        print "no lines of bench \"" bench "\"" >"/dev/stderr"
        exit 1
    }
    decade_low = whole(log10(low_us), 0)
    decade_high = whole(log10(high_us), 1)
    decade_high += decade_high == decade_low
    draw()
}
