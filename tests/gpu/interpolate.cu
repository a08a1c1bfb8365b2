// tests/gpu/interpolate.cu: interpolation on the GPU against sums in double over all voxels, and
// bit for bit that of the host loops.
#include "../../spira/interpolate.cuh"
#include "../../spira/rows.cuh"
#include "../support/device.cuh"
#include "../support/gpu.cuh"
#include "../support/points.h"

using namespace spira;

namespace {

template <typename T>
T *upload(const std::vector<T> &host) {
    return host.empty() ? nullptr : device_upload(host.data(), (int64_t)host.size());
}

// The features of the points; rows from the count on are left as they are.
template <typename W>
char *blend(const points_problem<W> *p, const interpolate_args<W> &a) {
    char *out = device_new<char>((int64_t)a.rows * p->channels * numeric_size(p->type));
    const char *in = upload(p->stored);
    const int64_t rows = max_of(p->voxels, 1);
    if (a.weight) {
        const row_blend_args sums = {in,      rows,     p->channels, p->type, 8,
                                     a.index, a.weight, a.count,     a.rows,  out};
        CHECK_OK(row_blend(&sums, stream_get()));
    } else {
        const row_gather_args copies = {in,      rows,    p->channels, 0,  p->type,
                                        a.index, a.count, a.rows,      out};
        CHECK_OK(row_gather(&copies, stream_get()));
    }
    return out;
}

template <typename W>
points_outcome<W> run_device(const points_problem<W> *p) {
    points_outcome<W> o = {};
    interpolate_args<W> a = p->args;
    const int64_t neighbours = interpolate_neighbours(a.kind);
    a.layout = &p->layout;
    a.set.words = upload(p->words);
    a.set.count = device_upload(&p->voxels, 1);
    a.points = upload(p->points);
    a.batch = upload(p->batch);
    a.count = device_upload(&p->count, 1);
    a.index = device_new_poisoned<int32_t>(a.rows * neighbours);
    a.weight = neighbours == 8 ? device_new_poisoned<float>(a.rows * neighbours) : nullptr;
    a.trouble = device_zeros<device_status>(1);
    CHECK_OK(interpolate_find(&a, stream_get()));
    const int64_t rows = count_clamp(p->count, a.rows);
    const int64_t bytes = (int64_t)p->channels * numeric_size(p->type);
    const char *out = blend(p, a);
    o.index.resize((size_t)(rows * neighbours));
    o.out.resize((size_t)(rows * bytes));
    device_copy_out(o.index.data(), a.index, rows * neighbours);
    device_copy_out(o.out.data(), out, rows * bytes);
    CHECK(device_untouched(a.index, rows * neighbours, a.rows * neighbours));
    CHECK(device_untouched(out, rows * bytes, a.rows * bytes));
    if (a.weight) {
        o.weight.resize((size_t)(rows * neighbours));
        device_copy_out(o.weight.data(), a.weight, rows * neighbours);
    }
    o.trouble = device_value(a.trouble);
    return o;
}

// Index and weights as the host loop finds them.
template <typename W>
void check_host(points_problem<W> *p, const points_outcome<W> &o) {
    points_outcome<W> host = {};
    interpolate_args<W> a = p->args;
    const size_t all = (size_t)(a.rows * interpolate_neighbours(a.kind));
    host.index.resize(all);
    host.weight.resize(all);
    a.layout = &p->layout;
    a.set.words = p->words.data();
    a.set.count = &p->voxels;
    a.points = p->points.data();
    a.batch = p->batch.empty() ? nullptr : p->batch.data();
    a.count = &p->count;
    a.index = host.index.data();
    a.weight = a.kind == interpolate_nearest ? nullptr : host.weight.data();
    a.trouble = &host.trouble;
    CHECK_OK(interpolate_find_host(&a));
    CHECK(std::equal(o.index.begin(), o.index.end(), host.index.begin()));
    CHECK(std::equal(o.weight.begin(), o.weight.end(), host.weight.begin()));
}

template <typename W>
void check_random(uint64_t seed, int cases) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        points_problem<W> p = points_random<W>(&r);
        const points_outcome<W> o = run_device(&p);
        points_judge(&p, o);
        check_host(&p, o);
        guarded_finish();
    }
}

DEVICE_TEST(gpu_interpolate_random) {
    check_random<uint32_t>(1, test_quick() ? 15 : 100);
    check_random<uint64_t>(2, test_quick() ? 15 : 100);
}

} // namespace
