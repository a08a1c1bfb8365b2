// tests/support/emulate_hopper.h: emulate.h with what Hopper's kernels ask for: shared memory by
// address, asynchronous copies and the barriers that tell of them, clusters, the warpgroup's matrix
// instruction, and numbers of 16 bits.
//
// What is asynchronous happens at any time that is drawn, and until then what it writes is NaN: so
// is dynamic shared memory in the beginning. Matrix instructions read when they are begun or when
// they are waited for, each thread's part by itself. Which thread is elected depends on the seed.
#ifndef SPIRA_TESTS_EMULATE_HOPPER_H
#define SPIRA_TESTS_EMULATE_HOPPER_H

#include "emulate.h"

#include "../../spira/base/wgmma.h"
#include "../../spira/numeric.h"

#include <algorithm>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

// In place of these files.
#define SPIRA_NUMERIC_CUH
#define SPIRA_BASE_MMA_CUH
#define SPIRA_BASE_WGMMA_CUH
#define SPIRA_WGMMA 1

// ---- numbers, and vectors of them ---------------------------------------------------------------

struct __half {
    uint16_t bits;
};

struct __nv_bfloat16 {
    uint16_t bits;
};

struct float2 {
    float x, y;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(8) uint2 {
    uint32_t x, y;
};

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

inline float2 make_float2(float x, float y) {
    return {x, y};
}

inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

inline uint2 make_uint2(uint32_t x, uint32_t y) {
    return {x, y};
}

inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return {x, y, z, w};
}

inline float __uint_as_float(uint32_t bits) {
    return spira::float_from_bits(bits);
}

namespace spira {

inline float element_to_float(__half h) {
    return f16_to_float(h.bits);
}

inline float element_to_float(__nv_bfloat16 h) {
    return bf16_to_float(h.bits);
}

template <typename E>
E element_from_float(float f);

template <>
inline __half element_from_float<__half>(float f) {
    return {f16_from_float(f)};
}

template <>
inline __nv_bfloat16 element_from_float<__nv_bfloat16>(float f) {
    return {bf16_from_float(f)};
}

inline uint32_t tf32_bits(float f) {
    return float_bits(tf32_round(f));
}

inline float element_operand(numeric type, float f) {
    return numeric_operand(type, f);
}

// Of kernels that are not run here.
template <typename E>
void mma_step(float (&sum)[4], uint4 a, uint32_t b0, uint32_t b1);
float2 shared_load_float_2(uint32_t from);
void shared_store_float_2(uint32_t to, float2 v, bool there);

// What conv/hopper.cuh declares.
alignas(128) inline thread_local char hopper_dynamic[232448];

} // namespace spira

// What is asked of a kernel before its launch.
struct cudaFuncAttributes {
    size_t sharedSizeBytes;
};

enum { cudaFuncAttributeMaxDynamicSharedMemorySize };

template <typename K>
int cudaFuncGetAttributes(cudaFuncAttributes *attributes, K) {
    attributes->sharedSizeBytes = 1;
    return 0;
}

template <typename K>
int cudaFuncSetAttribute(K, int, int) {
    return 0;
}

// ---- shared memory ------------------------------------------------------------------------------
// Addresses from first_address on are of the block's dynamic memory, those around `fixed` of its
// variables; with a block of the cluster, numbered from 1, in multiples of `apart`.

namespace emulate {

enum : uint32_t { first_address = 2432, fixed = 1u << 26, apart = 1u << 28 };

inline thread_local char anchor; // a variable of the block

struct shared_memory {
    char *dynamic, *anchor;
    uint32_t bytes;
};

inline shared_memory memories[ranks_most];

inline char *at_address(uint32_t address, uint32_t bytes) {
    static char nowhere[1 << 16];
    const unsigned rank = address >= apart ? address / apart - 1 : blocks->rank;
    const shared_memory &m = memories[rank];
    address %= apart;
    if (address % std::min(bytes, 16u)) {
        fault("an address is not aligned");
    }
    if (address >= fixed / 2) {
        return m.anchor + ((int64_t)address - fixed);
    }
    if (address < first_address || address + bytes > first_address + m.bytes) {
        fault("an address is outside shared memory");
        return nowhere;
    }
    return m.dynamic + (address - first_address);
}

inline int elected() {
    return (int)(seed % 32);
}

template <typename T>
T &shared_at(uint32_t address) {
    return *(T *)at_address(address, sizeof(T));
}

// ---- barriers -----------------------------------------------------------------------------------

// What stands in a barrier's memory.
struct barrier_state {
    uint16_t phase, there;
    uint8_t arrivals, expected; // still to come, and of a phase
    int16_t sixteens;           // of bytes that are still to come
};

static_assert(sizeof(barrier_state) == sizeof(uint64_t), "a barrier's memory");

inline barrier_state &barrier_of(uint64_t *barrier) {
    barrier_state &b = *(barrier_state *)barrier;
    if (b.there != 0xba77) {
        fault("there is no barrier");
    }
    return b;
}

inline void barrier_change(uint64_t *barrier, int arrivals, int64_t bytes) {
    barrier_state &b = barrier_of(barrier);
    if (arrivals > b.arrivals) {
        fault("a barrier has more arrivals than it was begun for");
    }
    if (bytes % 16 || llabs(b.sixteens + bytes / 16) > INT16_MAX) {
        fault("a barrier cannot count the bytes");
    }
    b.arrivals = (uint8_t)(b.arrivals - arrivals);
    b.sixteens = (int16_t)(b.sixteens + bytes / 16);
    if (!b.arrivals && !b.sixteens) {
        b.phase ^= 1;
        b.arrivals = b.expected;
    }
}

inline void barrier_meet(uint64_t *barrier, uint32_t phase) {
    wait_until(
        [](uint64_t at, uint64_t phase) { return barrier_of((uint64_t *)at).phase != phase; },
        (uint64_t)barrier, phase);
}

// ---- what is under way --------------------------------------------------------------------------

struct copy {
    char *to;
    const char *from; // null: from `value`
    uint32_t bytes;
    char value[16];
};

// Copies that are under way, and whom they tell when they are done.
struct transfer {
    std::vector<copy> copies;
    uint64_t *barrier;
    int arrivals; // at the barrier: 1, or 0, which is told of the bytes instead
    int owner;    // the thread whose transfers come one after the other; -1: none
};

// One step of the matrix instruction.
struct matrix_step {
    float *sum;
    uint32_t a, b, form;
    int columns;
    const float *values; // of all numbers of 16 bits
};

struct thread_state {
    std::vector<copy> copies; // that no transfer has yet
    std::vector<matrix_step> steps;
    std::vector<std::vector<matrix_step>> groups;
    unsigned ended; // groups
};

inline thread_local std::vector<transfer> transfers;
inline thread_local std::vector<thread_state> states;
inline thread_local uint64_t agreed[8][2]; // what a warpgroup's threads give, by turns

inline thread_state &own_state() {
    return states[(size_t)blocks->own];
}

inline copy copy_begin(uint32_t to, const void *from, uint32_t bytes) {
    copy c = {at_address(to, bytes), (const char *)from, bytes, {}};
    memset(c.to, 0xff, bytes); // from now on it is not what it was
    return c;
}

inline void copies_end(const std::vector<copy> &copies) {
    for (const copy &c : copies) {
        memcpy(c.to, c.from ? c.from : c.value, c.bytes);
    }
}

// Ends a transfer, or one of its owner's that began before it.
inline void transfer_end(size_t at) {
    for (size_t i = 0; i < at; ++i) {
        at = transfers[at].owner >= 0 && transfers[i].owner == transfers[at].owner ? i : at;
    }
    const transfer t = std::move(transfers[at]);
    transfers.erase(transfers.begin() + (ptrdiff_t)at);
    int64_t bytes = 0;
    for (const copy &c : t.copies) {
        bytes += c.bytes;
    }
    copies_end(t.copies);
    barrier_change(t.barrier, t.arrivals, t.arrivals ? 0 : -bytes);
}

// Now and then, and if nothing else goes on: one of them at least.
inline bool transfers_deliver(bool must) {
    unsigned many = draw(2) ? draw((unsigned)transfers.size() + 1) : 0;
    many = std::max(many, must && !transfers.empty() ? 1u : 0u);
    for (unsigned i = 0; i < many; ++i) {
        transfer_end(draw((unsigned)transfers.size()));
    }
    return many > 0;
}

inline void hopper_memory_begin(block *b, size_t bytes) {
    memset(spira::hopper_dynamic, 0xff, sizeof spira::hopper_dynamic);
    memories[b->rank] = {spira::hopper_dynamic, &anchor, (uint32_t)bytes};
    transfers.clear();
    states.clear();
    states.resize(clusters->threads);
    b->deliver = transfers_deliver;
}

// Nothing is left under way.
inline void hopper_memory_end() {
    bool left = !transfers.empty();
    for (const thread_state &s : states) {
        left = left || !s.copies.empty() || !s.steps.empty() || !s.groups.empty();
    }
    if (left) {
        fault("a block ends before what it has begun");
    }
}

inline const bool memory_ready = [] {
    memory_begin = hopper_memory_begin;
    memory_end = hopper_memory_end;
    return true;
}();

// ---- the matrix instruction ---------------------------------------------------------------------

template <typename E>
const float *values_of() {
    static const std::vector<float> values = [] {
        std::vector<float> v(1 << 16);
        for (uint32_t bits = 0; bits < v.size(); ++bits) {
            v[bits] = spira::element_to_float(E{(uint16_t)bits});
        }
        return v;
    }();
    return values.data();
}

// 16 elements of a row, of the operand that begins at an address as the instruction takes it.
inline void matrix_row(const matrix_step &s, uint32_t operand, int row, float (&v)[16]) {
    const int log = spira::wgmma_row_log_most + 1 - (int)(s.form >> 30);
    const uint32_t first = (operand & 0x3fff) << 4, eight = (s.form & 0x3fff) << 4;
    for (uint32_t piece = 0; piece < 2; ++piece) {
        const uint32_t at = first + (uint32_t)row / 8 * eight + (uint32_t)(row % 8 << log);
        const char *from = at_address(spira::wgmma_place(at + piece * 16, log), 16);
        for (uint32_t i = 0; i < 8; ++i) {
            v[piece * 8 + i] = s.values[((const uint16_t *)from)[i]];
        }
    }
}

// A thread's part of it.
inline void matrix_multiply(const matrix_step &s) {
    const int first = blocks->own / 32 % 4 * 16 + lane() / 4, t = lane() % 4;
    float a[2][16], b[16];
    matrix_row(s, s.a, first, a[0]);
    matrix_row(s, s.a, first + 8, a[1]);
    for (int column = 2 * t; column < s.columns; column += column % 2 ? 7 : 1) {
        matrix_row(s, s.b, column, b);
        for (int h = 0; h < 2; ++h) {
            float &sum = s.sum[column / 8 * 4 + 2 * h + column % 2];
            for (int i = 0; i < 16; ++i) {
                sum += a[h][i] * b[i];
            }
        }
    }
}

// Those of a group, one after the other; it has none then.
inline void matrix_end(std::vector<matrix_step> *steps) {
    for (const matrix_step &s : *steps) {
        matrix_multiply(s);
    }
    steps->clear();
}

} // namespace emulate

// ---- base/async.cuh, base/wgmma.cuh
// -----------------------------------------------------------------------

namespace spira {

inline uint32_t shared_address(const void *shared) {
    using namespace emulate;
    const char *at = (const char *)shared;
    const ptrdiff_t place = at - hopper_dynamic;
    return place >= 0 && place < (ptrdiff_t)sizeof hopper_dynamic
               ? first_address + (uint32_t)place
               : (uint32_t)((int64_t)fixed + (at - &anchor));
}

inline uint32_t shared_load(uint32_t from) {
    return emulate::shared_at<uint32_t>(from);
}

inline uint32_t shared_load_elected(uint32_t from, int line = __builtin_LINE()) {
    return __shfl_sync(~0u, shared_load(from), emulate::elected(), line);
}

inline uint4 shared_load_4(uint32_t from) {
    return emulate::shared_at<uint4>(from);
}

inline void shared_store(uint32_t to, uint32_t v) {
    emulate::shared_at<uint32_t>(to) = v;
}

inline void shared_store_4(uint32_t to, uint4 v) {
    emulate::shared_at<uint4>(to) = v;
}

inline bool warp_elect(int line = __builtin_LINE()) {
    __syncwarp(line);
    return emulate::lane() == emulate::elected();
}

inline int warp_lane() {
    return emulate::lane();
}

inline void async_copy_16(uint32_t to, const void *from, bool there) {
    emulate::copy c = emulate::copy_begin(to, there ? from : nullptr, 16);
    if (there && (uintptr_t)from % 16) {
        emulate::fault("an address is not aligned");
    }
    emulate::own_state().copies.push_back(c);
}

// Whom the copies tell may hear of it later.
inline void async_copy_wait() {
    using namespace emulate;
    for (transfer &t : transfers) {
        if (t.owner == blocks->own) {
            copies_end(t.copies);
            t.copies.clear();
        }
    }
    copies_end(own_state().copies);
    own_state().copies.clear();
}

inline void mbarrier_init(uint64_t *barrier, int arrivals) {
    const emulate::barrier_state b = {0, 0xba77, (uint8_t)arrivals, (uint8_t)arrivals, 0};
    memcpy(barrier, &b, sizeof b);
}

inline void mbarrier_init_fence() {}

inline void mbarrier_inval(uint64_t *barrier) {
    emulate::barrier_of(barrier).there = 0;
}

inline void mbarrier_arrive(uint32_t barrier) {
    emulate::barrier_change(&emulate::shared_at<uint64_t>(barrier), 1, 0);
}

inline void mbarrier_arrive_copies(uint32_t barrier) {
    using namespace emulate;
    transfers.push_back(
        {std::move(own_state().copies), &shared_at<uint64_t>(barrier), 1, blocks->own});
    own_state().copies.clear();
}

inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
    uint64_t *const b = &emulate::shared_at<uint64_t>(barrier);
    emulate::barrier_change(b, 0, bytes);
    emulate::barrier_change(b, 1, 0);
}

inline void mbarrier_bulk_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    using namespace emulate;
    if ((uintptr_t)from % 16 || bytes % 16) {
        fault("an address is not aligned");
    }
    transfers.push_back({{copy_begin(to, from, bytes)}, &shared_at<uint64_t>(barrier), 0, -1});
}

inline void mbarrier_wait(uint32_t barrier, uint32_t phase) {
    emulate::barrier_meet(&emulate::shared_at<uint64_t>(barrier), phase);
}

inline void named_barrier_sync(int number, int threads, int line = __builtin_LINE()) {
    emulate::meet_barrier(number, threads, line);
}

inline uint32_t cluster_address(uint32_t shared, uint32_t rank) {
    return shared % emulate::apart + (rank + 1) * emulate::apart;
}

inline void cluster_store_4(uint32_t to, float4 v, uint32_t barrier) {
    using namespace emulate;
    copy c = copy_begin(to, nullptr, 16);
    memcpy(c.value, &v, sizeof v);
    transfers.push_back({{c}, &shared_at<uint64_t>(barrier), 0, -1});
}

inline void cluster_arrive(uint32_t barrier) {
    using namespace emulate;
    transfers.push_back({{}, &shared_at<uint64_t>(barrier), 1, blocks->own});
}

inline void cluster_wait(uint32_t barrier, uint32_t phase) {
    mbarrier_wait(barrier, phase);
}

inline void cluster_sync_begin() {
    emulate::cluster *c = emulate::clusters;
    ++emulate::self().syncs;
    if (++c->arrived == c->ranks * c->threads) {
        c->arrived = 0;
        ++c->syncs;
    }
}

inline void cluster_sync_end() {
    emulate::wait_until([](uint64_t syncs, uint64_t) { return emulate::clusters->syncs >= syncs; },
                        emulate::self().syncs, 0);
}

// What the thread has sent to others has come.
inline void cluster_sync() {
    using namespace emulate;
    for (size_t i = 0; i < transfers.size();) {
        if (transfers[i].owner == blocks->own) {
            transfer_end(i);
        } else {
            ++i;
        }
    }
    cluster_sync_begin();
    cluster_sync_end();
}

inline void wgmma_begin() {}

template <typename E, int columns>
void wgmma_step(float (&sum)[columns / 2], uint32_t a, uint32_t b, uint32_t form) {
    emulate::own_state().steps.push_back({sum, a, b, form, columns, emulate::values_of<E>()});
}

// All threads of a warpgroup have given the same steps.
inline void wgmma_end() {
    using namespace emulate;
    thread_state &s = own_state();
    uint64_t sum = 0;
    for (const matrix_step &m : s.steps) {
        sum = (((sum * 31 + m.a) * 31 + m.b) * 31 + m.form) * 31 + (uint64_t)m.columns;
    }
    const bool now = draw(2);
    const int group = blocks->own / 128;
    uint64_t &common = agreed[group][++s.ended % 2];
    common = sum;
    meet_barrier(16 + group, 128, __LINE__);
    if (common != sum) {
        fault("threads of a warpgroup multiply different things");
    }
    s.groups.push_back(std::move(s.steps));
    s.steps.clear();
    if (now) {
        for (std::vector<matrix_step> &steps : s.groups) {
            matrix_end(&steps);
        }
    }
}

template <int groups>
void wgmma_wait() {
    emulate::thread_state &s = emulate::own_state();
    while (s.groups.size() > groups) {
        emulate::matrix_end(&s.groups.front());
        s.groups.erase(s.groups.begin());
    }
}

template <int floats>
void wgmma_settle(float (&)[floats]) {
    if (!emulate::own_state().groups.empty()) {
        emulate::fault("sums are read before they are there");
    }
}

template <int registers>
void setmaxnreg_dec() {}

template <int registers>
void setmaxnreg_inc() {}

} // namespace spira

#endif
