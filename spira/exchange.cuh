// spira/exchange.cuh: kernel maps in the forms that other engines read, on the GPU.
//
// exchange_spconv, exchange_torchsparse and exchange_minkowski (exchange.h) say where an engine
// wants the lists; `exchange` writes them. The kernel is in index/exchange_lists.cuh.
#ifndef SPIRA_EXCHANGE_CUH
#define SPIRA_EXCHANGE_CUH

#include "exchange.h"
#include "index/exchange_lists.cuh"

namespace spira {

// Writes pair lists in an engine's form.
//
// inputs   pairs: from map_build_lists, in device memory. Offsets that they leave out (half or
//          hybrid maps) have empty lists
// outputs  to: the arrays of an engine, which must not overlap pairs; of lists that follow one
//          another, entries behind the last pair are not written
//          trouble: a list longer than `stride` is cut off; `needed` is the length of the longest
// errors   null or misaligned pointers, sizes
// Asynchronous, deterministic, equal to exchange_host. No scratch.
// cost     reads 8 bytes a pair; writes as many, or 8 * volume * stride; one launch
SPIRA_LAUNCHER status exchange(const map_lists *pairs, const exchange_lists *to,
                               device_status *trouble, cudaStream_t stream) {
    SPIRA_TRY(exchange_check(pairs, to, trouble));
    return exchange_lists_launch(pairs, to, trouble, stream);
}

} // namespace spira

#endif
