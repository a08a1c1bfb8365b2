// spira/conv_hopper.cuh: convolution with many channels on Hopper's warpgroup instructions
// (sm_90a).
//
// A block owns a unit of outputs, some neighbouring tiles of the layout, and 128 of the output
// channels; their sums stay in shared memory, in fp32. It walks the offsets. Four warps gather the
// source rows of up to 128 pairs of an offset, a batch, into a ring of stages, 64 input channels
// each. Two warpgroups multiply a batch, each by the weights of 64 output channels, which it holds
// in registers (the product is transposed: output channels are the instruction's 64 rows, pairs its
// columns), and then add the columns to the sums. A warp owns 16 output channels of all outputs, so
// that no warp waits for another one's sums. Blocks go from unit to unit, and the gathering runs
// ahead over their borders.
#ifndef SPIRA_CONV_HOPPER_CUH
#define SPIRA_CONV_HOPPER_CUH

#include "async.cuh"
#include "conv_tile.cuh"
#include "wgmma.cuh"

namespace spira {

enum {
    hopper_stages = 5,
    hopper_columns = wgmma_columns_most, // pairs that are multiplied at a time
    hopper_stage_bytes = hopper_columns * wgmma_row_bytes,
    hopper_group = 128,    // threads of a warpgroup
    hopper_warpgroups = 2, // that multiply
    hopper_threads = (hopper_warpgroups + 1) * hopper_group,
    hopper_gatherers = 4, // warps,
    hopper_teams = 2,     // in teams
    hopper_team = hopper_gatherers / hopper_teams,
    hopper_part_channels = 64, // input channels of a stage, output channels of a warpgroup
    hopper_part_weights = 512, // of 16 bytes: 64 input channels for 64 output channels
    hopper_pitch = hopper_warpgroups * hopper_part_channels * 4, // bytes of an output's sums
    hopper_rows_most = 256,                                      // outputs of a unit
    hopper_rows_unread = 4,     // behind their sums: see hopper_shared.place
    hopper_volume_most = 128,   // offsets
    hopper_first_most = 512,    // offsets and one, of the tiles of a unit
    hopper_shared_align = 1024, // of the stages
};

// Parts of one source's channels.
SPIRA_BOTH int hopper_parts(int channels) {
    return (int)ceil_div(channels, hopper_part_channels);
}

// ---- weights ------------------------------------------------------------------------------------

// Packed weights [volume, parts of both sources, parts of cout, 4 warps, 4 steps, 32 lanes] of 16
// bytes: a lane's operand of a step. Channels beyond the ends are zero.
SPIRA_API int64_t hopper_weights(const conv_shape *s) {
    return (int64_t)s->volume * (hopper_parts(s->cin) + hopper_parts(s->cin2)) *
           hopper_parts(s->cout) * hopper_part_weights;
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    hopper_pack_kernel(conv_shape s, const float *__restrict__ weight, int64_t total,
                       E *__restrict__ packed) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) {
        return;
    }
    int lane = (int)(i % 32), step = (int)(i / 32 % 4), warp = (int)(i / 128 % 4);
    int parts1 = hopper_parts(s.cin), parts = parts1 + hopper_parts(s.cin2);
    int outs = hopper_parts(s.cout), out_part = (int)(i / hopper_part_weights % outs);
    int part = (int)(i / hopper_part_weights / outs % parts);
    int64_t k = i / hopper_part_weights / outs / parts;
    bool second = part >= parts1;
    int first = (second ? part - parts1 : part) * hopper_part_channels + step * 16 + lane % 4 * 2;
    int first_out = out_part * hopper_part_channels + warp * 16 + lane / 4;
    for (int e = 0; e < 8; ++e) {
        int channel = first + e % 2 + e / 4 * 8, out = first_out + e / 2 % 2 * 8;
        bool inside = channel < (second ? s.cin2 : s.cin) && out < s.cout;
        int64_t at = (k * (s.cin + s.cin2) + (second ? s.cin : 0) + channel) * s.cout + out;
        packed[i * 8 + e] = element_from_float<E>(inside ? weight[at] : 0.0f);
    }
}

// ---- what a block shares ------------------------------------------------------------------------

// What the multiplying warps are told of a stage, before its rows have come.
struct hopper_stage {
    uint32_t form;    // columns | part << hopper_part_shift | flags
    uint32_t weights; // which: offset * parts + part
};

enum {
    hopper_columns_mask = 0xff, // 0 where a unit has no pairs at all
    hopper_part_shift = 8,
    hopper_new_unit = 1 << 16, // the first of its unit
    hopper_end = 1 << 17,      // nothing more will come
};

struct hopper_shared {
    uint64_t empty[hopper_stages], told[hopper_stages], full[hopper_stages];
    hopper_stage stage[hopper_stages];
    // Where the sums of a column are: the shared address of the output's, the swizzle in its low
    // bits. Of the columns behind the last, up to a multiple of 32: rows that nobody reads.
    uint32_t place[hopper_stages][hopper_columns];
    int32_t source[hopper_gatherers][hopper_columns]; // rows that a warp gathers
    uint32_t scan[hopper_gatherers];
};

// The sums of 8 channels of four rows whose numbers differ modulo 4 stand in different banks.
SPIRA_DEVICE uint32_t hopper_swizzle(uint32_t row) {
    return (row & 3) << 5;
}

// A unit's batches: the pairs of one offset that are multiplied at a time.
struct hopper_batch {
    uint8_t offset, groups; // of 16
    uint16_t first;         // in hopper_memory.group
};

enum { hopper_tile_shift = 11 }; // of a group of the unit: tile, number in the tile's list

SPIRA_BOTH int hopper_groups_most(int tiles, int rows, int volume) {
    return tiles * rows * volume / tile_group;
}

// An offset's last batch is not full.
SPIRA_BOTH int hopper_batches_most(int tiles, int rows, int volume) {
    return volume + hopper_groups_most(tiles, rows, volume) * tile_group / hopper_columns;
}

SPIRA_BOTH int hopper_sums_bytes(int tiles, int rows) {
    return (tiles * rows + hopper_rows_unread) * hopper_pitch;
}

SPIRA_BOTH int hopper_first_count(int tiles, int volume) {
    return tiles * (volume + 1);
}

SPIRA_BOTH int hopper_memory_bytes(int tiles, int rows, int volume) {
    return hopper_shared_align + hopper_stages * hopper_stage_bytes +
           hopper_sums_bytes(tiles, rows) +
           hopper_first_count(tiles, volume) * (int)sizeof(int32_t) +
           2 * hopper_batches_most(tiles, rows, volume) * (int)sizeof(hopper_batch) +
           2 * hopper_groups_most(tiles, rows, volume) * (int)sizeof(uint16_t);
}

// The shared memory, and which thread looks at it. The addresses are the instructions'.
struct hopper_memory {
    uint32_t shared;       // hopper_shared
    uint32_t stages, sums; // of the dynamic memory: rows; [rows of a unit, channels]
    int32_t *first;        // [tiles, volume + 1] of a unit: tile_layout.first
    hopper_batch *batch;   // [2, hopper_batches_most] of units, even and odd
    uint16_t *group;       // [2, groups of the tiles] by offset: tile << hopper_tile_shift | number
    int lane;
};

SPIRA_DEVICE hopper_memory hopper_memory_of(const conv_tensor_params &p,
                                            const hopper_shared &shared, char *memory) {
    const int tiles = p.size.tiles;
    const int batches = hopper_batches_most(tiles, p.rows, p.volume);
    hopper_memory m;
    uint32_t base = shared_address(memory), skip = (0u - base) & (hopper_shared_align - 1);
    m.shared = shared_address(&shared);
    m.lane = threadIdx.x % 32;
    m.stages = base + skip;
    m.sums = m.stages + hopper_stages * hopper_stage_bytes;
    // In registers: the compiler would find them out again, slowly, wherever they are used.
    asm volatile("" : "+r"(m.shared), "+r"(m.lane), "+r"(m.stages), "+r"(m.sums));
    m.first = (int32_t *)(memory + (m.sums - base) + hopper_sums_bytes(tiles, p.rows));
    m.batch = (hopper_batch *)(m.first + hopper_first_count(tiles, p.volume));
    m.group = (uint16_t *)(m.batch + 2 * batches);
    return m;
}

SPIRA_DEVICE hopper_batch *hopper_batches(const conv_tensor_params &p, const hopper_memory &m,
                                          int unit) {
    return m.batch + (unit & 1) * hopper_batches_most(p.size.tiles, p.rows, p.volume);
}

SPIRA_DEVICE uint16_t *hopper_group_list(const conv_tensor_params &p, const hopper_memory &m,
                                         int unit) {
    return m.group + (unit & 1) * hopper_groups_most(p.size.tiles, p.rows, p.volume);
}

SPIRA_DEVICE uint32_t hopper_empty(const hopper_memory &m, int stage) {
    return m.shared + (uint32_t)offsetof(hopper_shared, empty) + (uint32_t)stage * 8;
}

SPIRA_DEVICE uint32_t hopper_told(const hopper_memory &m, int stage) {
    return m.shared + (uint32_t)offsetof(hopper_shared, told) + (uint32_t)stage * 8;
}

SPIRA_DEVICE uint32_t hopper_full(const hopper_memory &m, int stage) {
    return m.shared + (uint32_t)offsetof(hopper_shared, full) + (uint32_t)stage * 8;
}

SPIRA_DEVICE uint32_t hopper_place(const hopper_memory &m, int stage) {
    return m.shared + (uint32_t)offsetof(hopper_shared, place) +
           (uint32_t)(stage * hopper_columns * 4);
}

SPIRA_DEVICE uint32_t hopper_rows(const hopper_memory &m, int stage) {
    return m.stages + (uint32_t)(stage * hopper_stage_bytes);
}

// Where a warp is in the ring.
struct hopper_ring {
    int at;         // stage
    uint32_t phase; // of its barriers
};

SPIRA_DEVICE void hopper_ring_next(hopper_ring &r) {
    r.at = r.at + 1 < hopper_stages ? r.at + 1 : 0;
    r.phase ^= r.at == 0;
}

// What a block does: every so many'th unit. A unit has tiles side by side, up to p.size.tiles;
// units are as equal as they can be, and there is a whole number for each block.
struct hopper_work {
    int outputs, tiles;   // of all
    int blocks, own;      // that share the units, and which this is
    int units, all_units; // of the block
};

SPIRA_DEVICE hopper_work hopper_work_of(const conv_tensor_params &p) {
    hopper_work w;
    w.outputs = min(*p.count, p.capacity);
    w.tiles = (w.outputs + p.rows - 1) / p.rows;
    w.blocks = (int)gridDim.x / p.slices;
    w.own = (int)blockIdx.x / p.slices;
    w.units = (w.tiles + w.blocks * p.size.tiles - 1) / (w.blocks * p.size.tiles);
    w.all_units = w.units * w.blocks;
    return w;
}

// The first tile of a unit of the block, and the end.
SPIRA_DEVICE int hopper_unit_first(const hopper_work &w, int unit) {
    return (int)((int64_t)w.tiles * (w.own + unit * w.blocks) / w.all_units);
}

SPIRA_DEVICE int hopper_unit_end(const hopper_work &w, int unit) {
    return (int)((int64_t)w.tiles * (w.own + unit * w.blocks + 1) / w.all_units);
}

// ---- the batches of a unit ----------------------------------------------------------------------

// What a thread of the gathering warps reads ahead: starts of a unit's offsets.
struct hopper_first {
    enum { most = hopper_first_most / hopper_group };
    int32_t value[most];
};

SPIRA_DEVICE hopper_first hopper_first_load(const conv_tensor_params &p, const hopper_work &work,
                                            int unit) {
    hopper_first ahead = {};
    if (unit < work.units && p.layout.first) {
        int tile = hopper_unit_first(work, unit), end = hopper_unit_end(work, unit);
        const int32_t *from = p.layout.first + (int64_t)tile * (p.volume + 1);
#pragma unroll
        for (int j = 0; j < ahead.most; ++j) {
            int i = j * hopper_group + (int)threadIdx.x % hopper_group;
            ahead.value[j] = i < (end - tile) * (p.volume + 1) ? __ldg(from + i) : 0;
        }
    }
    return ahead;
}

// Groups of an offset in a unit; of the identity, a unit's groups.
SPIRA_DEVICE int hopper_groups(const conv_tensor_params &p, const hopper_work &work, int unit,
                               const int32_t *first, int offset) {
    if (offset >= p.volume) {
        return 0;
    }
    int tile = hopper_unit_first(work, unit), end = hopper_unit_end(work, unit);
    if (!p.layout.first) {
        return (min(work.outputs, end * p.rows) - tile * p.rows + tile_group - 1) / tile_group;
    }
    int groups = 0;
    for (; tile < end; ++tile, first += p.volume + 1) {
        groups += first[offset + 1] - first[offset];
    }
    return groups;
}

// The sum of the values of the threads before this one, of the gathering warps; total: of all.
SPIRA_DEVICE uint32_t hopper_scan(uint32_t value, uint32_t *warps, uint32_t *total) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % hopper_gatherers;
    uint32_t sum = value;
    for (int step = 1; step < 32; step *= 2) {
        uint32_t lower = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? lower : 0;
    }
    if (lane == 31) {
        warps[warp] = sum;
    }
    block_part_sync(1, hopper_group);
    uint32_t before = 0;
    *total = 0;
#pragma unroll
    for (int w = 0; w < hopper_gatherers; ++w) {
        before += w < warp ? warps[w] : 0;
        *total += warps[w];
    }
    return before + sum - value;
}

// Lists the batches of a unit, whose starts are in `ahead`, a thread for each offset. Returns how
// many there are: one without pairs, if there are no others.
SPIRA_DEVICE int hopper_plan(const conv_tensor_params &p, const hopper_work &work, int unit,
                             const hopper_first &ahead, const hopper_memory &memory,
                             uint32_t *warps) {
    enum { most = hopper_columns / tile_group };
    static_assert(hopper_volume_most <= hopper_group, "a thread for each offset");
    const int offset = threadIdx.x % hopper_group;
    const int32_t *first = memory.first;
#pragma unroll
    for (int j = 0; j < ahead.most; ++j) {
        int i = j * hopper_group + offset;
        if (i < hopper_first_count(p.size.tiles, p.volume)) {
            memory.first[i] = ahead.value[j];
        }
    }
    block_part_sync(1, hopper_group); // also: the unit before the last is gathered
    int groups = hopper_groups(p, work, unit, first, offset);
    uint32_t total, before;
    before =
        hopper_scan((uint32_t)((groups + most - 1) / most) << 16 | (uint32_t)groups, warps, &total);
    hopper_batch *batch = hopper_batches(p, memory, unit) + (before >> 16);
    uint16_t *group = hopper_group_list(p, memory, unit);
    int at = (int)(before & 0xffff);
    for (int done = 0; done < groups; done += most) {
        hopper_batch b = {(uint8_t)offset, (uint8_t)min(groups - done, most),
                          (uint16_t)(at + done)};
        *batch++ = b;
    }
    if (offset == 0 && !total) {
        hopper_batch none = {0, 0, 0};
        *batch = none;
    }
    for (int u = 0; u < p.size.tiles && groups; ++u, first += p.volume + 1) {
        int from = p.layout.first ? first[offset] : 0;
        int here = p.layout.first ? first[offset + 1] - from : u ? 0 : groups;
        for (int i = 0; i < here; ++i) {
            group[at++] = (uint16_t)(u << hopper_tile_shift | (from + i));
        }
    }
    block_part_sync(1, hopper_group);
    return max((int)(total >> 16), 1);
}

// ---- gathering ----------------------------------------------------------------------------------

// A lane's pairs of a batch: the source (-1: none) and the output's row in its tile, the tile;
// after hopper_compact, of those that are there, the place of their sums and the column.
struct hopper_pairs {
    enum { own = hopper_columns / 32 };
    int32_t source[own];
    uint32_t row[own], tile[own];
};

// Of a batch; tile: the first of its unit.
SPIRA_DEVICE void hopper_pairs_load(const conv_tensor_params &p, const hopper_work &work, int tile,
                                    const hopper_batch &batch, const uint16_t *group,
                                    hopper_pairs &pairs) {
#pragma unroll
    for (int j = 0; j < pairs.own; ++j) {
        uint32_t pair = j * 32 + threadIdx.x % 32;
        pairs.source[j] = -1;
        pairs.row[j] = pairs.tile[j] = 0;
        if (pair >= (uint32_t)batch.groups * tile_group) {
            continue;
        }
        uint32_t at = group[batch.first + pair / tile_group], own = at >> hopper_tile_shift;
        uint32_t in_list = (at & ((1u << hopper_tile_shift) - 1)) * tile_group + pair % tile_group;
        if (p.layout.first) {
            int64_t list = tile_begin(&p.layout, (int64_t)tile + own) + in_list;
            pairs.source[j] = __ldg(p.layout.input + list);
            pairs.row[j] = __ldg(p.layout.row + list);
            pairs.tile[j] = own;
        } else {
            int64_t row = (int64_t)tile * p.rows + in_list;
            pairs.source[j] = row < work.outputs ? (int32_t)row : -1;
            pairs.row[j] = in_list;
        }
    }
}

// Of pairs side by side, four have different rows modulo 4, and lanes that exchange their sums at a
// time have every other column.
SPIRA_DEVICE uint32_t hopper_column(uint32_t pair) {
    return (pair & ~7u) | (pair & 3) * 2 | (pair >> 2 & 1);
}

// Numbers the pairs that are there and puts their sources side by side. Returns how many.
SPIRA_DEVICE int hopper_compact(const conv_tensor_params &p, uint32_t sums, int32_t *source,
                                hopper_pairs &pairs) {
    uint32_t columns = 0, before = (1u << threadIdx.x % 32) - 1;
#pragma unroll
    for (int j = 0; j < pairs.own; ++j) {
        uint32_t there = __ballot_sync(~0u, pairs.source[j] >= 0);
        uint32_t at = columns + __popc(there & before), row = pairs.row[j];
        if (pairs.source[j] >= 0) {
            source[at] = pairs.source[j];
        }
        pairs.row[j] = sums + (pairs.tile[j] * p.rows + row) * hopper_pitch + hopper_swizzle(row);
        pairs.tile[j] = hopper_column(at);
        columns += __popc(there);
    }
    __syncwarp();
    return (int)columns;
}

// Tells where the sums of the columns are, each warp of a team those of some pairs; unread: the
// rows behind the unit's.
SPIRA_DEVICE void hopper_tell_places(const hopper_pairs &pairs, int columns, uint32_t unread,
                                     uint32_t *place) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % hopper_team;
#pragma unroll
    for (int j = 0; j < pairs.own; ++j) {
        if (j % hopper_team == warp && pairs.source[j] >= 0) {
            place[pairs.tile[j]] = pairs.row[j];
        }
    }
    if (warp == hopper_team - 1 && lane < (-columns & 31)) {
        place[hopper_column((uint32_t)(columns + lane))] =
            unread + (uint32_t)((lane & 3) * hopper_pitch) + hopper_swizzle((uint32_t)lane);
    }
}

// Copies 64 channels of the rows to a stage, a warp of a team four at a time: eight lanes a row.
template <typename E>
SPIRA_DEVICE void hopper_gather(const conv_tensor_params &p, const int32_t *source, int columns,
                                int part, uint32_t stage) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % hopper_team;
    const bool second = part >= p.chunks1, wide = second ? p.wide_in2 : p.wide_in;
    const uint32_t pitch = (uint32_t)(second ? p.cin2 : p.cin) * (uint32_t)sizeof(E);
    const int at = (second ? part - p.chunks1 : part) * wgmma_row_bytes + lane % 8 * 16;
    const bool inside = at < (int)pitch;
    const char *base = (const char *)(second ? p.in2 : p.in) + (inside ? at : 0);
#pragma unroll 2
    for (int pair = warp * 4 + lane / 8; pair < columns; pair += 4 * hopper_team) {
        uint32_t to = stage + wgmma_place(hopper_column((uint32_t)pair), lane % 8);
        const char *from = base + (uint64_t)(uint32_t)source[pair] * pitch;
        if (wide) {
            async_copy_16(to, from, inside);
        } else {
            shared_store_4(to, conv_read_each<E>(from, (int)pitch - at));
        }
    }
}

// One thread of a team tells of a stage.
SPIRA_DEVICE void hopper_tell(const hopper_memory &memory, int at, uint32_t form,
                              uint32_t weights) {
    if (threadIdx.x % (32 * hopper_team) == 0) {
        uint32_t stage = (uint32_t)offsetof(hopper_shared, stage);
        shared_store_2(memory.shared + stage + (uint32_t)(at * (int)sizeof(hopper_stage)),
                       make_uint2(form, weights));
        barrier_arrive(hopper_told(memory, at));
    }
}

// Gathers a batch into the next stages.
template <typename E>
SPIRA_DEVICE void hopper_fill(const conv_tensor_params &p, const hopper_memory &memory,
                              hopper_shared &shared, uint32_t flags, int offset,
                              hopper_pairs &pairs, hopper_ring &ring) {
    int32_t *source = shared.source[threadIdx.x / 32 % hopper_gatherers];
    const uint32_t unread = memory.sums + p.size.tiles * p.rows * hopper_pitch;
    const int columns = hopper_compact(p, memory.sums, source, pairs);
    for (int part = 0; part < p.chunks; ++part) {
        uint32_t form = (uint32_t)columns | (uint32_t)part << hopper_part_shift;
        barrier_wait(hopper_empty(memory, ring.at), ring.phase ^ 1);
        hopper_tell(memory, ring.at, form | (part ? 0 : flags),
                    (uint32_t)(offset * p.chunks + part));
        hopper_gather<E>(p, source, columns, part, hopper_rows(memory, ring.at));
        barrier_arrive_copies(hopper_full(memory, ring.at));
        if (part == p.chunks - 1) {
            hopper_tell_places(pairs, columns, unread, shared.place[ring.at]);
        }
        barrier_arrive(hopper_full(memory, ring.at));
        hopper_ring_next(ring);
    }
    __syncwarp(); // the next batch overwrites `source`
}

// Waits for the stages of another team's batch: a barrier knows its last phase only.
SPIRA_DEVICE void hopper_pass(const conv_tensor_params &p, const hopper_memory &memory,
                              hopper_ring &ring) {
    for (int part = 0; part < p.chunks; ++part) {
        barrier_wait(hopper_empty(memory, ring.at), ring.phase ^ 1);
        hopper_ring_next(ring);
    }
}

// The batches of a unit and of the next, as far as they are planned.
struct hopper_plans {
    int unit, here, next; // batches
};

// Reads the pairs of batch `own` of the unit, or of the next; false: it is not planned yet.
SPIRA_DEVICE bool hopper_look_ahead(const conv_tensor_params &p, const hopper_work &work,
                                    const hopper_memory &memory, const hopper_plans &plans, int own,
                                    hopper_pairs &pairs) {
    int unit = plans.unit + (own >= plans.here);
    own -= own >= plans.here ? plans.here : 0;
    if (unit > plans.unit && own >= plans.next) {
        return false;
    }
    hopper_pairs_load(p, work, hopper_unit_first(work, unit), hopper_batches(p, memory, unit)[own],
                      hopper_group_list(p, memory, unit), pairs);
    return true;
}

// The gathering warps: teams take batches in turns; units are planned one ahead.
template <typename E>
SPIRA_DEVICE void hopper_produce(const conv_tensor_params &p, const hopper_memory &memory,
                                 hopper_shared &shared) {
    const hopper_work work = hopper_work_of(p);
    hopper_ring ring = {0, 0};
    hopper_pairs pairs, ahead;
    hopper_first first = hopper_first_load(p, work, 0);
    hopper_plans plans = {0, 0, 0};
    int own = threadIdx.x / 32 % hopper_gatherers / hopper_team; // the team's next batch
    bool looked = false;
    if (work.units > 0) {
        plans.next = hopper_plan(p, work, 0, first, memory, shared.scan);
        first = hopper_first_load(p, work, 1);
    }
    for (; plans.unit < work.units; ++plans.unit) {
        plans.here = plans.next;
        plans.next = 0;
        if (plans.unit + 1 < work.units) {
            plans.next = hopper_plan(p, work, plans.unit + 1, first, memory, shared.scan);
            first = hopper_first_load(p, work, plans.unit + 2);
        }
        looked = looked || hopper_look_ahead(p, work, memory, plans, own, ahead);
        for (int b = 0; b < plans.here; ++b) {
            if (b != own) {
                hopper_pass(p, memory, ring);
                continue;
            }
            own += hopper_teams;
            pairs = ahead;
            looked = hopper_look_ahead(p, work, memory, plans, own, ahead);
            hopper_fill<E>(p, memory, shared, b ? 0 : hopper_new_unit,
                           hopper_batches(p, memory, plans.unit)[b].offset, pairs, ring);
        }
        own -= plans.here;
    }
    if (threadIdx.x % hopper_group < 32) {
        barrier_wait(hopper_empty(memory, ring.at), ring.phase ^ 1);
        hopper_tell(memory, ring.at, hopper_end | hopper_new_unit, 0);
    }
    async_copy_wait();
}

// ---- multiplying --------------------------------------------------------------------------------

// A lane's weights of a part, for the steps.
struct hopper_weights_part {
    uint4 step[wgmma_steps];
};

SPIRA_DEVICE hopper_weights_part hopper_weights_load(const uint4 *from) {
    hopper_weights_part w;
#pragma unroll
    for (int s = 0; s < wgmma_steps; ++s) {
        w.step[s] = __ldg(from + s * 32);
    }
    return w;
}

// A lane's sums of a batch: see wgmma.cuh.
struct hopper_sums {
    float at[hopper_columns / 2];
};

// The rows of `stages` stages, a multiple of 32, times their weights.
template <typename E, int stages, int columns>
SPIRA_DEVICE void hopper_steps(const hopper_weights_part (&weights)[2], const uint32_t (&stage)[2],
                               bool add, hopper_sums &sum) {
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < stages; ++i) {
#pragma unroll
        for (int s = 0; s < wgmma_steps; ++s) {
            wgmma_step<E, columns>(sum.at, weights[i].step[s], stage[i] + s * wgmma_step_bytes,
                                   add || i + s > 0);
        }
    }
    wgmma_finish();
}

template <typename E, int stages>
SPIRA_DEVICE void hopper_multiply(const hopper_weights_part (&weights)[2],
                                  const uint32_t (&stage)[2], int columns, bool add,
                                  hopper_sums &sum) {
    if (columns <= 32) {
        hopper_steps<E, stages, 32>(weights, stage, add, sum);
    } else if (columns <= 64) {
        hopper_steps<E, stages, 64>(weights, stage, add, sum);
    } else if (columns <= 96) {
        hopper_steps<E, stages, 96>(weights, stage, add, sum);
    } else {
        hopper_steps<E, stages, 128>(weights, stage, add, sum);
    }
}

// Where a lane's sums of 32 columns are, for each 8 of them 2 t and 2 t + 1; the second channel:
// ^ 32.
struct hopper_places {
    uint32_t at[8];
};

// own: shared address of the lane's first place; channel: bytes of its first channel from an
// output's sums
SPIRA_DEVICE hopper_places hopper_places_load(uint32_t own, uint32_t channel) {
    hopper_places places;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        uint2 two = shared_load_2(own + j * 32);
        places.at[2 * j] = two.x ^ channel;
        places.at[2 * j + 1] = two.y ^ channel;
    }
    return places;
}

// Adds to the sums of 32 columns; no two have the same output.
SPIRA_DEVICE void hopper_add(const hopper_places &places, const float *add) {
    float sum[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        sum[2 * i] = shared_load_float(places.at[i]);
        sum[2 * i + 1] = shared_load_float(places.at[i] ^ 32);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float *own = add + i / 2 * 4 + i % 2;
        shared_store_float(places.at[i], sum[2 * i] + own[0]);
        shared_store_float(places.at[i] ^ 32, sum[2 * i + 1] + own[2]);
    }
}

// Adds a warp's 16 channels of the columns to the outputs' sums; places: of the first 32.
SPIRA_DEVICE void hopper_add_all(uint32_t own, int columns, uint32_t channel, hopper_places places,
                                 const hopper_sums &sum) {
#pragma unroll
    for (int b = 0; b < hopper_columns / 32; ++b) {
        if (b * 32 >= columns) {
            break;
        }
        if (b > 0) {
            places = hopper_places_load(own + b * 128, channel);
        }
        hopper_add(places, sum.at + b * 16);
    }
    __syncwarp(); // the next columns may have the same outputs, at other lanes
}

// Finishes four channels of a unit's outputs, and leaves the sums at zero.
//
// sums: of the unit; bytes: from those of an output to the lane's, before the swizzle
template <typename E, bool wide>
SPIRA_DEVICE void hopper_finish_rows(const conv_tensor_params &p, const conv_output &output,
                                     int first_row, int there, uint32_t sums, uint32_t bytes) {
    int turn = threadIdx.x % 32 / 4;
    int own = (turn & 1) * 2 + (turn >> 1 & 1) + (turn & 4); // neighbours in different banks
#pragma unroll 2
    for (int row = own; row < there; row += 8) {
        uint32_t at =
            sums + (uint32_t)(row * hopper_pitch) + (bytes ^ hopper_swizzle((uint32_t)row));
        uint4 sum = shared_load_4(at);
        shared_store_4(at, make_uint4(0, 0, 0, 0));
        conv_output_store_as<E, wide>(p, output, first_row + row,
                                      make_float4(__uint_as_float(sum.x), __uint_as_float(sum.y),
                                                  __uint_as_float(sum.z), __uint_as_float(sum.w)));
    }
}

// Where a multiplying warp is: its 16 channels.
struct hopper_warp {
    int channel;          // the first; there may be none
    uint32_t bytes;       // of its sums from those of an output, before the swizzle
    const uint4 *weights; // the lane's of the first part
    uint32_t stride;      // to the next part's
};

SPIRA_DEVICE hopper_warp hopper_warp_of(const conv_tensor_params &p) {
    const int warp = threadIdx.x / 32 % 4, group = threadIdx.x / hopper_group;
    const int slice = (int)blockIdx.x % p.slices; // gridDim.x is a multiple of p.slices
    const int part = slice * hopper_warpgroups + group, parts = hopper_parts(p.cout);
    hopper_warp w;
    w.channel = part * hopper_part_channels + warp * 16;
    w.bytes = (uint32_t)(group * hopper_part_channels + warp * 16) * (uint32_t)sizeof(float);
    w.weights = (const uint4 *)p.weights + (int64_t)min(part, parts - 1) * hopper_part_weights +
                warp * 128 + threadIdx.x % 32;
    w.stride = (uint32_t)(parts * hopper_part_weights);
    return w;
}

// Finishes a warp's channels of a unit.
template <typename E>
SPIRA_DEVICE void hopper_finish(const conv_tensor_params &p, const hopper_work &work,
                                const hopper_warp &own, int unit, uint32_t sums) {
    const int first = hopper_unit_first(work, unit) * p.rows, quad = threadIdx.x % 4;
    const int there = min(work.outputs, hopper_unit_end(work, unit) * p.rows) - first;
    if (own.channel + quad * 4 < p.cout) {
        const conv_output output = conv_output_of(p, own.channel + quad * 4);
        const uint32_t bytes = own.bytes + (uint32_t)quad * 16;
        if (p.wide_out) {
            hopper_finish_rows<E, true>(p, output, first, there, sums, bytes);
        } else {
            hopper_finish_rows<E, false>(p, output, first, there, sums, bytes);
        }
    }
    __syncwarp();
}

// What is told of a stage. The form is the same for all lanes, as the compiler sees.
SPIRA_DEVICE hopper_stage hopper_listen(const hopper_memory &memory, const hopper_ring &ring) {
    uint32_t stage = (uint32_t)offsetof(hopper_shared, stage);
    barrier_wait(hopper_told(memory, ring.at), ring.phase);
    uint2 v =
        shared_load_2(memory.shared + stage + (uint32_t)(ring.at * (int)sizeof(hopper_stage)));
    hopper_stage s = {__shfl_sync(~0u, v.x, 0), v.y};
    return s;
}

// Gives a stage back.
SPIRA_DEVICE void hopper_release(const hopper_memory &memory, const hopper_ring &ring) {
    barrier_arrive(hopper_empty(memory, ring.at));
}

// Reads the weights of the next stage, and of the one behind it if both are multiplied at a time.
SPIRA_DEVICE void hopper_weights_next(const hopper_warp &own, uint32_t index, bool two,
                                      hopper_weights_part (&weights)[2]) {
    const uint4 *from = own.weights + (uint64_t)(index * own.stride);
    weights[0] = hopper_weights_load(from);
    if (two) {
        weights[1] = hopper_weights_load(from + own.stride);
    }
}

// A multiplying warpgroup: two stages at a time, where a batch has so many.
template <typename E>
SPIRA_DEVICE void hopper_consume(const conv_tensor_params &p, const hopper_memory &memory) {
    const hopper_work work = hopper_work_of(p);
    const hopper_warp own = hopper_warp_of(p);
    const uint32_t channel = own.bytes + (uint32_t)(memory.lane / 4 * 4),
                   place = memory.lane % 4 * 8;
    hopper_sums sum;
    hopper_weights_part weights[2];
    hopper_ring low = {0, 0};
    hopper_stage stage = hopper_listen(memory, low);
    hopper_weights_next(own, stage.weights, p.chunks > 1, weights);
    for (int unit = 0; !(stage.form & hopper_end);) {
        const int part = stage.form >> hopper_part_shift & 0xff;
        const int columns = stage.form & hopper_columns_mask;
        const bool two = part + 1 < p.chunks, last = part + 2 >= p.chunks;
        hopper_ring high = low;
        barrier_wait(hopper_full(memory, low.at), low.phase);
        if (two) {
            hopper_ring_next(high);
            barrier_wait(hopper_told(memory, high.at), high.phase);
            barrier_wait(hopper_full(memory, high.at), high.phase);
        }
        const uint32_t own_places = hopper_place(memory, high.at) + place;
        const hopper_places places = hopper_places_load(own_places, channel);
        const uint32_t rows[2] = {hopper_rows(memory, low.at), hopper_rows(memory, high.at)};
        if (two) {
            hopper_multiply<E, 2>(weights, rows, columns, part > 0, sum);
            hopper_release(memory, low);
        } else {
            hopper_multiply<E, 1>(weights, rows, columns, part > 0, sum);
        }
        low = high;
        hopper_ring_next(low);
        stage = hopper_listen(memory, low);
        hopper_weights_next(own, stage.weights,
                            (int)(stage.form >> hopper_part_shift & 0xff) + 1 < p.chunks, weights);
        if (last && own.channel < p.cout) {
            hopper_add_all(own_places, columns, channel, places, sum);
        }
        hopper_release(memory, high);
        if (stage.form & hopper_new_unit) {
            hopper_finish<E>(p, work, own, unit, memory.sums);
            ++unit;
#pragma unroll
            for (float &f : sum.at) { // so that they need no registers before
                f = 0.0f;
            }
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

template <typename E>
SPIRA_KERNEL void __launch_bounds__(hopper_threads, 1)
    hopper_kernel(const __grid_constant__ conv_tensor_params p) {
#if SPIRA_WGMMA
    extern __shared__ __align__(128) char hopper_dynamic[];
    __shared__ hopper_shared shared;
    const hopper_memory memory = hopper_memory_of(p, shared, hopper_dynamic);
    if (threadIdx.x < hopper_stages) {
        barrier_begin(&shared.empty[threadIdx.x], hopper_warpgroups * hopper_group);
        barrier_begin(&shared.told[threadIdx.x], 1);
        barrier_begin(&shared.full[threadIdx.x], 2 * 32 * hopper_team); // a team, and its copies
    }
    __syncthreads();
    if (__shfl_sync(~0u, threadIdx.x / hopper_group, 0) == hopper_warpgroups) {
        hopper_produce<E>(p, memory, shared);
    } else {
        uint32_t bytes = (uint32_t)hopper_sums_bytes(p.size.tiles, p.rows);
        for (uint32_t i = threadIdx.x * 16; i < bytes; i += hopper_warpgroups * hopper_group * 16) {
            shared_store_4(memory.sums + i, make_uint4(0, 0, 0, 0));
        }
        block_part_sync(2, hopper_warpgroups * hopper_group);
        hopper_consume<E>(p, memory);
    }
    __syncthreads();
    if (threadIdx.x < hopper_stages) {
        barrier_end(&shared.empty[threadIdx.x]);
        barrier_end(&shared.told[threadIdx.x]);
        barrier_end(&shared.full[threadIdx.x]);
    }
#endif
}

// ---- how a layer is cut -------------------------------------------------------------------------

// Whether the device has the kernel: it is compiled for sm_90a, and used there.
SPIRA_API status hopper_query(int capability, bool *there) {
    cudaFuncAttributes attributes;
    *there = false;
    if (capability == 90) {
        SPIRA_TRY(
            status_from_cuda(cudaFuncGetAttributes(&attributes, hopper_kernel<__half>), "device"));
        *there = attributes.sharedSizeBytes > 0; // without the instructions it is empty
    }
    return status_success();
}

// Which layers: told by their shape alone, since weights are packed for it.
SPIRA_API bool hopper_takes(const conv_shape *s, const conv_device *d) {
    return d->warpgroups && numeric_size(s->type) == 2 && s->volume <= hopper_volume_most &&
           s->cin + s->cin2 > hopper_part_channels && s->cout > hopper_part_channels;
}

// conv_sizes: `tiles` of a unit.
SPIRA_API bool hopper_sizes_fit(const conv_shape *s, int rows, const conv_device *d,
                                const conv_sizes *size) {
    return size->slices == 1 && size->split == 1 && size->tiles >= 1 &&
           size->tiles <= hopper_rows_most / rows &&
           hopper_first_count(size->tiles, s->volume) <= hopper_first_most &&
           hopper_memory_bytes(size->tiles, rows, s->volume) + (int)sizeof(hopper_shared) <=
               d->shared_max;
}

SPIRA_API int hopper_sizes_list(const conv_shape *s, int rows, const conv_device *d,
                                conv_sizes *sizes) {
    int count = 0;
    conv_sizes c = {1, 1, 1, 1};
    for (; hopper_sizes_fit(s, rows, d, &c); ++c.tiles) {
        sizes[count++] = c;
    }
    return count;
}

// The largest units, for the fewest fetches of the weights.
SPIRA_API conv_sizes hopper_sizes_choose(const conv_shape *s, int rows, const conv_device *d) {
    conv_sizes c = {hopper_rows_most / rows, 1, 1, 1};
    while (c.tiles > 1 && !hopper_sizes_fit(s, rows, d, &c)) {
        --c.tiles;
    }
    return c;
}

// Slices of 128 output channels.
SPIRA_API int hopper_slices(int cout) {
    return (int)ceil_div(hopper_parts(cout), hopper_warpgroups);
}

// Blocks of the grid: as many as run at a time, a multiple of the slices.
SPIRA_API int64_t hopper_blocks(const conv_tensor_params &p, const conv_device *d) {
    return max_of(min_of(tile_count(p.capacity, p.rows), d->multiprocessors / p.slices), 1) *
           p.slices;
}

template <typename E>
SPIRA_API status hopper_run(const conv_tensor_params &p, const conv_device *d,
                            cudaStream_t stream) {
    int bytes = hopper_memory_bytes(p.size.tiles, p.rows, p.volume);
    SPIRA_TRY(status_from_cuda(
        cudaFuncSetAttribute(hopper_kernel<E>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "conv (shared memory)"));
    hopper_kernel<E><<<(unsigned)hopper_blocks(p, d), hopper_threads, (size_t)bytes, stream>>>(p);
    return status_of_launch("conv");
}

} // namespace spira

#endif
