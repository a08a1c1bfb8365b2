// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_hopper.h: emulate.h for Hopper's kernels: shared memory by address,
// asynchronous copies, mbarriers, clusters, wgmma, and 16-bit numbers.
//
// Asynchronous operations complete at a random time. Until then their destination is NaN, as is
// dynamic shared memory at the start. A matrix instruction reads its operands when it is issued or
// when it is waited for, in each thread separately. The elected lane depends on the seed.
#ifndef SPIRA_TESTS_EMULATE_HOPPER_H
#define SPIRA_TESTS_EMULATE_HOPPER_H

#include "emulate.h"
#include "emulate_vectors.h"

#include "../../spira/base/wgmma.h"
#include "../../spira/numeric.h"

#include <algorithm>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

// This file replaces these.
#define SPIRA_NUMERIC_CUH
#define SPIRA_BASE_MMA_CUH
#define SPIRA_BASE_WGMMA_CUH
#define SPIRA_WGMMA 1

// ---- numbers and vectors ------------------------------------------------------------------------

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

inline uint32_t __float_as_uint(float f) {
    return spira::float_bits(f);
}

namespace spira {

template <>
inline float element_to_float<__half>(__half h) {
    return f16_to_float(h.bits);
}

template <>
inline float element_to_float<__nv_bfloat16>(__nv_bfloat16 h) {
    return bf16_to_float(h.bits);
}

template <typename E>
E element_from_float(float f);

template <>
inline float element_from_float<float>(float f) {
    return f;
}

template <>
inline __half element_from_float<__half>(float f) {
    return {f16_from_float(f)};
}

template <>
inline __nv_bfloat16 element_from_float<__nv_bfloat16>(float f) {
    return {bf16_from_float(f)};
}

template <>
inline int8_t element_from_float<int8_t>(float f) {
    return i8_from_float(f);
}

inline uint32_t tf32_bits(float f) {
    return float_bits(tf32_round(f));
}

inline uint4 tf32_bits_4(uint4 v) {
    for (uint32_t *bits : {&v.x, &v.y, &v.z, &v.w}) {
        *bits = tf32_bits(float_from_bits(*bits));
    }
    return v;
}

inline float element_operand(numeric type, float f) {
    return numeric_operand(type, f);
}

// Used by kernels that are not emulated.
template <typename E>
void mma_step(typename numeric_sum<E>::type (&sum)[4], uint4 a, uint32_t b0, uint32_t b1);

// Dynamic shared memory, under the name that conv/hopper/kernel.cuh declares.
alignas(128) inline thread_local char hopper_dynamic[232448];

} // namespace spira

// Attributes of a kernel.
struct cudaFuncAttributes {
    size_t sharedSizeBytes;
};

template <typename K>
int cudaFuncGetAttributes(cudaFuncAttributes *attributes, K) {
    attributes->sharedSizeBytes = 1;
    return 0;
}

// ---- shared memory ------------------------------------------------------------------------------
// Addresses from first_address on are dynamic shared memory, those around `fixed` static shared
// memory. Addresses in the cluster have (rank + 1) * apart added.

namespace emulate {

enum : uint32_t { first_address = 2432, fixed = 1u << 26, apart = 1u << 28 };

alignas(
    128) inline thread_local char anchor; // addresses of static shared memory are relative to it

struct shared_memory {
    char *dynamic, *anchor;
    uint32_t bytes;
};

inline shared_memory memories[ranks_most];

inline char *at_address(uint32_t address, uint32_t bytes) {
    static char nowhere[1 << 16];
    const unsigned rank = address >= apart ? address / apart - 1 : blocks->rank;
    if (rank != blocks->rank && !((clusters->alive & clusters->begun) >> rank & 1)) {
        fault("an address in a thread block that has not begun or has ended");
        return nowhere;
    }
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

// The address of the same variable of a thread block of the cluster.
inline uint32_t cluster_of(uint32_t shared, uint32_t rank) {
    return shared % apart + (rank + 1) * apart;
}

// A tensor of two dimensions of 16-bit elements, dense; boxes of `rows` times `bytes`.
struct tensor_map {
    const char *array;
    int64_t width, height; // of the tensor; in bytes, in rows
    uint32_t bytes, rows;
};

// device_info.tensor_map_encode
inline int tensor_map_encode(void *map, int, uint32_t, void *array, const uint64_t *size,
                             const uint64_t *pitch, const uint32_t *box, const uint32_t *, int, int,
                             int, int) {
    const tensor_map m = {(const char *)array, (int64_t)pitch[0], (int64_t)size[1], 2 * box[0],
                          box[1]};
    memcpy(map, &m, sizeof m);
    return (uintptr_t)array % 16 || pitch[0] % 16 || pitch[0] != 2 * size[0] || m.bytes != 128;
}

inline int elected() {
    return (int)(seed % 32);
}

template <typename T>
T &shared_at(uint32_t address) {
    return *(T *)at_address(address, sizeof(T));
}

// ---- mbarriers ----------------------------------------------------------------------------------

// An mbarrier, as it lies in its 64 bits of memory.
struct barrier_state {
    uint16_t phase, there;      // there: a magic number
    uint8_t arrivals, expected; // pending; of a phase
    int16_t sixteens;           // pending bytes / 16
};

static_assert(sizeof(barrier_state) == sizeof(uint64_t), "the size of an mbarrier");

inline barrier_state &barrier_of(uint64_t *barrier) {
    barrier_state &b = *(barrier_state *)barrier;
    if (b.there != 0xba77) {
        fault("an mbarrier is not initialised");
    }
    return b;
}

inline void barrier_change(uint64_t *barrier, int arrivals, int64_t bytes) {
    barrier_state &b = barrier_of(barrier);
    if (arrivals > b.arrivals) {
        fault("an mbarrier has more arrivals than it expects");
    }
    if (bytes % 16 || llabs(b.sixteens + bytes / 16) > INT16_MAX) {
        fault("an mbarrier cannot count the bytes");
    }
    b.arrivals = (uint8_t)(b.arrivals - arrivals);
    b.sixteens = (int16_t)(b.sixteens + bytes / 16);
    if (!b.arrivals && !b.sixteens) {
        b.phase ^= 1;
        b.arrivals = b.expected;
    }
}

// Plants an error: a thread for which it returns true does not wait. Null: all threads wait.
inline std::function<bool()> wait_skipped;

// Plants an error: a thread for which it returns a number arrives that often, in place of once.
inline std::function<int()> arrivals_planted;

// Plants an error: no thread waits for groups of copies.
inline bool copies_skipped;

// Plants an error: the threads of a cluster do not meet (cluster_sync).
inline bool meetings_skipped;

inline void barrier_meet(uint64_t *barrier, uint32_t phase) {
    wait_until(
        [](uint64_t at, uint64_t phase) { return barrier_of((uint64_t *)at).phase != phase; },
        (uint64_t)barrier, phase);
}

// ---- asynchronous operations --------------------------------------------------------------------

struct copy {
    char *to;
    const char *from; // null: copies `value`
    uint32_t bytes;
    char value[16];
};

// Copies in flight, and the mbarrier that they report to.
struct transfer {
    std::vector<copy> copies;
    uint64_t *barrier;
    int arrivals;  // 1: arrives there; 0: reports its bytes there
    int owner;     // the thread whose transfers complete in order; -1: in any order
    bool remote;   // to a thread block of the cluster, which must not have ended
    unsigned rank; // of that
};

// One step of the matrix instruction.
struct matrix_step {
    void *sum; // float, or int32_t of int8_t
    uint32_t a, b, form;
    int columns;
    bool transposed;     // both operands
    const float *values; // [65536] of all 16-bit numbers; null: int8_t
};

struct thread_state {
    std::vector<copy> copies; // without an mbarrier or a group yet
    std::vector<std::vector<copy>> copy_groups;
    std::vector<matrix_step> steps;
    std::vector<std::vector<matrix_step>> groups;
    unsigned ended; // groups committed
};

inline thread_local std::vector<transfer> transfers;
inline thread_local std::vector<thread_state> states;
inline thread_local uint64_t agreed[8][2]; // hash of a warpgroup's group of steps: this, last

inline thread_state &own_state() {
    return states[(size_t)blocks->own];
}

inline copy copy_begin(uint32_t to, const void *from, uint32_t bytes) {
    copy c = {at_address(to, bytes), (const char *)from, bytes, {}};
    memset(c.to, 0xff, bytes); // the old content is gone from now on
    return c;
}

inline void copies_end(const std::vector<copy> &copies) {
    for (const copy &c : copies) {
        memcpy(c.to, c.from ? c.from : c.value, c.bytes);
    }
}

// Completes a transfer, or an earlier one of the same owner.
inline void transfer_end(size_t at) {
    const int owner = transfers[at].owner;
    for (size_t i = 0; owner >= 0 && i < at; ++i) {
        at = transfers[i].owner == owner ? i : at;
    }
    const transfer t = std::move(transfers[at]);
    if (transfers.back().owner < 0) { // in any order
        transfers[at] = std::move(transfers.back());
        transfers.pop_back();
    } else {
        transfers.erase(transfers.begin() + (ptrdiff_t)at);
    }
    if (t.remote && !(clusters->alive >> t.rank & 1)) {
        fault("a store to a thread block that has ended");
        return;
    }
    int64_t bytes = 0;
    for (const copy &c : t.copies) {
        bytes += c.bytes;
    }
    copies_end(t.copies);
    barrier_change(t.barrier, t.arrivals, t.arrivals ? 0 : -bytes);
}

// Completes some transfers at random; at least one if `must`.
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

// Reports operations that are still in flight. Stores to others need no thread block any more.
inline void hopper_memory_end() {
    bool left = false;
    while (!transfers.empty() && !trouble) {
        left = left || !transfers.back().remote;
        transfer_end(transfers.size() - 1);
    }
    for (const thread_state &s : states) {
        left = left || !s.copies.empty() || !s.copy_groups.empty() || !s.steps.empty() ||
               !s.groups.empty();
    }
    if (left) {
        fault("a thread block ends before its asynchronous operations");
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

// Loads 16 elements of a row of a transposed operand: a column of the rows in memory.
inline void matrix_column(const matrix_step &s, uint32_t operand, uint32_t column, float (&v)[16]) {
    const int log = spira::wgmma_row_log_most;
    const uint32_t first = (operand & 0x3fff) << 4, apart = (operand >> 16 & 0x3fff) << 4;
    const uint32_t eight = (s.form & 0x3fff) << 4;
    if (s.form != spira::wgmma_form(log)) {
        fault("a transposed operand is not of rows of 128 bytes");
    }
    for (uint32_t i = 0; i < 16; ++i) {
        const uint32_t at = first + column / 64 * apart + i / 8 * eight + (i % 8 << log);
        v[i] = s.values[*(const uint16_t *)at_address(spira::wgmma_place(at + column % 64 * 2, log),
                                                      2)];
    }
}

// A number of an operand: of 16 bits by the table, or of 8.
inline void matrix_number(const float *values, const char *from, int i, float &to) {
    to = values[((const uint16_t *)from)[i]];
}

inline void matrix_number(const float *, const char *from, int i, int32_t &to) {
    to = ((const int8_t *)from)[i];
}

// Loads 32 bytes of a row of an operand, which is given by its descriptor's lower half.
template <typename S, int depth>
void matrix_row(const matrix_step &s, uint32_t operand, int row, S (&v)[depth]) {
    if constexpr (depth == 16) {
        if (s.transposed) {
            matrix_column(s, operand, (uint32_t)row, v);
            return;
        }
    }
    const float *values = s.values;
    const int log = spira::wgmma_row_log_most + 1 - (int)(s.form >> 30);
    const uint32_t first = (operand & 0x3fff) << 4, eight = (s.form & 0x3fff) << 4;
    for (uint32_t piece = 0; piece < 2; ++piece) {
        const uint32_t at = first + (uint32_t)row / 8 * eight + (uint32_t)(row % 8 << log);
        const char *from = at_address(spira::wgmma_place(at + piece * 16, log), 16);
        for (int i = 0; i < depth / 2; ++i) {
            matrix_number(values, from, i, v[(int)piece * depth / 2 + i]);
        }
    }
}

// Computes a thread's elements of the product: of two rows, and two columns at a time.
template <typename S, int depth>
void matrix_multiply(const matrix_step &s) {
    typedef S four __attribute__((vector_size(4 * sizeof(S))));
    const int first = blocks->own / 32 % 4 * 16 + lane() / 4, t = lane() % 4;
    S a[2][depth], b[2][depth];
    matrix_row(s, s.a, first, a[0]);
    matrix_row(s, s.a, first + 8, a[1]);
    for (int column = 2 * t; column < s.columns; column += 8) {
        matrix_row(s, s.b, column, b[0]);
        matrix_row(s, s.b, column + 1, b[1]);
        four sum;
        memcpy(&sum, (S *)s.sum + column / 8 * 4, sizeof sum);
        for (int i = 0; i < depth; ++i) {
            sum +=
                four{a[0][i], a[0][i], a[1][i], a[1][i]} * four{b[0][i], b[1][i], b[0][i], b[1][i]};
        }
        memcpy((S *)s.sum + column / 8 * 4, &sum, sizeof sum);
    }
}

// Executes the steps of a group and empties it.
inline void matrix_end(std::vector<matrix_step> *steps) {
    for (const matrix_step &s : *steps) {
        s.values ? matrix_multiply<float, 16>(s) : matrix_multiply<int32_t, 32>(s);
    }
    steps->clear();
}

} // namespace emulate

// ---- base/async.cuh, base/wgmma.cuh ------------------------------------------------------------

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

template <int bytes>
inline void async_copy_aligned(uint32_t to, const void *from, bool there) {
    emulate::copy c = emulate::copy_begin(to, there ? from : nullptr, bytes);
    if (there && (uintptr_t)from % bytes) {
        emulate::fault("an address is not aligned");
    }
    emulate::own_state().copies.push_back(c);
}

inline void async_copy_16(uint32_t to, const void *from, bool there) {
    async_copy_aligned<16>(to, from, there);
}

template <int bytes>
inline void async_copy_cached(uint32_t to, const void *from, bool there) {
    async_copy_aligned<bytes>(to, from, there);
}

inline void async_copy_16_signed(uint32_t to, const void *from, int there) {
    async_copy_16(to, from, there >= 0);
}

// The mbarriers that the copies report to may complete later.
inline void async_copy_wait() {
    using namespace emulate;
    for (transfer &t : transfers) {
        if (t.owner == blocks->own) {
            copies_end(t.copies);
            t.copies.clear();
        }
    }
    for (const std::vector<copy> &group : own_state().copy_groups) {
        copies_end(group);
    }
    own_state().copy_groups.clear();
    copies_end(own_state().copies);
    own_state().copies.clear();
}

inline void async_copy_commit() {
    emulate::thread_state &s = emulate::own_state();
    s.copy_groups.push_back(std::move(s.copies));
    s.copies.clear();
}

// Groups complete as late as they may.
template <int groups>
void async_copy_wait_but() {
    emulate::thread_state &s = emulate::own_state();
    if (emulate::copies_skipped) {
        return;
    }
    while (s.copy_groups.size() > groups) {
        emulate::copies_end(s.copy_groups.front());
        s.copy_groups.erase(s.copy_groups.begin());
    }
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
    for (int i = emulate::arrivals_planted ? emulate::arrivals_planted() : 1; i > 0; --i) {
        emulate::barrier_change(&emulate::shared_at<uint64_t>(barrier), 1, 0);
    }
}

enum { mbarrier_warp = 1 };

inline void mbarrier_arrive_warp(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        mbarrier_arrive(barrier);
    }
}

inline void mbarrier_arrive_copies(uint32_t barrier) {
    using namespace emulate;
    transfers.push_back(
        {std::move(own_state().copies), &shared_at<uint64_t>(barrier), 1, blocks->own, false, 0});
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
    transfers.push_back(
        {{copy_begin(to, from, bytes)}, &shared_at<uint64_t>(barrier), 0, -1, false, 0});
}

inline void mbarrier_bulk_copy_all(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier,
                                   uint32_t ranks) {
    for (uint32_t rank = 0; rank < emulate::clusters->ranks; ++rank) {
        if (ranks >> rank & 1) {
            mbarrier_bulk_copy(emulate::cluster_of(to, rank), from, bytes,
                               emulate::cluster_of(barrier, rank));
        }
    }
}

inline void mbarrier_tensor_copy(uint32_t to, const void *map, int x, int y, uint32_t barrier) {
    using namespace emulate;
    const tensor_map &m = *(const tensor_map *)map;
    if (to % spira::wgmma_align) {
        fault("an address is not aligned");
    }
    transfer t = {{}, &shared_at<uint64_t>(barrier), 0, -1, false, 0};
    for (uint32_t at = 0; at < m.rows * m.bytes; at += 16) {
        const int64_t row = y + (int64_t)(at / m.bytes), byte = 2 * (int64_t)x + at % m.bytes;
        const bool there = row >= 0 && row < m.height && byte < m.width;
        t.copies.push_back(copy_begin(to + spira::wgmma_place(at, spira::wgmma_row_log_most),
                                      there ? m.array + row * m.width + byte : nullptr, 16));
    }
    transfers.push_back(std::move(t));
}

inline void mbarrier_wait(uint32_t barrier, uint32_t phase) {
    if (emulate::wait_skipped && emulate::wait_skipped()) {
        return;
    }
    emulate::barrier_meet(&emulate::shared_at<uint64_t>(barrier), phase);
}

inline void named_barrier_sync(int number, int threads, int line = __builtin_LINE()) {
    emulate::meet_barrier(number, threads, line);
}

inline bool named_barrier_any(int number, int threads, bool mine, int line = __builtin_LINE()) {
    static thread_local int votes[32]; // as in __syncthreads_count
    votes[number] += mine;
    named_barrier_sync(number, threads, line);
    const bool any = votes[number] > 0;
    named_barrier_sync(number, threads, line);
    votes[number] -= mine;
    return any;
}

inline uint32_t cluster_address(uint32_t shared, uint32_t rank) {
    return emulate::cluster_of(shared, rank);
}

inline void cluster_store_4(uint32_t to, float4 v, uint32_t barrier) {
    using namespace emulate;
    copy c = copy_begin(to, nullptr, 16);
    memcpy(c.value, &v, sizeof v);
    transfers.push_back({{c}, &shared_at<uint64_t>(barrier), 0, -1, true, to / apart - 1});
}

inline void cluster_arrive(uint32_t barrier) {
    using namespace emulate;
    transfers.push_back({{}, &shared_at<uint64_t>(barrier), 1, blocks->own, false, 0});
}

inline void cluster_arrive_read(uint32_t barrier) {
    cluster_arrive(barrier);
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

// Also completes the thread's own stores to the cluster.
inline void cluster_sync() {
    using namespace emulate;
    if (meetings_skipped) {
        return;
    }
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

inline void wgmma_begin_copied() {}

template <typename E>
using wgmma_sum = typename numeric_sum<E>::type;

template <typename E, int columns>
void wgmma_step(wgmma_sum<E> (&sum)[columns / 2], uint32_t a, uint32_t b, uint32_t form) {
    const float *values = nullptr;
    if constexpr (sizeof(E) == 2) {
        values = emulate::values_of<E>();
    }
    emulate::own_state().steps.push_back({sum, a, b, form, columns, false, values});
}

template <typename E, int columns>
void wgmma_step_transposed(float (&sum)[columns / 2], uint32_t a, uint32_t b, uint32_t form) {
    emulate::own_state().steps.push_back({sum, a, b, form, columns, true, emulate::values_of<E>()});
}

// Reports threads of a warpgroup that have issued different steps.
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
        fault("threads of a warpgroup issue different steps");
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

template <typename S, int sums>
void wgmma_settle(S (&)[sums]) {
    if (!emulate::own_state().groups.empty()) {
        emulate::fault("accumulators are read before wgmma_wait");
    }
}

template <int registers>
void setmaxnreg_dec() {}

template <int registers>
void setmaxnreg_inc() {}

} // namespace spira

#endif
