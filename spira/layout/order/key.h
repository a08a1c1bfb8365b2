// spira/layout/order/key.h: from the taps of an output to its key in the ordered layout; the
// classes of the keys; the weight of a group pair. Host and device share these definitions.
// layout/order.h explains the order.
//
// Directions. Offset (dx, dy, dz) has the direction (sign dx, sign dy, sign dz): one of 27. They
// are numbered by their L1 norm, and by (x, y, z) among those of one norm: the centre is 0, then
// come faces, edges and corners.
//
// Sectors. A sector is a box of directions of a 3 x 3 x 3 kernel: a side (all offsets with dx < 0,
// say), a quarter (dx < 0 and dy > 0), or a face (dx < 0, dy = dz = 0). There are 24.
//
// Keys. The number of an output has a bit for each sector in which the output has a tap, the first
// sector's bit the highest. For other kernels it has a bit for each direction, the highest number's
// bit the highest. The key is the rank of this number in the reflected Gray code: neighbours in the
// code differ by one bit.
//
// Classes. They are the buckets of a sample sort. The keys of 2048 evenly spaced rows are dealt
// alternately to two lists, and each list is sorted. Every key of a list but the first is a
// splitter: it begins a class. If a splitter equals the one before it, the class begins just above
// it instead, so that a key of many rows has a class of its own.
#ifndef SPIRA_LAYOUT_ORDER_KEY_H
#define SPIRA_LAYOUT_ORDER_KEY_H

#include "../../offset.h"

namespace spira {

enum {
    order_directions = 27,
    order_sectors = 24,
    order_weight_most = 254,
    order_samples = 2048, // rows whose keys divide the map
    order_lists = 2,      // of samples
    order_list_samples = order_samples / order_lists,
    order_classes = order_samples,
    order_list_classes = order_classes / order_lists,
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

// The sign of an offset along an axis, as a bit: signs form sets.
enum order_sign {
    order_minus = 1,
    order_zero = 2,
    order_plus = 4,
    order_any_sign = order_minus | order_zero | order_plus,
};

SPIRA_BOTH constexpr int order_sign_of(int d) {
    return d < 0 ? order_minus : d > 0 ? order_plus : order_zero;
}

// The directions whose sign along each axis is in a set of order_sign bits.
struct order_sector {
    int8_t x, y, z;
};

// Returns the sector with the set `signs` along one axis and the set `others` along the other two.
SPIRA_BOTH constexpr order_sector order_sector_along(int axis, int signs, int others) {
    return {(int8_t)(axis == 0 ? signs : others), (int8_t)(axis == 1 ? signs : others),
            (int8_t)(axis == 2 ? signs : others)};
}

// Returns quarter n of the four around an axis.
SPIRA_BOTH constexpr order_sector order_sector_around(int axis, int n) {
    const int8_t first = n / 2 ? order_plus : order_minus;
    const int8_t second = n % 2 ? order_plus : order_minus, any = order_any_sign;
    return axis == 0   ? order_sector{any, first, second}
           : axis == 1 ? order_sector{first, any, second}
                       : order_sector{first, second, any};
}

// Returns sector n: six sides, twelve quarters, six faces. The order within each kind was chosen on
// real scans, so that row groups have few offsets.
SPIRA_BOTH constexpr order_sector order_sector_at(int n) {
    const int sides[3] = {2, 0, 1}, around[3] = {0, 2, 1};
    const int sign = n % 2 ? order_plus : order_minus;
    return n < 6    ? order_sector_along(sides[n / 2], sign, order_any_sign)
           : n < 18 ? order_sector_around(around[(n - 6) / 4], (n - 6) % 4)
                    : order_sector_along((n - 18) / 2, sign, order_zero);
}

// Returns the directions of a sector: bit d for direction number d.
SPIRA_BOTH constexpr uint32_t order_sector_mask(order_sector sector) {
    uint32_t mask = 0;
    for (int k = 0; k < order_directions; ++k) {
        const bool has = sector.x & order_sign_of(k / 9 - 1) &&
                         sector.y & order_sign_of(k / 3 % 3 - 1) &&
                         sector.z & order_sign_of(k % 3 - 1);
        mask |= has ? 1u << order_number(k) : 0;
    }
    return mask;
}

// Returns the sectors that contain one of these directions: sector n is bit order_sectors - 1 - n.
template <int n = 0>
SPIRA_BOTH uint32_t order_sectors_of(uint32_t directions) {
    constexpr uint32_t mask = order_sector_mask(order_sector_at(n));
    uint32_t sectors = directions & mask ? 1u << (order_sectors - 1 - n) : 0;
    if constexpr (n + 1 < order_sectors) {
        sectors |= order_sectors_of<n + 1>(directions);
    }
    return sectors;
}

// Returns whether a kernel is ordered by sectors: a 3 x 3 x 3 kernel, each offset of which has a
// direction of its own.
SPIRA_BOTH bool order_has_sectors(const kernel_shape *kernel) {
    return kernel->size.x == 3 && kernel->size.y == 3 && kernel->size.z == 3;
}

// ---- keys ---------------------------------------------------------------------------------------

// Returns the rank of a number in the reflected Gray code.
SPIRA_BOTH uint32_t order_gray_rank(uint32_t number) {
    for (int step = 1; step < 32; step *= 2) {
        number ^= number >> step;
    }
    return number;
}

// Returns the key of an output that has taps in these directions.
SPIRA_BOTH uint32_t order_key(bool by_sectors, uint32_t directions) {
    return order_gray_rank(by_sectors ? order_sectors_of(directions) : directions);
}

// ---- classes ------------------------------------------------------------------------------------

// Returns the row of sample i of a map of `count` rows. Sample j of a list is number
// order_lists * j + list.
SPIRA_BOTH int32_t order_sample_row(int i, int32_t count) {
    return (int32_t)((2 * (int64_t)i + 1) * count / (2 * order_samples));
}

// Returns the splitter of class c of a list, c > 0: the least key of the class.
//
// sample [order_list_samples]: ascending
SPIRA_BOTH uint32_t order_class_begin(const uint32_t *sample, int c) {
    return sample[c] + (c > 1 && sample[c] == sample[c - 1]);
}

// ---- weights ------------------------------------------------------------------------------------

// How much of a kernel's work each direction is: order_weight_most * (its columns / all columns),
// rounded down. A group pair weighs the sum over the directions in which its outputs have taps.
struct order_weights {
    uint8_t weight[order_directions]; // by direction number; the sum is at most order_weight_most
    uint32_t directions;              // bit d: some column has direction d
};

SPIRA_API order_weights order_weights_make(const kernel_shape *kernel, int threshold) {
    const order_numbers numbers = order_numbers_make();
    const int volume = kernel_volume(kernel);
    int lie[order_directions] = {}, columns = 0;
    for (int k = 0; k < volume; ++k) {
        if (kernel_norm(kernel, k) < threshold) {
            ++lie[order_direction(kernel, &numbers, k)];
            ++columns;
        }
    }
    order_weights w = {};
    for (int d = 0; d < order_directions; ++d) {
        w.weight[d] = (uint8_t)(lie[d] * order_weight_most / columns);
        w.directions |= lie[d] ? 1u << d : 0;
    }
    return w;
}

} // namespace spira

#endif
