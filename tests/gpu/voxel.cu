// tests/gpu/voxel.cu: voxelisation and voxel features on the GPU, bit for bit those of the host
// loops.
#include "../../spira/voxel.cuh"
#include "../support/device.cuh"
#include "../support/reference.h"
#include "../support/sets.h"

using namespace spira;

namespace {

// Around the edges of warps, blocks and the tiles of sorts and scans.
const int sizes_all[] = {0,    1,    2,    7,    8,    9,    31,   32,   33,   63,    64,
                         65,   127,  128,  129,  255,  256,  257,  511,  512,  513,   1023,
                         1024, 1025, 1919, 1920, 1921, 2047, 2048, 2049, 4097, 10007, 65537};
const int sizes_quick[] = {0, 1, 33, 257, 1025};

template <typename F>
void for_sizes(F body) {
    if (test_quick()) {
        for (int n : sizes_quick) {
            body(n);
        }
    } else {
        for (int n : sizes_all) {
            body(n);
        }
    }
}

// ---- one run, on either side
// ---------------------------------------------------------------------

// What voxelize gives, as far as it is specified: rows.order up to the last kept voxel.
template <typename W>
struct outcome {
    device_status trouble;
    int32_t count;
    std::vector<W> words;
    std::vector<int32_t> voxel, order, begin;
};

// Input rows that the tests own; `in` gets the pointers when it is asked for.
struct rows_of {
    std::vector<float> points;
    std::vector<int32_t> coords, batch;
    int32_t count;
    voxel_input in;
};

voxel_input *rows_input(rows_of *r) {
    r->in.points = r->points.empty() ? nullptr : r->points.data();
    r->in.coords = r->coords.empty() ? nullptr : r->coords.data();
    r->in.batch = r->batch.empty() ? nullptr : r->batch.data();
    r->in.count = &r->count;
    return &r->in;
}

template <typename W>
outcome<W> voxelize_on_host(const word_layout *layout, rows_of *r, int32_t capacity) {
    voxel_input *in = rows_input(r);
    outcome<W> o;
    o.trouble = {};
    o.words.assign((size_t)capacity, 0);
    o.voxel.assign((size_t)in->rows, 0);
    o.order.assign((size_t)in->rows, 0);
    o.begin.assign((size_t)capacity + 1, 0);
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<W>(in, &bytes));
    std::vector<char> scratch(bytes + workspace_alignment);
    char *base = (char *)round_up((int64_t)scratch.data(), workspace_alignment);
    voxel_set<W> set = {o.words.data(), &o.count, capacity};
    voxel_rows rows = {o.voxel.data(), o.order.data(), o.begin.data()};
    const voxelize_args<W> args = {layout, in, set, rows, &o.trouble};
    CHECK_OK(voxelize_host(&args, base, bytes));
    o.begin.resize((size_t)o.count + 1);
    o.order.resize((size_t)o.begin[(size_t)o.count]);
    return o;
}

// Buffers of one run on the device, all of exactly the size that is asked for.
template <typename W>
struct device_run {
    voxel_input in;
    voxel_set<W> set;
    voxel_rows rows;
    device_status *trouble;
    char *scratch;
    size_t scratch_bytes;
};

template <typename W>
device_run<W> device_run_make(rows_of *r, int32_t capacity) {
    device_run<W> d;
    voxel_input *in = rows_input(r);
    d.in = *in;
    int64_t elements = (int64_t)in->rows * in->columns;
    d.in.points = in->points ? device_upload(in->points, elements) : nullptr;
    d.in.coords = in->coords ? device_upload(in->coords, elements) : nullptr;
    d.in.batch = in->batch ? device_upload(in->batch, in->rows) : nullptr;
    d.in.count = device_upload(in->count, 1);
    d.set = {device_new<W>(capacity), device_new<int32_t>(1), capacity};
    d.rows = {device_new<int32_t>(in->rows), device_new<int32_t>(in->rows),
              device_new<int32_t>((int64_t)capacity + 1)};
    d.trouble = device_zeros<device_status>(1);
    d.scratch_bytes = 0;
    CHECK_OK(voxelize_workspace<W>(&d.in, capacity, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    return d;
}

template <typename W>
status device_run_start(const word_layout *layout, const device_run<W> *d) {
    const voxelize_args<W> args = {layout, &d->in, d->set, d->rows, d->trouble};
    return voxelize(&args, d->scratch, d->scratch_bytes, stream_get());
}

template <typename T>
std::vector<T> fetched(const T *device, int64_t count) {
    std::vector<T> host((size_t)count);
    device_copy_out(host.data(), device, count);
    return host;
}

template <typename W>
outcome<W> device_run_fetch(const device_run<W> *d) {
    outcome<W> o;
    o.trouble = device_value(d->trouble);
    o.count = device_value(d->set.count);
    if (!CHECK(o.count >= 0 && o.count <= d->set.capacity)) {
        o.count = 0;
    }
    o.words = fetched(d->set.words, d->set.capacity);
    o.voxel = fetched(d->rows.voxel, d->in.rows);
    o.begin = fetched(d->rows.begin, (int64_t)o.count + 1);
    int32_t kept = o.begin[(size_t)o.count];
    o.order = fetched(d->rows.order, CHECK(kept >= 0 && kept <= d->in.rows) ? kept : 0);
    return o;
}

// ---- comparing
// -----------------------------------------------------------------------------------

char label[128];    // the case at hand, for the message
char finding[1024]; // the first difference

template <typename T>
bool same(const char *name, const std::vector<T> &got, const std::vector<T> &wanted) {
    if (got.size() != wanted.size()) {
        snprintf(finding, sizeof finding, "%s: %zu instead of %zu elements (%s)", name, got.size(),
                 wanted.size(), label);
        return false;
    }
    for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != wanted[i]) {
            snprintf(finding, sizeof finding, "%s[%zu]: %lld instead of %lld (%s)", name, i,
                     (long long)got[i], (long long)wanted[i], label);
            return false;
        }
    }
    return true;
}

bool same_trouble(const device_status &a, const device_status &b) {
    if (memcmp(&a, &b, sizeof a) == 0) {
        return true;
    }
    snprintf(finding, sizeof finding,
             "trouble: flags %u, first %u %u %u, needed %u instead of %u, %u %u %u, %u (%s)",
             a.flags, a.first_range, a.first_duplicate, a.first_not_finite, a.needed, b.flags,
             b.first_range, b.first_duplicate, b.first_not_finite, b.needed, label);
    return false;
}

// "" where all is the same; else what is not.
template <typename W>
const char *difference(const outcome<W> &got, const outcome<W> &wanted) {
    finding[0] = 0;
    std::vector<int32_t> count_got(1, got.count), count_wanted(1, wanted.count);
    bool equal =
        same("set.count", count_got, count_wanted) && same("set.words", got.words, wanted.words) &&
        same("rows.voxel", got.voxel, wanted.voxel) &&
        same("rows.begin", got.begin, wanted.begin) &&
        same("rows.order", got.order, wanted.order) && same_trouble(got.trouble, wanted.trouble);
    return equal ? "" : finding;
}

// Both sides, the device twice: the second run finds scratch and outputs as the first left them.
// Frees all buffers of the test.
template <typename W>
outcome<W> check_both(const word_layout *layout, rows_of *r, int32_t capacity) {
    outcome<W> wanted = voxelize_on_host<W>(layout, r, capacity);
    device_run<W> d = device_run_make<W>(r, capacity);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_run_start(layout, &d));
        CHECK_EQUAL(difference(device_run_fetch(&d), wanted), "");
    }
    guarded_finish();
    return wanted;
}

// ---- scenes
// --------------------------------------------------------------------------------------

// A layout for words of W; false if they are too narrow for it.
template <typename W>
bool layout_make(word_need need, word_layout *layout) {
    status s = word_fit(&need, layout);
    if (status_failed(s) || layout->bits > (int)(8 * sizeof(W))) {
        return false;
    }
    *layout = sizeof(W) == 8 ? word_widen(*layout) : *layout;
    return true;
}

word_need need_make(triple lo, triple hi, int batches) {
    word_need n = {};
    n.lo = lo;
    n.hi = hi;
    n.batches = batches;
    n.stride = n.reach = triple_make(4, 4, 4);
    return n;
}

// Rows `used` of `capacity`, in [lo, hi]; what lies beyond the count would be good rows too, so
// that reading it shows.
rows_of rows_random(random_state *random, triple lo, triple hi, int batches, int32_t used,
                    int32_t capacity, bool points) {
    rows_of r;
    r.count = used;
    r.in = {};
    r.in.rows = capacity;
    r.in.columns = random_int(random, 3, 6);
    const float size[3] = {0.05f, 0.1f, 0.25f};
    for (int a = 0; a < 3; ++a) {
        r.in.size[a] = size[random_int(random, 0, 2)];
        r.in.origin[a] = random_float(random);
    }
    for (int32_t i = 0; i < capacity; ++i) {
        const int v[3] = {random_int(random, lo.x, hi.x), random_int(random, lo.y, hi.y),
                          random_int(random, lo.z, hi.z)};
        for (int c = 0; c < r.in.columns; ++c) {
            if (points) { // the middle of the voxel and a bit
                float within = 0.5f + 0.4f * random_float(random);
                r.points.push_back(c < 3 ? ((float)v[c] + within) * r.in.size[c] + r.in.origin[c]
                                         : random_float(random));
            } else {
                r.coords.push_back(c < 3 ? v[c] : random_int(random, -9, 9));
            }
        }
        if (batches > 1) {
            r.batch.push_back(random_int(random, 0, batches - 1));
        }
    }
    return r;
}

rows_of rows_coords(const std::vector<voxel> &voxels) {
    rows_of r;
    r.count = (int32_t)voxels.size();
    r.in = {};
    r.in.rows = r.count;
    r.in.columns = 3;
    for (const voxel &v : voxels) {
        r.coords.insert(r.coords.end(), {v.x, v.y, v.z});
        r.batch.push_back(v.batch);
    }
    return r;
}

// ---- tests
// ---------------------------------------------------------------------------------------

template <typename W>
void check_every_size() {
    random_state random = random_make(1);
    for_sizes([&](int n) {
        for (int points = 0; points < 2; ++points) {
            int side = 4 + n % 29; // few voxels for many rows, and the other way round
            triple lo = triple_make(-side, -3, -2), hi = triple_make(side, side, 5);
            word_layout layout;
            REQUIRE(layout_make<W>(need_make(lo, hi, 2), &layout));
            // Full buffers, and some room with rows in it that are not to be read.
            for (int room : {0, 37}) {
                int32_t rows = n + room > 0 ? n + room : 1;
                rows_of r = rows_random(&random, lo, hi, 2, n, rows, points != 0);
                snprintf(label, sizeof label, "%d of %d rows", n, rows);
                check_both<W>(&layout, &r, rows);
            }
        }
    });
}

DEVICE_TEST(gpu_voxelize_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

template <typename W>
void check_random_scenes(int scenes) {
    for (int seed = 0; seed < scenes; ++seed) {
        random_state random = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        triple lo = triple_make(random_int(&random, -300, 300), random_int(&random, -300, 300),
                                random_int(&random, -40, 40));
        triple hi =
            triple_make(lo.x + random_int(&random, 0, 400), lo.y + random_int(&random, 0, 40),
                        lo.z + random_int(&random, 0, 9));
        int batches = random_int(&random, 1, 5);
        word_layout layout;
        REQUIRE(layout_make<W>(need_make(lo, hi, batches), &layout));
        int32_t rows = random_int(&random, 1, 3000), used = random_int(&random, 0, rows);
        bool points = random_int(&random, 0, 1) != 0;
        rows_of r = rows_random(&random, lo, hi, batches, used, rows, points);
        r.in.duplicates = random_int(&random, 0, 1) ? duplicates_report : duplicates_merge;
        // Some rows are bad in some way.
        for (int bad = random_int(&random, -3, 3); bad > 0; --bad) {
            int32_t row = random_int(&random, 0, rows - 1);
            int64_t at = (int64_t)row * r.in.columns + random_int(&random, 0, 2);
            if (points) {
                const float wrong[] = {NAN, INFINITY, 1e30f, -1e30f};
                r.points[(size_t)at] = wrong[random_int(&random, 0, 3)];
            } else {
                r.coords[(size_t)at] = random_int(&random, 0, 1) ? INT32_MIN : INT32_MAX;
            }
            if (batches > 1) {
                r.batch[(size_t)random_int(&random, 0, rows - 1)] =
                    random_int(&random, 0, 1) ? -1 : batches;
            }
        }
        int32_t capacity = random_int(&random, 0, 2) ? rows : random_int(&random, 1, rows);
        snprintf(label, sizeof label, "%d bits, seed %d: %d of %d rows, capacity %d",
                 (int)(8 * sizeof(W)), seed, used, rows, capacity);
        check_both<W>(&layout, &r, capacity);
    }
}

DEVICE_TEST(gpu_voxelize_random_scenes) {
    check_random_scenes<uint32_t>(test_quick() ? 8 : 200);
    check_random_scenes<uint64_t>(test_quick() ? 8 : 200);
}

// Every corner of the fields for every batch index, and every neighbour that is just outside.
template <typename W>
void check_field_ends(word_need need, int bits) {
    word_layout layout;
    REQUIRE(layout_make<W>(need, &layout));
    CHECK_EQUAL(word_bits(&layout), bits); // no bit to spare: a carry would show
    const int x[] = {layout.lo.x, layout.hi.x}, y[] = {layout.lo.y, layout.hi.y},
              z[] = {layout.lo.z, layout.hi.z};
    std::vector<voxel> inside, outside;
    for (int corner = 0; corner < 8; ++corner) {
        for (int batch : {0, need.batches - 1}) {
            voxel v = {batch, x[corner & 1], y[corner >> 1 & 1], z[corner >> 2]};
            inside.push_back(v);
            outside.push_back({batch, v.x + (corner & 1 ? 1 : -1), v.y, v.z});
            outside.push_back({batch, v.x, v.y + (corner >> 1 & 1 ? 1 : -1), v.z});
            outside.push_back({batch, v.x, v.y, v.z + (corner >> 2 ? 1 : -1)});
            outside.push_back({-1, v.x, v.y, v.z});
            outside.push_back({need.batches, v.x, v.y, v.z});
            outside.push_back({INT32_MIN, v.x, v.y, v.z});
            outside.push_back({batch, INT32_MAX, v.y, v.z});
            outside.push_back({batch, v.x, INT32_MIN, v.z});
        }
    }
    snprintf(label, sizeof label, "inside, %d bits", bits);
    rows_of good = rows_coords(inside);
    outcome<W> all = check_both<W>(&layout, &good, (int32_t)inside.size());
    CHECK_EQUAL(all.count, need.batches > 1 ? 16 : 8);
    CHECK_OK(device_status_read(&all.trouble));

    snprintf(label, sizeof label, "outside, %d bits", bits);
    rows_of bad = rows_coords(outside);
    outcome<W> none = check_both<W>(&layout, &bad, (int32_t)outside.size());
    CHECK_EQUAL(none.count, 0);

    // One bad row among good ones is named.
    for (size_t i = 0; i < outside.size(); i += 3) {
        std::vector<voxel> mixed = inside;
        mixed.insert(mixed.begin() + 5, outside[i]);
        rows_of r = rows_coords(mixed);
        outcome<W> o = check_both<W>(&layout, &r, (int32_t)mixed.size());
        CHECK_EQUAL(o.voxel[5], -1);
        CHECK_EQUAL(device_status_read(&o.trouble).detail, 5);
    }
}

DEVICE_TEST(gpu_voxelize_field_ends) {
    const triple one = {1, 1, 1};
    word_need need32 = {{-600, -1, 5}, {900, 300, 700}, 4, one, one};
    check_field_ends<uint32_t>(need32, 32);
    word_need alone32 = {{-1000, -1, 5}, {3000, 300, 700}, 1, one, one};
    check_field_ends<uint32_t>(alone32, 31);
    word_need need64 = {{-400000, -3, -99}, {600000, 2000000, 100000}, 9, one, one};
    check_field_ends<uint64_t>(need64, 62);
    word_need full64 = {{-4000000, -1000000, -40}, {4000000, 1000000, 60000}, 9, one, one};
    check_field_ends<uint64_t>(full64, 64);
    check_field_ends<uint64_t>(need32, 32); // 32 bits of information in a wide word
}

DEVICE_TEST(gpu_voxelize_rows_that_are_not_finite) {
    random_state random = random_make(5);
    triple lo = triple_make(0, 0, 0), hi = triple_make(30, 30, 30);
    word_layout layout;
    REQUIRE(layout_make<uint32_t>(need_make(lo, hi, 1), &layout));
    const float wrong[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (float value : wrong) {
        for (int32_t row : {0, 99, 255, 256, 299}) {
            rows_of r = rows_random(&random, lo, hi, 1, 300, 300, true);
            r.points[(size_t)(row * r.in.columns + row % 3)] = value;
            outcome<uint32_t> o = check_both<uint32_t>(&layout, &r, 300);
            CHECK_EQUAL(device_status_read(&o.trouble).code, status_not_finite);
            CHECK_EQUAL(device_status_read(&o.trouble).detail, row);
            CHECK_EQUAL(o.order.size(), 299u);
        }
    }
    // A NaN in a column that is no coordinate is the caller's.
    rows_of r = rows_random(&random, lo, hi, 1, 300, 300, true);
    for (size_t i = 3; i < r.points.size() && r.in.columns > 3; i += (size_t)r.in.columns) {
        r.points[i] = NAN;
    }
    outcome<uint32_t> o = check_both<uint32_t>(&layout, &r, 300);
    CHECK_OK(device_status_read(&o.trouble));
    // No good row at all.
    rows_of none = rows_random(&random, lo, hi, 1, 300, 300, true);
    for (float &p : none.points) {
        p = NAN;
    }
    CHECK_EQUAL(check_both<uint32_t>(&layout, &none, 300).count, 0);
    // Far, but finite: an index that is no int.
    for (float far : {1e9f, -1e9f, 3e38f, -3e38f}) {
        rows_of away = rows_random(&random, lo, hi, 1, 300, 300, true);
        away.points[0] = far;
        outcome<uint32_t> range = check_both<uint32_t>(&layout, &away, 300);
        CHECK_EQUAL(device_status_read(&range.trouble).code, status_out_of_range);
    }
}

// Points exactly on the faces of voxels: the quotient decides, and both sides divide alike.
DEVICE_TEST(gpu_voxelize_points_on_faces) {
    const float sizes[] = {0.05f, 0.1f, 0.3f, 1.0f, 1.0f / 3.0f};
    for (float size : sizes) {
        rows_of r;
        r.in = {};
        r.in.columns = 3;
        for (int i = -400; i <= 400; ++i) {
            float face = (float)i * size;
            for (float p : {face, nextafterf(face, -1e9f), nextafterf(face, 1e9f)}) {
                r.points.insert(r.points.end(), {p, -p, p + 0.25f});
            }
        }
        r.count = r.in.rows = (int32_t)(r.points.size() / 3);
        for (int a = 0; a < 3; ++a) {
            r.in.size[a] = size;
            r.in.origin[a] = a == 2 ? 0.25f : 0.0f;
        }
        word_layout layout;
        REQUIRE(layout_make<uint64_t>(
            need_make(triple_make(-500, -500, -500), triple_make(500, 500, 500), 1), &layout));
        snprintf(label, sizeof label, "size %g", size);
        outcome<uint64_t> o = check_both<uint64_t>(&layout, &r, r.in.rows);
        CHECK_OK(device_status_read(&o.trouble));
        CHECK(o.count > 800);
    }
}

template <typename W>
void check_duplicates() {
    triple lo = triple_make(-2, -2, -2), hi = triple_make(30, 30, 30);
    word_layout layout;
    REQUIRE(layout_make<W>(need_make(lo, hi, 3), &layout));
    for_sizes([&](int n) {
        if (n == 0) {
            return;
        }
        // One voxel, all rows in their order.
        snprintf(label, sizeof label, "%d times the same", n);
        rows_of same_row = rows_coords(std::vector<voxel>((size_t)n, voxel{2, -1, 30, 0}));
        outcome<W> o = check_both<W>(&layout, &same_row, 1);
        CHECK_EQUAL(o.count, 1);
        CHECK_OK(device_status_read(&o.trouble)); // merging is what was asked for
        CHECK(o.order.size() == (size_t)n && o.order.back() == n - 1);
        same_row.in.duplicates = duplicates_report;
        o = check_both<W>(&layout, &same_row, 1);
        CHECK_EQUAL(device_status_read(&o.trouble).code, n > 1 ? status_duplicate : status_ok);
        CHECK_EQUAL(device_status_read(&o.trouble).detail, n > 1 ? 1 : 0);

        // All different but two, far apart: the later one is reported.
        std::vector<voxel> voxels;
        for (int i = 0; i < n && i < 20000; ++i) {
            voxels.push_back({i % 3, i / 3 % 31, i / 93 % 31, i / 2883});
        }
        snprintf(label, sizeof label, "two of %zu the same", voxels.size());
        rows_of distinct = rows_coords(voxels);
        distinct.in.duplicates = duplicates_report;
        o = check_both<W>(&layout, &distinct, distinct.in.rows);
        CHECK_OK(device_status_read(&o.trouble));
        if (voxels.size() > 1) {
            voxels.back() = voxels[0];
            rows_of twice = rows_coords(voxels);
            twice.in.duplicates = duplicates_report;
            o = check_both<W>(&layout, &twice, twice.in.rows);
            CHECK_EQUAL(device_status_read(&o.trouble).code, status_duplicate);
            CHECK_EQUAL(device_status_read(&o.trouble).detail, (int64_t)voxels.size() - 1);
        }
    });
}

DEVICE_TEST(gpu_voxelize_duplicates) {
    check_duplicates<uint32_t>();
    check_duplicates<uint64_t>();
}

template <typename W>
void check_capacity() {
    triple lo = triple_make(0, 0, 0), hi = triple_make(60, 60, 60);
    word_layout layout;
    REQUIRE(layout_make<W>(need_make(lo, hi, 1), &layout));
    random_state random = random_make(9);
    for_sizes([&](int n) {
        rows_of r = rows_random(&random, lo, hi, 1, n, n > 0 ? n : 1, false);
        int32_t voxels = voxelize_on_host<W>(&layout, &r, r.in.rows).count;
        for (int32_t capacity : {voxels, voxels - 1, voxels - 2, voxels / 2, 1}) {
            if (capacity < 1) {
                continue;
            }
            snprintf(label, sizeof label, "%d voxels, capacity %d", voxels, capacity);
            outcome<W> o = check_both<W>(&layout, &r, capacity);
            CHECK_EQUAL(o.count, capacity < voxels ? capacity : voxels);
            status s = device_status_read(&o.trouble);
            CHECK_EQUAL(s.code, capacity < voxels ? status_capacity : status_ok);
            CHECK_EQUAL(s.detail, capacity < voxels ? voxels : 0);
        }
    });
}

DEVICE_TEST(gpu_voxelize_full_capacity_and_one_more) {
    check_capacity<uint32_t>();
    check_capacity<uint64_t>();
}

// More rows announced than there is room for: the room counts, and the status word says so.
DEVICE_TEST(gpu_voxelize_count_beyond_rows) {
    random_state random = random_make(11);
    triple lo = triple_make(0, 0, 0), hi = triple_make(20, 20, 20);
    word_layout layout;
    REQUIRE(layout_make<uint32_t>(need_make(lo, hi, 1), &layout));
    for (int32_t rows : {1, 256, 700}) {
        rows_of r = rows_random(&random, lo, hi, 1, rows, rows, rows == 256);
        outcome<uint32_t> exact = voxelize_on_host<uint32_t>(&layout, &r, rows);
        r.count = rows + 1000;
        exact.trouble.flags |= device_flag_capacity;
        exact.trouble.needed = (uint32_t)r.count;
        outcome<uint32_t> o = check_both<uint32_t>(&layout, &r, rows);
        CHECK_EQUAL(difference(o, exact), "");
    }
}

// The status word keeps what it has, the first row of each kind of trouble, until it is cleared.
DEVICE_TEST(gpu_device_status_accumulates) {
    triple lo = triple_make(0, 0, 0), hi = triple_make(20, 20, 20);
    word_layout layout;
    REQUIRE(layout_make<uint32_t>(need_make(lo, hi, 1), &layout));
    random_state random = random_make(12);
    rows_of r = rows_random(&random, lo, hi, 1, 100, 100, false);
    device_run<uint32_t> d = device_run_make<uint32_t>(&r, 100);
    r.coords[(size_t)(70 * r.in.columns)] = -1000;
    device_copy_in((int32_t *)d.in.coords, r.coords.data(), (int64_t)r.coords.size());
    CHECK_OK(device_run_start(&layout, &d));
    device_status trouble = device_value(d.trouble);
    CHECK_EQUAL(device_status_read(&trouble).detail, 70);

    r.coords[(size_t)(30 * r.in.columns)] = -1000; // an earlier one
    device_copy_in((int32_t *)d.in.coords, r.coords.data(), (int64_t)r.coords.size());
    CHECK_OK(device_run_start(&layout, &d));
    trouble = device_value(d.trouble);
    CHECK_EQUAL(device_status_read(&trouble).detail, 30);

    r.coords[(size_t)(30 * r.in.columns)] = r.coords[(size_t)(70 * r.in.columns)] = 0;
    device_copy_in((int32_t *)d.in.coords, r.coords.data(), (int64_t)r.coords.size());
    CHECK_OK(device_run_start(&layout, &d));
    trouble = device_value(d.trouble); // nothing new, nothing lost
    CHECK_EQUAL(device_status_read(&trouble).detail, 30);

    CHECK_OK(device_status_clear(d.trouble, stream_get()));
    trouble = device_value(d.trouble);
    const device_status nothing = {};
    CHECK_EQUAL(memcmp(&trouble, &nothing, sizeof nothing), 0);
    CHECK_OK(device_run_start(&layout, &d));
    trouble = device_value(d.trouble);
    CHECK_OK(device_status_read(&trouble));
    CHECK_STATUS(device_status_clear(nullptr, stream_get()), status_null_pointer);
}

DEVICE_TEST(gpu_voxelize_refuses) {
    random_state random = random_make(13);
    triple lo = triple_make(0, 0, 0), hi = triple_make(20, 20, 20);
    word_layout layout, wide;
    REQUIRE(layout_make<uint32_t>(need_make(lo, hi, 1), &layout));
    wide = word_widen(layout);
    rows_of r = rows_random(&random, lo, hi, 1, 100, 100, true);
    const device_run<uint32_t> d = device_run_make<uint32_t>(&r, 100);
    const voxelize_args<uint32_t> good = {&layout, &d.in, d.set, d.rows, d.trouble};
    const size_t n = d.scratch_bytes;
    auto start = [&](const voxelize_args<uint32_t> &args, char *scratch, size_t bytes) {
        return voxelize(&args, scratch, bytes, stream_get());
    };
    const voxelize_args<uint32_t> *none = nullptr;
    CHECK_STATUS(voxelize(none, d.scratch, n, stream_get()), status_null_pointer);
    CHECK_STATUS(start(good, nullptr, n), status_null_pointer);
    CHECK_STATUS(start(good, d.scratch, n - 1), status_workspace);
    CHECK_EQUAL(start(good, d.scratch, n - 1).detail, (int64_t)n);
    CHECK_STATUS(start(good, d.scratch + 1, n), status_alignment);
    // One of each check of tests/host/voxel.cpp.
    voxelize_args<uint32_t> bad = good;
    bad.layout = &wide;
    CHECK_STATUS(start(bad, d.scratch, n), status_unsupported);
    bad = good;
    bad.input = nullptr;
    CHECK_STATUS(start(bad, d.scratch, n), status_null_pointer);
    voxel_input both = d.in;
    both.coords = both.count;
    bad.input = &both;
    CHECK_STATUS(start(bad, d.scratch, n), status_unsupported);
    bad = good;
    bad.set.words = misaligned(bad.set.words);
    CHECK_STATUS(start(bad, d.scratch, n), status_alignment);
    bad = good;
    bad.rows.begin = nullptr;
    CHECK_STATUS(start(bad, d.scratch, n), status_null_pointer);
    bad = good;
    bad.trouble = nullptr;
    CHECK_STATUS(start(bad, d.scratch, n), status_null_pointer);
    size_t bytes = 0;
    CHECK_STATUS(voxelize_workspace<uint32_t>(nullptr, 100, &bytes), status_null_pointer);
    CHECK_STATUS(voxelize_workspace<uint32_t>(&d.in, 100, nullptr), status_null_pointer);
    CHECK_STATUS(voxelize_workspace<uint32_t>(&d.in, 0, &bytes), status_bad_size);
    // A refused call has done nothing.
    CHECK(device_untouched(d.set.words, 0, 100));
    CHECK(device_untouched(d.rows.voxel, 0, 100));
    CHECK(device_untouched(d.rows.order, 0, 100));
    CHECK(device_untouched(d.rows.begin, 0, 101));
    CHECK(device_untouched(d.scratch, 0, (int64_t)n));
}

// ---- real scans
// ----------------------------------------------------------------------------------

bool data_present() {
    return !reference_file("kitti00_000000_5cm.vox32").empty();
}

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

// The scan as rows, and what a layout for it needs. A size of 0: the file holds voxels.
void rows_read(const char *name, int columns, float size, rows_of *r, word_need *need) {
    r->in = {};
    r->in.columns = columns;
    *need = need_make({}, {}, 1);
    need->stride = need->reach = triple_make(16, 16, 16); // K = 3 at stride 16
    if (size > 0) {
        r->points = file_as<float>(name);
        for (float &s : r->in.size) {
            s = size;
        }
        float lo[3], hi[3];
        bounds_of(r->points, columns, lo, hi);
        CHECK_OK(voxel_bounds(lo, hi, r->in.size, r->in.origin, need));
    } else {
        r->coords = file_as<int32_t>(name);
        r->in.duplicates = duplicates_report;
        int32_t lo[3], hi[3];
        bounds_of(r->coords, columns, lo, hi);
        need->lo = triple_make(lo[0], lo[1], lo[2]);
        need->hi = triple_make(hi[0], hi[1], hi[2]);
    }
    r->count = r->in.rows = (int32_t)((r->points.size() + r->coords.size()) / (size_t)columns);
}

DEVICE_TEST(gpu_voxelize_real_scans) {
    if (!data_present()) {
        SKIP("no data/");
    }
    struct {
        const char *name;
        int columns;
        float size;
        int32_t voxels; // 0: whatever the host finds
    } const scans[] = {
        {"kitti00_000000.bin", 4, 0.05f, 91767},   {"kitti00_000000_5cm.vox32", 3, 0, 91766},
        {"lone_star_5cm.vox32", 3, 0, 345087},     {"pcl_room_scan1.xyz32", 3, 0.02f, 0},
        {"pcl_room_scan1_2cm.vox32", 3, 0, 41484}, {"nuscenes_n015.pcd.bin", 5, 0.05f, 0},
    };
    for (auto &s : scans) {
        if (test_quick() && &s != scans) {
            break;
        }
        rows_of r;
        word_need need;
        word_layout narrow, wide;
        rows_read(s.name, s.columns, s.size, &r, &need);
        REQUIRE(r.count > 0);
        REQUIRE(layout_make<uint64_t>(need, &wide));
        snprintf(label, sizeof label, "%s", s.name);
        outcome<uint64_t> w = check_both<uint64_t>(&wide, &r, r.in.rows);
        CHECK_OK(device_status_read(&w.trouble));
        CHECK_EQUAL(w.count, s.voxels ? s.voxels : w.count);
        bool fits = layout_make<uint32_t>(need, &narrow);
        CHECK(fits || !strstr(s.name, "5cm")); // the targets are words of 32 bits
        if (fits) {
            CHECK_EQUAL(check_both<uint32_t>(&narrow, &r, r.in.rows).count, w.count);
        }
    }
}

// ---- features
// ------------------------------------------------------------------------------------

// Features of voxelised rows on both sides, bit for bit; nothing is written beyond the voxels.
// args: kind, columns, channels and type.
void check_features(const outcome<uint64_t> &o, int32_t rows_capacity, int32_t capacity,
                    const std::vector<float> &values, voxel_features_args<uint64_t> args) {
    outcome<uint64_t> host = o; // not const
    const int64_t pitch = (int64_t)args.channels * numeric_size(args.type);
    const int64_t used = o.count * pitch, total = capacity * pitch;
    std::vector<char> wanted((size_t)used + 1);
    args.values = values.data();
    args.rows = {nullptr, host.order.data(), host.begin.data()};
    args.set = {nullptr, &host.count, capacity};
    args.features = wanted.data();
    if (o.count > 0) { // an empty vector has no pointer to give
        CHECK_OK(voxel_features_host(&args));
    }
    std::vector<int32_t> order = o.order, begin = o.begin;
    order.resize((size_t)rows_capacity, 0);
    begin.resize((size_t)capacity + 1, INT32_MAX); // beyond the voxels: a trap
    args.values = device_upload(values.data(), (int64_t)values.size());
    args.rows = {nullptr, device_upload(order.data(), rows_capacity),
                 device_upload(begin.data(), capacity + 1)};
    args.set.count = device_upload(&o.count, 1);
    char *features = device_new<char>(total);
    args.features = features;
    CHECK_OK(voxel_features(&args, stream_get()));
    std::vector<char> got = fetched(features, used);
    CHECK(used == 0 || memcmp(got.data(), wanted.data(), (size_t)used) == 0);
    CHECK(device_untouched(features, used, total));
}

DEVICE_TEST(gpu_voxel_features_match) {
    random_state random = random_make(21);
    triple lo = triple_make(-5, -5, -5), hi = triple_make(5, 5, 5);
    word_layout layout;
    REQUIRE(layout_make<uint64_t>(need_make(lo, hi, 2), &layout));
    const int channels_of[] = {1, 2, 3, 4, 5, 8, 31, 64, 65};
    int turn = 0;
    for_sizes([&](int n) {
        for (numeric type : {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16}) {
            for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first}) {
                int32_t rows = n > 0 ? n : 1;
                rows_of r = rows_random(&random, lo, hi, 2, n, rows, false);
                // A set that was clamped has features too.
                int32_t capacity = turn % 3 == 2 ? rows / 2 + 1 : rows;
                outcome<uint64_t> o = voxelize_on_host<uint64_t>(&layout, &r, capacity);
                voxel_features_args<uint64_t> args = {};
                args.kind = kind;
                args.channels = n > 5000 ? 3 : channels_of[turn++ % 9];
                args.columns = args.channels + turn % 4;
                args.type = type;
                std::vector<float> values((size_t)rows * (size_t)args.columns);
                for (float &v : values) {
                    v = 100.0f * random_float(&random);
                }
                check_features(o, rows, capacity, values, args);
            }
        }
    });
}

// One voxel with very many rows, whose sum must come in the documented order all the same.
DEVICE_TEST(gpu_voxel_features_of_one_crowded_voxel) {
    random_state random = random_make(22);
    word_layout layout;
    REQUIRE(layout_make<uint64_t>(need_make({0, 0, 0}, {9, 9, 9}, 1), &layout));
    int n = test_quick() ? 300 : 20000;
    std::vector<voxel> voxels((size_t)n, voxel{0, 3, 3, 3});
    voxels[(size_t)n / 2].x = 4;
    rows_of r = rows_coords(voxels);
    outcome<uint64_t> o = voxelize_on_host<uint64_t>(&layout, &r, n);
    CHECK_EQUAL(o.count, 2);
    std::vector<float> values((size_t)n * 4);
    for (float &v : values) {
        v = random_float(&random) * (float)(1 << random_int(&random, 0, 12)); // order matters
    }
    voxel_features_args<uint64_t> args = {};
    args.columns = 4;
    for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first}) {
        args.kind = kind;
        args.channels = 4;
        args.type = numeric_f32;
        check_features(o, n, n, values, args);
        args.channels = 3;
        args.type = numeric_f16;
        check_features(o, n, n, values, args);
    }
}

DEVICE_TEST(gpu_voxel_features_of_a_real_scan) {
    if (!data_present()) {
        SKIP("no data/");
    }
    rows_of r;
    word_need need;
    word_layout layout;
    rows_read("kitti00_000000.bin", 4, 0.05f, &r, &need);
    REQUIRE(layout_make<uint64_t>(need, &layout));
    outcome<uint64_t> o = voxelize_on_host<uint64_t>(&layout, &r, r.in.rows);
    voxel_features_args<uint64_t> args = {};
    args.columns = args.channels = 4;
    for (numeric type : {numeric_f32, numeric_f16, numeric_bf16}) {
        args.type = type;
        check_features(o, r.in.rows, r.in.rows, r.points, args);
    }
    args.kind = voxel_feature_first;
    args.type = numeric_f32;
    check_features(o, r.in.rows, r.in.rows, r.points, args);
}

DEVICE_TEST(gpu_voxel_features_refuses) {
    int32_t one = 1;
    int32_t *rows = device_zeros<int32_t>(8);
    float *out = device_new<float>(12);
    voxel_features_args<uint32_t> good = {};
    good.values = device_zeros<float>(12);
    good.columns = good.channels = 3;
    good.rows = {nullptr, rows, rows};
    good.set = {nullptr, device_upload(&one, 1), 4};
    good.type = numeric_f32;
    good.features = out;
    voxel_features_args<uint32_t> a;
#define REFUSED(code, name, change)                                                                \
    do {                                                                                           \
        a = good;                                                                                  \
        change;                                                                                    \
        const status s = voxel_features(&a, stream_get());                                         \
        CHECK_STATUS(s, code);                                                                     \
        CHECK_EQUAL(s.subject, name);                                                              \
    } while (0)
    REFUSED(status_null_pointer, "values", a.values = nullptr);
    REFUSED(status_null_pointer, "set.count", a.set.count = nullptr);
    REFUSED(status_null_pointer, "features", a.features = nullptr);
    REFUSED(status_null_pointer, "rows.order", a.rows.order = nullptr);
    REFUSED(status_null_pointer, "rows.begin", a.rows.begin = nullptr);
    REFUSED(status_alignment, "values", a.values = misaligned(good.values));
    REFUSED(status_alignment, "set.count", a.set.count = misaligned(good.set.count));
    REFUSED(status_alignment, "rows.order", a.rows.order = misaligned(rows));
    REFUSED(status_alignment, "rows.begin", a.rows.begin = misaligned(rows));
    for (numeric type : {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16}) {
        REFUSED(status_alignment, "features", (a.type = type, a.features = misaligned(out)));
        CHECK_EQUAL(voxel_features(&a, stream_get()).detail, numeric_size(type));
    }
    REFUSED(status_bad_size, "channels", a.channels = 0);
    REFUSED(status_bad_size, "channels", a.channels = -1);
    REFUSED(status_bad_size, "columns", a.columns = 2);
    REFUSED(status_bad_size, "set.capacity", a.set.capacity = 0);
    REFUSED(status_unsupported, "type", a.type = (numeric)17);
#undef REFUSED
    CHECK_STATUS(voxel_features<numeric_f16>(&good, stream_get()),
                 status_unsupported); // another type than the code is compiled for
    CHECK(device_untouched(out, 0, 12));
}

// ---- the test, tested
// ----------------------------------------------------------------------------

DEVICE_TEST(gpu_voxel_planted_errors_are_found) {
    random_state random = random_make(31);
    triple lo = triple_make(0, 0, 0), hi = triple_make(9, 9, 9);
    word_layout layout;
    REQUIRE(layout_make<uint32_t>(need_make(lo, hi, 1), &layout));
    rows_of r = rows_random(&random, lo, hi, 1, 500, 500, false);
    const outcome<uint32_t> wanted = voxelize_on_host<uint32_t>(&layout, &r, 500);
    device_run<uint32_t> d = device_run_make<uint32_t>(&r, 500);
    REQUIRE_OK(device_run_start(&layout, &d));
    const outcome<uint32_t> got = device_run_fetch(&d);
    CHECK_EQUAL(difference(got, wanted), "");
    outcome<uint32_t> bad = got;
    bad.words[17] += 1;
    CHECK(strstr(difference(bad, wanted), "set.words[17]"));
    bad = got;
    bad.words.back() = 0; // beyond the count: must be "no voxel"
    CHECK(strstr(difference(bad, wanted), "set.words[499]"));
    bad = got;
    bad.voxel[499] -= 1;
    CHECK(strstr(difference(bad, wanted), "rows.voxel[499]"));
    bad = got;
    std::swap(bad.order[0], bad.order[1]);
    CHECK(strstr(difference(bad, wanted), "rows.order[0]"));
    bad = got;
    bad.begin.back() += 1;
    CHECK(strstr(difference(bad, wanted), "rows.begin"));
    bad = got;
    bad.count -= 1;
    CHECK(strstr(difference(bad, wanted), "set.count"));
    bad = got;
    bad.trouble.needed = 1;
    CHECK(strstr(difference(bad, wanted), "trouble"));
    // An input that lost a row gives another result.
    r.coords[(size_t)(250 * r.in.columns)] += r.coords[(size_t)(250 * r.in.columns)] < 9 ? 1 : -1;
    CHECK(difference(got, voxelize_on_host<uint32_t>(&layout, &r, 500))[0] != 0);
}

} // namespace
