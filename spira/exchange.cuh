// spira/exchange.cuh: kernel maps in the forms that other engines read, on the GPU.
//
//   exchange_spconv        pair lists as spconv's indice pairs
//   exchange_torchsparse   pair lists as TorchSparse's neighbour map
//   exchange_minkowski     pair lists as MinkowskiEngine's in and out maps
//
// All start from map_build_lists. The kernel is in index/exchange_lists.cuh.
#ifndef SPIRA_EXCHANGE_CUH
#define SPIRA_EXCHANGE_CUH

#include "exchange.h"
#include "index/exchange_lists.cuh"

namespace spira {

// Writes pair lists as spconv's indice pairs.
//
// inputs   kernel; pairs: from map_build_lists for this kernel, in device memory. Offsets that they
//          leave out (half or hybrid maps) have empty lists
// outputs  indices: see exchange_indices
//          trouble: a list longer than `stride` is cut off; `needed` is the length of the longest
// errors   null or misaligned pointers, sizes
// Offsets are in spconv's order: its axes are z, y, x, the last one fastest. For a submanifold
// layer spconv 2 reads all lists but the centre's, and the lengths of those before the centre. Its
// own maps have zeros for the other lengths; here all lengths are written. Asynchronous,
// deterministic, equal to exchange_spconv_host. No scratch. indice_pairs must not overlap pairs.
// cost     reads 8 bytes a pair, writes 8 * volume * stride bytes; one launch
SPIRA_LAUNCHER status exchange_spconv(const kernel_shape *kernel, map_lists pairs,
                                      const exchange_indices *indices, device_status *trouble,
                                      cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(exchange_spconv_lists(kernel, &pairs, indices, trouble, &to));
    return exchange_lists_launch(&to, pairs, trouble, "exchange_spconv", stream);
}

// Writes pair lists as TorchSparse's neighbour map.
//
// inputs   kernel; pairs: as for exchange_spconv
// outputs  nbmaps [pairs.capacity, 2]: (input row, output row), offset after offset; entries behind
//          the last pair are not written
//          nbsizes [volume]: number of pairs of each offset
// errors   null or misaligned pointers, sizes
// Offsets are in TorchSparse's order: x fastest if the volume is odd, z fastest if it is even.
// Asynchronous, deterministic, equal to exchange_torchsparse_host. No scratch. nbmaps must not
// overlap pairs.
// cost     reads and writes 8 bytes a pair; one launch
SPIRA_LAUNCHER status exchange_torchsparse(const kernel_shape *kernel, map_lists pairs,
                                           int32_t *nbmaps, int32_t *nbsizes, cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(exchange_torchsparse_lists(kernel, &pairs, nbmaps, nbsizes, &to));
    return exchange_lists_launch(&to, pairs, nullptr, "exchange_torchsparse", stream);
}

// Writes pair lists as MinkowskiEngine's in and out maps.
//
// inputs   kernel; pairs: as for exchange_spconv
// outputs  begin [volume + 1]: starts of the lists; in, out [pairs.capacity]: input and output rows,
//          list after list; entries behind the last pair are not written
// errors   null or misaligned pointers, sizes
// Offsets are in MinkowskiEngine's order of a hypercube: x fastest.
// Asynchronous, deterministic, equal to exchange_minkowski_host. No scratch. in and out must not
// overlap pairs.
// cost     reads and writes 8 bytes a pair; one launch
SPIRA_LAUNCHER status exchange_minkowski(const kernel_shape *kernel, map_lists pairs,
                                         int32_t *begin, int32_t *in, int32_t *out,
                                         cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(exchange_minkowski_lists(kernel, &pairs, begin, in, out, &to));
    return exchange_lists_launch(&to, pairs, nullptr, "exchange_minkowski", stream);
}

} // namespace spira

#endif
