// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order/key.h: from the taps of an output to its key in the ordered layout; the
// classes of the keys; the weight of a group pair. Host and device share these definitions.
// order.h explains the order.
//
// Directions. Offset (dx, dy, dz) has the direction (sign dx, sign dy, sign dz): one of 27. They
// are numbered by their L1 norm, and by (x, y, z) among those of one norm: the centre is 0, then
// come faces, edges and corners.
//
// Sectors. A sector is a box of directions: a side (dx < 0, say), a quarter (dx < 0 and dy > 0), or
// a face (dx < 0, dy = dz = 0). There are 24.
//
// Keys. An output has a number, and the key is the rank of this number in the reflected Gray code:
// neighbours in the code differ by one bit. What the bits are depends on the map (order_keys):
//   few         the columns have at most 10 directions: a bit for each of them
//   sectors     3 x 3 x 3 kernels: a bit for each sector in which the output has a tap, the first
//               sector's bit the highest
//   directions  other kernels: a bit for each of the 27 directions, and above them five for the
//               levels (z) on which the output has taps
// The highest number's bit of directions is the highest of these.
//
// Levels. Offset (dx, dy, dz) is on the middle level of five if dz = 0, else on one beside it or,
// if |dz| is beyond half of the kernel's reach, on one at its ends. Large kernels have taps in
// most directions, but those of a street lie on few levels.
//
// Classes. With few directions, each key is a class. Otherwise a table (order/table.h) divides the
// keys into 1024 classes that have about the same number of rows on average over many scans; a key
// that many rows have is a class of its own.
#ifndef SPIRA_ORDER_KEY_H
#define SPIRA_ORDER_KEY_H

#include "../offset.h"

namespace spira {

enum {
    order_directions = 27,
    order_sectors = 24,
    order_weight_most = 254,
    order_class_bits = 10,
    order_classes = 1 << order_class_bits,
    order_run = 1024, // positions that are sorted by key: 8 group pairs
};

// ---- directions ---------------------------------------------------------------------------------

// Returns the L1 norm of the direction of offset k of a kernel of size 3.
SPIRA_BOTH constexpr int order_norm(int k) {
    return (k / 9 != 1) + (k / 3 % 3 != 1) + (k % 3 != 1);
}

// Returns the number of that direction.
SPIRA_BOTH constexpr int order_number(int k) {
    int before = 0;
    for (int other = 0; other < order_directions; ++other) {
        before +=
            order_norm(other) < order_norm(k) || (order_norm(other) == order_norm(k) && other < k);
    }
    return before;
}

// order_number as a table.
struct order_numbers {
    uint8_t number[order_directions];
};

SPIRA_API order_numbers order_numbers_make() {
    order_numbers n;
    for (int k = 0; k < order_directions; ++k) {
        n.number[k] = (uint8_t)order_number(k);
    }
    return n;
}

// Returns the number of the direction of offset k of any kernel. A transposed kernel has its
// sources on the opposite side; this mirrors all directions alike and does not change the order's
// quality.
SPIRA_BOTH int order_direction(const kernel_shape *kernel, const order_numbers *n, int k) {
    triple d = kernel_lattice(kernel, k);
    int x = (d.x > 0) - (d.x < 0), y = (d.y > 0) - (d.y < 0), z = (d.z > 0) - (d.z < 0);
    return n->number[(x + 1) * 9 + (y + 1) * 3 + z + 1];
}

// ---- sectors ------------------------------------------------------------------------------------

// Returns the offsets of a 3 x 3 x 3 kernel in sector n, bit k for offset k: six sides, twelve
// quarters, six faces. The signs of x, y and z; *: any. The order within each kind was chosen on
// real scans, so that row groups have few offsets.
SPIRA_BOTH constexpr uint32_t order_sector_offsets(int n) {
    constexpr const char *sectors[order_sectors] = {
        "**-", "**+", "-**", "+**", "*-*", "*+*", //
        "*--", "*-+", "*+-", "*++",               //
        "--*", "-+*", "+-*", "++*",               //
        "-*-", "-*+", "+*-", "+*+",               //
        "-00", "+00", "0-0", "0+0", "00-", "00+",
    };
    uint32_t offsets = 0;
    for (int k = 0; k < order_directions; ++k) {
        const char signs[] = {"-0+"[k / 9], "-0+"[k / 3 % 3], "-0+"[k % 3]};
        bool has = true;
        for (int axis = 0; axis < 3; ++axis) {
            has = has && (sectors[n][axis] == '*' || sectors[n][axis] == signs[axis]);
        }
        offsets |= has ? 1u << k : 0;
    }
    return offsets;
}

// Returns the directions of sector n, bit d for direction number d.
SPIRA_BOTH constexpr uint32_t order_sector_mask(int n) {
    const uint32_t offsets = order_sector_offsets(n);
    uint32_t mask = 0;
    for (int k = 0; k < order_directions; ++k) {
        mask |= offsets >> k & 1 ? 1u << order_number(k) : 0;
    }
    return mask;
}

// Returns the sectors that contain one of these directions: sector n is bit order_sectors - 1 - n.
template <int n = 0>
SPIRA_BOTH uint32_t order_sectors_of(uint32_t directions) {
    constexpr uint32_t mask = order_sector_mask(n);
    uint32_t sectors = directions & mask ? 1u << (order_sectors - 1 - n) : 0;
    if constexpr (n + 1 < order_sectors) {
        sectors |= order_sectors_of<n + 1>(directions);
    }
    return sectors;
}

// ---- keys ---------------------------------------------------------------------------------------

enum order_keys { order_by_few, order_by_sectors, order_by_directions };

// Returns the rank of a number in the reflected Gray code.
SPIRA_BOTH uint32_t order_gray_rank(uint32_t number) {
    for (int step = 1; step < 32; step *= 2) {
        number ^= number >> step;
    }
    return number;
}

// Returns the number of this rank.
SPIRA_BOTH uint32_t order_gray_number(uint32_t rank) {
    return rank ^ rank >> 1;
}

// Returns the level of offset k: index/compact.h has the levels of a whole row (compact_levels).
SPIRA_BOTH int order_level(const kernel_shape *kernel, int k) {
    const int z = kernel_lattice(kernel, k).z, close = (kernel->size.z / 2 + 1) / 2;
    return z < -close ? 0 : z < 0 ? 1 : z == 0 ? 2 : z <= close ? 3 : 4;
}

// Returns the number of an output of a map by directions.
SPIRA_BOTH constexpr uint32_t order_level_number(uint32_t directions, uint32_t levels) {
    return levels << order_directions | directions;
}

// ---- weights ------------------------------------------------------------------------------------

// How much of a kernel's work each direction is: order_weight_most * (its columns / all columns),
// rounded down. A group pair weighs the sum over the directions all of whose bits its outputs'
// numbers have together: those in which its outputs have taps and, rarely, some more. A direction
// with taps on one of its two levels counts half.
struct order_weights {
    uint8_t weight[order_directions]; // by direction number; the sum is at most order_weight_most
    uint8_t levels;                   // that columns have, where numbers have bits of levels
    uint32_t directions;              // bit d: some column has direction d
    order_keys keys;
};

SPIRA_API order_weights order_weights_make(const kernel_shape *kernel, int threshold) {
    const order_numbers numbers = order_numbers_make();
    const int volume = kernel_volume(kernel);
    int lie[order_directions] = {}, columns = 0, levels = 0;
    for (int k = 0; k < volume; ++k) {
        if (kernel_norm(kernel, k) < threshold) {
            ++lie[order_direction(kernel, &numbers, k)];
            levels |= 1 << order_level(kernel, k);
            ++columns;
        }
    }
    order_weights w = {};
    for (int d = 0; d < order_directions; ++d) {
        w.weight[d] = (uint8_t)(lie[d] * order_weight_most / columns);
        w.directions |= lie[d] ? 1u << d : 0;
    }
    w.keys = count_bits(w.directions) <= order_class_bits       ? order_by_few
             : triple_equal(kernel->size, triple_make(3, 3, 3)) ? order_by_sectors
                                                                : order_by_directions;
    w.levels = (uint8_t)(w.keys == order_by_directions ? levels : 0);
    return w;
}

// Returns the number of the bit of a direction, unless bits are of sectors.
SPIRA_BOTH int order_bit_of(const order_weights &w, int direction) {
    const uint32_t before = (1u << direction) - 1;
    return w.keys == order_by_few ? count_bits(w.directions & before) : direction;
}

// Returns the bits that a direction sets in the number of an output.
SPIRA_BOTH uint32_t order_bits_of(const order_weights &w, int direction) {
    return w.keys == order_by_sectors ? order_sectors_of(1u << direction)
                                      : 1u << order_bit_of(w, direction);
}

// Returns the bits that a tap at offset k sets in the number of an output.
SPIRA_BOTH uint32_t order_bits_at(const order_weights &w, const kernel_shape *kernel,
                                  const order_numbers &numbers, int k) {
    const uint32_t bits = order_bits_of(w, order_direction(kernel, &numbers, k));
    return w.keys == order_by_directions ? order_level_number(bits, 1u << order_level(kernel, k))
                                         : bits;
}

// Returns the bits of the levels, two at most, on which a direction beside the middle level has
// columns.
SPIRA_BOTH uint32_t order_level_bits_of(const order_weights &w, int direction) {
    constexpr uint32_t below = order_sector_mask(0), above = order_sector_mask(1);
    const uint32_t levels =
        (below >> direction & 1 ? 3u : 0) | (above >> direction & 1 ? 3u << 3 : 0);
    return order_level_number(0, levels & w.levels);
}

// Returns what a direction of this weight adds to the weight of a group pair. bits, levels: of the
// direction; number: of the pair's outputs together
SPIRA_BOTH int order_weight_of(int weight, uint32_t bits, uint32_t levels, uint32_t number) {
    return bits & ~number ? 0 : levels & ~number ? weight / 2 : weight;
}

} // namespace spira

#endif
