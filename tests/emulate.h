// tests/emulate.h: runs kernels on the host, so that what they compute is tested without a GPU.
//
// Included before a .cuh file that asks for no more than what stands here. The threads of a block
// are fibers that take turns, the last first, where all of a warp or of the block must meet; blocks
// run one after the other, the last first. So it finds wrong results and threads that do not meet,
// and no races. Fibers are those of glibc (ucontext.h).
#ifndef SPIRA_TESTS_EMULATE_H
#define SPIRA_TESTS_EMULATE_H

#include "../spira/status.h"

#include <functional>
#include <string.h>
#include <ucontext.h>
#include <vector>

// In place of these files.
#define SPIRA_ASYNC_CUH
#define SPIRA_LAUNCH_CUH
#define SPIRA_STATUS_CUH

#define SPIRA_DEVICE [[maybe_unused]] static inline
#define SPIRA_KERNEL [[maybe_unused]] static
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

typedef void *cudaStream_t;

namespace emulate {

struct index {
    unsigned x;
};

enum meeting { running, ballot, shuffle, barrier, done };

struct fiber {
    ucontext_t context;
    std::vector<char> stack;
    meeting at;
    uint32_t given, got; // to and from a meeting
    int from;            // the lane that a shuffle reads
};

enum { stack_bytes = 1 << 16 };

inline std::vector<fiber> fibers;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline int own; // the fiber that runs

inline uint32_t meet(meeting at, uint32_t given, int from) {
    fiber &f = fibers[(size_t)own];
    f.at = at;
    f.given = given;
    f.from = from;
    swapcontext(&f.context, &scheduler);
    return f.got; // `own` is this one again
}

inline void begin() {
    body();
    meet(done, 0, 0);
}

inline bool all_at(size_t first, size_t count, meeting at) {
    for (size_t i = first; i < first + count; ++i) {
        if (fibers[i].at != at) {
            return false;
        }
    }
    return true;
}

// Lets a warp go on whose lanes have met.
inline bool meet_warp(size_t first) {
    const bool votes = all_at(first, 32, ballot);
    if (!votes && !all_at(first, 32, shuffle)) {
        return false;
    }
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

// Returns false if threads wait for others that never come.
inline bool run_block(unsigned threads) {
    fibers.resize(threads);
    for (fiber &f : fibers) {
        f.stack.resize(stack_bytes);
        f.at = running;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = f.stack.size();
        f.context.uc_link = nullptr;
        makecontext(&f.context, begin, 0);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (own = (int)threads - 1; own >= 0; --own) {
            if (fibers[(size_t)own].at == running) {
                swapcontext(&scheduler, &fibers[(size_t)own].context);
            }
        }
        for (size_t first = 0; first < threads; first += 32) {
            moved = meet_warp(first) || moved;
        }
        if (all_at(0, threads, barrier)) {
            for (fiber &f : fibers) {
                f.at = running;
            }
            moved = true;
        }
    }
    return all_at(0, threads, done);
}

} // namespace emulate

// ---- what kernels ask for -----------------------------------------------------------------------

struct emulated_thread {
    struct {
        operator unsigned() const {
            return (unsigned)emulate::own;
        }
    } x;
};

inline emulated_thread threadIdx;
inline emulate::index blockIdx;

inline uint32_t __ballot_sync(uint32_t, bool vote) {
    return emulate::meet(emulate::ballot, vote, 0);
}

inline int32_t __shfl_up_sync(uint32_t, int32_t value, int step) {
    const int lane = emulate::own % 32;
    return (int32_t)emulate::meet(emulate::shuffle, (uint32_t)value,
                                  lane < step ? lane : lane - step);
}

inline int32_t __shfl_sync(uint32_t, int32_t value, int lane) {
    return (int32_t)emulate::meet(emulate::shuffle, (uint32_t)value, lane);
}

inline int32_t __shfl_xor_sync(uint32_t, int32_t value, int mask) {
    return (int32_t)emulate::meet(emulate::shuffle, (uint32_t)value, emulate::own % 32 ^ mask);
}

inline void __syncthreads() {
    emulate::meet(emulate::barrier, 0, 0);
}

inline int __popc(uint32_t bits) {
    return __builtin_popcount(bits);
}

inline int __clz(int bits) {
    return bits ? __builtin_clz((unsigned)bits) : 32;
}

inline void atomicAdd(int32_t *sum, int32_t value) {
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
    for (int step = 16; step; step /= 2) {
        value += __shfl_xor_sync(~0u, value, step);
    }
    return value;
}

inline int warp_sum_up_to(int value) {
    int sum = 0;
    for (int lane = 0; lane < 32; ++lane) {
        const int other = __shfl_sync(~0u, value, lane);
        sum += lane <= emulate::own % 32 ? other : 0;
    }
    return sum;
}

template <int bits>
uint32_t warp_peers(uint32_t number) {
    uint32_t peers = 0;
    for (int lane = 0; lane < 32; ++lane) {
        const uint32_t other = (uint32_t)__shfl_sync(~0u, (int32_t)number, lane);
        peers |= (other ^ number) << (32 - bits) ? 0 : 1u << lane;
    }
    return peers;
}

inline status status_from_cuda(int, const char *) {
    return status_success();
}

inline void chain_next() {}

inline void chain_wait() {}

// Runs it, whatever it is to be beside.
template <typename... P, typename... A>
status chain_launch(void (*kernel)(P...), unsigned blocks, unsigned threads, size_t, bool, unsigned,
                    cudaStream_t, const char *subject, const A &...arguments) {
    emulate::body = [&] { kernel(P(arguments)...); };
    for (unsigned block = blocks; block-- > 0;) {
        blockIdx.x = block;
        if (!emulate::run_block(threads)) {
            return status_make(status_cuda, subject, block);
        }
    }
    return status_success();
}

} // namespace spira

#endif
