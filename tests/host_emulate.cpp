// tests/host_emulate.cpp: what runs kernels on the host (emulate.h) does run them.
#include "test.h"

#include "emulate.h"

using namespace spira;

namespace {

enum { threads = 96 };

// What threads tell each other: within a warp, then over all of the block.
void kernel_meets(int32_t *votes, int32_t *lower, int32_t *sums, int32_t *others) {
    __shared__ int32_t told[threads];
    const int own = (int)threadIdx.x, at = (int)blockIdx.x * threads + own;
    votes[at] = (int32_t)__ballot_sync(~0u, own % 3 == 0);
    lower[at] = __shfl_up_sync(~0u, own, 4);
    sums[at] = warp_sum(own);
    told[own] = own + 1000 * (int)blockIdx.x;
    __syncthreads();
    others[at] = told[threads - 1 - own];
}

// Some threads never come to the barrier, or to the vote of their warp.
void kernel_parts(int leaves) {
    if ((int)threadIdx.x != leaves) {
        __syncthreads();
    }
}

void kernel_splits(int leaves, int32_t *votes) {
    if ((int)threadIdx.x != leaves) {
        *votes = (int32_t)__ballot_sync(~0u, true);
    }
}

status launch_parts(int leaves) {
    return chain_launch(kernel_parts, 2, threads, 0, false, 1, nullptr, "parts", leaves);
}

status launch_splits(int leaves, int32_t *votes) {
    return chain_launch(kernel_splits, 1, threads, 0, false, 1, nullptr, "splits", leaves, votes);
}

} // namespace

TEST(emulate_threads_meet) {
    enum { blocks = 3, all = blocks * threads };
    std::vector<int32_t> votes(all), lower(all), sums(all), others(all);
    REQUIRE_OK(chain_launch(kernel_meets, blocks, threads, 0, false, 1, nullptr, "meets",
                            votes.data(), lower.data(), sums.data(), others.data()));
    for (size_t at = 0; at < all; ++at) {
        const int own = (int)at % threads, lane = own % 32, first = own - lane;
        uint32_t vote = 0;
        for (int i = 0; i < 32; ++i) {
            vote |= (first + i) % 3 == 0 ? 1u << i : 0;
        }
        CHECK_EQUAL((uint32_t)votes[at], vote);
        CHECK_EQUAL(lower[at], lane < 4 ? own : own - 4);
        CHECK_EQUAL(sums[at], 32 * first + 31 * 16);
        CHECK_EQUAL(others[at], threads - 1 - own + 1000 * ((int)at / threads));
    }
}

TEST(emulate_tells_of_threads_that_do_not_meet) {
    int32_t votes = 0;
    CHECK_OK(launch_parts(-1));
    CHECK_OK(launch_splits(-1, &votes));
    CHECK_EQUAL((uint32_t)votes, ~0u);
    for (int leaves : {0, 40, threads - 1}) {
        CHECK_STATUS(launch_parts(leaves), status_cuda);
        CHECK_STATUS(launch_splits(leaves, &votes), status_cuda);
    }
    CHECK_OK(launch_parts(-1)); // and goes on
}
