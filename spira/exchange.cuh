// spira/exchange.cuh: kernel maps in the forms that other engines read, on the GPU.
//
//   exchange_spconv        pair lists as spconv's indice pairs
//   exchange_torchsparse   pair lists as TorchSparse's neighbour map
//   exchange_minkowski     pair lists as MinkowskiEngine's in and out maps
//   exchange_csr           an output-stationary map by compressed rows
//
// The first three start from map_build_pairs, the last one from map_build. The kernels are in
// index/exchange_lists.cuh and index/exchange_rows.cuh.
#ifndef SPIRA_EXCHANGE_CUH
#define SPIRA_EXCHANGE_CUH

#include "exchange.h"
#include "index/exchange_lists.cuh"
#include "index/exchange_rows.cuh"

namespace spira {

// ---- lists, offset by offset --------------------------------------------------------------------

// Writes pair lists as spconv's indice pairs.
//
// inputs   kernel; pairs: from map_build_pairs for this kernel, in device memory. Offsets that they
//          leave out (half or hybrid maps) have empty lists
//          stride: room for each list; spconv takes the number of inputs
// outputs  indice_pairs [2, volume, stride]: input rows, then output rows, -1 behind each list
//          indice_pair_num [volume]: lengths of the lists
//          trouble: a list longer than `stride` is cut off; `needed` is the length of the longest
// errors   null or misaligned pointers, sizes
// Offsets are in spconv's order: its axes are z, y, x, the last one fastest. For a submanifold
// layer spconv 2 reads all lists but the centre's, and the lengths of those before the centre. Its
// own maps have zeros for the other lengths; here all lengths are written. Asynchronous,
// deterministic, equal to exchange_spconv_host. No scratch. indice_pairs must not overlap pairs.
// cost     reads 8 bytes a pair, writes 8 * volume * stride bytes; one launch
SPIRA_LAUNCHER status exchange_spconv(const kernel_shape *kernel, map_pairs pairs, int32_t stride,
                                      int32_t *indice_pairs, int32_t *indice_pair_num,
                                      device_status *trouble, cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(
        exchange_spconv_lists(kernel, &pairs, stride, indice_pairs, indice_pair_num, trouble, &to));
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
SPIRA_LAUNCHER status exchange_torchsparse(const kernel_shape *kernel, map_pairs pairs,
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
SPIRA_LAUNCHER status exchange_minkowski(const kernel_shape *kernel, map_pairs pairs,
                                         int32_t *begin, int32_t *in, int32_t *out,
                                         cudaStream_t stream) {
    exchange_lists to;
    SPIRA_TRY(exchange_minkowski_lists(kernel, &pairs, begin, in, out, &to));
    return exchange_lists_launch(&to, pairs, nullptr, "exchange_minkowski", stream);
}

// ---- rows, output by output ---------------------------------------------------------------------

// Carves the scratch of exchange_csr: sums of the scan.
SPIRA_API int64_t *exchange_csr_take(workspace *w, int32_t capacity) {
    return workspace_take<int64_t>(w, exchange_cut_make(capacity).blocks);
}

// Bytes of scratch for exchange_csr. capacity: that of the output set.
SPIRA_API status exchange_csr_workspace(int32_t capacity, size_t *bytes) {
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    exchange_csr_take(&w, capacity);
    *bytes = w.used;
    return status_success();
}

// Writes a kernel map by compressed rows, output by output.
//
// inputs   map [capacity, volume]: source positions or -1, from map_build; count [1]: rows to read;
//          capacity: of the output set
// outputs  rows: offsets in spira's order, ascending within a row. Rows from the count on are empty:
//          their begin, and begin[capacity], is the number of entries. Places behind the last entry
//          are not written
//          trouble: more entries than rows.capacity are recorded; then all rows are empty and begin
//          is 0. A count above the capacity is recorded and clamped
// scratch  of exchange_csr_workspace bytes
// errors   null or misaligned pointers, sizes, a workspace that is too small
// Asynchronous, deterministic, equal to exchange_csr_host. rows must not overlap map.
// cost     reads the map twice, writes 8 bytes for each entry, scans capacity + 1 numbers; four
//          launches
SPIRA_LAUNCHER status exchange_csr(const int32_t *map, int volume, const int32_t *count,
                                   int32_t capacity, exchange_rows rows, device_status *trouble,
                                   void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(exchange_csr_check(map, volume, count, capacity, &rows, trouble));
    size_t needed;
    SPIRA_TRY(exchange_csr_workspace(capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    return exchange_rows_launch(map, volume, count, capacity, rows, exchange_csr_take(&w, capacity),
                                trouble, stream);
}

} // namespace spira

#endif
