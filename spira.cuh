// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira.cuh: sparse convolution on voxelised point clouds, for CUDA. Include this, link nothing.
//
// Under nvcc this is all of spira; under a plain C++17 compiler it is the host half. What flows
// through it, in the order of the files:
//
//   points -> voxels (voxel) -> coordinate sets of larger strides (downsample, expand) -> kernel
//   maps by z-delta search (map) -> layouts (order) -> features (conv, pool) -> networks
//   (net)
//
// noun.h says what a thing is and holds its host loop; noun.cuh holds its kernels and launchers.
// Everything has internal linkage. The caller owns all memory; nothing allocates, synchronises or
// reads back; every launcher takes a stream, last, and can be captured in a CUDA graph.
#ifndef SPIRA_SPIRA_CUH
#define SPIRA_SPIRA_CUH

#include "spira/blob.h"
#include "spira/choose.h"
#include "spira/conv.h"
#include "spira/conv_grad.h"
#include "spira/conv_group.h"
#include "spira/conv_i8.h"
#include "spira/conv_pairs.h"
#include "spira/curve.h"
#include "spira/dense.h"
#include "spira/device.h"
#include "spira/downsample.h"
#include "spira/exchange.h"
#include "spira/expand.h"
#include "spira/gate.h"
#include "spira/interpolate.h"
#include "spira/join.h"
#include "spira/map.h"
#include "spira/net.h"
#include "spira/net_blob.h"
#include "spira/norm.h"
#include "spira/norm_groups.h"
#include "spira/pool.h"
#include "spira/prune.h"
#include "spira/rows.h"
#include "spira/search.h"
#include "spira/subdivide.h"
#include "spira/tune.h"
#include "spira/voxel.h"
#include "spira/voxel_features.h"

#ifdef __CUDACC__

#include "spira/choose.cuh"
#include "spira/conv.cuh"
#include "spira/conv_grad.cuh"
#include "spira/conv_group.cuh"
#include "spira/conv_hybrid.cuh"
#include "spira/conv_linear.cuh"
#include "spira/conv_pairs.cuh"
#include "spira/conv_slices.cuh"
#include "spira/curve.cuh"
#include "spira/dense.cuh"
#include "spira/device.cuh"
#include "spira/downsample.cuh"
#include "spira/exchange.cuh"
#include "spira/expand.cuh"
#include "spira/gate.cuh"
#include "spira/interpolate.cuh"
#include "spira/join.cuh"
#include "spira/map.cuh"
#include "spira/net.cuh"
#include "spira/norm.cuh"
#include "spira/norm_groups.cuh"
#include "spira/pool.cuh"
#include "spira/prune.cuh"
#include "spira/rows.cuh"
#include "spira/search.cuh"
#include "spira/subdivide.cuh"
#include "spira/tune.cuh"
#include "spira/voxel.cuh"
#include "spira/voxel_features.cuh"

#endif

#endif
