// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper.cuh: convolution on Hopper's warpgroup instructions (sm_90a).
//
// Reads the ordered layout (order.h): outputs with similar offsets are neighbours, in row
// groups of 64. A tile is two row groups. A thread block computes one tile at a time for a slice of
// the output channels ("columns"), and stays for several tiles (schedule.cuh).
//
//     producer warps                     ring of 4 to 8 stages          consumer warpgroups
//     -------------                      ---------------------          -------------------
//     find the next offset of the tile
//     (lookahead.cuh)
//     gather its source rows   cp.async  +-------------------+  wgmma
//     (gather.cuh)           ----------> | 2 x 64 rows       | -------> accumulators in registers
//     copy its weights         bulk copy | columns x weights |          (consumer.cuh)
//     (producer.cuh)         ----------> | header            |                  |
//                                        +-------------------+                  | end of tile
//                                          full ->   <- empty                   v
//                                          (ring.cuh)                   epilogue.cuh -> outputs
//
// A stage holds one chunk of the rows of one offset: 128 bytes, 64 channels, 128 of int8. Rows of
// at most 64 bytes share a stage, two offsets each; with 65 to 96 output channels chunks may have
// 96 channels (weights.cuh). The channels of a second source follow those of the first. Producers
// run ahead across tiles. With programmatic launch they ask for the weights of the first round of
// the ring while the previous kernel still ends.
//
// Up to 64 columns, one warpgroup computes both row groups of a tile; otherwise each row group has
// its own. Where registers allow, two sets of warpgroups alternate (ping-pong): one multiplies
// while the other finishes its outputs. Where there are few tiles, the thread blocks of a cluster
// share the offsets of a tile (cluster.cuh).
//
// A shortcut (conv_shortcut) is one more offset at the end of each tile, whose source rows are the
// output rows of the tile. The accumulators are rescaled by scale / scale' in between, and the
// epilogue applies the shortcut's scale' to both. In int8 both have one step (conv_i8.h).
#ifndef SPIRA_CONV_HOPPER_CUH
#define SPIRA_CONV_HOPPER_CUH

#include "hopper/choice.cuh"  // which layers, and how they are cut
#include "hopper/launch.cuh"  // hopper_launcher_of
#include "hopper/weights.cuh" // packed weights

#endif
