// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/status.h: how a function says that something is wrong.
//
// Host functions return a `status`. Trouble that only the device can see (a coordinate out of
// range, a duplicate, a capacity exceeded) goes to a `device_status` in the caller's device memory,
// which the caller clears before a frame and reads after it; no function of spira reads it back.
#ifndef SPIRA_STATUS_H
#define SPIRA_STATUS_H

#include "config.h"

#ifndef __CUDACC_RTC__
#include <stdio.h>
#include <string.h>
#endif

namespace spira {

enum status_code {
    status_ok = 0,
    status_null_pointer, // subject: the argument
    status_bad_size,     // subject: the argument; detail: its value
    status_workspace,    // subject: the argument; detail: the bytes needed
    status_alignment,    // subject: the argument; detail: the alignment needed
    status_kernel_size,  // detail: the size that is not supported
    status_stride,       // detail: the stride that is not supported
    status_grid,         // subject: what is wrong with the voxel size; detail: the axis
    status_bits,         // detail: how many bits of a 64-bit word are missing
    status_out_of_range, // detail: the index of the first row outside of the layout
    status_lattice,      // detail: the index of the first row off the lattice of a stride
    status_duplicate,    // detail: the index of the first row that repeats an earlier one
    status_capacity,     // detail: how many were needed
    status_not_finite,   // detail: the index of the first row with a NaN or an infinity
    status_weights,      // detail: the index of the first weight that the format cannot hold
    status_unsupported,  // subject: the combination that is refused; detail: its value, or 0
    status_layer,        // subject: what is wrong; detail: the index of the layer at fault
    status_file_open,    // subject: the path
    status_file_empty,   // subject: the path
    status_file_format,  // subject: what is wrong; detail: the byte or record at fault
    status_cuda,         // detail: the cudaError_t
};

// What a host function returns. `subject` is a string literal or one of the caller's strings.
struct [[nodiscard]] status {
    status_code code;
    const char *subject;
    int64_t detail;
    int64_t least, most; // limits of the subject; both 0: it has none
    char axis;           // of the subject: 'x', 'y' or 'z'; 0: of all or none
};

SPIRA_API status status_make(status_code code, const char *subject, int64_t detail = 0) {
    status s = {code, subject, detail, 0, 0, 0};
    return s;
}

SPIRA_API status status_success() {
    return status_make(status_ok, "", 0);
}

SPIRA_API bool status_failed(status s) {
    return s.code != status_ok;
}

struct status_row {
    const char *sentence;
    bool zero; // a detail of 0 is a value, such as a row, and not the lack of one
};

static constexpr status_row status_table[] = {
    // by code
    {"success", false},
    {"a null pointer", false},
    {"a size that is not allowed", true},
    {"memory that is too small; bytes needed", false},
    {"a pointer that is not aligned; bytes of alignment needed", false},
    {"an unsupported kernel size", true},
    {"an unsupported stride", true},
    {"an unusable voxel size; axis", true},
    {"the coordinates do not fit a 64-bit word; bits missing", false},
    {"a coordinate outside of the word layout; first row", true},
    {"a coordinate off the lattice of a stride; first row", true},
    {"a duplicate voxel; first row", true},
    {"a capacity was exceeded; needed", false},
    {"a NaN or an infinity; first row", true},
    {"a weight that is not finite in the layer's format; its index", true},
    {"an unsupported combination", false},
    {"a layer at fault; its index", true},
    {"a file that cannot be opened", false},
    {"an empty file", false},
    {"a file that cannot be read as its format", false},
    {"an error of the CUDA runtime; its number", false},
    {"an unknown status", false},
};

static_assert(sizeof status_table / sizeof *status_table == status_cuda + 2, "a row for each code");

SPIRA_API status_row status_row_of(status_code code) {
    return status_table[(unsigned)code <= status_cuda ? (int)code : status_cuda + 1];
}

// A sentence for the code alone.
SPIRA_API const char *status_string(status_code code) {
    return status_row_of(code).sentence;
}

#ifndef __CUDACC_RTC__
// Writes "subject.axis (least to most): sentence: detail" to text [size], always terminated:
// without what there is none of. Returns text. Under nvcc an error of the CUDA runtime is followed
// by the runtime's own words.
SPIRA_API char *status_text(status s, char *text, size_t size) {
    const char *more = "";
#ifdef __CUDACC__
    more = s.code == status_cuda ? cudaGetErrorString((cudaError_t)s.detail) : "";
#endif
    char axis[3] = {s.axis ? '.' : (char)0, s.axis}, limits[64] = "", detail[32] = "";
    if (s.most == INT64_MAX) {
        snprintf(limits, sizeof limits, " (at least %lld)", (long long)s.least);
    } else if (s.most && s.least == s.most) {
        snprintf(limits, sizeof limits, " (must be %lld)", (long long)s.most);
    } else if (s.least || s.most) {
        snprintf(limits, sizeof limits, " (%lld to %lld)", (long long)s.least, (long long)s.most);
    }
    if (s.detail || status_row_of(s.code).zero) {
        snprintf(detail, sizeof detail, ": %lld", (long long)s.detail);
    }
    const char *subject = s.subject ? s.subject : "?";
    const int name = (int)strcspn(subject, " "); // what it is behind that
    if (text && size) {
        snprintf(text, size, "%.*s%s%s%s%s%s%s%s%s", name, subject, axis, subject + name, limits,
                 *subject ? ": " : "", status_string(s.code), detail, *more ? ", " : "", more);
    }
    return text;
}
#endif

// Variadic, since template arguments are separated by commas.
#define SPIRA_TRY(...)                                                                             \
    do {                                                                                           \
        ::spira::status spira_try_status = (__VA_ARGS__);                                          \
        if (::spira::status_failed(spira_try_status)) {                                            \
            return spira_try_status;                                                               \
        }                                                                                          \
    } while (0)

#define SPIRA_REQUIRE(condition, code, subject, detail)                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return ::spira::status_make((code), (subject), (int64_t)(detail));                     \
        }                                                                                          \
    } while (0)

// The one rule for pointers: not null, and a multiple of `alignment` bytes, which is what the
// function reads or writes at a time.
SPIRA_API status pointer_check(const void *p, size_t alignment, const char *name) {
    SPIRA_REQUIRE(p, status_null_pointer, name, 0);
    SPIRA_REQUIRE((uintptr_t)p % alignment == 0, status_alignment, name, alignment);
    return status_success();
}

// The one rule for numbers: within limits, which the message names. most: INT64_MAX for none
SPIRA_API status size_check(int64_t value, int64_t least, int64_t most, const char *name,
                            status_code code = status_bad_size) {
    if (value >= least && value <= most) {
        return status_success();
    }
    return {code, name, value, least, most, 0};
}

// The one rule for capacities and numbers of rows.
SPIRA_API status capacity_check(int64_t capacity, const char *name) {
    return size_check(capacity, 1, INT32_MAX / 2, name);
}

// A failure on an axis, 0 to 2.
SPIRA_API status status_on_axis(status s, int axis) {
    if (status_failed(s)) {
        s.axis = "xyz"[axis];
    }
    return s;
}

// What the device found. All zero means "nothing", so that clearing it is a memset.
// The `first_*` fields hold UINT32_MAX - row: their maximum is the first row at fault.
struct device_status {
    uint32_t flags;            // device_flag bits
    uint32_t first_range;      // see above
    uint32_t first_duplicate;  // see above
    uint32_t first_not_finite; // see above
    uint32_t first_lattice;    // see above; of a map, the output with such a source near it
    uint32_t first_weight;     // the same of a weight, in the caller's order
    uint32_t needed;           // the largest count that did not fit its capacity
    // What a caller asked to drop (voxel_input) is no trouble: it is counted, and sets no flag.
    uint32_t outside;            // rows outside of the range
    uint32_t dropped_voxels;     // voxels beyond the cap, of all batch indices
    uint32_t dropped_rows;       // the rows of these voxels
    uint32_t dropped_not_finite; // rows whose x, y or z is not finite
};

enum device_flag {
    device_flag_range = 1,
    device_flag_duplicate = 2,
    device_flag_not_finite = 4,
    device_flag_capacity = 8,
    device_flag_lattice = 16, // coordinates that are no multiples of a layer's stride
    device_flag_weights = 32, // weights that are not finite in the layer's format
    device_flags_all = 63,
};

// What each flag means. A new flag needs its bit, a row here and a case in device_status_field.
struct device_flag_row {
    device_flag flag;
    status_code code;
    const char *subject;
};

// The gravest first: a capacity that was exceeded cuts off results of any row, the others concern
// the rows at fault.
static constexpr device_flag_row device_flag_table[] = {
    {device_flag_capacity, status_capacity, "capacity (of voxels, or of the pairs of a map)"},
    {device_flag_weights, status_weights, "weight"},
    {device_flag_not_finite, status_not_finite, "points"},
    {device_flag_range, status_out_of_range, "coordinates"},
    {device_flag_lattice, status_lattice, "coordinates (no multiples of a layer's stride)"},
    {device_flag_duplicate, status_duplicate, "coordinates"},
};

// The member that belongs to a flag.
SPIRA_BOTH uint32_t *device_status_field(device_status *s, device_flag flag) {
    return flag == device_flag_range       ? &s->first_range
           : flag == device_flag_duplicate ? &s->first_duplicate
           : flag == device_flag_lattice   ? &s->first_lattice
           : flag == device_flag_weights   ? &s->first_weight
           : flag == device_flag_capacity  ? &s->needed
                                           : &s->first_not_finite;
}

// What is kept of trouble with a row: the largest is the first row, or the largest count.
SPIRA_BOTH uint32_t device_status_value(device_flag flag, uint32_t row) {
    return flag == device_flag_capacity ? row : UINT32_MAX - row;
}

// Reads all of a host copy of the device's status: one trouble a call, the gravest first, with its
// first row or the count that was needed; success after the last one.
//
//     int at = 0;
//     while (status_failed(s = device_status_next(&copy, &at))) { ... }
//
// in, out  at: 0 before the first call
// errors   status_null_pointer; status_unsupported for unknown flags (detail): the status was not
//          cleared
SPIRA_API status device_status_next(const device_status *copy, int *at) {
    SPIRA_REQUIRE(copy && at, status_null_pointer, "copy", 0);
    const int rows = (int)(sizeof device_flag_table / sizeof *device_flag_table);
    device_status s = *copy;
    while (*at < rows) {
        const device_flag_row *row = &device_flag_table[(*at)++];
        if (s.flags & (uint32_t)row->flag) {
            return status_make(row->code, row->subject,
                               device_status_value(row->flag, *device_status_field(&s, row->flag)));
        }
    }
    const uint32_t unknown = s.flags & ~(uint32_t)device_flags_all;
    SPIRA_REQUIRE((*at)++ > rows || !unknown, status_unsupported,
                  "flags (of a device status that was not cleared)", unknown);
    return status_success();
}

// The gravest trouble in a host copy of the device's status, or success. device_status_next returns
// all of them.
SPIRA_API status device_status_read(const device_status *copy) {
    int at = 0;
    return device_status_next(copy, &at);
}

// The host loops record trouble the same way as device_status_raise.
// in       row: the row at fault; for device_flag_capacity, the count that was needed
SPIRA_API void device_status_note(device_status *s, device_flag flag, uint32_t row) {
    uint32_t *field = device_status_field(s, flag), value = device_status_value(flag, row);
    *field = *field > value ? *field : value;
    s->flags |= (uint32_t)flag;
}

} // namespace spira

#endif
