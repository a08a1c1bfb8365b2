// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable.cuh: convolution of wide layers on mma.sync, and of exact fp32 by fused
// multiply-adds, for sm_80 and later.
//
// Reads the ordered layout (order.h), as all convolutions do, and packed weights of
// conv/weights.cuh. A tile is one pair of row groups (128 rows) or two. A thread block computes one
// tile at a time for a slice of the output channels. Where there are many tiles it stays for
// several.
//
//     producer warps                  ring of 3 to 8 stages             consumer warps
//     --------------                  ---------------------             --------------
//     find the next offset of the
//     tile, request its sources
//     (cursor.cuh)
//     copy 64 bytes of each   cp.async  +-------------------+  ldmatrix
//     source row, and of the  --------> | fragments of rows | ---------> mma.sync: accumulators in
//     weights (fill.cuh)                | weights           |            registers (multiply.cuh)
//                                       | header            |                   | end of tile
//                                       +-------------------+                   v
//                                                                        epilogue.cuh -> outputs
//
// Each stage has two mbarriers, full and empty. Producers run ahead across tiles: the next tile's
// stages are filled while consumers finish a tile.
//
// The products are transposed: the instruction's 16 rows are output channels, its 8 columns source
// rows. So a warp can skip what is missing 8 rows at a time. Exact fp32 has multiply_exact.cuh in
// place of multiply.cuh.
#ifndef SPIRA_CONV_PORTABLE_CUH
#define SPIRA_CONV_PORTABLE_CUH

#include "portable/choice.cuh" // which layers, and how they are cut
#include "portable/launch.cuh" // portable_run

#endif
