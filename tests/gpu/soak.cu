// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/soak.cu: what an engine meets in its life.
//
// For long: ten thousand frames of changing sizes through one CUDA graph: among them are empty
// frames, single voxels and frames over capacity. Each frame's count and status are checked; for a
// sample of them the whole result is compared with a run without the graph.
//
// On a GPU that others use: everything that launches kernels, on few multiprocessors, ends and
// gives the same bytes as on all of them. A kernel whose thread blocks wait for others that may not
// have begun hangs there.
#include "../../spira/conv_grad.cuh"
#include "../support/nets.cuh"
#include "../support/orders.h"

#include <chrono>
#include <cuda.h>
#include <functional>

using namespace nets;

namespace {

// The format of these tests.
const numeric soak_type = numeric_f16;

template <typename W>
using soak_net = device_net<W>;

// Every second frame is of an ordinary size. The others are empty, a single voxel, just full, one
// over, or far over capacity.
int32_t soak_voxels(int number, int32_t most) {
    random_state r = random_make(9000 + (uint64_t)number);
    switch (random_int(&r, 0, 9)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return most;
    case 3:
        return most + 1;
    case 4:
        return random_int(&r, most + 2, 2 * most);
    }
    return random_int(&r, 0, most);
}

// No two frames have the same voxels or values.
template <typename W>
frame soak_frame(const soak_net<W> *d, int number) {
    return frame_make<W>(100 + (uint64_t)number, &d->plan->layout,
                         soak_voxels(number, d->plan->limits.voxels), d->net->input_channels);
}

} // namespace

// A small network with one of everything: strided, submanifold, dilated and transposed
// convolutions, concatenations, residuals, both kinds of pooling. A sample of the frames is to the
// bit that of a plan without a graph, on one stream, in memory without a past.
DEVICE_TEST(gpu_soak_one_graph) {
    const int frames = test_quick() ? 200 : 10000, warm = frames / 10, step = test_quick() ? 7 : 47;
    network n;
    reference_net_zoo(&n);
    net_limits limits = limits_make(&n, soak_type, test_quick() ? 150 : 1100, false);
    limits.overlap = true;
    soak_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits),
                       fresh = device_net_make<uint32_t>(&n, &limits);
    d.side = side_get();
    cudaGraphExec_t replay = device_net_capture(&d);
    REQUIRE(replay != nullptr);
    size_t before = 0, after = 0, all = 0;
    bool good = true;
    for (int number = 0; number < frames && good; ++number) {
        const frame f = soak_frame(&d, number);
        device_net_upload(&d, &f);
        good = graph_replay(replay) && check_told(&d, soak_voxels(number, limits.voxels));
        if (number % step == 0) {
            const result<uint32_t> got = result_fetch(&d);
            device_net_forget(&fresh, 0xff);
            good = CHECK_EQUAL(difference(got, device_net_result(&fresh, &f), true), "") && good;
        }
        if (number == warm) {
            CUDA_CHECK(cudaMemGetInfo(&before, &all));
        }
        if (!good) {
            printf("frame %d of %d\n", number, frames);
        }
    }
    CUDA_CHECK(cudaMemGetInfo(&after, &all));
    const size_t taken = before > after ? before - after : 0;
    CHECK_EQUAL(test_quick() ? 0 : taken, (size_t)0); // a sanitizer may allocate memory of its own
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CHECK(expect_no_cuda_error());
}

// ---- a busy default stream ----------------------------------------------------------------------

// No launch of a run waits in the default stream, and no call waits for the device.
DEVICE_TEST(gpu_soak_beside_a_busy_default_stream) {
    if (test_quick()) {
        SKIP("a sanitizer may run one kernel after the other");
    }
    network n;
    reference_net_zoo(&n);
    const net_limits limits = limits_make(&n, soak_type, 1000, false);
    soak_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const frame f = soak_frame(&d, 1);
    const result<uint32_t> wanted = device_net_result(&d, &f); // this loads the kernels
    device_net_forget(&d, guarded_poison);
    int *stop = nullptr;
    CUDA_CHECK(cudaMallocHost((void **)&stop, sizeof *stop));
    *stop = 1;
    stream_occupy<<<1, 1, 0, cudaStreamLegacy>>>(stop, 0); // loads it
    CHECK(expect_no_cuda_error());
    *stop = 0;
    const cudaStream_t stream = stream_get(); // making it waits for the device
    stream_occupy<<<1, 1, 0, cudaStreamLegacy>>>(stop, 4000000000ll); // two seconds at the most
    CHECK_OK(device_net_run(&d, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK_EQUAL(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady); // busy to this moment
    cudaGetLastError();                                                // which is no error
    *(volatile int *)stop = 1;
    CHECK(expect_no_cuda_error());
    CHECK_EQUAL(difference(result_fetch(&d), wanted, true), "");
    CUDA_CHECK(cudaFreeHost(stop));
}

// ---- few multiprocessors ------------------------------------------------------------------------

namespace {

enum { few_multiprocessors = 8, seconds_most = 20 };

// A function of the driver, which tests are not linked with; null if it has none of this name.
template <typename F>
F *driver_find(const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? (F *)found : nullptr;
}

#define DRIVER_FIND(function) driver_find<decltype(function)>(#function)

// A stream of a green context of few multiprocessors. Null where the driver makes none.
cudaStream_t stream_of_few() {
    CUdevResource all, few;
    CUdevResourceDesc described;
    CUgreenCtx context;
    CUstream stream = nullptr;
    CUdevice device = 0;
    unsigned groups = 1;
    auto *query = DRIVER_FIND(cuDeviceGetDevResource);
    auto *split = DRIVER_FIND(cuDevSmResourceSplitByCount);
    auto *describe = DRIVER_FIND(cuDevResourceGenerateDesc);
    auto *create = DRIVER_FIND(cuGreenCtxCreate);
    auto *create_stream = DRIVER_FIND(cuGreenCtxStreamCreate);
    CUDA_CHECK(cudaGetDevice(&device)); // of the same number
    const bool good =
        query && split && describe && create && create_stream &&
        query(device, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
        split(&few, &groups, &all, nullptr, 0, few_multiprocessors) == CUDA_SUCCESS &&
        describe(&described, &few, 1) == CUDA_SUCCESS &&
        create(&context, described, device, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS &&
        create_stream(&stream, context, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS;
    return good ? stream : nullptr;
}

// Whether the stream has ended its work in time.
bool stream_ends(cudaStream_t stream) {
    const auto start = std::chrono::steady_clock::now();
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(seconds_most)) {
            return false;
        }
    }
    return true;
}

// Memory of the host that kernels see.
struct holding {
    volatile int stop;
    volatile int begun[1024]; // by thread block
};

// A multiprocessor for each thread block, until it is told to stop.
__global__ void hold_kernel(holding *h, long long cycles) {
    const long long start = clock64();
    h->begun[blockIdx.x] = 1;
    while (!h->stop && clock64() - start < cycles) {
    }
}

// Holds all but few multiprocessors while `body` runs, which must end by itself. Each thread block
// asks for all the shared memory of a multiprocessor.
template <typename F>
void hold_most(F body) {
    static holding *h = nullptr;
    const int blocks = std::min(gpu()->multiprocessors - few_multiprocessors, 1024);
    cudaStream_t stream = nullptr;
    REQUIRE(blocks > 0);
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMallocHost((void **)&h, sizeof *h));
    memset((void *)h, 0, sizeof *h);
    CUDA_CHECK(cudaFuncSetAttribute(hold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    gpu()->shared_max));
    hold_kernel<<<(unsigned)blocks, 1, (size_t)gpu()->shared_max, stream>>>(h, 4 * seconds_most *
                                                                                   2000000000ll);
    CUDA_CHECK(cudaGetLastError());
    for (int i = 0; i < blocks; ++i) {
        while (!h->begun[i] && cudaStreamQuery(stream) == cudaErrorNotReady) {
        }
        CHECK(h->begun[i]);
    }
    body();
    CHECK_EQUAL(cudaStreamQuery(stream), cudaErrorNotReady); // held to this moment
    h->stop = 1;
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
    CUDA_CHECK(cudaFreeHost(h));
}

// A call, and the arrays that it fills.
struct few_call {
    const char *name;
    std::function<status(cudaStream_t)> run;
    std::function<std::vector<char>()> fetch; // what it wrote
    std::vector<char> wanted;
};

struct few_array {
    void *at;
    size_t bytes;
};

template <typename T>
few_array few_array_of(T *at, int64_t count) {
    return {at, (size_t)count * sizeof(T)};
}

std::vector<char> few_fetch(const std::vector<few_array> &arrays) {
    std::vector<char> bytes;
    for (const few_array &a : arrays) {
        const std::vector<char> more = fetch<char>(a.at, (int64_t)a.bytes);
        CUDA_CHECK(cudaMemset(a.at, guarded_poison, a.bytes)); // for the next run
        bytes.insert(bytes.end(), more.begin(), more.end());
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    return bytes;
}

few_call few_call_make(const char *name, std::function<status(cudaStream_t)> run,
                       std::vector<few_array> arrays) {
    few_fetch(arrays);
    return {name, run, [=] { return few_fetch(arrays); }, {}};
}

// Sets of more voxels than one sort's small way takes.
few_call few_voxelize() {
    const int32_t rows = 3000000;
    random_state r = random_make(1);
    const word_layout words =
        reference_layout<uint32_t>({0, 0, 0}, {511, 511, 127}, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<int32_t> coords;
    for (int32_t i = 0; i < rows; ++i) {
        coords.insert(coords.end(), {random_int(&r, 0, 511), random_int(&r, 0, 511), i & 127});
    }
    voxel_input in = {};
    in.coords = device_upload(coords.data(), 3 * (int64_t)rows);
    in.batch = device_zeros<int32_t>(rows);
    in.count = device_upload(&rows, 1);
    in.rows = rows;
    in.columns = 3;
    const voxel_set<uint32_t> set = {device_new<uint32_t>(rows), device_new<int32_t>(1), rows};
    const voxel_rows where = {device_new<int32_t>(rows), device_new<int32_t>(rows),
                              device_new<int32_t>((int64_t)rows + 1)};
    device_status *trouble = device_zeros<device_status>(1);
    size_t bytes = 0;
    CHECK_OK(voxelize_workspace<uint32_t>(&in, rows, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    return few_call_make(
        "voxelize",
        [=](cudaStream_t s) {
            const voxelize_args<uint32_t> args = {&words, &in, set, where, trouble};
            return voxelize(&args, scratch, bytes, s);
        },
        {few_array_of(set.words, rows), few_array_of(set.count, 1), few_array_of(where.voxel, rows),
         few_array_of(where.order, rows), few_array_of(where.begin, rows + 1)});
}

// As many scopes of a schedule as there may be, most of them with their own thread block.
few_call few_layouts() {
    const int32_t rows = 1048577, volume = 3;
    std::vector<int32_t> map;
    for (int32_t i = 0; i < rows * volume; ++i) {
        map.push_back(i / 7 % 3 == i % 2 ? i : -1);
    }
    order_request r = {};
    r.kernel = kernel_cube(1, 1);
    r.kernel.size.z = volume;
    r.map = device_upload(map.data(), (int64_t)map.size());
    r.count = device_upload(&rows, 1);
    r.capacity = rows;
    std::vector<order_request> requests;
    std::vector<few_array> arrays;
    for (int m = 0; m < order_maps_max; ++m) {
        const order_layout t = r.layout =
            order_layout_new(&memory_device, order_count(rows), volume);
        requests.push_back(r);
        arrays.push_back(few_array_of(t.row, (int64_t)t.groups * order_rows));
        arrays.push_back(few_array_of(t.mask, t.groups));
        arrays.push_back(few_array_of(t.source, (int64_t)t.groups * volume * order_rows));
        arrays.push_back(few_array_of(t.schedule, order_pairs(t.groups)));
    }
    size_t bytes = 0;
    CHECK_OK(order_workspace(requests.data(), order_maps_max, &bytes));
    char *scratch = device_new<char>((int64_t)bytes);
    return few_call_make(
        "order_build",
        [=](cudaStream_t s) {
            return order_build(gpu(), requests.data(), order_maps_max, scratch, bytes, s);
        },
        arrays);
}

// Pair lists of a set onto itself, and a weight gradient over them.
few_call few_gradient(const word_layout *words, voxel_set<uint32_t> set) {
    const kernel_shape kernel = kernel_cube(3, 1);
    const conv_shape shape = conv_shape_of(&kernel, 64, 64, soak_type);
    const int32_t volume = shape.volume, room = 27 * set.capacity;
    const map_lists pairs = {device_new<int32_t>(volume + 1), device_new<int32_t>(room),
                             device_new<int32_t>(room), room};
    std::vector<char> ones((size_t)set.capacity * 64 * 2, 0x34); // small numbers
    conv_grad_weight_args a = {};
    a.shape = shape;
    a.in = a.out_grad = device_upload(ones.data(), (int64_t)ones.size());
    a.pairs = pairs;
    a.count = set.count;
    a.capacity = set.capacity;
    a.weight_grad = device_new<float>((int64_t)volume * 64 * 64);
    size_t bytes[2] = {};
    CHECK_OK(map_lists_workspace(&kernel, set.capacity, &bytes[0]));
    CHECK_OK(conv_grad_weight_workspace(gpu(), &shape, &bytes[1]));
    char *scratch[2] = {device_new<char>((int64_t)bytes[0]), device_new<char>((int64_t)bytes[1])};
    const map_request<uint32_t> request = {
        kernel, set, set, map_forms_none(0, false, device_zeros<device_status>(1))};
    return few_call_make(
        "map_build_lists, conv_grad_weight",
        [=](cudaStream_t s) {
            SPIRA_TRY(map_build_lists(words, &request, &pairs, scratch[0], bytes[0], s));
            return conv_grad_weight<soak_type>(gpu(), &a, scratch[1], bytes[1], s);
        },
        {few_array_of(pairs.begin, volume + 1), few_array_of(pairs.input, room),
         few_array_of(pairs.output, room), few_array_of(a.weight_grad, volume * 64 * 64)});
}

// Sets, maps, layouts and layers of all kinds; then all features that are kept.
few_call few_network(const soak_net<uint32_t> *d) {
    return {"a network",
            [=](cudaStream_t s) { return device_net_run(d, s); },
            [=] {
                const result<uint32_t> r = result_fetch(d);
                std::vector<char> bytes;
                for (const std::vector<char> &layer : r.features) {
                    bytes.insert(bytes.end(), layer.begin(), layer.end());
                }
                device_net_forget(d, guarded_poison);
                return bytes;
            },
            {}};
}

// Runs the calls one after the other. Waits for the stream alone: the device may be busy.
void few_calls_run(const std::vector<few_call> &calls, cudaStream_t stream, const char *where) {
    for (const few_call &call : calls) {
        CHECK_OK(call.run(stream));
        if (!stream_ends(stream)) {
            printf("%s %s: has not ended after %d seconds\n", call.name, where, seconds_most);
            fflush(stdout);
            _Exit(1); // a kernel that hangs cannot be ended otherwise
        }
    }
}

// What the first run wrote is wanted of the others.
void few_calls_compare(std::vector<few_call> *calls, const char *where) {
    for (few_call &call : *calls) {
        char text[200];
        const std::vector<char> got = call.fetch();
        snprintf(text, sizeof text, "%s %s: other bytes", call.name, where);
        test_check(call.wanted.empty() || got == call.wanted, __FILE__, __LINE__, text);
        call.wanted = got;
    }
}

} // namespace

DEVICE_TEST(gpu_soak_few_multiprocessors) {
    if (test_quick()) {
        SKIP("a sanitizer may run one kernel after the other");
    }
    network n;
    reference_net_zoo(&n);
    const net_limits limits = limits_make(&n, soak_type, 20000, true);
    soak_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const frame f = frame_make<uint32_t>(1, &d.plan->layout, limits.voxels, n.input_channels);
    device_net_upload(&d, &f);
    std::vector<few_call> calls = {few_network(&d), few_gradient(&d.plan->layout, d.set),
                                   few_voxelize(), few_layouts()};
    const char *beside = "beside a kernel that holds most", *green = "in a green context";
    few_calls_run(calls, stream_get(), "on all multiprocessors"); // this loads the kernels
    few_calls_compare(&calls, "");
    hold_most([&] { few_calls_run(calls, stream_get(), beside); });
    few_calls_compare(&calls, beside);
    cudaStream_t stream = stream_of_few();
    if (!stream) {
        SKIP("the driver makes no green contexts");
    }
    few_calls_run(calls, stream, green);
    few_calls_compare(&calls, green);
}
