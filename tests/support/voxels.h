// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/voxels.h: inputs of voxelisations, for host and GPU, and what they should become:
// an independent voxelisation, row by row.
#ifndef SPIRA_TESTS_VOXELS_H
#define SPIRA_TESTS_VOXELS_H

#include "reference.h"
#include "sets.h"

#include "../../spira/voxel.h"

#include <map>
#include <tuple>
#include <vector>

namespace spira {

// ---- inputs -------------------------------------------------------------------------------------

// Rows that a test owns; `in` gets the pointers in voxel_case_input. Rows behind the count are good
// ones, so that reading them shows.
struct voxel_case {
    char label[128];
    word_layout layout;
    voxel_input in;
    std::vector<float> points; // [in.rows, in.columns], or
    std::vector<int32_t> coords;
    std::vector<int32_t> batch;
    int32_t count, capacity; // of the rows, as told; of the set
};

inline const voxel_input *voxel_case_input(voxel_case *c) {
    c->in.points = c->points.empty() ? nullptr : c->points.data();
    c->in.coords = c->coords.empty() ? nullptr : c->coords.data();
    c->in.batch = c->batch.empty() ? nullptr : c->batch.data();
    c->in.count = &c->count;
    return &c->in;
}

// The voxels as coordinates, all in the set.
inline voxel_case voxel_case_of(const word_layout &layout, const std::vector<voxel> &voxels) {
    voxel_case c = {};
    c.layout = layout;
    c.count = c.capacity = c.in.rows = (int32_t)voxels.size();
    c.in.columns = 3;
    for (const voxel &v : voxels) {
        c.coords.insert(c.coords.end(), {v.x, v.y, v.z});
        c.batch.push_back(v.batch);
    }
    return c;
}

// Points or coordinates in `extent` voxels from lo on, which the layout holds; with a range, which
// begins at 0, one row in five outside of it. fault: one row in so many is not finite, far away,
// off the layout, or of a batch index that there is not; 0: none.
struct voxel_kind {
    bool points, ranged;
    int batches, fault;
};

template <typename W>
voxel_case voxel_case_random(random_state *r, voxel_kind kind, int32_t rows, int32_t count) {
    voxel_case c = {};
    const triple extent = {random_int(r, 1, 30), random_int(r, 1, 20), random_int(r, 1, 6)};
    const int most[3] = {extent.x, extent.y, extent.z};
    int lo[3] = {};
    for (int a = 0; a < 3; ++a) {
        lo[a] = kind.ranged ? 0 : random_int(r, -300, 300);
        c.in.size[a] = random_int(r, 0, 1) ? 0.25f : 0.05f * (float)random_int(r, 1, 4);
        c.in.origin[a] = (float)random_int(r, -9, 9);
    }
    // Room for points that are rounded into a neighbour.
    c.layout = reference_layout<W>({lo[0] - 1, lo[1] - 1, lo[2] - 1},
                                   {lo[0] + most[0], lo[1] + most[1], lo[2] + most[2]},
                                   kind.batches, {2, 2, 2}, {1, 1, 1});
    c.in.rows = c.capacity = rows;
    c.in.columns = random_int(r, 3, 6);
    c.in.duplicates = random_int(r, 0, 1) ? duplicates_report : duplicates_merge;
    c.in.drop_not_finite = kind.points && kind.fault && random_int(r, 0, 1);
    c.in.extent = kind.ranged ? extent : triple{};
    c.count = count;
    for (int32_t i = 0; i < rows; ++i) {
        const bool fault = kind.fault && random_int(r, 1, kind.fault) == 1;
        const int axis = random_int(r, 0, 2);
        for (int a = 0; a < c.in.columns; ++a) {
            const bool out = a < 3 && kind.ranged && random_int(r, 0, 15) == 0;
            const int at = a > 2                 ? random_int(r, -9, 9)
                           : !out                ? lo[a] + random_int(r, 0, most[a] - 1)
                           : random_int(r, 0, 1) ? most[a] + random_int(r, 0, 3)
                                                 : random_int(r, -4, -1);
            const float wrong[] = {NAN, INFINITY, -INFINITY, 3e38f, -1e12f, 1e6f};
            if (kind.points && a < 3) { // now and then on the lower face
                const float within = (float)at + 0.25f * (float)random_int(r, 0, 3);
                c.points.push_back(fault && a == axis ? wrong[random_int(r, 0, 5)]
                                                      : c.in.origin[a] + within * c.in.size[a]);
            } else if (kind.points) {
                c.points.push_back(random_int(r, 0, 9) ? random_float(r) : NAN); // the caller's
            } else {
                const int far[] = {INT32_MIN, INT32_MAX, lo[axis] - 100, at};
                c.coords.push_back(fault && a == axis ? far[random_int(r, 0, 3)] : at);
            }
        }
        if (kind.batches > 1) {
            c.batch.push_back(!fault                ? random_int(r, 0, kind.batches - 1)
                              : random_int(r, 0, 1) ? -1
                                                    : kind.batches);
        }
    }
    snprintf(c.label, sizeof c.label, "%d bits, %d of %d rows, %s, %d batches%s", c.layout.bits,
             count, rows, kind.points ? "points" : "coordinates", kind.batches,
             kind.ranged ? ", a range" : "");
    return c;
}

// Every corner of the fields for every batch index, and every neighbour that is just outside. bits:
// of the layout, none to spare, so that a carry would show.
template <typename W, typename F>
void voxel_cases_of_field_ends(word_need need, int bits, F check) {
    word_layout layout;
    REQUIRE_OK(word_fit(&need, &layout));
    CHECK_EQUAL(word_bits(&layout), bits);
    layout.bits = sizeof(W) * 8;
    const triple lo = layout.lo, hi = layout.hi;
    std::vector<voxel> inside, outside;
    for (int corner = 0; corner < 8; ++corner) {
        const int x = corner & 1, y = corner >> 1 & 1, z = corner >> 2;
        for (int batch : {0, need.batches - 1}) {
            const voxel v = {batch, x ? hi.x : lo.x, y ? hi.y : lo.y, z ? hi.z : lo.z};
            inside.push_back(v);
            outside.push_back({batch, v.x + (x ? 1 : -1), v.y, v.z});
            outside.push_back({batch, v.x, v.y + (y ? 1 : -1), v.z});
            outside.push_back({batch, v.x, v.y, v.z + (z ? 1 : -1)});
            outside.push_back({-1, v.x, v.y, v.z});
            outside.push_back({need.batches, v.x, v.y, v.z});
            outside.push_back({INT32_MIN, v.x, v.y, v.z});
            outside.push_back({batch, INT32_MAX, v.y, v.z});
            outside.push_back({batch, v.x, INT32_MIN, v.z});
        }
    }
    for (size_t i = 0; i < outside.size(); i += 3) { // one bad row among good ones
        std::vector<voxel> mixed = inside;
        mixed.insert(mixed.begin() + 5, outside[i]);
        voxel_case c = voxel_case_of(layout, mixed);
        snprintf(c.label, sizeof c.label, "%d bits, outside: %zu", bits, i);
        check(&c);
    }
    for (const auto &all : {inside, outside}) {
        voxel_case c = voxel_case_of(layout, all);
        snprintf(c.label, sizeof c.label, "%d bits, ends", bits);
        check(&c);
    }
}

template <typename W, typename F>
void voxel_cases_of_ends(F check) {
    const triple one = {1, 1, 1};
    const word_need need = {{-600, -1, 5}, {900, 300, 700}, 4, one, one};
    voxel_cases_of_field_ends<W>(need, 32, check);
    if (sizeof(W) == 4) {
        voxel_cases_of_field_ends<W>({{-1000, -1, 5}, {3000, 300, 700}, 1, one, one}, 31, check);
    } else {
        voxel_cases_of_field_ends<W>({{-400000, -3, -99}, {600000, 2000000, 100000}, 9, one, one},
                                     62, check);
        voxel_cases_of_field_ends<W>(
            {{-4000000, -1000000, -40}, {4000000, 1000000, 60000}, 9, one, one}, 64, check);
    }
}

// One row that is not finite, or finite and far; then all rows.
template <typename W, typename F>
void voxel_cases_not_finite(F check) {
    random_state r = random_make(5);
    for (float value :
         {(float)NAN, -(float)NAN, (float)INFINITY, (float)-INFINITY, 1e9f, -1e9f, 3e38f, -3e38f}) {
        for (int32_t row : {0, 99, 255, 256, 299, -1}) {
            voxel_case c = voxel_case_random<W>(&r, {true, false, 1, 0}, 300, 300);
            for (int32_t i = row < 0 ? 0 : row; i < (row < 0 ? 300 : row + 1); ++i) {
                c.points[(size_t)(i * c.in.columns + i % 3)] = value;
            }
            snprintf(c.label, sizeof c.label, "row %d: %g", row, (double)value);
            check(&c);
            c.in.drop_not_finite = true;
            check(&c);
        }
    }
}

// A frame with every condition that voxelize finds: too many rows and voxels, rows that are not
// finite, off the layout, and repeated.
template <typename W>
voxel_case voxel_case_troubled() {
    random_state r = random_make(8);
    voxel_case c = voxel_case_random<W>(&r, {true, false, 1, 0}, 300, 400);
    const size_t columns = (size_t)c.in.columns;
    c.in.duplicates = duplicates_report;
    c.capacity = 2;
    for (size_t a = 0; a < 3; ++a) {
        c.points[7 * columns + a] = NAN;
        c.points[9 * columns + a] = 1e6f;
        for (size_t twin : {21, 22}) { // of rows that are not dropped
            c.points[twin * columns + a] = c.points[20 * columns + a];
        }
    }
    return c;
}

// Nothing hides anything: all conditions of that frame are read, each with its place. dropped:
// rows that are not finite are no trouble
inline void voxel_check_troubles(const device_status &found, bool dropped) {
    const struct {
        status_code code;
        int64_t detail; // -1: of any row or count
    } wanted[] = {{status_capacity, 400},
                  {status_not_finite, 7},
                  {status_out_of_range, 9},
                  {status_duplicate, -1}};
    int at = 0;
    for (const auto &w : wanted) {
        if (w.code != status_not_finite || !dropped) {
            const status s = device_status_next(&found, &at);
            CHECK_STATUS(s, w.code);
            CHECK(w.detail < 0 || s.detail == w.detail);
        }
    }
    CHECK_OK(device_status_next(&found, &at));
    CHECK_EQUAL(found.dropped_not_finite, dropped ? 1u : 0u);
}

// Points exactly on the faces of voxels, and next to them: the quotient decides.
template <typename W, typename F>
void voxel_cases_on_faces(F check) {
    for (float size : {0.05f, 0.1f, 0.3f, 1.0f, 1.0f / 3.0f}) {
        voxel_case c = {};
        c.layout =
            reference_layout<W>({-500, -500, -500}, {500, 500, 500}, 1, {2, 2, 2}, {1, 1, 1});
        for (int i = -400; i <= 400; ++i) {
            const float face = (float)i * size;
            for (float p : {face, nextafterf(face, -1e9f), nextafterf(face, 1e9f)}) {
                c.points.insert(c.points.end(), {p, -p, p + 0.25f});
            }
        }
        c.count = c.capacity = c.in.rows = (int32_t)(c.points.size() / 3);
        c.in.columns = 3;
        std::fill(c.in.size, c.in.size + 3, size);
        c.in.origin[2] = 0.25f;
        snprintf(c.label, sizeof c.label, "faces of size %g", (double)size);
        check(&c);
    }
}

// n times the same voxel; n different ones, and the first again at the end.
template <typename W, typename F>
void voxel_cases_with_repeats(int32_t n, F check) {
    const word_layout layout =
        reference_layout<W>({-2, -2, -2}, {30, 30, 30}, 3, {4, 4, 4}, {2, 2, 2});
    std::vector<voxel> distinct;
    for (int32_t i = 0; i < n && i < 20000; ++i) {
        distinct.push_back({i % 3, i / 3 % 31, i / 93 % 31, i / 2883});
    }
    std::vector<voxel> twice = distinct;
    twice.back() = twice[0];
    for (const auto &rows : {std::vector<voxel>((size_t)n, voxel{2, -1, 30, 0}), distinct, twice}) {
        for (voxel_duplicates duplicates : {duplicates_merge, duplicates_report}) {
            voxel_case c = voxel_case_of(layout, rows);
            c.in.duplicates = duplicates;
            snprintf(c.label, sizeof c.label, "repeats among %d rows", n);
            check(&c);
        }
    }
}

// All of these, and random rows around the edges of warps, blocks and the tiles of sorts and scans:
// with room behind the count, a count that is too large, and sets that are too small. most: rows
template <typename W, typename F>
void voxel_cases(int32_t most, F check) {
    random_state r = random_make(sizeof(W));
    const int32_t sizes[] = {0,    1,    2,    7,    8,    9,    31,   32,   33,   63,    64,
                             65,   127,  128,  129,  255,  256,  257,  511,  512,  513,   1023,
                             1024, 1025, 1919, 1920, 1921, 2047, 2048, 2049, 4097, 10007, 65537};
    int turn = 0;
    for (int32_t n : sizes) {
        if (n > most || (test_quick() && turn++ % 4)) {
            continue;
        }
        for (int32_t room : {0, 37, -1000}) { // negative: beyond the rows
            const int32_t rows = room < 0 ? n : n + room;
            const voxel_kind kind = {random_int(&r, 0, 1) > 0, false, random_int(&r, 1, 4),
                                     room ? 100 : 0};
            if (rows > 0 || room == 0) {
                voxel_case c = voxel_case_random<W>(&r, kind, rows > 0 ? rows : 1, rows - room);
                check(&c);
                c.capacity = random_int(&r, 1, c.in.rows);
                check(&c);
            }
        }
        if (n > 0) {
            voxel_cases_with_repeats<W>(n, check);
        }
    }
    for (int i = 0; i < (test_quick() ? 8 : 200); ++i) {
        const voxel_kind kind = {random_int(&r, 0, 1) > 0, false, random_int(&r, 1, 5), 300};
        const int32_t rows = random_int(&r, 1, 3000);
        voxel_case c = voxel_case_random<W>(&r, kind, rows, random_int(&r, 0, rows));
        c.capacity = random_int(&r, 0, 2) ? rows : random_int(&r, 1, rows);
        check(&c);
    }
    voxel_cases_of_ends<W>(check);
    voxel_cases_not_finite<W>(check);
    voxel_cases_on_faces<W>(check);
}

// ---- real scans ---------------------------------------------------------------------------------

template <typename T>
std::vector<T> file_as(const char *name) {
    std::vector<char> bytes = reference_file(name);
    std::vector<T> elements(bytes.size() / sizeof(T));
    if (!elements.empty()) {
        memcpy(elements.data(), bytes.data(), elements.size() * sizeof(T));
    }
    return elements;
}

// The bounds of the first three of `columns`.
template <typename T>
void bounds_of(const std::vector<T> &values, int columns, T lo[3], T hi[3]) {
    for (size_t i = 0; i < values.size(); ++i) {
        size_t a = i % (size_t)columns;
        if (a < 3) {
            bool first = i < (size_t)columns;
            lo[a] = first || values[i] < lo[a] ? values[i] : lo[a];
            hi[a] = first || values[i] > hi[a] ? values[i] : hi[a];
        }
    }
}

// The scan as rows. A size of 0: the file holds voxels. Returns what a layout for it needs.
inline word_need scan_read(const char *name, int columns, float size, voxel_case *c) {
    *c = {};
    snprintf(c->label, sizeof c->label, "%s", name);
    word_need need = word_need_of({}, {}, 1, {16, 16, 16}, {16, 16, 16}); // K = 3 at stride 16
    c->in.columns = columns;
    if (size > 0) {
        c->points = file_as<float>(name);
        std::fill(c->in.size, c->in.size + 3, size);
        float lo[3], hi[3];
        bounds_of(c->points, columns, lo, hi);
        CHECK_OK(voxel_bounds(lo, hi, c->in.size, c->in.origin, &need));
    } else {
        c->coords = file_as<int32_t>(name);
        c->in.duplicates = duplicates_report;
        int32_t lo[3], hi[3];
        bounds_of(c->coords, columns, lo, hi);
        need.lo = triple_make(lo[0], lo[1], lo[2]);
        need.hi = triple_make(hi[0], hi[1], hi[2]);
    }
    c->count = c->in.rows = (int32_t)((c->points.size() + c->coords.size()) / (size_t)columns);
    c->capacity = c->in.rows;
    CHECK_OK(word_fit(&need, &c->layout));
    return need;
}

// ---- what they should become --------------------------------------------------------------------

using voxel_cell = std::tuple<int, int, int, int>; // batch, x, y, z

// What is wrong with a row: instead of its batch index.
enum { cell_outside = -1, cell_not_finite = -2, cell_off = -3 };

inline voxel_cell voxel_case_cell(const voxel_case &c, int32_t row) {
    const word_layout &l = c.layout;
    const int extent[3] = {c.in.extent.x, c.in.extent.y, c.in.extent.z};
    const int lo[3] = {l.lo.x, l.lo.y, l.lo.z}, hi[3] = {l.hi.x, l.hi.y, l.hi.z};
    int at[3] = {}, batch = c.batch.empty() ? 0 : c.batch[(size_t)row];
    bool outside = false, off = batch < 0 || batch >= l.batches;
    for (int a = 0; a < 3; ++a) {
        const size_t i = (size_t)row * (size_t)c.in.columns + (size_t)a;
        if (!c.points.empty()) {
            if (!float_is_finite(c.points[i])) {
                return {cell_not_finite, 0, 0, 0};
            }
            const float index = floorf((c.points[i] - c.in.origin[a]) / c.in.size[a]);
            const bool far = !float_is_finite(index) || fabsf(index) > (float)(1 << 30);
            at[a] = far ? INT32_MAX : (int)index;
        } else {
            at[a] = c.coords[i];
        }
        outside |= at[a] < 0 || at[a] >= extent[a];
        off |= at[a] < lo[a] || at[a] > hi[a];
    }
    if (extent[0] && outside) {
        return {cell_outside, 0, 0, 0};
    }
    return {off ? (int)cell_off : batch, at[0], at[1], at[2]};
}

struct voxel_wanted {
    std::map<voxel_cell, std::vector<int32_t>> voxels; // and their rows
    device_status trouble;
};

// As the engines do: row by row; a voxel that is not there yet is added while there is room.
inline voxel_wanted voxel_case_wanted(const voxel_case &c) {
    voxel_wanted w = {};
    std::map<int, int> found; // of each batch index
    std::map<voxel_cell, int> dropped;
    device_status *trouble = &w.trouble;
    for (int32_t i = 0; i < std::min(c.count, c.in.rows); ++i) {
        const voxel_cell cell = voxel_case_cell(c, i);
        const int batch = std::get<0>(cell);
        const bool counted = batch == cell_not_finite && c.in.drop_not_finite;
        trouble->outside += batch == cell_outside;
        trouble->dropped_not_finite += counted;
        if ((batch == cell_not_finite && !counted) || batch == cell_off) {
            device_status_note(trouble,
                               batch == cell_off ? device_flag_range : device_flag_not_finite,
                               (uint32_t)i);
        }
        if (batch < 0) {
            continue;
        }
        const bool known = w.voxels.count(cell) > 0;
        if (!known && c.in.max_voxels && found[batch] == c.in.max_voxels) {
            ++dropped[cell];
            ++trouble->dropped_rows;
            continue;
        }
        found[batch] += !known;
        if (known && c.in.duplicates == duplicates_report) {
            device_status_note(trouble, device_flag_duplicate, (uint32_t)i);
        }
        w.voxels[cell].push_back(i);
    }
    trouble->dropped_voxels = (uint32_t)dropped.size();
    if (c.count > c.in.rows) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)c.count);
    }
    if ((int64_t)w.voxels.size() > c.capacity) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)w.voxels.size());
    }
    return w;
}

// ---- points in double ---------------------------------------------------------------------------

// The centres of 24^3 voxels of 0.1 m in UTM, a million metres and more from 0, with a fourth
// column that is left as it is; a row without return behind them.
enum { voxel_utm_rows = 24 * 24 * 24 };

inline std::vector<double> voxel_utm_points() {
    std::vector<double> points;
    for (int i = 0; i < voxel_utm_rows; ++i) {
        points.insert(points.end(), {1000000.05 + 0.1 * (i / 576), 5400000.05 + 0.1 * (i / 24 % 24),
                                     250.05 + 0.1 * (i % 24), 1e6 + 0.25 * i});
    }
    points.insert(points.end(), {(double)NAN, 5400000.0, INFINITY, (double)NAN});
    return points;
}

inline voxel_shift_args voxel_utm_shift(const double *from, const int32_t *count, float *points) {
    voxel_shift_args a = {};
    a.from = from;
    a.origin[0] = 1000000;
    a.origin[1] = 5400000;
    a.origin[2] = 250;
    a.count = count;
    a.rows = voxel_utm_rows + 1;
    a.columns = 4;
    a.points = points;
    return a;
}

// What these points become: as many voxels. points [voxel_utm_rows + 1, 4]: after the shift
template <typename W>
voxel_case voxel_utm_case(const float *points) {
    voxel_case c = {};
    c.layout = reference_layout<W>({0, 0, 0}, {23, 23, 23}, 1, {1, 1, 1}, {1, 1, 1});
    c.count = c.capacity = c.in.rows = voxel_utm_rows + 1;
    c.in.columns = 4;
    c.points.assign(points, points + 4 * c.in.rows);
    std::fill(c.in.size, c.in.size + 3, 0.1f);
    c.in.drop_not_finite = true;
    return c;
}

// ---- what they become ---------------------------------------------------------------------------

// Everything that a voxelisation writes, in buffers of the exact sizes.
template <typename W>
struct voxels {
    voxel_set<W> set;
    voxel_rows rows;
    device_status trouble;
};

template <typename W>
voxels<W> voxels_new(const voxel_case &c) {
    voxels<W> v = {};
    v.set = {guarded_new<W>(c.capacity), guarded_new<int32_t>(1), c.capacity};
    v.rows = {guarded_new<int32_t>(c.in.rows), guarded_new<int32_t>(c.in.rows),
              guarded_new<int32_t>((int64_t)c.capacity + 1)};
    return v;
}

template <typename W>
voxels<W> voxels_on_host(voxel_case *c) {
    voxels<W> v = voxels_new<W>(*c);
    const voxelize_args<W> args = {&c->layout, voxel_case_input(c), v.set, v.rows, &v.trouble};
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<W>(args.input, &bytes));
    CHECK_OK(voxelize_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    return v;
}

// What should be there.
template <typename W>
voxels<W> voxels_wanted(const voxel_case &c) {
    const voxel_wanted wanted = voxel_case_wanted(c);
    voxels<W> v = voxels_new<W>(c);
    v.trouble = wanted.trouble;
    int32_t at = 0, begin = 0;
    std::fill(v.rows.voxel, v.rows.voxel + c.in.rows, -1);
    v.rows.begin[0] = 0;
    for (const auto &voxel : wanted.voxels) {
        if (at < c.capacity) {
            auto [batch, x, y, z] = voxel.first;
            v.set.words[at] = word_pack<W>(&c.layout, {batch, x, y, z});
            for (int32_t row : voxel.second) { // ascending, as they came
                v.rows.order[begin++] = row;
                v.rows.voxel[row] = at;
            }
            v.rows.begin[++at] = begin;
        }
    }
    *v.set.count = at;
    std::fill(v.set.words + at, v.set.words + c.capacity, word_none<W>());
    return v;
}

// "" where all that is specified is the same; else the first thing that is not.
template <typename W>
const char *voxels_difference(const voxels<W> &got, const voxels<W> &wanted, const voxel_case &c) {
    static char finding[512];
    const auto same = [&](const char *name, auto *a, auto *b, int64_t count) {
        const int64_t at = std::mismatch(a, a + count, b).first - a;
        if (at < count) {
            snprintf(finding, sizeof finding, "%s[%lld]: %lld instead of %lld (%s)", name,
                     (long long)at, (long long)a[at], (long long)b[at], c.label);
        }
        return at == count;
    };
    finding[0] = 0;
    if (!same("set.count", got.set.count, wanted.set.count, 1)) {
        return finding;
    }
    const int64_t count = *wanted.set.count, kept = wanted.rows.begin[count];
    const bool equal = same("set.words", got.set.words, wanted.set.words, wanted.set.capacity) &&
                       same("rows.voxel", got.rows.voxel, wanted.rows.voxel, c.in.rows) &&
                       same("rows.begin", got.rows.begin, wanted.rows.begin, count + 1) &&
                       same("rows.order", got.rows.order, wanted.rows.order, kept) &&
                       same("trouble", (const uint32_t *)&got.trouble,
                            (const uint32_t *)&wanted.trouble, sizeof(device_status) / 4);
    return equal ? "" : finding;
}

} // namespace spira

#endif
