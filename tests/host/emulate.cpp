// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/emulate.cpp: the emulator (emulate.h, emulate_hopper.h) runs kernels correctly and
// reports what would go wrong on a GPU.
#include "../support/test.h"

#include "../support/emulate_mma.h"

using namespace spira;

namespace {

enum { threads = 96 };
enum { memory = 4096 }; // bytes of shared memory of kernels that copy

// Exchanges values within each warp, then within the thread block.
void kernel_meets(int32_t *votes, int32_t *lower, int32_t *sums, int32_t *others) {
    __shared__ int32_t values[threads];
    const int own = (int)threadIdx.x, at = (int)blockIdx.x * threads + own;
    votes[at] = (int32_t)__ballot_sync(~0u, own % 3 == 0);
    lower[at] = __shfl_up_sync(~0u, own, 4);
    sums[at] = warp_sum(own);
    values[own] = own + 1000 * (int)blockIdx.x;
    __syncthreads();
    others[at] = values[threads - 1 - own];
}

// One thread does not arrive at the barrier, or at the vote of its warp.
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

// Lanes of a warp vote at two different places.
void kernel_strays(int32_t *votes) {
    if ((int)threadIdx.x < 5) {
        *votes = (int32_t)__ballot_sync(~0u, true);
    } else {
        *votes = (int32_t)__ballot_sync(~0u, true);
    }
}

// Copies three groups of 16 bytes for each lane and waits for all but the last `left`; at the end
// for all, unless one is to be left.
void kernel_groups(const uint32_t *from, uint32_t *to, int left, bool ends) {
    const uint32_t at = shared_address(hopper_dynamic) + threadIdx.x * 16;
    for (int i = 0; i < 3; ++i) {
        async_copy_16_signed(at + (uint32_t)i * threads * 16,
                             from + (i * threads + (int)threadIdx.x) * 4, i == 1 ? -1 : 0);
        async_copy_commit();
    }
    left == 2 ? async_copy_wait_but<2>() : left == 1 ? async_copy_wait_but<1>() : async_copy_wait();
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        const uint32_t other = shared_address(hopper_dynamic) +
                               (uint32_t)(i * threads + threads - 1 - (int)threadIdx.x) * 16;
        to[i * threads + (int)threadIdx.x] = shared_load(other);
    }
    __syncthreads();
    if (ends) {
        async_copy_wait();
    }
}

status launch_parts(int leaves) {
    return kernel_launch(kernel_parts, {2, threads, nullptr, "parts"}, leaves);
}

status launch_splits(int leaves, int32_t *votes) {
    return kernel_launch(kernel_splits, {1, threads, nullptr, "splits"}, leaves, votes);
}

// One warp copies to shared memory that the other warps read, with one planted mistake.
enum mistake : int {
    mistake_none,
    mistake_no_wait,
    mistake_no_arrival,
    mistake_no_barrier,
    mistake_outside,
    mistake_unaligned,
    mistake_left,
};

void kernel_copies(const uint32_t *from, uint32_t *to, mistake m) {
    __shared__ uint64_t full;
    const uint32_t first = shared_address(hopper_dynamic), barrier = shared_address(&full);
    const int own = (int)threadIdx.x;
    if (own == 0) {
        full = 0;
    }
    if (own == 0 && m != mistake_no_barrier) {
        mbarrier_init(&full, 32 + 1);
    }
    __syncthreads();
    if (own < 32) {
        const uint32_t at = first + (uint32_t)own * 16;
        async_copy_16(at + (m == mistake_outside     ? memory
                            : m == mistake_unaligned ? 8
                                                     : 0),
                      from + own * 4, own % 5 > 0);
        if (m != mistake_left) {
            mbarrier_arrive_copies(barrier);
        }
        if (own == 0) {
            mbarrier_bulk_copy(first + 512, from + 128, 512, barrier);
            if (m != mistake_no_arrival) {
                mbarrier_arrive_expect_tx(barrier, 512);
            }
        }
    }
    if (m != mistake_no_wait && m != mistake_left) {
        mbarrier_wait(barrier, 0);
    }
    if (own < 64) {
        for (int i = 0; i < 4; ++i) {
            to[own * 4 + i] = shared_load(first + (uint32_t)(own * 4 + i) * 4);
        }
    }
    if (m != mistake_left) {
        mbarrier_wait(barrier, 0);
    }
}

// Two thread blocks exchange a number of each thread, twice, through the same memory.
void kernel_cluster(float *to, bool taken_first) {
    __shared__ uint64_t ready, taken;
    const uint32_t rank = blockIdx.x, own = threadIdx.x;
    const uint32_t at = shared_address(hopper_dynamic) + own * 16;
    if (own == 0) {
        mbarrier_init(&ready, 1);
        mbarrier_init(&taken, threads);
    }
    mbarrier_init_fence();
    cluster_sync();
    for (uint32_t round = 0; round < 2; ++round) {
        const float v = (float)(1000 * rank + 10 * own + round);
        if (own == 0) {
            mbarrier_arrive_expect_tx(shared_address(&ready), threads * 16);
        }
        if (taken_first) {
            cluster_wait(shared_address(&taken), round ^ 1);
        }
        cluster_store_4(cluster_address(at, rank ^ 1), make_float4(v, v, v, v),
                        cluster_address(shared_address(&ready), rank ^ 1));
        cluster_wait(shared_address(&ready), round);
        to[(rank * 2 + round) * threads + own] = __uint_as_float(shared_load(at + 12));
        cluster_arrive(cluster_address(shared_address(&taken), rank ^ 1));
    }
    cluster_sync();
}

// A thread block stores to another one, which may have ended.
void kernel_left_alone() {
    __shared__ uint64_t ready;
    cluster_sync();
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        cluster_store_4(cluster_address(shared_address(hopper_dynamic), 0), {},
                        cluster_address(shared_address(&ready), 0));
    }
}

// Reads a number twice: before and after it waits for the previous kernel.
void kernel_programmatic(const int32_t *from, int32_t *to) {
    to[threadIdx.x * 2] = *from;
    pdl_wait();
    to[threadIdx.x * 2 + 1] = *from;
}

// sum[64, columns] = a * b, for rows of 1 << log bytes.
template <typename E, int columns>
void kernel_multiply(const E *a, const E *b, int log, float *to, bool waits) {
    const uint32_t own = threadIdx.x;
    const uint32_t first = (shared_address(hopper_dynamic) + 1023) & ~1023u;
    const uint32_t second = first + (64u << log);
    for (uint32_t i = own * 2; i < 64u << log; i += 256) {
        emulate::shared_at<E>(first + wgmma_place(i, log)) = a[i / 2];
    }
    for (uint32_t i = own * 2; i < (uint32_t)columns << log; i += 256) {
        emulate::shared_at<E>(second + wgmma_place(i, log)) = b[i / 2];
    }
    __syncthreads();
    float sum[columns / 2] = {};
    wgmma_begin();
    for (uint32_t at = 0; at < 1u << log; at += wgmma_step_bytes) {
        wgmma_step<E, columns>(sum, wgmma_address(first) + (at >> 4),
                               wgmma_address(second) + (at >> 4), wgmma_form(log));
    }
    wgmma_end();
    if (waits) {
        wgmma_wait<0>();
    }
    wgmma_settle(sum);
    for (uint32_t i = 0; i < columns / 2; ++i) {
        const uint32_t row = own / 32 * 16 + own % 32 / 4 + i / 2 % 2 * 8;
        to[row * columns + i / 4 * 8 + own % 4 * 2 + i % 2] = sum[i];
    }
}

template <typename E, int columns>
void check_multiply(int log) {
    const int depth = 1 << (log - 1);
    random_state random = random_make((uint64_t)log);
    std::vector<E> a((size_t)(64 * depth)), b((size_t)(columns * depth));
    for (std::vector<E> *v : {&a, &b}) {
        for (E &e : *v) {
            e = element_from_float<E>((float)random_int(&random, -8, 8));
        }
    }
    std::vector<float> sums(64 * columns);
    const auto launch = [&](bool waits) {
        return kernel_launch(
            kernel_multiply<E, columns>,
            {1, 128, nullptr, "multiply", false, ((size_t)(64 + columns) << log) + 1024}, a.data(),
            b.data(), log, sums.data(), waits);
    };
    REQUIRE_OK(launch(true));
    for (int at = 0; at < 64 * columns; ++at) {
        float sum = 0;
        for (int i = 0; i < depth; ++i) {
            sum += element_to_float(a[(size_t)(at / columns * depth + i)]) *
                   element_to_float(b[(size_t)(at % columns * depth + i)]);
        }
        REQUIRE(CHECK_EQUAL(sums[(size_t)at], sum));
    }
    CHECK_STATUS(launch(false), status_cuda);
}

} // namespace

TEST(emulate_threads_meet) {
    enum { blocks = 3, all = blocks * threads };
    std::vector<int32_t> votes(all), lower(all), sums(all), others(all);
    REQUIRE_OK(kernel_launch(kernel_meets, {blocks, threads, nullptr, "meets"}, votes.data(),
                             lower.data(), sums.data(), others.data()));
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

TEST(emulate_reports_threads_that_do_not_arrive) {
    int32_t votes = 0;
    CHECK_OK(launch_parts(-1));
    CHECK_OK(launch_splits(-1, &votes));
    CHECK_EQUAL((uint32_t)votes, ~0u);
    for (int leaves : {0, 40, threads - 1}) {
        CHECK_STATUS(launch_parts(leaves), status_cuda);
        CHECK_STATUS(launch_splits(leaves, &votes), status_cuda);
    }
    CHECK_STATUS(kernel_launch(kernel_strays, {1, threads, nullptr, "strays"}, &votes),
                 status_cuda);
    CHECK_OK(launch_parts(-1)); // the emulator is still usable
}

TEST(emulate_copies_complete_late) {
    std::vector<uint32_t> from(256), to(256);
    for (uint32_t i = 0; i < 256; ++i) {
        from[i] = i + 1;
    }
    const auto launch = [&](mistake m) {
        to.assign(256, 0);
        return kernel_launch(kernel_copies, {1, threads, nullptr, "copies", false, memory},
                             from.data(), to.data(), m);
    };
    for (emulate::seed = 0; emulate::seed < 20; ++emulate::seed) {
        REQUIRE_OK(launch(mistake_none));
        for (uint32_t i = 0; i < 256; ++i) {
            REQUIRE(CHECK_EQUAL(to[i], i < 128 && i / 4 % 5 == 0 ? 0 : i + 1));
        }
        REQUIRE_OK(launch(mistake_no_wait));
        CHECK(std::count(to.begin(), to.end(), ~0u) > 0);
        for (mistake m : {mistake_no_arrival, mistake_no_barrier, mistake_outside,
                          mistake_unaligned, mistake_left}) {
            CHECK_STATUS(launch(m), status_cuda);
        }
    }
}

TEST(emulate_clusters_share_memory) {
    std::vector<float> to(4 * threads);
    const auto good = [&](bool taken_first) {
        const status s =
            kernel_launch(kernel_cluster, {2, threads, nullptr, "cluster", false, memory, 2},
                          to.data(), taken_first);
        bool all = s.code == status_ok;
        for (int at = 0; at < 4 * threads; ++at) {
            const int rank = at / threads / 2, round = at / threads % 2;
            all = all && to[(size_t)at] == (float)(1000 * (rank ^ 1) + 10 * (at % threads) + round);
        }
        return all;
    };
    int lost = 0; // overwritten before they were read
    for (emulate::seed = 0; emulate::seed < 20; ++emulate::seed) {
        CHECK(good(true));
        lost += !good(false);
    }
    CHECK(lost > 0);
    const launch_config two = {2, threads, nullptr, "cluster", false, memory, 2};
    int ended = 0;
    for (emulate::seed = 0; emulate::seed < 20; ++emulate::seed) {
        ended += kernel_launch(kernel_left_alone, two).code != status_ok;
    }
    CHECK(ended > 0);
}

TEST(emulate_programmatic_launch) {
    int32_t from = 0;
    std::vector<int32_t> to(2 * threads);
    emulate::seed = 0; // with this seed the previous kernel ends when all threads wait for it
    emulate::previous = {[&] { from = 5; }, [&] { from = 7; }};
    for (bool programmatic : {true, false}) {
        from = 7;
        REQUIRE_OK(kernel_launch(kernel_programmatic,
                                 {1, threads, nullptr, "programmatic", programmatic},
                                 (const int32_t *)&from, to.data()));
        for (int i = 0; i < 2 * threads; ++i) {
            CHECK_EQUAL(to[(size_t)i], programmatic && i % 2 == 0 ? 5 : 7);
        }
    }
    emulate::previous = {};
}

TEST(emulate_multiplies) {
    for (int log : {5, 6, 7}) {
        check_multiply<__half, 32>(log);
        check_multiply<__nv_bfloat16, 96>(log);
    }
    check_multiply<__half, 256>(7);
}

TEST(emulate_groups_of_copies) {
    std::vector<uint32_t> from(3 * threads * 4), to(3 * threads);
    for (size_t i = 0; i < from.size(); ++i) {
        from[i] = (uint32_t)i + 1;
    }
    for (int left = 0; left < 3; ++left) {
        for (bool ends : {true, false}) {
            const status s = kernel_launch(kernel_groups,
                                           {1, threads, nullptr, "groups", false, 3 * threads * 16},
                                           (const uint32_t *)from.data(), to.data(), left, ends);
            CHECK_STATUS(s, ends || left == 0 ? status_ok : status_cuda);
            for (int i = 0; i < 3 * threads; ++i) {
                const int group = i / threads, other = threads - 1 - i % threads;
                const uint32_t copied =
                    group == 1 ? 0 : from[(size_t)(group * threads + other) * 4];
                REQUIRE(CHECK_EQUAL(to[(size_t)i], group >= 3 - left ? ~0u : copied));
            }
        }
    }
}
