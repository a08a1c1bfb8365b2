// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/wgmma.h: how operands of Hopper's matrix instruction (base/wgmma.cuh) lie in shared
// memory.
//
// An operand is contiguous rows of 1 << log (32, 64, 128) bytes, aligned to wgmma_align and
// swizzled within 8 rows (wgmma_place).
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

// The swizzle: where byte `at` of the rows (row << log | byte of the row) is stored.
SPIRA_BOTH uint32_t wgmma_place(uint32_t at, int log) {
    return at ^ (at >> 3 & ((1u << log) - 16));
}

// Upper half of the matrix descriptor for rows of 1 << log bytes: stride of 8 rows, swizzle mode.
SPIRA_BOTH uint32_t wgmma_form(int log) {
    return 1u << (log - 1) | (uint32_t)(wgmma_row_log_most + 1 - log) << 30;
}

// Lower half: the shared address of the rows. Adding 1 moves it by 16 bytes.
SPIRA_BOTH uint32_t wgmma_address(uint32_t rows) {
    return (rows >> 4 & 0x3fff) | 1u << 16;
}

// The same of a transposed operand: rows are its depth, each with 64 channels in 128 bytes. apart:
// bytes from 64 channels of all rows to the next 64 channels.
SPIRA_BOTH uint32_t wgmma_address_transposed(uint32_t rows, uint32_t apart) {
    return (rows >> 4 & 0x3fff) | apart >> 4 << 16;
}

} // namespace spira

#endif
