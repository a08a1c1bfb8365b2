// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate.h: runs kernels on the host, so that their results are tested without a
// GPU.
//
// Include it before a .cuh file that uses only what is declared here (or in emulate_hopper.h).
//
// The threads of a thread block are fibers: one runs until it has to wait for others. The next one
// is drawn at random from emulate::seed, so that warps drift apart. As many thread blocks as
// emulate::side_by_side, or those of a cluster, run concurrently; when all of them have ended, the
// next ones begin, in the order of emulate::admission: as on a GPU with room for so many. Finds
// wrong results, deadlocks, thread blocks that wait for others which may not have begun, lanes that
// synchronise at different places of the code, and bugs that depend on the order in which threads
// arrive. Does not find races between two waits or between clusters, nor missing fences:
// every write is visible to all threads at once. A kernel with programmatic launch begins while the
// previous one still runs: see previous_kernel.
//
// Fibers begin by glibc's ucontext.h; from then on _longjmp switches, which needs no system call.
// Shared memory is thread-local memory of the host: each thread block of a cluster is a host
// thread, of which one runs at a time. Compile with g++, -fno-extern-tls-init (for dynamic shared
// memory) and -U_FORTIFY_SOURCE (whose longjmp refuses to enter another stack).
#ifndef SPIRA_TESTS_EMULATE_H
#define SPIRA_TESTS_EMULATE_H

#include "../../spira/base/integer.h"
#include "../../spira/device.h"
#include "../../spira/status.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <setjmp.h>
#include <string.h>
#include <thread>
#include <ucontext.h>
#include <vector>

// This file replaces these.
#define SPIRA_BASE_ASYNC_CUH
#define SPIRA_BASE_LAUNCH_CUH
#define SPIRA_DEVICE_CUH
#define SPIRA_STATUS_CUH

#define SPIRA_DEVICE [[maybe_unused]] static inline
#define SPIRA_KERNEL [[maybe_unused]] static
#define SPIRA_PLAIN_KERNEL                                                                         \
    template <int = 0>                                                                             \
    SPIRA_KERNEL
#define SPIRA_LAUNCHER                                                                             \
    template <int = 0>                                                                             \
    SPIRA_API
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __shared__ thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __launch_bounds__(...)

typedef void *cudaStream_t;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulate {

enum meeting { running, vote, shuffle, barrier, condition, done };

struct fiber {
    std::unique_ptr<ucontext_t> context; // apart: the scheduler looks at the other members often
    jmp_buf resumes;                     // where it waits
    bool begun;                          // its stack is in use, and `resumes` is set
    std::unique_ptr<char[]> stack;
    meeting at;                            // what it waits for
    uint32_t given, got;                   // operand and result of a vote or shuffle
    int from;                              // the lane that a shuffle reads
    int number, threads;                   // the barrier, and the threads that it waits for
    int line;                              // of the code, where lanes synchronise
    bool (*ready)(uint64_t a, uint64_t b); // the condition that it waits for, and its operands
    uint64_t a, b;
    unsigned syncs; // of the cluster, at which it has arrived
};

enum { stack_bytes = 1 << 16, ranks_most = 8 };

// The order in which thread blocks begin. A GPU promises none.
enum admission_order { first_first, shuffled };

// A thread block while it runs.
struct block {
    std::vector<fiber> fibers;
    ucontext_t context; // of the scheduler
    jmp_buf resumes;
    int own; // the fiber that runs
    unsigned rank;
    uint64_t random;
    std::function<bool(bool all)> deliver; // completes asynchronous operations: emulate_hopper.h
};

// The thread blocks of a cluster, of which one runs at a time.
struct cluster {
    std::function<void()> body;
    unsigned ranks, threads;
    unsigned turn, alive;    // the rank that runs; a bit for each rank that has not ended
    unsigned begun;          // a bit for each rank that has memory
    unsigned idle;           // turns since a thread has made progress
    unsigned arrived, syncs; // threads that have arrived at the next sync; syncs so far
    bool released;           // the previous kernel has ended
    std::mutex mutex;
    std::condition_variable passed;
};

// What the previous kernel does to memory, where a kernel has programmatic launch. It begins before
// each cluster and ends at a random time, at the latest when the cluster waits for it.
struct previous_kernel {
    std::function<void()> begin, end;
};

inline uint64_t seed;
inline unsigned side_by_side = 1; // thread blocks that run at a time where there are no clusters
inline admission_order admission = shuffled;
inline previous_kernel previous;
inline bool unawaited;                  // a thread block has ended before the previous kernel
inline bool barriers_skipped;           // a planted error: __syncthreads does not wait
inline const char *trouble;             // the first fault of the launch; null: none
inline std::set<const void *> launched; // kernels
inline cluster *clusters;               // the one that runs
inline thread_local block *blocks;      // of this host thread
// Prepares and checks shared memory before and after a thread block: emulate_hopper.h.
inline void (*memory_begin)(block *b, size_t bytes);
inline void (*memory_end)();

// A random number below `end`.
inline unsigned draw(unsigned end) {
    uint64_t &r = blocks->random;
    r = r * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((r >> 33) % end);
}

inline void fault(const char *what) {
    trouble = trouble ? trouble : what;
}

inline fiber &self() {
    return blocks->fibers[(size_t)blocks->own];
}

inline int lane() {
    return blocks->own % 32;
}

// Gives way until the scheduler has resolved what the fiber waits for.
[[gnu::noipa]] inline void wait(meeting at) {
    fiber &f = self();
    f.at = at;
#ifdef __SANITIZE_ADDRESS__ // it has to see the switch
    swapcontext(f.context.get(), &blocks->context);
#else
    if (_setjmp(f.resumes) == 0) {
        _longjmp(blocks->resumes, 1);
    }
#endif
}

// Runs a fiber until it waits.
[[gnu::noipa]] inline void run_fiber(fiber &f) {
#ifdef __SANITIZE_ADDRESS__
    swapcontext(&blocks->context, f.context.get());
#else
    if (_setjmp(blocks->resumes) == 0) {
        if (f.begun) {
            _longjmp(f.resumes, 1);
        }
        f.begun = true;
        setcontext(f.context.get());
    }
#endif
}

inline uint32_t meet(meeting at, uint32_t given, int from, int line) {
    self().line = line;
    self().given = given;
    self().from = from;
    wait(at);
    return self().got;
}

// Waits at a barrier for `threads` threads of the thread block. number: below 32.
inline void meet_barrier(int number, int threads, int line) {
    self().line = line;
    self().number = number;
    self().threads = threads;
    wait(barrier);
}

// Waits until ready(a, b).
inline void wait_until(bool (*ready)(uint64_t, uint64_t), uint64_t a, uint64_t b) {
    if (!ready(a, b)) {
        self().ready = ready;
        self().a = a;
        self().b = b;
        wait(condition);
    }
}

inline void begin() {
    for (;;) { // a fiber that has ended is used again
        clusters->body();
        wait(done);
    }
}

inline bool all_at(size_t first, size_t count, meeting at) {
    for (size_t i = first; i < first + count; ++i) {
        if (blocks->fibers[i].at != at) {
            return false;
        }
    }
    return true;
}

// Reports lanes of a warp that synchronise at different places of the code.
inline void check_lines(size_t first) {
    for (size_t i = first; i < first + 32; ++i) {
        if (blocks->fibers[i].line != blocks->fibers[first].line) {
            fault("lanes of a warp synchronise at different places");
        }
    }
}

// Resolves a vote or shuffle at which all lanes of a warp have arrived.
inline bool release_warp(size_t first) {
    std::vector<fiber> &fibers = blocks->fibers;
    const bool votes = all_at(first, 32, vote);
    if (!votes && !all_at(first, 32, shuffle)) {
        return false;
    }
    check_lines(first);
    uint32_t all = 0;
    for (size_t i = 0; i < 32; ++i) {
        all |= fibers[first + i].given ? 1u << i : 0;
    }
    for (size_t i = first; i < first + 32; ++i) {
        fibers[i].got = votes ? all : fibers[first + (size_t)fibers[i].from].given;
        fibers[i].at = running;
    }
    return true;
}

// Runs the lanes of a warp that can run.
inline bool run_warp(size_t first) {
    std::vector<fiber> &fibers = blocks->fibers;
    bool moved = false;
    const unsigned turn = draw(32);
    for (unsigned i = 0; i < 32; ++i) {
        fiber &f = fibers[first + (i ^ turn)];
        if (f.at == condition && f.ready(f.a, f.b)) {
            f.at = running;
        }
        if (f.at == running) {
            blocks->own = (int)(first + (i ^ turn));
            run_fiber(f);
            moved = true;
        }
    }
    return release_warp(first) || moved;
}

// Releases the threads of complete barriers.
inline bool release_barriers() {
    int come[32] = {};
    bool moved = false;
    for (const fiber &f : blocks->fibers) {
        come[f.number] += f.at == barrier;
    }
    for (size_t i = 0; i < blocks->fibers.size(); ++i) {
        fiber &f = blocks->fibers[i];
        if (f.at == barrier && come[f.number] == f.threads) {
            if (i % 32 == 0) {
                check_lines(i);
            }
            f.at = running;
            moved = true;
        }
    }
    return moved;
}

// Runs the thread block until no thread can go on, or for some rounds, if there are other thread
// blocks. Returns whether any thread has made progress. Each warp runs in one of `pace` rounds, a
// number that is drawn anew now and then. In a round without progress all run next.
inline bool run_on() {
    const size_t warps = blocks->fibers.size() / 32;
    std::vector<unsigned> pace(warps);
    bool any = false, all = false;
    const unsigned most = clusters->ranks > 1 || !clusters->released ? draw(100) : ~0u;
    for (unsigned round = 0;; ++round) {
        bool moved = false, left_out = false;
        for (size_t w = 0; w < warps && !trouble; ++w) {
            pace[w] = pace[w] && draw(200) ? pace[w] : 1u << draw(3) * draw(4);
            if (all || draw(pace[w]) == 0) {
                moved = run_warp(w * 32) || moved;
            } else {
                left_out = true;
            }
        }
        moved = release_barriers() || moved;
        moved = (blocks->deliver && blocks->deliver(!moved && !left_out)) || moved;
        any = any || moved;
        all = !moved;
        if (trouble || (!moved && !left_out) || (any && round >= most)) {
            return any;
        }
    }
}

inline void block_begin(block *b) {
    b->fibers.resize(clusters->threads);
    for (fiber &f : b->fibers) {
        const bool ended = f.stack && f.at == done;
        f.stack.reset(f.stack ? f.stack.release() : new char[stack_bytes]);
        f.at = running;
        f.syncs = 0;
        if (ended) {
            continue;
        }
        f.begun = false;
        f.context.reset(f.context ? f.context.release() : new ucontext_t);
        getcontext(f.context.get());
        f.context->uc_stack.ss_sp = f.stack.get();
        f.context->uc_stack.ss_size = stack_bytes;
        f.context->uc_link = nullptr;
        makecontext(f.context.get(), begin, 0);
    }
}

// Ends the previous kernel.
inline void release(cluster *c) {
    c->released = true;
    if (previous.end) {
        previous.end();
    }
}

// Runs the thread block, in turns with the others of its cluster, until it has ended. Reports a
// deadlock if all threads wait and the previous kernel has ended.
inline void run_turns(block *b) {
    cluster *c = clusters;
    std::unique_lock<std::mutex> lock(c->mutex);
    blocks = b;
    block_begin(b);
    c->begun |= 1u << b->rank;
    for (bool ended = false; !ended;) {
        c->passed.wait(lock, [&] { return c->turn == b->rank; });
        c->idle = run_on() ? 0 : c->idle + 1;
        ended = trouble || all_at(0, b->fibers.size(), done);
        if (ended && memory_end && !trouble) {
            memory_end();
        }
        c->alive &= ended ? ~(1u << b->rank) : ~0u;
        const bool stuck = !ended && c->idle > c->ranks;
        unawaited = unawaited || (ended && !c->released && !trouble);
        if (!c->released && (stuck || ended || draw(20) == 0)) {
            release(c);
            c->idle = 0;
        } else if (stuck) {
            fault("deadlock");
        }
        unsigned next = (b->rank + 1) % c->ranks;
        while (c->alive && !(c->alive >> next & 1)) {
            next = (next + 1) % c->ranks;
        }
        c->turn = next;
        c->passed.notify_all();
    }
}

// Runs a cluster. prepare: called before each of its thread blocks.
inline void run_cluster(cluster *c, const std::function<void(block *)> &prepare) {
    clusters = c;
    c->alive = (1u << c->ranks) - 1;
    c->begun = 0;
    if (previous.begin && !c->released) {
        previous.begin();
    }
    auto run = [&](unsigned rank) {
        static thread_local block b;
        b.rank = rank;
        b.random = seed + rank;
        prepare(&b);
        run_turns(&b);
    };
    std::vector<std::thread> others;
    for (unsigned rank = 1; rank < c->ranks; ++rank) {
        others.emplace_back(run, rank);
    }
    run(0);
    for (std::thread &other : others) {
        other.join();
    }
}

// Returns the numbers of `count` clusters in the order in which they begin.
inline std::vector<unsigned> admitted(unsigned count) {
    std::vector<unsigned> number(count);
    uint64_t random = seed;
    for (unsigned i = 0; i < count; ++i) {
        number[i] = i;
        random = random * 6364136223846793005u + 1442695040888963407u;
        std::swap(number[i], number[admission == shuffled ? (random >> 33) % (i + 1) : i]);
    }
    return number;
}

} // namespace emulate

// ---- CUDA's functions and variables -------------------------------------------------------------

struct emulated_thread {
    struct {
        operator unsigned() const {
            return (unsigned)emulate::blocks->own;
        }
    } x;
};

inline emulated_thread threadIdx;
inline thread_local dim3 blockIdx = 0;
inline dim3 blockDim = 0, gridDim = 0;

inline uint32_t __ballot_sync(uint32_t, bool vote, int line = __builtin_LINE()) {
    return emulate::meet(emulate::vote, vote, 0, line);
}

inline bool __all_sync(uint32_t lanes, bool vote, int line = __builtin_LINE()) {
    return __ballot_sync(lanes, vote, line) == ~0u;
}

inline bool __any_sync(uint32_t lanes, bool vote, int line = __builtin_LINE()) {
    return __ballot_sync(lanes, vote, line) != 0;
}

inline void __syncwarp(int line = __builtin_LINE()) {
    __ballot_sync(~0u, true, line);
}

template <typename T>
T __shfl_sync(uint32_t, T value, int lane, int line = __builtin_LINE()) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "one word or two");
    lane &= 31;
    uint32_t word[2] = {};
    memcpy(word, &value, sizeof(T));
    for (size_t i = 0; i < sizeof(T) / 4; ++i) {
        word[i] = emulate::meet(emulate::shuffle, word[i], lane, line);
    }
    memcpy(&value, word, sizeof(T));
    return value;
}

template <typename T>
T __shfl_up_sync(uint32_t lanes, T value, int step, int line = __builtin_LINE()) {
    const int lane = emulate::lane();
    return __shfl_sync(lanes, value, lane < step ? lane : lane - step, line);
}

template <typename T>
T __shfl_xor_sync(uint32_t lanes, T value, int mask, int line = __builtin_LINE()) {
    return __shfl_sync(lanes, value, emulate::lane() ^ mask, line);
}

inline void __syncthreads(int line = __builtin_LINE()) {
    if (!emulate::barriers_skipped) {
        emulate::meet_barrier(0, (int)blockDim.x, line);
    }
}

inline int __syncthreads_count(bool vote, int line = __builtin_LINE()) {
    static thread_local int votes; // each thread takes its own back before the next barrier
    votes += vote;
    __syncthreads(line);
    const int all = votes;
    __syncthreads(line);
    votes -= vote;
    return all;
}

inline bool __syncthreads_or(int vote, int line = __builtin_LINE()) {
    return __syncthreads_count(vote != 0, line) > 0;
}

inline void __threadfence() {}

inline int __popc(uint32_t bits) {
    return __builtin_popcount(bits);
}

inline int __clz(int bits) {
    return bits ? __builtin_clz((unsigned)bits) : 32;
}

inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}

template <typename T>
T __ldg(const T *from) {
    return *from;
}

inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, unsigned shift) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31));
}

template <typename T>
void __stcg(T *to, T value) {
    *to = value;
}

inline int32_t atomicAdd(int32_t *sum, int32_t value) {
    *sum += value;
    return *sum - value;
}

inline void atomicAdd(unsigned long long *sum, unsigned long long value) {
    *sum += value;
}

inline void atomicOr(uint32_t *all, uint32_t bits) {
    *all |= bits;
}

inline int32_t min(int32_t a, int32_t b) {
    return a < b ? a : b;
}

inline int32_t max(int32_t a, int32_t b) {
    return a > b ? a : b;
}

inline int cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    memset(to, value, bytes);
    return 0;
}

namespace spira {

inline int warp_sum(int value) {
    for (int step = 16; step; step /= 2) { // of four bytes, too: it may wrap
        value = (int)((uint32_t)value + (uint32_t)__shfl_xor_sync(~0u, value, step));
    }
    return value;
}

inline int warp_sum_up_to(int value) {
    uint32_t sum = 0; // of four bytes, too
    for (int lane = 0; lane < 32; ++lane) {
        const uint32_t other = (uint32_t)__shfl_sync(~0u, value, lane);
        sum += lane <= emulate::lane() ? other : 0;
    }
    return (int)sum;
}

inline uint32_t warp_unite(uint32_t bits) {
    for (int step = 16; step; step /= 2) {
        bits |= __shfl_xor_sync(~0u, bits, step);
    }
    return bits;
}

template <int bits>
uint32_t warp_peers(uint32_t number) {
    uint32_t peers = ~0u;
    for (int b = 0; b < bits; ++b) {
        const bool own = number >> b & 1;
        const uint32_t same = __ballot_sync(~0u, own);
        peers &= own ? same : ~same;
    }
    return peers;
}

inline uint32_t bytes_add(uint32_t word, uint32_t sum) {
    return sum + (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
}

inline uint32_t poll_nonzero(const uint32_t *from) {
    emulate::wait_until([](uint64_t p, uint64_t) { return *(const volatile uint32_t *)p != 0; },
                        (uint64_t)(uintptr_t)from, 0);
    return *from;
}

inline void device_status_raise(device_status *s, device_flag flag, uint32_t row) {
    device_status_note(s, flag, row);
}

inline void device_status_raise_count(device_status *s, int32_t count, int32_t capacity) {
    if (count > capacity) {
        device_status_note(s, device_flag_capacity, (uint32_t)count);
    }
}

inline void device_status_count(uint32_t *counter, uint32_t more) {
    *counter += more;
}

inline status status_from_cuda(int, const char *) {
    return status_success();
}

// All kernels are compiled.
constexpr bool device_code_within(int, int) {
    return true;
}

inline void pdl_launch_dependents() {}

inline void pdl_wait() {
    emulate::wait_until([](uint64_t, uint64_t) { return emulate::clusters->released; }, 0, 0);
}

inline void pdl_wait_alone() {
    pdl_wait();
}

template <typename K>
status kernel_shared_allow(K, int, const char *) {
    return status_success();
}

// As launch_config of base/launch.cuh.
struct launch_config {
    dim3 blocks, threads;
    cudaStream_t stream;
    const char *subject;
    bool programmatic = false;
    size_t shared = 0;
    unsigned cluster = 0;
    bool cooperative = false; // one cluster of all thread blocks: at most ranks_most
};

// Runs a kernel. programmatic: it begins before the previous kernel has ended (previous_kernel).
template <typename... P, typename... A>
status kernel_launch(void (*kernel)(P...), const launch_config &as, const A &...arguments) {
    const dim3 blocks = as.blocks;
    gridDim = blocks;
    blockDim = as.threads;
    emulate::trouble = nullptr;
    emulate::launched.insert((const void *)kernel);
    const unsigned all = blocks.x * blocks.y * blocks.z;
    const unsigned each = as.cooperative   ? all
                          : as.cluster > 1 ? as.cluster
                                           : emulate::side_by_side;
    if (each > emulate::ranks_most) {
        return status_make(status_cuda, "thread blocks that wait for one another", each);
    }
    for (unsigned number : emulate::admitted((all + each - 1) / each)) {
        emulate::cluster c = {};
        c.body = [&] { kernel(P(arguments)...); };
        c.ranks = (unsigned)min_of(each, all - number * each);
        c.threads = as.threads.x;
        c.released = !as.programmatic;
        emulate::run_cluster(&c, [&](emulate::block *b) {
            const unsigned at = number * each + b->rank;
            blockIdx = {at % blocks.x, at / blocks.x % blocks.y, at / blocks.x / blocks.y};
            if (emulate::memory_begin) {
                emulate::memory_begin(b, as.shared);
            }
        });
        if (emulate::trouble) {
            return status_make(status_cuda, emulate::trouble, 0);
        }
    }
    return status_success();
}

} // namespace spira

#endif
