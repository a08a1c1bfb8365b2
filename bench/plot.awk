# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# bench/plot.awk: draws points as an SVG picture: panels side by side, marks and lines, a legend. POSIX
# awk. figures.awk says which points; this file knows nothing of benchmarks.
#
#     plot_x(kind, label)            "log", "log2", "linear", or "names": categories
#     plot_y(kind, label)            "log" or "linear"; of all panels
#     plot_own_y(panel, label)       the panel has an axis of its own
#     plot_series(name, style)       "line": marks and a line; "dots": marks; "hollow": marks of others'
#                                    figures; "tick", "dash": a bar across the category
#     plot_point(panel, series, x, y)
#     plot_rule(y, text)             a line across all panels
#     plot_draw(title, note, stamp)
#
# Colours and shapes follow the order of plot_series: those of Okabe and Ito, told apart without colour
# vision; each series has a shape of its own, too. Of two points at one place, the last one counts.

# ---- data ---------------------------------------------------------------------------------------

function plot_x(kind, label) {
    x_kind = kind
    x_label = label
}

function plot_y(kind, label) {
    y_kind = kind
    y_label = label
}

function plot_own_y(panel, label) {
    add_panel(panel)
    own_y = 1
    panel_label[panel] = label
}

function plot_series(name, style) {
    if (name in series_of)
        return
    series_of[name] = ++series_count
    series[series_count] = name
    style_of[series_count] = style
    marks += !is_bar(series_count)
    mark_of[series_count] = marks
}

function is_bar(s) {
    return style_of[s] == "tick" || style_of[s] == "dash"
}

function add_panel(panel) {
    if (panel in panel_of)
        return
    panel_of[panel] = ++panels
    panel_name[panels] = panel
}

# Categories have the numbers 1, 2, ... in the order of their first points.
function number_of(x) {
    if (x_kind != "names")
        return x + 0
    if (!(x in category_of)) {
        category_of[x] = ++categories
        category[categories] = x
    }
    return category_of[x]
}

# The points of a line stand in ascending order of x.
function plot_point(panel, name, x, y,    p, s, line, i) {
    if (!(name in series_of) || y + 0 <= 0)
        return
    add_panel(panel)
    p = panel_of[panel]
    s = series_of[name]
    used[s] = 1
    x = number_of(x)
    line = p SUBSEP s
    if (!((line, x) in value_at)) {
        for (i = count_of[line]++; i > 0 && at[line, i] > x; --i)
            at[line, i + 1] = at[line, i]
        at[line, i + 1] = x
    }
    value_at[line, x] = y + 0
    ++points
}

function plot_rule(y, text) {
    rule_y[++rules] = y
    rule_text[rules] = text
}

# ---- scales -------------------------------------------------------------------------------------

function log10(a) {
    return log(a) / log(10)
}

# The largest whole number that is not above a.
function floor(a,    i) {
    i = int(a)
    return i > a ? i - 1 : i
}

# 10000 as 10k, 5000000 as 5M, 0.5 as it is.
function short(a) {
    return a >= 1000000 ? a / 1000000 "M" : a >= 10000 ? a / 1000 "k" : a ""
}

# The range of a panel's y, or of all panels (p = 0), with some room around it.
function range_y(p,    key, part, y) {
    low_y = high_y = ""
    for (key in value_at) {
        split(key, part, SUBSEP)
        y = value_at[key]
        if (p && part[1] != p)
            continue
        low_y = low_y == "" || y < low_y ? y : low_y
        high_y = high_y == "" || y > high_y ? y : high_y
    }
    for (key = 1; key <= rules && !p; ++key) {
        low_y = rule_y[key] < low_y ? rule_y[key] : low_y
        high_y = rule_y[key] > high_y ? rule_y[key] : high_y
    }
    if (y_kind == "linear") {
        low_y = 0
        high_y *= 1.06
        return
    }
    if (high_y / low_y < 3) { # at least half a decade
        low_y /= 1.3
        high_y *= 1.3
    }
    low_y /= 1.2
    high_y *= 1.3
}

function range_x(    key, part) {
    low_x = high_x = ""
    for (key in value_at) {
        split(key, part, SUBSEP)
        low_x = low_x == "" || part[3] + 0 < low_x ? part[3] + 0 : low_x
        high_x = high_x == "" || part[3] + 0 > high_x ? part[3] + 0 : high_x
    }
    if (x_kind == "names") {
        low_x = 0.5
        high_x = categories + 0.5
    }
}

function to_x(x) {
    if (x_kind == "names")
        return width * (x - low_x) / (high_x - low_x)
    if (x_kind == "linear")
        return 14 + (width - 28) * (x - low_x) / (high_x - low_x + 1e-9)
    return 14 + (width - 28) * (log(x) - log(low_x)) / (log(high_x / low_x) + 1e-9)
}

function to_y(y) {
    return y_kind == "linear" ? height * (high_y - y) / (high_y - low_y) : \
        height * (log(high_y) - log(y)) / log(high_y / low_y)
}

# ---- pieces -------------------------------------------------------------------------------------

function escape(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}

function put_text(x, y, anchor, class, string) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y, anchor, \
        (class == "" ? "" : " class=\"" class "\""), escape(string)
}

function turned(x, y, anchor, degrees, string) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" transform=\"rotate(%d %.1f %.1f)\">" \
        "%s</text>\n", x, y, anchor, degrees, x, y, escape(string)
}

function stroke(x1, y1, x2, y2, class) {
    printf "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, \
        y2, class
}

# About how wide a text of 12 px is.
function text_width(string) {
    return length(string) * 6.6
}

# Own marks are filled. Those of others are hollow and smaller.
function mark(s, x, y,    hollow, tint) {
    if (is_bar(s)) {
        printf "<path stroke=\"%s\" stroke-width=\"2\"%s d=\"M%.1f %.1fh%.1f\"/>\n", tint_of(s), \
            (style_of[s] == "dash" ? " stroke-dasharray=\"4 2\"" : ""), x - tick_half, y, 2 * tick_half
        return
    }
    hollow = style_of[s] == "hollow"
    tint = tint_of(s)
    printf "<path fill=\"%s\" stroke=\"%s\" stroke-width=\"%s\" d=\"M%.1f %.1f%s\"/>\n", \
        (hollow ? "#fff" : tint), (hollow ? tint : "#fff"), (hollow ? "1.7" : ".8"), x, y, \
        shape[(mark_of[s] - 1) % shapes + 1]
}

function tint_of(s) {
    return style_of[s] == "tick" ? "#777" : style_of[s] == "dash" ? "#7aa6c8" : \
        colour[(mark_of[s] - 1) % colours + 1]
}

# ---- axes ---------------------------------------------------------------------------------------

# Whether a digit of a decade has a label: all in a short range, 1 and perhaps 2 and 5 in a long one.
function has_label(digit, decades) {
    return digit == 1 || (decades < 2.6 && (digit == 2 || digit == 5)) || \
        (decades < 0.8 && digit != 7 && digit != 9)
}

function draw_y_log(labels,    d, digit, a, decades) {
    decades = log10(high_y / low_y)
    for (d = floor(log10(low_y)); d <= floor(log10(high_y)); ++d)
        for (digit = 1; digit <= 9; ++digit) {
            a = digit * 10 ^ d
            if (a < low_y || a > high_y)
                continue
            stroke(0, to_y(a), width, to_y(a), digit == 1 ? "decade" : "grid")
            if (labels && has_label(digit, decades))
                put_text(-7, to_y(a) + 4, "end", "", short(a))
        }
}

# A step of 1, 2 or 5 times a power of ten, about four of them.
function nice_step(range,    d, a) {
    d = 10 ^ floor(log10(range / 4))
    a = range / 4 / d
    return d * (a < 1.5 ? 1 : a < 3.5 ? 2 : a < 7.5 ? 5 : 10)
}

function draw_y_linear(labels,    step, a) {
    step = nice_step(high_y - low_y)
    for (a = 0; a <= high_y; a += step) {
        stroke(0, to_y(a), width, to_y(a), "grid")
        if (labels)
            put_text(-7, to_y(a) + 4, "end", "", short(a))
    }
}

function draw_x_tick(x, label, major) {
    stroke(to_x(x), 0, to_x(x), height, major ? "decade" : "grid")
    stroke(to_x(x), height, to_x(x), height + (major ? 6 : 3), "axis")
    if (label != "")
        put_text(to_x(x), height + 19, "middle", "", label)
}

function draw_x_log(    d, digit, a, decades) {
    decades = log10(high_x / low_x)
    for (d = floor(log10(low_x)); d <= floor(log10(high_x)); ++d)
        for (digit = 1; digit <= 9; ++digit) {
            a = digit * 10 ^ d
            if (a >= low_x * 0.999 && a <= high_x * 1.001)
                draw_x_tick(a, has_label(digit, decades) ? short(a) : "", digit == 1)
        }
}

function draw_x_log2(    a) {
    for (a = low_x; a <= high_x; a *= 2)
        draw_x_tick(a, a "", 1)
}

function draw_x_linear(    a, step) {
    step = high_x - low_x <= 12 ? 1 : nice_step(high_x - low_x)
    for (a = low_x; a <= high_x; a += step)
        draw_x_tick(a, a "", 0)
}

# Whether the names of the categories are too long to stand side by side.
function names_are_long(    c, longest) {
    for (c = 1; c <= categories; ++c)
        longest = text_width(category[c]) > longest ? text_width(category[c]) : longest
    return longest >= width / categories - 4
}

# Every second category has a band; long names are turned.
function draw_x_names(    c, slot, long_names) {
    slot = width / categories
    long_names = names_are_long()
    for (c = 1; c <= categories; ++c) {
        if (c % 2 == 0)
            printf "<rect x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\" class=\"band\"/>\n", \
                to_x(c - 0.5), slot, height
        if (!long_names)
            put_text(to_x(c), height + 19, "middle", "", category[c])
        else
            turned(to_x(c) + 4, height + 15, "end", -30, category[c])
    }
}

function draw_axes(p, labels) {
    if (x_kind == "names")
        draw_x_names()
    if (y_kind == "log")
        draw_y_log(labels)
    else
        draw_y_linear(labels)
    if (x_kind == "log")
        draw_x_log()
    else if (x_kind == "log2")
        draw_x_log2()
    else if (x_kind == "linear")
        draw_x_linear()
    stroke(0, 0, 0, height, "axis")
    stroke(0, height, width, height, "axis")
    if (labels)
        turned(-46, height / 2, "middle", -90, own_y ? panel_label[panel_name[p]] : y_label)
}

# ---- one panel ----------------------------------------------------------------------------------

# Marks of one category stand side by side, those of ticks in its middle.
function shift(s,    slot, i, place, all) {
    if (x_kind != "names" || is_bar(s))
        return 0
    for (i = 1; i <= series_count; ++i)
        if (used[i] && !is_bar(i)) {
            ++all
            place = i == s ? all : place
        }
    slot = width / categories
    return (place - (all + 1) / 2) * (slot * 0.8 / all < 15 ? slot * 0.8 / all : 15)
}

function draw_series(p, s,    line, i, x, path) {
    line = p SUBSEP s
    if (style_of[s] == "line") {
        for (i = 1; i <= count_of[line]; ++i)
            path = path sprintf("%s%.1f %.1f", i == 1 ? "M" : "L", to_x(at[line, i]), \
                to_y(value_at[line, at[line, i]]))
        if (path != "")
            printf "<path class=\"line\" stroke=\"%s\" d=\"%s\"/>\n", tint_of(s), path
    }
    for (i = 1; i <= count_of[line]; ++i) {
        x = at[line, i]
        mark(s, to_x(x) + shift(s), to_y(value_at[line, x]))
    }
}

# Ticks below, then the others' marks, then one's own, the first series on top.
function draw_panel(p,    s, r) {
    if (x_kind == "names") {
        tick_half = width / categories * 0.38
        tick_half = tick_half > 32 ? 32 : tick_half
    }
    for (r = 1; r <= rules && !own_y; ++r) {
        stroke(0, to_y(rule_y[r]), width, to_y(rule_y[r]), "rule")
        put_text(width + 3, to_y(rule_y[r]) + 4, "start", "note", rule_text[r])
    }
    for (s = series_count; s >= 1; --s)
        if (is_bar(s))
            draw_series(p, s)
    for (s = series_count; s >= 1; --s)
        if (style_of[s] == "hollow")
            draw_series(p, s)
    for (s = series_count; s >= 1; --s)
        if (style_of[s] == "line" || style_of[s] == "dots")
            draw_series(p, s)
}

# ---- the whole ----------------------------------------------------------------------------------

# Draws the legend, or only measures it. Returns its lines.
function legend(left, top, visible,    s, x, lines, wide) {
    x = left
    lines = 1
    tick_half = 9
    for (s = 1; s <= series_count; ++s) {
        if (!used[s])
            continue
        wide = 44 + text_width(series[s])
        if (x > left && x + wide > picture - 12) {
            x = left
            ++lines
        }
        if (visible) {
            if (style_of[s] == "line")
                printf "<path class=\"line\" stroke=\"%s\" d=\"M%.1f %.1fh24\"/>\n", tint_of(s), \
                    x, top + 18 * (lines - 1)
            mark(s, x + 12, top + 18 * (lines - 1))
            put_text(x + 29, top + 18 * (lines - 1) + 4, "start", "", series[s])
        }
        x += wide
    }
    return lines
}

function plot_draw(title, note, stamp,    p, columns, rows, top, under, left, step, labels) {
    if (!points)
        return 0
    picture = 960
    left = 66
    columns = panels > 1 ? 2 : 1
    rows = int((panels + columns - 1) / columns)
    step = columns == 1 ? 0 : own_y ? 474 : 452
    width = columns == 1 ? picture - left - 24 : own_y ? 396 : 418
    height = 270
    top = (note == "" ? 50 : 68) + 18 * legend(left, 0, 0) + 26
    under = height + (x_kind != "names" ? 74 : names_are_long() ? 84 : 56)
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" " \
        "height=\"%d\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" " \
        "font-size=\"12\" fill=\"#222\">\n", picture, top + rows * under + 16, picture, \
        top + rows * under + 16
    printf "<title>%s</title>\n", escape(title)
    print "<style>.grid{stroke:#efefef}.decade{stroke:#d5d5d5}.axis{stroke:#444}" \
        ".line{fill:none;stroke-width:2}.band{fill:#f6f7f9}.rule{stroke:#444;stroke-dasharray:5 4}" \
        ".title{font-size:16px;font-weight:bold}.panel{font-weight:bold}" \
        ".note{font-size:11px;fill:#666}</style>"
    printf "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", picture, top + rows * under + 16
    put_text(left, 28, "start", "title", title)
    if (note != "")
        put_text(left, 47, "start", "note", note)
    legend(left, note == "" ? 50 : 68, 1)
    range_x()
    for (p = 1; p <= panels; ++p) {
        labels = own_y || p % columns == 1 || columns == 1
        range_y(own_y ? p : 0)
        printf "<g transform=\"translate(%d %d)\">\n", left + (p - 1) % columns * step, \
            top + int((p - 1) / columns) * under
        put_text(0, -10, "start", "panel", panel_name[p])
        draw_axes(p, labels)
        draw_panel(p)
        if (x_kind != "names")
            put_text(width / 2, height + 40, "middle", "", x_label)
        print "</g>"
    }
    put_text(picture - 12, top + rows * under + 6, "end", "note", stamp)
    print "</svg>"
    return 1
}

BEGIN {
    colours = split("#d55e00 #0072b2 #009e73 #cc79a7 #e69f00 #56b4e9 #555555 #882255 #117733", colour, " ")
    shape[1] = "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
    shape[2] = "m-4.2 -4.2h8.4v8.4h-8.4z"
    shape[3] = "m0 -5.4l5.2 9.4h-10.4z"
    shape[4] = "m0 -5.8l5.8 5.8l-5.8 5.8l-5.8 -5.8z"
    shape[5] = "m0 5.4l5.2 -9.4h-10.4z"
    shape[6] = "m-5.2 -1.7h3.5v-3.5h3.4v3.5h3.5v3.4h-3.5v3.5h-3.4v-3.5h-3.5z"
    shape[7] = "m-4.8 -2.8l4.8 -2.8l4.8 2.8v5.6l-4.8 2.8l-4.8 -2.8z"
    shape[8] = "m-5 -3l2 -2l3 3l3 -3l2 2l-3 3l3 3l-2 2l-3 -3l-3 3l-2 -2l3 -3z"
    shape[9] = "m-6 0l6 -3.4l6 3.4l-6 3.4z"
    shapes = 9
}
