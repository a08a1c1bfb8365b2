// spira/gemm/rows.cuh: loads and stores of feature rows in chunks of 16 bytes, whatever their
// alignment. For gather.cuh and scatter.cuh.
#ifndef SPIRA_GEMM_ROWS_CUH
#define SPIRA_GEMM_ROWS_CUH

#include "../base/wide.cuh"
#include "../numeric.cuh"
#include "layer.cuh"

namespace spira {

// Rows of features: of one array, or of two side by side.
struct ggs_rows {
    const char *first, *second; // [rows, bytes], [rows, bytes2]
    int32_t bytes, bytes2;      // of a row
    int width;                  // all addresses and lengths are multiples of it: 2 .. 16 bytes
};

template <typename U>
struct ggs_units {
    U unit[ggs_chunk / sizeof(U)];
};

// The chunk that starts at byte `at` of a row; zeros past its end.
template <typename U>
SPIRA_DEVICE uint4 ggs_load_units(const ggs_rows &r, int64_t row, int at) {
    ggs_units<U> chunk;
#pragma unroll
    for (int u = 0; u < (int)(ggs_chunk / sizeof(U)); ++u) {
        int byte = at + u * (int)sizeof(U);
        U unit = {};
        if (byte < r.bytes) {
            unit = *(const U *)(r.first + row * r.bytes + byte);
        } else if (byte - r.bytes < r.bytes2) {
            unit = *(const U *)(r.second + row * r.bytes2 + byte - r.bytes);
        }
        chunk.unit[u] = unit;
    }
    return bytes_as<uint4>(chunk);
}

SPIRA_DEVICE uint4 ggs_load(const ggs_rows &r, int64_t row, int at) {
    return r.width == 16  ? ggs_load_units<uint4>(r, row, at)
           : r.width == 8 ? ggs_load_units<uint2>(r, row, at)
           : r.width == 4 ? ggs_load_units<uint32_t>(r, row, at)
                          : ggs_load_units<uint16_t>(r, row, at);
}

// Stores the first `bytes` of a chunk, a multiple of the width.
template <typename U>
SPIRA_DEVICE void ggs_store_units(char *to, int bytes, uint4 all) {
    const auto chunk = bytes_as<ggs_units<U>>(all);
#pragma unroll
    for (int u = 0; u < (int)(ggs_chunk / sizeof(U)); ++u) {
        if ((u + 1) * (int)sizeof(U) <= bytes) {
            ((U *)to)[u] = chunk.unit[u];
        }
    }
}

SPIRA_DEVICE void ggs_store(char *to, int bytes, int width, uint4 all) {
    if (width == 16) {
        ggs_store_units<uint4>(to, bytes, all);
    } else if (width == 8) {
        ggs_store_units<uint2>(to, bytes, all);
    } else if (width == 4) {
        ggs_store_units<uint32_t>(to, bytes, all);
    } else {
        ggs_store_units<uint16_t>(to, bytes, all);
    }
}

// The largest power of two up to `most` that divides address and length.
SPIRA_API int ggs_width(const void *p, int64_t row_bytes, int most) {
    uint64_t bits = (uint64_t)(uintptr_t)p | (uint64_t)row_bytes | (uint64_t)most;
    return (int)(bits & (~bits + 1));
}

SPIRA_API ggs_rows ggs_rows_make(const void *first, int64_t bytes, const void *second,
                                 int64_t bytes2) {
    ggs_rows r = {};
    r.first = (const char *)first;
    r.second = (const char *)second;
    r.bytes = (int32_t)bytes;
    r.bytes2 = (int32_t)bytes2;
    r.width = ggs_width(first, bytes, ggs_chunk);
    r.width = bytes2 ? ggs_width(second, bytes2, r.width) : r.width;
    return r;
}

// The shape of a thread block: `columns` threads for a row, several rows.
SPIRA_API dim3 ggs_block_shape(int columns) {
    unsigned x = (unsigned)min_of(columns, ggs_threads);
    return dim3(x, ggs_threads / x);
}

} // namespace spira

#endif
