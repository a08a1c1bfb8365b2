// spira/base/wgmma.h: how Hopper's matrix instruction (base/wgmma.cuh) finds its operands in shared
// memory.
//
// An operand is rows of 1 << log (32, 64, 128) bytes, side by side, from a multiple of wgmma_align
// on; wgmma_place says where each byte stands.
#ifndef SPIRA_BASE_WGMMA_H
#define SPIRA_BASE_WGMMA_H

#include "../config.h"

namespace spira {

enum {
    wgmma_rows = 64,
    wgmma_row_most = 128, // bytes of a row
    wgmma_row_log_most = 7,
    wgmma_step_bytes = 32, // of a row
    wgmma_align = 1024,
};

// Where byte `at` of the rows (row << log | byte of the row) stands: the swizzle.
SPIRA_BOTH uint32_t wgmma_place(uint32_t at, int log) {
    return at ^ (at >> 3 & ((1u << log) - 16));
}

// What the instruction is told of rows of 1 << log bytes: the distance of 8 rows, the swizzle.
SPIRA_BOTH uint32_t wgmma_form(int log) {
    return 1u << (log - 1) | (uint32_t)(wgmma_row_log_most + 1 - log) << 30;
}

// And of where they are (shared address): 16 bytes more are 1 more.
SPIRA_BOTH uint32_t wgmma_address(uint32_t rows) {
    return (rows >> 4 & 0x3fff) | 1u << 16;
}

} // namespace spira

#endif
