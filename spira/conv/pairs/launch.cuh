// spira/conv/pairs/launch.cuh: from parameters to launches: grids, stripes and template arguments.
#ifndef SPIRA_CONV_PAIRS_LAUNCH_CUH
#define SPIRA_CONV_PAIRS_LAUNCH_CUH

#include "../choice.cuh"
#include "exact.cuh"
#include "passes.cuh"
#include "tensor.cuh"

namespace spira {

// ---- how the work is cut ------------------------------------------------------------------------

// Bytes of static shared memory of the kernels of stripes, and to spare.
enum { pairs_stripe_static = (int)sizeof(pairs_stripe) + 6144 };

// Outputs of a stripe: two thread blocks fit on a multiprocessor, and there are at least two for
// each. Between 16 and 1024.
//
// row_bytes  of the sums of an output in shared memory
// slices     thread blocks that share a stripe: the grid's y
SPIRA_API int pairs_stripe_rows(const device_info *gpu, int row_bytes, int32_t capacity,
                                int64_t slices) {
    int64_t room = (gpu->shared_max / 2 - pairs_stripe_static) / row_bytes - 2;
    int64_t wanted = ceil_div(capacity * slices, 2 * (int64_t)gpu->multiprocessors);
    return (int)max_of(min_of(min_of(room, round_up(wanted, 16)), 1024), 16);
}

enum { pairs_exact_registers = 64 };

// Registers of a thread of pairs_atomic_kernel, rounded up to what the compiler has been seen to
// take. The number of thread blocks follows from it; a test compares it with the code.
SPIRA_API constexpr int pairs_atomic_registers(int element, int channel_groups, bool deep,
                                               bool wide) {
    return channel_groups == 4 && (deep || (element == 4 && wide)) ? 160 : 128;
}

// Thread blocks that are resident on the GPU at a time. Every multiprocessor has 65536 registers.
SPIRA_API unsigned pairs_resident(const device_info *gpu, int threads, int registers) {
    const int most = (gpu->capability < 80 ? 1024 : 1536) / threads; // by threads, on any GPU
    return (unsigned)(min_of(65536 / (threads * registers), most) * gpu->multiprocessors);
}

// ---- the atomic form ----------------------------------------------------------------------------

// Clears the sums and numbers the units.
SPIRA_LAUNCHER status pairs_prepare(const pairs_params &p, const device_info *gpu,
                                    cudaStream_t stream) {
    int64_t quads = p.from_sums ? 1 : (int64_t)p.conv.capacity * p.pitch / 4;
    int64_t blocks = min_of(ceil_div(quads, pairs_threads), 8 * gpu->multiprocessors);
    pairs_prepare_kernel<<<(unsigned)blocks, pairs_threads, 0, stream>>>(p);
    return status_of_launch("conv_pairs_run (prepare)");
}

template <typename E>
SPIRA_API status pairs_finish(const pairs_params &p, const device_info *gpu, cudaStream_t stream) {
    unsigned x = (unsigned)min_of(ceil_div(p.conv.cout, 4), 64);
    dim3 block(x, pairs_threads / x);
    int64_t blocks = min_of(ceil_div(p.conv.capacity, block.y), 16 * gpu->multiprocessors);
    pairs_finish_kernel<E><<<(unsigned)blocks, block, 0, stream>>>(p);
    return status_of_launch("conv_pairs_run (epilogue)");
}

// The three launches of the atomic form. walk: launched with as many thread blocks as are resident.
//
// slices  of the grid's y
template <typename E>
SPIRA_API status pairs_run_atomic(const pairs_params &p, void (*walk)(pairs_params), int threads,
                                  int registers, int64_t slices, const device_info *gpu,
                                  cudaStream_t stream) {
    SPIRA_TRY(pairs_prepare(p, gpu, stream));
    const int64_t x = pairs_resident(gpu, threads, registers) / slices;
    walk<<<dim3((unsigned)max_of(x, 1), (unsigned)slices), (unsigned)threads, 0, stream>>>(p);
    SPIRA_TRY(status_of_launch("conv_pairs_run"));
    return p.to_sums ? status_success() : pairs_finish<E>(p, gpu, stream);
}

// ---- stripes ------------------------------------------------------------------------------------

// The launch of the deterministic form, with `bytes` of dynamic shared memory.
SPIRA_API status pairs_run_stripes(const pairs_params &p, void (*walk)(pairs_params), int threads,
                                   int64_t slices, int bytes, const device_info *gpu,
                                   cudaStream_t stream) {
    SPIRA_TRY(kernel_shared_allow(walk, gpu->shared_max - pairs_stripe_static,
                                  "conv_pairs_run (shared memory)"));
    dim3 grid((unsigned)ceil_div(p.conv.capacity, p.stripe), (unsigned)slices);
    walk<<<grid, (unsigned)threads, (size_t)bytes, stream>>>(p);
    return status_of_launch("conv_pairs_run");
}

// ---- the kernel of a layer ----------------------------------------------------------------------

template <typename E, int channel_groups, bool deep, pairs_access access>
SPIRA_API status pairs_run_tensor_as(pairs_params p, const device_info *gpu, cudaStream_t stream) {
    const int64_t slices = ceil_div(conv_slices(p.conv.cout), p.slices);
    const int threads = 32 * p.slices * p.slice_warps;
    p.unit = pairs_group_rows * pairs_unit_groups(deep, p.stripe != 0);
    return p.stripe
               ? pairs_run_stripes(p, pairs_stripe_kernel<E, channel_groups, deep, access>, threads,
                                   slices, p.slices * pairs_slice_bytes(p.stripe, channel_groups),
                                   gpu, stream)
               : pairs_run_atomic<E>(p, pairs_atomic_kernel<E, channel_groups, deep, access>,
                                     threads,
                                     pairs_atomic_registers(sizeof(E), channel_groups, deep,
                                                            access == pairs_access_wide),
                                     slices, gpu, stream);
}

template <typename E, int channel_groups>
SPIRA_API status pairs_run_tensor_rows(const pairs_params &p, const device_info *gpu,
                                       cudaStream_t stream) {
    bool wide = p.conv.cin2 == 0 && p.conv.wide_in;
    bool deep = p.conv.chunks > pairs_near_chunks(p.stripe != 0);
    return deep   ? wide ? pairs_run_tensor_as<E, channel_groups, true, pairs_access_wide>(p, gpu,
                                                                                         stream)
                         : pairs_run_tensor_as<E, channel_groups, true, pairs_access_any>(p, gpu,
                                                                                        stream)
             : wide ? pairs_run_tensor_as<E, channel_groups, false, pairs_access_wide>(p, gpu, stream)
                  : pairs_run_tensor_as<E, channel_groups, false, pairs_access_any>(p, gpu, stream);
}

// Up to four slices for a thread block, so that as many thread blocks as possible are full.
template <typename E>
SPIRA_API status pairs_run_tensor(pairs_params p, bool stripes, const device_info *gpu,
                                  cudaStream_t stream) {
    const int slices = conv_slices(p.conv.cout),
              channel_groups = conv_slice_channel_groups(p.conv.cout);
    p.slices = (int)ceil_div(slices, ceil_div(slices, 4));
    p.slice_warps = pairs_warps / p.slices;
    p.stripe = stripes ? pairs_stripe_rows(gpu, p.slices * channel_groups * 32, p.conv.capacity,
                                           ceil_div(slices, p.slices))
                       : 0;
    return channel_groups == 2 ? pairs_run_tensor_rows<E, 2>(p, gpu, stream)
                               : pairs_run_tensor_rows<E, 4>(p, gpu, stream);
}

template <typename E>
SPIRA_API status pairs_run_exact(pairs_params p, bool stripes, const device_info *gpu,
                                 cudaStream_t stream) {
    const int64_t slices = ceil_div(p.conv.cout, exact_channels);
    const int row_bytes = exact_channels * (int)sizeof(float), threads = 32 * exact_warps;
    p.unit = exact_group;
    p.slice_warps = exact_warps;
    p.stripe = stripes ? pairs_stripe_rows(gpu, row_bytes, p.conv.capacity, slices) : 0;
    return stripes ? pairs_run_stripes(p, pairs_exact_stripe_kernel<E>, threads, slices,
                                       p.stripe * row_bytes, gpu, stream)
                   : pairs_run_atomic<E>(p, pairs_exact_atomic_kernel<E>, threads,
                                         pairs_exact_registers, slices, gpu, stream);
}

// ---- one format ---------------------------------------------------------------------------------

// The kernel whose packed weights the pairs are multiplied by: on tensor cores or in plain fp32.
SPIRA_API conv_kernel pairs_kernel_of(const conv_shape *s, const device_info *gpu) {
    return conv_uses_tensor(s->type, gpu->capability) ? conv_kernel_portable : conv_kernel_exact;
}

template <typename tag>
SPIRA_API status pairs_run(tag, const pairs_params &p, bool stripes, conv_kernel kernel,
                           const device_info *gpu, cudaStream_t stream) {
    typedef typename tag::element E;
    if constexpr (conv_tensor_compiled(tag::value)) {
        if (kernel == conv_kernel_portable) {
            return pairs_run_tensor<E>(p, stripes, gpu, stream);
        }
    }
    if constexpr (conv_plain_compiled(tag::value)) {
        if (kernel == conv_kernel_exact) {
            return pairs_run_exact<E>(p, stripes, gpu, stream);
        }
    }
    return conv_not_compiled();
}

} // namespace spira

#endif
