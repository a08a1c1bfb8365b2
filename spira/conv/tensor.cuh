// spira/conv/tensor.cuh: output-stationary convolution on the tensor cores, for sm_80 and later.
//
// A warp owns a tile of outputs and a slice of the output channels, up to 32. It walks its tile's
// list of pairs, 16 pairs of one offset at a time (a "group"). It loads source rows and weights
// straight into the registers that multiply them, the rows some groups ahead. The accumulators are
// in shared memory; no other warp adds to them, and no warp waits for another. The warps of a
// thread block have neighbouring tiles, so that the cache serves most of their loads. Where tiles
// are few, up to four warps share one: each takes a share of its list, and their accumulators are
// added up in a fixed order.
#ifndef SPIRA_CONV_TENSOR_CUH
#define SPIRA_CONV_TENSOR_CUH

#include "tile.cuh"

namespace spira {

enum {
    conv_depth_most = 4, // chunks that are multiplied at a time
    conv_warps_most = 8, // of a thread block
};

// The rows of the sources: one source, aligned, of whole chunks; one source, aligned, of multiples
// of 16 bytes; any.
enum conv_rows { conv_rows_full, conv_rows_wide, conv_rows_any };

// ---- the list of a tile -------------------------------------------------------------------------

// Where a lane reads it.
struct conv_list {
    const int32_t *input; // of the lane's first row of 16
    const uint8_t *row;
    const uint16_t *offset;
    int first, last; // groups
};

// part: which of the warps that share the tile.
SPIRA_DEVICE conv_list conv_list_of(const conv_tensor_params &p, int64_t tile, int part) {
    int64_t begin = tile_begin(&p.layout, tile);
    conv_list list;
    list.input = p.layout.input + begin + threadIdx.x % 32 / 4;
    list.row = p.layout.row + begin + threadIdx.x % 32 / 4;
    list.offset = p.layout.offset + begin / tile_group;
    int groups = p.layout.first[tile * (p.volume + 1) + p.volume];
    int share = (groups + p.size.split - 1) / p.size.split;
    list.first = part * share;
    list.last = min(list.first + share, groups) - 1;
    return list;
}

// A lane's pairs of a group, rows g and g + 8 of 16: their sources (negative: none), the outputs'
// rows in the tile, and the offset.
struct conv_pair_group {
    int32_t source[2];
    uint32_t row[2];
    int offset;
};

// Past the end of the list: the last group.
SPIRA_DEVICE void conv_pair_group_load(const conv_list &list, int group, conv_pair_group &pairs) {
    group = min(group, list.last);
    const int32_t *input = list.input + group * tile_group;
    const uint8_t *row = list.row + group * tile_group;
    pairs.source[0] = input[0];
    pairs.source[1] = input[8];
    pairs.row[0] = row[0];
    pairs.row[1] = row[8];
    pairs.offset = list.offset[group];
}

// The pairs of the identity, which has no list.
SPIRA_DEVICE void conv_pair_group_same(int first_row, int there, int group, conv_pair_group &pairs,
                                       uint32_t rows) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        int row = group * tile_group + h * 8 + (int)threadIdx.x % 32 / 4;
        pairs.source[h] = row < there ? first_row + row : -1;
        pairs.row[h] = row < there ? (uint32_t)row : rows;
    }
    pairs.offset = 0;
}

// Packs rows and offset into one register.
SPIRA_DEVICE uint32_t conv_pair_group_pack(const conv_pair_group &pairs) {
    return (uint32_t)pairs.offset << 16 | pairs.row[1] << 8 | pairs.row[0];
}

// ---- source rows --------------------------------------------------------------------------------

// Where a lane loads its bytes of the rows: 16 of each chunk.
struct conv_source {
    const char *base; // the lane's bytes of row 0
    uint32_t pitch;
    int bytes; // that a row has from the lane's first on
};

SPIRA_DEVICE conv_source conv_source_of(const conv_tensor_params &p, int chunk, int element) {
    bool second = chunk >= p.chunks1;
    int at = (second ? chunk - p.chunks1 : chunk) * conv_chunk_bytes +
             (int)threadIdx.x % 4 * conv_lane_bytes;
    conv_source in;
    in.pitch = (uint32_t)(second ? p.cin2 : p.cin) * (uint32_t)element;
    in.bytes = chunk < p.chunks ? (int)in.pitch - at : 0;
    in.base = (const char *)(second ? p.in2 : p.in) + at;
    return in;
}

// Loads 16 bytes if `there` is not negative; otherwise `to` keeps its value.
SPIRA_DEVICE void conv_read(uint4 &to, const char *from, int there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ge.s32 there, %5, 0;\n"
                 "@there ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
                 : "l"(from), "r"(there));
}

// Loads a lane's bytes of rows g and g + 8, of the chunks from `chunk` on. A pair without a source
// gets row 0 or keeps the old bytes: the result is discarded.
template <typename E, int chunks, conv_rows lie>
SPIRA_DEVICE void conv_rows_load(const conv_tensor_params &p, const conv_source &in, int chunk,
                                 const conv_pair_group &pairs, uint4 (&part)[chunks][2]) {
#pragma unroll
    for (int j = 0; j < chunks; ++j) {
        if (chunks > 2 && chunk + j >= p.chunks) {
            break;
        }
        conv_source own = in;
        if (lie == conv_rows_any) {
            own = conv_source_of(p, chunk + j, sizeof(E));
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            int32_t source = pairs.source[h];
            source = lie == conv_rows_full ? max(source, 0) : source;
            const char *from = own.base + (uint64_t)(uint32_t)source * own.pitch +
                               (lie == conv_rows_any ? 0 : j * conv_chunk_bytes);
            int bytes = lie == conv_rows_any ? own.bytes : own.bytes - j * conv_chunk_bytes;
            if (lie == conv_rows_full) {
                part[j][h] = __ldg((const uint4 *)from);
            } else if (lie == conv_rows_wide) {
                conv_read(part[j][h], from, bytes > 0 ? source : -1);
            } else {
                part[j][h] = make_uint4(0, 0, 0, 0);
                if (source >= 0 && (chunk + j < p.chunks1 ? p.wide_in : p.wide_in2)) {
                    conv_read(part[j][h], from, bytes > 0 ? source : -1);
                } else if (source >= 0) {
                    part[j][h] = conv_read_unaligned<E>(from, bytes);
                }
            }
        }
    }
}

// ---- the walk -----------------------------------------------------------------------------------

// Groups whose rows are in flight.
SPIRA_BOTH constexpr int conv_ahead(int channel_groups, int chunks) {
    return chunks > 2 ? 1 : chunks > 1 || channel_groups > 2 ? 2 : 4;
}

// A warp's tile.
struct conv_task {
    int first_row, there; // outputs of its tile
    uint32_t rows;        // of a tile
    uint32_t sums;        // accumulators: shared address
    bool same;            // the identity
};

SPIRA_DEVICE void conv_task_pairs(const conv_task &task, const conv_list &list, int group,
                                  conv_pair_group &pairs) {
    if (task.same) {
        conv_pair_group_same(task.first_row, task.there, group, pairs, task.rows);
    } else {
        conv_pair_group_load(list, group, pairs);
    }
}

// A lane's operands of the weights of its slice.
struct conv_weights {
    const char *own;               // of the first offset and chunk
    int offset_bytes, chunk_bytes; // to the next
};

// Loads the operands of an offset, of the chunks from `chunk` on, of which `here` are there.
template <int channel_groups, int chunks>
SPIRA_DEVICE void conv_weights_load(const conv_weights &weights, int offset, int chunk, int here,
                                    uint4 (&to)[chunks][channel_groups]) {
    const char *from =
        weights.own + (int64_t)offset * weights.offset_bytes + chunk * weights.chunk_bytes;
#pragma unroll
    for (int j = 0; j < chunks; ++j) {
#pragma unroll
        for (int m = 0; m < channel_groups; ++m) {
            if (chunks <= 2 || j < here) {
                to[j][m] = __ldg(
                    (const uint4 *)(from + j * weights.chunk_bytes + m * conv_fragment_bytes));
            }
        }
    }
}

// Multiplies a group by the weights of its offset and adds to the accumulators. Pairs without a
// source have the row behind the tile's last.
template <typename E, int channel_groups, int chunks>
SPIRA_DEVICE void conv_multiply(const uint4 (&weights)[chunks][channel_groups], int here,
                                uint32_t group, const uint4 (&part)[chunks][2],
                                const conv_task &task) {
    conv_sums<channel_groups> sum;
    uint32_t low = group & 0xff, high = group >> 8 & 0xff;
    uint32_t place_low = conv_sums_place<channel_groups>(low),
             place_high = conv_sums_place<channel_groups>(high);
    conv_sums_load(task.sums, place_low, 0, sum);
    conv_sums_load(task.sums, place_high, 1, sum);
#pragma unroll
    for (int j = 0; j < chunks; ++j) {
        if (chunks > 2 && j >= here) {
            break;
        }
        conv_multiply_chunk<E, channel_groups>(part[j][0], part[j][1], weights[j], sum);
    }
    conv_sums_store(task.sums, place_low, 0, low < task.rows, sum);
    conv_sums_store(task.sums, place_high, 1, high < task.rows, sum);
}

// Walks the list for the chunks from `chunk` on.
template <typename E, int channel_groups, int chunks, conv_rows lie>
SPIRA_DEVICE void conv_walk(const conv_tensor_params &p, const conv_task &task,
                            const conv_list &list, conv_weights weights, int chunk) {
    enum { ahead = conv_ahead(channel_groups, chunks) };
    const int here = min(p.chunks - chunk, chunks);
    conv_source in = conv_source_of(p, chunk, sizeof(E));
    // Keeps them in registers: the compiler would compute them again for each group.
    asm volatile("" : "+r"(in.pitch), "+l"(in.base), "+l"(weights.own), "+r"(weights.offset_bytes));
    conv_pair_group pairs[ahead];
    uint4 part[ahead][chunks][2], own[chunks][channel_groups]; // rows, weights
    uint32_t group_of[ahead];                                  // its rows and offset
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        conv_task_pairs(task, list, list.first + i, pairs[i]);
#pragma unroll
        for (int j = 0; j < chunks; ++j) { // chunks past the last are never loaded
            part[i][j][0] = part[i][j][1] = make_uint4(0, 0, 0, 0);
        }
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        conv_rows_load<E, chunks, lie>(p, in, chunk, pairs[i], part[i]);
        group_of[i] = conv_pair_group_pack(pairs[i]);
        conv_task_pairs(task, list, list.first + ahead + i, pairs[i]);
    }
    uint32_t offset = ~0u; // whose weights are loaded
#pragma unroll 1
    for (int group = list.first;; group += ahead) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            if (group + i > list.last) {
                return;
            }
            if (group_of[i] >> 16 != offset) {
                offset = group_of[i] >> 16;
                conv_weights_load(weights, (int)offset, chunk, here, own);
            }
            conv_multiply<E, channel_groups, chunks>(own, here, group_of[i], part[i], task);
            __syncwarp(); // the next group may have the same outputs, in other lanes
            conv_rows_load<E, chunks, lie>(p, in, chunk, pairs[i], part[i]);
            group_of[i] = conv_pair_group_pack(pairs[i]);
            conv_task_pairs(task, list, group + i + 2 * ahead, pairs[i]);
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// Bytes of shared memory of a warp: the accumulators, and a row for pairs without a source.
SPIRA_BOTH int conv_warp_bytes(int rows, int channel_groups) {
    return ((rows + 1) * (channel_groups * 32) + 127) / 128 * 128;
}

// Bytes of shared memory of a thread block.
SPIRA_BOTH int conv_block_bytes(int rows, int channel_groups, const conv_sizes &size) {
    return size.tiles * size.slices * size.split * conv_warp_bytes(rows, channel_groups);
}

// Whether this kernel computes only the few layers that conv/hopper.cuh and conv/narrow.cuh leave
// over, as in code for sm_90a alone. Then fewer variants are compiled, which serve all layers. Code
// for plain sm_90 looks alike here; define SPIRA_PLAIN_SM90 to compile all variants.
template <typename E>
SPIRA_BOTH constexpr bool tensor_is_fallback() {
#ifdef SPIRA_PLAIN_SM90
    return false;
#else
    return sizeof(E) == 2 && !device_code_within(80, 89) && !device_code_within(91, 1000);
#endif
}

template <typename E, int channel_groups, int chunks, conv_rows lie>
SPIRA_KERNEL void __launch_bounds__(32 * conv_warps_most,
                                    chunks == 1 && !tensor_is_fallback<E>() ? 2 : 1)
    conv_tensor_kernel(const __grid_constant__ conv_tensor_params p) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) char conv_memory[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slices = p.size.slices;
    const int split = p.size.split, part = warp % split; // warps of a tile are neighbours
    const int unit = (int)blockIdx.x / p.slices;
    const int first_slice = ((int)blockIdx.x - unit * p.slices) * slices;
    const int own_tile = warp / split / slices, slice = warp / split - own_tile * slices;
    const int tile = unit * p.size.tiles + own_tile, first_row = tile * p.rows;
    const int total = min(*p.count, p.capacity), there = max(min(total - first_row, p.rows), 0);
    const int warp_bytes = conv_warp_bytes(p.rows, channel_groups);
    const int channel = (first_slice + slice) * (8 * channel_groups);
    if (unit * p.size.tiles * p.rows >= total) {
        return;
    }
    char *sums = conv_memory + warp * warp_bytes;
    conv_begin_sums<channel_groups>(p.rows + 1, sums);
    __syncwarp();
    conv_list list = {nullptr, nullptr, nullptr, 0, -1};
    if (p.layout.first && there) {
        list = conv_list_of(p, tile, part);
    } else if (part == 0) {
        list.last = (there + tile_group - 1) / tile_group - 1;
    }
    if (list.last >= list.first) {
        conv_task task = {first_row, there, (uint32_t)p.rows, shared_address(sums),
                          !p.layout.first};
        conv_weights weights;
        weights.chunk_bytes = conv_channel_groups(p.cout) * conv_fragment_bytes;
        weights.offset_bytes = p.chunks * weights.chunk_bytes;
        weights.own = (const char *)p.weights +
                      (first_slice + slice) * channel_groups * conv_fragment_bytes +
                      lane * conv_lane_bytes;
        for (int chunk = 0; chunk < p.chunks; chunk += chunks) {
            conv_walk<E, channel_groups, chunks, lie>(p, task, list, weights, chunk);
        }
    }
    if (split > 1) {
        __syncthreads();
    } else {
        __syncwarp();
    }
    // Each warp of a tile finishes some of its rows.
    const int share = (p.rows + split - 1) / split, from = part * share;
    enum { unroll = tensor_is_fallback<E>() ? 1 : 4 };
    conv_finish<E, channel_groups, unroll>(p, first_row + from, min(there - from, share), channel,
                                           from, sums - part * warp_bytes, split, warp_bytes);
#endif
}

// ---- choice -------------------------------------------------------------------------------------

// Whether this file is compiled for a GPU that runs the kernel.
SPIRA_API constexpr bool tensor_compiled() {
    return device_code_within(80, 1000);
}

// Chunks that are multiplied at a time.
SPIRA_BOTH int conv_depth(int chunks) {
    return chunks <= 2 ? chunks : conv_depth_most;
}

// Whether a layer can be cut so.
SPIRA_API bool conv_tensor_sizes_fit(const conv_shape *s, int rows, const device_info *d,
                                     const conv_sizes *size) {
    const int most = conv_warps_most, slices = conv_slices(s->cout);
    bool apt = size->tiles >= 1 && size->tiles <= most && size->slices >= 1 &&
               size->slices <= most && slices % size->slices == 0 &&
               (size->split == 1 || size->split == 2 || size->split == 4);
    return apt && size->tiles * size->slices * size->split <= most &&
           conv_block_bytes(rows, conv_slice_channel_groups(s->cout), *size) <= d->shared_max;
}

// The ways to cut a layer that are worth measuring. Returns their number. sizes: [conv_sizes_most]
SPIRA_API int conv_tensor_sizes_list(const conv_shape *s, int rows, const device_info *d,
                                     conv_sizes *sizes) {
    int count = 0, depth = conv_depth(conv_shape_chunks(s));
    for (int tiles = 1; tiles <= conv_warps_most; tiles *= 2) {
        for (int slices = 1; slices <= 4; ++slices) {
            for (int split = 1; split <= 4; split *= 2) {
                conv_sizes c = {tiles, slices, split, depth};
                if (tiles * slices * split >= 2 && conv_tensor_sizes_fit(s, rows, d, &c) &&
                    count < conv_sizes_most) {
                    sizes[count++] = c;
                }
            }
        }
    }
    return count;
}

// The choice without measurements: warps share a tile where there are few tiles.
SPIRA_API conv_sizes conv_tensor_sizes_choose(const conv_shape *s, int rows, int32_t capacity,
                                              const device_info *d) {
    conv_sizes c = {1, 1, 1, conv_depth(conv_shape_chunks(s))};
    int64_t warps = (int64_t)tile_count(capacity, rows) * conv_slices(s->cout);
    int64_t wanted = (int64_t)d->multiprocessors * (s->volume > 32 ? 32 : 10);
    while (c.split < 4 && warps * c.split < wanted && s->volume > 1) {
        c.split *= 2;
    }
    c.tiles = 4 / c.split;
    while (!conv_tensor_sizes_fit(s, rows, d, &c) && c.tiles > 1) {
        --c.tiles;
    }
    return c;
}

template <typename E, int channel_groups, int chunks, conv_rows lie>
SPIRA_API status conv_tensor_start(conv_tensor_params p, cudaStream_t stream) {
    int bytes = conv_block_bytes(p.rows, channel_groups, p.size);
    int64_t units = ceil_div(tile_count(p.capacity, p.rows), p.size.tiles);
    SPIRA_REQUIRE(units * p.slices <= INT32_MAX, status_bad_size, "capacity", p.capacity);
    SPIRA_TRY(
        status_from_cuda(cudaFuncSetAttribute(conv_tensor_kernel<E, channel_groups, chunks, lie>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                         "conv (shared memory)"));
    conv_tensor_kernel<E, channel_groups, chunks, lie>
        <<<(unsigned)(units * p.slices),
           (unsigned)(p.size.tiles * p.size.slices * p.size.split) * 32, (size_t)bytes, stream>>>(
            p);
    return status_of_launch("conv");
}

template <typename E, int channel_groups, int chunks>
SPIRA_API status conv_tensor_rows(const conv_tensor_params &p, cudaStream_t stream) {
    if constexpr (tensor_is_fallback<E>()) {
        return conv_tensor_start<E, channel_groups, chunks, conv_rows_any>(p, stream);
    } else {
        bool one = p.cin2 == 0 && p.wide_in;
        bool full = one && p.cin * (int)sizeof(E) % conv_chunk_bytes == 0;
        return full  ? conv_tensor_start<E, channel_groups, chunks, conv_rows_full>(p, stream)
               : one ? conv_tensor_start<E, channel_groups, chunks, conv_rows_wide>(p, stream)
                     : conv_tensor_start<E, channel_groups, chunks, conv_rows_any>(p, stream);
    }
}

template <typename E, int channel_groups>
SPIRA_API status conv_tensor_depth(const conv_tensor_params &p, cudaStream_t stream) {
    if constexpr (!tensor_is_fallback<E>()) {
        if (p.size.depth == 2) {
            return conv_tensor_rows<E, channel_groups, 2>(p, stream);
        }
    }
    return p.size.depth == 1 ? conv_tensor_rows<E, channel_groups, 1>(p, stream)
                             : conv_tensor_rows<E, channel_groups, 4>(p, stream);
}

template <typename E>
SPIRA_API status conv_tensor_run(const conv_tensor_params &p, cudaStream_t stream) {
    return p.cout <= 16 ? conv_tensor_depth<E, 2>(p, stream) : conv_tensor_depth<E, 4>(p, stream);
}

} // namespace spira

#endif
